//! What the rows of a database must be, worked out anew from its entries by the rules alone, and
//! the comparison with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_domain::event::Event;
use baton_domain::history::{Past, past};
use baton_domain::pool::{Pool, PoolMove, PoolName, Pools, Take};
use baton_domain::project::RecordEvent;
use baton_domain::run::Held;
use baton_domain::task::{Flow, Stage, Task};
use baton_domain::time::Timestamp;
use baton_store::chain::{Hash, ROOT};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::Serialize;

/// An entry as it is stored.
pub struct Row {
    pub position: u64,
    pub task: u64,
    pub version: u64,
    pub at: Timestamp,
    pub payload: String,
    pub link: Hash,
}

/// Everything that one tenant's entries add up to.
#[derive(Clone)]
pub struct Fold {
    pub position: u64,
    pub tasks: BTreeMap<u64, Kept>,
    pub pools: Pools,
    /// By table, task and number: the version of the entry that it came with, and the body.
    history: BTreeMap<(&'static str, u64, u32), (u64, Arc<str>)>,
    edges: BTreeSet<(u64, u64)>,
    projects: BTreeMap<String, Arc<str>>,
    records_version: u64,
    records_head: Hash,
}

/// A task as its entries tell it.
#[derive(Clone)]
pub struct Kept {
    pub task: Arc<Task>,
    head: Hash,
    body: Arc<str>,
    brief: Arc<str>,
}

fn json<T: Serialize>(value: &T) -> Arc<str> {
    serde_json::to_string(value).expect("our own types have a text form").into()
}

/// SQLite counts in signed numbers; none of ours is negative.
pub fn number(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.unsigned_abs())
}

/// The entries of a tenant, in their order.
pub fn rows(db: &Connection, tenant: i64) -> rusqlite::Result<Vec<Row>> {
    let mut found = db.prepare(
        "SELECT position, task, version, at, payload, link FROM events
         WHERE tenant = ?1 ORDER BY position",
    )?;
    let rows = found.query_map([tenant], |row| {
        Ok(Row {
            position: number(row, 0)?,
            task: number(row, 1)?,
            version: number(row, 2)?,
            at: Timestamp(row.get(3)?),
            payload: row.get(4)?,
            link: row.get(5)?,
        })
    })?;
    rows.collect()
}

