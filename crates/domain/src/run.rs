//! The run: one pass of a task through one stage, and who holds it.
//!
//! States come in groups because every rule first asks who holds the run. A lease outside
//! `Held`, a question outside `WaitingInput` or a second live run cannot be written down.

use serde::{Deserialize, Serialize};

use crate::contract::SubmissionMark;
use crate::deadline::{Armed, Deadline};
use crate::ids::{PrincipalId, StageName};
use crate::pace::Pace;
use crate::pool::Take;
use crate::project::WorkedBy;
use crate::text::Code;
use crate::time::Timestamp;
use crate::trail::Trail;

mod block;

pub use block::{Block, BlockKind, Cap, Why};

/// The live run of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub number: u32,
    pub stage: StageName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    #[serde(default)]
    pub depth: u8,
    pub opened_at: Timestamp,
    /// Since when it may be claimed: the place in its lane.
    pub ready_at: Timestamp,
    pub state: RunState,
    #[serde(default)]
    pub tally: Tally,
    /// The last word of a person, an answer or leave to go on, and how far it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Items reported so far, dropped ones included.
    #[serde(default)]
    pub progress: Progress,
    /// Checkpoints of this run; they are numbered per task.
    #[serde(default)]
    pub checkpoints: u32,
    /// Whether it has been reported as starved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starved: bool,
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
    /// Who works its stage, as that was when it was opened: what its card says.
    #[serde(default, skip_serializing_if = "is_agent")]
    pub worked_by: WorkedBy,
    /// Whose work was submitted last: anybody else may review it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PrincipalId>,
    /// Reviews that rejected it.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub rejections: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(crate) fn is_agent(worked_by: &WorkedBy) -> bool {
    *worked_by == WorkedBy::Agent
}

/// Who holds a run, or why nobody does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a task has one, and what is at work is held")]
pub enum RunState {
    /// Nobody acts for it.
    Idle(Idle),
    /// One attempt acts for it, under a lease.
    Held(Held),
}

/// Why nobody holds a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// It waits for a holder.
    Queued,
    /// It waits for a time.
    Delayed { due_at: Timestamp, why: Delay },
    /// It is parked.
    Blocked(Block),
    /// It waits for somebody to verify what was submitted.
    Submitted(SubmissionMark),
}

/// What a delayed run waits out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// A start time that somebody chose.
    Scheduled,
    /// The pause after a failure.
    Backoff,
    /// The reset of a rate limit.
    RateLimit,
    /// A target branch that nobody may move now: somebody's changes lie on it.
    Target,
}

/// An attempt that acts for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub attempt: u32,
    pub holder: PrincipalId,
    /// Whether somebody watches the agent.
    pub mode: Mode,
    pub purpose: Purpose,
    pub phase: Phase,
    pub claimed_at: Timestamp,
    /// The last sign of work; renewals are none.
    pub active_at: Timestamp,
    /// The block that was picked up with the run, to return to if the attempt is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<Block>,
    /// What is checked, once something is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<SubmissionMark>,
    /// What it took from pools, to be given back by it alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<Take>,
    #[serde(default)]
    pub armed: Armed,
    /// Whether it was seen to do something that may have had effects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub effects: bool,
    /// Whether the work was seen to move.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    #[serde(default)]
    pub rounds: u8,
    /// Millionths of a currency unit spent so far.
    #[serde(default)]
    pub spent_micros: u64,
    #[serde(default, skip_serializing_if = "Pace::is_fresh")]
    pub pace: Pace,
}

/// Whether somebody watches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// An agent without a worker: nothing to kill, nothing to prove.
    Solo,
    /// A worker owns the process and proves its death.
    Supervised,
}

/// What a run is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To do the work.
    Work,
    /// To check a submission.
    Verify,
    /// To bring verified work onto the target branch.
    Merge,
    /// To try the condition of a block.
    Probe,
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Claimed, not begun.
    Leased,
    /// At work.
    Working,
    /// A question is open; the agent is alive.
    WaitingInput(Question),
    /// A submission is being checked; the agent is alive unless it has exited.
    Verifying { exited: bool },
    /// Death is awaited; then the verdict counts.
    Stopping {
        verdict: Outcome,
        /// Whether the supervisor saw a process that would not die.
        survivor: bool,
        /// The version of the task whose entry holds the reason.
        #[serde(default)]
        raised: u64,
    },
}

