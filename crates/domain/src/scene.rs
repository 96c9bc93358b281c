//! What a command may look at, and what it decides.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::command::{Agent, Command, Person, Supervisor, Time};
use crate::event::Event;
use crate::ids::{AttemptId, Nonce, PrincipalId, TaskId};
use crate::limits::FENCE_FALL;
use crate::pool::{PoolMove, Pools};
use crate::project::Project;
use crate::reaction::{Cause, Reaction};
use crate::run::Why;
use crate::task::{Ending, Flow, Kind, Task};
use crate::time::{Millis, Timestamp};

/// Everything that a command may look at.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    pub task: Option<&'a Task>,
    pub lease: Option<&'a Lease>,
    pub project: &'a Project,
    pub pools: &'a Pools,
    /// What else was asked for by [`Needs`].
    pub around: &'a Around,
    pub amnesty: Timestamp,
}

/// What surrounds a task, as far as a command needs it.
#[derive(Clone, Debug, Default)]
pub struct Around {
    pub next_id: u64,
    /// Tasks that a command names: a parent, a dependency, a successor.
    pub named: BTreeMap<TaskId, Flow>,
    /// How many children the named parent has.
    pub siblings: usize,
    pub dependants: BTreeSet<TaskId>,
    /// How many tasks wait for the named dependency.
    pub dependants_of_named: usize,
    /// Everything that the named dependency waits for, directly or through others; an epic waits for
    /// its children.
    pub upstream: BTreeSet<TaskId>,
    /// The children of this task and how they ended.
    pub children: BTreeMap<TaskId, Option<Ending>>,
    /// What this task declares to wait for.
    pub dependencies: BTreeSet<TaskId>,
    /// An attempt that the claimer holds already.
    pub holding: Option<AttemptId>,
}

/// What of its surroundings a command needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub brief: bool,
    pub named: BTreeSet<TaskId>,
    /// The children of this parent are counted.
    pub siblings_of: Option<TaskId>,
    pub dependants: bool,
    /// What these wait for, directly or through others.
    pub upstream_of: BTreeSet<TaskId>,
    pub children: bool,
    /// What this task declares to wait for.
    pub dependencies: bool,
    pub holding: Option<PrincipalId>,
}

/// The right to act as an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub attempt: u32,
    pub holder: PrincipalId,
    pub nonce: Nonce,
    pub expires_at: Timestamp,
    pub length: Millis,
    /// The last number under which its supervisor was heard.
    pub heard: u64,
}

impl Lease {
    /// The end of a lease that was forfeited when its store was brought back from a copy. Its
    /// holder may have gone on elsewhere since, so no amnesty is for it.
    pub const FORFEIT: Timestamp = Timestamp(0);

    /// When it really ends: nobody loses a lease to an outage of ours.
    #[must_use]
    pub fn ends_at(&self, amnesty: Timestamp) -> Timestamp {
        if self.expires_at == Self::FORFEIT { Self::FORFEIT } else { self.expires_at.max(amnesty) }
    }

    /// From when on nothing of a watched attempt acts any more, although nobody proved it: whoever owns
    /// its agent kills it two thirds after the last renewal by itself. An amnesty is unknown to it.
    #[must_use]
    pub fn fenced_at(&self) -> Timestamp {
        let third = Millis(self.length.0 / 3);
        self.expires_at - third + FENCE_FALL.min(third)
    }
}

/// What a command decided. All of it happens, or none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub events: Vec<Event>,
    pub lease: Option<LeaseChange>,
    pub pools: Vec<PoolMove>,
    pub reactions: Vec<Reaction>,
}

/// What becomes of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// It begins.
    Grant(Lease),
    /// It lasts longer; nothing else happened.
    Renew { expires_at: Timestamp, length: Millis },
    /// Its supervisor was heard under this number.
    Heard { seq: u64 },
    /// It is over: holder and nonce are gone from storage.
    Drop,
}

