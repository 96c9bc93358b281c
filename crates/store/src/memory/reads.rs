//! What the model tells of one tenant.

use std::convert::Infallible;
use std::sync::Arc;

use baton_domain::history::{AttemptRecord, CheckpointRecord, Past};
use baton_domain::ids::{LineId, ProjectId, RunId, TaskId};
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;

use super::tenant::{Kept, Tenant};
use crate::read::{
    About, COUNTED_MAX, Entry, Filter, HistoryKey, List, Page, PastId, PoolRow, RunFilter, RunFull,
    RunNow, RunRow, SHOWN_MAX, Stats, TaskRow, page_size, versions,
};

impl Tenant {
    pub(super) fn list(&self, filter: &Filter, now: Timestamp) -> List<TaskRow, TaskId> {
        let mut found: Vec<_> =
            self.tasks.values().filter(|kept| filter.finds(&kept.flow)).map(Kept::row).collect();
        if filter.newest_first {
            found.reverse();
        }
        let wants = |row: &TaskRow| filter.wants(row, now);
        fill(found, |row| row.flow.id, wants, filter.count_max, self.head())
    }

    pub(super) fn runs(&self, filter: &RunFilter) -> List<RunRow, RunId> {
        let mut found: Vec<_> = self.tasks.values().flat_map(Kept::runs).collect();
        found.retain(|row| filter.finds(row));
        found.sort_by_key(|row| row.id);
        if filter.newest_first {
            found.reverse();
        }
        fill(found, |row| row.id, |row| filter.wants(row), filter.count_max, self.head())
    }

    pub(super) fn run(&self, id: RunId) -> Option<RunFull> {
        let kept = self.tasks.get(&id.task)?;
        let row = kept.runs().into_iter().find(|row| row.id == id)?;
        let (mut attempts, mut checkpoints): (Vec<AttemptRecord>, Vec<CheckpointRecord>) =
            (vec![], vec![]);
        for (_, record) in &kept.history {
            match record {
                Past::Attempt(own) if own.run == id.number => attempts.push(own.clone()),
                Past::Checkpoint(own) if own.run == id.number => checkpoints.push(own.clone()),
                Past::Attempt(_) | Past::Checkpoint(_) | Past::Run(_) => {}
            }
        }
        let attempts_dropped = keep_last(&mut attempts);
        let checkpoints_dropped = keep_last(&mut checkpoints);
        Some(RunFull { row, attempts, attempts_dropped, checkpoints, checkpoints_dropped })
    }

