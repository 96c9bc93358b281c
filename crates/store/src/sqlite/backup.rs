//! Copies of a store that are whole: made while it is in use, walked before they get their name,
//! brought back under a new incarnation, and never written over anything.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use baton_domain::scene::Lease;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::place::Place;
use super::{Chance, OpenError, audit, load, migrate};
use crate::chain::Audit;

/// What a restore leaves in the folder until the restored database is in its place. Whoever enters
/// the folder next finishes what a crash interrupted.
const STAGED: &str = "restored-";
/// The files of a database; the log and its index belong to it.
const FILES: [&str; 3] = ["baton.db", "baton.db-wal", "baton.db-shm"];

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
}

/// A database that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Which life of it this is; claim tokens and cursors of others are dead.
    pub incarnation: u64,
    /// Where the database that was there before is now.
    pub aside: Option<PathBuf>,
    /// What was walked.
    pub audit: Audit,
}

/// Copies the database of a folder, which may be in use. The copy is opened and walked before it
/// gets its name; seals are checked if the key that signed them is known.
pub fn back_up(folder: &Path, to: &Path, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists(to.into()));
    }
    let source = look(&folder.join("baton.db"), folder)?;
    let draft = beside(to, ".partial");
    let made = copied(&source, &draft, trusted).and_then(|(copy, audit)| {
        close(copy, &draft)?;
        // Unlike a rename, a link never takes the place of a file that was made meanwhile.
        fs::hard_link(&draft, to).map_err(|error| {
            let exists = error.kind() == io::ErrorKind::AlreadyExists;
            if exists { Error::Exists(to.into()) } else { Error::Io(to.into(), error) }
        })?;
        Ok(audit)
    });
    drop(fs::remove_file(&draft));
    let audit = made?;
    sync(to.parent().unwrap_or(Path::new(".")))?;
    Ok(audit)
}

/// Brings a copy back into a folder that nobody uses. What was there is moved aside.
pub fn restore(
    file: &Path,
    folder: &Path,
    chance: &mut Chance,
    trusted: Option<&[u8; 32]>,
) -> Result<Restored, Error> {
    let source = look(file, file)?;
    // Held until the restored database is in its place.
    let place = Place::enter(folder)?;
    let draft = folder.join("restoring.partial");
    let made = copied(&source, &draft, trusted).and_then(|(copy, audit)| {
        let incarnation = renew(&copy, chance).map_err(broken)?;
        close(copy, &draft)?;
        let staged = folder.join(format!("{STAGED}{incarnation:016x}.db"));
        fs::rename(&draft, &staged).map_err(|error| Error::Io(staged, error))?;
        sync(folder)?;
        Ok((incarnation, audit))
    });
    drop(fs::remove_file(&draft));
    let (incarnation, audit) = made?;
    let aside = finish(folder).map_err(|error| Error::Io(folder.into(), error))?;
    drop(place);
    Ok(Restored { incarnation, aside, audit })
}

/// Puts a restored database in its place, if one is waiting; called with the folder locked, before
/// anything in it is opened. It can be interrupted anywhere and done again.
pub(super) fn finish(folder: &Path) -> io::Result<Option<PathBuf>> {
    let Some((staged, life)) = staged(folder)? else { return Ok(None) };
    let aside = folder.join(format!("before-restore-{life}"));
    for name in FILES {
        if folder.join(name).symlink_metadata().is_ok() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&aside)?;
            fs::rename(folder.join(name), aside.join(name))?;
        }
    }
    if aside.is_dir() {
        File::open(&aside)?.sync_all()?;
    }
    fs::rename(&staged, folder.join("baton.db"))?;
    File::open(folder)?.sync_all()?;
    Ok(aside.is_dir().then_some(aside))
}

/// The database that waits to be put in its place, with the life that its name bears.
fn staged(folder: &Path) -> io::Result<Option<(PathBuf, String)>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let life = name.to_str().and_then(|name| name.strip_prefix(STAGED)?.strip_suffix(".db"));
        if let Some(life) = life {
            return Ok(Some((entry.path(), life.to_owned())));
        }
    }
    Ok(None)
}

/// Whether a restore was interrupted; the next start finishes it.
#[must_use]
pub fn is_unfinished(folder: &Path) -> bool {
    staged(folder).is_ok_and(|staged| staged.is_some())
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
    Ok(Edition { version, incarnation })
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
    conn.pragma_update(None, "trusted_schema", false).map_err(broken)?;
    conn.pragma_update(None, "query_only", true).map_err(broken)?;
    match migrate::found(&conn)? {
        0 => Err(Error::NoDatabase(named.into())),
        _ => Ok(conn),
    }
}

/// A copy that was opened and walked, in one file.
fn copied(
    source: &Connection,
    draft: &Path,
    trusted: Option<&[u8; 32]>,
) -> Result<(Connection, Audit), Error> {
    let io = |error| Error::Io(draft.into(), error);
    match fs::remove_file(draft) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map_err(io)?;
    let mut copy = Connection::open(draft).map_err(broken)?;
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
        None => Ok((copy, audit)),
    }
}

/// Gives a database another life, so that no claim from before is good in it: tokens and cursors
/// name the life that they are of, and every lease is forfeit, whoever proves to have held it. The
/// first sweep ends their attempts as those of any holder that was lost.
fn renew(conn: &Connection, chance: &mut Chance) -> rusqlite::Result<u64> {
    let (before, _) = load::names(conn)?;
    let mut bytes = [0; 8];
    chance(&mut bytes);
    // Positive, never the one before, and never the one that means no life at all.
    let drawn = u64::from_be_bytes(bytes) >> 1;
    let incarnation = if drawn == before || drawn == 0 { before / 2 + 1 } else { drawn };
    let sql = "UPDATE meta SET value = ?1 WHERE name = 'incarnation'";
    conn.execute(sql, [super::pen::int(incarnation)])?;
    conn.execute("UPDATE leases SET expires_at = ?1", [Lease::FORFEIT.0])?;
    Ok(incarnation)
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
