//! Copies of a database by the tools that come with Postgres. A copy is of one moment, and that
//! moment is walked while it is copied.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::VerifyingKey;

use super::address::Address;
use super::connections::Connections;
use super::load::hash;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::Conn;
use super::{OpenError, audit, migrate, open, tools};
use crate::PepperDigest;
use crate::chain::Audit;
use crate::rows::nat;

/// Rows that are walked between two looks at the clock of the database.
const WALKED_AT_ONCE: usize = 5_000;

const SNAPSHOT: &str = "SELECT pg_export_snapshot()";
const EDITION: &str = "SELECT (SELECT number FROM meta WHERE name = 'version'),
    (SELECT number FROM meta WHERE name = 'incarnation'),
    (SELECT bytes FROM meta WHERE name = 'pepper')";
/// Why a copy was not made or not brought back. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is something under that name.
    #[error("{0} exists already: choose another name")]
    Exists(PathBuf),
    /// There is something in the database.
    #[error("the database is not empty, and nothing is written over: create another by createdb")]
    NotEmpty,
    /// There is nothing in it.
    #[error("the database is empty: nothing was ever kept in it")]
    Empty,
    /// The file is something else.
    #[error("{0} is no copy that `baton backup` made of a Postgres database")]
    NotACopy(PathBuf),
    /// Servers are at work in it.
    #[error("servers are at work in the database: stop them first")]
    InUse,
    /// A pooler would lend what must be held.
    #[error("a restore needs a connection of its own: name the database itself, not its pooler")]
    Pooled,
    /// Somebody else restores.
    #[error("another restore is at work in the database: wait for it")]
    Busy,
    /// A tool is missing.
    #[error(
        "{0} is not to be found: install the client tools of Postgres, or put them on the path"
    )]
    NoTool(&'static str),
    /// A tool failed.
    #[error("{0} failed: {1}")]
    Tool(&'static str, String),
    /// The database is not to be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed.
    #[error("the database cannot be read: {0}")]
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

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        Self::Damaged(trouble.told().to_string())
    }
}

/// What is known of a database without opening it for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Which version of the schema it has; none if there is nothing in it.
    pub version: i64,
    /// Which life of it this is.
    pub incarnation: u64,
    /// By which the pepper that belongs to it is known.
    pub pepper: Option<PepperDigest>,
}

/// What is known of a database, which may be in use. Nothing of it is changed.
pub async fn about(url: &str) -> Result<Edition, Error> {
    let mut conn = open::reach(&Address::read(url)?, false).await?;
    edition(&mut conn).await
}

pub(super) async fn edition(conn: &mut Conn) -> Result<Edition, Error> {
    if migrate::found(conn).await? == 0 {
        return Ok(Edition { version: 0, incarnation: 0, pepper: None });
    }
    let rows = conn.query(EDITION, vec![]).await?;
    let row = rows.first().ok_or(OpenError::NotBaton)?;
    let pepper = row.get::<_, Option<&[u8]>>(2).map(hash).transpose()?;
    Ok(Edition {
        version: row.get::<_, Option<i64>>(0).unwrap_or(0),
        incarnation: nat(row.get::<_, Option<i64>>(1).unwrap_or(0)),
        pepper: pepper.map(PepperDigest),
    })
}

/// Walks every chain and every seal of a database, which may be in use.
pub async fn verify(url: &str, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let connections = Connections::new(checked(url).await?, 1);
    let mut reading = Reading::alone(&connections).await?;
    walk(&mut reading, trusted).await
}

async fn checked(url: &str) -> Result<Address, Error> {
    let address = Address::read(url)?;
    let mut conn = open::reach(&address, true).await?;
    match migrate::found(&mut conn).await? {
        0 => Err(Error::Empty),
        _ => Ok(address),
    }
}

async fn walk(reading: &mut Reading<'_>, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let present = trusted.and_then(|bytes| VerifyingKey::from_bytes(bytes).ok());
    let (mut reached, mut all) = (audit::Reached::default(), Audit::default());
    while !all.ended && all.fault.is_none() {
        let part = audit::part(reading, &mut reached, present.as_ref(), WALKED_AT_ONCE).await;
        let part = part.map_err(|error| Error::Damaged(error.to_string()))?;
        all = Audit {
            entries: all.entries + part.entries,
            seals: all.seals + part.seals,
            ended: part.ended,
            fault: part.fault,
        };
    }
    Ok(all)
}

/// The same, where what is wrong ends it.
pub(super) async fn walk_whole(
    reading: &mut Reading<'_>,
    trusted: Option<&[u8; 32]>,
) -> Result<Audit, Error> {
    let audit = walk(reading, trusted).await?;
    match audit.fault {
        Some(fault) => {
            Err(Error::Fault { tenant: fault.tenant, position: fault.position, what: fault.what })
        }
        None => Ok(audit),
    }
}

/// Copies a database, which may be in use. The moment that is copied is walked before the copy gets
/// its name.
pub async fn back_up(url: &str, to: &Path, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists(to.into()));
    }
    let address = checked(url).await?;
    let connections = Connections::new(address.clone(), 1);
    let mut reading = Reading::alone(&connections).await?;
    let audit = walk_whole(&mut reading, trusted).await?;
    let rows = reading.query(SNAPSHOT, vec![]).await;
    let rows = rows.map_err(|error| Error::Damaged(error.to_string()))?;
    let snapshot: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
    let mut draft = OsString::from(to);
    draft.push(".partial");
    let draft = PathBuf::from(draft);
    let file = draft.as_os_str().to_owned();
    let arguments = [
        "--format=custom".into(),
        "--no-owner".into(),
        "--no-privileges".into(),
        "--no-unlogged-table-data".into(),
        format!("--snapshot={snapshot}").into(),
        "--file".into(),
        file,
    ];
    let made = match ours_alone(&draft) {
        Ok(()) => tools::run("pg_dump", &address, &arguments).await.and_then(|_| name(&draft, to)),
        Err(error) => Err(Error::Io(draft.clone(), error)),
    };
    drop(fs::remove_file(&draft));
    reading.end().await;
    made.map(|()| audit)
}

/// Makes the file before anything is written to it: a copy holds what nobody else may read. One that
/// was left over is begun anew.
fn ours_alone(draft: &Path) -> io::Result<()> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map(drop)
}

/// Gives a copy its name, once it is on disk.
fn name(draft: &Path, to: &Path) -> Result<(), Error> {
    let io = |error| Error::Io(to.into(), error);
    File::open(draft).and_then(|file| file.sync_all()).map_err(io)?;
    // Unlike a rename, a link never takes the place of a file that was made meanwhile.
    fs::hard_link(draft, to).map_err(|error| {
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        if exists { Error::Exists(to.into()) } else { Error::Io(to.into(), error) }
    })?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}
