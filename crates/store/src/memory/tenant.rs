//! What the model keeps of one tenant, and what a command gets to see of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::channel::KeptChannel;
use baton_domain::command::Command;
use baton_domain::history::Past;
use baton_domain::ids::{AttemptId, ChannelName, PrincipalId, ProjectId, StageName, TaskId};
use baton_domain::pool::{PoolName, Pools};
use baton_domain::project::{Meant, Project, RecordScene};
use baton_domain::scene::{Around, Lease, Needs};
use baton_domain::task::{Brief, Flow, Kind, Stage, Task};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;

use super::keys::Keys;
use crate::order::Actor;
use crate::read::{About, Entry, Happened, LeaseRow, TaskRow};
use crate::ruling::{self, Judge, Ruling, Setting};

/// Everything of one tenant.
#[derive(Default)]
pub(super) struct Tenant {
    pub(super) projects: BTreeMap<ProjectId, Arc<Project>>,
    pub(super) pools: Pools,
    pub(super) keys: Keys,
    pub(super) channels: BTreeMap<ChannelName, KeptChannel>,
    pub(super) tasks: BTreeMap<TaskId, Kept>,
    /// Which task waits for which; one that ended waits for none.
    pub(super) edges: BTreeSet<(TaskId, TaskId)>,
    pub(super) entries: Vec<Entry>,
    pub(super) requests: BTreeMap<(PrincipalId, Text<255>), Answered>,
    /// The version of projects and pools taken together.
    pub(super) records_version: u64,
    pub(super) seals: u64,
    sealed_up_to: u64,
}

/// A task with everything that belongs to it.
pub(super) struct Kept {
    pub(super) flow: Arc<Flow>,
    pub(super) brief: Brief,
    pub(super) lease: Option<Lease>,
    /// What it keeps for good, with the version of the entry that it came with.
    pub(super) history: Vec<(u64, Past)>,
}

/// A request that was carried out, and what is needed to answer it again.
pub(super) struct Answered {
    pub(super) fingerprint: [u8; 32],
    pub(super) at: Timestamp,
    pub(super) position: Option<u64>,
    pub(super) task: Option<TaskId>,
    /// The attempt whose lease the answer showed.
    pub(super) attempt: Option<u32>,
    /// The run that it was about.
    pub(super) run: Option<u32>,
}

impl Kept {
    pub(super) fn row(&self) -> TaskRow {
        let lease = self.lease.as_ref().map(|lease| LeaseRow {
            attempt: lease.attempt,
            holder: lease.holder.clone(),
            expires_at: lease.expires_at,
        });
        TaskRow { flow: Arc::clone(&self.flow), brief: self.brief.clone(), lease }
    }
}

impl Tenant {
    /// The position of the last entry.
    pub(super) fn head(&self) -> u64 {
        u64::try_from(self.entries.len()).expect("a list in memory is shorter than 2^64")
    }

    /// The number of the next task: tasks are never forgotten, so numbers have no gaps.
    pub(super) fn next_id(&self) -> u64 {
        self.tasks.last_key_value().map_or(1, |(last, _)| last.0 + 1)
    }

    /// The project of a task; one that was forgotten has no stages left.
    pub(super) fn project_of(&self, flow: &Flow) -> Arc<Project> {
        let gone = || Arc::new(Project::gone(flow.project.clone()));
        self.projects.get(&flow.project).cloned().unwrap_or_else(gone)
    }

    /// Decides commands on a task, or on one that is to be.
    pub(super) fn rule(
        &self,
        judge: Judge,
        (id, project): (Option<TaskId>, &Project),
        commands: &[Command],
        (amnesty, now): (Timestamp, Timestamp),
    ) -> Result<Ruling, Refusal> {
        let kept = id.and_then(|id| self.tasks.get(&id));
        let needs = ruling::needs(commands, kept.map(|kept| &*kept.flow));
        let task = kept.map(|kept| Task {
            flow: (*kept.flow).clone(),
            brief: needs.brief.then(|| kept.brief.clone()),
        });
        let around = self.around(id, &needs);
        let setting = Setting { project, pools: &self.pools, around: &around, amnesty, now };
        let lease = kept.and_then(|kept| kept.lease.as_ref());
        ruling::rule(judge, task, lease, commands, &setting)
    }

