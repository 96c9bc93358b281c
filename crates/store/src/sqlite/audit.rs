//! Seals what was written and walks the chains, both through a reader.

use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OptionalExtension, params};

use super::pen::{int, nat};
use crate::Error;
use crate::chain::payload_digest;
use crate::chain::{Audit, Fault, Gather, Hash, Linked, ROOT, Seal, Stored, Walk};
use crate::order::Actor;
use crate::read::About;
use baton_domain::ids::TaskId;

/// The seals that are due: for every tenant the links that no seal covers yet.
pub(super) fn due_seals(
    conn: &Connection,
    signing: &SigningKey,
) -> Result<Vec<(i64, Seal)>, Error> {
    let mut seals = vec![];
    for (key, name, _) in tenants(conn)? {
        let (from, before) = last_seal(conn, key)?;
        let mut gather = Gather::after(&before);
        let mut up_to = from;
        let sql = "SELECT position, link FROM events WHERE tenant = ?1 AND position > ?2
                   ORDER BY position";
        let mut found = conn.prepare_cached(sql)?;
        let mut rows = found.query(params![key, int(from)])?;
        while let Some(row) = rows.next()? {
            up_to = nat(row.get(0)?);
            gather.add(&row.get::<_, Hash>(1)?);
        }
        if up_to > from {
            seals.push((key, Seal::sign(signing, &name, (from, up_to), gather.digest())));
        }
    }
    Ok(seals)
}

fn tenants(conn: &Connection) -> rusqlite::Result<Vec<(i64, String, u64)>> {
    let mut found = conn.prepare_cached("SELECT id, name, floor FROM tenants ORDER BY id")?;
    let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?, nat(row.get(2)?))))?;
    rows.collect()
}

fn last_seal(conn: &Connection, tenant: i64) -> rusqlite::Result<(u64, Hash)> {
    let sql = "SELECT up_to, digest FROM seals WHERE tenant = ?1 ORDER BY up_to DESC LIMIT 1";
    let last = conn
        .prepare_cached(sql)?
        .query_row([tenant], |row| Ok((nat(row.get(0)?), row.get(1)?)))
        .optional()?;
    Ok(last.unwrap_or((0, ROOT)))
}

/// Walks every entry and every seal, and names the first thing that is wrong.
pub(super) fn audit(conn: &Connection, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let mut audit = Audit::default();
    for (key, name, floor) in tenants(conn)? {
        audit.fault = walk(conn, (key, &name, floor), trusted, &mut audit)?;
        if audit.fault.is_some() {
            break;
        }
    }
    Ok(audit)
}

fn walk(
    conn: &Connection,
    (key, name, floor): (i64, &str, u64),
    trusted: Option<&[u8; 32]>,
    audit: &mut Audit,
) -> Result<Option<Fault>, Error> {
    let mut walk = Walk::begin(name, floor + 1);
    let mut seals = seals(conn, key, floor)?.into_iter().peekable();
    let sql = "SELECT position, task, version, at, actor, salt, payload, digest, link, principal
               FROM events WHERE tenant = ?1 ORDER BY position";
    let mut found = conn.prepare_cached(sql)?;
    let mut rows = found.query([key])?;
    while let Some(row) = rows.next()? {
        let position = nat(row.get(0)?);
        if let Err(fault) = step(&mut walk, name, row)? {
            return Ok(Some(fault));
        }
        audit.entries += 1;
        while let (Some(seal), Some(trusted)) = (seals.next_if(|s| s.up_to <= position), trusted) {
            if let Err(fault) = walk.seal(&seal, trusted) {
                return Ok(Some(fault));
            }
            audit.seals += 1;
        }
    }
    if let Some(seal) = seals.peek() {
        let what = "the tail that this seal covers is missing";
        return Ok(Some(Fault { tenant: name.into(), position: seal.up_to, what }));
    }
    Ok(stray_head(conn, key, name, &walk)?)
}

fn step(
    walk: &mut Walk,
    tenant: &str,
    row: &rusqlite::Row<'_>,
) -> Result<Result<(), Fault>, Error> {
    let (task, version) = (nat(row.get(1)?), nat(row.get(2)?));
    let actor: String = row.get(4)?;
    let (salt, payload): (Option<Vec<u8>>, Option<String>) = (row.get(5)?, row.get(6)?);
    let erased: Option<Hash> = row.get(7)?;
    let kept = salt.as_deref().zip(payload.as_deref().map(str::as_bytes));
    let principal: String = row.get(9)?;
    if let Some(what) = misfit(&actor, &principal, kept.is_some(), erased.is_some()) {
        let position = nat(row.get(0)?);
        return Ok(Err(Fault { tenant: tenant.into(), position, what }));
    }
    let digest = match (&kept, erased) {
        (Some((salt, payload)), _) => payload_digest(salt, payload),
        (None, Some(digest)) => digest,
        (None, None) => ROOT,
    };
    let about =
        if task == 0 { About::Records(version) } else { About::Task(TaskId(task), version) };
    let linked = Linked {
        tenant,
        position: nat(row.get(0)?),
        about,
        at: row.get(3)?,
        actor: actor.as_bytes(),
        payload: &digest,
    };
    Ok(walk.entry(&Stored { linked, payload: kept, link: &row.get(8)? }))
}

/// What no link covers, because it only repeats or stands in for what a link does cover.
fn misfit(actor: &str, principal: &str, kept: bool, erased: bool) -> Option<&'static str> {
    if kept == erased {
        return Some("an entry has either a payload or the digest of an erased one");
    }
    match serde_json::from_str::<Actor>(actor) {
        Ok(actor) if actor.principal.as_str() == principal => None,
        Ok(_) | Err(_) => Some("the principal is not the actor's"),
    }
}

fn seals(conn: &Connection, tenant: i64, floor: u64) -> Result<Vec<Seal>, Error> {
    let sql = "SELECT up_to, digest, key, signature FROM seals
               WHERE tenant = ?1 AND up_to > ?2 ORDER BY up_to";
    let mut found = conn.prepare_cached(sql)?;
    let rows = found.query_map(params![tenant, int(floor)], |row| {
        Ok(Seal {
            after: 0,
            up_to: nat(row.get(0)?),
            digest: row.get(1)?,
            key: row.get(2)?,
            signature: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Every chain that was walked must end at the head of a row, and every row at the end of a chain.
fn stray_head(
    conn: &Connection,
    key: i64,
    tenant: &str,
    walk: &Walk,
) -> rusqlite::Result<Option<Fault>> {
    let sql = "SELECT c.task, c.position, h.head FROM
                 (SELECT task, max(position) AS position FROM events WHERE tenant = ?1
                  GROUP BY task) c
               FULL JOIN
                 (SELECT task, head FROM flows WHERE tenant = ?1
                  UNION ALL SELECT task, head FROM ended WHERE tenant = ?1
                  UNION ALL SELECT 0, records_head FROM tenants WHERE id = ?1) h
               ON h.task = c.task
               ORDER BY c.position";
    let mut found = conn.prepare_cached(sql)?;
    let mut rows = found.query([key])?;
    while let Some(row) = rows.next()? {
        let task: Option<i64> = row.get(0)?;
        let end = task.and_then(|task| walk.head(nat(task)));
        let head: Option<Hash> = row.get(2)?;
        if end != head && (end, head) != (None, Some(ROOT)) {
            let position = nat(row.get::<_, Option<i64>>(1)?.unwrap_or(0));
            let what = "a row and the end of its chain differ";
            return Ok(Some(Fault { tenant: tenant.into(), position, what }));
        }
    }
    Ok(None)
}
