//! What a store has promised by its answers, and whether a database keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_domain::ids::TaskId;
use baton_domain::time::{Millis, Timestamp};
use baton_store::clock::{Clock as _, ManualClock};
use baton_store::order::{Aim, Committed, Order};
use baton_store::sqlite::SqliteStore;
use baton_store::{Error, Store};
use baton_testkit::disk::Disk;
use rusqlite::Connection;

use crate::oracle::{Expected, Fold, number, rows, tenants};
use crate::script::{Script, Tally};
use crate::site::wait;

/// One answer: what must be there from now on.
struct Ack {
    tenant: String,
    position: Option<u64>,
    lease: Option<(TaskId, u32, Timestamp)>,
    keyed: bool,
}

/// All answers, each marked on the disk as soon as it was heard.
pub struct Acks {
    disk: Disk,
    told: Vec<Ack>,
}

impl Acks {
    pub fn on(disk: &Disk) -> Self {
        Self { disk: disk.clone(), told: vec![] }
    }

    /// Takes an answer for a promise.
    pub fn hear(&mut self, order: &Order, committed: &Committed) {
        let lease = committed.task.as_ref().zip(committed.lease.as_ref());
        self.told.push(Ack {
            tenant: order.tenant.to_string(),
            position: committed.position,
            lease: lease.map(|(flow, lease)| (flow.id, lease.attempt, lease.expires_at)),
            keyed: order.request.is_some() && !committed.replayed,
        });
        self.disk.mark(self.told.len() as u64);
    }

    pub fn len(&self) -> u64 {
        self.told.len() as u64
    }

    /// Nothing is promised yet.
    pub fn promise(&self) -> Promise<'_> {
        Promise {
            acks: &self.told,
            counted: 0,
            positions: BTreeMap::new(),
            leases: BTreeMap::new(),
            keys: 0,
        }
    }
}

/// Lets a script ask in rounds of up to five orders at once; whatever is answered is promised.
pub fn work(
    store: &SqliteStore,
    clock: &Arc<ManualClock>,
    script: &mut Script,
    rounds: usize,
    (acks, tally): (&mut Acks, &mut Tally),
) {
    for _ in 0..rounds {
        clock.advance(Millis(*script.chance.pick(&[0, 10, 700, 2_500, 2_500, 6_000])));
        let now = clock.now();
        let count = 1 + script.chance.index(5);
        let orders: Vec<Order> = (0..count).map(|_| script.next(now)).collect();
        // An order waits for the writer from the moment it is submitted.
        let answers: Vec<_> = orders.iter().map(|order| store.submit(order.clone())).collect();
        let mut swept = false;
        for (order, answer) in orders.iter().zip(answers) {
            let answer: Result<Committed, Error> = wait(answer);
            if let Ok(committed) = &answer {
                acks.hear(order, committed);
            }
            swept |= matches!(order.aim, Aim::Sweep(_));
            script.heard(order, &answer, tally);
        }
        if swept {
            script.look(store);
        }
    }
}

/// What had been promised at some point of the history.
pub struct Promise<'a> {
    acks: &'a [Ack],
    counted: usize,
    positions: BTreeMap<&'a str, u64>,
    leases: BTreeMap<(&'a str, TaskId), (u32, Timestamp)>,
    keys: u64,
}

impl Promise<'_> {
    /// Goes on to the point at which so many answers had been heard.
    pub fn up_to(&mut self, acked: u64) {
        while (self.counted as u64) < acked {
            let ack = &self.acks[self.counted];
            self.counted += 1;
            let position = self.positions.entry(&ack.tenant).or_default();
            *position = (*position).max(ack.position.unwrap_or(0));
            self.keys += u64::from(ack.keyed);
            if let Some((task, attempt, expires_at)) = ack.lease {
                self.leases.insert((&ack.tenant, task), (attempt, expires_at));
            }
        }
    }
}

/// What the database must be after every position of every tenant.
pub struct Timeline {
    tenants: BTreeMap<String, Vec<(baton_store::chain::Hash, Expected)>>,
}

/// What a look at a database found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was promised, and whole; so many entries in all.
    Sound(usize),
    /// Something that was promised is missing.
    Lost(String),
    /// The rows do not belong together.
    Half(String),
    /// SQLite reports damage.
    Corrupt(String),
}

