//! What is durable, step by step along a disk's history, and what a power cut leaves of the rest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::contents::{Contents, SECTOR, pieces};
use super::log::{Change, Entry, Inode, Naming};
use crate::chance::Chance;

/// The durable state after some entries of a log, and all that is not durable yet.
#[derive(Default)]
pub(super) struct Walk {
    names: BTreeMap<Arc<str>, Inode>,
    namings: Vec<Naming>,
    files: HashMap<Inode, File>,
    pub(super) acked: u64,
}

#[derive(Default)]
struct File {
    durable: Contents,
    /// Changes that the next sync makes durable.
    pending: Vec<Change>,
    /// What failed syncs were to save, a sector each: no sync makes it durable any more.
    doubtful: Vec<Change>,
    /// What the process sees, kept only while something is doubtful.
    seen: Option<Contents>,
}

/// What a power cut does to changes that are not durable.
pub(super) enum Fate {
    /// None of them reached the disk.
    Lost,
    /// All of them did.
    Kept,
    /// Each of them for itself: whole, not at all, or some of its sectors.
    Mixed { chance: Chance, kept: f64, torn: f64 },
}

/// Which part of a torn write reaches the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tear {
    First,
    Last,
    Any,
    /// None of its bytes, but the length that it gave to the file.
    Length,
}

impl Walk {
    pub(super) fn new(base: &BTreeMap<Arc<str>, (Inode, Contents)>) -> Self {
        let mut walk = Self::default();
        for (path, (inode, contents)) in base {
            walk.names.insert(Arc::clone(path), *inode);
            walk.files.entry(*inode).or_default().durable = contents.clone();
        }
        walk
    }

    /// Goes one entry further.
    pub(super) fn step(&mut self, entry: &Entry) {
        match entry {
            Entry::Changed { inode, change } => {
                self.files.entry(*inode).or_default().change(change);
            }
            Entry::Named { naming } => self.namings.push(naming.clone()),
            Entry::Synced { inode, directory } => {
                self.files.entry(*inode).or_default().sync();
                if *directory {
                    self.settle_names(|_| true);
                } else {
                    self.settle_own_name(*inode);
                }
            }
            Entry::SyncFailed { inode } => self.files.entry(*inode).or_default().fail_sync(),
            Entry::DirectorySynced => self.settle_names(|_| true),
            Entry::Marked { tag } => self.acked = self.acked.max(*tag),
        }
    }

    /// Whether a power cut here has more than one possible outcome.
    pub(super) fn unsettled(&self) -> bool {
        let waits = |file: &File| !file.pending.is_empty() || !file.doubtful.is_empty();
        !self.namings.is_empty()
            || self.names.values().any(|inode| self.files.get(inode).is_some_and(waits))
    }

    /// Gives the files that a power cut here leaves, if it treats them as `fate` says.
    pub(super) fn cut(&self, mut fate: Fate) -> BTreeMap<Arc<str>, Contents> {
        let mut names = self.names.clone();
        for naming in &self.namings {
            if fate.keeps() {
                naming.apply(&mut names);
            }
        }
        let empty = File::default();
        let survive = |(path, inode)| {
            let file = self.files.get(&inode).unwrap_or(&empty);
            let mut contents = file.durable.clone();
            for change in file.doubtful.iter().chain(&file.pending) {
                fate.apply(&mut contents, change);
            }
            (path, contents)
        };
        names.into_iter().map(survive).collect()
    }

    /// Makes durable those pending namings that `which` picks, in their order.
    fn settle_names(&mut self, which: impl Fn(&Naming) -> bool) {
        for naming in self.namings.extract_if(.., |naming| which(naming)) {
            naming.apply(&mut self.names);
        }
    }

    /// Makes the name of a synced file durable, and with it what happened to that name before.
    fn settle_own_name(&mut self, synced: Inode) {
        let own = self.namings.iter().find_map(|naming| match naming {
            Naming::Create { path, inode } if *inode == synced => Some(Arc::clone(path)),
            Naming::Create { .. } | Naming::Delete { .. } => None,
        });
        if let Some(own) = own {
            self.settle_names(|naming| match naming {
                // File numbers rise, so what carries a greater one happened to the name later.
                Naming::Create { path, inode } => *path == own && *inode <= synced,
                Naming::Delete { path, inode } => *path == own && *inode < synced,
            });
        }
    }
}

