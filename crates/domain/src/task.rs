//! The task: what should be achieved, and where it stands. Two of its four parts are here, the
//! cold brief and the hot flow; the lease and the history have rows of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::contract::{Contract, ContractMark};
use crate::ids::{
    Capability, Commit, ConcurrencyKey, Label, LineId, PrincipalId, ProjectId, StageName, TaskId,
};
use crate::limits::REASON_KEPT_BYTES_MAX;
use crate::policy::Policy;
use crate::run::{BlockKind, Finished, Idle, Run, RunState};
use crate::text::{Body, Line, Reason, Title};
use crate::time::Timestamp;

/// A task as a command sees it; the brief is there only for commands that need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub flow: Flow,
    pub brief: Option<Brief>,
}

/// What a task is about: read by people and agents, seldom by rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    pub title: Title,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Label>,
    /// What must be true before a run counts.
    #[serde(default)]
    pub contract: Contract,
    /// What of that the project asks for, and not the task itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

/// What a project asks for, besides the terms of its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    pub lines: BTreeSet<LineId>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub protected: BTreeSet<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Commit>,
}

/// Where a task stands: small, hot, without lists that grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub id: TaskId,
    pub version: u64,
    pub project: ProjectId,
    pub creator: PrincipalId,
    /// The task whose attempt made it; never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_task: Option<TaskId>,
    /// Its parents, the nearest last; never change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<TaskId>,
    pub kind: Kind,
    #[serde(default)]
    pub priority: Priority,
    /// Not yet published: nothing happens to a draft.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// Whether somebody must agree first, and has.
    #[serde(default, skip_serializing_if = "Approval::is_not_required")]
    pub approval: Approval,
    pub stage: Stage,
    #[serde(default, skip_serializing_if = "Holds::are_none")]
    pub holds: Holds,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits_for: BTreeMap<TaskId, Wait>,
    /// How many dependencies it declares, met ones included.
    #[serde(default)]
    pub dependencies: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<PrincipalId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<Capability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ConcurrencyKey>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: Policy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Finished>,
    /// The commit that passed its checks last: later stages work on it, whatever was kept since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Commit>,
    #[serde(default)]
    pub runs: u32,
    /// Attempts so far; the next one gets the next number, always.
    #[serde(default)]
    pub attempts: u32,
    #[serde(default)]
    pub checkpoints: u32,
    /// How often each kind of block came back after having been cleared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recurrence: BTreeMap<BlockKind, Recurrence>,
    /// How often in a row Baton or the train sent it back, by the stage that it was sent back from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setbacks: BTreeMap<StageName, u8>,
    /// What happens as soon as nothing stops it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<Owed>,
    /// How many children ended otherwise than done, once none is open: a person says what follows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undone: u8,
    /// Attempts whose death nobody proved: their worktrees are quarantined.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unproven: BTreeSet<u32>,
    /// What the last attempts that are over have cost, as far as it is settled, by attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settled: BTreeMap<u32, u64>,
    /// Which worktree the next attempt gets.
    #[serde(default)]
    pub generation: u32,
    /// Whether a completed run on the way was not verified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubted: bool,
    pub created_at: Timestamp,
    /// When it left the board, or reached its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

fn is_default(policy: &Policy) -> bool {
    *policy == Policy::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u8) -> bool {
    *count == 0
}

/// What sort of work a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something new.
    #[default]
    Story,
    /// Something broken.
    Bug,
    /// Something to find out.
    Spike,
    /// Something to tidy.
    Refactor,
    /// Something that must be done.
    Chore,
    /// Something made of other tasks: it has no runs and is done when its children are.
    Epic,
}

/// How urgent a task is: how far it may jump ahead of what waited longer.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Behind everything of its age.
    Low,
    /// As it comes.
    #[default]
    Normal,
    /// Ahead of an hour of others.
    High,
    /// Ahead of a day of others.
    Urgent,
}

/// Whether somebody must agree before anything is executed, and has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Nobody need.
    #[default]
    NotRequired,
    /// Somebody must.
    Pending,
    /// Somebody has.
    Approved,
}

impl Approval {
    fn is_not_required(&self) -> bool {
        *self == Self::NotRequired
    }
}

