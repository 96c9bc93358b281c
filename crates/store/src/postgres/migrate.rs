//! Schema versions: numbered, each one transaction under one lock, refused when newer.

use super::OpenError;
use super::readers::Reader;
use super::trouble::Trouble;
use super::wire::{Conn, params};
use crate::rows::Chance;

/// Every version of the schema; the last one is the present.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_heard.sql"),
    include_str!("migrations/0003_channels.sql"),
];
/// The advisory lock under which servers that start at once migrate one after another.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(1113683968, 6)";
/// Whoever waits for a table longer than this gives up, so that nobody queues behind a migration.
pub(super) const BOUNDS: &str = "SET LOCAL lock_timeout = '5s'";
const IS_OURS: &str = "SELECT to_regclass('meta') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'v') AND relname <> 'unfinished'
        AND relnamespace = current_schema()::regnamespace),
    to_regclass('unfinished') IS NOT NULL";
const UNFINISHED: &str = "SELECT what FROM unfinished";
const VERSIONS: &str = "SELECT (SELECT number FROM meta WHERE name = 'version'),
    (SELECT number FROM meta WHERE name = 'min_reader')";
const NAMES: &str = "INSERT INTO meta (name, number, bytes)
    VALUES ('min_reader', 1, NULL), ('incarnation', $1, NULL), ('deployment', NULL, $2)";
const VERSION: &str = "INSERT INTO meta (name, number) VALUES ('version', $1)
    ON CONFLICT (name) DO UPDATE SET number = excluded.number";
/// Everything that a migrated database holds.
const TABLES: &str =
    "meta, watched, tenants, births, projects, briefs, flows, leases, runs, attempts,
    checkpoints, edges, pools, keys, channels, reactions, events, seals, seal_keys, requests";

/// What a database may be in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A copy is being brought back; whatever is there is half of it.
    Copy,
    /// It is being given another life; what is there is whole.
    Life,
}

impl Unfinished {
    /// The word that stands for it in the database.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Life => "life",
        }
    }
}

/// The version of a database that this binary may touch: zero if there is nothing in it.
pub(super) async fn found(conn: &mut Conn) -> Result<i64, OpenError> {
    match unfinished(conn).await? {
        Some(what) => Err(OpenError::Unfinished(what)),
        None => beneath(conn).await,
    }
}

/// The same of what is in the middle of something.
pub(super) async fn beneath(conn: &mut Conn) -> Result<i64, OpenError> {
    check(conn, known(&MIGRATIONS)).await
}

async fn version(conn: &mut Conn, even_unfinished: bool) -> Result<i64, OpenError> {
    if even_unfinished { beneath(conn).await } else { found(conn).await }
}

/// What a database is in the middle of.
pub(super) async fn unfinished(conn: &mut Conn) -> Result<Option<Unfinished>, OpenError> {
    let damaged =
        |error: tokio_postgres::Error| OpenError::Damaged(Trouble::from(error).told().to_string());
    let about = conn.client.query(IS_OURS, &[]).await.map_err(damaged)?;
    if !about.first().is_some_and(|row| row.get::<_, bool>(2)) {
        return Ok(None);
    }
    let words = conn.client.query(UNFINISHED, &[]).await.map_err(damaged)?;
    let word = words.first().map(|row| row.get::<_, String>(0));
    let all = [Unfinished::Copy, Unfinished::Life];
    let known = all.into_iter().find(|what| word.as_deref() == Some(what.word()));
    known.map(Some).ok_or(OpenError::NotBaton)
}

