//! What happened, in the past tense. Events are the history and the outbox; the row is the truth.

use serde::{Deserialize, Serialize};

use crate::command::{NewTask, Note, Patch, Report, Review};
use crate::contract::{Binding, Receipt, Submission};
use crate::deadline::Sight;
use crate::ids::{Commit, PrincipalId, StageName, TaskId};
use crate::pool::Take;
use crate::project::WorkedBy;
use crate::run::{
    Block, Certainty, Counts, Death, Delay, Finish, Mark, Mode, Outcome, Purpose, RunResult,
    is_agent,
};
use crate::task::{Ending, Hold, Owed};
use crate::text::{Line, Message, Reason, Summary};
use crate::time::Timestamp;

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// It was made.
    Created { id: TaskId, ancestors: Vec<TaskId>, met: Vec<TaskId>, task: Box<NewTask> },
    /// It was changed.
    Edited { patch: Box<Patch> },
    /// It may happen now.
    Published,
    /// Somebody agreed.
    Approved,
    /// It stands in another column.
    Moved {
        to: Option<StageName>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Opened>,
        /// Whether its end would be unproven by now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        doubted: bool,
    },
    /// What Baton or the train did in a stage failed: somebody puts it right in the one before.
    SetBack { from: StageName, run: Opened, doubted: bool },
    /// It landed on the target branch.
    Merged { commit: Line, onto: Line },
    /// It ended.
    Ended { ending: Ending },
    /// It was put away.
    Archived,
    /// A hold was put on it or lifted.
    HoldSet {
        hold: Hold,
        on: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// Something will happen as soon as nothing stops it.
    Owing { owed: Owed },
    /// It waits for another task.
    DependencyAdded { on: TaskId, met: bool },
    /// It waits no longer.
    DependencyRemoved { on: TaskId },
    /// A task that it waits for ended.
    DependencySettled { on: TaskId, met: bool },
    /// All its children have ended, so many of them otherwise than done; or, with none, no more.
    ChildrenSettled { undone: u8 },
    /// A task that its agent made ended, or is stuck.
    Woken { by: TaskId, ended: bool },
    /// A pass began.
    RunOpened {
        run: Opened,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// A pass that nobody held ended.
    RunFinished {
        #[serde(flatten)]
        finish: Finish,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
        /// What was found of it, if it is complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<RunResult>,
    },
    /// A parked or delayed run waits for a holder again.
    Requeued {
        why: Requeue,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
    /// It queued for too long.
    Starved,
    /// An attempt began.
    Claimed {
        attempt: u32,
        holder: PrincipalId,
        mode: Mode,
        purpose: Purpose,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        takes: Vec<Take>,
    },
    /// It was at work.
    Began,
    /// It was seen to do something.
    Seen { sight: Sight },
    /// It told how far it was.
    Progressed { report: Report },
    /// It left a note for the next one.
    Checkpointed {
        number: u32,
        note: Box<Note>,
        /// The attempt, if it was over by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
        /// Whether its supervisor kept the work, and the agent said nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        snapshot: bool,
    },
    /// It asked.
    Asked { question: Message },
    /// It no longer wanted to know.
    Withdrawn,
    /// A person answered.
    Answered { answer: Message },
    /// The answer got further.
    AnswerMarked { mark: Mark },
    /// It cost so much more than was known before.
    Spent { attempt: u32, micros: u64 },
    /// It says that it is done.
    Submitted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Summary>,
        submission: Submission,
    },
    /// Lines of the contract were checked.
    Verified {
        receipts: Vec<Receipt>,
        passed: bool,
        /// The exact commit that was checked, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<Commit>,
        /// Whether a reviewer's word is still open.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        review: bool,
        /// Paths that somebody must look at, and that are not as they were.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        guarded: Vec<Line>,
    },
    /// It is known what the project asks for.
    Bound {
        binding: Box<Binding>,
        /// How many lines that are besides the task's own.
        added: u16,
    },
    /// A reviewer said what was found.
    Reviewed { review: Box<Review> },
    /// The agent ended while it was being verified.
    Exited,
    /// Death is awaited; then the verdict counts.
    Stopping {
        verdict: Outcome,
        /// From when on nothing of it acts any more, also if nobody proves that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fenced_at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
        /// A command that succeeds once the block is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<Line>,
    },
    /// A process was seen that would not die.
    Survived,
    /// An attempt ended.
    AttemptEnded {
        attempt: u32,
        #[serde(flatten)]
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
        /// A command that succeeds once the block is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<Line>,
        certainty: Certainty,
        /// How its death was proved; a solo attempt has none to prove.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        death: Option<Death>,
        counts: Counts,
        then: Then,
    },
    /// The death of an earlier attempt was proved after all.
    DeathProved { attempt: u32, death: Death },
}

/// A pass that begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub number: u32,
    pub stage: StageName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    #[serde(default)]
    pub depth: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_agent")]
    pub worked_by: WorkedBy,
}

/// Why a run waits for a holder again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requeue {
    /// Its time came.
    Due,
    /// A person said so.
    Unblocked,
    /// A person answered.
    Answered,
    /// The task that it waited for is done.
    DependencyMet,
    /// The cap that it had reached was raised.
    CapRaised,
}

/// What became of a run when its attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It waits for the next holder.
    Queued,
    /// It waits for a time.
    Delayed { due_at: Timestamp, why: Delay },
    /// It is parked.
    Blocked { block: Block, again: bool },
    /// It waits for a verifier.
    Submitted,
    /// It finished.
    Finished {
        #[serde(flatten)]
        finish: Finish,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<RunResult>,
    },
}

impl Event {
    /// What it tells of lines of a contract, if it does.
    #[must_use]
    pub fn receipts(&self) -> Option<&Vec<Receipt>> {
        if let Self::Reviewed { review } = self {
            return Some(&review.receipts);
        }
        if let Self::Verified { receipts, .. } = self { Some(receipts) } else { None }
    }
}
