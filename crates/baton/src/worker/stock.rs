//! How much room a worker has: places for agents, and the memory and the disk for one more.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use baton_domain::ids::AttemptId;

/// Who has which place. A run counts from the moment it was promised room.
#[derive(Clone, Debug)]
pub struct Stock {
    places: u16,
    taken: BTreeMap<AttemptId, u16>,
    /// Credits that the server has and has not used.
    promised: u16,
}

impl Stock {
    /// Nobody is there.
    #[must_use]
    pub fn new(places: u16) -> Self {
        Self { places, taken: BTreeMap::new(), promised: 0 }
    }

    /// A server that comes, or comes again, was promised nothing.
    pub fn forget_promises(&mut self) {
        self.promised = 0;
    }

    /// How much more room can be promised, which is promised with this.
    pub fn promise(&mut self) -> u16 {
        let taken = u16::try_from(self.taken.len()).unwrap_or(u16::MAX);
        let more = self.places.saturating_sub(taken).saturating_sub(self.promised);
        self.promised += more;
        more
    }

    /// A run has come: its place, the lowest that is free. One more than there are places gets one beyond
    /// them: it is somebody whom a worker before this one took in.
    pub fn take(&mut self, attempt: AttemptId) -> u16 {
        self.promised = self.promised.saturating_sub(1);
        if let Some(place) = self.taken.get(&attempt) {
            return *place;
        }
        let free = |place: &u16| !self.taken.values().any(|taken| taken == place);
        let place = (0..u16::MAX).find(free).unwrap_or(u16::MAX);
        self.taken.insert(attempt, place);
        place
    }

    /// The same for one that has its place already; whoever sits there moves nobody.
    pub fn keep(&mut self, attempt: AttemptId, place: u16) {
        self.taken.insert(attempt, place);
    }

    /// It is over.
    pub fn free(&mut self, attempt: AttemptId) {
        self.taken.remove(&attempt);
    }
}

/// What is too little for one more agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// Free memory, and how much there must be.
    Memory { left: u64, floor: u64 },
    /// Room on the disk of the data folder, and how much there must be.
    Disk { left: u64, floor: u64 },
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, knob, left, floor) = match self {
            Self::Memory { left, floor } => ("memory", "memory_floor", left, floor),
            Self::Disk { left, floor } => ("disk", "disk_floor", left, floor),
        };
        let (left, floor) = (left >> 20, floor >> 20);
        write!(f, "{left} MiB of {what} are left, and `{knob}` is {floor} MiB")
    }
}

/// What is too little for one more agent whose files are in this folder, if anything is.
#[must_use]
pub fn short(folder: &Path, memory_floor: u64, disk_floor: u64) -> Option<Short> {
    let below = |left: Option<u64>, floor: u64| left.filter(|left| *left < floor);
    if let Some(left) = below(memory_left(), memory_floor) {
        return Some(Short::Memory { left, floor: memory_floor });
    }
    let left = below(disk_left(folder), disk_floor)?;
    Some(Short::Disk { left, floor: disk_floor })
}

/// Bytes that this user may still write where the folder is. None if nobody tells.
fn disk_left(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    room.f_bavail.checked_mul(room.f_frsize)
}

/// Bytes of memory that one more agent could have: what the machine has left, or what the group of this
/// process may still use, whichever is less. None if nobody tells.
#[must_use]
pub fn memory_left() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let of_group = group_of(&groups).and_then(|group| left_in(&root.join(group)));
    match (machine, of_group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn group_of(cgroup: &str) -> Option<&str> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(own.trim_end_matches('/'))
}

fn left_in(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
    };
    // A group without a bound says `max`.
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests;
