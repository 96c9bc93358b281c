//! Processes of this machine, by number and start. Looking at one is no proof of anything but that one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::Pid;

use super::told::Process;

/// How many parents are looked at before somebody is taken for a stranger; deeper trees are none that
/// an agent makes by accident.
const PARENTS_MAX: usize = 256;
/// The field of /proc/PID/stat with the parent, counted behind the name of the program.
const FIELD_PARENT: usize = 1;
/// The field with the start, counted likewise.
const FIELD_STARTED: usize = 19;

/// Says which boot this is.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The process that has a number now.
pub(super) fn by_pid(pid: Pid) -> io::Result<Process> {
    let pid = pid.as_raw_nonzero().get();
    let started = field(pid, FIELD_STARTED)?;
    let started = started.parse().map_err(|_| io::Error::other("a process without a start"))?;
    Ok(Process { pid, started })
}

impl Process {
    /// Whether it is still there, reaped or not; the number alone is not enough.
    pub(super) fn is_there(self) -> bool {
        Pid::from_raw(self.pid).is_some_and(|pid| by_pid(pid).is_ok_and(|found| found == self))
    }
}

/// The children of a process; those of this process are certain, those of others may have changed.
pub(super) fn children(pid: Pid) -> io::Result<Vec<Pid>> {
    let raw = pid.as_raw_nonzero().get();
    let text = fs::read_to_string(format!("/proc/{raw}/task/{raw}/children"))?;
    Ok(text.split_whitespace().filter_map(|one| one.parse().ok().and_then(Pid::from_raw)).collect())
}

/// The inode of a process's namespace of processes.
pub(super) fn namespace(pid: Pid) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{}/ns/pid", pid.as_raw_nonzero()))?.ino())
}

/// Whether a process descends from another one.
pub(super) fn descends(pid: Pid, from: Pid) -> bool {
    let mut pid = pid.as_raw_nonzero().get();
    for _ in 0..PARENTS_MAX {
        if pid == from.as_raw_nonzero().get() {
            return true;
        }
        match field(pid, FIELD_PARENT).map(|parent| parent.parse()) {
            Ok(Ok(parent)) if parent > 0 => pid = parent,
            Ok(_) | Err(_) => return false,
        }
    }
    // Nobody is that deep by accident.
    true
}

/// A field of a process's line, counted from its state.
fn field(pid: i32, number: usize) -> io::Result<String> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold anything, also parentheses and blanks.
    let (_, rest) =
        line.rsplit_once(')').ok_or_else(|| io::Error::other("no line of a process"))?;
    let found = rest.split_whitespace().nth(number).map(str::to_owned);
    found.ok_or_else(|| io::Error::other("a short line of a process"))
}

#[cfg(test)]
mod tests;
