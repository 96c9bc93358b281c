//! What a worker has told of an attempt, in a few words: what the next one needs, so as not to tell it again.

use std::collections::BTreeSet;

use baton_domain::text::Text;
use serde::{Deserialize, Serialize};

use crate::adapters::Usage;
use crate::protocol::{Phase, Up};

/// What was told of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// How far it was.
    phases: BTreeSet<Phase>,
    /// Whether the last word about tools was that one runs.
    tool: bool,
    /// The question that is open.
    asked: Option<Text<64>>,
    /// Tokens and money.
    used: [u64; 4],
    /// Whether its account was told to be near its limit, or at it.
    limited: (bool, bool),
    /// Whether what ends it was.
    ended: bool,
    /// Whether something would not die.
    survivor: bool,
    /// Whether its death was told.
    dead: bool,
}

impl Told {
    /// Takes in a frame that was told.
    pub fn take(&mut self, frame: &Up) {
        match frame {
            Up::Lifecycle(told) => self.take_phase(told.phase),
            Up::Question(told) => self.asked = Some(told.id.clone()),
            Up::Permission(told) => self.asked = Some(told.id.clone()),
            Up::Usage(told) => {
                let tokens = [told.input_tokens, told.output_tokens, told.cached_tokens];
                let [input, output, cached] = tokens.map(Option::unwrap_or_default);
                self.used = [input, output, cached, told.total_micros];
            }
            Up::Limit(told) if told.hard => self.limited.1 = true,
            Up::Limit(_) => self.limited.0 = true,
            Up::Exited(_) | Up::Lost(_) | Up::Released(_) | Up::Probed(_) | Up::Merged(_) => {
                self.ended = true
            }
            Up::Stopped(told) if told.survivor => self.survivor = true,
            Up::Stopped(_) => self.dead = true,
            Up::Hello(_)
            | Up::Credit(_)
            | Up::Bind(_)
            | Up::Gates(_)
            | Up::Checkpoint(_)
            | Up::Heartbeat(_)
            | Up::Log(_)
            | Up::Bye(_) => {}
        }
    }

    fn take_phase(&mut self, phase: Phase) {
        self.phases.insert(phase);
        match phase {
            Phase::InputReceived | Phase::InputWithdrawn => self.asked = None,
            Phase::ToolStarted => self.tool = true,
            Phase::ToolFinished => self.tool = false,
            Phase::TimedOut | Phase::Exceeded => self.ended = true,
            Phase::Accepted
            | Phase::ProcessStarted
            | Phase::PromptWritten
            | Phase::FirstEvent
            | Phase::FirstVisibleEvent
            | Phase::Streaming
            | Phase::Progressed => {}
        }
    }

    /// Whether it was told that it had come so far.
    pub(super) fn has(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }

    pub(super) fn tool(&self) -> bool {
        self.tool
    }

    /// The question that is open, as far as the server knows.
    #[must_use]
    pub fn asked(&self) -> Option<&Text<64>> {
        self.asked.as_ref()
    }

    pub(super) fn used(&self) -> Usage {
        let [input, output, cached, cost_micros] = self.used;
        Usage { input, output, cached, cost_micros }
    }

    /// Whether a limit of this sort was.
    pub(super) fn limited(&self, hard: bool) -> bool {
        if hard { self.limited.1 } else { self.limited.0 }
    }

    /// Whether what ends the attempt was, and nothing else may be.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn survivor(&self) -> bool {
        self.survivor
    }

    /// Whether its death was.
    pub(super) fn dead(&self) -> bool {
        self.dead
    }
}
