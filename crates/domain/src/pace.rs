//! How much an attempt says: a holder in a loop must not bury its own history.

use serde::{Deserialize, Serialize};

use crate::limits::EVENTS_PER_MINUTE_MAX;
use crate::refusal::Refusal;
use crate::run::Held;
use crate::time::{Millis, Timestamp};

const MINUTE: Millis = Millis::minutes(1);

/// Which minute of the attempt it is, and how many events it has made in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace(pub u32, pub u16);

impl Pace {
    pub(crate) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }

    /// Counts one more event.
    pub(crate) fn count(&mut self, claimed_at: Timestamp, at: Timestamp) {
        let minute = minute(claimed_at, at);
        *self =
            if self.0 == minute { Self(minute, self.1.saturating_add(1)) } else { Self(minute, 1) };
    }
}

impl Held {
    /// Refuses a holder that has said too much in this minute. Ends are not asked here: whoever has
    /// had enough of a run may always let go of it.
    pub(crate) fn may_say_more(&self, now: Timestamp) -> Result<(), Refusal> {
        let Pace(last, events) = self.pace;
        if last != minute(self.claimed_at, now) || events < EVENTS_PER_MINUTE_MAX {
            return Ok(());
        }
        let gone = now.since(self.claimed_at).0 % MINUTE.0;
        Err(Refusal::TooOften { retry_after: Millis(MINUTE.0 - gone) })
    }
}

fn minute(claimed_at: Timestamp, at: Timestamp) -> u32 {
    u32::try_from(at.since(claimed_at).0 / MINUTE.0).unwrap_or(u32::MAX)
}
