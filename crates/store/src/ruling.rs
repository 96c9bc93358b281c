//! From a scene and commands to everything that must be written: the same for every store, so
//! that stores differ only in how they remember.

use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::event::Event;
use baton_domain::history::{Past, past};
use baton_domain::ids::TaskId;
use baton_domain::limits::COMMANDS_MAX;
use baton_domain::pool::{PoolMove, PoolName, Pools};
use baton_domain::project::Project;
use baton_domain::reaction::{Cause, Reaction};
use baton_domain::scene::{Around, Decision, Lease, LeaseChange, Needs, Scene};
use baton_domain::task::{Flow, Task};
use baton_domain::time::Timestamp;

/// Decides a command. A store is given one and never looks inside.
pub type Judge = fn(&Scene<'_>, &Command, Timestamp) -> Result<Decision, Refusal>;

/// Everything around a task that its commands may look at.
pub struct Setting<'a> {
    /// Its project.
    pub project: &'a Project,
    /// The pools of its tenant.
    pub pools: &'a Pools,
    /// What the commands asked for.
    pub around: &'a Around,
    /// No lease ends before this.
    pub amnesty: Timestamp,
    /// Now.
    pub now: Timestamp,
}

/// Everything that an order changes.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// The task as it will be. Its brief is there if it was, or if the task is born.
    pub task: Task,
    /// The run that it is about: the one that was live, or else the one that it opens.
    pub run: Option<u32>,
    /// Its lease as it will be.
    pub lease: Option<Lease>,
    /// Whether the lease is another one than before, or lasts otherwise.
    pub lease_changed: bool,
    /// Whether the brief was written.
    pub brief_changed: bool,
    /// What happened: the entry. If empty, neither version nor row changed.
    pub events: Vec<Event>,
    /// Rows for the history.
    pub records: Vec<Past>,
    /// What pools give and get back.
    pub pools: Vec<PoolMove>,
    /// What is owed to other tasks.
    pub reactions: Vec<Reaction>,
    /// Dependencies declared (true) or withdrawn (false).
    pub edges: Vec<(TaskId, bool)>,
}

impl Ruling {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.events.is_empty() && !self.lease_changed
    }
}

/// What is owed to the tasks that a budget had parked, if that has more money now: the oldest task first.
pub fn unparked<'a>(pool: &PoolName, flows: impl IntoIterator<Item = &'a Flow>) -> Vec<Reaction> {
    let parked = flows.into_iter().filter(|flow| flow.is_parked_by(pool));
    let owed = |flow: &Flow| Reaction { to: flow.id, from: flow.id, cause: Cause::BudgetRaised };
    let mut owed: Vec<_> = parked.map(owed).collect();
    owed.sort();
    owed
}

/// What the commands of an order need to see, taken together.
#[must_use]
pub fn needs(commands: &[Command], flow: Option<&Flow>) -> Needs {
    let mut all = Needs::default();
    for command in commands {
        let needs = command.needs(flow);
        all.brief |= needs.brief;
        all.named.extend(needs.named);
        all.siblings_of = all.siblings_of.or(needs.siblings_of);
        all.dependants |= needs.dependants;
        all.upstream_of.extend(needs.upstream_of);
        all.children |= needs.children;
        all.dependencies |= needs.dependencies;
        all.holding = all.holding.or(needs.holding);
    }
    all
}

/// Decides the commands of an order one after another; the first refusal refuses them all.
pub fn rule(
    judge: Judge,
    task: Option<Task>,
    lease: Option<&Lease>,
    commands: &[Command],
    setting: &Setting<'_>,
) -> Result<Ruling, Refusal> {
    if commands.is_empty() || commands.len() > COMMANDS_MAX {
        return Err(Refusal::too_many("commands", COMMANDS_MAX));
    }
    // What surrounds a task is gathered once for an order, so only one command may change it.
    let of_graph = |command: &&Command| !command.needs(None).upstream_of.is_empty();
    if commands.iter().filter(of_graph).count() > 1 {
        let rule = "must name at most one that changes dependencies".into();
        return Err(Refusal::Invalid { field: "commands".into(), rule });
    }
    let run = task.as_ref().and_then(|task| live_run(&task.flow));
    let mut draft = Draft { task, run, lease: lease.cloned(), ..Draft::default() };
    for command in commands {
        let scene = Scene {
            task: draft.task.as_ref(),
            lease: draft.lease.as_ref(),
            project: setting.project,
            pools: setting.pools,
            around: setting.around,
            amnesty: setting.amnesty,
        };
        let decision = judge(&scene, command, setting.now)?;
        draft.take_in(decision, setting.now);
    }
    draft.finish()
}

fn live_run(flow: &Flow) -> Option<u32> {
    flow.run.as_ref().map(|run| run.number)
}

#[derive(Default)]
struct Draft {
    task: Option<Task>,
    run: Option<u32>,
    lease: Option<Lease>,
    lease_changed: bool,
    brief_changed: bool,
    events: Vec<Event>,
    records: Vec<Past>,
    pools: Vec<PoolMove>,
    reactions: Vec<Reaction>,
    edges: Vec<(TaskId, bool)>,
}

impl Draft {
    fn take_in(&mut self, decision: Decision, now: Timestamp) {
        for event in &decision.events {
            self.note_edges(event);
            self.brief_changed |=
                matches!(event, Event::Created { .. } | Event::Edited { .. } | Event::Bound { .. });
            match &mut self.task {
                None => self.task = Task::born(event, now),
                Some(task) => {
                    // The first event of an order begins its entry; a birth has begun it already.
                    if self.events.is_empty() {
                        task.turn();
                    }
                    self.records.extend(past(&task.flow, event, now));
                    task.apply(event, now);
                }
            }
            self.events.push(event.clone());
        }
        match decision.lease {
            None => {}
            Some(LeaseChange::Grant(lease)) => {
                self.lease = Some(lease);
                self.lease_changed = true;
            }
            Some(LeaseChange::Renew { expires_at, length }) => {
                if let Some(lease) = &mut self.lease {
                    lease.expires_at = expires_at;
                    lease.length = length;
                    self.lease_changed = true;
                }
            }
            Some(LeaseChange::Heard { seq }) => {
                if let Some(lease) = &mut self.lease {
                    lease.heard = seq;
                    self.lease_changed = true;
                }
            }
            Some(LeaseChange::Drop) => {
                self.lease = None;
                self.lease_changed = true;
            }
        }
        self.pools.extend(decision.pools);
        self.reactions.extend(decision.reactions);
    }

    fn note_edges(&mut self, event: &Event) {
        if let Event::Created { task, .. } = event {
            self.edges.extend(task.depends_on.iter().map(|on| (*on, true)));
        }
        if let Event::DependencyAdded { on, .. } = event {
            self.edges.push((*on, true));
        }
        if let Event::DependencyRemoved { on } = event {
            self.edges.push((*on, false));
        }
    }

    fn finish(self) -> Result<Ruling, Refusal> {
        let task = self.task.ok_or(Refusal::NotFound)?;
        Ok(Ruling {
            run: self.run.or_else(|| live_run(&task.flow)),
            task,
            lease: self.lease,
            lease_changed: self.lease_changed,
            brief_changed: self.brief_changed,
            events: self.events,
            records: self.records,
            pools: self.pools,
            reactions: self.reactions,
            edges: self.edges,
        })
    }
}