impl Timeline {
    /// Folds the whole history once, keeping what is expected after each entry.
    pub fn of(db: &Connection) -> Self {
        let mut timeline = Self { tenants: BTreeMap::new() };
        for (key, name) in tenants(db).expect("the history reads") {
            let mut fold = Fold::new();
            let mut steps = vec![];
            for row in rows(db, key).expect("the history reads") {
                fold.step(&row).expect("the history can be replayed");
                fold.pools_add_up().expect("pools count what is taken");
                steps.push((row.link, fold.expected()));
            }
            timeline.tenants.insert(name, steps);
        }
        timeline
    }

    /// Looks whether a database keeps a promise.
    pub fn inspect(&self, db: &Connection, promise: &Promise<'_>) -> Verdict {
        match self.look(db, promise) {
            Ok(verdict) => verdict,
            Err(rusqlite::Error::SqliteFailure(_, Some(why)))
                if why.starts_with("no such table") =>
            {
                // Not even the schema is there, which is right as long as nothing was answered.
                match promise.counted {
                    0 => Verdict::Sound(0),
                    some => Verdict::Lost(format!("all of {some} answers")),
                }
            }
            Err(error) => Verdict::Corrupt(error.to_string()),
        }
    }

    fn look(&self, db: &Connection, promise: &Promise<'_>) -> rusqlite::Result<Verdict> {
        let found: BTreeMap<String, i64> =
            tenants(db)?.into_iter().map(|(key, name)| (name, key)).collect();
        for (tenant, promised) in &promise.positions {
            if *promised > 0 && !found.contains_key(*tenant) {
                return Ok(Verdict::Lost(format!("tenant {tenant}")));
            }
        }
        let mut entries = 0;
        for (name, key) in &found {
            let Some(steps) = self.tenants.get(name) else {
                return Ok(Verdict::Half(format!("nobody made tenant {name}")));
            };
            let there = links(db, *key)?;
            entries += there.len();
            let promised = promise.positions.get(name.as_str()).copied().unwrap_or(0);
            if (there.len() as u64) < promised {
                return Ok(Verdict::Lost(format!("{} of {promised} entries", there.len())));
            }
            if there.len() > steps.len() || there.iter().zip(steps).any(|(a, (b, _))| a != b) {
                return Ok(Verdict::Half("the entries are other ones".into()));
            }
            let Some(last) = there.len().checked_sub(1) else {
                return Ok(Verdict::Half(format!("tenant {name} without an entry")));
            };
            if let Err(fault) = steps[last].1.compare(db, *key) {
                return Ok(Verdict::Half(fault));
            }
        }
        if let Some(lost) = lost_lease(db, &found, promise)? {
            return Ok(Verdict::Lost(lost));
        }
        let keys = db.query_row("SELECT count(*) FROM requests", [], |row| number(row, 0))?;
        if keys < promise.keys {
            return Ok(Verdict::Lost(format!("{keys} of {} request keys", promise.keys)));
        }
        Ok(Verdict::Sound(entries))
    }
}

impl Verdict {
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Sound(_) => true,
            Self::Lost(_) | Self::Half(_) | Self::Corrupt(_) => false,
        }
    }
}

fn links(db: &Connection, tenant: i64) -> rusqlite::Result<Vec<baton_store::chain::Hash>> {
    let mut found =
        db.prepare_cached("SELECT link FROM events WHERE tenant = ?1 ORDER BY position")?;
    let rows = found.query_map([tenant], |row| row.get(0))?;
    rows.collect()
}

/// A renewal that was answered and is not there. A lease that ended since has an entry for that.
fn lost_lease(
    db: &Connection,
    tenants: &BTreeMap<String, i64>,
    promise: &Promise<'_>,
) -> rusqlite::Result<Option<String>> {
    let mut found =
        db.prepare("SELECT attempt, expires_at FROM leases WHERE tenant = ?1 AND task = ?2")?;
    for ((tenant, task), (attempt, expires_at)) in &promise.leases {
        let mut rows = found.query((tenants.get(*tenant), task.0.cast_signed()))?;
        let Some(row) = rows.next()? else { continue };
        let (there, until): (u32, i64) = (row.get(0)?, row.get(1)?);
        if there == *attempt && until < expires_at.0 {
            return Ok(Some(format!("the renewal of {task} until {}", expires_at.0)));
        }
    }
    Ok(None)
}
