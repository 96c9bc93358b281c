//! Seals what was written and walks the chains.

use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;

use baton_domain::ids::TaskId;
use ed25519_dalek::{SigningKey, VerifyingKey};
use tokio_postgres::Row;

use super::load::{BEGIN, BOUNDS, OWN_RECORDS, hash};
use super::manner::Manner;
use super::pen::COMMIT;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Flush, params};
use super::{Shared, trust};
use crate::Error;
use crate::chain::{
    self, Audit, Gather, Hash, Linked, ROOT, Rows, Seal, Stored, Walk, payload_digest,
};
use crate::hanging::{Hanging, misfit};
use crate::read::About;
use crate::rows::{int, nat};

/// The advisory lock under which seals are written, so that each follows on the one before.
const SEAL_LOCK: i32 = 0x4261_7405;
/// Seals that one part of an audit looks at, at most.
const SEALS_AT_ONCE: i64 = 10_000;
/// Entries that are fetched at once.
const ENTRIES_AT_ONCE: i64 = 500;
/// Links that are fetched at once for a seal.
const LINKS_AT_ONCE: i64 = 10_000;

const TENANTS: &str = "SELECT id, name, floor FROM tenants ORDER BY id";
const LAST_SEAL: &str = "SELECT up_to, digest FROM seals WHERE tenant = $1
    ORDER BY up_to DESC LIMIT 1";
const LINKS: &str = "SELECT position, link FROM events WHERE tenant = $1 AND position > $2
    ORDER BY position LIMIT $3";
const ADD_SEAL: &str = "INSERT INTO seals (tenant, up_to, digest, key, signature)
    SELECT $1, $2, $3, $4, $5
    WHERE $6 = (SELECT coalesce(max(up_to), 0) FROM seals WHERE tenant = $1)";
const SEAL_AT: &str = "SELECT digest FROM seals WHERE tenant = $1 AND up_to = $2";
const SEALS: &str = "SELECT up_to, digest, key, signature FROM seals
    WHERE tenant = $1 AND up_to >= $2 ORDER BY up_to LIMIT $3";
const ENTRIES: &str = "SELECT e.position, e.task, e.version, e.at, e.actor, e.salt, e.payload,
        e.digest, e.link, e.principal, e.wrote,
        (SELECT b.link FROM events b WHERE b.tenant = e.tenant AND b.task = e.task
            AND b.version = e.version - 1),
        CASE WHEN e.task = 0
            THEN EXISTS (SELECT 1 FROM tenants t WHERE t.id = e.tenant AND t.records_head = e.link)
            ELSE EXISTS (SELECT 1 FROM flows f WHERE f.tenant = e.tenant AND f.task = e.task
                AND f.head = e.link) END,
        EXISTS (SELECT 1 FROM events l WHERE l.tenant = e.tenant AND l.task = e.task
            AND l.version > e.version),
        (SELECT f.body FROM flows f WHERE f.tenant = e.tenant AND f.task = e.task
            AND f.head = e.link),
        (SELECT b.body FROM briefs b WHERE b.tenant = e.tenant AND b.task = e.task
            AND b.version = e.version)
    FROM events e WHERE e.tenant = $1 AND e.position >= $2 ORDER BY e.position LIMIT $3";
/// The history of each task is looked through once for all entries that were fetched, not once for each
/// of them: there is no index by version, which every write would pay for.
const RECORDS: &str = "SELECT r.task, r.version, r.body FROM (
        SELECT c.task, c.version, 1 AS sort, c.number, c.body FROM
            unnest($2::int8[], $3::int8[], $4::int8[]) n (task, first, last) JOIN checkpoints c
            ON c.tenant = $1 AND c.task = n.task AND c.version BETWEEN n.first AND n.last
        UNION ALL SELECT c.task, c.version, 2, c.number, c.body FROM
            unnest($2::int8[], $3::int8[], $4::int8[]) n (task, first, last) JOIN attempts c
            ON c.tenant = $1 AND c.task = n.task AND c.version BETWEEN n.first AND n.last
        UNION ALL SELECT c.task, c.version, 3, c.number, c.body FROM
            unnest($2::int8[], $3::int8[], $4::int8[]) n (task, first, last) JOIN runs c
            ON c.tenant = $1 AND c.task = n.task AND c.version BETWEEN n.first AND n.last) r
    ORDER BY r.task, r.version, r.sort, r.number";
