//! When things last went well. A stuck part shows by growing old.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use baton_domain::time::{Millis, Timestamp};

use crate::health::Since;

/// How long what happened may stay unsealed.
const SEAL_EVERY: Millis = Millis::minutes(1);

/// The rest between two rounds of the audit: a quiet machine need not be busy with it.
const AUDIT_EVERY: Millis = Millis::minutes(10);

/// When things last went well, on the engine's clock.
#[derive(Debug)]
pub(super) struct Ages {
    swept_at: AtomicI64,
    sealed_at: AtomicI64,
    changes_sealed: AtomicU64,
    /// When the last round of the audit ended.
    audited_at: AtomicI64,
}

/// What a seal covers, and when it was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    changes: u64,
    at: Timestamp,
}

impl Ages {
    /// An engine that never swept is as old as its last sweep would be.
    pub(super) fn starting_at(now: Timestamp) -> Self {
        Self {
            swept_at: AtomicI64::new(now.0),
            sealed_at: AtomicI64::new(now.0),
            changes_sealed: AtomicU64::new(0),
            audited_at: AtomicI64::new(i64::MIN),
        }
    }

    pub(super) fn swept(&self, now: Timestamp) {
        self.swept_at.fetch_max(now.0, Ordering::Relaxed);
    }

    /// What is to be sealed now, if anything is, given how often something changed.
    pub(super) fn seal_due(&self, changes: u64, now: Timestamp) -> Option<Turn> {
        let due = self.is_unsealed(changes) && now.since(self.sealed_at()) >= SEAL_EVERY;
        due.then_some(Turn { changes, at: now })
    }

    pub(super) fn sealed(&self, turn: Turn) {
        self.changes_sealed.fetch_max(turn.changes, Ordering::Relaxed);
        self.sealed_at.fetch_max(turn.at.0, Ordering::Relaxed);
    }

    /// Whether the audit goes on, or rests between two rounds.
    pub(super) fn audit_due(&self, now: Timestamp) -> bool {
        now.since(Timestamp(self.audited_at.load(Ordering::Relaxed))) >= AUDIT_EVERY
    }

    pub(super) fn audited(&self, now: Timestamp) {
        self.audited_at.store(now.0, Ordering::Relaxed);
    }

    pub(super) fn at(&self, changes: u64, now: Timestamp) -> Since {
        Since {
            swept: now.since(Timestamp(self.swept_at.load(Ordering::Relaxed))),
            sealed: self.is_unsealed(changes).then(|| now.since(self.sealed_at())),
        }
    }

    fn is_unsealed(&self, changes: u64) -> bool {
        changes > self.changes_sealed.load(Ordering::Relaxed)
    }

    fn sealed_at(&self) -> Timestamp {
        Timestamp(self.sealed_at.load(Ordering::Relaxed))
    }
}