    pub(super) fn history(
        &self,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> List<Past, HistoryKey> {
        let kept = self.tasks.get(&id).map(|kept| &kept.history[..]).unwrap_or_default();
        let mut found: Vec<_> = kept
            .iter()
            .map(|(version, record)| (HistoryKey::of(*version, record), record.clone()))
            .filter(|(key, _)| after.is_none_or(|after| *key > after))
            .collect();
        found.sort_by_key(|(key, _)| *key);
        let list = fill(found, |(key, _)| *key, |_| true, count_max, self.head());
        let rows = list.rows.into_iter().map(|(_, record)| record).collect();
        List { rows, next: list.next, as_of: list.as_of }
    }

    pub(super) fn page(&self, after: u64, count_max: usize) -> Page<Entry> {
        let mut found = self.entries.iter().filter(|entry| entry.position > after).cloned();
        let rows: Vec<Entry> = found.by_ref().take(page_size(count_max)).collect();
        let more = found.next().is_some();
        let last = rows.last().filter(|_| more).map(|last| last.position);
        Page { rows, more, as_of: last.unwrap_or(self.head()) }
    }

    pub(super) fn entries_of(
        &self,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> List<Entry, u64> {
        let version = |entry: &Entry| match entry.about {
            About::Task(task, version) if task == id => version,
            About::Task(..) | About::Records(_) => 0,
        };
        let found: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| version(entry) >= from_version.max(1))
            .cloned()
            .collect();
        let list = fill(found, version, |_| true, count_max, self.head());
        List { next: list.next.map(|last| last + 1), ..list }
    }

    pub(super) fn past(&self, id: TaskId, which: PastId) -> Option<Past> {
        let history = self.tasks.get(&id).map(|kept| &kept.history[..]).unwrap_or_default();
        let is_meant = |record: &&Past| match (record, which) {
            (Past::Attempt(own), PastId::Attempt(number)) => own.number == number,
            (Past::Checkpoint(own), PastId::Checkpoint(number)) => own.number == number,
            (Past::Attempt(_) | Past::Checkpoint(_) | Past::Run(_), _) => false,
        };
        history.iter().map(|(_, record)| record).find(is_meant).cloned()
    }

    pub(super) fn entries_at(&self, id: TaskId, wanted: Vec<u64>) -> Vec<Entry> {
        let wanted = versions(wanted);
        let is_meant = |entry: &&Entry| match entry.about {
            About::Task(task, version) => task == id && wanted.contains(&version),
            About::Records(_) => false,
        };
        self.entries.iter().filter(is_meant).cloned().collect()
    }

    pub(super) fn receipt(&self, id: TaskId, line: &LineId) -> Option<Entry> {
        let is_meant = |entry: &&Entry| match entry.about {
            About::Task(task, _) => task == id && entry.checks(line),
            About::Records(_) => false,
        };
        self.entries.iter().rfind(is_meant).cloned()
    }

    pub(super) fn project_list(
        &self,
        after: Option<&ProjectId>,
        count_max: usize,
    ) -> List<Arc<Project>, ProjectId> {
        let found: Vec<_> = self
            .projects
            .values()
            .filter(|project| after.is_none_or(|after| project.id > *after))
            .cloned()
            .collect();
        fill(found, |project| project.id.clone(), |_| true, count_max, self.head())
    }

    pub(super) fn pool_list(
        &self,
        after: Option<&PoolName>,
        count_max: usize,
    ) -> List<PoolRow, PoolName> {
        let found: Vec<_> = self
            .pools
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| *name > after))
            .map(|(name, pool)| PoolRow { name: name.clone(), pool: pool.clone() })
            .collect();
        fill(found, |row| row.name.clone(), |_| true, count_max, self.head())
    }

    pub(super) fn stats(&self, project: Option<&ProjectId>, now: Timestamp) -> Stats {
        let mut stats = Stats::default();
        let (mut live, mut ended) = (0, 0);
        let counted = self.tasks.values().map(|kept| &kept.flow);
        for flow in counted.filter(|flow| project.is_none_or(|own| flow.project == *own)) {
            let count = if flow.ending().is_some() { &mut ended } else { &mut live };
            *count += 1;
            if *count > COUNTED_MAX {
                stats.more = true;
            } else if flow.ending().is_some() {
                stats.ended += 1;
            } else {
                stats.add(flow, now);
            }
        }
        stats
    }
}

impl Kept {
    /// Every run of the task: those that finished, and the live one.
    fn runs(&self) -> Vec<RunRow> {
        let id = |number| RunId { task: self.flow.id, number };
        let project = || self.flow.project.clone();
        let finished = self.history.iter().filter_map(|(_, record)| match record {
            Past::Run(run) => {
                let now = RunNow::Finished(Box::new(run.clone()));
                Some(RunRow { id: id(run.number), project: project(), run: now })
            }
            Past::Attempt(_) | Past::Checkpoint(_) => None,
        });
        let live = self.flow.run.iter().map(|run| {
            let now = RunNow::Live(Box::new(run.clone()), self.row().lease);
            RunRow { id: id(run.number), project: project(), run: now }
        });
        finished.chain(live).collect()
    }
}

fn fill<T, K>(
    found: Vec<T>,
    key: impl Fn(&T) -> K,
    wants: impl Fn(&T) -> bool,
    count_max: usize,
    as_of: u64,
) -> List<T, K> {
    let Ok(list) =
        List::fill(found.into_iter().map(Ok::<_, Infallible>), key, wants, count_max, as_of);
    list
}

/// Keeps the last rows that may be shown; tells how many it dropped.
fn keep_last<T>(rows: &mut Vec<T>) -> u64 {
    let dropped = rows.len().saturating_sub(SHOWN_MAX);
    rows.drain(..dropped);
    dropped as u64
}
