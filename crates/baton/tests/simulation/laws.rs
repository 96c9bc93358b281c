//! What must be true after every step, whatever happened in it.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use baton::engine::Engine;
use baton_domain::command::{Claim, Command};
use baton_domain::decide::{decide, due_at};
use baton_domain::event::Event;
use baton_domain::ids::{Nonce, TaskId};
use baton_domain::lane::Claimant;
use baton_domain::pool::Pools;
use baton_domain::run::{Death, Outcome};
use baton_domain::scene::{Around, Lease, Scene};
use baton_domain::task::{Flow, Task};
use baton_domain::time::{Millis, Timestamp};
use baton_store::read::{About, Happened, LeaseRow};
use baton_store::{Cursor, Entry, Filter, Kind, TaskRow};

use crate::lockstep::Watch;
use crate::sightings::{Sight, Sightings};
use crate::vocabulary::{project, tenant};

/// What the simulation knows by itself, to hold the store to.
pub struct Laws {
    /// The tasks as their entries tell them.
    pub tasks: BTreeMap<TaskId, Task>,
    /// The rows as they were after the last step.
    pub rows: BTreeMap<TaskId, TaskRow>,
    pub pools: Pools,
    position: u64,
    /// From when on nothing of a watched attempt acts without another renewal.
    fences: BTreeMap<(TaskId, u32), Timestamp>,
    /// Positions that were acknowledged, and what for.
    acknowledged: BTreeMap<u64, Option<(TaskId, u64)>>,
    watch: Arc<Mutex<Watch>>,
    pub sightings: Arc<Mutex<Sightings>>,
    hasher: DefaultHasher,
}

impl Laws {
    pub fn new(watch: Arc<Mutex<Watch>>, sightings: Arc<Mutex<Sightings>>) -> Self {
        Self {
            tasks: BTreeMap::new(),
            rows: BTreeMap::new(),
            pools: Pools::new(),
            position: 0,
            fences: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            watch,
            sightings,
            hasher: DefaultHasher::new(),
        }
    }

    pub fn saw(&self, sight: Sight) {
        self.sightings.lock().expect("one thread").saw(sight);
    }

    /// Adds to what two runs of the same seed must agree on.
    pub fn note(&mut self, line: &str) {
        line.hash(&mut self.hasher);
    }

    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// An order was answered with success: what it says must be there for ever.
    pub fn acknowledge(&mut self, position: Option<u64>, flow: Option<&Flow>) {
        if let Some(position) = position {
            self.acknowledged.insert(position, flow.map(|flow| (flow.id, flow.version)));
        }
    }

    /// Whoever owns the agent of an attempt kills it then, if nobody renews again.
    pub fn fenced(&mut self, attempt: (TaskId, u32), at: Timestamp) {
        let fence = self.fences.entry(attempt).or_insert(at);
        *fence = (*fence).max(at);
    }

    /// No lease ends before this.
    pub fn amnesty(&self) -> Timestamp {
        self.watch.lock().expect("one thread").amnesty
    }

    /// When the lease of an attempt ends without renewal, if it has one.
    pub fn expiry_of(&self, task: TaskId, attempt: u32) -> Option<Timestamp> {
        let lease = self.rows.get(&task)?.lease.as_ref()?;
        (lease.attempt == attempt).then_some(lease.expires_at)
    }

    /// Everything that holds after every step.
    pub async fn check(&mut self, engine: &Engine) {
        let leases = self.leases();
        self.replay_new_entries(engine, &leases).await;
        let filter = Filter { ended: true, count_max: 500, ..Filter::default() };
        let page = engine.tasks(&tenant(), filter).await.expect("it can be read");
        assert_eq!(page.next, None, "there are few tasks");
        assert_eq!(page.rows.len(), self.tasks.len(), "every task was told of");
        for row in page.rows {
            let id = row.flow.id;
            // A store that kept the very same row has not changed it.
            let same = |before: &TaskRow| {
                Arc::ptr_eq(&before.flow, &row.flow)
                    && before.lease == row.lease
                    && self.tasks[&id].flow.version == row.flow.version
            };
            if !self.rows.get(&id).is_some_and(same) {
                check_row(&row, &self.tasks[&id]);
                self.rows.insert(id, row);
            }
        }
        let pools = engine.pools(&tenant(), None, 500).await.expect("it can be read");
        self.pools = pools.rows.into_iter().map(|row| (row.name, row.pool)).collect();
        self.check_pools();
    }

    /// Nothing was written since the last step.
    pub async fn check_nothing_is_new(&self, engine: &Engine) {
        let after = Cursor { incarnation: 0, position: self.position };
        let page = engine.entries(&tenant(), after, 1).await.expect("it can be read");
        assert_eq!(page.rows, [], "a second tick writes nothing");
    }

