//! What a course tells, and the frames that it becomes.

use baton_domain::deadline::Deadline;
use baton_domain::ids::{Account, AttemptId};
use baton_domain::run::Cap;
use baton_domain::text::{Code, Message, Reason, Text};
use baton_domain::time::{Millis, Timestamp};

use crate::adapters::Usage;
use crate::protocol::{self, Lifecycle, Phase, Up};
use crate::shape::When;
use crate::shim::{Exit, Proof};

/// What is told of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// How far it is.
    Phase(Phase),
    /// It took too long, and is being stopped.
    TimedOut(Deadline),
    /// It used up what it may, and is being stopped.
    Exceeded(Cap),
    /// What it has used so far.
    Used(Usage),
    /// Its account is limited.
    Limited { account: Account, hard: bool, resets_at: Option<Timestamp> },
    /// Its agent wants to do something, and waits.
    Permission { id: Text<64>, what: Message },
    /// Its agent asks something, and waits.
    Question { id: Text<64>, text: Message },
    /// Its agent ended without a result, by itself or because it had nothing more to say.
    Exited(Option<Exit>),
    /// Everything of it ended, or something would not.
    Stopped(Proof),
    /// The machine, the network or a provider broke it.
    Lost { code: Code, reason: Reason },
    /// The run is given back.
    Released { reason: Reason, until: Until },
    /// The condition of a block was tried.
    Probed { met: bool },
}

/// From when on somebody may have the run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At once.
    Now,
    /// A moment that somebody named.
    At(Timestamp),
    /// After a rest.
    After(Millis),
}

impl Report {
    /// The frame that tells it; its number is given by the outbox.
    #[must_use]
    pub fn frame(self, attempt: AttemptId, now: Timestamp) -> Up {
        let seq = 0;
        let lifecycle = |phase, deadline, cap| {
            Lifecycle { attempt, seq, phase, deadline, cap, at: Some(When(now)) }.into()
        };
        match self {
            Self::Phase(phase) => lifecycle(phase, None, None),
            Self::TimedOut(deadline) => lifecycle(Phase::TimedOut, Some(deadline), None),
            Self::Exceeded(cap) => lifecycle(Phase::Exceeded, None, Some(cap)),
            Self::Used(total) => protocol::Usage {
                attempt,
                seq,
                total_micros: total.cost_micros,
                input_tokens: Some(total.input),
                output_tokens: Some(total.output),
                cached_tokens: Some(total.cached),
            }
            .into(),
            Self::Limited { account, hard, resets_at } => {
                let resets_at = resets_at.map(When);
                protocol::Limit { attempt, seq, account, hard, resets_at }.into()
            }
            Self::Permission { id, what } => protocol::Permission { attempt, seq, id, what }.into(),
            Self::Question { id, text } => protocol::Question { attempt, seq, id, text }.into(),
            Self::Exited(exit) => {
                let (status, signal) = match exit {
                    Some(Exit::Code(code)) => (u8::try_from(code).ok(), None),
                    Some(Exit::Signal(signal)) => (None, u8::try_from(signal).ok()),
                    None => (None, None),
                };
                protocol::Exited { attempt, seq, status, signal }.into()
            }
            Self::Stopped(Proof { death, survivor }) => {
                protocol::Stopped { attempt, seq, death, survivor }.into()
            }
            Self::Lost { code, reason } => protocol::Lost { attempt, seq, code, reason }.into(),
            Self::Released { reason, until } => {
                let until = match until {
                    Until::Now => None,
                    Until::At(at) => Some(When(at)),
                    Until::After(rest) => Some(When(now + rest)),
                };
                protocol::Released { attempt, seq, reason, until }.into()
            }
            Self::Probed { met } => protocol::Probed { attempt, seq, met }.into(),
        }
    }
}
