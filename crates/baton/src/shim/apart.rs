//! What makes a namespace a room of its own: who its users are, what it sees, what it may do.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::process::{Pid, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use serde::{Deserialize, Serialize};

use super::cgroup;
use super::spec::Spec;

/// Doors to daemons that would start processes for an agent outside of its tree.
const DOORS: [&str; 9] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/var/spool/cron",
    "/var/spool/at",
    "/run/crio/crio.sock",
];

/// What an agent that is root may do inside: own files and change between users. Not among them: mounts,
/// other processes' memory, raw sockets.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);
/// Capabilities that a kernel may know; those that it does not know are refused one by one.
const CAPABILITIES_MAX: u32 = 64;

/// What nothing that is mounted for an agent may bring along.
const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Where everybody keeps things for a while: the doors of other daemons of the same user stand there, too.
const SHARED: [&str; 2] = ["/tmp", "/var/tmp"];

/// What became of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Room {
    pub(super) own_proc: bool,
    pub(super) own_tmp: bool,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) fixed: Vec<PathBuf>,
}

/// Names the users of a new namespace, from outside: everybody keeps their number. Whoever may name
/// all of them does, so that root's agent can own files for others.
pub(super) fn name_users(pid: Pid) -> io::Result<()> {
    let own = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    if same(&own("uid_map"), "uid_map").and_then(|()| same(&own("gid_map"), "gid_map")).is_ok() {
        return Ok(());
    }
    let uid = geteuid().as_raw();
    fs::write(own("uid_map"), format!("{uid} {uid} 1\n"))?;
    // Without this a group that means less access could be left.
    fs::write(own("setgroups"), "deny")?;
    let gid = getegid().as_raw();
    fs::write(own("gid_map"), format!("{gid} {gid} 1\n"))
}

/// Maps every id that we know ourselves to itself.
fn same(path: &str, own: &str) -> io::Result<()> {
    let known = fs::read_to_string(format!("/proc/self/{own}"))?;
    let mut map = String::new();
    for line in known.lines() {
        let mut words = line.split_whitespace();
        if let (Some(first), Some(_), Some(count)) = (words.next(), words.next(), words.next()) {
            map.push_str(&format!("{first} {first} {count}\n"));
        }
    }
    fs::write(path, map)
}

/// Makes a room of the mounts, from inside. Whatever the machine denies is left as it is, and told.
pub(super) fn furnish(spec: &Spec, folder: &Path) -> Room {
    let mut room = Room { own_proc: has_own_proc(), ..Room::default() };
    room.own_tmp = spec.tmp.as_deref().is_some_and(|tmp| has_own_tmp(spec, tmp));
    if let Some(groups) = cgroup::mounted() {
        let bound = mount_bind(&groups, &groups);
        let _ = bound.and_then(|()| {
            mount_remount(&groups, QUIET | MountFlags::BIND | MountFlags::RDONLY, "")
        });
    }
    let session = PathBuf::from(format!("/run/user/{}", geteuid().as_raw()));
    let wanted = DOORS.iter().map(PathBuf::from).chain([session, folder.to_owned()]);
    for path in wanted.chain(spec.hidden.iter().cloned()) {
        let windows = windows(spec, &path);
        let done = if windows.is_empty() { hide(&path) } else { veil(&path, &windows) };
        if done.is_ok() {
            room.hidden.push(path);
        }
    }
    // Last, and with everything that is mounted below by now: what is hidden in there stays so.
    let fixed = spec.fixed.iter().filter(|path| fix(path).is_ok());
    room.fixed = fixed.cloned().collect();
    room
}

/// What is seen of a folder that is hidden.
struct Window<'a> {
    path: &'a Path,
    sort: Sort,
}

/// What may be done through a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Everything.
    Own,
    /// Reading.
    Shown,
    /// Reading and running; that nobody changes it is seen to elsewhere.
    Fixed,
}

/// What of a folder the agent is to see all the same: its own places, and what it may read.
fn windows<'a>(spec: &'a Spec, hidden: &Path) -> Vec<Window<'a>> {
    let own = [&spec.cwd, &spec.home].into_iter().chain(&spec.tmp);
    let own = own.map(|path| Window { path, sort: Sort::Own });
    let shown = spec.shown.iter().map(|path| Window { path, sort: Sort::Shown });
    own.chain(shown).filter(|window| window.path.starts_with(hidden)).collect()
}