    fn leases(&self) -> BTreeMap<TaskId, LeaseRow> {
        let lease = |(id, row): (&TaskId, &TaskRow)| Some((*id, row.lease.clone()?));
        self.rows.iter().filter_map(lease).collect()
    }

    /// Applies what is new; the whole is replayed once more at the end.
    async fn replay_new_entries(&mut self, engine: &Engine, leases: &BTreeMap<TaskId, LeaseRow>) {
        loop {
            let after = Cursor { incarnation: 0, position: self.position };
            let page = engine.entries(&tenant(), after, 500).await.expect("it can be read");
            for entry in &page.rows {
                assert_eq!(entry.position, self.position + 1, "entries have no gaps");
                self.position = entry.position;
                self.check_acknowledged(entry);
                self.check_expiry(entry, leases);
                format!("{entry:?}").hash(&mut self.hasher);
                let sightings = Arc::clone(&self.sightings);
                replay(&mut self.tasks, entry, Some(&mut sightings.lock().expect("one thread")));
            }
            if !page.more {
                return assert_eq!(page.as_of, self.position, "everything was read");
            }
        }
    }

    fn check_acknowledged(&self, entry: &Entry) {
        let Some(about) = self.acknowledged.get(&entry.position) else { return };
        match entry.about {
            About::Task(task, version) => assert_eq!(*about, Some((task, version))),
            About::Records(_) => assert_eq!(*about, None),
        }
    }

    /// Nobody loses a lease before it ends, and no watched attempt ends by time alone before its fence.
    fn check_expiry(&self, entry: &Entry, leases: &BTreeMap<TaskId, LeaseRow>) {
        let (About::Task(task, _), Happened::ToTask(events)) = (entry.about, &entry.happened)
        else {
            return;
        };
        let run = self.tasks.get(&task).and_then(|task| task.flow.run.as_ref());
        let stopping = run.is_some_and(|run| run.word() == "stopping");
        for event in events {
            let Event::AttemptEnded { attempt, outcome, death, .. } = event else { continue };
            if let (Outcome::Lost, false, Some(lease)) = (outcome, stopping, leases.get(&task)) {
                let end = lease.expires_at.max(self.amnesty());
                assert!(end <= entry.at, "{task} was lost at {:?}, not at {end:?}", entry.at);
            }
            let by_time = entry.actor.kind == Kind::System && *death == Some(Death::None);
            if let (true, Some(fence)) = (by_time, self.fences.get(&(task, *attempt))) {
                assert!(*fence <= entry.at, "{task} ended at {:?}, before {fence:?}", entry.at);
            }
        }
    }

    /// What pools say is used is what live attempts took.
    fn check_pools(&self) {
        let held = || self.rows.values().filter_map(|row| row.flow.run.as_ref()?.held());
        for (name, pool) in &self.pools {
            let takes = held().flat_map(|held| &held.takes).filter(|take| take.pool == *name);
            let taken: u64 = takes.map(|take| take.amount).sum();
            assert_eq!(pool.used, taken, "{name} counts what live attempts took");
        }
    }

    /// After a sweep nothing is due, and no lease is past its end.
    pub fn check_nothing_is_due(&self, now: Timestamp) {
        let project = project();
        for (id, row) in &self.rows {
            let lease = row.lease.as_ref().map(|lease| Lease {
                heard: 0,
                attempt: lease.attempt,
                holder: lease.holder.clone(),
                nonce: Nonce(0),
                expires_at: lease.expires_at,
                length: Millis(0),
            });
            let due = due_at(&row.flow, lease.as_ref(), &project, self.amnesty());
            assert!(due.is_none_or(|due| due > now), "{id} was due at {due:?}, it is {now:?}");
        }
    }

    /// Something that waits and that this claimer could have, by the rules themselves.
    pub fn could_have(&self, claimant: &Claimant, now: Timestamp) -> Option<TaskId> {
        let (project, around) = (project(), Around::default());
        let claim = Claim { claimant: claimant.clone(), nonce: Nonce(0), lease: None };
        let command = Command::Claim(claim);
        let waits = |task: &Task| task.flow.lanes().iter().any(|lane| lane.admits(claimant));
        let may = |task: &Task| {
            let scene = Scene {
                task: Some(task),
                lease: None,
                project: &project,
                pools: &self.pools,
                around: &around,
                amnesty: self.amnesty(),
            };
            decide(&scene, &command, now).is_ok()
        };
        let found = self.tasks.iter().find(|(_, task)| waits(task) && may(task));
        found.map(|(id, _)| *id)
    }

