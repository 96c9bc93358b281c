//! Copies of a database by the tools that come with Postgres. A copy is of one moment, and that
//! moment is walked while it is copied; it comes back only into a database without anything in it,
//! under a new incarnation.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use baton_domain::scene::Lease;
use ed25519_dalek::VerifyingKey;
use tokio::process::Command;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::connections::Connections;
use super::load::{BEGIN, hash};
use super::pen::COMMIT;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Conn, Flush, params};
use super::{Chance, OpenError, audit, migrate, open};
use crate::PepperDigest;
use crate::chain::Audit;
use crate::rows::{int, nat};

/// Where distributions keep the tools, beside the path: one folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Versions that are looked through.
const VERSIONS_MAX: usize = 64;
/// Bytes of what a tool says when it fails.
const SAID_MAX: usize = 400;
/// Rows that are walked between two looks at the clock of the database.
const WALKED_AT_ONCE: usize = 5_000;

const SNAPSHOT: &str = "SELECT pg_export_snapshot()";
const EDITION: &str = "SELECT (SELECT number FROM meta WHERE name = 'version'),
    (SELECT number FROM meta WHERE name = 'incarnation'),
    (SELECT bytes FROM meta WHERE name = 'pepper')";
const LIFE: &str = "UPDATE meta SET number = $1 WHERE name = 'incarnation'";
const FORFEIT: &str = "UPDATE leases SET expires_at = $1";
const UNWATCHED: &str = "DELETE FROM watched";

/// Why a copy was not made or not brought back. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is something under that name.
    #[error("{0} exists already: choose another name")]
    Exists(PathBuf),
    /// There is something in the database.
    #[error("the database is not empty, and nothing is written over: create another by createdb")]
    NotEmpty,
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

/// A database that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Which life of it this is; claim tokens and cursors of others are dead.
    pub incarnation: u64,
    /// What was walked.
    pub audit: Audit,
}

/// What is known of a database, which may be in use. Nothing of it is changed.
pub async fn about(url: &str) -> Result<Edition, Error> {
    let mut conn = open::reach(&open::config(url)?, false).await?;
    if migrate::found(&mut conn).await? == 0 {
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
    let config = checked(url).await?;
    let connections = Connections::new(config, 1);
    let mut reading = Reading::alone(&connections).await?;
    walk(&mut reading, trusted).await
}

async fn checked(url: &str) -> Result<Config, Error> {
    let config = open::config(url)?;
    let mut conn = open::reach(&config, true).await?;
    match migrate::found(&mut conn).await? {
        0 => Err(OpenError::NotBaton.into()),
        _ => Ok(config),
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
async fn walk_whole(reading: &mut Reading<'_>, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
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
    let config = checked(url).await?;
    let connections = Connections::new(config.clone(), 1);
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
        Ok(()) => run("pg_dump", &config, &arguments).await.and_then(|()| name(&draft, to)),
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

/// Brings a copy back into a database without anything in it, gives it another life and walks it.
/// If it does not hold, the database is empty again.
pub async fn restore(
    file: &Path,
    url: &str,
    chance: &mut Chance,
    trusted: Option<&[u8; 32]>,
) -> Result<Restored, Error> {
    File::open(file).map_err(|error| Error::Io(file.into(), error))?;
    let config = open::config(url)?;
    let mut conn = open::reach(&config, false).await?;
    if !matches!(migrate::found(&mut conn).await, Ok(0)) {
        return Err(Error::NotEmpty);
    }
    migrate::make_role(&mut conn).await?;
    let arguments = [
        "--single-transaction".into(),
        "--exit-on-error".into(),
        "--no-owner".into(),
        "--no-privileges".into(),
        "--dbname".into(),
        config.get_dbname().unwrap_or_default().into(),
        file.as_os_str().to_owned(),
    ];
    run("pg_restore", &config, &arguments).await?;
    let restored = finish(&mut conn, &config, chance, trusted).await;
    if restored.is_err() {
        migrate::empty(&mut conn).await?;
    }
    restored
}

async fn finish(
    conn: &mut Conn,
    config: &Config,
    chance: &mut Chance,
    trusted: Option<&[u8; 32]>,
) -> Result<Restored, Error> {
    migrate::found(conn).await?;
    migrate::grant(conn).await?;
    let rows = conn.query(EDITION, vec![]).await?;
    let before = rows.first().map_or(0, |row| nat(row.get::<_, Option<i64>>(1).unwrap_or(0)));
    let mut bytes = [0; 8];
    chance(&mut bytes);
    // Positive, never the one before, and never the one that means no life at all.
    let drawn = u64::from_be_bytes(bytes) >> 1;
    let incarnation = if drawn == before || drawn == 0 { before / 2 + 1 } else { drawn };
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(LIFE, params![int(incarnation)]);
    flush.add(FORFEIT, params![Lease::FORFEIT.0]);
    flush.add(UNWATCHED, vec![]);
    flush.add(COMMIT, vec![]);
    conn.send(flush).await?;
    let connections = Connections::new(config.clone(), 1);
    let mut reading = Reading::alone(&connections).await?;
    let audit = walk_whole(&mut reading, trusted).await?;
    reading.end().await;
    Ok(Restored { incarnation, audit })
}

/// Runs a tool. What opens the database goes by the environment, where no list of processes shows it.
async fn run(tool: &'static str, config: &Config, arguments: &[OsString]) -> Result<(), Error> {
    let mut candidates = vec![PathBuf::from(tool)];
    candidates.extend(installed().into_iter().map(|folder| folder.join(tool)));
    for candidate in candidates {
        let mut command = Command::new(&candidate);
        command.args(arguments).envs(environment(config)).kill_on_drop(true);
        match command.output().await {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => return Err(Error::Tool(tool, said(&output))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::Io(candidate, error)),
        }
    }
    Err(Error::NoTool(tool))
}

/// Folders of tools, the newest version first.
fn installed() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(VERSIONS) else { return vec![] };
    let version = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let paths = entries.take(VERSIONS_MAX).flatten().map(|entry| entry.path());
    let mut versions: Vec<_> = paths.filter_map(|path| Some((version(&path)?, path))).collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, path)| path.join("bin")).collect()
}

fn environment(config: &Config) -> Vec<(&'static str, OsString)> {
    let mut told: Vec<(&'static str, OsString)> = vec![];
    if let Some(host) = config.get_hosts().first() {
        let host = match host {
            Host::Tcp(name) => OsString::from(name),
            Host::Unix(path) => path.as_os_str().to_owned(),
        };
        told.push(("PGHOST", host));
    }
    told.extend(config.get_ports().first().map(|port| ("PGPORT", port.to_string().into())));
    told.extend(config.get_user().map(|user| ("PGUSER", user.into())));
    told.extend(config.get_dbname().map(|name| ("PGDATABASE", name.into())));
    let password = config.get_password().map(String::from_utf8_lossy);
    told.extend(password.map(|password| ("PGPASSWORD", password.into_owned().into())));
    told
}

/// What a tool said when it failed, on one line.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty());
    line.collect::<Vec<_>>().join("; ").chars().take(SAID_MAX).collect()
}