impl File {
    fn change(&mut self, change: &Change) {
        if let Some(seen) = &mut self.seen {
            change.apply(seen);
        }
        self.pending.push(change.clone());
    }

    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let Some(seen) = &self.seen else {
            for change in &pending {
                change.apply(&mut self.durable);
            }
            return;
        };
        // The kernel writes whole sectors as it has them, so one that was written again is saved
        // together with the doubtful bytes in it. The other doubtful ones stay doubtful.
        let mut saved = HashSet::new();
        let mut resized = false;
        for change in &pending {
            match change {
                Change::Write { offset, data } => {
                    saved.extend(pieces(*offset, data.len(), SECTOR).map(|(sector, _, _)| sector));
                }
                Change::Truncate { .. } => resized = true,
            }
        }
        for &sector in &saved {
            let mut bytes = [0; SECTOR];
            let there = seen.read(sector * SECTOR, &mut bytes);
            self.durable.write(sector * SECTOR, &bytes[..there]);
        }
        if resized {
            self.durable.set_len(seen.len());
        }
        self.doubtful.retain(|change| match change {
            Change::Write { offset, .. } => {
                !saved.contains(&(offset / SECTOR)) && (!resized || *offset < seen.len())
            }
            Change::Truncate { .. } => !resized,
        });
        if self.doubtful.is_empty() {
            self.seen = None;
        }
    }

    fn fail_sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        if self.seen.is_none() {
            let mut seen = self.durable.clone();
            self.pending.iter().for_each(|change| change.apply(&mut seen));
            self.seen = Some(seen);
        }
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Write { offset, data } => {
                    let sectors = pieces(offset, data.len(), SECTOR).map(|(_, _, part)| {
                        Change::Write { offset: offset + part.start, data: data[part].into() }
                    });
                    self.doubtful.extend(sectors);
                }
                Change::Truncate { .. } => self.doubtful.push(change),
            }
        }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<Arc<str>, Inode>) {
        match self {
            Self::Create { path, inode } => {
                names.insert(Arc::clone(path), *inode);
            }
            Self::Delete { path, inode } => {
                // A lost deletion may be followed by a kept creation under the same name.
                if names.get(path) == Some(inode) {
                    names.remove(path);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, contents: &mut Contents) {
        match self {
            Self::Write { offset, data } => contents.write(*offset, data),
            Self::Truncate { len } => contents.set_len(*len),
        }
    }
}

impl Fate {
    /// Decides on something that happens whole or not at all.
    fn keeps(&mut self) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Mixed { chance, kept, .. } => chance.chance(*kept),
        }
    }

    fn apply(&mut self, contents: &mut Contents, change: &Change) {
        let tears = match self {
            Self::Lost | Self::Kept => false,
            Self::Mixed { chance, torn, .. } => chance.chance(*torn),
        };
        match (self, change) {
            (Self::Mixed { chance, .. }, Change::Write { offset, data }) if tears => {
                tear(chance, contents, *offset, data);
            }
            (fate, Change::Write { .. } | Change::Truncate { .. }) => {
                if fate.keeps() {
                    change.apply(contents);
                }
            }
        }
    }
}

/// Lets some sectors of a write reach the disk.
fn tear(chance: &mut Chance, contents: &mut Contents, offset: usize, data: &[u8]) {
    let sectors: Vec<_> = pieces(offset, data.len(), SECTOR).map(|(_, _, part)| part).collect();
    let split = chance.index(sectors.len() + 1);
    let style = *chance.pick(&[Tear::First, Tear::Last, Tear::Any, Tear::Any, Tear::Length]);
    for (index, part) in sectors.into_iter().enumerate() {
        let lands = match style {
            Tear::First => index < split,
            Tear::Last => index >= split,
            Tear::Any => chance.chance(0.5),
            Tear::Length => false,
        };
        if lands {
            contents.write(offset + part.start, &data[part]);
        }
    }
    if style == Tear::Length && offset + data.len() > contents.len() {
        contents.set_len(offset + data.len());
    }
}
