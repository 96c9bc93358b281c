//! What the database knows of our secrets: whether a pepper is the right one, and which keys signed
//! its seals.

use ed25519_dalek::{SigningKey, VerifyingKey};
use rusqlite::{Connection, OptionalExtension, params};

use crate::PepperDigest;
use crate::chain::{is_vouched, vouch_for};

/// Whether the database was made with this pepper; a new one is from now on.
pub(super) fn knows_pepper(conn: &Connection, given: &PepperDigest) -> rusqlite::Result<bool> {
    if let Some(known) = pepper(conn)? {
        return Ok(known.0 == given.0);
    }
    let sql = "INSERT INTO meta (name, value) VALUES ('pepper', ?1)";
    conn.execute(sql, [given.0])?;
    Ok(true)
}

/// By which the pepper of a database is known, if it has met one.
pub(super) fn pepper(conn: &Connection) -> rusqlite::Result<Option<PepperDigest>> {
    let sql = "SELECT value FROM meta WHERE name = 'pepper'";
    let known: Option<[u8; 32]> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(known.map(PepperDigest))
}

/// Adds the present key to those that may have signed. When it is new, it vouches for all before it:
/// whoever can write to the database alone cannot add a key of their own.
pub(super) fn vouch(conn: &mut Connection, signing: &SigningKey) -> rusqlite::Result<()> {
    let own = signing.verifying_key().to_bytes();
    let sql = "SELECT 1 FROM seal_keys WHERE key = ?1";
    if conn.prepare(sql)?.exists([own])? {
        return Ok(());
    }
    let step = conn.transaction()?;
    step.execute("INSERT INTO seal_keys (key, vouched) VALUES (?1, zeroblob(64))", [own])?;
    let keys: Vec<[u8; 32]> = {
        let mut found = step.prepare("SELECT key FROM seal_keys ORDER BY id")?;
        let rows = found.query_map([], |row| row.get(0))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for key in keys {
        let vouched = vouch_for(signing, &key);
        let sql = "UPDATE seal_keys SET vouched = ?2 WHERE key = ?1";
        step.execute(sql, params![key, vouched])?;
    }
    step.commit()
}

/// The keys whose seals count: the present one, and those that it vouches for.
pub(super) fn trusted(
    conn: &Connection,
    present: &VerifyingKey,
) -> rusqlite::Result<Vec<[u8; 32]>> {
    let mut found = conn.prepare_cached("SELECT key, vouched FROM seal_keys ORDER BY id")?;
    let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut trusted = vec![present.to_bytes()];
    for row in rows {
        let (key, vouched): ([u8; 32], [u8; 64]) = row?;
        if is_vouched(present, &key, &vouched) {
            trusted.push(key);
        }
    }
    Ok(trusted)
}
