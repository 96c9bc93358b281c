//! The locks of one database file: between connections of one process, and on its shared memory.

use std::collections::HashMap;
use std::os::raw::c_int;
use std::sync::atomic::AtomicU64;

use libsqlite3_sys as ffi;

/// One opening of a file; locks belong to it and end with it.
pub(super) type Handle = u64;

/// How far an opening has locked a file, in the order in which SQLite climbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

impl Level {
    pub(super) fn from_code(code: c_int) -> Self {
        match code {
            ffi::SQLITE_LOCK_NONE => Self::None,
            ffi::SQLITE_LOCK_SHARED => Self::Shared,
            ffi::SQLITE_LOCK_RESERVED => Self::Reserved,
            ffi::SQLITE_LOCK_PENDING => Self::Pending,
            _ => Self::Exclusive,
        }
    }
}

/// Who holds which lock on a file.
#[derive(Default)]
pub(super) struct FileLocks {
    held: HashMap<Handle, Level>,
}

impl FileLocks {
    /// Climbs to `wanted`; false means that another opening is in the way.
    pub(super) fn lock(&mut self, who: Handle, wanted: Level) -> bool {
        if self.held.get(&who).is_some_and(|&held| held >= wanted) {
            return true;
        }
        let others =
            self.held.iter().filter(|&(&other, _)| other != who).map(|(_, &level)| level).max();
        let others = others.unwrap_or(Level::None);
        let granted = match wanted {
            Level::None => Some(Level::None),
            Level::Shared => (others < Level::Pending).then_some(Level::Shared),
            Level::Reserved => (others < Level::Reserved).then_some(Level::Reserved),
            // A writer that must wait for readers keeps new ones out, or it would wait for ever.
            Level::Pending | Level::Exclusive if others == Level::Shared => Some(Level::Pending),
            Level::Pending | Level::Exclusive => (others == Level::None).then_some(wanted),
        };
        if let Some(level) = granted {
            self.held.insert(who, level);
        }
        granted == Some(wanted)
    }

    /// Climbs down to `level`.
    pub(super) fn unlock(&mut self, who: Handle, level: Level) {
        if level == Level::None {
            self.held.remove(&who);
        } else {
            self.held.insert(who, level);
        }
    }

    /// Whether anyone is about to write.
    pub(super) fn reserved(&self) -> bool {
        self.held.values().any(|&level| level >= Level::Reserved)
    }
}

/// The size of every piece of shared memory that SQLite asks for.
pub(super) const REGION_BYTES: usize = 32_768;

/// A piece of shared memory. SQLite reaches into it from several threads and keeps its own order,
/// so the words are atomic and never read here.
pub(super) type Region = Box<[AtomicU64; REGION_BYTES / 8]>;

/// The shared memory beside a database, and its eight locks.
#[derive(Default)]
pub(super) struct SharedMemory {
    regions: Vec<Region>,
    users: HashMap<Handle, Held>,
}

/// The locks that one user holds, a bit for each.
#[derive(Clone, Copy, Default)]
struct Held {
    shared: u32,
    exclusive: u32,
}

impl SharedMemory {
    pub(super) fn join(&mut self, who: Handle) {
        self.users.entry(who).or_default();
    }

    /// Ends `who`'s use. The memory goes with the last user, as it does with the last process.
    pub(super) fn leave(&mut self, who: Handle) {
        self.users.remove(&who);
        if self.users.is_empty() {
            self.regions.clear();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Adds zeroed regions until there are `count`.
    pub(super) fn grow(&mut self, count: usize) {
        while self.regions.len() < count {
            self.regions.push(Box::new([const { AtomicU64::new(0) }; REGION_BYTES / 8]));
        }
    }

    pub(super) fn region(&self, index: usize) -> Option<&Region> {
        self.regions.get(index)
    }

    /// Takes the locks `mask`; false means that another user is in the way.
    pub(super) fn lock(&mut self, who: Handle, mask: u32, exclusive: bool) -> bool {
        let blocked = self.users.iter().any(|(&other, held)| {
            let barring = if exclusive { held.shared | held.exclusive } else { held.exclusive };
            other != who && barring & mask != 0
        });
        if !blocked {
            let held = self.users.entry(who).or_default();
            let bits = if exclusive { &mut held.exclusive } else { &mut held.shared };
            *bits |= mask;
        }
        !blocked
    }

    pub(super) fn unlock(&mut self, who: Handle, mask: u32) {
        let held = self.users.entry(who).or_default();
        held.shared &= !mask;
        held.exclusive &= !mask;
    }
}
