//! Schema versions: numbered, each one transaction, backed up before, refused when newer.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, params};

use super::{Chance, OpenError};

/// `Batn`, so that a database of ours is known as one.
pub(super) const APPLICATION_ID: i32 = 0x4261_746e;

/// How the name of a copy begins.
const COPY: &str = "before-version-";
/// Copies that are kept: of the last migrations, or of the last tries of one.
const COPIES_KEPT: usize = 3;

/// Every version of the schema; the last one is the present.
const MIGRATIONS: [&str; 3] = [
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_heard.sql"),
    include_str!("migrations/0003_channels.sql"),
];

/// Refuses what is not ours, or too new for us, before anything of it is changed: not even its
/// log is copied back.
pub(super) fn refuse_unknown(conn: &Connection) -> Result<(), OpenError> {
    let keep_log = |keep| {
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
            .map_err(|error| OpenError::Damaged(error.to_string()))
    };
    keep_log(true)?;
    found(conn)?;
    keep_log(false).map(drop)
}

/// The version of a database that this binary may touch: zero if there is nothing in it.
pub(super) fn found(conn: &Connection) -> Result<i64, OpenError> {
    check(conn, i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX))
}

/// Brings a database to the present version, or says why not. `backup` is where a copy goes
/// before anything is changed.
pub(super) fn migrate(
    conn: &mut Connection,
    backup: Option<&Path>,
    chance: &mut Chance,
) -> Result<(), OpenError> {
    bring_to(&MIGRATIONS, conn, backup, chance)
}

fn bring_to(
    migrations: &[&str],
    conn: &mut Connection,
    backup: Option<&Path>,
    chance: &mut Chance,
) -> Result<(), OpenError> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    let found = check(conn, known)?;
    if let Some(folder) = backup.filter(|_| (1..known).contains(&found)) {
        back_up(conn, &folder.join(copy_name(conn, found + 1)?))?;
        drop_old_copies(folder);
    }
    for (at, sql) in (1_i64..).zip(migrations).skip(usize::try_from(found).unwrap_or(0)) {
        let broken = |error: rusqlite::Error| OpenError::Migration(at, error.to_string());
        let step = conn.transaction().map_err(broken)?;
        step.execute_batch(sql).map_err(broken)?;
        if at == 1 {
            found_names(&step, chance).map_err(broken)?;
        }
        step.pragma_update(None, "user_version", at).map_err(broken)?;
        step.pragma_update(None, "application_id", APPLICATION_ID).map_err(broken)?;
        step.commit().map_err(broken)?;
    }
    Ok(())
}

/// A copy is named after what it is a copy of: a second try after more work has a copy of its own,
/// and a second try right away finds the one that is there.
fn copy_name(conn: &Connection, version: i64) -> Result<String, OpenError> {
    let damaged = |error: rusqlite::Error| OpenError::Damaged(error.to_string());
    let incarnation = super::load::meta(conn, "incarnation").map_err(damaged)?.unwrap_or(0);
    let sql = "SELECT coalesce(sum(position), 0) FROM
               (SELECT max(position) AS position FROM events GROUP BY tenant)";
    let position: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(damaged)?;
    Ok(format!("{COPY}{version}-{incarnation:016x}-{position}.db"))
}

/// Keeps the newest copies; one that cannot be dropped is in nobody's way.
fn drop_old_copies(folder: &Path) {
    let Ok(files) = std::fs::read_dir(folder) else { return };
    let is_copy = |name: &str| name.starts_with(COPY) && name.ends_with(".db");
    let mut copies: Vec<_> = files
        .filter_map(Result::ok)
        .filter(|file| file.file_name().to_str().is_some_and(is_copy))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    copies.sort();
    for (_, path) in copies.iter().rev().skip(COPIES_KEPT) {
        drop(std::fs::remove_file(path));
    }
}

/// The version of a database: zero if it is new. Fails if it is somebody else's, or cannot tell.
fn version(conn: &Connection) -> Result<i64, OpenError> {
    let broken = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotBaton,
        Some(_) | None => OpenError::Damaged(error.to_string()),
    };
    let number = |name: &str| {
        conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(broken)
    };
    let (id, version) = (number("application_id")?, number("user_version")?);
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(broken)?;
    match (id == i64::from(APPLICATION_ID), version, tables) {
        (false, 0, 0) => Ok(0),
        (true, 1.., 1..) => Ok(version),
        (false | true, ..) => Err(OpenError::NotBaton),
    }
}

/// The version of a database that a binary which knows so many versions may touch. A newer one
/// may have written rows that an older one must not.
fn check(conn: &Connection, known: i64) -> Result<i64, OpenError> {
    let found = version(conn)?;
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    if found > 0 {
        let needed = super::load::meta(conn, "min_reader")
            .map_err(|error| OpenError::Damaged(error.to_string()))?
            .ok_or_else(|| OpenError::Damaged("the minimum reader version is missing".into()))?;
        if needed > known {
            return Err(OpenError::Newer { found: needed, known });
        }
    }
    Ok(found)
}

/// The minimum reader is written before the first row of anything else. The incarnation tells this
/// life of the database from that of any copy: a restore draws another one, so that claims from
/// before it are dead. The deployment is drawn once and survives a restore: what it marks (processes,
/// worktrees, refs) is still there, and whoever restores must be able to find and reap its own.
fn found_names(conn: &Connection, chance: &mut Chance) -> rusqlite::Result<()> {
    let mut draw = || {
        let mut bytes = [0; 8];
        chance(&mut bytes);
        i64::from_be_bytes(bytes).unsigned_abs().max(1)
    };
    let (incarnation, deployment) = (draw(), draw());
    let sql = "INSERT INTO meta (name, value)
               VALUES ('min_reader', 1), ('incarnation', ?1), ('deployment', ?2)";
    let deployment = format!("d-{deployment:016x}");
    conn.execute(sql, params![i64::try_from(incarnation).unwrap_or(1), deployment]).map(drop)
}

/// Copies a database while it may be in use, and checks the copy before it gets its name.
pub(super) fn back_up(conn: &Connection, to: &Path) -> Result<(), OpenError> {
    let broken = |error: rusqlite::Error| OpenError::Backup(to.into(), error.to_string());
    let io = |error: std::io::Error| OpenError::Backup(to.into(), error.to_string());
    if to.exists() {
        // Nothing has happened since it was made.
        return Ok(());
    }
    let partial = to.with_extension("partial");
    drop(std::fs::remove_file(&partial));
    let mut copy = Connection::open(&partial).map_err(broken)?;
    let backup = rusqlite::backup::Backup::new(conn, &mut copy).map_err(broken)?;
    backup.run_to_completion(1_000, std::time::Duration::ZERO, None).map_err(broken)?;
    drop(backup);
    let sound: String =
        copy.query_row("PRAGMA quick_check", [], |row| row.get(0)).map_err(broken)?;
    if sound != "ok" {
        return Err(OpenError::Backup(to.into(), sound));
    }
    copy.close().map_err(|(_, error)| broken(error))?;
    std::fs::File::open(&partial).and_then(|file| file.sync_all()).map_err(io)?;
    std::fs::rename(&partial, to).map_err(io)?;
    let folder = to.parent().unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

#[cfg(test)]
mod tests;
