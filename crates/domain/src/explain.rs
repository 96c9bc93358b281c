//! Why a task is not moving: every hindrance, the first one first, with what would help. Derived
//! from typed state, never guessed from texts.

mod search;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{Account, AttemptId, Capability, PrincipalId, StageName, TaskId};
use crate::lane::Claimant;
use crate::pool::{PoolName, Pools};
use crate::project::Project;
use crate::run::{Cap, Delay, Purpose, Why};
use crate::scene::Lease;
use crate::task::{Ending, Flow, Hold};
use crate::text::Code;
use crate::time::Timestamp;

/// Everything that an explanation may look at.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    pub flow: &'a Flow,
    pub lease: Option<&'a Lease>,
    pub project: &'a Project,
    pub pools: &'a Pools,
    pub amnesty: Timestamp,
    /// Who is there and asks for work, and for which.
    pub staff: &'a [Claimant],
}

/// One reason why a task is not moving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    #[serde(flatten)]
    pub hindrance: Hindrance,
    /// Since when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What would help; none if it passes by itself or nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Remedy>,
}

/// What keeps a task where it is; a closed list with stable codes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
pub enum Hindrance {
    /// It is over, and put away.
    Archived { how: Ending },
    /// It is over.
    Ended { how: Ending },
    /// It is not published.
    Draft,
    /// Somebody must agree first.
    AwaitingApproval,
    /// Somebody put it on ice.
    Frozen,
    /// Somebody wants to look first.
    ReviewHold,
    /// What it waits for ended otherwise than done.
    DependencyFailed { on: TaskId },
    /// What it waits for is not done.
    DependencyOpen { on: TaskId },
    /// All its children ended, so many of them otherwise than done.
    ChildrenUndone { count: u8 },
    /// It is done once its children are.
    ChildrenOpen,
    /// Nobody has begun it.
    Backlog,
    /// Its last run failed.
    Failed { why: Code },
    /// Its last run was called off.
    Cancelled,
    /// Its last run ended without a word.
    EndedWithoutResult,
    /// Its run is parked.
    Blocked { block: Why },
    /// The same block came back too often: no automatism may unpark it.
    Recurring,
    /// It waits for a time.
    Delayed { until: Timestamp, why: Delay },
    /// An agent waits for an answer, until then.
    WaitingForInput {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// It is in somebody's hands until then, or longer.
    Held {
        attempt: AttemptId,
        holder: PrincipalId,
        purpose: Purpose,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// What its attempt submitted is being checked.
    Verifying,
    /// Its holder does nothing but renew.
    Silent,
    /// Its attempt is being stopped.
    Stopping,
    /// A process was seen that would not die, or the death of these attempts is unproven.
    StopUnverified { attempts: BTreeSet<u32> },
    /// Somebody paused this.
    Paused {
        pool: PoolName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// This limit is reached, until then or until somebody gives back.
    PoolFull {
        pool: PoolName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// It is for this one alone, who does not ask for work.
    AssigneeAbsent { assignee: PrincipalId },
    /// Nobody who asks for work can do all this.
    CapabilityMissing { needs: BTreeSet<Capability> },
    /// People work this stage.
    PersonStage { stage: StageName },
    /// Nobody asks for such work.
    NoWorker,
    /// Nobody verifies what was submitted.
    NoVerifier,
    /// The home of its project, which alone merges, does not ask for work.
    HomeAbsent { home: PrincipalId },
    /// Somebody else must say what they found of what was submitted.
    ReviewOpen,
    /// What was submitted names no tree that a worker could check.
    NoTree,
    /// It has queued for longer than it should.
    Starving,
    /// Nothing stands in its way: it waits for its turn.
    Queued,
}

/// A command that would help, for a surface to spell out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Remedy {
    Publish,
    Approve,
    Unhold {
        hold: Hold,
    },
    /// Wait for it no longer.
    Undepend {
        on: TaskId,
    },
    /// Look at another task first.
    Show {
        task: TaskId,
    },
    Move {
        to: StageName,
    },
    Retry,
    Close,
    Answer,
    Unblock,
    /// Take the run from its holder.
    Release,
    /// Let a person claim it.
    Take,
    /// Edit the policy.
    RaiseCap {
        cap: Cap,
    },
    /// Raise or lift the limit of a pool.
    RaiseLimit {
        pool: PoolName,
    },
    /// Open a pool again.
    Resume {
        pool: PoolName,
    },
    /// Claim it although it is parked: whoever is able to may.
    PickUp {
        needs: Capability,
    },
    /// Let anybody do it.
    ClearAssignee,
    StartWorker {
        capabilities: BTreeSet<Capability>,
    },
    StartVerifier,
    /// Say what was found.
    Review,
    /// Vouch for it.
    Waive,
}

/// Every reason why the task is not moving, the first one first.
#[must_use]
pub fn explain(outlook: &Outlook<'_>, now: Timestamp) -> Vec<Explained> {
    search::hindrances(outlook, now)
}

/// Nobody who asks for work can be given any: all their accounts are shut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub accounts: BTreeSet<Account>,
    /// When the first of them opens again.
    pub until: Option<Timestamp>,
}

/// Whether everybody who asks for work would use an account that is shut.
#[must_use]
pub fn exhausted(staff: &[Claimant], pools: &Pools, now: Timestamp) -> Option<Exhausted> {
    let mut found = Exhausted { accounts: BTreeSet::new(), until: None };
    for claimant in staff.iter().filter(|claimant| claimant.wants.is_work()) {
        let account = claimant.account.as_ref()?;
        let pool = pools.get(&PoolName::Account(account.clone()))?;
        let shut = pool.shut.as_ref().filter(|_| !pool.is_open(now))?;
        found.until = [found.until, shut.until].into_iter().flatten().min();
        found.accounts.insert(account.clone());
    }
    (!found.accounts.is_empty()).then_some(found)
}

impl Hindrance {
    /// The stable word for it, as it is written.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Archived { .. } => "archived",
            Self::Ended { .. } => "ended",
            Self::Draft => "draft",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Frozen => "frozen",
            Self::ReviewHold => "review_hold",
            Self::DependencyFailed { .. } => "dependency_failed",
            Self::DependencyOpen { .. } => "dependency_open",
            Self::ChildrenUndone { .. } => "children_undone",
            Self::ChildrenOpen => "children_open",
            Self::Backlog => "backlog",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::EndedWithoutResult => "ended_without_result",
            Self::Blocked { .. } => "blocked",
            Self::Recurring => "recurring",
            Self::Delayed { .. } => "delayed",
            Self::WaitingForInput { .. } => "waiting_for_input",
            Self::Held { .. } => "held",
            Self::Verifying => "verifying",
            Self::Silent => "silent",
            Self::Stopping => "stopping",
            Self::StopUnverified { .. } => "stop_unverified",
            Self::Paused { .. } => "paused",
            Self::PoolFull { .. } => "pool_full",
            Self::AssigneeAbsent { .. } => "assignee_absent",
            Self::CapabilityMissing { .. } => "capability_missing",
            Self::PersonStage { .. } => "person_stage",
            Self::NoWorker => "no_worker",
            Self::NoVerifier => "no_verifier",
            Self::HomeAbsent { .. } => "home_absent",
            Self::ReviewOpen => "review_open",
            Self::NoTree => "no_tree",
            Self::Starving => "starving",
            Self::Queued => "queued",
        }
    }
}
