//! Seals what was written and walks the chains, both through a reader.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Peekable;

use ed25519_dalek::{SigningKey, VerifyingKey};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::pen::{int, nat};
use super::trust;
use crate::Error;
use crate::chain::{
    Audit, Fault, Gather, Hash, Linked, ROOT, Rows, Seal, Stored, Walk, payload_digest,
};
use crate::hanging::{HISTORY_CHANGED, Hanging, misfit};
use crate::read::About;
use baton_domain::ids::TaskId;

/// Rows that hang on entries, and whether they do: tasks on the end of their chain, briefs on the
/// entry that wrote them. Each finds its entry by the key of the chain. A look for a link among all
/// entries would be made by the key of the tenant, which every entry has.
const HANGING: [&str; 3] = [
    "SELECT r.task, r.head IS (SELECT e.link FROM events e
       WHERE e.tenant = r.tenant AND e.task = r.task ORDER BY e.version DESC LIMIT 1)
     FROM flows r WHERE r.tenant = ?1 AND r.task > ?2 ORDER BY r.task LIMIT ?3",
    "SELECT r.task, r.head IS (SELECT e.link FROM events e
       WHERE e.tenant = r.tenant AND e.task = r.task ORDER BY e.version DESC LIMIT 1)
     FROM ended r WHERE r.tenant = ?1 AND r.task > ?2 ORDER BY r.task LIMIT ?3",
    "SELECT r.task, EXISTS (SELECT 1 FROM events e
       WHERE e.tenant = r.tenant AND e.task = r.task AND e.version = r.version)
     FROM briefs r WHERE r.tenant = ?1 AND r.task > ?2 ORDER BY r.task LIMIT ?3",
];
/// The history of a task, in the order in which an entry holds on to it.
const HISTORY: [&str; 3] = [
    "SELECT number, version, body FROM checkpoints
     WHERE tenant = ?1 AND task = ?2 AND number >= ?3 ORDER BY number",
    "SELECT number, version, body FROM attempts
     WHERE tenant = ?1 AND task = ?2 AND number >= ?3 ORDER BY number",
    "SELECT number, version, body FROM runs
     WHERE tenant = ?1 AND task = ?2 AND number >= ?3 ORDER BY number",
];
/// Entries or rows that an audit of everything goes over before it asks for the next seals.
const PART_MAX: usize = 10_000;
/// Seals that one part of an audit looks at: each covers an entry at least.
const SEALS_AT_ONCE: i64 = 10_000;
/// Chains whose place in their history is remembered, which takes some megabytes. For a task beyond
/// them every entry looks through its whole history.
const CHAINS_MAX: usize = 100_000;

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

/// Where an audit is: it goes over everything in parts, each of which sees one moment and holds it
/// only for as long as the part takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    /// The tenant at hand; those before it are done.
    tenant: i64,
    /// How far its entries were walked; none before the first.
    walk: Option<Walk>,
    /// How far the history of tasks was passed.
    passed: Passed,
    /// The table whose rows are looked at once the entries are done, and the last of them.
    row: Option<(usize, i64)>,
}

/// For every chain that was walked from its beginning and goes on: the numbers from which on its
/// history was not looked at yet. Numbers rise with versions, so each row is read once.
#[derive(Clone, Debug, Default)]
struct Passed(BTreeMap<u64, [i64; 3]>);

impl Passed {
    fn before(&self, entry: &Version) -> Option<[i64; 3]> {
        if entry.version == 1 { Some([i64::MIN; 3]) } else { self.0.get(&entry.task).copied() }
    }

    fn after(&mut self, entry: &Version, from: Option<[i64; 3]>, is_head: bool) {
        let known = self.0.remove(&entry.task).is_some();
        if let Some(from) = from.filter(|_| !is_head && (known || self.0.len() < CHAINS_MAX)) {
            self.0.insert(entry.task, from);
        }
    }
}

