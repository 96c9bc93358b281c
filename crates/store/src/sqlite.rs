//! SQLite: one writer thread that judges in memory and commits in groups, a few readers, one
//! checkpointer. What it answered is on disk.

mod audit;
pub mod backup;
pub mod bare;
mod books;
mod channels;
mod checkpoint;
mod ink;
mod keys;
mod lists;
mod load;
mod migrate;
mod orders;
mod pen;
mod place;
mod reads;
mod records;
mod requests;
mod runs;
mod seam;
mod sweep;
mod trust;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use baton_domain::ids::DeploymentId;
use baton_domain::time::{Millis, Timestamp};
use ed25519_dalek::SigningKey;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use checkpoint::{Checkpointer, Shared};
use orders::Desk;
use pen::Pen;
pub use place::Place;
use reads::Readers;
use seam::Round;
use writer::Writer;

use crate::gauges::Gauges;
use crate::inbox::Inbox;
use crate::ruling::Judge;
use crate::{Answer, Bell, Clock, Error, PepperDigest};

pub use crate::rows::Chance;
/// Tells how many bytes are free, if it can.
pub type FreeBytes = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The oldest SQLite without a known way to lose data.
const SQLITE_MIN: i32 = 3_051_003;
/// Connections that read.
const READERS: usize = 3;
/// How often free disk is looked at.
const LOOK_EVERY: Millis = Millis::seconds(1);
/// Below this, new work is refused.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// How a store is opened.
pub struct Options {
    /// Who decides.
    pub judge: Judge,
    /// What time it is; the store's own if none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where chance comes from.
    pub chance: Chance,
    /// Who is told what became claimable.
    pub bell: Bell,
    /// What seals are signed with; without it nothing is sealed.
    pub signing: Option<SigningKey>,
    /// By which a wrong pepper is known; without it any pepper will do.
    pub pepper: Option<PepperDigest>,
    /// A file layer of the caller's own, for tests on made-up disks.
    pub vfs: Option<String>,
    /// How much room there is.
    pub free_bytes: FreeBytes,
    /// Below this, new work is refused.
    pub free_bytes_min: u64,
    synchronous: &'static str,
    /// Rows written between two checkpoints.
    pub checkpoint_rows: usize,
}

impl Options {
    /// The usual way.
    #[must_use]
    pub fn new(judge: Judge, chance: Chance, folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self {
            judge,
            clock: None,
            chance,
            bell: Arc::new(|_| {}),
            signing: None,
            pepper: None,
            vfs: None,
            free_bytes: Arc::new(move || place::free_bytes(&folder)),
            free_bytes_min: FREE_BYTES_MIN,
            synchronous: "FULL",
            checkpoint_rows: checkpoint::ROWS_BETWEEN,
        }
    }

    /// What less than `FULL` would lose, for tests that must find such losses to prove anything.
    /// No setting of the program leads here.
    #[doc(hidden)]
    #[must_use]
    pub fn weakened(self, synchronous: &'static str) -> Self {
        Self { synchronous, ..self }
    }
}

/// Why a store was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{0} is in use by another baton: stop it first")]
    InUse(PathBuf),
    /// Not a folder that only we can read.
    #[error("{0} must be a folder of your own with mode 0700: chmod 700 it, or choose another")]
    NotOurs(PathBuf),
    /// Not on a local disk.
    #[error("{0} is on {1}: choose a folder on a local disk")]
    Network(PathBuf, &'static str),
    /// Written by a newer binary.
    #[error("the database needs version {found} of the schema, this binary knows {known}: upgrade")]
    Newer {
        /// What the database needs.
        found: i64,
        /// What this binary knows.
        known: i64,
    },
    /// Not a database of ours.
    #[error("the database was not made by baton, or is damaged at its head")]
    NotBaton,
    /// It was made with another pepper.
    #[error("the pepper is not the one that this database was made with: put the right file back")]
    WrongPepper,
    /// It cannot be read.
    #[error("the database cannot be read: {0}")]
    Damaged(String),
    /// A migration failed, and was undone.
    #[error("the migration to version {0} failed and was undone: {1}")]
    Migration(i64, String),
    /// The copy before a migration failed.
    #[error("the copy {0} could not be made: {1}")]
    Backup(PathBuf, String),
    /// The file system failed.
    #[error("{0}: {1}")]
    Io(PathBuf, String),
}

