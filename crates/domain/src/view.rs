//! What people see of a task: one badge, and why it needs somebody. Derived, never stored.

use serde::{Deserialize, Serialize};

use crate::ids::AttemptId;
use crate::limits::SILENT_AFTER;
use crate::project::WorkedBy;
use crate::refusal::Refusal;
use crate::run::{BlockKind, Cap, Delay, Finish, Held, Idle, Mode, Phase, Purpose, RunState, Why};
use crate::task::{Approval, Ending, Flow, Stage, Wait};
use crate::time::Timestamp;

/// The one word on a card; a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Badge {
    Draft,
    Waiting,
    Queued,
    Delayed,
    Running,
    Silent,
    WaitingForInput,
    Blocked,
    NeedsYou,
    Verifying,
    InMergeQueue,
    MergeFailed,
    Stopping,
    StopUnverified,
    Frozen,
    Review,
    Failed,
    EndedWithoutResult,
    Done,
    DoneUnverified,
    Abandoned,
    Superseded,
    Rejected,
    Archived,
}

/// Why a task waits for a person; an inbox item is opened by one of these and by nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    Question,
    Approval,
    Failure,
    EndedWithoutResult,
    Silent,
    StopUnverified,
    Starved,
    Limit,
    Recurring,
    Input,
    DependencyFailed,
    ChildrenUndone,
    Review,
    Verdict,
}

/// Whether its agents ended without a word as often as they may.
fn is_silent_ends(why: &Why) -> bool {
    matches!(why, Why::Limit { cap: Cap::Continuations | Cap::Stalls })
}

impl Flow {
    /// The one word on its card.
    #[must_use]
    pub fn badge(&self, now: Timestamp) -> Badge {
        match &self.stage {
            Stage::Archived(_) => return Badge::Archived,
            Stage::Ended(Ending::Done { verified: true }) => return Badge::Done,
            Stage::Ended(Ending::Done { verified: false }) => return Badge::DoneUnverified,
            Stage::Ended(Ending::Abandoned { .. }) => return Badge::Abandoned,
            Stage::Ended(Ending::Superseded { .. }) => return Badge::Superseded,
            Stage::Ended(Ending::Rejected { .. }) => return Badge::Rejected,
            Stage::Backlog | Stage::Working(_) => {}
        }
        if let Some(held) = self.run.as_ref().and_then(|run| run.held()) {
            return held.badge(now);
        }
        if !self.unproven.is_empty() {
            return Badge::StopUnverified;
        }
        if self.draft {
            return Badge::Draft;
        }
        if self.holds.frozen {
            return Badge::Frozen;
        }
        if self.holds.review {
            return Badge::Review;
        }
        self.idle_badge()
    }

    /// Why it cannot be put into another column now.
    #[must_use]
    pub fn fixed(&self) -> Option<Refusal> {
        if self.ending().is_some() {
            return Some(Refusal::Ended);
        }
        if self.draft {
            return Some(Refusal::Draft);
        }
        let held = self.run.as_ref().and_then(|run| run.held());
        held.map(|held| Refusal::Held {
            attempt: AttemptId { task: self.id, number: held.attempt },
        })
    }

    fn idle_badge(&self) -> Badge {
        let hopeless = self.waits_for.values().any(|wait| *wait == Wait::Failed);
        if self.approval == Approval::Pending || hopeless || self.undone > 0 {
            return Badge::NeedsYou;
        }
        let Some(run) = &self.run else {
            return match self.last.as_ref() {
                Some(last) if last.silent_end => Badge::EndedWithoutResult,
                Some(last) => match last.finish {
                    Finish::Failed { .. } => Badge::Failed,
                    Finish::Completed | Finish::Cancelled => Badge::Waiting,
                },
                None => Badge::Waiting,
            };
        };
        match &run.state {
            RunState::Idle(Idle::Blocked(block)) => match block.why.kind() {
                _ if is_silent_ends(&block.why) => Badge::EndedWithoutResult,
                BlockKind::Limit if run.worked_by == WorkedBy::Train => Badge::MergeFailed,
                _ if block.sticky => Badge::NeedsYou,
                BlockKind::Limit | BlockKind::NeedsInput => Badge::NeedsYou,
                BlockKind::Capability | BlockKind::Transient | BlockKind::Dependency => {
                    Badge::Blocked
                }
            },
            RunState::Idle(_) if !self.waits_for.is_empty() => Badge::Waiting,
            RunState::Idle(Idle::Queued | Idle::Delayed { why: Delay::Target, .. })
                if run.worked_by == WorkedBy::Train =>
            {
                Badge::InMergeQueue
            }
            RunState::Idle(Idle::Queued) => Badge::Queued,
            RunState::Idle(Idle::Delayed { .. }) => Badge::Delayed,
            RunState::Idle(Idle::Submitted(_)) | RunState::Held(_) => Badge::Verifying,
        }
    }

