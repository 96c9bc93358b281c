//! Who waits for "something changed in this tenant": a run that is waited for, a stream of events.
//!
//! A ring carries no data and may be lost, and other servers do not ring here at all; so whoever
//! listens looks for itself, and looks every now and then without having heard anything.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::TenantId;
use baton_domain::time::{Millis, Timestamp};
use baton_store::Error;
use tokio::sync::watch;
use tokio::time::sleep;

/// Listeners of one tenant at once: each looks after every change of the tenant.
pub const LISTENERS_MAX: usize = 1_000;

/// How long a listener goes without looking, for what other servers changed.
const POLL: Duration = Duration::from_secs(1);

/// With many listeners each looks less often, so that all of them together look at most two
/// hundred times a second.
const POLL_PER_LISTENER: Duration = Duration::from_millis(5);

/// How long it is good enough to know how far a tenant was: whoever asks has heard nothing.
const HEAD_AGE_MAX: Millis = Millis::seconds(1);

/// Everybody who listens, by tenant. A tenant to which nobody listens costs nothing.
pub struct Changes {
    channels: Mutex<HashMap<TenantId, watch::Sender<()>>>,
    closed: watch::Sender<bool>,
    count_max: usize,
    rings: AtomicU64,
    /// How far tenants to which somebody listens were, and when; looked at once for all who listen.
    heads: Mutex<HashMap<TenantId, (Timestamp, u64)>>,
}

/// Somebody who listens. It has heard nothing yet; whoever looks after having begun to listen
/// misses nothing.
pub struct Listener {
    changes: Arc<Changes>,
    tenant: TenantId,
    rung: watch::Receiver<()>,
    closed: watch::Receiver<bool>,
}

impl Changes {
    /// Nobody listens yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::at_most(LISTENERS_MAX)
    }

    /// Nobody listens yet, and at most so many of one tenant ever will.
    #[must_use]
    pub fn at_most(count_max: usize) -> Arc<Self> {
        let (closed, _) = watch::channel(false);
        // What a process before this one left behind counts as a change.
        let (channels, heads) = (Mutex::default(), Mutex::default());
        Arc::new(Self { channels, closed, count_max, rings: AtomicU64::new(1), heads })
    }

    /// Begins to listen; refused when too many do, or when nobody may any more.
    pub fn listen(self: &Arc<Self>, tenant: &TenantId) -> Result<Listener, Error> {
        let closed = self.closed.subscribe();
        if *closed.borrow() {
            return Err(closing());
        }
        let mut channels = self.lock();
        let channel = channels.entry(tenant.clone()).or_insert_with(|| watch::channel(()).0);
        if channel.receiver_count() >= self.count_max {
            return Err(Error::Overloaded);
        }
        let rung = channel.subscribe();
        drop(channels);
        Ok(Listener { changes: Arc::clone(self), tenant: tenant.clone(), rung, closed })
    }

    /// Something changed in this tenant.
    pub fn ring(&self, tenant: &TenantId) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        if let Some(channel) = self.lock().get(tenant) {
            channel.send_replace(());
        }
    }

    /// How often something changed.
    #[must_use]
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// How far a tenant was a moment ago, if anybody has looked since.
    #[must_use]
    pub fn head_lately(&self, tenant: &TenantId, now: Timestamp) -> Option<u64> {
        let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, head) = heads.get(tenant)?;
        (now < *at + HEAD_AGE_MAX).then_some(*head)
    }

    /// Somebody has looked how far a tenant is.
    pub fn note_head(&self, tenant: &TenantId, now: Timestamp, head: u64) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.retain(|_, (at, _)| now < *at + HEAD_AGE_MAX);
        heads.insert(tenant.clone(), (now, head));
    }

    /// Lets nobody listen any more; whoever does is told to go.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// How many listen, over all tenants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().values().map(watch::Sender::receiver_count).sum()
    }

    /// Whether nobody listens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pause(&self) -> Duration {
        let listening = u32::try_from(self.len()).unwrap_or(u32::MAX);
        POLL.max(POLL_PER_LISTENER.saturating_mul(listening))
    }

    /// Whoever panicked while it held the lock left the map whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, watch::Sender<()>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Waits until there is a reason to look again; an error if nobody may listen any more.
    ///
    /// Nothing is lost if it is dropped half-way.
    pub async fn heard(&mut self) -> Result<(), Error> {
        let pause = self.changes.pause();
        tokio::select! {
            biased;
            rung = self.rung() => rung,
            () = sleep(pause) => Ok(()),
        }
    }

    /// The same for whoever has a pace of its own at which it looks without having heard anything.
    pub async fn rung(&mut self) -> Result<(), Error> {
        tokio::select! {
            biased;
            _ = self.closed.wait_for(|closed| *closed) => Err(closing()),
            rung = self.rung.changed() => rung.map_err(|_| closing()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut channels = self.changes.lock();
        // Its own ear is still open here.
        if channels.get(&self.tenant).is_some_and(|channel| channel.receiver_count() <= 1) {
            channels.remove(&self.tenant);
        }
    }
}

fn closing() -> Error {
    Error::Stopped("nobody may listen any more: the server is closing".into())
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("listeners", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
