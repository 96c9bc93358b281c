//! A control group for one attempt, where this machine lets us make one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// A control group of our own making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one below the group that this process is in.
    pub(super) fn make(name: &str) -> io::Result<Self> {
        let path = own()?.join(name);
        fs::create_dir(&path).map_err(|error| told("make a group", &path, &error))?;
        let group = Self { path };
        // Without the one way to kill everything in it at once it is of no use.
        if !group.path.join("cgroup.kill").exists() {
            group.remove();
            return Err(io::Error::other("cgroup.kill needs Linux 5.14"));
        }
        Ok(group)
    }

    /// One that was made before.
    pub(super) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into it, with all that it will start.
    pub(super) fn enter(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &pid.as_raw_nonzero().to_string())
    }

    /// Kills everything that is in it.
    pub(super) fn kill(&self) -> io::Result<()> {
        self.write("cgroup.kill", "1")
    }

    /// Stops the time of everything that is in it, or lets it go on.
    pub(super) fn freeze(&self, frozen: bool) -> io::Result<()> {
        self.write("cgroup.freeze", if frozen { "1" } else { "0" })
    }

    /// Whether nothing is in it. One that is gone held nothing.
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|line| line == "populated 0")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Takes it away, if nothing is in it.
    pub(super) fn remove(&self) {
        // An empty group that stays costs nothing and lies to nobody.
        drop(fs::remove_dir(&self.path));
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let path = self.path.join(name);
        fs::write(&path, value).map_err(|error| told("write to", &path, &error))
    }
}

/// Where the second version of control groups is mounted, if it is.
pub(super) fn mounted() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut words = mounts.lines().map(|line| line.split(' '));
    let found = words.find_map(|mut words| {
        let place = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| place.to_owned())
    });
    found.map(PathBuf::from)
}

/// The group that this process is in.
fn own() -> io::Result<PathBuf> {
    let root = mounted().ok_or_else(|| io::Error::other("cgroup2 is not mounted"))?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    Ok(root.join(own.ok_or_else(|| io::Error::other("no cgroup2 in /proc/self/cgroup"))?))
}

fn told(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
}
