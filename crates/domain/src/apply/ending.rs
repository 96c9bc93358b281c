//! What the end of an attempt leaves behind.

use crate::contract::SubmissionMark;
use crate::event::{Event, Then};
use crate::limits::UNPROVEN_MAX;
use crate::run::{Block, Death, Idle, Outcome, RunState};
use crate::task::Flow;
use crate::time::Timestamp;

impl Flow {
    pub(super) fn end_attempt(&mut self, event: &Event, at: Timestamp) {
        let Event::AttemptEnded { attempt, outcome, death, counts, then, .. } = event else {
            return;
        };
        if *death == Some(Death::None) {
            self.unproven.insert(*attempt);
            self.generation += 1;
            while self.unproven.len() > UNPROVEN_MAX {
                self.unproven.pop_first();
            }
        }
        let Some(run) = &mut self.run else { return };
        let (picked, submission, spent) = match &run.state {
            RunState::Held(held) => (held.picked.clone(), held.submission, held.spent_micros),
            RunState::Idle(_) => (None, None, 0),
        };
        if spent > 0 {
            self.settled.insert(*attempt, spent);
        }
        run.tally.count(*counts);
        run.trail.end(outcome);
        run.starved = false;
        self.recur(picked.as_ref(), then);
        let Some(run) = &mut self.run else { return };
        match then {
            Then::Queued => {
                run.ready_at = at;
                run.state = RunState::Idle(Idle::Queued);
            }
            Then::Delayed { due_at, why } => {
                run.state = RunState::Idle(Idle::Delayed { due_at: *due_at, why: *why });
            }
            Then::Blocked { block, .. } => {
                let raised = if block.raised == 0 { self.version } else { block.raised };
                run.ready_at = block.at;
                run.state = RunState::Idle(Idle::Blocked(Block { raised, ..block.clone() }));
            }
            Then::Submitted => {
                let (raised, attempt) = (self.version, *attempt);
                let fresh = SubmissionMark { raised, attempt, tree: false, review: false };
                run.ready_at = at;
                run.state = RunState::Idle(Idle::Submitted(submission.unwrap_or(fresh)));
            }
            Then::Finished { finish, result } => {
                let silent_end = *outcome == Outcome::EndedWithoutResult;
                self.finish(finish, *result, silent_end);
            }
        }
    }

    /// A block that an attempt picked up is cleared, unless the run is parked as before.
    fn recur(&mut self, picked: Option<&Block>, then: &Then) {
        if let Then::Blocked { again: true, .. } = then {
            return;
        }
        if let Some(block) = picked {
            self.recurrence.entry(block.why.kind()).or_default().cleared = true;
        }
        if let Then::Blocked { block, again: false } = then {
            let seen = self.recurrence.entry(block.why.kind()).or_default();
            *seen = seen.raised_again();
        }
    }
}
