//! Reasons why nothing happened. A refusal is the caller's doing, has a stable code, and changed
//! nothing.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{AttemptId, LineId, RunId, StageName, TaskId};
use crate::limits::EVENTS_PER_MINUTE_MAX;
use crate::task::Hold;
use crate::time::{Millis, Timestamp};

/// Why nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A value breaks a rule.
    #[error("`{field}` {rule}")]
    Invalid { field: String, rule: String },
    /// There is no such thing, or it is somebody else's.
    #[error("there is no such thing")]
    NotFound,
    /// The caller does not hold the run, or holds it no longer.
    #[error("this attempt does not hold the run, or holds it no longer")]
    LeaseLost,
    /// The holder said this before.
    #[error("everything up to number {heard} was heard before")]
    HeardBefore { heard: u64 },
    /// Somebody holds the run.
    #[error("{attempt} holds the run")]
    Held { attempt: AttemptId },
    /// The task has ended.
    #[error("the task has ended and does not change any more")]
    Ended,
    /// The task has no live run.
    #[error("the task has no live run")]
    NoRun,
    /// The run is in a state in which this cannot happen.
    #[error("this cannot happen to a run that is {state}")]
    WrongState { state: &'static str },
    /// The task is not published.
    #[error("the task is a draft")]
    Draft,
    /// Somebody must agree first.
    #[error("the task waits for approval")]
    ApprovalPending,
    /// The task is on hold.
    #[error("the task is on hold: {}", hold_word(*.hold))]
    OnHold { hold: Hold },
    /// The task waits for another.
    #[error("the task waits for {on}")]
    DependencyOpen { on: TaskId },
    /// The time has not come.
    #[error("the run is not due yet")]
    NotDue { due_at: Timestamp },
    /// The claimer is not the one, or cannot do it.
    #[error("the claimer may not take this run: {why}")]
    NotForYou { why: &'static str },
    /// Nothing that the claimer may take is waiting.
    #[error("nothing is waiting that this claimer may take")]
    NothingClaimable,
    /// A limit is reached that others meet, too.
    #[error("the limit of {pool} is reached")]
    PoolFull { pool: String },
    /// The claimer itself holds as much as it may, or its account does; somebody else may be let in.
    #[error("the claimer's own limit is reached: {pool}")]
    HolderFull { pool: String, held: Option<AttemptId> },
    /// Somebody paused this.
    #[error("{pool} is paused")]
    Paused { pool: String },
    /// The block came back too often, or was raised by a rule: only a person may unpark it.
    #[error("only a person may unpark this run")]
    PersonNeeded,
    /// The dependency would close a circle.
    #[error("{on} already waits for this task, directly or through others")]
    Cycle { on: TaskId },
    /// There is no such stage.
    #[error("the project has no stage `{stage}`")]
    NoStage { stage: StageName },
    /// Tasks stand in a stage that the project would lose.
    #[error("tasks stand in stage `{stage}`")]
    StageOccupied { stage: StageName },
    /// The project has live tasks.
    #[error("tasks of the project that have not ended: {live}")]
    ProjectInUse { live: u64 },
    /// The chain of retries is as long as it may be.
    #[error("the run has been retried as often as it may be")]
    LineageTooLong,
    /// The completion leaves lines of the contract open.
    #[error("lines of the contract are open: {}", .missing.len())]
    Incomplete { missing: Vec<Missing> },
    /// The completion answers another contract.
    #[error("the contract has changed since it was read")]
    ContractChanged,
    /// The run that is meant is not the live one.
    #[error("that is not the live run; {}", live_words(*.live))]
    RunChanged { live: Option<RunId> },
    /// The expected version is not the present one.
    #[error("the task is at version {version}")]
    VersionChanged { version: u64 },
    /// Another live thing has this name.
    #[error("the name `{name}` is taken")]
    NameTaken { name: String },
    /// The key was revoked, or has expired.
    #[error("the key is revoked or has expired")]
    KeyEnded,
    /// The caller's key does not reach that far.
    #[error("this goes beyond the key that asks for it: {why}")]
    BeyondKey { why: String },
    /// There are as many as there may be.
    #[error("there are already {count_max} {what}, as many as there may be")]
    LimitReached { what: &'static str, count_max: usize },
    /// The holder has said as much as it may in one minute; its end is still heard.
    #[error(
        "this attempt has made {} events within a minute, as many as it may",
        EVENTS_PER_MINUTE_MAX
    )]
    TooOften { retry_after: Millis },
}

/// A line of a contract that is open, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub line: LineId,
    #[serde(skip_deserializing)]
    pub code: &'static str,
    pub path: String,
}

fn live_words(live: Option<RunId>) -> String {
    live.map_or_else(|| "the task has none".into(), |run| format!("{run} is"))
}

fn hold_word(hold: Hold) -> &'static str {
    match hold {
        Hold::Frozen => "frozen",
        Hold::Review => "review",
    }
}

impl Refusal {
    /// A list is too long.
    #[must_use]
    pub fn too_many(field: &str, count_max: usize) -> Self {
        Self::Invalid {
            field: field.into(),
            rule: format!("must have at most {count_max} entries"),
        }
    }

    /// The tenant has as many of these as it may have.
    #[must_use]
    pub fn full(field: &str, count_max: usize) -> Self {
        Self::Invalid {
            field: field.into(),
            rule: format!("are {count_max} already, as many as a tenant may have"),
        }
    }

    /// Whether a claimer that was refused so may be lucky later without changing anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::NothingClaimable
                | Self::PoolFull { .. }
                | Self::HolderFull { .. }
                | Self::Paused { .. }
        )
    }

    /// Tells a claimer that is full what it holds.
    #[must_use]
    pub fn naming(self, attempt: impl FnOnce() -> Option<AttemptId>) -> Self {
        if let Self::HolderFull { pool, .. } = self {
            return Self::HolderFull { pool, held: attempt() };
        }
        self
    }

    /// The stable word for the refusal.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::NotFound => "not_found",
            Self::LeaseLost => "lease_lost",
            Self::HeardBefore { .. } => "heard_before",
            Self::Held { .. } => "held",
            Self::Ended => "ended",
            Self::NoRun => "no_run",
            Self::WrongState { .. } => "wrong_state",
            Self::Draft => "draft",
            Self::ApprovalPending => "approval_pending",
            Self::OnHold { .. } => "on_hold",
            Self::DependencyOpen { .. } => "dependency_open",
            Self::NotDue { .. } => "not_due",
            Self::NotForYou { .. } => "not_for_you",
            Self::NothingClaimable => "nothing_claimable",
            Self::PoolFull { .. } => "pool_full",
            Self::HolderFull { .. } => "holder_full",
            Self::Paused { .. } => "paused",
            Self::PersonNeeded => "person_needed",
            Self::Cycle { .. } => "cycle",
            Self::NoStage { .. } => "no_stage",
            Self::StageOccupied { .. } => "stage_occupied",
            Self::ProjectInUse { .. } => "project_in_use",
            Self::LineageTooLong => "lineage_too_long",
            Self::Incomplete { .. } => "incomplete",
            Self::ContractChanged => "contract_changed",
            Self::RunChanged { .. } => "run_changed",
            Self::VersionChanged { .. } => "version_changed",
            Self::NameTaken { .. } => "name_taken",
            Self::KeyEnded => "key_ended",
            Self::BeyondKey { .. } => "beyond_key",
            Self::LimitReached { .. } => "limit_reached",
            Self::TooOften { .. } => "rate_limited",
        }
    }
}
