//! Time as an argument: points and lengths in whole milliseconds, never read from a clock here.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 on the store's clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// That many seconds.
    #[must_use]
    pub const fn seconds(count: u64) -> Self {
        Self(count * 1_000)
    }

    /// That many minutes.
    #[must_use]
    pub const fn minutes(count: u64) -> Self {
        Self::seconds(count * 60)
    }

    /// That many hours.
    #[must_use]
    pub const fn hours(count: u64) -> Self {
        Self::minutes(count * 60)
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, length: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(length.0))
    }
}

impl Sub<Millis> for Timestamp {
    type Output = Self;

    fn sub(self, length: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(length.0))
    }
}

/// Milliseconds of a day, which begins and ends at midnight in UTC.
const DAY: i64 = 24 * 60 * 60 * 1_000;

impl Timestamp {
    /// Which day it is, counted from 1970 in UTC.
    #[must_use]
    pub fn day(self) -> i64 {
        self.0.div_euclid(DAY)
    }

    /// When the next day begins.
    #[must_use]
    pub fn next_day(self) -> Self {
        Self(self.day().saturating_add(1).saturating_mul(DAY))
    }

    /// Whether a day begins with it.
    #[must_use]
    pub fn begins_a_day(self) -> bool {
        self.0.rem_euclid(DAY) == 0
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}