impl Decision {
    /// Only these events.
    #[must_use]
    pub fn of(events: Vec<Event>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Whether nothing changes at all.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Command {
    /// What of its surroundings the command needs.
    #[must_use]
    pub fn needs(&self, flow: Option<&Flow>) -> Needs {
        let mut needs = Needs::default();
        match self {
            Self::Create(task) => {
                needs.named = task.depends_on.iter().chain(&task.parent).copied().collect();
                needs.siblings_of = task.parent;
                needs.upstream_of = task.depends_on.clone();
            }
            Self::Expect(_) => {}
            Self::Claim(claim) => {
                needs.holding = Some(claim.claimant.principal.clone());
                // No rule looks at it, but whoever is given the run must be told what it is about.
                needs.brief = true;
            }
            Self::Person(person) => person.needs(flow, &mut needs),
            Self::Agent(_, agent) => agent.needs(flow, &mut needs),
            Self::Supervisor(_, supervisor) => match supervisor {
                Supervisor::Exited
                | Supervisor::Stopped { .. }
                | Supervisor::TimedOut(_)
                | Supervisor::Exceeded(_)
                | Supervisor::Lost { .. }
                | Supervisor::Unbound(_)
                | Supervisor::Merged(_)
                | Supervisor::Release { .. } => needs.dependants = true,
                Supervisor::Bind(_) => needs.brief = true,
                Supervisor::Renew { .. }
                | Supervisor::Heard { .. }
                | Supervisor::Report(_)
                | Supervisor::Spend { .. }
                | Supervisor::Probed { .. }
                | Supervisor::Snapshot(_) => {}
            },
            Self::Verifier(..) => {
                needs.brief = true;
                needs.dependants = true;
            }
            Self::Time(Time::Pass) => needs.dependants = true,
            Self::Time(Time::React(reaction)) => {
                needs.dependants = true;
                needs.children = match &reaction.cause {
                    Cause::ChildSettled | Cause::ChildAdded => true,
                    Cause::DependencySettled { .. } | Cause::BudgetRaised | Cause::Wake { .. } => {
                        false
                    }
                };
            }
        }
        needs
    }
}

impl Person {
    fn needs(&self, flow: Option<&Flow>, needs: &mut Needs) {
        match self {
            Self::Edit(_) => needs.brief = true,
            Self::Waive(_) | Self::Review(_) => {
                needs.brief = true;
                needs.dependants = true;
            }
            Self::Depend { on, .. } => {
                needs.named.insert(*on);
                needs.upstream_of.insert(*on);
                needs.dependencies = true;
            }
            Self::Close(ending) => {
                needs.dependants = true;
                needs.children = matches!(ending, Ending::Done { .. });
                if let Ending::Superseded { by, .. } = ending {
                    needs.named.insert(*by);
                }
            }
            Self::Hold { .. } | Self::Publish => {
                needs.dependants = true;
                needs.children = flow.is_some_and(|flow| flow.kind == Kind::Epic);
            }
            Self::Cancel(_) | Self::Release(_) | Self::Fail { .. } => needs.dependants = true,
            Self::Approve
            | Self::Move { .. }
            | Self::Archive
            | Self::Answer(_)
            | Self::Unblock(_)
            | Self::Retry(_) => {}
        }
    }
}

impl Agent {
    fn needs(&self, flow: Option<&Flow>, needs: &mut Needs) {
        match self {
            Self::Block { why: Why::Dependency { on }, .. } => {
                needs.named.insert(*on);
                needs.upstream_of.insert(*on);
                needs.dependencies = true;
                needs.dependants = true;
            }
            Self::Block { .. } | Self::Fail { .. } => needs.dependants = true,
            Self::Complete { .. } => {
                needs.brief = flow.is_some_and(|flow| flow.contract.is_some());
                needs.dependants = true;
            }
            Self::Begin
            | Self::Progress(_)
            | Self::Checkpoint(_)
            | Self::Ask(_)
            | Self::Receive(_)
            | Self::Withdraw => {}
        }
    }
}
