//! What the tests of Baton stand on: a disk that fails, a process to kill, a Postgres to
//! throw away, chance with a seed, a model that says what it is told to, and real agent programs to
//! talk to it.
//!
//! Nothing here is part of the product. [`disk`] is a SQLite file layer that keeps its files in
//! memory, can be cut off from power at every point of its history and can fail at every I/O.
//! [`child`] runs the test binary once more in a role of its own, so that it can be killed.
//! [`chance`] makes every random choice of a test repeatable from one number. [`tables`] shows
//! everything that a database file holds.
//! [`postgres`] makes clusters and databases to throw away.
//! [`model`] speaks the APIs of three providers on loopback, from a script; [`agents`] starts real
//! agent programs against it.

pub mod agents;
pub mod chance;
pub mod child;
pub mod disk;
pub mod model;
pub mod postgres;
pub mod tables;

/// How many times more work a soak does than a plain run of the tests.
const SOAK_FACTOR: u64 = 20;

/// Gives the number of rounds for this run: `rounds`, or many times that if `BATON_SOAK=1` is set.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that tests are told to soak")]
pub fn rounds(rounds: u64) -> u64 {
    let soak = std::env::var_os("BATON_SOAK").is_some_and(|value| value == "1");
    if soak { rounds * SOAK_FACTOR } else { rounds }
}
