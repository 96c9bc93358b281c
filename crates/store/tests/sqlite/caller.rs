//! A caller that never gives up: it asks for one thing after another, and for the same thing with
//! the same key until it knows the answer, whatever happens to the store in between.

use std::collections::BTreeMap;

use baton_domain::ids::TaskId;
use baton_store::order::{Committed, Order};
use rusqlite::Connection;

use crate::cast::{
    abandon, birth, claim, done, keyed, local, needs_input, new_task, note, renew, says,
};

/// Steps after which a caller begins anew: a task, one that waits for it, work on the first.
pub const CYCLE: u64 = 8;

/// Who asks, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
    pub step: u64,
    first: u64,
    second: u64,
}

impl Caller {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), step: 0, first: 0, second: 0 }
    }

    /// Goes on where a caller of another process was.
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [name, step, first, second] = words[..] else { return None };
        let number = |word: &str| word.parse().ok();
        let (step, first, second) = (number(step)?, number(first)?, number(second)?);
        Some(Self { name: name.into(), step, first, second })
    }

    pub fn line(&self) -> String {
        format!("{} {} {} {}", self.name, self.step, self.first, self.second)
    }

    /// The same caller at an earlier step, for its key alone.
    pub fn at(&self, step: u64) -> Self {
        Self { step, ..self.clone() }
    }

    /// The key of the present step.
    pub fn key(&self) -> String {
        format!("{}-{}", self.name, self.step)
    }

    /// Whether the present step has a key: a heartbeat has none.
    pub fn is_keyed(&self) -> bool {
        self.step % CYCLE != 4
    }

    /// What it asks for now.
    pub fn order(&self) -> Order {
        let (tenant, name, key) = (local(), self.name.as_str(), self.key());
        let (first, second) = (TaskId(self.first), TaskId(self.second));
        let parks = (self.step / CYCLE) % 2 == 1;
        let order = match self.step % CYCLE {
            0 => birth(&tenant, new_task(&key)),
            1 => {
                let mut task = new_task(&key);
                task.depends_on.insert(first);
                birth(&tenant, task)
            }
            2 => claim(&tenant, first, name, u128::from(self.step) + 1),
            3 => says(&tenant, first, name, 1, note(&key)),
            4 => renew(&tenant, first, name, 1),
            5 => says(&tenant, first, name, 1, note(&key)),
            6 if parks => says(&tenant, first, name, 1, needs_input()),
            6 => says(&tenant, first, name, 1, done()),
            _ if parks => abandon(&tenant, first),
            _ => abandon(&tenant, second),
        };
        if self.is_keyed() { keyed(order, &key) } else { order }
    }

    /// Takes the answer and goes on to the next step.
    pub fn heard(&mut self, committed: &Committed) {
        let task = committed.task.as_ref().map_or(0, |flow| flow.id.0);
        match self.step % CYCLE {
            0 => self.first = task,
            1 => self.second = task,
            _ => {}
        }
        self.step += 1;
    }
}

/// What was asked for once must not have happened twice: every title and every note is there once.
pub fn doubled(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut seen = BTreeMap::new();
    for (table, field) in [("briefs", "title"), ("checkpoints", "summary")] {
        let sql = format!("SELECT json_extract(body, '$.{field}') FROM {table}");
        let mut found = db.prepare(&sql)?;
        let mut rows = found.query([])?;
        while let Some(row) = rows.next()? {
            *seen.entry((table, row.get::<_, String>(0)?)).or_insert(0) += 1;
        }
    }
    let sql = "SELECT count(*) FROM events WHERE payload LIKE '%\"event\":\"claimed\"%'
               GROUP BY tenant, task HAVING count(*) > 1";
    let claimed_twice = db.prepare(sql)?.exists([])?;
    let twice = seen.into_iter().filter(|(_, times)| *times > 1);
    let mut twice: Vec<_> = twice.map(|((table, key), _)| format!("{table} {key}")).collect();
    twice.extend(claimed_twice.then(|| "a claim".to_owned()));
    Ok(twice)
}
