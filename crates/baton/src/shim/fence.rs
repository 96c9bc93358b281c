//! The dead man's fence: until when an agent may live if nobody says a word.

/// How long a worker has to renew after the machine slept past the fence: it slept, too, and has to
/// reach its server first.
pub const WAKE_MS: u64 = 30_000;
/// A shorter sleep is none: clocks are not read at the same instant.
const SLEPT_MS_MIN: u64 = 1_000;
/// How far ahead a fence may be set: the longest lease.
pub const AHEAD_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The fence of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    until: u64,
    /// What the machine had slept since boot when it was last renewed.
    slept: u64,
    /// Until when the tree stands still, if it does.
    frozen: Option<u64>,
}

/// Two readings of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since boot.
    pub boot: u64,
    /// The same without the time that the machine slept.
    pub awake: u64,
}

/// What the fence says at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All is well until then.
    Live { until: u64 },
    /// The machine slept past it: the tree stands still until it is renewed or that moment comes.
    Freeze { until: u64 },
    /// It has passed.
    Kill,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self { boot: crate::clock::boot_ms(), awake: crate::clock::awake_ms() }
    }

    fn slept(self) -> u64 {
        self.boot.saturating_sub(self.awake)
    }
}

impl Fence {
    /// A fence at a moment since boot.
    #[must_use]
    pub fn new(until: u64, now: Moment) -> Self {
        let until = until.min(now.boot.saturating_add(AHEAD_MS_MAX));
        Self { until, slept: now.slept(), frozen: None }
    }

    /// Moves it; it never comes nearer, because an answer may be overtaken by a later one. Gives back
    /// whether the tree stood still until now.
    pub fn renew(&mut self, until: u64, now: Moment) -> bool {
        let further = Self::new(until.max(self.until), now);
        // Whoever renews to a moment that has passed has renewed nothing.
        if further.until <= now.boot {
            return false;
        }
        let stood = self.frozen.is_some();
        *self = further;
        stood
    }

    /// What is to be done now.
    pub fn order(&mut self, now: Moment) -> Order {
        if let Some(until) = self.frozen {
            return if now.boot < until { Order::Freeze { until } } else { Order::Kill };
        }
        if now.boot < self.until {
            return Order::Live { until: self.until };
        }
        if now.slept().saturating_sub(self.slept) < SLEPT_MS_MIN {
            return Order::Kill;
        }
        let until = now.boot.saturating_add(WAKE_MS);
        self.frozen = Some(until);
        Order::Freeze { until }
    }
}

#[cfg(test)]
mod tests;