/// The tenants of a database: keys and names.
pub fn tenants(db: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut found = db.prepare("SELECT id, name FROM tenants ORDER BY id")?;
    let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Folds every entry of every tenant and compares the result with the rows.
pub fn check(db: &Connection) -> Result<BTreeMap<String, Fold>, String> {
    let sql = |error: rusqlite::Error| error.to_string();
    let mut folds = BTreeMap::new();
    for (key, name) in tenants(db).map_err(sql)? {
        let mut fold = Fold::new();
        for row in rows(db, key).map_err(sql)? {
            fold.step(&row)?;
        }
        fold.pools_add_up()?;
        fold.expected().compare(db, key).map_err(|fault| format!("{name}: {fault}"))?;
        folds.insert(name, fold);
    }
    Ok(folds)
}

impl Fold {
    pub fn new() -> Self {
        Self {
            position: 0,
            tasks: BTreeMap::new(),
            pools: Pools::new(),
            history: BTreeMap::new(),
            edges: BTreeSet::new(),
            projects: BTreeMap::new(),
            records_version: 0,
            records_head: ROOT,
        }
    }

    /// Takes in the next entry.
    pub fn step(&mut self, row: &Row) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("position {}: {what}", row.position));
        if row.position != self.position + 1 {
            return wrong("it is not the next one");
        }
        self.position = row.position;
        if row.task == 0 {
            let Ok(events) = serde_json::from_str::<Vec<RecordEvent>>(&row.payload) else {
                return wrong("what happened to a record cannot be read");
            };
            self.records_version += 1;
            self.records_head = row.link;
            events.iter().for_each(|event| self.apply_record(event));
            let next = self.records_version;
            return if row.version == next { Ok(()) } else { wrong("a version is missing") };
        }
        let Ok(events) = serde_json::from_str::<Vec<Event>>(&row.payload) else {
            return wrong("what happened to a task cannot be read");
        };
        let Some(task) = self.apply(row, &events) else { return wrong("it has no first event") };
        if task.flow.version != row.version {
            return wrong("a version is missing");
        }
        let brief = task.brief.as_ref().map(json).unwrap_or_default();
        let (body, head) = (json(&task.flow), row.link);
        self.tasks.insert(row.task, Kept { task: Arc::new(task), head, body, brief });
        Ok(())
    }

    fn apply(&mut self, row: &Row, events: &[Event]) -> Option<Task> {
        let mut task = self.tasks.get(&row.task).map(|kept| (*kept.task).clone());
        if let Some(task) = &mut task {
            task.turn();
        }
        for event in events {
            self.note_edges(row.task, event);
            let before = task.as_ref().map(|task| task.flow.clone());
            match &mut task {
                None => task = Task::born(event, row.at),
                Some(task) => {
                    for record in past(&task.flow, event, row.at) {
                        self.note_record(row, &record);
                    }
                    task.apply(event, row.at);
                }
            }
            self.move_pools(before.as_ref(), &task.as_ref()?.flow, (event, row.at));
        }
        task
    }

    fn note_edges(&mut self, task: u64, event: &Event) {
        if let Event::Created { task: new, .. } = event {
            self.edges.extend(new.depends_on.iter().map(|on| (task, on.0)));
        }
        if let Event::DependencyAdded { on, .. } = event {
            self.edges.insert((task, on.0));
        }
        if let Event::DependencyRemoved { on } = event {
            self.edges.remove(&(task, on.0));
        }
    }

    fn note_record(&mut self, row: &Row, record: &Past) {
        let (table, number, body) = match record {
            Past::Attempt(it) => ("attempts", it.number, json(it)),
            Past::Run(it) => ("runs", it.number, json(it)),
            Past::Checkpoint(it) => ("checkpoints", it.number, json(it)),
        };
        self.history.insert((table, row.task, number), (row.version, body));
    }

    /// Pools follow from who holds what: taken with the claim, returned with the end.
    fn move_pools(
        &mut self,
        before: Option<&Flow>,
        after: &Flow,
        (event, at): (&Event, Timestamp),
    ) {
        let held = before.and_then(|flow| flow.run.as_ref()?.held());
        if let Event::Claimed { takes, .. } = event {
            takes.iter().for_each(|take| self.move_pool(&PoolMove::Take(take.clone()), at));
        }
        if let (Event::AttemptEnded { .. }, Some(held)) = (event, held) {
            for take in &held.takes {
                self.move_pool(&PoolMove::Return { take: take.clone(), spent: 0 }, at);
            }
        }
        for pool in after.budgets() {
            let spent = match (event, held) {
                // What goes beyond the reservation is gone at once, and the rest at the end.
                (Event::Spent { attempt, micros }, Some(held)) if held.attempt == *attempt => {
                    let over = |spent: u64| spent.saturating_sub(reserved(held, &pool));
                    over(held.spent_micros + micros) - over(held.spent_micros)
                }
                (Event::Spent { micros, .. }, _) => *micros,
                (Event::AttemptEnded { .. }, Some(held)) => {
                    held.spent_micros.min(reserved(held, &pool))
                }
                _ => 0,
            };
            self.move_pool(&PoolMove::Return { take: Take { pool, amount: 0 }, spent }, at);
        }
        self.pools.retain(|_, pool| !pool.is_idle());
    }

    fn move_pool(&mut self, change: &PoolMove, at: Timestamp) {
        if let Some(pool) = self.pools.get_mut(change.pool()) {
            pool.apply(change, at);
        }
    }

    fn apply_record(&mut self, event: &RecordEvent) {
        match event {
            RecordEvent::ProjectPut { project } => {
                self.projects.insert(project.id.to_string(), json(project));
            }
            RecordEvent::ProjectRemoved { project } => {
                self.projects.remove(project.as_str());
            }
            RecordEvent::PoolLimited { pool, limit } => self.pool(pool).limit = *limit,
            RecordEvent::PoolShut { pool, shut } => self.pool(pool).shut.clone_from(shut),
            RecordEvent::Key(_) | RecordEvent::Channel(_) => {
                unreachable!("no script makes keys or channels")
            }
        }
        self.pools.retain(|_, pool| !pool.is_idle());
    }

    fn pool(&mut self, name: &PoolName) -> &mut Pool {
        let used = self.taken_from(name);
        self.pools.entry(name.clone()).or_insert_with(|| Pool { used, ..Pool::default() })
    }

    /// The law: what is used is what live attempts took.
    pub fn taken_from(&self, pool: &PoolName) -> u64 {
        let flows = self.tasks.values().map(|kept| &kept.task.flow);
        let takes = flows.filter_map(|flow| flow.run.as_ref()?.held()).flat_map(|held| &held.takes);
        takes.filter(|take| take.pool == *pool).map(|take| take.amount).sum()
    }
}

fn reserved(held: &Held, pool: &PoolName) -> u64 {
    held.takes.iter().filter(|take| take.pool == *pool).map(|take| take.amount).sum()
}

/// Rows of a database as bytes, column after column.
fn rows_of(db: &Connection, sql: &str, tenant: i64) -> Result<BTreeSet<Vec<u8>>, String> {
    let read = || -> rusqlite::Result<BTreeSet<Vec<u8>>> {
        let mut found = db.prepare_cached(sql)?;
        let columns = found.column_count();
        let rows = found.query_map([tenant], |row| {
            let mut bytes = Vec::new();
            for at in 0..columns {
                match row.get_ref(at)? {
                    ValueRef::Null => bytes.push(b'-'),
                    ValueRef::Integer(number) => bytes.extend(number.to_string().as_bytes()),
                    ValueRef::Real(number) => bytes.extend(number.to_string().as_bytes()),
                    ValueRef::Text(word) | ValueRef::Blob(word) => bytes.extend(word),
                }
                bytes.push(b' ');
            }
            Ok(bytes)
        })?;
        rows.collect()
    };
    read().map_err(|error| format!("{sql}: {error}"))
}