/// Tables whose rows hang on entries, and how.
const HANGING: [&str; 2] = [
    "SELECT r.task, EXISTS (SELECT 1 FROM events e WHERE e.tenant = r.tenant AND e.task = r.task
        AND e.version = r.version AND e.link = r.head)
     FROM flows r WHERE r.tenant = $1 AND r.task > $2 ORDER BY r.task LIMIT $3",
    "SELECT r.task, EXISTS (SELECT 1 FROM events e WHERE e.tenant = r.tenant AND e.task = r.task
        AND e.version = r.version)
     FROM briefs r WHERE r.tenant = $1 AND r.task > $2 ORDER BY r.task LIMIT $3",
];

/// The seals that are due: for every tenant the links that no seal covers yet.
pub(super) async fn due_seals(
    reading: &mut Reading<'_>,
    signing: &SigningKey,
) -> Result<Vec<(i64, Seal)>, Error> {
    let mut seals = vec![];
    for (key, name, _) in tenants(reading).await? {
        let last = reading.query(LAST_SEAL, params![key]).await?;
        let last = last.first().map(|row| Ok((nat(row.get(0)), hash(row.get(1))?)));
        let (from, before) = last.transpose().map_err(Trouble::read)?.unwrap_or((0, ROOT));
        let (mut gather, mut up_to) = (Gather::after(&before), from);
        loop {
            let rows = reading.query(LINKS, params![key, int(up_to), LINKS_AT_ONCE]).await?;
            for row in &rows {
                up_to = nat(row.get(0));
                gather.add(&hash(row.get(1)).map_err(Trouble::read)?);
            }
            if (rows.len() as u64) < nat(LINKS_AT_ONCE) {
                break;
            }
        }
        if up_to > from {
            seals.push((key, Seal::sign(signing, &name, (from, up_to), gather.digest())));
        }
    }
    Ok(seals)
}

/// Writes seals, each unless another one came between: it would not follow on that one.
pub(super) async fn write_seals(shared: &Shared, seals: Vec<(i64, Seal)>) -> Result<(), Error> {
    let written = async {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        let mut flush = Flush::default();
        flush.add(BEGIN, vec![]);
        flush.add(BOUNDS, Manner::Alone.bounds());
        flush.add(OWN_RECORDS, params![SEAL_LOCK, 0_i32]);
        for (tenant, seal) in seals {
            let row = params![
                tenant,
                int(seal.up_to),
                seal.digest.to_vec(),
                seal.key.to_vec(),
                seal.signature.to_vec(),
                int(seal.after)
            ];
            flush.add(ADD_SEAL, row);
        }
        flush.add(COMMIT, vec![]);
        lent.send(flush).await?;
        lent.done();
        Ok(())
    };
    written.await.map_err(|trouble: Trouble| trouble.told())
}

async fn tenants(reading: &mut Reading<'_>) -> Result<Vec<(i64, String, u64)>, Error> {
    let rows = reading.query(TENANTS, vec![]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), nat(row.get(2)))).collect())
}

/// Where an audit is: it goes over everything in parts, each of which sees one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reached {
    /// The tenant at hand; those before it are done.
    tenant: i64,
    /// How far its entries were walked; none before the first.
    walk: Option<Walk>,
    /// The table whose rows are looked at once the entries are done, and the last of them.
    row: Option<(usize, i64)>,
}