    /// What commands asked to see.
    fn around(&self, id: Option<TaskId>, needs: &Needs) -> Around {
        let flow = |id: &TaskId| Some((*id, (*self.tasks.get(id)?.flow).clone()));
        let own = |wanted: bool| id.filter(|_| wanted);
        Around {
            next_id: self.next_id(),
            named: needs.named.iter().filter_map(flow).collect(),
            siblings: needs.siblings_of.map_or(0, |parent| self.children(parent).count()),
            dependants: own(needs.dependants).map(|id| self.dependants(id)).unwrap_or_default(),
            dependants_of_named: needs
                .upstream_of
                .iter()
                .map(|on| self.dependants(*on).len())
                .max()
                .unwrap_or(0),
            upstream: self.upstream(&needs.upstream_of),
            children: own(needs.children)
                .into_iter()
                .flat_map(|id| self.children(id))
                .map(|child| (child.id, child.ending().cloned()))
                .collect(),
            dependencies: own(needs.dependencies)
                .map(|id| self.dependencies(id))
                .unwrap_or_default(),
            holding: needs.holding.as_ref().and_then(|holder| self.held_by(holder)),
        }
    }

    fn children(&self, parent: TaskId) -> impl Iterator<Item = &Flow> {
        self.tasks.values().map(|kept| &*kept.flow).filter(move |it| it.parent() == Some(parent))
    }

    fn dependants(&self, on: TaskId) -> BTreeSet<TaskId> {
        self.edges.iter().filter(|edge| edge.1 == on).map(|edge| edge.0).collect()
    }

    fn dependencies(&self, of: TaskId) -> BTreeSet<TaskId> {
        self.edges.iter().filter(|edge| edge.0 == of).map(|edge| edge.1).collect()
    }

    /// Everything that these wait for, directly or through others; an epic waits for its children.
    fn upstream(&self, of: &BTreeSet<TaskId>) -> BTreeSet<TaskId> {
        let mut found = BTreeSet::new();
        let mut unseen: Vec<TaskId> = of.iter().copied().collect();
        while let Some(task) = unseen.pop() {
            let kept = self.tasks.get(&task);
            let epic =
                kept.is_some_and(|it| it.flow.kind == Kind::Epic && it.flow.ending().is_none());
            let children = self.children(task).filter(|it| epic && it.ending().is_none());
            let next = children.map(|child| child.id).chain(self.dependencies(task));
            unseen.extend(next.filter(|on| found.insert(*on)));
        }
        found
    }

    /// An attempt that this principal holds: of several the one of the oldest task.
    pub(super) fn held_by(&self, holder: &PrincipalId) -> Option<AttemptId> {
        self.tasks.iter().find_map(|(id, kept)| {
            let lease = kept.lease.as_ref().filter(|lease| lease.holder == *holder)?;
            Some(AttemptId { task: *id, number: lease.attempt })
        })
    }

    /// What live attempts have taken from a pool.
    pub(super) fn taken_from(&self, pool: &PoolName) -> u64 {
        self.tasks
            .values()
            .filter_map(|kept| kept.flow.run.as_ref()?.held())
            .flat_map(|held| &held.takes)
            .filter(|take| take.pool == *pool)
            .map(|take| take.amount)
            .sum()
    }

    /// What a record command may look at.
    pub(super) fn record_scene(&self, meant: Meant<'_>) -> RecordScene {
        let Meant { project, task, pool } = meant;
        let live = || {
            let of_project =
                |flow: &&Flow| Some(&flow.project) == project && flow.ending().is_none();
            self.tasks.values().map(|kept| &*kept.flow).filter(of_project)
        };
        let occupied: BTreeSet<StageName> = live()
            .filter_map(|flow| match &flow.stage {
                Stage::Working(stage) => Some(stage.clone()),
                Stage::Backlog | Stage::Ended(_) | Stage::Archived(_) => None,
            })
            .collect();
        RecordScene {
            project: project.and_then(|id| self.projects.get(id)).map(|it| (**it).clone()),
            occupied: occupied.into_iter().collect(),
            live: live().map(|_| 1).sum(),
            projects: self.projects.len(),
            task: task.is_some_and(|id| self.tasks.contains_key(&id)),
            pool: pool.and_then(|name| self.pools.get(name)).cloned(),
            pools: self.pools.len(),
        }
    }

    /// Adds an entry and tells its position.
    pub(super) fn record(
        &mut self,
        actor: &Actor,
        at: Timestamp,
        about: About,
        happened: Happened,
    ) -> u64 {
        let position = self.head() + 1;
        self.entries.push(Entry { position, at, actor: actor.clone(), about, happened });
        position
    }

    /// Counts a seal if there is anything new to sign.
    pub(super) fn seal(&mut self) {
        if self.head() > self.sealed_up_to {
            self.sealed_up_to = self.head();
            self.seals += 1;
        }
    }
}
