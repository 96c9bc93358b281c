//! What must hold of any store at any time.

use std::collections::BTreeMap;

use baton_domain::ids::TaskId;
use baton_domain::pool::PoolName;
use baton_domain::run::{Held, RunState};
use baton_domain::task::{Flow, Task};
use baton_domain::time::Timestamp;
use baton_store::Entry;
use baton_store::read::{About, Happened};

use crate::world::World;

impl World {
    /// Everything at once; cheap enough to ask after any case.
    pub async fn check_laws(&self) {
        self.entries_are_dense().await;
        self.entries_rebuild_every_task().await;
        self.pools_are_conserved().await;
        self.leases_belong_to_held_runs().await;
    }

    /// Positions and versions begin at one and have no gaps.
    async fn entries_are_dense(&self) {
        let mut versions: BTreeMap<Option<TaskId>, u64> = BTreeMap::new();
        let mut times: BTreeMap<Option<TaskId>, Timestamp> = BTreeMap::new();
        let mut last = None;
        for (count, entry) in (1..).zip(self.entries().await) {
            assert_eq!(entry.position, count, "positions are dense");
            let in_order = last <= Some(entry.at) || !self.backend().is_in_order_of_time();
            assert!(in_order, "time does not go backwards");
            last = Some(entry.at);
            let (chain, version) = match entry.about {
                About::Task(task, version) => (Some(task), version),
                About::Records(version) => (None, version),
            };
            let before = versions.insert(chain, version).unwrap_or(0);
            assert_eq!(version, before + 1, "versions of {chain:?} are dense");
            let before = times.insert(chain, entry.at);
            assert!(before <= Some(entry.at), "time does not go backwards for {chain:?}");
        }
        let mut number = 0;
        for row in self.all_tasks().await {
            number += 1;
            assert_eq!(row.flow.id.0, number, "numbers are dense");
            let told = versions.get(&Some(row.flow.id)).copied();
            assert_eq!(told, Some(row.flow.version), "state and entry are one");
        }
    }

    /// The row is the truth, and the entries tell the same story.
    async fn entries_rebuild_every_task(&self) {
        for row in self.all_tasks().await {
            let mut task: Option<Task> = None;
            for entry in self.entries_of(row.flow.id).await {
                task = retell(task, &entry);
            }
            let task = task.expect("every task has an entry of its birth");
            assert_eq!(task.flow, *row.flow, "the entries rebuild the flow");
            assert_eq!(task.brief.as_ref(), Some(&row.brief), "the entries rebuild the brief");
        }
    }

    async fn entries_of(&self, task: TaskId) -> Vec<Entry> {
        let mut entries: Vec<Entry> = vec![];
        loop {
            let from = u64::try_from(entries.len()).expect("a list has a length") + 1;
            let more = self.store().entries_of(&self.tenant, task, from, 100).await;
            let more = more.expect("reading works").rows;
            if more.is_empty() {
                return entries;
            }
            entries.extend(more);
        }
    }

    /// Used is what live attempts took, and nothing else.
    async fn pools_are_conserved(&self) {
        let rows = self.all_tasks().await;
        for pool in self.store().pools(&self.tenant, None, 500).await.expect("reading works").rows {
            let taken: u64 = rows.iter().map(|row| taken_by(&row.flow, &pool.name)).sum();
            assert_eq!(pool.pool.used, taken, "{} counts what live attempts took", pool.name);
        }
    }

    /// A lease lives with its attempt, and with nothing else.
    async fn leases_belong_to_held_runs(&self) {
        for row in self.all_tasks().await {
            let held = held(&row.flow).map(|held| (held.attempt, held.holder.clone()));
            let lease = row.lease.map(|lease| (lease.attempt, lease.holder));
            assert_eq!(held, lease, "{} is held by whoever has its lease", row.flow.id);
        }
    }
}

pub fn held(flow: &Flow) -> Option<&Held> {
    match &flow.run.as_ref()?.state {
        RunState::Held(held) => Some(held),
        RunState::Idle(_) => None,
    }
}

fn taken_by(flow: &Flow, pool: &PoolName) -> u64 {
    let takes = held(flow).map(|held| &held.takes[..]).unwrap_or_default();
    takes.iter().filter(|take| take.pool == *pool).map(|take| take.amount).sum()
}

/// Carries out once more what an entry tells.
fn retell(task: Option<Task>, entry: &Entry) -> Option<Task> {
    let Happened::ToTask(events) = &entry.happened else { panic!("{entry:?} is not of a task") };
    let mut events = events.iter();
    let mut task = match task {
        None => Task::born(events.next().expect("an entry tells something"), entry.at),
        Some(mut task) => {
            task.turn();
            Some(task)
        }
    };
    if let Some(task) = &mut task {
        events.for_each(|event| task.apply(event, entry.at));
    }
    task
}