/// Audits the next entries or rows, at most so many, and moves on.
pub(super) async fn part(
    reading: &mut Reading<'_>,
    reached: &mut Reached,
    present: Option<&VerifyingKey>,
    count_max: usize,
) -> Result<Audit, Error> {
    let mut audit = Audit::default();
    let mut rest = int(count_max.max(1) as u64);
    let trusted = match present {
        Some(present) => Some(trust::trusted(reading, present).await?),
        None => None,
    };
    while rest > 0 {
        let next = tenants(reading).await?.into_iter().find(|(key, ..)| *key >= reached.tenant);
        let Some((key, name, floor)) = next else {
            audit.ended = true;
            *reached = Reached::default();
            break;
        };
        if key != reached.tenant {
            *reached = Reached { tenant: key, ..Reached::default() };
        }
        let tenant = Tenant { key, name: &name, floor, trusted: trusted.as_deref() };
        let count = rest.min(ENTRIES_AT_ONCE);
        let walked = match reached.row {
            None => tenant.walk(reading, reached, &mut audit, count).await?,
            Some(_) => tenant.rows(reading, reached, count).await?,
        };
        match walked {
            Ok(looked_at) => rest -= looked_at.max(1),
            Err((position, what)) => {
                audit.fault = Some(chain::Fault { tenant: name, position, what });
                *reached = Reached::default();
                break;
            }
        }
    }
    Ok(audit)
}

/// How many rows were looked at, or where something is wrong.
type Walked = Result<i64, (u64, &'static str)>;

/// A tenant under audit.
struct Tenant<'a> {
    key: i64,
    name: &'a str,
    floor: u64,
    trusted: Option<&'a [[u8; 32]]>,
}

/// Texts of history, by the task and version that they came with.
type Records = HashMap<(i64, i64), Vec<String>>;

