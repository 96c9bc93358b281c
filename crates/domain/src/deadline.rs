//! Phase deadlines as data: armed by the report that starts them, disarmed by the one that
//! answers them, gone with the attempt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::BACKSTOP;
use crate::policy::Policy;
use crate::run::{Mode, Purpose};
use crate::time::{Millis, Timestamp};

/// What may take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    /// From the claim, or from when its place was last said to be made, to a running process.
    ProcessStart,
    /// From the process to the prompt being written.
    PromptWrite,
    /// From the prompt to any event of the agent.
    FirstEvent,
    /// From the prompt to an event that a person would see.
    FirstVisibleEvent,
    /// Between two events while no tool runs.
    StreamIdle,
    /// While a tool runs.
    ToolIdle,
    /// While a question is open.
    UserInput,
    /// From the order to stop until death is proved.
    Cleanup,
    /// The attempt as a whole.
    WallClock,
}

impl Deadline {
    /// The word for an attempt that took too long.
    #[must_use]
    pub fn timeout(self) -> &'static str {
        match self {
            Self::ProcessStart => "process_start_timeout",
            Self::PromptWrite => "prompt_write_timeout",
            Self::FirstEvent => "first_event_timeout",
            Self::FirstVisibleEvent => "first_visible_event_timeout",
            Self::StreamIdle => "stream_idle_timeout",
            Self::ToolIdle => "tool_idle_timeout",
            Self::UserInput => "user_input_timeout",
            Self::Cleanup => "cleanup_timeout",
            Self::WallClock => "wall_clock_timeout",
        }
    }
}

/// What a supervisor saw of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// The process runs.
    ProcessStarted,
    /// The prompt is written.
    PromptWritten,
    /// The agent spoke.
    FirstEvent,
    /// The agent said something visible.
    FirstVisibleEvent,
    /// The agent goes on speaking.
    Streaming,
    /// A tool began.
    ToolStarted,
    /// A tool ended.
    ToolFinished,
    /// The work moved: its tree changed, or the agent read what it had not read before.
    Progressed,
    /// The place for the agent is being made: nothing is started yet, and somebody is at it.
    Preparing,
}

/// Whoever knows how long each deadline allows.
pub trait Allows {
    /// How long this one does.
    fn allows(&self, deadline: Deadline) -> Millis;
}

impl Allows for Policy {
    fn allows(&self, deadline: Deadline) -> Millis {
        allowed(deadline, self)
    }
}

impl Sight {
    /// After this an attempt may have had effects: a timeout is no longer safe to retry blindly.
    #[must_use]
    pub fn may_have_effects(self) -> bool {
        match self {
            Self::FirstVisibleEvent | Self::ToolStarted | Self::ToolFinished => true,
            Self::ProcessStarted
            | Self::PromptWritten
            | Self::FirstEvent
            | Self::Streaming
            | Self::Progressed
            | Self::Preparing => false,
        }
    }
}

/// The deadlines that run now; the list is closed, so it cannot grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Armed(BTreeMap<Deadline, Timestamp>);

impl Armed {
    /// The deadlines of a fresh attempt.
    #[must_use]
    pub fn at_claim(policy: &Policy, mode: Mode, purpose: Purpose, now: Timestamp) -> Self {
        let mut armed = Self::default();
        armed.arm(Deadline::WallClock, now + policy.wall);
        if (mode, purpose) == (Mode::Supervised, Purpose::Work) {
            armed.arm(Deadline::ProcessStart, now + allowed(Deadline::ProcessStart, policy));
        }
        armed
    }

    /// The attempt is at work, so whatever had to start has started.
    pub fn begin(&mut self) {
        self.0.remove(&Deadline::ProcessStart);
    }