    /// Everything for which the task waits for a person.
    #[must_use]
    pub fn needs(&self, now: Timestamp) -> Vec<Need> {
        let mut needs = vec![];
        if self.ending().is_some() || self.draft {
            return needs;
        }
        if self.approval == Approval::Pending {
            needs.push(Need::Approval);
        }
        if self.waits_for.values().any(|wait| *wait == Wait::Failed) {
            needs.push(Need::DependencyFailed);
        }
        if self.undone > 0 {
            needs.push(Need::ChildrenUndone);
        }
        if !self.unproven.is_empty() {
            needs.push(Need::StopUnverified);
        }
        if self.holds.review && self.owed.is_some() {
            needs.push(Need::Review);
        }
        match &self.run {
            Some(run) => match &run.state {
                RunState::Held(held) => needs.extend(held.need(now)),
                RunState::Idle(Idle::Blocked(block)) => match block.why.kind() {
                    _ if is_silent_ends(&block.why) => needs.push(Need::EndedWithoutResult),
                    BlockKind::Limit => needs.push(Need::Limit),
                    BlockKind::NeedsInput => needs.push(Need::Input),
                    _ if block.sticky => needs.push(Need::Recurring),
                    BlockKind::Capability | BlockKind::Transient | BlockKind::Dependency => {}
                },
                RunState::Idle(Idle::Queued) if run.starved => needs.push(Need::Starved),
                RunState::Idle(Idle::Submitted(mark)) if mark.review => needs.push(Need::Verdict),
                RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_)) => {}
            },
            None => match &self.last {
                Some(last) if last.silent_end => needs.push(Need::EndedWithoutResult),
                Some(last) if matches!(last.finish, Finish::Failed { .. }) => {
                    needs.push(Need::Failure);
                }
                Some(_) | None => {}
            },
        }
        needs
    }
}

impl Held {
    fn badge(&self, now: Timestamp) -> Badge {
        match &self.phase {
            Phase::WaitingInput(_) => Badge::WaitingForInput,
            Phase::Verifying { .. } => Badge::Verifying,
            Phase::Stopping { survivor: true, .. } => Badge::StopUnverified,
            Phase::Stopping { survivor: false, .. } => Badge::Stopping,
            Phase::Leased | Phase::Working if self.purpose == Purpose::Merge => Badge::InMergeQueue,
            Phase::Leased | Phase::Working if self.is_silent(now) => Badge::Silent,
            Phase::Leased | Phase::Working => Badge::Running,
        }
    }

    pub(crate) fn is_silent(&self, now: Timestamp) -> bool {
        self.mode == Mode::Solo && now.since(self.active_at) >= SILENT_AFTER
    }

    fn need(&self, now: Timestamp) -> Option<Need> {
        match &self.phase {
            Phase::WaitingInput(_) => Some(Need::Question),
            Phase::Stopping { survivor: true, .. } => Some(Need::StopUnverified),
            Phase::Leased | Phase::Working if self.is_silent(now) => Some(Need::Silent),
            Phase::Leased
            | Phase::Working
            | Phase::Verifying { .. }
            | Phase::Stopping { survivor: false, .. } => None,
        }
    }
}
