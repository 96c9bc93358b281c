//! A disk under SQLite that can fail and be cut off from power.
//!
//! A [`Disk`] is a SQLite file layer (VFS) of its own name. It keeps its files in memory, serves
//! any number of connections of this process, WAL mode included, and writes down all that SQLite
//! asks of it. Afterwards [`Disk::cuts`] walks through that history and shows, for a power cut at
//! every point of it, what the disk may hold: what was synced is there; each later write is there,
//! is not, or is there in part, torn where sectors of 512 bytes meet; a file that was created or
//! deleted shows it only after a sync of that file or of the directory.
//!
//! ```
//! use baton_testkit::disk::Disk;
//! use rusqlite::{Connection, OpenFlags};
//!
//! let disk = Disk::new(1);
//! let db = Connection::open_with_flags_and_vfs(
//!     disk.path("baton.db"),
//!     OpenFlags::default(),
//!     disk.vfs_name(),
//! )?;
//! db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (n)")?;
//! for n in 1..=3_u32 {
//!     db.execute("INSERT INTO t VALUES (?1)", [n])?;
//!     disk.mark(u64::from(n)); // From here on, a power cut may not take row n.
//! }
//! for cut in disk.cuts(2).filter(|cut| cut.acked > 0) {
//!     let rows: u32 =
//!         cut.image.open()?.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
//!     assert!(u64::from(rows) >= cut.acked, "{cut:?}\n{}", disk.story(cut.at));
//! }
//! # Ok::<(), rusqlite::Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use contents::Contents;
use log::Entry;
use vfs::Mounted;

mod contents;
mod cuts;
mod fault;
mod files;
mod locks;
mod log;
#[cfg(test)]
mod tests;
mod vfs;
mod walk;

pub use cuts::{Cut, Cuts, Image};
pub use fault::{Armed, Fault};

/// The folder of all files. It exists on no real disk, and each [`Disk`] has its own.
const FOLDER: &str = "/disk";

/// What an image opens if nothing was ever opened on its disk.
const DATABASE: &str = "/disk/baton.db";

/// How many entries a story tells.
const STORY: usize = 16;

/// A disk in memory. Clones are the same disk; it goes with the last clone and connection.
#[derive(Clone)]
pub struct Disk {
    mounted: Arc<Mounted>,
}

impl Disk {
    /// Makes an empty disk. The seed decides what failing writes leave behind.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::holding(seed, &BTreeMap::new(), None)
    }

    fn holding(seed: u64, files: &BTreeMap<Arc<str>, Contents>, main: Option<Arc<str>>) -> Self {
        let mounted = Mounted::new(files::Files::new(seed, files));
        mounted.files().state().main = main;
        Self { mounted }
    }

    /// The name under which SQLite knows this disk.
    #[must_use]
    pub fn vfs_name(&self) -> &str {
        self.mounted.name()
    }

    /// The path of a file on this disk; any other absolute path serves as well.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(FOLDER).join(name)
    }

    /// Claims, or not, that a write harms no byte beside it. A disk claims so unless told not to,
    /// as SQLite assumes of real ones; it holds for connections opened afterwards.
    pub fn set_power_safe_overwrite(&self, claimed: bool) {
        self.mounted.files().state().power_safe = claimed;
    }

    /// Notes that the code under test has acknowledged everything up to `tag`.
    pub fn mark(&self, tag: u64) {
        self.mounted.files().state().log.push(Entry::Marked { tag });
    }

    /// How many entries the history has.
    #[must_use]
    pub fn log_len(&self) -> usize {
        self.mounted.files().state().log.len()
    }

    /// How many I/Os there have been, counted as [`Fault`] counts them.
    #[must_use]
    pub fn io_count(&self) -> u64 {
        self.mounted.files().state().faults.total()
    }

    /// Arms a fault; several may be armed at once.
    pub fn fault(&self, fault: Fault) -> Armed {
        self.mounted.files().state().faults.arm(fault)
    }

    /// How many I/Os have failed by any fault.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.mounted.files().state().faults.fired()
    }

    /// Ends every lack of space.
    pub fn free_space(&self) {
        self.mounted.files().state().faults.free_space();
    }

    /// Ends every fault.
    pub fn heal(&self) {
        self.mounted.files().state().faults.disarm();
    }

    /// Ends the process that uses this disk, as `kill -9` would, and leaves the files as they are.
    ///
    /// Open connections lose their locks, and all they try from now on fails. New ones find what
    /// the old ones wrote, synced or not, as the next process would in the kernel's cache.
    pub fn kill(&self) {
        self.mounted.files().state().kill();
    }

    /// Writes a file once more with the bytes that it has, and syncs it.
    ///
    /// It stands for what a program can do about a sync that failed before it was started: the
    /// kernel believes such bytes to be on the disk until they are written again.
    pub fn rewrite(&self, name: &str) {
        let path = self.path(name);
        self.mounted.files().state().rewrite(path.to_str().expect("a name is text"));
    }

    /// Shows every power cut of the history so far. The seed decides which outcomes.
    #[must_use]
    pub fn cuts(&self, seed: u64) -> Cuts {
        let state = self.mounted.files().state();
        Cuts::new(state.log.clone(), &state.base, state.main.clone(), seed)
    }

    /// Cuts the power now. The disk itself lives on; the outcomes are those of [`Disk::cuts`].
    #[must_use]
    pub fn cut(&self, seed: u64) -> Cuts {
        self.cuts(seed).from(self.log_len())
    }

    /// Gives the files as they are without a power cut, as after the end of the process.
    #[must_use]
    pub fn image(&self) -> Image {
        let state = self.mounted.files().state();
        Image::new(state.snapshot(), state.main.clone())
    }

    /// Tells the last entries before a cut, one a line, for a test to show when it fails.
    #[must_use]
    pub fn story(&self, at: usize) -> String {
        let state = self.mounted.files().state();
        let end = at.min(state.log.len());
        let mut told = String::new();
        for (index, entry) in state.log[..end].iter().enumerate().skip(end.saturating_sub(STORY)) {
            writeln!(told, "{:>6}  {entry}", index + 1).expect("a string takes all text");
        }
        told
    }
}
