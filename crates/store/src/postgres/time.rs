//! The database's clock, and what it probably says between two questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use baton_domain::time::Timestamp;

use crate::Clock;
use crate::clock::boot_millis;

/// Tells the database's time. It was told with every batch; in between this machine's own clock
/// counts on.
pub(super) struct DatabaseTime {
    given: Option<Arc<dyn Clock>>,
    /// How far the database's clock is ahead of our count.
    ahead: AtomicI64,
    last: AtomicI64,
}

impl DatabaseTime {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self { given, ahead: AtomicI64::new(0), last: AtomicI64::new(0) }
    }

    /// The time of a batch, by what the database said just now.
    pub(super) fn heard(&self, told: Timestamp) -> Timestamp {
        if let Some(given) = &self.given {
            return given.now();
        }
        self.ahead.store(told.0.saturating_sub(boot_millis()), Ordering::Relaxed);
        told
    }

    /// Never before anything that was told earlier.
    pub(super) fn at_least(&self, now: Timestamp) -> Timestamp {
        Timestamp(self.last.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }
}

impl Clock for DatabaseTime {
    fn now(&self) -> Timestamp {
        let now = match &self.given {
            Some(given) => given.now(),
            None => Timestamp(boot_millis().saturating_add(self.ahead.load(Ordering::Relaxed))),
        };
        now.max(Timestamp(self.last.load(Ordering::Relaxed)))
    }
}
