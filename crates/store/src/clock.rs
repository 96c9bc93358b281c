//! One clock per store: wall time as it was at the start, moved on by a clock that counts through
//! suspension and cannot be set. A jump of the wall clock expires nothing.

use std::sync::atomic::{AtomicI64, Ordering};

use baton_domain::time::Timestamp;

/// Tells the time; never goes backwards.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The clock of this machine.
#[derive(Debug)]
pub struct SystemClock {
    wall_at_start: i64,
    boot_at_start: i64,
    last: AtomicI64,
}

impl SystemClock {
    /// Starts at wall time, but never before `floor`: the last time that the store remembers.
    #[must_use]
    pub fn starting_at(floor: Timestamp) -> Self {
        let wall_at_start = millis(rustix::time::ClockId::Realtime).max(floor.0);
        Self {
            wall_at_start,
            boot_at_start: millis(rustix::time::ClockId::Boottime),
            last: AtomicI64::new(wall_at_start),
        }
    }
}

/// Milliseconds of a clock that counts through suspension and cannot be set.
pub(crate) fn boot_millis() -> i64 {
    millis(rustix::time::ClockId::Boottime)
}

#[expect(clippy::disallowed_methods, reason = "this is the Clock that everybody else asks")]
fn millis(clock: rustix::time::ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = millis(rustix::time::ClockId::Boottime).saturating_sub(self.boot_at_start);
        let now = self.wall_at_start.saturating_add(passed);
        Timestamp(self.last.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// A clock that stands still until it is told to move: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at this time.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves on.
    pub fn advance(&self, length: baton_domain::time::Millis) {
        let length = i64::try_from(length.0).unwrap_or(i64::MAX);
        self.0.fetch_add(length, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}
