//! Claimers that wait for work: whoever came first is woken first, one of each errand for each freed item.
//!
//! A wake-up carries no data and may be lost; whoever is woken looks for itself. What makes it
//! work is bookkeeping: a claimer queues here *before* it looks, so nothing is freed unseen
//! between looking and waiting, and a wake-up that its claimer could not use goes on to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_domain::Refusal;
use baton_domain::ids::{PrincipalId, TenantId};
use baton_domain::lane::{Claimant, Lane, Sort, Wants};
use baton_domain::run::{Held, Purpose};
use baton_domain::task::Flow;
use baton_store::{Bell, Error, Freed};
use tokio::sync::{Notify, watch};

use crate::changes::Changes;
use crate::metrics::{Wake, Wakes};

/// Claimers of one tenant that may wait at once: each costs a comparison per freed item.
pub const WAITERS_MAX: usize = 1_000;

/// Everybody who waits, by tenant, in the order in which they came.
pub struct Waiters {
    queues: Mutex<Queues>,
    closed: watch::Sender<bool>,
    count_max: usize,
    wakes: Wakes,
    /// Who waits for something to read rather than for work; the same bell rings for them.
    changes: Arc<Changes>,
}

#[derive(Default)]
struct Queues {
    last: u64,
    of: HashMap<TenantId, BTreeMap<u64, Waiting>>,
}

/// A claimer in the queue.
struct Waiting {
    claimant: Claimant,
    /// Why it should look again; taken when it looks.
    cause: Option<Cause>,
    notify: Arc<Notify>,
}

/// Why somebody was woken.
#[derive(Clone, Debug)]
enum Cause {
    /// A run joined this lane; nobody else was told.
    Lane(Lane),
    /// Pools have room; everybody was told.
    Pools,
}

/// A claimer in the queue. Dropping it leaves the queue and hands on what it did not use.
pub struct Ticket {
    waiters: Arc<Waiters>,
    tenant: TenantId,
    number: u64,
    notify: Arc<Notify>,
    closed: watch::Receiver<bool>,
    /// Why it is looking now; settled by what it finds.
    cause: Option<Cause>,
}

impl Waiters {
    /// Nobody waits yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::at_most(WAITERS_MAX)
    }

    /// Nobody waits yet, and at most so many of one tenant ever will.
    #[must_use]
    pub fn at_most(count_max: usize) -> Arc<Self> {
        let (closed, _) = watch::channel(false);
        let (wakes, changes) = (Wakes::default(), Changes::new());
        Arc::new(Self { queues: Mutex::default(), closed, count_max, wakes, changes })
    }

    /// Who waits for something to read.
    #[must_use]
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// What a store calls after each commit that frees or adds something.
    #[must_use]
    pub fn bell(self: &Arc<Self>) -> Bell {
        let waiters = Arc::clone(self);
        Arc::new(move |freed| waiters.ring(freed))
    }

    /// Joins the queue; refused when it is full or closed.
    pub fn join(self: &Arc<Self>, tenant: &TenantId, claimant: &Claimant) -> Result<Ticket, Error> {
        let closed = self.closed.subscribe();
        if *closed.borrow() {
            return Err(closing());
        }
        let notify = Arc::new(Notify::new());
        let mut queues = self.lock();
        let number = queues.last + 1;
        let queue = queues.of.entry(tenant.clone()).or_default();
        if queue.len() >= self.count_max {
            return Err(Error::Overloaded);
        }
        let waiting =
            Waiting { claimant: claimant.clone(), cause: None, notify: Arc::clone(&notify) };
        queue.insert(number, waiting);
        queues.last = number;
        self.wakes.waiting.inc();
        drop(queues);
        let waiters = Arc::clone(self);
        Ok(Ticket { waiters, tenant: tenant.clone(), number, notify, closed, cause: None })
    }

    /// Lets nobody wait any more; whoever does is told to go.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Whether nobody may wait any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// How many wait, over all tenants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().of.values().map(BTreeMap::len).sum()
    }

    /// How many of this tenant wait for work.
    #[must_use]
    pub fn len_of(&self, tenant: &TenantId) -> usize {
        let queues = self.lock();
        let all = queues.of.get(tenant).into_iter().flat_map(BTreeMap::values);
        all.filter(|waiting| waiting.claimant.wants.is_work()).count()
    }

    /// Who of this tenant waits, and for what.
    #[must_use]
    pub fn staff(&self, tenant: &TenantId) -> Vec<Claimant> {
        let queues = self.lock();
        let all = queues.of.get(tenant).into_iter().flat_map(BTreeMap::values);
        all.map(|waiting| waiting.claimant.clone()).collect()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who was woken, and why.
    #[must_use]
    pub fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    /// Lanes come first: who is woken does not depend on the order in which a store tells.
    fn ring(&self, freed: &[Freed]) {
        for freed in freed {
            if let Freed::Entries(tenant) = freed {
                self.changes.ring(tenant);
            }
        }
        let mut queues = self.lock();
        for freed in freed {
            if let Freed::Lane(tenant, lane) = freed
                && let Some(queue) = queues.of.get_mut(tenant)
            {
                self.wake_first(queue, lane, 0, Wake::Lane);
            }
        }
        for freed in freed {
            if let Freed::Pools(tenant) = freed
                && let Some(queue) = queues.of.get_mut(tenant)
            {
                for waiting in queue.values_mut().filter(|waiting| waiting.cause.is_none()) {
                    self.wakes.woken(Wake::Pools);
                    waiting.wake(Cause::Pools);
                }
            }
        }
    }

    /// Wakes the first after `number` that may take from the lane and is not awake already. If all
    /// are awake, each of them looks after this, so none is needed. A lane does not know who works its
    /// stage, so the first of every errand is woken.
    fn wake_first(&self, queue: &mut BTreeMap<u64, Waiting>, lane: &Lane, number: u64, why: Wake) {
        let mut errands = BTreeSet::new();
        for waiting in queue.range_mut((Excluded(number), Unbounded)).map(|(_, waiting)| waiting) {
            let fits = waiting.cause.is_none() && lane.admits(&waiting.claimant);
            if fits && errands.insert(Errand::of(&waiting.claimant)) {
                self.wakes.woken(why);
                waiting.wake(Cause::Lane(lane.clone()));
            }
        }
    }

    /// Whoever panicked while it held the lock left the queue whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody waits for: whoever has another errand may be let in where this one is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Errand {
    Work,
    Probe,
    Check,
    /// Only the home of a project merges, and each has its own.
    Merge(PrincipalId),
}

