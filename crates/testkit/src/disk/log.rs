//! What a disk was asked to do, in order.

use std::fmt;
use std::sync::Arc;

/// A file as the disk knows it: the same number from creation to deletion, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Inode(pub(super) u64);

/// A change of a file's bytes that a sync makes durable.
#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, data: Arc<[u8]> },
    Truncate { len: usize },
}

/// A change of the directory that a sync of the directory makes durable.
#[derive(Clone)]
pub(super) enum Naming {
    Create { path: Arc<str>, inode: Inode },
    Delete { path: Arc<str>, inode: Inode },
}

/// One line of a disk's history.
#[derive(Clone)]
pub(super) enum Entry {
    Changed {
        inode: Inode,
        change: Change,
    },
    Named {
        naming: Naming,
    },
    /// The file is durable; with `directory`, so is every name given or taken before.
    Synced {
        inode: Inode,
        directory: bool,
    },
    /// The sync failed: what was not yet durable may or may not be, and is not tried again.
    SyncFailed {
        inode: Inode,
    },
    /// The directory alone is durable, as after a delete that asked for it.
    DirectorySynced,
    /// The code under test told its caller that everything up to `tag` is safe.
    Marked {
        tag: u64,
    },
}

impl Entry {
    /// Whether this changes nothing that a power cut is sure to leave.
    pub(super) fn awaits_sync(&self) -> bool {
        match self {
            Self::Changed { .. } | Self::Named { .. } | Self::SyncFailed { .. } => true,
            Self::Synced { .. } | Self::DirectorySynced | Self::Marked { .. } => false,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { inode: Inode(n), change: Change::Write { offset, data } } => {
                write!(f, "write     file {n} at {offset} for {}", data.len())
            }
            Self::Changed { inode: Inode(n), change: Change::Truncate { len } } => {
                write!(f, "truncate  file {n} to {len}")
            }
            Self::Named { naming: Naming::Create { path, inode: Inode(n) } } => {
                write!(f, "create    file {n} as {path}")
            }
            Self::Named { naming: Naming::Delete { path, inode: Inode(n) } } => {
                write!(f, "delete    file {n}, was {path}")
            }
            Self::Synced { inode: Inode(n), directory } => {
                write!(f, "sync      file {n}{}", if *directory { " and directory" } else { "" })
            }
            Self::SyncFailed { inode: Inode(n) } => write!(f, "sync      file {n} FAILED"),
            Self::DirectorySynced => write!(f, "sync      directory"),
            Self::Marked { tag } => write!(f, "mark      {tag}"),
        }
    }
}