    /// What must be true at the very end: the whole history tells the same once more.
    pub async fn check_all(&self, engine: &Engine) {
        let mut tasks = BTreeMap::new();
        let mut position = 0;
        loop {
            let after = Cursor { incarnation: 0, position };
            let page = engine.entries(&tenant(), after, 500).await.expect("it can be read");
            for entry in &page.rows {
                position += 1;
                assert_eq!(entry.position, position, "entries have no gaps");
                self.check_acknowledged(entry);
                replay(&mut tasks, entry, None);
            }
            if !page.more {
                break;
            }
        }
        assert!(self.acknowledged.keys().all(|kept| *kept <= position), "acknowledged is present");
        assert_eq!(tasks, self.tasks, "history is never changed");
        let audit = engine.audit().await.expect("it can be walked");
        assert_eq!(audit.fault, None);
        for id in self.tasks.keys() {
            let records = engine.history(&tenant(), *id, None, 500).await;
            check_history(&self.tasks[id], &records.expect("it can be read").rows);
        }
    }
}

/// Applies one entry to the tasks as they were.
fn replay(tasks: &mut BTreeMap<TaskId, Task>, entry: &Entry, see: Option<&mut Sightings>) {
    let (About::Task(id, version), Happened::ToTask(events)) = (entry.about, &entry.happened)
    else {
        return;
    };
    let by_time = entry.actor.kind == Kind::System;
    let mut see = see;
    let mut events = events.as_slice();
    if let std::collections::btree_map::Entry::Vacant(place) = tasks.entry(id) {
        let (birth, rest) = events.split_first().expect("an entry has events");
        place.insert(Task::born(birth, entry.at).expect("the first event of a task is its birth"));
        events = rest;
    } else {
        tasks.get_mut(&id).expect("it is there").turn();
    }
    let task = tasks.get_mut(&id).expect("it is there");
    for event in events {
        let attempts = task.flow.attempts;
        if let Some(see) = &mut see {
            see.look_at(task, event, by_time);
        }
        if let Event::Claimed { attempt, .. } = event {
            let held = task.flow.run.as_ref().and_then(|run| run.held());
            assert!(held.is_none(), "{id} was claimed while somebody held it");
            assert_eq!(*attempt, attempts + 1, "attempts are counted and never reused");
        }
        task.apply(event, entry.at);
        assert!(task.flow.attempts >= attempts);
    }
    assert_eq!(task.flow.version, version, "each entry is one version");
}

/// The row is what its entries tell, and it is held exactly if there is a lease.
fn check_row(row: &TaskRow, task: &Task) {
    let id = row.flow.id;
    assert_eq!(*row.flow, task.flow, "{id} is what its entries tell");
    assert_eq!(Some(&row.brief), task.brief.as_ref(), "{id} is what its entries tell");
    let held = row.flow.run.as_ref().and_then(|run| run.held());
    let held = held.map(|held| (held.attempt, &held.holder));
    let lease = row.lease.as_ref().map(|lease| (lease.attempt, &lease.holder));
    assert_eq!(held, lease, "{id} has one holder, who has the lease");
    if row.flow.ending().is_some() {
        assert!(row.flow.run.is_none(), "{id} has ended, so nothing runs");
    }
}

/// Every attempt that ended left one record, and every run that finished left one.
fn check_history(task: &Task, records: &[baton_domain::history::Past]) {
    use baton_domain::history::Past;
    let numbers = |wanted: fn(&Past) -> Option<u32>| -> Vec<u32> {
        records.iter().filter_map(wanted).collect()
    };
    let attempts = numbers(|record| match record {
        Past::Attempt(attempt) => Some(attempt.number),
        Past::Run(_) | Past::Checkpoint(_) => None,
    });
    let runs = numbers(|record| match record {
        Past::Run(run) => Some(run.number),
        Past::Attempt(_) | Past::Checkpoint(_) => None,
    });
    let checkpoints = numbers(|record| match record {
        Past::Checkpoint(checkpoint) => Some(checkpoint.number),
        Past::Attempt(_) | Past::Run(_) => None,
    });
    let flow = &task.flow;
    let held = u32::from(flow.run.as_ref().is_some_and(|run| run.held().is_some()));
    assert!(attempts.iter().copied().eq(1..=flow.attempts - held), "{}: {attempts:?}", flow.id);
    assert!(runs.iter().copied().eq(1..=flow.runs - u32::from(flow.run.is_some())), "{runs:?}");
    assert!(checkpoints.iter().copied().eq(1..=flow.checkpoints), "{checkpoints:?}");
}
