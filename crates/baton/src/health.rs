//! How Baton is, in ages and counts: a stuck part shows by growing old, and cannot lie about it.

use std::time::Duration;

use baton_domain::time::Millis;
use baton_store::Store;
use baton_store::chain::Fault;
use serde::Serialize;
use tokio::time::timeout;

/// A pause between sweeps that is an outage.
const SWEEP_AGE_MAX: Millis = Millis::seconds(5);
/// How long after its effective end a lease may still be held.
const OVERDUE_MAX: Millis = Millis::seconds(2);
/// How long commits may stay in the write-ahead log alone.
const CHECKPOINT_AGE_MAX: Millis = Millis::minutes(10);
/// How long commits may stay unsealed: a few missed turns.
const SEAL_AGE_MAX: Millis = Millis::minutes(5);
/// How long the store may take to say how it is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How Baton is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether nothing is wrong.
    pub green: bool,
    /// Everything that is wrong.
    pub reasons: Vec<Reason>,
    /// Since the last commit; quiet is not wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_age: Option<Millis>,
    /// Since the write-ahead log was last copied back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_age: Option<Millis>,
    /// Since the last good sweep of this server.
    pub sweep_age: Millis,
    /// Since the last sweep of any server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep_age_any: Option<Millis>,
    /// Since the last seal, if anything is unsealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal_age: Option<Millis>,
    /// How long the most overdue lease is past its effective end.
    pub overdue: Millis,
    /// Orders that wait.
    pub queued: usize,
    /// Live tasks.
    pub live: usize,
    /// Claimers that wait for work.
    pub waiting: usize,
    /// Entries of all tenants that hold, by the last audit or by the one under way.
    pub verified_entries: u64,
    /// Since an audit went over everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_age: Option<Millis>,
    /// Bytes free where the store is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// How long ago things went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// Since the last sweep of this engine, or since its start.
    pub swept: Millis,
    /// Since the last seal of this engine, or since its start; none if nothing is unsealed.
    pub sealed: Option<Millis>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Reason {
    /// Time does not pass: leases and deadlines do not fire.
    SweepLate {
        /// Since the last sweep.
        age: Millis,
    },
    /// A lease should have ended.
    LeaseOverdue {
        /// By so much.
        overdue: Millis,
    },
    /// The write-ahead log is not copied back.
    CheckpointLate {
        /// Since it last was.
        age: Millis,
    },
    /// What happened is not signed.
    SealLate {
        /// Since it last was.
        age: Millis,
    },
    /// Somebody changed the history behind our back.
    Tampered {
        /// Whose.
        tenant: String,
        /// Where in the order of commits.
        position: u64,
        /// What is wrong.
        what: String,
    },
    /// New work is refused for want of room.
    DiskFull,
    /// The clock of the database was set back. Time goes on as it was, ahead of that clock.
    ClockBehind {
        /// By so much.
        behind: Millis,
    },
    /// The store has stopped.
    Stopped {
        /// Why.
        why: String,
    },
    /// The store does not say how it is.
    Unreadable {
        /// Why not.
        why: String,
    },
}

impl Health {
    /// Asks the store and adds what the engine knows.
    pub(crate) async fn ask(store: &dyn Store, since: Since, waiting: usize) -> Self {
        let asked = match timeout(ANSWER_MAX, store.health()).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it did not answer in time".into()),
        };
        let own =
            Self { sweep_age: since.swept, seal_age: since.sealed, waiting, ..Self::default() };
        match asked {
            Ok(store) => own.with(store),
            Err(why) => own.judged(vec![Reason::Unreadable { why }]),
        }
    }

    fn with(self, store: baton_store::Health) -> Self {
        let mut reasons = vec![];
        if let Some(why) = store.stopped {
            reasons.push(Reason::Stopped { why });
        }
        if store.full {
            reasons.push(Reason::DiskFull);
        }
        if let Some(Fault { tenant, position, what }) = store.tampered {
            reasons.push(Reason::Tampered { tenant, position, what: what.into() });
        }
        if store.clock_behind > Millis(0) {
            reasons.push(Reason::ClockBehind { behind: store.clock_behind });
        }
        if store.overdue > OVERDUE_MAX {
            reasons.push(Reason::LeaseOverdue { overdue: store.overdue });
        }
        // What was committed before the last checkpoint is safe however old that is.
        let uncopied = store.commit_age < store.checkpoint_age && store.commit_age.is_some();
        if let Some(age) = store.checkpoint_age.filter(|age| uncopied && *age > CHECKPOINT_AGE_MAX)
        {
            reasons.push(Reason::CheckpointLate { age });
        }
        let health = Self {
            commit_age: store.commit_age,
            checkpoint_age: store.checkpoint_age,
            sweep_age_any: store.sweep_age,
            overdue: store.overdue,
            queued: store.queued,
            live: store.live,
            verified_entries: store.verified_entries,
            audit_age: store.audit_age,
            free_bytes: store.free_bytes,
            ..self
        };
        health.judged(reasons)
    }

    /// Why the store stopped by itself, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.reasons.iter().find_map(|reason| match reason {
            Reason::Stopped { why } => Some(why.as_str()),
            Reason::SweepLate { .. }
            | Reason::LeaseOverdue { .. }
            | Reason::CheckpointLate { .. }
            | Reason::SealLate { .. }
            | Reason::Tampered { .. }
            | Reason::DiskFull
            | Reason::ClockBehind { .. }
            | Reason::Unreadable { .. } => None,
        })
    }

    fn judged(mut self, mut reasons: Vec<Reason>) -> Self {
        if self.sweep_age > SWEEP_AGE_MAX {
            reasons.push(Reason::SweepLate { age: self.sweep_age });
        }
        if let Some(age) = self.seal_age.filter(|age| *age > SEAL_AGE_MAX) {
            reasons.push(Reason::SealLate { age });
        }
        self.green = reasons.is_empty();
        self.reasons = reasons;
        self
    }
}

#[cfg(test)]
mod tests;
