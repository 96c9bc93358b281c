//! Ports for what agents start: a block per slot, so that two of them never ask for the same.

use std::ops::Range;

/// The first port of the first slot: above what services are given, below what systems hand out.
pub const PORTS_FIRST: u16 = 21_000;
/// How many a slot has: a few services, and tests that start some more.
pub const PORTS_PER_SLOT: u16 = 20;
/// How many slots there are ports for: those that end before 32768, where Linux begins to hand out.
pub const SLOTS_MAX: u16 = 500;

/// The ports of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(pub Range<u16>);

impl Ports {
    /// Those of a slot, counted from 0; none beyond the last.
    #[must_use]
    pub fn of(slot: u16) -> Option<Self> {
        let first = slot.checked_mul(PORTS_PER_SLOT)?.checked_add(PORTS_FIRST)?;
        (slot < SLOTS_MAX).then_some(Self(first..first + PORTS_PER_SLOT))
    }

    /// The variables that tell an agent of them.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("PORT", self.0.start.to_string()),
            ("BATON_PORT", self.0.start.to_string()),
            ("BATON_PORT_COUNT", self.0.len().to_string()),
        ]
    }
}
