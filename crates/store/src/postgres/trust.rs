//! What the database knows of our secrets: whether a pepper is the right one, and which keys signed
//! its seals.

use ed25519_dalek::{SigningKey, VerifyingKey};

use super::load::{BEGIN, hash};
use super::pen::COMMIT;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Conn, params};
use crate::chain::{is_vouched, vouch_for};
use crate::{Error, PepperDigest};

const PEPPER: &str = "INSERT INTO meta (name, bytes) VALUES ('pepper', $1)
    ON CONFLICT (name) DO NOTHING";
const KNOWN_PEPPER: &str = "SELECT bytes FROM meta WHERE name = 'pepper'";
const LOCK_KEYS: &str = "LOCK TABLE seal_keys IN EXCLUSIVE MODE";
const KEYS: &str = "SELECT key, vouched FROM seal_keys ORDER BY id";
const ADD_KEY: &str = "INSERT INTO seal_keys (key, vouched) VALUES ($1, $2)";
const VOUCH: &str = "UPDATE seal_keys SET vouched = $2 WHERE key = $1";

/// Whether the database was made with this pepper; a new one is from now on.
pub(super) async fn knows_pepper(conn: &mut Conn, given: &PepperDigest) -> Result<bool, Trouble> {
    let known = conn.query(KNOWN_PEPPER, vec![]).await?;
    if known.is_empty() {
        conn.query(PEPPER, params![given.0.to_vec()]).await?;
    }
    // Of two servers that start at once, the first has said what the pepper is.
    let known = conn.query(KNOWN_PEPPER, vec![]).await?;
    Ok(known.first().is_some_and(|row| row.get::<_, &[u8]>(0) == given.0))
}

/// Adds the present key to those that may have signed. When it is new, it vouches for all before it:
/// whoever can write to the database alone cannot add a key of their own.
pub(super) async fn vouch(conn: &mut Conn, signing: &SigningKey) -> Result<(), Trouble> {
    let own = signing.verifying_key().to_bytes();
    let mut keys = all(conn.query(KEYS, vec![]).await?)?;
    if keys.contains(&own) {
        return Ok(());
    }
    conn.query(BEGIN, vec![]).await?;
    conn.query(LOCK_KEYS, vec![]).await?;
    keys = all(conn.query(KEYS, vec![]).await?)?;
    if !keys.contains(&own) {
        let word = vouch_for(signing, &own).to_vec();
        conn.query(ADD_KEY, params![own.to_vec(), word]).await?;
        for key in keys {
            let word = vouch_for(signing, &key).to_vec();
            conn.query(VOUCH, params![key.to_vec(), word]).await?;
        }
    }
    conn.query(COMMIT, vec![]).await.map(drop)
}

fn all(rows: Vec<tokio_postgres::Row>) -> Result<Vec<[u8; 32]>, Trouble> {
    rows.iter().map(|row| hash(row.get(0))).collect()
}

/// The keys whose seals count: the present one, and those that it vouches for.
pub(super) async fn trusted(
    reading: &mut Reading<'_>,
    present: &VerifyingKey,
) -> Result<Vec<[u8; 32]>, Error> {
    let mut trusted = vec![present.to_bytes()];
    for row in reading.query(KEYS, vec![]).await? {
        let key = hash(row.get(0)).map_err(Trouble::read)?;
        let vouched: Result<[u8; 64], _> = row.get::<_, &[u8]>(1).try_into();
        if vouched.is_ok_and(|vouched| is_vouched(present, &key, &vouched)) {
            trusted.push(key);
        }
    }
    Ok(trusted)
}
