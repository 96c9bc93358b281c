//! The files of one disk, as the running process sees them.
//!
//! Every method stands for one call that SQLite makes of its file layer. The order of the calls is
//! the order of the log, because each holds the one lock from its decision to its entry.

use std::collections::{BTreeMap, HashMap};
use std::os::raw::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libsqlite3_sys as ffi;

use super::contents::{Contents, SECTOR};
use super::fault::{Faults, Io, Outcome};
use super::locks::{FileLocks, Handle, Level, SharedMemory};
use super::log::{Change, Entry, Inode, Naming};
use crate::chance::Chance;

/// An error in SQLite's own numbers; it goes back to SQLite as it is.
pub(super) type Code = c_int;

/// The files and the history of one disk.
pub(super) struct Files {
    state: Mutex<State>,
}

/// All that the one lock guards.
pub(super) struct State {
    pub(super) log: Vec<Entry>,
    pub(super) faults: Faults,
    /// The database opened first: what an image opens unless told otherwise.
    pub(super) main: Option<Arc<str>>,
    /// Whether the disk claims that a write harms no byte beside it.
    pub(super) power_safe: bool,
    /// What the disk held when it was made, all of it durable.
    pub(super) base: BTreeMap<Arc<str>, (Inode, Contents)>,
    names: BTreeMap<Arc<str>, Inode>,
    files: HashMap<Inode, File>,
    /// How many processes have been killed; what an earlier one opened is dead.
    killed: u64,
    /// Memory of killed processes: their connections still point into it.
    abandoned: Vec<SharedMemory>,
    next: u64,
    chance: Chance,
}

#[derive(Default)]
struct File {
    contents: Contents,
    locks: FileLocks,
    memory: SharedMemory,
    opened: u32,
    named: bool,
}

/// A file that SQLite has opened.
#[derive(Debug)]
pub(super) struct Opened {
    handle: Handle,
    inode: Inode,
    /// The process that opened it, by the number of those killed before.
    process: u64,
    /// A file without a name: it dies with the process, so it is not in the log.
    scratch: bool,
    /// The directory is synced along with the next sync, as SQLite does for a new journal.
    directory_due: bool,
}

