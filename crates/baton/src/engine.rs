//! The only way anything changes: orders go through here to the store, are timed and counted, and
//! whoever waits for work waits here. Everything that could differ between two runs of the same
//! program is passed in.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use baton_domain::ids::Nonce;
use baton_store::blobs::Blobs;
use baton_store::order::Swept;
use baton_store::{Aim, Clock, Committed, Error, Order, Store};
use tracing::field::{Empty, display};

use crate::chance::{Chance, nonce};
use crate::changes::Changes;
use crate::clock::Stopwatch;
use crate::diffs::Diffs;
use crate::health::Health;
use crate::logs::Logs;
use crate::messenger::Messenger;
use crate::metrics::Metrics;
use crate::redaction::Redactor;
use crate::roster::Roster;
use crate::tokens::{Keyring, Secrets};
use crate::waiters::Waiters;

use ages::Ages;

pub use claim::{CLAIM_WAIT_MAX, Claimed, Target, Tokens, Wish};

mod ages;
mod claim;
mod reads;

/// Entries that one tick looks at again: a thousand a second, for less than a hundredth of a core.
const AUDITED_AT_ONCE: usize = 500;

/// Everything that an engine is made of.
pub struct Parts {
    /// Where tasks are kept. Its bell must be the one of `waiters`.
    pub store: Arc<dyn Store>,
    /// Who waits for work.
    pub waiters: Arc<Waiters>,
    /// The same clock that the store asks.
    pub clock: Arc<dyn Clock>,
    /// How long orders take.
    pub stopwatch: Arc<dyn Stopwatch>,
    /// Where nonces come from.
    pub chance: Arc<dyn Chance>,
    /// What tokens are made with.
    pub secrets: Secrets,
    /// Which life of the store this is; tokens of another are dead.
    pub incarnation: u64,
}

/// The only way anything changes.
pub struct Engine {
    store: Arc<dyn Store>,
    waiters: Arc<Waiters>,
    changes: Arc<Changes>,
    clock: Arc<dyn Clock>,
    stopwatch: Arc<dyn Stopwatch>,
    chance: Arc<dyn Chance>,
    keyring: Keyring,
    redactor: Arc<Redactor>,
    metrics: Metrics,
    ages: Ages,
    blobs: OnceLock<Arc<dyn Blobs>>,
    messenger: OnceLock<Weak<dyn Messenger>>,
    logs: Logs,
    roster: Roster,
    diffs: OnceLock<Diffs>,
}

