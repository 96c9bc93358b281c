//! Schema versions: numbered, each one transaction under one lock, refused when newer.

use tokio_postgres::error::SqlState;

use super::OpenError;
use super::trouble::Trouble;
use super::wire::{Conn, params};
use crate::rows::Chance;

/// Every version of the schema; the last one is the present.
const MIGRATIONS: [&str; 2] =
    [include_str!("migrations/0001_tasks.sql"), include_str!("migrations/0002_heard.sql")];
/// What the readers' role may see.
const GRANTS: &str = include_str!("migrations/grants.sql");
/// The advisory lock under which servers that start at once migrate one after another.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1113683968, 6)";
/// Whoever waits for a table longer than this gives up, so that nobody queues behind a migration.
const BOUNDS: &str = "SET LOCAL lock_timeout = '5s'";
/// How often the role of the readers is asked for: clusters know it by name, and two databases of
/// one cluster may make it at once.
const ROLE_TRIES: usize = 5;

const IS_OURS: &str = "SELECT to_regclass('meta') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'v')
        AND relnamespace = current_schema()::regnamespace)";
const VERSIONS: &str = "SELECT (SELECT number FROM meta WHERE name = 'version'),
    (SELECT number FROM meta WHERE name = 'min_reader')";
const NAMES: &str = "INSERT INTO meta (name, number, bytes)
    VALUES ('min_reader', 1, NULL), ('incarnation', $1, NULL), ('deployment', NULL, $2)";
const VERSION: &str = "INSERT INTO meta (name, number) VALUES ('version', $1)
    ON CONFLICT (name) DO UPDATE SET number = excluded.number";
const HAS_ROLE: &str = "SELECT pg_has_role(current_user, r.oid, 'MEMBER')
    FROM pg_roles r WHERE r.rolname = 'baton_reader'";
const EMPTY: &str = "DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
            EXECUTE format('DROP TABLE %I CASCADE', name);
        END LOOP;
        DROP FUNCTION IF EXISTS refuse_change(), keep_entry();
    END $$";
const MAKE_ROLE: &str = "DO $$ BEGIN
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'baton_reader') THEN
            CREATE ROLE baton_reader NOLOGIN;
        END IF;
        IF NOT pg_has_role(current_user, 'baton_reader', 'MEMBER') THEN
            GRANT baton_reader TO CURRENT_USER;
        END IF;
    END $$";

/// The version of a database that this binary may touch: zero if there is nothing in it.
pub(super) async fn found(conn: &mut Conn) -> Result<i64, OpenError> {
    check(conn, known(&MIGRATIONS)).await
}

fn known(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// Brings a database to the present version, or says why not.
pub(super) async fn migrate(conn: &mut Conn, chance: &mut Chance) -> Result<(), OpenError> {
    let known = known(&MIGRATIONS);
    let found = check(conn, known).await?;
    make_role(conn).await?;
    for at in found..known {
        step(conn, chance, at, known).await?;
    }
    Ok(())
}

/// One version, unless somebody else has brought it about meanwhile.
async fn step(conn: &mut Conn, chance: &mut Chance, at: i64, known: i64) -> Result<(), OpenError> {
    let broken = |error: tokio_postgres::Error| {
        OpenError::Migration(at + 1, Trouble::from(error).told().to_string())
    };
    let failed = |trouble: Trouble| OpenError::Migration(at + 1, trouble.told().to_string());
    conn.client.batch_execute("BEGIN").await.map_err(broken)?;
    conn.client.batch_execute(BOUNDS).await.map_err(broken)?;
    conn.client.batch_execute(LOCK).await.map_err(broken)?;
    if check(conn, known).await? > at {
        return conn.client.batch_execute("COMMIT").await.map_err(broken);
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
    conn.client.batch_execute(GRANTS).await.map_err(broken)?;
    conn.query(VERSION, params![at + 1]).await.map_err(failed)?;
    conn.client.batch_execute("COMMIT").await.map_err(broken)
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

/// Gives the readers' role its rights, which a copy does not bring back.
pub(super) async fn grant(conn: &mut Conn) -> Result<(), OpenError> {
    let granted = conn.client.batch_execute(GRANTS).await;
    granted.map_err(|error| OpenError::Damaged(Trouble::from(error).told().to_string()))
}

/// Takes everything out of a database that a copy was put into in vain.
pub(super) async fn empty(conn: &mut Conn) -> Result<(), OpenError> {
    let emptied = conn.client.batch_execute(EMPTY).await;
    emptied.map_err(|error| OpenError::Damaged(Trouble::from(error).told().to_string()))
}

/// Readers see one tenant because they have a role that row level security holds for.
pub(super) async fn make_role(conn: &mut Conn) -> Result<(), OpenError> {
    let mut last = String::new();
    for _ in 0..ROLE_TRIES {
        let has = conn.query(HAS_ROLE, vec![]).await;
        if has.is_ok_and(|rows| rows.first().is_some_and(|row| row.get(0))) {
            return Ok(());
        }
        match conn.client.batch_execute(MAKE_ROLE).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                return Err(OpenError::NoRole);
            }
            Err(error) => last = Trouble::from(error).told().to_string(),
        }
    }
    Err(OpenError::Damaged(last))
}
