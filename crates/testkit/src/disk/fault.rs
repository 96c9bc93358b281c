//! Faults: which I/O fails, how, and whether it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What goes wrong. Counting starts when the fault is armed: `at: 1` is the very next I/O.
///
/// An I/O is a read, write, truncation, sync, creation, deletion or growth of the shared memory.
/// A write that fails may still have put its first sectors into the file. A sync that fails, for
/// whatever reason, takes with it all that it was to save: a later sync succeeds without saving
/// that, except the sectors written again meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One I/O fails; all others succeed.
    EioOnce {
        /// The I/O that fails.
        at: u64,
    },
    /// Every I/O fails, until [`heal`](super::Disk::heal).
    EioSticky {
        /// The first I/O that fails.
        at: u64,
    },
    /// What needs space fails, until [`free_space`](super::Disk::free_space).
    NoSpace {
        /// The first I/O that finds no space.
        at: u64,
        /// Whether writing over what is there needs space too, as it does on a file system that
        /// copies on write. Growing and creating files always needs it.
        rewrites: bool,
    },
    /// One sync fails.
    SyncFails {
        /// The sync that fails; only syncs count.
        at: u64,
    },
    /// Syncs claim success and do nothing.
    ///
    /// No promise holds on such a disk. It shows that a checker would notice.
    SyncLies {
        /// The first sync that lies; only syncs count.
        at: u64,
    },
}

/// A fault that was armed; it tells how often it struck.
#[derive(Clone, Debug)]
pub struct Armed {
    fired: Arc<AtomicU64>,
}

impl Armed {
    /// How many I/Os have failed by this fault so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }
}

/// The kinds of I/O that faults tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Io {
    Read,
    Write { grows: bool },
    Truncate,
    Sync,
    Create,
    Delete,
    SharedMemory,
}

/// What an I/O is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeed,
    Fail,
    LackSpace,
    /// Claim success, do nothing.
    Lie,
}

/// The faults armed on one disk.
#[derive(Default)]
pub(super) struct Faults {
    armed: Vec<Trigger>,
    fired: u64,
    total: u64,
}

struct Trigger {
    fault: Fault,
    seen: u64,
    fired: Arc<AtomicU64>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: Fault) -> Armed {
        let fired = Arc::new(AtomicU64::new(0));
        self.armed.push(Trigger { fault, seen: 0, fired: Arc::clone(&fired) });
        Armed { fired }
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    pub(super) fn free_space(&mut self) {
        self.armed.retain(|trigger| !matches!(trigger.fault, Fault::NoSpace { .. }));
    }

    /// All I/Os counted since the disk was made.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// All I/Os that any fault has struck.
    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    /// Counts an I/O and decides on it; the fault armed first wins, the others count on.
    pub(super) fn decide(&mut self, io: Io) -> Outcome {
        self.total += 1;
        let mut decided = Outcome::Succeed;
        for trigger in &mut self.armed {
            let outcome = trigger.decide(io);
            if decided == Outcome::Succeed && outcome != Outcome::Succeed {
                trigger.fired.fetch_add(1, Ordering::Relaxed);
                self.fired += 1;
                decided = outcome;
            }
        }
        decided
    }
}

impl Trigger {
    fn decide(&mut self, io: Io) -> Outcome {
        let counts = match self.fault {
            Fault::EioOnce { .. } | Fault::EioSticky { .. } | Fault::NoSpace { .. } => true,
            Fault::SyncFails { .. } | Fault::SyncLies { .. } => io == Io::Sync,
        };
        if !counts {
            return Outcome::Succeed;
        }
        self.seen += 1;
        let (strikes, outcome) = match self.fault {
            Fault::EioOnce { at } | Fault::SyncFails { at } => (self.seen == at, Outcome::Fail),
            Fault::EioSticky { at } => (self.seen >= at, Outcome::Fail),
            Fault::SyncLies { at } => (self.seen >= at, Outcome::Lie),
            Fault::NoSpace { at, rewrites } => {
                (self.seen >= at && needs_space(io, rewrites), Outcome::LackSpace)
            }
        };
        if strikes { outcome } else { Outcome::Succeed }
    }
}

fn needs_space(io: Io, rewrites: bool) -> bool {
    match io {
        Io::Write { grows } => grows || rewrites,
        Io::Create | Io::SharedMemory => true,
        Io::Read | Io::Truncate | Io::Sync | Io::Delete => false,
    }
}
