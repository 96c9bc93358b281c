//! The deadlines of an attempt, in the worker's time.

use baton_domain::deadline::{Allows, Armed, Deadline, Sight};
use baton_domain::time::Timestamp;

use crate::protocol::Deadlines;

use super::At;

/// Deadlines that run. The rules by which they are armed and disarmed are the server's own.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    allow: Deadlines,
    armed: Armed,
}

impl Clocks {
    /// Those of an attempt that was dispatched now: only its wall clock runs.
    pub(super) fn new(allow: Deadlines, at: At) -> Self {
        let mut clocks = Self { allow, armed: Armed::default() };
        clocks.arm(Deadline::WallClock, at);
        clocks
    }

    /// Moves them on by what was seen.
    pub(super) fn see(&mut self, sight: Sight, at: At) {
        self.armed.see(sight, &self.allow, moment(at));
    }

    /// Only this one and the wall clock run from now on.
    pub(super) fn only(&mut self, deadline: Option<Deadline>, at: At) {
        self.armed.only(deadline, &self.allow, moment(at));
    }

    /// Lets one run from now on.
    pub(super) fn arm(&mut self, deadline: Deadline, at: At) {
        self.armed.arm(deadline, moment(at) + self.allow.allows(deadline));
    }

    /// Lets those of these run anew that run.
    pub(super) fn renew(&mut self, deadlines: &[Deadline], at: At) {
        let running: Vec<_> = self.armed.iter().map(|(deadline, _)| deadline).collect();
        for deadline in deadlines.iter().filter(|deadline| running.contains(deadline)) {
            self.arm(*deadline, at);
        }
    }

    /// Lets none of these end before then.
    pub(super) fn not_before(&mut self, deadlines: &[Deadline], at: At) {
        let early: Vec<_> = self.iter().filter(|(_, ends)| *ends < at).collect();
        for (deadline, _) in early.into_iter().filter(|(own, _)| deadlines.contains(own)) {
            self.armed.arm(deadline, moment(at));
        }
    }

    /// Nobody could answer for so long: what waits for an answer waits so much longer.
    pub(super) fn slept(&mut self, millis: u64) {
        let later: Vec<_> = self.armed.iter().collect();
        for (deadline, ends) in later {
            if deadline != Deadline::WallClock {
                self.armed.arm(deadline, moment(at_of(ends).plus(millis)));
            }
        }
    }

    /// Every one that runs, and when it ends.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Deadline, At)> + '_ {
        self.armed.iter().map(|(deadline, ends)| (deadline, at_of(ends)))
    }

    pub(super) fn allows(&self, deadline: Deadline) -> u64 {
        self.allow.allows(deadline).0
    }
}

/// The rules know one kind of moment; only differences count here.
fn moment(at: At) -> Timestamp {
    Timestamp(i64::try_from(at.0).unwrap_or(i64::MAX))
}

fn at_of(moment: Timestamp) -> At {
    At(u64::try_from(moment.0).unwrap_or(0))
}
