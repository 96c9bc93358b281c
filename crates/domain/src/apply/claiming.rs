//! What a claim makes of a run.

use crate::deadline::Armed;
use crate::event::Event;
use crate::limits::LATE_ATTEMPTS_MAX;
use crate::pace::Pace;
use crate::run::{Held, Idle, Phase, Purpose, RunState};
use crate::task::Flow;
use crate::time::Timestamp;

impl Flow {
    pub(super) fn claim(&mut self, event: &Event, at: Timestamp) {
        let Event::Claimed { attempt, holder, mode, purpose, takes } = event else { return };
        self.attempts = *attempt;
        self.settled.retain(|old, _| old.saturating_add(LATE_ATTEMPTS_MAX) > *attempt);
        let Some(run) = &mut self.run else { return };
        let (picked, submission, phase) = match &run.state {
            RunState::Idle(Idle::Blocked(block)) => (Some(block.clone()), None, Phase::Leased),
            RunState::Idle(Idle::Submitted(submission)) => {
                (None, Some(*submission), Phase::Verifying { exited: true })
            }
            RunState::Idle(Idle::Queued | Idle::Delayed { .. }) | RunState::Held(_) => {
                // Whoever checks begins at once: there is no agent to wait for.
                let checks = *purpose == Purpose::Verify;
                let phase = if checks { Phase::Verifying { exited: true } } else { Phase::Leased };
                (None, None, phase)
            }
        };
        run.state = RunState::Held(Held {
            attempt: *attempt,
            holder: holder.clone(),
            mode: *mode,
            purpose: *purpose,
            phase,
            claimed_at: at,
            active_at: at,
            picked,
            submission,
            takes: takes.clone(),
            armed: Armed::at_claim(&self.policy, *mode, *purpose, at),
            effects: false,
            moved: false,
            rounds: 0,
            spent_micros: 0,
            pace: Pace::default(),
        });
    }
}