/// The column of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not begun.
    Backlog,
    /// In one of the project's working stages.
    Working(StageName),
    /// Done, or closed.
    Ended(Ending),
    /// Ended, and put away.
    Archived(Ending),
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ending")]
pub enum Ending {
    /// Every stage is passed.
    Done { verified: bool },
    /// Nobody wants it any more.
    Abandoned { reason: Reason },
    /// Another task takes its place.
    Superseded { by: TaskId, reason: Reason },
    /// It shall not be done.
    Rejected { reason: Reason },
}

impl Ending {
    /// What the flow keeps of it: the reason may be long, and the entry has the whole.
    #[must_use]
    pub fn kept(&self) -> Self {
        let cut = |reason: &Reason| reason.cut(REASON_KEPT_BYTES_MAX);
        match self {
            Self::Done { verified } => Self::Done { verified: *verified },
            Self::Abandoned { reason } => Self::Abandoned { reason: cut(reason) },
            Self::Superseded { by, reason } => Self::Superseded { by: *by, reason: cut(reason) },
            Self::Rejected { reason } => Self::Rejected { reason: cut(reason) },
        }
    }

    /// Only what was done satisfies those that wait for it.
    #[must_use]
    pub fn satisfies(&self) -> bool {
        match self {
            Self::Done { .. } => true,
            Self::Abandoned { .. } | Self::Superseded { .. } | Self::Rejected { .. } => false,
        }
    }
}

/// The two independent flags that stop claiming and advancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holds {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
}

/// One of the two holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Put on ice.
    Frozen,
    /// Somebody wants to look first.
    Review,
}

impl Holds {
    /// Nothing stops the task.
    #[must_use]
    pub fn are_none(&self) -> bool {
        !self.frozen && !self.review
    }

    /// Whether this hold is on.
    #[must_use]
    pub fn has(self, hold: Hold) -> bool {
        match hold {
            Hold::Frozen => self.frozen,
            Hold::Review => self.review,
        }
    }

    /// The flag of this hold.
    pub(crate) fn flag(&mut self, hold: Hold) -> &mut bool {
        match hold {
            Hold::Frozen => &mut self.frozen,
            Hold::Review => &mut self.review,
        }
    }
}

/// How a dependency stands that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// It may still be.
    Open,
    /// It ended otherwise than done: only a person can go on from here.
    Failed,
}

/// How often a kind of block came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrence {
    /// Whether it was cleared since it was last raised.
    pub cleared: bool,
    /// Raised again after having been cleared.
    pub count: u8,
}

/// What happens as soon as nothing stops it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owed {
    /// The stage is passed; the next one begins at the last unhold.
    Advance,
    /// The task is to be closed once its attempt is dead.
    Close(Ending),
}

impl Owed {
    /// What the flow keeps of it.
    #[must_use]
    pub fn kept(&self) -> Self {
        match self {
            Self::Advance => Self::Advance,
            Self::Close(ending) => Self::Close(ending.kept()),
        }
    }
}

/// Why a queued run may not be claimed, first cause first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impediment {
    /// It is not published.
    Draft,
    /// Somebody must agree first.
    Approval,
    /// It is on hold.
    Held(Hold),
    /// It waits for another task.
    Dependency(TaskId),
}

impl Flow {
    /// What stops this task from being claimed, whatever its run says.
    #[must_use]
    pub fn impediment(&self) -> Option<Impediment> {
        if self.draft {
            return Some(Impediment::Draft);
        }
        if self.approval == Approval::Pending {
            return Some(Impediment::Approval);
        }
        for hold in [Hold::Frozen, Hold::Review] {
            if self.holds.has(hold) {
                return Some(Impediment::Held(hold));
            }
        }
        self.waits_for.keys().next().copied().map(Impediment::Dependency)
    }

    /// How the task ended, archived or not.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        match &self.stage {
            Stage::Backlog | Stage::Working(_) => None,
            Stage::Ended(ending) | Stage::Archived(ending) => Some(ending),
        }
    }

    /// The nearest parent.
    #[must_use]
    pub fn parent(&self) -> Option<TaskId> {
        self.ancestors.last().copied()
    }

    /// Whether the run waits for a holder and nothing stops one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.impediment().is_none()
            && self.run.as_ref().is_some_and(|run| run.state == RunState::Idle(Idle::Queued))
    }
}
