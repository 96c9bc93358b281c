//! What a store tells of itself without being asked: the same for every database.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_domain::time::Timestamp;

use crate::chain::{Audit, Fault};

/// Figures and states.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) committed_at: AtomicI64,
    pub(crate) swept_at: AtomicI64,
    pub(crate) overdue_since: AtomicI64,
    pub(crate) live: AtomicUsize,
    pub(crate) verified: AtomicU64,
    pub(crate) audited_at: AtomicI64,
    tampered: Mutex<Option<Fault>>,
    pub(crate) full: AtomicBool,
    stopped: Mutex<Option<String>>,
}

impl Gauges {
    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn tampered(&self) -> Option<Fault> {
        self.tampered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What an audit found. A fault stands until a whole round finds none.
    pub(crate) fn audited(&self, audit: &Audit, now: Timestamp) {
        let mut tampered = self.tampered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = &audit.fault {
            if tampered.as_ref() != Some(fault) {
                tracing::error!(?fault, "the history was changed behind our back");
            }
            *tampered = Some(fault.clone());
        }
        if audit.ended {
            *tampered = None;
            self.audited_at.store(now.0, Ordering::Relaxed);
            self.verified.store(audit.entries, Ordering::Relaxed);
        } else {
            self.verified.fetch_max(audit.entries, Ordering::Relaxed);
        }
    }

    /// The first fault counts: whoever starts the program again reads it.
    pub(crate) fn stop(&self, why: &str) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert_with(|| why.into());
    }
}
