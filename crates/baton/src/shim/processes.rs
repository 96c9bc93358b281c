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

/// The first of four fields with processor time: its own and that of children that it waited for, each
/// in the program and in the kernel.
const FIELD_SPENT: usize = 11;
/// How Linux tells processor time, whatever it counts by itself.
const TICK_MS: u64 = 10;
/// Processes that are looked at for what they spent.
const SPENDERS_MAX: usize = 4_096;

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

/// The processor time that everybody below a process has used, those included that it has seen end. It is
/// a look in passing: who comes and goes meanwhile may be missed.
pub(super) fn spent_below_ms(root: Process) -> u64 {
    let mut below = vec![root.pid];
    let (mut next, mut ticks) = (0, 0_u64);
    while let Some(pid) = below.get(next).copied().filter(|_| next < SPENDERS_MAX) {
        // What the root did itself is not theirs.
        let own = if next == 0 { 2 } else { 0 };
        let fields = fields(pid).unwrap_or_default();
        let spent = fields.split_whitespace().skip(FIELD_SPENT + own).take(4 - own);
        ticks += spent.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        below.extend(children_of_threads(pid));
        next += 1;
    }
    ticks * TICK_MS
}

/// The children of all threads of a process.
fn children_of_threads(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|one| fs::read_to_string(one.path().join("children")).ok());
    let numbers = |text: String| -> Vec<i32> {
        text.split_whitespace().filter_map(|one| one.parse().ok()).collect()
    };
    children.flat_map(numbers).collect()
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
    let found = fields(pid)?.split_whitespace().nth(number).map(str::to_owned);
    found.ok_or_else(|| io::Error::other("a short line of a process"))
}

/// The line of a process from its state on.
fn fields(pid: i32) -> io::Result<String> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program may hold anything, also parentheses and blanks.
    let rest = line.rsplit_once(')').map(|(_, rest)| rest.to_owned());
    rest.ok_or_else(|| io::Error::other("no line of a process"))
}

#[cfg(test)]
mod tests;
