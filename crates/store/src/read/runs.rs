//! Runs, live and finished, and the places in the history of a task.

use baton_domain::history::{AttemptRecord, CheckpointRecord, Past, RunRecord};
use baton_domain::ids::{PrincipalId, ProjectId, RunId, StageName, TaskId};
use baton_domain::run::{Finish, Idle, Phase, Run, RunState};
use serde::{Deserialize, Serialize};

use super::LeaseRow;

/// The most attempts, and the most checkpoints, that one run is shown with: the last ones.
pub const SHOWN_MAX: usize = 100;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Which one.
    pub id: RunId,
    /// Where its task belongs.
    pub project: ProjectId,
    /// How it stands, or stood in the end.
    pub run: RunNow,
}

/// How a run stands, or stood in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunNow {
    /// It is the live run of its task.
    Live(Box<Run>, Option<LeaseRow>),
    /// It is history.
    Finished(Box<RunRecord>),
}

/// A run with what its attempts left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFull {
    /// The run.
    pub row: RunRow,
    /// Its last attempts that ended, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// Attempts that are not shown.
    pub attempts_dropped: u64,
    /// Its last checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointRecord>,
    /// Checkpoints that are not shown.
    pub checkpoints_dropped: u64,
}

/// The state of a run in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWord {
    /// It waits for a holder.
    Queued,
    /// It waits for a time.
    Delayed,
    /// It is parked.
    Blocked,
    /// It waits to be verified.
    Submitted,
    /// Claimed, not begun.
    Leased,
    /// At work.
    Working,
    /// A question is open.
    WaitingInput,
    /// A submission is being checked.
    Verifying,
    /// Death is awaited.
    Stopping,
    /// The stage was passed.
    Completed,
    /// It was not.
    Failed,
    /// Somebody called it off.
    Cancelled,
}

impl RunWord {
    /// The word for a live run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        match &run.state {
            RunState::Idle(Idle::Queued) => Self::Queued,
            RunState::Idle(Idle::Delayed { .. }) => Self::Delayed,
            RunState::Idle(Idle::Blocked(_)) => Self::Blocked,
            RunState::Idle(Idle::Submitted(_)) => Self::Submitted,
            RunState::Held(held) => match held.phase {
                Phase::Leased => Self::Leased,
                Phase::Working => Self::Working,
                Phase::WaitingInput(_) => Self::WaitingInput,
                Phase::Verifying { .. } => Self::Verifying,
                Phase::Stopping { .. } => Self::Stopping,
            },
        }
    }

    /// The word for a finished run.
    #[must_use]
    pub fn of_finished(finish: &Finish) -> Self {
        match finish {
            Finish::Completed => Self::Completed,
            Finish::Failed { .. } => Self::Failed,
            Finish::Cancelled => Self::Cancelled,
        }
    }
}

/// Which runs to list; everything absent matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// Of this task.
    pub task: Option<TaskId>,
    /// In this stage.
    pub stage: Option<StageName>,
    /// In this state.
    pub state: Option<RunWord>,
    /// Held by this principal now.
    pub holder: Option<PrincipalId>,
    /// Live ones (true) or finished ones (false).
    pub live: Option<bool>,
    /// The highest number first.
    pub newest_first: bool,
    /// After this one, in the order of the list.
    pub after: Option<RunId>,
    /// At most so many; the store has a bound of its own.
    pub count_max: usize,
}

impl RunFilter {
    /// What stores find by themselves; the same rows count against the bound of a page in each.
    pub(crate) fn finds(&self, row: &RunRow) -> bool {
        let live = matches!(row.run, RunNow::Live(..));
        let goes_on =
            |after: RunId| if self.newest_first { row.id < after } else { row.id > after };
        self.live.is_none_or(|wanted| wanted == live)
            && self.project.as_ref().is_none_or(|project| row.project == *project)
            && self.task.is_none_or(|task| row.id.task == task)
            && self.after.is_none_or(goes_on)
    }

    /// Whether a row that was found is wanted.
    pub(crate) fn wants(&self, row: &RunRow) -> bool {
        let (stage, state, holder) = match &row.run {
            RunNow::Live(run, lease) => {
                (&run.stage, RunWord::of(run), lease.as_ref().map(|lease| &lease.holder))
            }
            RunNow::Finished(run) => (&run.stage, RunWord::of_finished(&run.finish), None),
        };
        self.stage.as_ref().is_none_or(|wanted| wanted == stage)
            && self.state.is_none_or(|wanted| wanted == state)
            && self.holder.as_ref().is_none_or(|wanted| Some(wanted) == holder)
    }
}

/// A row of the history of a task by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastId {
    /// An attempt that ended.
    Attempt(u32),
    /// A checkpoint.
    Checkpoint(u32),
}

/// A place in the history of a task: by the entry that a row came with, and then as it arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryKey {
    /// The version of the task whose entry brought the row.
    pub version: u64,
    /// What came with one entry came in this order: checkpoints, attempts, runs.
    pub sort: u8,
    /// The number of the checkpoint, attempt or run.
    pub number: u32,
}

impl HistoryKey {
    /// The place of a row that came with this version.
    #[must_use]
    pub fn of(version: u64, record: &Past) -> Self {
        let (sort, number) = match record {
            Past::Checkpoint(row) => (1, row.number),
            Past::Attempt(row) => (2, row.number),
            Past::Run(row) => (3, row.number),
        };
        Self { version, sort, number }
    }
}