impl Files {
    /// Starts with `files`, all of them durable.
    pub(super) fn new(seed: u64, files: &BTreeMap<Arc<str>, Contents>) -> Self {
        let mut state = State {
            log: Vec::new(),
            faults: Faults::default(),
            main: None,
            power_safe: true,
            base: BTreeMap::new(),
            names: BTreeMap::new(),
            files: HashMap::new(),
            killed: 0,
            abandoned: Vec::new(),
            next: 0,
            chance: Chance::new(seed),
        };
        for (path, contents) in files {
            let inode = state.create();
            state.names.insert(Arc::clone(path), inode);
            state.base.insert(Arc::clone(path), (inode, contents.clone()));
            let file = state.file(inode);
            file.contents = contents.clone();
            file.named = true;
        }
        Self { state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed while holding the lock has said so already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, path: Option<&str>, flags: c_int) -> Result<Opened, Code> {
        let mut state = self.state();
        let scratch = path.is_none() || flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0;
        let inode = match path {
            Some(path) if !scratch => state.open_named(path, flags)?,
            Some(_) | None => state.create(),
        };
        state.file(inode).opened += 1;
        let journals =
            ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;
        Ok(Opened {
            handle: state.number(),
            inode,
            process: state.killed,
            scratch,
            directory_due: flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & journals != 0,
        })
    }

    pub(super) fn close(&self, opened: &Opened) {
        self.unlock(opened, Level::None);
        self.unmap(opened);
        let mut state = self.state();
        state.file(opened.inode).opened -= 1;
        state.forget_if_unreachable(opened.inode);
    }

    /// Fills `into`; false means that the file ended before it was full.
    pub(super) fn read(
        &self,
        opened: &Opened,
        offset: usize,
        into: &mut [u8],
    ) -> Result<bool, Code> {
        let mut state = self.living(opened)?;
        match state.faults.decide(Io::Read) {
            Outcome::Succeed => {}
            Outcome::Fail | Outcome::LackSpace | Outcome::Lie => {
                return Err(ffi::SQLITE_IOERR_READ);
            }
        }
        let found = state.file(opened.inode).contents.read(offset, into);
        Ok(found == into.len())
    }

    pub(super) fn write(&self, opened: &Opened, offset: usize, data: &[u8]) -> Result<(), Code> {
        let mut state = self.living(opened)?;
        let grows = offset + data.len() > state.file(opened.inode).contents.len();
        let error = match state.faults.decide(Io::Write { grows }) {
            Outcome::Succeed | Outcome::Lie => None,
            Outcome::Fail => Some(ffi::SQLITE_IOERR_WRITE),
            Outcome::LackSpace => Some(ffi::SQLITE_FULL),
        };
        let landed = match error {
            None => data,
            // The kernel may have taken the first sectors before it noticed.
            Some(_) => {
                let whole = data.len() / SECTOR;
                &data[..state.chance.index(whole + 1) * SECTOR]
            }
        };
        if !landed.is_empty() {
            state.file(opened.inode).contents.write(offset, landed);
            state.record(opened, || Change::Write { offset, data: landed.into() });
        }
        error.map_or(Ok(()), Err)
    }

    pub(super) fn truncate(&self, opened: &Opened, len: usize) -> Result<(), Code> {
        let mut state = self.living(opened)?;
        match state.faults.decide(Io::Truncate) {
            Outcome::Succeed | Outcome::Lie => {}
            Outcome::Fail | Outcome::LackSpace => return Err(ffi::SQLITE_IOERR_TRUNCATE),
        }
        state.file(opened.inode).contents.set_len(len);
        state.record(opened, || Change::Truncate { len });
        Ok(())
    }

    pub(super) fn sync(&self, opened: &mut Opened) -> Result<(), Code> {
        let mut state = self.living(opened)?;
        let inode = opened.inode;
        let (entry, result) = match state.faults.decide(Io::Sync) {
            Outcome::Succeed => {
                let directory = std::mem::take(&mut opened.directory_due);
                (Some(Entry::Synced { inode, directory }), Ok(()))
            }
            Outcome::Lie => {
                opened.directory_due = false;
                (None, Ok(()))
            }
            Outcome::Fail | Outcome::LackSpace => {
                (Some(Entry::SyncFailed { inode }), Err(ffi::SQLITE_IOERR_FSYNC))
            }
        };
        state.log.extend(entry.filter(|_| !opened.scratch));
        result
    }

    pub(super) fn len(&self, opened: &Opened) -> usize {
        self.state().file(opened.inode).contents.len()
    }

    pub(super) fn lock(&self, opened: &Opened, level: Level) -> Result<(), Code> {
        let granted = self.living(opened)?.file(opened.inode).locks.lock(opened.handle, level);
        if granted { Ok(()) } else { Err(ffi::SQLITE_BUSY) }
    }

    pub(super) fn unlock(&self, opened: &Opened, level: Level) {
        // What a killed process held is free already.
        if let Ok(mut state) = self.living(opened) {
            state.file(opened.inode).locks.unlock(opened.handle, level);
        }
    }

    pub(super) fn reserved(&self, opened: &Opened) -> bool {
        self.state().file(opened.inode).locks.reserved()
    }

    pub(super) fn exists(&self, path: &str, empty_counts: bool) -> bool {
        let mut state = self.state();
        let Some(&inode) = state.names.get(path) else { return false };
        empty_counts || state.file(inode).contents.len() > 0
    }

    pub(super) fn delete(&self, path: &str, sync_directory: bool) -> Result<(), Code> {
        let mut state = self.state();
        match state.faults.decide(Io::Delete) {
            Outcome::Succeed | Outcome::Lie => {}
            Outcome::Fail | Outcome::LackSpace => return Err(ffi::SQLITE_IOERR_DELETE),
        }
        let (path, inode) = state.names.remove_entry(path).ok_or(ffi::SQLITE_IOERR_DELETE_NOENT)?;
        state.log.push(Entry::Named { naming: Naming::Delete { path, inode } });
        if sync_directory {
            state.log.push(Entry::DirectorySynced);
        }
        state.file(inode).named = false;
        state.forget_if_unreachable(inode);
        Ok(())
    }

    /// Gives the address of a region of shared memory, or none if it is not there and not wanted.
    pub(super) fn map(
        &self,
        opened: &Opened,
        index: usize,
        extend: bool,
    ) -> Result<Option<*const u8>, Code> {
        let mut state = self.living(opened)?;
        let missing = state.file(opened.inode).memory.len() <= index;
        if missing && extend {
            match state.faults.decide(Io::SharedMemory) {
                Outcome::Succeed | Outcome::Lie => {}
                Outcome::Fail | Outcome::LackSpace => return Err(ffi::SQLITE_IOERR_SHMSIZE),
            }
        }
        let memory = &mut state.file(opened.inode).memory;
        memory.join(opened.handle);
        if extend {
            memory.grow(index + 1);
        }
        Ok(memory.region(index).map(|region| region.as_ptr().cast()))
    }

    pub(super) fn lock_map(&self, opened: &Opened, mask: u32, exclusive: bool) -> Result<(), Code> {
        let granted =
            self.living(opened)?.file(opened.inode).memory.lock(opened.handle, mask, exclusive);
        if granted { Ok(()) } else { Err(ffi::SQLITE_BUSY) }
    }

    pub(super) fn unlock_map(&self, opened: &Opened, mask: u32) {
        if let Ok(mut state) = self.living(opened) {
            state.file(opened.inode).memory.unlock(opened.handle, mask);
        }
    }

    pub(super) fn unmap(&self, opened: &Opened) {
        if let Ok(mut state) = self.living(opened) {
            state.file(opened.inode).memory.leave(opened.handle);
        }
    }

    /// Takes the lock for a call on an open file, unless its process was killed.
    fn living(&self, opened: &Opened) -> Result<MutexGuard<'_, State>, Code> {
        let state = self.state();
        if opened.process == state.killed { Ok(state) } else { Err(ffi::SQLITE_IOERR) }
    }
}