/// A row as [`rows_of`] gives it.
fn row(words: &[&dyn ToString], head: Option<(usize, &Hash)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if let Some((_, head)) = head.filter(|(place, _)| *place == at) {
            bytes.extend(head);
            bytes.push(b' ');
        }
        bytes.extend(word.to_string().as_bytes());
        bytes.push(b' ');
    }
    bytes
}

/// The rows that a tenant must have: by table, the question and all its answers.
pub struct Expected(Vec<(&'static str, &'static str, BTreeSet<Vec<u8>>)>);

const FLOWS: &str = "SELECT task, head, body FROM flows WHERE tenant = ?1";
const ENDED: &str = "SELECT task, project, ended_at, head, body FROM ended WHERE tenant = ?1";
const BRIEFS: &str = "SELECT task, body FROM briefs WHERE tenant = ?1";
const LEASES: &str = "SELECT task, attempt, holder FROM leases WHERE tenant = ?1";
const HISTORY: &str = "SELECT 'runs', task, number, version, body FROM runs WHERE tenant = ?1
    UNION ALL SELECT 'attempts', task, number, version, body FROM attempts WHERE tenant = ?1
    UNION ALL SELECT 'checkpoints', task, number, version, body FROM checkpoints
              WHERE tenant = ?1";
const EDGES: &str = "SELECT task, on_task FROM edges WHERE tenant = ?1";
const POOLS: &str = "SELECT name, body FROM pools WHERE tenant = ?1";
const PROJECTS: &str = "SELECT name, body FROM projects WHERE tenant = ?1";
const RECORDS: &str = "SELECT records_version, records_head FROM tenants WHERE id = ?1";

impl Fold {
    /// The rows that all this adds up to.
    pub fn expected(&self) -> Expected {
        let is_live = |kept: &&Kept| kept.task.flow.ending().is_none();
        let of = |kept: &Kept| row(&[&kept.task.flow.id.0, &kept.body], Some((1, &kept.head)));
        let ended = |kept: &Kept| {
            let flow = &kept.task.flow;
            // Once it is put away, nobody asks any more since when.
            let is_kept = matches!(flow.stage, Stage::Ended(_));
            let since = flow.ended_at.filter(|_| is_kept).map_or("-".into(), |at| at.0.to_string());
            row(&[&flow.id.0, &flow.project, &since, &kept.body], Some((3, &kept.head)))
        };
        let lease = |(id, kept): (&u64, &Kept)| {
            let held = kept.task.flow.run.as_ref()?.held()?;
            Some(row(&[id, &held.attempt, &held.holder], None))
        };
        let history = |(key, it): (&(&str, u64, u32), &(u64, Arc<str>))| {
            row(&[&key.0, &key.1, &key.2, &it.0, &it.1], None)
        };
        let brief = |(id, kept): (&u64, &Kept)| row(&[id, &kept.brief], None);
        let pool = |(name, pool): (&PoolName, &Pool)| row(&[&json(name), &json(pool)], None);
        let project = |(name, body): (&String, &Arc<str>)| row(&[name, body], None);
        // The empty word at the end only closes the row behind the head.
        let mut records = row(&[&self.records_version, &""], Some((1, &self.records_head)));
        records.pop();
        let tasks = || self.tasks.values();
        Expected(vec![
            ("flows", FLOWS, tasks().filter(is_live).map(of).collect()),
            ("ended", ENDED, tasks().filter(|kept| !is_live(kept)).map(ended).collect()),
            ("briefs", BRIEFS, self.tasks.iter().map(brief).collect()),
            ("leases", LEASES, self.tasks.iter().filter_map(lease).collect()),
            ("history", HISTORY, self.history.iter().map(history).collect()),
            ("edges", EDGES, self.edges.iter().map(|(a, b)| row(&[a, b], None)).collect()),
            ("pools", POOLS, self.pools.iter().map(pool).collect()),
            ("projects", PROJECTS, self.projects.iter().map(project).collect()),
            ("records", RECORDS, BTreeSet::from([records])),
        ])
    }

    /// Whether every pool counts exactly what live attempts took.
    pub fn pools_add_up(&self) -> Result<(), String> {
        let wrong = |(name, pool): &(&PoolName, &Pool)| pool.used != self.taken_from(name);
        match self.pools.iter().find(wrong) {
            None => Ok(()),
            Some((name, pool)) => {
                Err(format!("{} of {name} are used, not what is taken", pool.used))
            }
        }
    }
}

impl Expected {
    /// Compares with what is there, and shows the first table that differs.
    pub fn compare(&self, db: &Connection, tenant: i64) -> Result<(), String> {
        for (table, sql, expected) in &self.0 {
            let found = rows_of(db, sql, tenant)?;
            if found != *expected {
                let show = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
                let missing: Vec<_> = expected.difference(&found).map(show).collect();
                let strange: Vec<_> = found.difference(expected).map(show).collect();
                return Err(format!("{table}: missing {missing:#?}, strange {strange:#?}"));
            }
        }
        Ok(())
    }
}