/// A store in a folder.
pub struct SqliteStore {
    inbox: Arc<Inbox>,
    gauges: Arc<Gauges>,
    /// Gone once the store is being closed.
    readers: Option<Readers>,
    clock: Arc<dyn Clock>,
    checkpoints: Arc<Shared>,
    free_bytes: FreeBytes,
    signing: Option<SigningKey>,
    incarnation: u64,
    deployment: DeploymentId,
    /// The audit that goes on in the background.
    round: Arc<Mutex<Round>>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the store in a folder, or makes one there.
    pub fn open(folder: &Path, options: Options) -> Result<Self, OpenError> {
        let place = match &options.vfs {
            None => Place::enter(folder)?,
            Some(_) => Place::nowhere(),
        };
        Self::open_in(place, folder, options)
    }

    /// Opens the store in a folder that was entered before.
    pub fn open_in(
        mut place: Place,
        folder: &Path,
        mut options: Options,
    ) -> Result<Self, OpenError> {
        let path = folder.join("baton.db");
        // Without ballast a full disk is still survived; only ends of work may then not fit.
        drop(place.restore_ballast());
        let damaged = |error: rusqlite::Error| OpenError::Damaged(error.to_string());
        let conn = prepared(folder, &mut options)?;
        let swept_at = place.watched_at();
        let last = last_time(&conn).map_err(damaged)?.max(swept_at);
        let clock = options
            .clock
            .take()
            .unwrap_or_else(|| Arc::new(crate::clock::SystemClock::starting_at(last)));
        let books = load::books(&conn, swept_at).map_err(damaged)?;
        let (incarnation, deployment) = load::names(&conn).map_err(damaged)?;
        let (inbox, gauges) = (Arc::new(Inbox::default()), Arc::new(Gauges::default()));
        let shared = Shared::new(Arc::clone(&clock));
        // A process that is killed young never gets to it: its log would grow from life to life.
        checkpoint::copy(&conn, "TRUNCATE", &shared).map_err(damaged)?;
        let io = |error: std::io::Error| OpenError::Io(folder.into(), error.to_string());
        let checkpointer = Checkpointer::start(
            connect(&path, &options, false)?,
            Arc::clone(&shared),
            Arc::clone(&gauges),
            options.checkpoint_rows,
        )
        .map_err(io)?;
        let connections: Result<_, _> =
            (0..READERS).map(|_| connect(&path, &options, true)).collect();
        let readers = Some(Readers::start(connections?).map_err(io)?);
        let free_bytes = Arc::clone(&options.free_bytes);
        let signing = options.signing.take();
        let chance = std::mem::replace(&mut options.chance, Box::new(|_| {}));
        let (freed, set_aside) = (vec![], BTreeSet::new());
        let (pen, judge) = (Pen::new(conn, chance), options.judge);
        writer::read_books(&gauges, &books);
        let writer = Writer {
            desk: Desk { pen, books, judge, freed, set_aside },
            inbox: Arc::clone(&inbox),
            gauges: Arc::clone(&gauges),
            clock: Arc::clone(&clock),
            place,
            checkpointer,
            options,
            last,
            looked_at: Timestamp(0),
            aside_since: 0,
            heads: vec![],
        };
        gauges.swept_at.store(swept_at.0, Ordering::Relaxed);
        let named = std::thread::Builder::new().name("baton-write".into());
        let writer = Some(named.spawn(move || writer.run()).map_err(io)?);
        let checkpoints = shared;
        Ok(Self {
            inbox,
            gauges,
            readers,
            clock,
            checkpoints,
            free_bytes,
            signing,
            incarnation,
            deployment,
            round: Arc::default(),
            writer,
        })
    }