impl Engine {
    /// Puts the parts together; nothing happens until somebody asks for something.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let redactor = Redactor::new();
        parts.secrets.tell(&redactor);
        Self {
            redactor: Arc::new(redactor),
            ages: Ages::starting_at(parts.clock.now()),
            metrics: Metrics::new(parts.waiters.wakes()),
            keyring: Keyring::new(parts.secrets, parts.incarnation),
            store: parts.store,
            changes: Arc::clone(parts.waiters.changes()),
            waiters: parts.waiters,
            clock: parts.clock,
            stopwatch: parts.stopwatch,
            chance: parts.chance,
            blobs: OnceLock::new(),
            messenger: OnceLock::new(),
            logs: Logs::default(),
            roster: Roster::default(),
            diffs: OnceLock::new(),
        }
    }

    /// From now on what is submitted is looked for among these. Whoever serves has blobs; a bench, or whoever
    /// only revokes keys, has none, and nobody hands anything in there.
    pub fn keep_blobs(&self, blobs: Arc<dyn Blobs>) {
        // A second place would be another server's.
        drop(self.blobs.set(blobs));
    }

    /// Where the bytes of what is submitted are.
    #[must_use]
    pub fn blobs(&self) -> Option<Arc<dyn Blobs>> {
        self.blobs.get().cloned()
    }

    /// A number that nobody guesses.
    #[must_use]
    pub fn nonce(&self) -> Nonce {
        nonce(self.chance.as_ref())
    }

    /// From now on channels are carried on by this one, for as long as a server runs it: it asks the engine
    /// itself, so the engine must not keep it.
    pub fn keep_messenger(&self, messenger: &Arc<dyn Messenger>) {
        drop(self.messenger.set(Arc::downgrade(messenger)));
    }

    /// Who tells people.
    #[must_use]
    pub fn messenger(&self) -> Option<Arc<dyn Messenger>> {
        self.messenger.get()?.upgrade()
    }

    /// From now on what runs changed is worked out by these.
    pub fn keep_diffs(&self, diffs: Diffs) {
        // A second one would look at the same.
        drop(self.diffs.set(diffs));
    }

    /// What works out what runs changed, where somebody does.
    #[must_use]
    pub fn diffs(&self) -> Option<&Diffs> {
        self.diffs.get()
    }

    /// What live agents say, for whoever follows them.
    #[must_use]
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// Who works for this server right now.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Carries out an order, whole or not at all.
    #[tracing::instrument(
        level = "debug",
        skip_all,
        fields(tenant = %order.tenant, aim = order.aim.word(), task = Empty, outcome = Empty)
    )]
    pub async fn submit(&self, order: Order) -> Result<Committed, Error> {
        let aim = order.aim.word();
        let span = tracing::Span::current();
        if let Aim::Task(task, _) = &order.aim {
            span.record("task", display(task));
        }
        let began = self.stopwatch.micros();
        let waiting = Waiting { engine: self, aim };
        let answer = self.store.submit(order).await;
        std::mem::forget(waiting);
        let micros = self.stopwatch.micros().saturating_sub(began);
        let outcome = outcome(&answer);
        self.metrics.ordered(aim, outcome, micros);
        span.record("outcome", outcome);
        match &answer {
            Ok(committed) => {
                if let Some(flow) = &committed.task {
                    span.record("task", display(flow.id));
                }
                tracing::debug!(micros, "answered");
            }
            Err(Error::Refused(_) | Error::KeyReused) => tracing::debug!(micros, "refused"),
            // The sentences of these errors are the store's own; none quotes what was asked.
            Err(error) => tracing::warn!(micros, %error, "not carried out"),
        }
        answer
    }

    /// Lets time pass, for at most so many tasks and reactions.
    pub async fn sweep(&self, count_max: usize) -> Result<Swept, Error> {
        let answer = self.submit(Order::sweep(count_max)).await;
        let swept = answer.as_ref().map_or_else(|_| Swept::default(), |done| done.swept);
        self.metrics.swept(outcome(&answer), swept);
        answer?;
        self.ages.swept(self.clock.now());
        Ok(swept)
    }

    /// Signs what happened, if anything has since the last time that was at least a while ago.
    pub async fn seal_if_due(&self) -> Result<bool, Error> {
        let Some(turn) = self.ages.seal_due(self.changes.rings(), self.clock.now()) else {
            return Ok(false);
        };
        let answer = self.store.seal().await;
        self.metrics.sealed(if answer.is_ok() { "ok" } else { "failed" });
        answer?;
        self.ages.sealed(turn);
        Ok(true)
    }

    /// Goes on looking for changes behind the store's back; at the end of a round it rests.
    pub async fn audit_if_due(&self) -> Result<(), Error> {
        if self.ages.audit_due(self.clock.now())
            && self.store.audit_part(AUDITED_AT_ONCE).await?.ended
        {
            self.ages.audited(self.clock.now());
        }
        Ok(())
    }

    /// Hands out no more work and sends away whoever waits or listens; everything else goes on.
    pub fn drain(&self) {
        self.waiters.close();
        self.changes.close();
    }

    /// How the engine and its store are.
    pub async fn health(&self) -> Health {
        Health::ask(
            self.store.as_ref(),
            self.ages.at(self.changes.rings(), self.clock.now()),
            self.waiters.len(),
        )
        .await
    }

    /// Mints and checks claim tokens.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// What keeps secrets out of what is written down.
    #[must_use]
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// All figures.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Who listens for changes.
    #[must_use]
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// Who waits for work.
    #[must_use]
    pub fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }
}

/// A caller that waits for the answer of the store. If it goes away, the order may be carried out
/// all the same, and is counted as what it is.
struct Waiting<'a> {
    engine: &'a Engine,
    aim: &'static str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.engine.metrics.ordered(self.aim, "abandoned", 0);
    }
}

/// One word for how an order was answered.
fn outcome(answer: &Result<Committed, Error>) -> &'static str {
    match answer {
        Ok(committed) if committed.replayed => "replayed",
        Ok(_) => "ok",
        Err(Error::Refused(refusal)) => refusal.code(),
        Err(Error::KeyReused) => "key_reused",
        Err(Error::Overloaded) => "overloaded",
        Err(Error::DiskFull) => "disk_full",
        Err(Error::CursorExpired { .. }) => "cursor_expired",
        Err(Error::Stopped(_)) => "stopped",
        Err(Error::Unknown(_)) => "unknown",
        Err(Error::Read(_)) => "read_failed",
        Err(Error::Internal(_)) => "internal",
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("waiters", &self.waiters.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
