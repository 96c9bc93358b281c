//! Ports for what agents start: a block per slot, so that two of them never ask for the same.

use std::ops::Range;

/// The first port of the first slot: above what services are given, below what systems hand out.
pub const PORTS_FIRST: u16 = 21_000;
/// How many a slot has: a few services, and tests that start some more.
pub const PORTS_PER_SLOT: u16 = 20;
/// How many slots there are ports for: those that end before 32768, where Linux begins to hand out.
pub const SLOTS_MAX: u16 = 500;

/// The ports of a slot, counted from 0, and the variables that tell an agent of them; none beyond the last.
#[must_use]
pub fn ports(slot: u16) -> Option<(Range<u16>, [(&'static str, String); 3])> {
    if slot >= SLOTS_MAX {
        return None;
    }
    let first = PORTS_FIRST + slot * PORTS_PER_SLOT;
    let told = [
        ("PORT", first.to_string()),
        ("BATON_PORT", first.to_string()),
        ("BATON_PORT_COUNT", PORTS_PER_SLOT.to_string()),
    ];
    Some((first..first + PORTS_PER_SLOT, told))
}