/// Audits the next entries or rows, at most so many, and moves on.
pub(super) fn part(
    conn: &Connection,
    reached: &mut Reached,
    trusted: Option<&VerifyingKey>,
    count_max: usize,
) -> Result<Audit, Error> {
    let mut audit = Audit::default();
    let mut rest = int(count_max.max(1) as u64);
    let trusted = trusted.map(|present| trust::trusted(conn, present)).transpose()?;
    while rest > 0 {
        let tenants = tenants(conn)?.into_iter();
        let next = tenants.filter(|(key, ..)| *key >= reached.tenant).min_by_key(|(key, ..)| *key);
        let Some((key, name, floor)) = next else {
            audit.ended = true;
            *reached = Reached::default();
            break;
        };
        if key != reached.tenant {
            *reached = Reached { tenant: key, ..Reached::default() };
        }
        let tenant = Tenant { conn, key, name: &name, floor, trusted: trusted.as_deref() };
        let walked = match reached.row {
            None => tenant.walk(reached, &mut audit, rest)?,
            Some(_) => tenant.rows(reached, rest)?,
        };
        match walked {
            Ok(looked_at) => rest -= looked_at.max(1),
            Err((position, what)) => {
                audit.fault = Some(Fault { tenant: name, position, what });
                *reached = Reached::default();
                break;
            }
        }
    }
    Ok(audit)
}

/// Audits everything at once, as it is at this moment.
pub(super) fn whole(conn: &Connection, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let trusted = trusted.and_then(|bytes| VerifyingKey::from_bytes(bytes).ok());
    let moment = conn.unchecked_transaction()?;
    let (mut reached, mut audit) = (Reached::default(), Audit::default());
    while !audit.ended && audit.fault.is_none() {
        let next = part(&moment, &mut reached, trusted.as_ref(), PART_MAX)?;
        audit = Audit {
            entries: audit.entries + next.entries,
            seals: audit.seals + next.seals,
            ended: next.ended,
            fault: next.fault,
        };
    }
    Ok(audit)
}

/// How many rows were looked at, or where something is wrong.
type Walked = Result<i64, (u64, &'static str)>;

/// A tenant under audit.
struct Tenant<'a> {
    conn: &'a Connection,
    key: i64,
    name: &'a str,
    floor: u64,
    trusted: Option<&'a [[u8; 32]]>,
}

