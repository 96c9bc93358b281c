//! What a good simulation has seen at least once. One that has not was too tame to prove anything.

use std::collections::BTreeMap;

use baton_domain::deadline::Deadline;
use baton_domain::event::{Event, Requeue, Then};
use baton_domain::run::{Death, Finish, Outcome, Purpose, RunResult, Why};
use baton_domain::task::{Ending, Task};

macro_rules! sights {
    ($($sight:ident,)*) => {
        /// Something worth seeing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Sight { $($sight,)* }

        const ALL: &[Sight] = &[$(Sight::$sight,)*];
    };
}

sights! {
    Amnesty,
    Answer,
    AnswerToTheDying,
    Backoff,
    BlockedByDependency,
    Cancelled,
    CapRaised,
    Closed,
    Crash,
    DeadlineInput,
    DeadlineOfTheServer,
    DeathProvedLate,
    DependencyFailed,
    DependencyMet,
    DoneUnproven,
    DoneVerified,
    Expiry,
    ExpiryWhileStopping,
    FenceRefusal,
    FailedForGood,
    GateFailed,
    HandedOn,
    Incomplete,
    LateSpend,
    LimitReached,
    LostBell,
    OwedAdvance,
    ParkedAgain,
    Paused,
    PickUp,
    PoolFull,
    Probe,
    RecurrenceLimit,
    Rejected,
    Released,
    Replay,
    Retry,
    Starved,
    StopUnverified,
    Submitted,
    Survivor,
    UnknownThatDidNotHappen,
    UnknownThatHappened,
    WaiterServed,
    WaiterGaveUp,
}

#[derive(Clone, Debug, Default)]
pub struct Sightings(BTreeMap<Sight, u64>);

impl Sightings {
    pub fn saw(&mut self, sight: Sight) {
        *self.0.entry(sight).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (sight, count) in &other.0 {
            *self.0.entry(*sight).or_default() += count;
        }
    }

    /// What nobody has seen.
    pub fn missing(&self) -> Vec<Sight> {
        ALL.iter().copied().filter(|sight| !self.0.contains_key(sight)).collect()
    }

    /// What an event shows, given the task as it was just before, and whether time brought it.
    pub fn look_at(&mut self, before: &Task, event: &Event, by_time: bool) {
        let held = before.flow.run.as_ref().and_then(|run| run.held());
        let sights: &[Sight] = match event {
            Event::Answered { .. } => {
                match held.is_some_and(|held| held.phase.word() == "stopping") {
                    true => &[Sight::Answer, Sight::AnswerToTheDying],
                    false => &[Sight::Answer],
                }
            }
            Event::DependencySettled { met: true, .. } => &[Sight::DependencyMet],
            Event::DependencySettled { met: false, .. } => &[Sight::DependencyFailed],
            Event::Claimed { purpose: Purpose::Probe, .. } => &[Sight::Probe],
            Event::Claimed { purpose: Purpose::Work, .. } if is_blocked(before) => &[Sight::PickUp],
            Event::Owing { .. } => &[Sight::OwedAdvance],
            Event::Requeued { why: Requeue::CapRaised, .. } => &[Sight::CapRaised],
            Event::Requeued { .. } | Event::Claimed { .. } => &[],
            Event::RunOpened { .. } => &[Sight::Retry],
            Event::Starved => &[Sight::Starved],
            Event::Verified { passed: false, .. } => &[Sight::GateFailed],
            Event::Survived => &[Sight::Survivor],
            Event::DeathProved { .. } => &[Sight::DeathProvedLate],
            Event::Spent { attempt, .. } if held.is_none_or(|held| held.attempt != *attempt) => {
                &[Sight::LateSpend]
            }
            Event::Stopping { verdict: Outcome::TimedOut { .. } | Outcome::Lost, .. } => {
                &[Sight::DeadlineOfTheServer]
            }
            Event::Stopping { verdict: Outcome::Blocked { .. }, .. } if by_time => {
                &[Sight::DeadlineInput]
            }
            Event::Ended { ending: Ending::Done { verified: true } } => &[Sight::DoneVerified],
            Event::Ended { ending: Ending::Done { verified: false } } => &[Sight::DoneUnproven],
            Event::Ended { .. } => &[Sight::Closed],
            Event::AttemptEnded { outcome, death, then, .. } => {
                self.look_at_ending(before, outcome, then, by_time);
                if *death == Some(Death::None) { &[Sight::StopUnverified] } else { &[] }
            }
            Event::RunFinished { finish: Finish::Cancelled, .. } => &[Sight::Cancelled],
            Event::Created { .. }
            | Event::Edited { .. }
            | Event::Published
            | Event::Approved
            | Event::Moved { .. }
            | Event::SetBack { .. }
            | Event::Merged { .. }
            | Event::Bound { .. }
            | Event::Reviewed { .. }
            | Event::Archived
            | Event::HoldSet { .. }
            | Event::DependencyAdded { .. }
            | Event::DependencyRemoved { .. }
            | Event::Woken { .. }
            | Event::RunFinished { .. }
            | Event::Began
            | Event::Seen { .. }
            | Event::Progressed { .. }
            | Event::Checkpointed { .. }
            | Event::Asked { .. }
            | Event::Withdrawn
            | Event::AnswerMarked { .. }
            | Event::ChildrenSettled { .. }
            | Event::Spent { .. }
            | Event::Submitted { .. }
            | Event::Verified { .. }
            | Event::Exited
            | Event::Stopping { .. } => &[],
        };
        sights.iter().for_each(|sight| self.saw(*sight));
    }

    fn look_at_ending(&mut self, before: &Task, outcome: &Outcome, then: &Then, by_time: bool) {
        let stopping = before.flow.run.as_ref().is_some_and(|run| run.word() == "stopping");
        if stopping && by_time {
            self.saw(Sight::ExpiryWhileStopping);
        }
        match outcome {
            Outcome::Lost => self.saw(Sight::Expiry),
            Outcome::Released { .. } => self.saw(Sight::Released),
            Outcome::TimedOut { deadline: Deadline::WallClock } => {
                self.saw(Sight::DeadlineOfTheServer);
            }
            Outcome::Blocked { block, .. }
                if block.why == Why::NeedsInput && by_time && !stopping =>
            {
                self.saw(Sight::DeadlineInput);
            }
            Outcome::Completed { result: RunResult::Rejected } => self.saw(Sight::Rejected),
            Outcome::Completed { .. }
            | Outcome::Failed { .. }
            | Outcome::Blocked { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Cancelled
            | Outcome::EndedWithoutResult => {}
        }
        match then {
            Then::Delayed { .. } => self.saw(Sight::Backoff),
            Then::Submitted => self.saw(Sight::Submitted),
            Then::Finished { finish: Finish::Failed { .. }, .. } => self.saw(Sight::FailedForGood),
            Then::Blocked { again: true, .. } => self.saw(Sight::ParkedAgain),
            Then::Blocked { block, .. } => {
                if block.sticky {
                    self.saw(Sight::RecurrenceLimit);
                }
                match block.why {
                    Why::Limit { .. } => self.saw(Sight::LimitReached),
                    Why::Dependency { .. } => self.saw(Sight::BlockedByDependency),
                    Why::NeedsInput | Why::Capability { .. } | Why::Transient { .. } => {}
                }
            }
            Then::Queued | Then::Finished { .. } => {}
        }
    }
}

fn is_blocked(task: &Task) -> bool {
    task.flow.run.as_ref().is_some_and(|run| run.word() == "blocked")
}
