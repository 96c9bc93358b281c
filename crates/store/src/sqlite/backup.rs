//! Copies of a store that are whole: made while it is in use, walked before they get their name,
//! brought back under a new incarnation, and never written over anything.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{OpenError, audit, load, migrate, plan_once, trust};
use crate::PepperDigest;
use crate::chain::Audit;

mod restoring;

pub(super) use restoring::finish;
pub use restoring::{Restored, Restoring, is_unfinished, restore};

/// What stands at the end of the name of a copy that is not whole yet.
const PARTIAL: &str = ".partial";
/// Names of a folder that are looked through for what a killed copy left there.
const NAMES_MAX: usize = 10_000;
/// Where a database says what it is, and whose.
const HEAD_BYTES: usize = 100;
const OURS_AT: std::ops::Range<usize> = 68..72;
/// Pages that are kept in memory while everything is walked, in KiB: whoever asks for it waits.
const CACHE_KIB: i64 = 64_000;

/// Why a copy was not made or not brought back. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is something under that name.
    #[error("{0} exists already: choose another name")]
    Exists(PathBuf),
    /// There is no database.
    #[error("there is no database in {0}")]
    NoDatabase(PathBuf),
    /// The database or the folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its pages do not fit together.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// Its chains or seals do not hold.
    #[error("{what}, in tenant {tenant} at position {position}")]
    Fault {
        /// Whose.
        tenant: String,
        /// Where in the order of commits.
        position: u64,
        /// What.
        what: &'static str,
    },
    /// The file system failed.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
}

/// What is known of a database without opening it for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Which version of the schema it has.
    pub version: i64,
    /// Which life of it this is.
    pub incarnation: u64,
    /// By which the pepper that belongs to it is known.
    pub pepper: Option<PepperDigest>,
}

/// Copies the database of a folder, which may be in use. The copy is opened and walked before it
/// gets its name; seals are checked if the key that signed them is known.
pub fn back_up(folder: &Path, to: &Path, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists(to.into()));
    }
    let source = look(&folder.join("baton.db"), folder)?;
    for left in leftovers(parent(to)) {
        remove(&left);
    }
    let draft = beside(to, PARTIAL);
    let made = copied(&source, &draft, trusted).and_then(|(copy, audit, _lock)| {
        close(copy, &draft)?;
        // Unlike a rename, a link never takes the place of a file that was made meanwhile.
        fs::hard_link(&draft, to).map_err(|error| {
            let exists = error.kind() == io::ErrorKind::AlreadyExists;
            if exists { Error::Exists(to.into()) } else { Error::Io(to.into(), error) }
        })?;
        Ok(audit)
    });
    remove(&draft);
    let audit = made?;
    sync(parent(to))?;
    Ok(audit)
}

/// Copies in a folder that somebody began and nobody works on any more. The next copy into the
/// folder removes them.
#[must_use]
pub fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let partial = |path: &PathBuf| {
        path.to_str().is_some_and(|path| path.ends_with(PARTIAL)) && is_leftover(path)
    };
    let paths = entries.take(NAMES_MAX).flatten().map(|entry| entry.path());
    paths.filter(partial).collect()
}

/// Whether this is a database of ours, or the beginning of one, that nobody holds.
fn is_leftover(path: &Path) -> bool {
    let regular = path.symlink_metadata().is_ok_and(|about| about.is_file());
    let Some(file) = regular.then(|| File::open(path).ok()).flatten() else { return false };
    let mut head = [0; HEAD_BYTES];
    let empty = file.metadata().is_ok_and(|about| about.len() == 0);
    let read = file.read_exact_at(&mut head, 0).is_ok();
    let ours = head[OURS_AT] == migrate::APPLICATION_ID.to_be_bytes();
    let unwritten = head == [0; HEAD_BYTES];
    (empty || read && (ours || unwritten)) && file.try_lock().is_ok()
}

