//! What events add to counts and clocks.

use crate::command::Report;
use crate::deadline::Deadline;
use crate::policy::Policy;
use crate::run::{Block, Cap, Counts, Held, Mode, Phase, Progress, Tally, Why};
use crate::task::Recurrence;
use crate::time::Timestamp;

impl Recurrence {
    /// How it stands once the block is raised.
    #[must_use]
    pub fn raised_again(self) -> Self {
        Self { cleared: false, count: self.count.saturating_add(u8::from(self.cleared)) }
    }
}

impl Held {
    /// It told something by itself, so it is alive and may have had effects.
    pub(super) fn spoke(&mut self, policy: &Policy, at: Timestamp) {
        self.effects = true;
        self.armed.hear(policy, at);
    }

    /// What it waited for has come, or is not wanted any more.
    pub(super) fn go_on(&mut self, policy: &Policy, at: Timestamp) {
        self.phase = Phase::Working;
        self.rearm(policy, at);
    }

    /// After a wait, a watched agent is expected to speak again.
    pub(super) fn rearm(&mut self, policy: &Policy, at: Timestamp) {
        let next = (self.mode == Mode::Supervised).then_some(Deadline::StreamIdle);
        self.armed.only(next, policy, at);
    }
}

impl Tally {
    pub(super) fn count(&mut self, counts: Counts) {
        let bump = |count: &mut u8| *count = count.saturating_add(1);
        match counts {
            Counts::Nothing => return,
            Counts::Try => {}
            Counts::Fault => bump(&mut self.faults),
            Counts::Continuation => {
                bump(&mut self.continuations);
                self.stalls = 0;
            }
            Counts::Stall => {
                bump(&mut self.continuations);
                bump(&mut self.stalls);
            }
            Counts::Loss => bump(&mut self.losses),
        }
        self.tries = self.tries.saturating_add(1);
    }

    /// Whoever unparks a run that reached a cap gives it the whole cap again.
    pub(super) fn forgive(&mut self, block: &Block) {
        if let Why::Limit { cap } = &block.why {
            match cap {
                Cap::Continuations => self.continuations = 0,
                Cap::Losses => self.losses = 0,
                Cap::Tries => self.tries = 0,
                Cap::Stalls => self.stalls = 0,
                Cap::Turns | Cap::ToolCalls | Cap::Tokens | Cap::Budget | Cap::Setbacks => {}
            }
        }
    }
}

impl Progress {
    pub(super) fn add(&mut self, report: &Report) {
        let add = |total: &mut u32, more: usize| {
            *total = total.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        };
        add(&mut self.done, report.done.len());
        add(&mut self.failed, report.failed.len());
    }
}
