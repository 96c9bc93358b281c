//! Where Postgres' programs are, and as whom they run: a server refuses to be root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::target;

/// Where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// What a cluster needs; a folder that lacks one of them is not taken.
const NEEDED: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The oldest version that Baton is tested with.
const VERSION_MIN: u32 = 15;

/// Postgres on this machine.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// The major version.
    pub version: u32,
    runner: Option<Runner>,
}

/// A user without rights, for whoever is root.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    pub uid: u32,
    pub gid: u32,
}

impl Programs {
    /// Finds the newest that is new enough.
    ///
    /// # Panics
    /// If there is none: a test that cannot run has failed, and says what to do.
    #[must_use]
    pub fn find() -> Self {
        let mut found: Vec<_> = folders().into_iter().filter_map(Self::in_folder).collect();
        found.sort_by_key(|programs| programs.version);
        found.pop().unwrap_or_else(|| {
            panic!(
                "Postgres {VERSION_MIN} or newer is needed and not there: run ./check, which \
                 installs it, or `apt-get install postgresql`, or put a folder with initdb, \
                 pg_ctl and postgres on the PATH"
            )
        })
    }

    fn in_folder(folder: PathBuf) -> Option<Self> {
        if !NEEDED.iter().all(|name| folder.join(name).exists()) {
            return None;
        }
        let told = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
        let version = major(&String::from_utf8_lossy(&told.stdout))?;
        (version >= VERSION_MIN).then(|| Self { folder, version, runner: runner() })
    }

    /// One of the programs, run as whoever may run a server, in a folder that this one can enter.
    pub(super) fn command(&self, name: &str) -> Command {
        self.as_runner(Command::new(self.folder.join(name)))
    }

    /// Any command, as whoever may run a server.
    pub(super) fn as_runner(&self, mut command: Command) -> Command {
        if let Some(runner) = self.runner {
            command.uid(runner.uid).gid(runner.gid);
        }
        command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        command
    }

    /// Gives a file or folder to whoever may run a server.
    pub(super) fn hand_over(&self, path: &Path) {
        if let Some(runner) = self.runner {
            let given = std::os::unix::fs::lchown(path, Some(runner.uid), Some(runner.gid));
            given
                .unwrap_or_else(|error| panic!("{} cannot be given away: {error}", path.display()));
        }
    }
}

/// The number in `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
fn major(told: &str) -> Option<u32> {
    let version = told.split_once("(PostgreSQL) ")?.1;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

/// Everywhere that Postgres may be: what `./check` installed, what is on the path, what the system
/// keeps off it.
#[expect(clippy::disallowed_methods, reason = "the path is where programs are looked for")]
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![target().join("tools/postgres/bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&path) {
        // A link to a single program leads to the folder that holds all of them.
        let program = fs::canonicalize(folder.join("postgres")).ok();
        folders.extend(program.as_deref().and_then(Path::parent).map(Path::to_owned));
    }
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders
}

/// Who runs the server: nobody else if this process is not root.
fn runner() -> Option<Runner> {
    let own = fs::metadata("/proc/self").expect("Linux tells a process about itself").uid();
    if own != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let named = |name: &str| users.lines().find_map(|line| user(line, name));
    let runner = ["postgres", "nobody"].into_iter().find_map(named);
    Some(runner.expect("every machine has a user `nobody`"))
}

/// The user of this name, if the line is about it.
fn user(line: &str, name: &str) -> Option<Runner> {
    let mut fields = line.split(':');
    (fields.next()? == name).then_some(())?;
    let mut number = |skip: usize| fields.nth(skip)?.parse().ok();
    Some(Runner { uid: number(1)?, gid: number(0)? })
}

#[cfg(test)]
mod tests;