    /// Moves the deadlines on by what was seen.
    pub fn see(&mut self, sight: Sight, terms: &impl Allows, now: Timestamp) {
        use Deadline::{
            FirstEvent, FirstVisibleEvent, ProcessStart, PromptWrite, StreamIdle, ToolIdle,
        };
        let (answered, started): (&[Deadline], &[Deadline]) = match sight {
            Sight::ProcessStarted => (&[ProcessStart], &[PromptWrite]),
            Sight::PromptWritten => {
                (&[ProcessStart, PromptWrite], &[FirstEvent, FirstVisibleEvent])
            }
            Sight::FirstEvent => (&[ProcessStart, PromptWrite, FirstEvent], &[StreamIdle]),
            Sight::FirstVisibleEvent => {
                (&[ProcessStart, PromptWrite, FirstEvent, FirstVisibleEvent], &[StreamIdle])
            }
            // While a tool runs, its own deadline counts.
            Sight::Streaming if self.0.contains_key(&ToolIdle) => (&[], &[]),
            Sight::Streaming => (&[ProcessStart, PromptWrite, FirstEvent], &[StreamIdle]),
            Sight::ToolStarted => (
                &[ProcessStart, PromptWrite, FirstEvent, FirstVisibleEvent, StreamIdle],
                &[ToolIdle],
            ),
            Sight::ToolFinished => (&[ProcessStart, PromptWrite, ToolIdle], &[StreamIdle]),
            // What the work looks like says nothing about whether the agent still speaks.
            Sight::Progressed => (&[], &[]),
            Sight::Preparing if self.0.contains_key(&ProcessStart) => (&[], &[ProcessStart]),
            Sight::Preparing => (&[], &[]),
        };
        for deadline in answered {
            self.0.remove(deadline);
        }
        for deadline in started {
            self.arm(*deadline, now + terms.allows(*deadline));
        }
    }

    /// The server heard the agent itself. Whatever waits for a sign of its life has one, and what
    /// waits for the next one begins anew.
    pub fn hear(&mut self, terms: &impl Allows, now: Timestamp) {
        use Deadline::{FirstEvent, FirstVisibleEvent, PromptWrite, StreamIdle, ToolIdle};
        let life = [PromptWrite, FirstEvent, FirstVisibleEvent, StreamIdle, ToolIdle];
        if self.0.contains_key(&ToolIdle) {
            self.see(Sight::ToolStarted, terms, now);
        } else if life.iter().any(|deadline| self.0.contains_key(deadline)) {
            self.see(Sight::FirstVisibleEvent, terms, now);
        }
    }

    /// Only this deadline and the wall clock count from now on: the agent itself is not expected
    /// to show life while it waits, is verified or is stopped.
    pub fn only(&mut self, deadline: Option<Deadline>, terms: &impl Allows, now: Timestamp) {
        self.0.retain(|armed, _| *armed == Deadline::WallClock);
        if let Some(deadline) = deadline {
            self.arm(deadline, now + terms.allows(deadline));
        }
    }

    /// Only the proof of death and the wall clock count from now on. Nobody gives the proof up before
    /// the fence has fallen: until then the agent may be at work.
    pub fn clean_up(&mut self, fenced_at: Option<Timestamp>, terms: &impl Allows, now: Timestamp) {
        self.only(None, terms, now);
        let told = now + terms.allows(Deadline::Cleanup);
        self.arm(Deadline::Cleanup, fenced_at.map_or(told, |fence| told.max(fence - BACKSTOP)));
    }

    /// Lets a deadline end then.
    pub fn arm(&mut self, deadline: Deadline, at: Timestamp) {
        self.0.insert(deadline, at);
    }

    /// Every deadline that runs, and when it ends.
    pub fn iter(&self) -> impl Iterator<Item = (Deadline, Timestamp)> + '_ {
        self.0.iter().map(|(deadline, at)| (*deadline, *at))
    }
}

/// How long each deadline allows.
#[must_use]
pub fn allowed(deadline: Deadline, policy: &Policy) -> Millis {
    match deadline {
        Deadline::ProcessStart => Millis(15_000),
        Deadline::PromptWrite => Millis(5_000),
        Deadline::FirstEvent => Millis(90_000),
        Deadline::FirstVisibleEvent | Deadline::StreamIdle => Millis(120_000),
        Deadline::ToolIdle => Millis(300_000),
        Deadline::UserInput => policy.input,
        Deadline::Cleanup => Millis(2_000),
        Deadline::WallClock => policy.wall,
    }
}