fn known(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// What a start has made of a database.
pub(super) struct Migrated {
    pub(super) reader: Reader,
    /// Whether this start made the tables, or found them.
    pub(super) is_new: bool,
    /// Whether it made the role of the readers.
    pub(super) is_role_new: bool,
}

/// Brings a database to the present version, or says why not.
pub(super) async fn migrate(
    conn: &mut Conn,
    chance: &mut Chance,
    even_unfinished: bool,
) -> Result<Migrated, OpenError> {
    let found = version(conn, even_unfinished).await?;
    let reader = Reader::of(conn).await?;
    let is_role_new = reader.make(conn).await?;
    let mut is_new = false;
    for at in found..known(&MIGRATIONS) {
        is_new |= step(conn, chance, at, even_unfinished).await? && at == 0;
    }
    reader.grant(conn).await?;
    Ok(Migrated { reader, is_new, is_role_new })
}

/// One version, unless somebody else has brought it about meanwhile; tells which.
async fn step(
    conn: &mut Conn,
    chance: &mut Chance,
    at: i64,
    even_unfinished: bool,
) -> Result<bool, OpenError> {
    let broken = |error: tokio_postgres::Error| {
        OpenError::Migration(at + 1, Trouble::from(error).told().to_string())
    };
    let failed = |trouble: Trouble| OpenError::Migration(at + 1, trouble.told().to_string());
    conn.client.batch_execute("BEGIN").await.map_err(broken)?;
    conn.client.batch_execute(BOUNDS).await.map_err(broken)?;
    conn.client.batch_execute(LOCK).await.map_err(broken)?;
    if version(conn, even_unfinished).await? > at {
        conn.client.batch_execute("COMMIT").await.map_err(broken)?;
        return Ok(false);
    }
    let sql = usize::try_from(at).ok().and_then(|at| MIGRATIONS.get(at)).copied();
    conn.client.batch_execute(sql.unwrap_or_default()).await.map_err(broken)?;
    if at == 0 {
        let mut draw = || {
            let mut bytes = [0; 8];
            chance(&mut bytes);
            i64::from_be_bytes(bytes).unsigned_abs().clamp(1, u64::MAX >> 1)
        };
        let (incarnation, deployment) = (draw(), draw());
        let deployment = format!("d-{deployment:016x}").into_bytes();
        let incarnation = crate::rows::int(incarnation);
        conn.query(NAMES, params![incarnation, deployment]).await.map_err(failed)?;
    }
    conn.query(VERSION, params![at + 1]).await.map_err(failed)?;
    conn.client.batch_execute("COMMIT").await.map_err(broken)?;
    Ok(true)
}

/// The version of a database that a binary which knows so many versions may touch. A newer one
/// may have written rows that an older one must not.
async fn check(conn: &mut Conn, known: i64) -> Result<i64, OpenError> {
    let damaged = |trouble: Trouble| OpenError::Damaged(trouble.told().to_string());
    // Not prepared: its answer changes with the schema.
    let about = conn.client.query(IS_OURS, &[]).await;
    let about = about.map_err(|error| damaged(error.into()))?;
    let row = about.first().ok_or(OpenError::NotBaton)?;
    match (row.get::<_, bool>(0), row.get::<_, i64>(1)) {
        (false, 0) => return Ok(0),
        (false, _) => return Err(OpenError::NotBaton),
        (true, _) => {}
    }
    let versions = conn.client.query(VERSIONS, &[]).await.map_err(|_| OpenError::NotBaton)?;
    let row = versions.first().ok_or(OpenError::NotBaton)?;
    let version: Option<i64> = row.get(0);
    let needed: Option<i64> = row.get(1);
    let (Some(found), Some(needed)) = (version, needed) else { return Err(OpenError::NotBaton) };
    if found > known || needed > known {
        return Err(OpenError::Newer { found: found.max(needed), known });
    }
    Ok(found)
}

/// Takes everything of ours out of a database, in the transaction that is open.
pub(super) async fn empty(conn: &mut Conn) -> Result<(), OpenError> {
    let statement = format!(
        "DROP TABLE IF EXISTS {TABLES}, unfinished CASCADE;
         DROP FUNCTION IF EXISTS refuse_change(), keep_entry()"
    );
    let emptied = conn.client.batch_execute(&statement).await;
    emptied.map_err(|error| OpenError::Damaged(Trouble::from(error).told().to_string()))
}