impl Tenant<'_> {
    async fn walk(
        &self,
        reading: &mut Reading<'_>,
        reached: &mut Reached,
        audit: &mut Audit,
        count: i64,
    ) -> Result<Walked, Error> {
        let mut walk = match reached.walk.take() {
            Some(walk) => walk,
            None => self.begin(reading).await?,
        };
        let mut seals = self.seals(reading, walk.next()).await?.into_iter().peekable();
        let from = params![self.key, int(walk.next()), count];
        let rows = reading.query(ENTRIES, from).await?;
        let records = self.records(reading, &rows).await?;
        for row in &rows {
            let position = nat(row.get(0));
            if let Err(fault) = self.entry(&mut walk, row, &records).map_err(Trouble::read)? {
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
        let looked_at = int(rows.len() as u64);
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
    async fn begin(&self, reading: &mut Reading<'_>) -> Result<Walk, Error> {
        if self.floor == 0 {
            return Ok(Walk::after(0, Some(&ROOT)));
        }
        let rows = reading.query(SEAL_AT, params![self.key, int(self.floor)]).await?;
        let seal = rows.first().map(|row| hash(row.get(0))).transpose().map_err(Trouble::read)?;
        Ok(Walk::after(self.floor, seal.as_ref()))
    }

    async fn seals(&self, reading: &mut Reading<'_>, from: u64) -> Result<Vec<Seal>, Error> {
        // A seal covers at least one entry, so a part never needs more of them than of those.
        let rows = reading.query(SEALS, params![self.key, int(from), SEALS_AT_ONCE]).await?;
        let seal = |row: &Row| -> Result<Seal, Trouble> {
            let signature = row.get::<_, &[u8]>(3).try_into();
            Ok(Seal {
                after: 0,
                up_to: nat(row.get(0)),
                digest: hash(row.get(1))?,
                key: hash(row.get(2))?,
                signature: signature.map_err(|_| "a signature has another length".to_owned())?,
            })
        };
        rows.iter().map(seal).collect::<Result<_, _>>().map_err(Trouble::read)
    }

    async fn records(&self, reading: &mut Reading<'_>, rows: &[Row]) -> Result<Records, Error> {
        let mut spans: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in rows {
            let (task, version): (i64, i64) = (row.get(1), row.get(2));
            let span = spans.entry(task).or_insert((version, version));
            *span = (span.0.min(version), span.1.max(version));
        }
        // The records of the tenant are no task.
        spans.remove(&0);
        let tasks: Vec<i64> = spans.keys().copied().collect();
        let (first, last): (Vec<i64>, Vec<i64>) = spans.into_values().unzip();
        let mut records = Records::new();
        for row in reading.query(RECORDS, params![self.key, tasks, first, last]).await? {
            let body = String::from_utf8_lossy(row.get(2)).into_owned();
            records.entry((row.get(0), row.get(1))).or_default().push(body);
        }
        Ok(records)
    }

    fn entry(
        &self,
        walk: &mut Walk,
        row: &Row,
        records: &Records,
    ) -> Result<Result<(), (u64, &'static str)>, Trouble> {
        let (position, task, version) = (nat(row.get(0)), nat(row.get(1)), nat(row.get(2)));
        let (actor, principal): (&[u8], &str) = (row.get(4), row.get(9));
        let (salt, payload): (Option<&[u8]>, Option<&[u8]>) = (row.get(5), row.get(6));
        let erased = row.get::<_, Option<&[u8]>>(7).map(hash).transpose()?;
        let kept = salt.zip(payload);
        if let Some(what) = misfit(actor, principal, kept.is_some(), erased.is_some()) {
            return Ok(Err((position, what)));
        }
        let digest = match (&kept, erased) {
            (Some((salt, payload)), _) => payload_digest(salt, payload),
            (None, Some(digest)) => digest,
            (None, None) => ROOT,
        };
        let about =
            if task == 0 { About::Records(version) } else { About::Task(TaskId(task), version) };
        let (link, wrote): (Hash, &[u8]) = (hash(row.get(8))?, row.get(10));
        let at = row.get(3);
        let linked =
            Linked { tenant: self.name, position, about, at, actor, payload: &digest, wrote };
        let before = match version {
            1 => Some(ROOT),
            _ => row.get::<_, Option<&[u8]>>(11).map(hash).transpose()?,
        };
        if position == walk.next() && before.is_none() && self.floor == 0 {
            return Ok(Err((position, "a version is missing")));
        }
        if let Err(fault) = walk.entry(&Stored { linked, before, link: &link }) {
            return Ok(Err(fault));
        }
        let text = |at: usize| {
            let bytes: Option<&[u8]> = row.get(at);
            bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let of = (row.get::<_, i64>(1), row.get::<_, i64>(2));
        let rows = Rows {
            flow: text(14).unwrap_or_default(),
            brief: text(15),
            records: records.get(&of).cloned().unwrap_or_default(),
        };
        let (is_head, goes_on) = (row.get(12), row.get(13));
        let wrong = Hanging { task, salt, wrote, is_head, goes_on }.holds(&rows);
        Ok(wrong.map_or(Ok(()), |what| Err((position, what))))
    }

    /// Every row hangs on a chain, unless its entry is no longer kept.
    async fn rows(
        &self,
        reading: &mut Reading<'_>,
        reached: &mut Reached,
        count: i64,
    ) -> Result<Walked, Error> {
        let (at, after) = reached.row.unwrap_or((0, 0));
        let Some(sql) = HANGING.get(at) else {
            *reached = Reached { tenant: self.key + 1, ..Reached::default() };
            return Ok(Ok(0));
        };
        let rows = reading.query(sql, params![self.key, after, count]).await?;
        if self.floor == 0 && rows.iter().any(|row| !row.get::<_, bool>(1)) {
            return Ok(Err((0, "a row hangs on no chain")));
        }
        let last = rows.last().map_or(after, |row| row.get(0));
        let looked_at = int(rows.len() as u64);
        reached.row = Some(if looked_at < count { (at + 1, 0) } else { (at, last) });
        Ok(Ok(looked_at))
    }
}