    /// The store's clock.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn read<'a, T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        match &self.readers {
            Some(readers) => readers.read(query),
            None => Box::pin(async { Err(Error::Stopped("the store is closed".into())) }),
        }
    }

    /// Why the store stopped by itself, if it did.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.gauges.stopped()
    }
}

impl Drop for SqliteStore {
    /// What was accepted is carried out; then the log is copied back and the folder is free.
    fn drop(&mut self) {
        // The writer's connection must be the last one: it takes the log with it.
        self.readers = None;
        self.inbox.close();
        if let Some(writer) = self.writer.take() {
            drop(writer.join());
        }
    }
}

/// The writer's connection to a database of the present version that belongs to our secrets.
fn prepared(folder: &Path, options: &mut Options) -> Result<Connection, OpenError> {
    let damaged = |error: rusqlite::Error| OpenError::Damaged(error.to_string());
    let mut conn = open_file(&folder.join("baton.db"), options)?;
    migrate::refuse_unknown(&conn)?;
    set_up(&conn, options.synchronous, false).map_err(damaged)?;
    let backup = options.vfs.is_none().then_some(folder);
    migrate::migrate(&mut conn, backup, &mut options.chance)?;
    if let Some(pepper) = &options.pepper
        && !trust::knows_pepper(&conn, pepper).map_err(damaged)?
    {
        return Err(OpenError::WrongPepper);
    }
    if let Some(signing) = &options.signing {
        trust::vouch(&mut conn, signing).map_err(damaged)?;
    }
    Ok(conn)
}

fn connect(path: &Path, options: &Options, reader: bool) -> Result<Connection, OpenError> {
    let conn = open_file(path, options)?;
    set_up(&conn, options.synchronous, reader)
        .map_err(|error| OpenError::Damaged(error.to_string()))?;
    Ok(conn)
}

/// Opens the file and changes nothing yet.
fn open_file(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    if rusqlite::version_number() < SQLITE_MIN {
        return Err(OpenError::Damaged(format!("SQLite {} is too old", rusqlite::version())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match &options.vfs {
        None => Connection::open_with_flags(path, flags),
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
    }
    .map_err(|error| OpenError::Damaged(error.to_string()))
}

/// A prepared statement keeps its plan. Otherwise SQLite makes a new one whenever a value is bound
/// that is compared with a column outside of every index, in case the value would change the plan.
fn plan_once(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn set_up(conn: &Connection, synchronous: &str, reader: bool) -> rusqlite::Result<()> {
    plan_once(conn)?;
    conn.busy_timeout(std::time::Duration::from_secs(10))?;
    // The answer comes before the change is committed: only a statement that is stepped to its
    // end tells whether it was.
    let mut wal = conn.prepare("PRAGMA journal_mode = WAL")?;
    let modes: Vec<String> =
        wal.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if modes != ["wal"] {
        return Err(rusqlite::Error::InvalidQuery);
    }
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "fullfsync", true)?;
    // A deleted lease leaves its nonce in the free part of its page otherwise. The log keeps old
    // pages until it starts over; without the pepper a nonce opens nothing.
    conn.pragma_update(None, "secure_delete", "FAST")?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cache_size", if reader { -2_000 } else { -32_000 })?;
    if reader {
        conn.pragma_update(None, "query_only", true)?;
    }
    Ok(())
}

/// The latest time that an entry bears: the clock never starts before it.
fn last_time(conn: &Connection) -> rusqlite::Result<Timestamp> {
    let sql = "SELECT coalesce(max(at), 0) FROM (SELECT
               (SELECT at FROM events WHERE tenant = t.id ORDER BY position DESC LIMIT 1) AS at
               FROM tenants t)";
    conn.query_row(sql, [], |row| row.get(0)).map(Timestamp)
}