impl Errand {
    fn of(claimant: &Claimant) -> Self {
        match claimant.wants {
            Wants::Ready | Wants::ReadyOrBlocked | Wants::Blocked => Self::Work,
            Wants::Probe => Self::Probe,
            Wants::Submitted => Self::Check,
            Wants::Merges => Self::Merge(claimant.principal.clone()),
        }
    }
}

impl Waiting {
    fn wake(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.notify.notify_one();
    }
}

impl Ticket {
    /// Begins to look: whatever is freed from here on wakes it again.
    pub fn look(&mut self) {
        let mut queues = self.waiters.lock();
        let waiting = queues.of.get_mut(&self.tenant).and_then(|queue| queue.get_mut(&self.number));
        self.cause = waiting.and_then(|waiting| waiting.cause.take());
    }

    /// It got this task. If that was not what it was woken for, somebody else should look.
    pub fn found(&mut self, flow: &Flow) {
        match self.cause.take() {
            Some(Cause::Lane(lane)) if !came_from(&lane, flow) => self.hand_on(&lane),
            Some(Cause::Lane(_) | Cause::Pools) | None => {}
        }
    }

    /// It got nothing. If only its own limits stood in the way, somebody else should look.
    pub fn found_nothing(&mut self, claimant: &Claimant, refusal: &Refusal) {
        match self.cause.take() {
            Some(Cause::Lane(lane)) if !is_shut_for_all(&lane, claimant, refusal) => {
                self.hand_on(&lane);
            }
            Some(Cause::Lane(_) | Cause::Pools) | None => {}
        }
    }

    /// Waits until there is a reason to look again; an error if nobody may wait any more.
    pub async fn woken(&mut self) -> Result<(), Error> {
        while !self.is_woken() {
            tokio::select! {
                () = self.notify.notified() => {}
                _ = self.closed.wait_for(|closed| *closed) => return Err(closing()),
            }
        }
        Ok(())
    }

    fn is_woken(&self) -> bool {
        let queues = self.waiters.lock();
        let waiting = queues.of.get(&self.tenant).and_then(|queue| queue.get(&self.number));
        waiting.is_some_and(|waiting| waiting.cause.is_some())
    }

    /// Those who came before were awake when it was, or had no use for it.
    fn hand_on(&self, lane: &Lane) {
        let mut queues = self.waiters.lock();
        if let Some(queue) = queues.of.get_mut(&self.tenant) {
            self.waiters.wake_first(queue, lane, self.number, Wake::HandedOn);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queues = self.waiters.lock();
        let Some(queue) = queues.of.get_mut(&self.tenant) else { return };
        let unseen = queue.remove(&self.number).and_then(|waiting| waiting.cause);
        for cause in self.cause.take().into_iter().chain(unseen) {
            if let Cause::Lane(lane) = cause {
                self.waiters.wake_first(queue, &lane, self.number, Wake::HandedOn);
            }
        }
        if queue.is_empty() {
            queues.of.remove(&self.tenant);
        }
        self.waiters.wakes.waiting.dec();
    }
}

fn closing() -> Error {
    Error::Stopped("no more work is handed out: the server is closing".into())
}

/// Whether a task that was just claimed had queued in this lane.
fn came_from(lane: &Lane, flow: &Flow) -> bool {
    let Some((run, held)) = flow.run.as_ref().and_then(|run| Some((run, run.held()?))) else {
        return false;
    };
    lane.sort == sort_of(held)
        && lane.project == flow.project
        && lane.stage == run.stage
        && lane.priority == flow.priority
        && lane.assignee == flow.assignee
        && lane.ancestors == flow.ancestors
        && lane.key == flow.key
        && lane.budget_micros == flow.policy.budget_micros
        && lane.capabilities.is_superset(&flow.capabilities)
}

fn sort_of(held: &Held) -> Sort {
    match (held.purpose, &held.picked) {
        (Purpose::Verify, _) => Sort::Submitted,
        (Purpose::Probe, _) => Sort::Probe,
        (Purpose::Work | Purpose::Merge, Some(block)) => {
            Sort::Blocked { kind: block.why.kind(), sticky: block.sticky }
        }
        (Purpose::Work | Purpose::Merge, None) => Sort::Ready,
    }
}

/// Whether nobody else could take from the lane either: it is empty, or a limit that all share is
/// reached. The limits of a holder and of an account are its own.
fn is_shut_for_all(lane: &Lane, claimant: &Claimant, refusal: &Refusal) -> bool {
    if let Refusal::HolderFull { .. } = refusal {
        return false;
    }
    let (Refusal::PoolFull { pool } | Refusal::Paused { pool }) = refusal else { return true };
    let mut asked = lane.asks(claimant).map(|ask| ask.pool);
    asked.any(|name| !name.is_of_claimer() && name.to_string() == *pool)
}

#[cfg(test)]
mod tests;