/// Lays an empty folder over another one, in which nothing is but the windows. What comes to be in the
/// folder later is not seen either.
fn veil(path: &Path, windows: &[Window<'_>]) -> io::Result<()> {
    let behind = behind(windows)?;
    mount("none", path, "tmpfs", QUIET, Some(c"size=64k,mode=0555"))?;
    open_windows(windows, &behind)?;
    Ok(mount_remount(path, QUIET | MountFlags::RDONLY, "")?)
}

/// What windows show, held before anything lies over it.
fn behind(windows: &[Window<'_>]) -> io::Result<Vec<OwnedFd>> {
    windows.iter().map(|window| held(window.path)).collect()
}

fn held(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn bind(behind: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(format!("/proc/self/fd/{}", behind.as_raw_fd()), path)?)
}

fn open_windows(windows: &[Window<'_>], behind: &[OwnedFd]) -> io::Result<()> {
    for (window, behind) in windows.iter().zip(behind) {
        fs::create_dir_all(window.path)?;
        bind(behind, window.path)?;
        if window.sort == Sort::Shown {
            let read = QUIET | MountFlags::BIND | MountFlags::RDONLY;
            mount_remount(window.path, read, "")?;
        }
    }
    Ok(())
}

/// Lays the agent's own folder over those that everybody uses. What it works with may lie in there and is
/// seen all the same.
fn has_own_tmp(spec: &Spec, tmp: &Path) -> bool {
    // It may itself lie in one of them, where it is not found once that is covered.
    let Ok(own) = held(tmp) else { return false };
    let over = |place: &str| -> io::Result<()> {
        let place = Path::new(place);
        // A link leads to the other one of them, and what is not there is shared with nobody.
        if fs::symlink_metadata(place).map_or(true, |found| found.is_symlink()) {
            return Ok(());
        }
        let fixed = spec.fixed.iter().map(|path| Window { path, sort: Sort::Fixed });
        let fixed = fixed.filter(|window| window.path.starts_with(place));
        let windows: Vec<_> = windows(spec, place).into_iter().chain(fixed).collect();
        if windows.iter().any(|window| window.path == place) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let behind = behind(&windows)?;
        bind(&own, place)?;
        mount_remount(place, MountFlags::BIND | kept(place)?, "")?;
        open_windows(&windows, &behind)
    };
    SHARED.iter().all(|place| over(place).is_ok())
}

/// Lets nobody change what is in a folder; what is mounted below it keeps its own rules.
fn fix(path: &Path) -> io::Result<()> {
    bind(&held(path)?, path)?;
    Ok(mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | kept(path)?, "")?)
}

/// What a mount forbids already must stay forbidden, or the kernel refuses to change it.
fn kept(path: &Path) -> io::Result<MountFlags> {
    let flags = rustix::fs::statvfs(path)?.f_flag;
    let mut kept = MountFlags::NOSUID | MountFlags::NODEV;
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        kept |= MountFlags::NOEXEC;
    }
    Ok(kept)
}

/// Makes mounts private and lets /proc show the processes of this namespace: numbers mean something else in
/// here, and whoever looks should see its own.
pub(super) fn has_own_proc() -> bool {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).and_then(|()| mount("proc", "/proc", "proc", QUIET, None)).is_ok()
}

fn hide(path: &Path) -> io::Result<()> {
    // What a link leads to is what would be reached.
    if fs::metadata(path)?.is_dir() {
        let flags = QUIET | MountFlags::RDONLY;
        return Ok(mount("none", path, "tmpfs", flags, Some(c"size=4k,mode=0555"))?);
    }
    Ok(mount_bind("/dev/null", path)?)
}

/// Gives up what would open the room again; for good, and for everything that is started.
pub(super) fn give_up_powers() -> io::Result<()> {
    let kept = if geteuid().is_root() { KEPT } else { CapabilitySet::empty() };
    for number in 0..CAPABILITIES_MAX {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(one) {
            // The kernel refuses those that it does not have.
            let _ = remove_capability_from_bounding_set(one);
        }
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: none },
    )?)
}
