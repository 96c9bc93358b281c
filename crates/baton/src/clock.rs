//! How long things take, for figures, and the clocks of this machine that a shim measures its fence
//! by. Rules ask the store's clock.

use std::time::Instant;

/// Counts on; what it starts from means nothing.
pub trait Stopwatch: Send + Sync {
    /// Microseconds since some moment before the first call.
    fn micros(&self) -> u64;
}

/// The monotonic clock of this machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemStopwatch(Instant);

impl SystemStopwatch {
    /// Starts counting.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that figures are read from")]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch for SystemStopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that figures are read from")]
    fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A stopwatch that nobody started: under it everything takes no time, in tests and simulations.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoppedWatch;

impl Stopwatch for StoppedWatch {
    fn micros(&self) -> u64 {
        0
    }
}

/// Milliseconds since boot, suspended time included: what fences are measured by, and what two
/// processes of one machine agree on.
#[must_use]
pub fn boot_ms() -> u64 {
    millis(rustix::time::ClockId::Boottime)
}

/// Milliseconds that this machine was awake since boot: what [`boot_ms`] is ahead of it was slept.
#[must_use]
pub fn awake_ms() -> u64 {
    millis(rustix::time::ClockId::Monotonic)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that the shim reads")]
fn millis(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let part = u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1_000).saturating_add(part)
}