/// Removes a draft with the journal that a killed copy leaves beside it.
fn remove(draft: &Path) {
    drop(fs::remove_file(beside(draft, "-journal")));
    drop(fs::remove_file(draft));
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Walks every chain and every seal of a folder's database, which may be in use.
pub fn verify(folder: &Path, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let conn = look(&folder.join("baton.db"), folder)?;
    audit::whole(&conn, trusted).map_err(|error| Error::Damaged(error.to_string()))
}

/// What is known of a folder's database, which may be in use.
pub fn about(folder: &Path) -> Result<Edition, Error> {
    let conn = look(&folder.join("baton.db"), folder)?;
    let version =
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(broken)?;
    let (incarnation, _) = load::names(&conn).map_err(broken)?;
    let pepper = trust::pepper(&conn).map_err(broken)?;
    Ok(Edition { version, incarnation, pepper })
}

/// Whether a process works in the folder.
pub fn is_in_use(folder: &Path) -> io::Result<bool> {
    let lock = match File::open(folder.join("baton.lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The name of the network file system that a folder is on, if it is on one.
pub fn network(folder: &Path) -> io::Result<Option<&'static str>> {
    super::place::network_of(folder)
}

/// Bytes that are free where a folder is, and the least that a store asks for.
#[must_use]
pub fn free_bytes(folder: &Path) -> (Option<u64>, u64) {
    (super::place::free_bytes(folder), super::FREE_BYTES_MIN)
}

/// Whether the file system of a folder takes no changes.
#[must_use]
pub fn is_read_only(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|about| about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn broken(error: rusqlite::Error) -> Error {
    Error::Damaged(error.to_string())
}

/// Opens a database of ours to look at it: nothing of it is changed, not even its log.
fn look(path: &Path, named: &Path) -> Result<Connection, Error> {
    if !path.is_file() {
        return Err(Error::NoDatabase(named.into()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(broken)?;
    conn.busy_timeout(std::time::Duration::from_secs(10)).map_err(broken)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(broken)?;
    plan_once(&conn).map_err(broken)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB).map_err(broken)?;
    conn.pragma_update(None, "trusted_schema", false).map_err(broken)?;
    conn.pragma_update(None, "query_only", true).map_err(broken)?;
    match migrate::found(&conn)? {
        0 => Err(Error::NoDatabase(named.into())),
        _ => Ok(conn),
    }
}

/// A copy that was opened and walked, in one file. As long as the last part of the answer is there,
/// others know that somebody works on it.
fn copied(
    source: &Connection,
    draft: &Path,
    trusted: Option<&[u8; 32]>,
) -> Result<(Connection, Audit, File), Error> {
    let io = |error| Error::Io(draft.into(), error);
    match fs::remove_file(draft) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
    let lock = lock.map_err(io)?;
    lock.lock().map_err(io)?;
    let mut copy = Connection::open(draft).map_err(broken)?;
    plan_once(&copy).map_err(broken)?;
    copy.pragma_update(None, "cache_size", -CACHE_KIB).map_err(broken)?;
    let backup = rusqlite::backup::Backup::new(source, &mut copy).map_err(broken)?;
    // All pages in one step: a writer in another process would make a copy in several start over
    // for ever. The step only reads, so nobody waits for it.
    let step = backup.step(-1).map_err(broken)?;
    if step != rusqlite::backup::StepResult::Done {
        return Err(Error::Damaged(format!("the copy was not finished ({step:?})")));
    }
    drop(backup);
    // A copy has no log: it is one file.
    let mode: String =
        copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(broken)?;
    let sound: String =
        copy.query_row("PRAGMA quick_check", [], |row| row.get(0)).map_err(broken)?;
    if (mode.as_str(), sound.as_str()) != ("delete", "ok") {
        return Err(Error::Damaged(sound));
    }
    migrate::found(&copy)?;
    let audit = audit::whole(&copy, trusted).map_err(|error| Error::Damaged(error.to_string()))?;
    match audit.fault {
        Some(fault) => {
            Err(Error::Fault { tenant: fault.tenant, position: fault.position, what: fault.what })
        }
        None => Ok((copy, audit, lock)),
    }
}

fn close(conn: Connection, path: &Path) -> Result<(), Error> {
    conn.close().map_err(|(_, error)| broken(error))?;
    sync(path)
}

fn sync(path: &Path) -> Result<(), Error> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| Error::Io(path.into(), error))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