impl State {
    /// Gives the bytes of every named file, as a process reading them now would see them.
    pub(super) fn snapshot(&self) -> BTreeMap<Arc<str>, Contents> {
        let named = self.names.iter().filter_map(|(path, inode)| {
            Some((Arc::clone(path), self.files.get(inode)?.contents.clone()))
        });
        named.collect()
    }

    /// Ends the process: its locks are free, its shared memory is gone, its openings are dead.
    pub(super) fn kill(&mut self) {
        self.killed += 1;
        for file in self.files.values_mut() {
            file.locks = FileLocks::default();
            self.abandoned.push(std::mem::take(&mut file.memory));
        }
    }

    /// Writes the bytes of a file once more, as they are, and syncs it.
    pub(super) fn rewrite(&mut self, path: &str) {
        let Some(&inode) = self.names.get(path) else { return };
        let data = self.file(inode).contents.to_vec().into();
        let change = Change::Write { offset: 0, data };
        self.log.push(Entry::Changed { inode, change });
        self.log.push(Entry::Synced { inode, directory: true });
    }

    fn open_named(&mut self, path: &str, flags: c_int) -> Result<Inode, Code> {
        if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 && self.main.is_none() {
            self.main = Some(path.into());
        }
        if let Some(&inode) = self.names.get(path) {
            let must_be_new = flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0;
            return if must_be_new { Err(ffi::SQLITE_CANTOPEN) } else { Ok(inode) };
        }
        if flags & ffi::SQLITE_OPEN_CREATE == 0 {
            return Err(ffi::SQLITE_CANTOPEN);
        }
        match self.faults.decide(Io::Create) {
            Outcome::Succeed | Outcome::Lie => {}
            Outcome::Fail | Outcome::LackSpace => return Err(ffi::SQLITE_CANTOPEN),
        }
        let inode = self.create();
        let path: Arc<str> = path.into();
        self.file(inode).named = true;
        self.names.insert(Arc::clone(&path), inode);
        self.log.push(Entry::Named { naming: Naming::Create { path, inode } });
        Ok(inode)
    }

    fn record(&mut self, opened: &Opened, change: impl FnOnce() -> Change) {
        if !opened.scratch {
            self.log.push(Entry::Changed { inode: opened.inode, change: change() });
        }
    }

    fn create(&mut self) -> Inode {
        let inode = Inode(self.number());
        self.files.insert(inode, File::default());
        inode
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn file(&mut self, inode: Inode) -> &mut File {
        self.files.get_mut(&inode).expect("a file lives while it has a name or is open")
    }

    fn forget_if_unreachable(&mut self, inode: Inode) {
        let file = self.file(inode);
        if file.opened == 0 && !file.named {
            self.files.remove(&inode);
        }
    }
}
