//! Power cuts: every point of a disk's history, and what the disk may hold afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::Disk;
use super::contents::Contents;
use super::log::{Entry, Inode};
use super::walk::{Fate, Walk};
use crate::chance::Chance;

/// How many outcomes of one cut are shown unless told otherwise.
const OUTCOMES: u64 = 4;

/// The power cut after one entry of the log, with one of its outcomes.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How many entries of the log came before the cut.
    pub at: usize,
    /// Which outcome this is: 0 lost all that was not durable, 1 kept all of it, the others some.
    pub outcome: u64,
    /// The greatest tag that was marked before the cut, or zero.
    pub acked: u64,
    /// What the disk holds.
    pub image: Image,
}

/// The files that a disk holds after a power cut.
#[derive(Clone)]
pub struct Image {
    files: BTreeMap<Arc<str>, Contents>,
    main: Option<Arc<str>>,
}

/// All cuts of a history, in its order. What each leaves depends on the seed and on its place
/// alone, so one cut can be looked at again without those before it.
///
/// Outcome 0 is left out where it would repeat the one before: it changes with what is durable,
/// not with what is written.
pub struct Cuts {
    log: Vec<Entry>,
    main: Option<Arc<str>>,
    walk: Walk,
    seed: u64,
    at: usize,
    from: usize,
    stride: usize,
    outcomes: u64,
    next: u64,
    due: u64,
    /// Whether outcome 0 was shown since anything became durable or was acknowledged.
    repeats: bool,
}

impl Cuts {
    pub(super) fn new(
        log: Vec<Entry>,
        base: &BTreeMap<Arc<str>, (Inode, Contents)>,
        main: Option<Arc<str>>,
        seed: u64,
    ) -> Self {
        let walk = Walk::new(base);
        Self {
            log,
            main,
            walk,
            seed,
            at: 0,
            from: 0,
            stride: 1,
            outcomes: OUTCOMES,
            next: 0,
            due: 0,
            repeats: false,
        }
    }

    /// Starts at the cut after `at` entries, as after a schema that is no part of the question.
    #[must_use]
    pub fn from(mut self, at: usize) -> Self {
        self.from = at;
        self
    }

    /// Takes every `stride`-th cut only.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = stride.max(1);
        self
    }

    /// Shows `outcomes` outcomes of each cut that has several. The default is four.
    #[must_use]
    pub fn outcomes(mut self, outcomes: u64) -> Self {
        self.outcomes = outcomes.max(1);
        self
    }

    fn fate(&self, outcome: u64) -> Fate {
        let at = u64::try_from(self.at).expect("a log is shorter than 2^64");
        let mut place = Chance::new(self.seed ^ Chance::new(at).next_u64());
        let mut chance = Chance::new(place.next_u64() ^ outcome);
        match outcome {
            0 => Fate::Lost,
            1 => Fate::Kept,
            // One rate for all would hardly ever show all but one kept, or all but one lost.
            _ => Fate::Mixed {
                kept: *chance.pick(&[0.1, 0.5, 0.9]),
                torn: *chance.pick(&[0.0, 0.1, 0.5]),
                chance,
            },
        }
    }
}

impl Iterator for Cuts {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        while self.next >= self.due {
            let entry = self.log.get(self.at)?;
            self.walk.step(entry);
            self.repeats &= entry.awaits_sync();
            self.at += 1;
            self.next = u64::from(self.repeats);
            let wanted = self.at >= self.from && (self.at - self.from).is_multiple_of(self.stride);
            self.due = match (wanted, self.walk.unsettled()) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => self.outcomes,
            };
        }
        self.repeats = true;
        let outcome = self.next;
        self.next += 1;
        let image = Image { files: self.walk.cut(self.fate(outcome)), main: self.main.clone() };
        Some(Cut { at: self.at, outcome, acked: self.walk.acked, image })
    }
}

impl Image {
    pub(super) fn new(files: BTreeMap<Arc<str>, Contents>, main: Option<Arc<str>>) -> Self {
        Self { files, main }
    }

    /// Opens the database, which is the one that was opened first on the disk.
    ///
    /// Every call opens a copy of its own, and closing it saves nothing.
    ///
    /// # Errors
    /// What SQLite says on opening; damage shows only on reading.
    pub fn open(&self) -> rusqlite::Result<Connection> {
        let disk = self.mount(0);
        let main = self.main.as_deref().unwrap_or(super::DATABASE);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(main, flags, disk.vfs_name())?;
        // The copy is thrown away, so moving its log into the database would be for nothing.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    }

    /// Puts the files on a disk of their own, all durable, to run on and to be cut off again.
    #[must_use]
    pub fn mount(&self, seed: u64) -> Disk {
        Disk::holding(seed, &self.files, self.main.clone())
    }

    /// Gives the paths and lengths of the files.
    pub fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().map(|(path, contents)| (&**path, contents.len()))
    }

    /// Gives the bytes of every file.
    #[must_use]
    pub fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.iter().map(|(path, contents)| (path.to_string(), contents.to_vec())).collect()
    }

    /// Writes the files into a folder of the real file system, under their last names.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        for (path, contents) in &self.files {
            let name = Path::new(&**path).file_name().unwrap_or_default();
            std::fs::write(folder.join(name), contents.to_vec())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files()).finish()
    }
}
