//! How long things take, for figures. Rules ask the store's clock; nothing here decides anything.

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
