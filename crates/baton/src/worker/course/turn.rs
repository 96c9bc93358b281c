//! What an agent is told whose turn is over while its run is still held.

use super::At;

/// How often an agent that ended its turn is asked how it stands.
pub const NUDGES_MAX: u8 = 2;
/// How long the server has to say that the run is over by the agent's own word, before the agent is asked.
pub(super) const NUDGE_AFTER_MS: u64 = 2_000;
/// How long a program that takes no more turns has to go by itself.
pub(super) const LAST_WORD_MS: u64 = 10_000;

/// What it is asked.
const NUDGE: &str = "Your turn ended, but your run is still open, and nobody knows how it stands. Say it with Baton's tools: \
complete it, block it with what you need, or fail it with the reason. If you have more to do, go on, and checkpoint first.";
/// What it is told when what it waited for is there.
const GO_ON: &str = "Your run goes on: your question was answered, or what you submitted was looked at. Look at your run \
with Baton's tools, and go on from there.";

/// The turn that an agent is in, or was.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    over: Option<Over>,
    nudges: u8,
}

/// A turn that is over.
#[derive(Clone, Copy, Debug)]
struct Over {
    /// When something is to be done about it.
    next: At,
    /// Whether the program takes no more turns.
    deaf: bool,
    /// What it is told next.
    text: &'static str,
}

/// What is to be done.
pub(super) enum Ask {
    /// Tell it this.
    Prompt(&'static str),
    /// It has had its last word.
    Enough,
}

impl Turn {
    /// The first turn is what it was started for.
    pub(super) fn new() -> Self {
        Self { over: None, nudges: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    pub(super) fn begin(&mut self) {
        self.over = None;
    }

    pub(super) fn end(&mut self, at: At) {
        let next = at.plus(NUDGE_AFTER_MS);
        self.over = Some(Over { next, deaf: false, text: NUDGE });
    }

    /// What it waited for is there.
    pub(super) fn turned(&mut self, at: At) {
        self.nudges = 0;
        if let Some(over) = &mut self.over {
            (over.next, over.text) = (over.next.max(at), GO_ON);
        }
    }

    /// It was not told what it was to be, and will be: that does not count.
    pub(super) fn unheard(&mut self, at: At) {
        self.nudges = self.nudges.saturating_sub(1);
        if let Some(over) = &mut self.over {
            over.next = at.plus(NUDGE_AFTER_MS);
        }
    }

    /// It cannot be told anything more.
    pub(super) fn deaf(&mut self, at: At) {
        if let Some(over) = &mut self.over {
            (over.next, over.deaf) = (at.plus(LAST_WORD_MS), true);
        }
    }

    /// A worker came back. A nudge may be on its way that the worker before wrote; at least one more is due.
    pub(super) fn back(&mut self, turns: u32, at: At) {
        let before = u8::try_from(turns.saturating_sub(1)).unwrap_or(u8::MAX);
        self.nudges = before.min(NUDGES_MAX - 1);
        if let Some(over) = &mut self.over {
            over.next = over.next.max(at.plus(LAST_WORD_MS));
        }
    }

    /// What is to be done now. Nobody is asked while the server cannot be heard: it may know more.
    pub(super) fn next(&mut self, at: At, is_linked: bool) -> Option<Ask> {
        let over = self.over.as_mut().filter(|over| over.next <= at && is_linked)?;
        if over.deaf || self.nudges >= NUDGES_MAX {
            return Some(Ask::Enough);
        }
        self.nudges += 1;
        over.next = At(u64::MAX);
        Some(Ask::Prompt(over.text))
    }

    /// When something is to be done.
    pub(super) fn due(&self, is_linked: bool) -> Option<At> {
        self.over.map(|over| over.next).filter(|next| is_linked && *next < At(u64::MAX))
    }
}