impl Tenant<'_> {
    fn walk(&self, reached: &mut Reached, audit: &mut Audit, count: i64) -> Result<Walked, Error> {
        let mut walk = match reached.walk.take() {
            Some(walk) => walk,
            None => self.begin()?,
        };
        let mut seals = self.seals(walk.next())?.into_iter().peekable();
        let sql = "SELECT position, task, version, at, actor, salt, payload, digest, link,
                          principal, wrote
                   FROM events WHERE tenant = ?1 AND position >= ?2 ORDER BY position LIMIT ?3";
        let mut found = self.conn.prepare_cached(sql)?;
        let mut rows = found.query(params![self.key, int(walk.next()), count])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            let position = nat(row.get(0)?);
            if let Err(fault) = self.entry(&mut walk, &mut reached.passed, row)? {
                return Ok(Err(fault));
            }
            audit.entries += 1;
            let due = |seals: &mut Peekable<_>| seals.next_if(|seal: &Seal| seal.up_to <= position);
            while let (Some(seal), Some(trusted)) = (due(&mut seals), self.trusted) {
                if let Err(fault) = walk.seal(self.name, &seal, trusted) {
                    return Ok(Err(fault));
                }
                audit.seals += 1;
            }
        }
        if looked_at < count {
            if let Some(seal) = seals.peek() {
                return Ok(Err((seal.up_to, "the tail that this seal covers is missing")));
            }
            reached.row = Some((0, 0));
        }
        reached.walk = Some(walk);
        Ok(Ok(looked_at))
    }

    /// A walk begins at the floor; what was gathered there is known if a seal ends there.
    fn begin(&self) -> Result<Walk, Error> {
        if self.floor == 0 {
            return Ok(Walk::after(0, Some(&ROOT)));
        }
        let sql = "SELECT digest FROM seals WHERE tenant = ?1 AND up_to = ?2";
        let mut found = self.conn.prepare_cached(sql)?;
        let place = params![self.key, int(self.floor)];
        let seal: Option<Hash> = found.query_row(place, |row| row.get(0)).optional()?;
        Ok(Walk::after(self.floor, seal.as_ref()))
    }

    fn seals(&self, from: u64) -> Result<Vec<Seal>, Error> {
        let sql = "SELECT up_to, digest, key, signature FROM seals
                   WHERE tenant = ?1 AND up_to >= ?2 ORDER BY up_to LIMIT ?3";
        let mut found = self.conn.prepare_cached(sql)?;
        let rows = found.query_map(params![self.key, int(from), SEALS_AT_ONCE], |row| {
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

    fn entry(
        &self,
        walk: &mut Walk,
        passed: &mut Passed,
        row: &Row<'_>,
    ) -> Result<Result<(), (u64, &'static str)>, Error> {
        let (position, task, version) = (nat(row.get(0)?), nat(row.get(1)?), nat(row.get(2)?));
        let actor: String = row.get(4)?;
        let (salt, payload): (Option<Vec<u8>>, Option<String>) = (row.get(5)?, row.get(6)?);
        let erased: Option<Hash> = row.get(7)?;
        let kept = salt.as_deref().zip(payload.as_deref().map(str::as_bytes));
        let principal: String = row.get(9)?;
        if let Some(what) = misfit(actor.as_bytes(), &principal, kept.is_some(), erased.is_some()) {
            return Ok(Err((position, what)));
        }
        let digest = match (&kept, erased) {
            (Some((salt, payload)), _) => payload_digest(salt, payload),
            (None, Some(digest)) => digest,
            (None, None) => ROOT,
        };
        let about =
            if task == 0 { About::Records(version) } else { About::Task(TaskId(task), version) };
        let (link, wrote): (Hash, Vec<u8>) = (row.get(8)?, row.get(10)?);
        let linked = Linked {
            tenant: self.name,
            position,
            about,
            at: row.get(3)?,
            actor: actor.as_bytes(),
            payload: &digest,
            wrote: &wrote,
        };
        let before = match version {
            1 => Some(ROOT),
            _ => self.link_of(task, version.saturating_sub(1))?,
        };
        if position == walk.next() && before.is_none() && self.floor == 0 {
            return Ok(Err((position, "a version is missing")));
        }
        if let Err(fault) = walk.entry(&Stored { linked, before, link: &link }) {
            return Ok(Err(fault));
        }
        let place = Version { task, version, link };
        let wrong = self.hangs_together(&place, passed, salt.as_deref(), &wrote)?;
        Ok(wrong.map_or(Ok(()), |what| Err((position, what))))
    }

    fn link_of(&self, task: u64, version: u64) -> rusqlite::Result<Option<Hash>> {
        let sql = "SELECT link FROM events WHERE tenant = ?1 AND task = ?2 AND version = ?3";
        let mut found = self.conn.prepare_cached(sql)?;
        found.query_row(params![self.key, int(task), int(version)], |row| row.get(0)).optional()
    }

    fn hangs_together(
        &self,
        entry: &Version,
        passed: &mut Passed,
        salt: Option<&[u8]>,
        wrote: &[u8],
    ) -> Result<Option<&'static str>, Error> {
        let place = params![self.key, int(entry.task)];
        let sql = if entry.task == 0 {
            "SELECT records_head, NULL FROM tenants WHERE id = ?1 AND ?2 = 0"
        } else {
            "SELECT head, body FROM flows WHERE tenant = ?1 AND task = ?2
             UNION ALL SELECT head, body FROM ended WHERE tenant = ?1 AND task = ?2"
        };
        let mut found = self.conn.prepare_cached(sql)?;
        let row: Option<(Hash, Option<String>)> =
            found.query_row(place, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let row = row.filter(|(head, _)| *head == entry.link);
        let is_head = row.is_some();
        let goes_on = is_head || self.goes_on(entry)?;
        let Some(records) = self.records(entry, passed, is_head)? else {
            return Ok(Some(HISTORY_CHANGED));
        };
        let looks = salt.is_some() && entry.task != 0;
        let rows = Rows {
            flow: row.and_then(|(_, body)| body).unwrap_or_default(),
            brief: if looks { self.brief(entry)? } else { None },
            records,
        };
        Ok(Hanging { task: entry.task, salt, wrote, is_head, goes_on }.holds(&rows))
    }

    /// Whether a later entry of the same chain is kept.
    fn goes_on(&self, entry: &Version) -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM events WHERE tenant = ?1 AND task = ?2 AND version > ?3";
        let place = params![self.key, int(entry.task), int(entry.version)];
        self.conn.prepare_cached(sql)?.exists(place)
    }

    fn brief(&self, entry: &Version) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT body FROM briefs WHERE tenant = ?1 AND task = ?2 AND version = ?3";
        let place = params![self.key, int(entry.task), int(entry.version)];
        self.conn.prepare_cached(sql)?.query_row(place, |row| row.get(0)).optional()
    }

    /// The history that came with an entry; none if rows are in the way that came with no entry.
    fn records(
        &self,
        entry: &Version,
        passed: &mut Passed,
        is_head: bool,
    ) -> rusqlite::Result<Option<Vec<String>>> {
        let mut records = vec![];
        if entry.task == 0 {
            return Ok(Some(records));
        }
        let mut from = passed.before(entry);
        for (at, sql) in HISTORY.iter().enumerate() {
            let mut found = self.conn.prepare_cached(sql)?;
            let first = from.map_or(i64::MIN, |from| from[at]);
            let mut rows = found.query(params![self.key, int(entry.task), first])?;
            while let Some(row) = rows.next()? {
                let version = nat(row.get(1)?);
                match (version.cmp(&entry.version), &mut from) {
                    (Ordering::Equal, from) => {
                        records.push(row.get(2)?);
                        if let Some(from) = from {
                            from[at] = row.get::<_, i64>(0)?.saturating_add(1);
                        }
                    }
                    (Ordering::Greater, Some(_)) if !is_head => break,
                    (Ordering::Less | Ordering::Greater, Some(_)) => return Ok(None),
                    (Ordering::Less | Ordering::Greater, None) => {}
                }
            }
        }
        passed.after(entry, from, is_head);
        Ok(Some(records))
    }

    /// Every row hangs on a chain, unless its entry is no longer kept.
    fn rows(&self, reached: &mut Reached, count: i64) -> Result<Walked, Error> {
        let (at, after) = reached.row.unwrap_or((0, 0));
        let Some(sql) = HANGING.get(at) else {
            if self.floor == 0 && !self.has_records()? {
                return Ok(Err((0, "the records of the tenant hang on no chain")));
            }
            *reached = Reached { tenant: self.key + 1, ..Reached::default() };
            return Ok(Ok(0));
        };
        let mut found = self.conn.prepare_cached(sql)?;
        let mut rows = found.query(params![self.key, after, count])?;
        let (mut looked_at, mut last) = (0, after);
        while let Some(row) = rows.next()? {
            looked_at += 1;
            last = row.get(0)?;
            if self.floor == 0 && !row.get::<_, bool>(1)? {
                return Ok(Err((0, "a row hangs on no chain")));
            }
        }
        reached.row = Some(if looked_at < count { (at + 1, 0) } else { (at, last) });
        Ok(Ok(looked_at))
    }

    /// Whether the chain of the tenant's own records is there, if it ever had any.
    fn has_records(&self) -> rusqlite::Result<bool> {
        let sql = "SELECT records_version = 0 OR records_head IS (SELECT e.link FROM events e
                     WHERE e.tenant = t.id AND e.task = 0 ORDER BY e.version DESC LIMIT 1)
                   FROM tenants t WHERE t.id = ?1";
        self.conn.prepare_cached(sql)?.query_row([self.key], |row| row.get(0))
    }
}

/// Which entry of which chain.
struct Version {
    task: u64,
    version: u64,
    link: Hash,
}

#[cfg(test)]
mod tests;