/// A question that an agent waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The version of the task whose entry holds the words.
    pub raised: u64,
    pub asked_at: Timestamp,
}

/// A word of a person and how far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The version of the task whose entry holds the words.
    pub given: u64,
    pub mark: Mark,
}

/// How far an answer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Recorded.
    Sent,
    /// Read by the holder.
    Delivered,
    /// Acted upon, by the holder's word.
    Applied,
}

/// What the attempts of a run cost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    pub faults: u8,
    pub continuations: u8,
    pub losses: u8,
    pub tries: u16,
    /// Endings without a result, one after the other, in which the work did not move.
    #[serde(skip_serializing_if = "is_none_yet")]
    pub stalls: u8,
}

/// The hot row is kept thin: what most runs never count is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none_yet(count: &u8) -> bool {
    *count == 0
}

/// Which of the tallies an ending adds to, besides the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// None, not even the total: the run was only probed, or is parked as before.
    Nothing,
    /// The total alone.
    Try,
    /// The agent's fault.
    Fault,
    /// An ending without result, after which the work had moved.
    Continuation,
    /// An ending without result, after which everything was as before.
    Stall,
    /// A loss of infrastructure.
    Loss,
}

/// Items reported by a run. The items are in the entries; what a list drops is total minus shown,
/// so a counter can never be reset by the next overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub done: u32,
    pub failed: u32,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// It did what it was for.
    Completed { result: RunResult },
    /// It failed.
    Failed { code: Code, fault: Fault },
    /// It parked the run.
    Blocked {
        block: Block,
        /// Whether a person has answered while death was awaited.
        answered: bool,
    },
    /// It gave the run back.
    Released { until: Option<Timestamp> },
    /// It took too long.
    TimedOut { deadline: Deadline },
    /// Its lease ran out.
    Lost,
    /// Somebody called it off.
    Cancelled,
    /// The agent ended and said nothing.
    EndedWithoutResult,
}

/// Whose fault a failure was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The agent's: it counts.
    Agent,
    /// The machine's or the network's: it has its own cap.
    Infrastructure,
    /// A person's decision: it ends the run.
    Forced,
}

/// What a finished run proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Every line of the contract holds.
    Verified,
    /// No line was checked.
    Unverified,
    /// A line does not hold.
    Rejected,
}

/// How a run finished; a finished run is history and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum Finish {
    /// The stage is passed.
    Completed,
    /// It is not, and nothing more is tried.
    Failed { code: Code },
    /// Somebody called it off.
    Cancelled,
}

/// The last finished run of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub number: u32,
    pub stage: StageName,
    pub depth: u8,
    #[serde(flatten)]
    pub finish: Finish,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// Whether its last attempt ended without a word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent_end: bool,
    /// The version of the task whose entry holds its last submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<u64>,
}

/// What is known of an attempt's effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It never began.
    NotStarted,
    /// It did what was asked.
    Executed,
    /// It did not.
    Failed,
    /// Nobody can tell; a lost connection is this, never a failure.
    Unknown,
}

/// How the death of an attempt's processes was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// The init of their pid namespace is gone.
    PidNamespace,
    /// Their cgroup is empty.
    Cgroup,
    /// Their subreaper has no children left.
    SubreaperEchild,
    /// There were none: nothing was ever started.
    NotStarted,
    /// It was not.
    None,
}

impl Run {
    /// The attempt that holds the run.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        match &self.state {
            RunState::Idle(_) => None,
            RunState::Held(held) => Some(held),
        }
    }

    /// The word for its state, as people see it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.state {
            RunState::Idle(Idle::Queued) => "queued",
            RunState::Idle(Idle::Delayed { .. }) => "delayed",
            RunState::Idle(Idle::Blocked(_)) => "blocked",
            RunState::Idle(Idle::Submitted(_)) => "submitted",
            RunState::Held(held) => held.phase.word(),
        }
    }
}

impl Phase {
    /// The word for the phase, as people see it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Working => "working",
            Self::WaitingInput(_) => "waiting_input",
            Self::Verifying { .. } => "verifying",
            Self::Stopping { .. } => "stopping",
        }
    }
}
