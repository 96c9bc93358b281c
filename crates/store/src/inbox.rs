//! Orders that wait for a writer: bounded, fair between tenants, ends of work first. The same for
//! every database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use baton_domain::ids::TenantId;
use baton_domain::key::KeyId;
use baton_domain::time::Timestamp;
use tokio::sync::{Notify, oneshot};

use crate::Error;
use crate::chain::Seal;
use crate::order::{Aim, Committed, Order};

/// Orders that may wait; beyond this a caller is told at once that nothing happened.
const WAITING_MAX: usize = 8_192;
/// Of these, places that only ends of work may take.
const RESERVED: usize = 1_024;
/// Bytes that may wait, roughly: what is accepted is in memory until it is written.
const BYTES_MAX: usize = 64 << 20;
/// Of these, what only ends of work may take.
const BYTES_RESERVED: usize = 8 << 20;
/// Orders of one tenant that may wait: no tenant fills the place of all.
const TENANT_MAX: usize = WAITING_MAX / 2;
/// Sweeps and seals that may wait: each does what all of them would.
const SWEEPS_MAX: usize = 64;
/// Orders of one tenant that are taken before the next tenant's turn comes.
const TURN: usize = 64;

/// An order, and where its answer goes.
pub(crate) struct Job {
    pub(crate) order: Order,
    /// How much room it takes while it waits.
    pub(crate) bytes: usize,
    pub(crate) reply: oneshot::Sender<Result<Committed, Error>>,
}

/// Something that the writer is asked to do.
pub(crate) enum Work {
    /// Carry out an order.
    Order(Box<Job>),
    /// Write these seals.
    Seal(Vec<(i64, Seal)>, oneshot::Sender<Result<(), Error>>),
    /// Note when these keys were last used.
    Uses(Vec<(KeyId, Timestamp)>, oneshot::Sender<Result<(), Error>>),
}

/// What one tenant waits for.
#[derive(Default)]
struct Waiting {
    ends: VecDeque<Box<Job>>,
    rest: VecDeque<Box<Job>>,
    bytes: usize,
}

#[derive(Default)]
struct Queues {
    by_tenant: HashMap<TenantId, Waiting>,
    turns: VecDeque<TenantId>,
    sweeps: VecDeque<Work>,
    waiting: usize,
    bytes: usize,
    closed: bool,
}

/// Orders that wait for the writer.
#[derive(Default)]
pub(crate) struct Inbox {
    queues: Mutex<Queues>,
    arrived: Condvar,
    /// The same, for writers that do not block.
    heard: Notify,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.arrived.notify_one();
        self.heard.notify_one();
    }

    /// Lets an order wait, or says why not.
    pub(crate) fn push(&self, job: Job) -> Result<(), Error> {
        let mut queues = self.lock();
        queues.admit(&job)?;
        queues.place(job);
        self.ring();
        Ok(())
    }

    /// Lets an order wait that another queue had accepted; one that finds no place is answered.
    pub(crate) fn hand_on(&self, job: Job) {
        let mut queues = self.lock();
        match queues.admit(&job) {
            Ok(()) => {
                queues.place(job);
                self.ring();
            }
            Err(error) => drop(job.reply.send(Err(error))),
        }
    }

    /// Asks for seals to be written; once closed, whoever waits for the reply sees it dropped.
    pub(crate) fn push_seals(
        &self,
        seals: Vec<(i64, Seal)>,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        let mut queues = self.lock();
        if !queues.closed {
            queues.sweeps.push_back(Work::Seal(seals, reply));
            self.ring();
        }
    }

    /// Asks for uses of keys to be noted.
    pub(crate) fn push_uses(
        &self,
        uses: Vec<(KeyId, Timestamp)>,
        reply: oneshot::Sender<Result<(), Error>>,
    ) -> Result<(), Error> {
        let mut queues = self.lock();
        if queues.closed {
            return Err(Error::Stopped("the store is closed".into()));
        }
        if queues.sweeps.len() >= SWEEPS_MAX {
            return Err(Error::Overloaded);
        }
        queues.sweeps.push_back(Work::Uses(uses, reply));
        self.ring();
        Ok(())
    }

    /// How many orders wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Nothing more is accepted; what waits is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
        self.heard.notify_waiters();
        self.heard.notify_one();
    }

    /// Waits for work and takes up to `count_max` of it; nothing once closed and empty.
    pub(crate) fn take(&self, count_max: usize) -> Vec<Work> {
        let mut queues = self.lock();
        while queues.waiting == 0 && queues.sweeps.is_empty() {
            if queues.closed {
                return vec![];
            }
            queues = self.arrived.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
        queues.take_some(count_max)
    }

    /// The same without blocking a thread.
    pub(crate) async fn next(&self, count_max: usize) -> Vec<Work> {
        loop {
            // Whoever rings between the look and the wait is heard: a ring is kept for the next wait.
            if !self.lock().has_news() {
                self.heard.notified().await;
            }
            // Callers that were answered together ask again together: all who can run do so before
            // the batch is taken, or the first of them would be a batch by itself.
            tokio::task::yield_now().await;
            let mut queues = self.lock();
            if queues.has_news() {
                let batch = queues.take_some(count_max);
                let more = queues.waiting > 0 || queues.closed;
                drop(queues);
                if more {
                    // One ring may stand for many orders: the next writer is woken by this one.
                    self.heard.notify_one();
                }
                return batch;
            }
        }
    }
}

impl Queues {
    /// Whether a writer has something to do, or to end.
    fn has_news(&self) -> bool {
        self.waiting > 0 || !self.sweeps.is_empty() || self.closed
    }

    /// Whether an order may wait.
    fn admit(&self, job: &Job) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Stopped("the store is closed".into()));
        }
        if let Aim::Sweep(_) = job.order.aim {
            return if self.sweeps.len() < SWEEPS_MAX { Ok(()) } else { Err(Error::Overloaded) };
        }
        let (orders_max, bytes_max) = if job.order.ends_work() {
            (WAITING_MAX, BYTES_MAX)
        } else {
            (WAITING_MAX - RESERVED, BYTES_MAX - BYTES_RESERVED)
        };
        if self.waiting >= orders_max || self.bytes + job.bytes > bytes_max {
            return Err(Error::Overloaded);
        }
        let own = self.by_tenant.get(&job.order.tenant);
        let (own, own_bytes) =
            own.map_or((0, 0), |own| (own.ends.len() + own.rest.len(), own.bytes));
        if own >= TENANT_MAX || own_bytes + job.bytes > BYTES_MAX / 2 {
            return Err(Error::Overloaded);
        }
        Ok(())
    }

    fn place(&mut self, job: Job) {
        if let Aim::Sweep(_) = job.order.aim {
            self.sweeps.push_back(Work::Order(Box::new(job)));
            return;
        }
        let ends = job.order.ends_work();
        let tenant = job.order.tenant.clone();
        self.waiting += 1;
        self.bytes += job.bytes;
        if !self.by_tenant.contains_key(&tenant) {
            self.turns.push_back(tenant.clone());
        }
        let waiting = self.by_tenant.entry(tenant).or_default();
        waiting.bytes += job.bytes;
        let queue = if ends { &mut waiting.ends } else { &mut waiting.rest };
        queue.push_back(Box::new(job));
    }

    fn take_some(&mut self, count_max: usize) -> Vec<Work> {
        let mut batch: Vec<Work> = self.sweeps.drain(..).collect();
        while batch.len() < count_max && self.take_turn(&mut batch, count_max) {}
        batch
    }

    /// Takes what the next tenant's turn allows; false when nobody waits.
    fn take_turn(&mut self, batch: &mut Vec<Work>, count_max: usize) -> bool {
        let Some(tenant) = self.turns.pop_front() else { return false };
        let Some(waiting) = self.by_tenant.get_mut(&tenant) else { return true };
        for _ in 0..TURN.min(count_max - batch.len()) {
            let job = waiting.ends.pop_front().or_else(|| waiting.rest.pop_front());
            let Some(job) = job else { break };
            self.waiting -= 1;
            self.bytes -= job.bytes;
            waiting.bytes -= job.bytes;
            batch.push(Work::Order(job));
        }
        if waiting.ends.is_empty() && waiting.rest.is_empty() {
            self.by_tenant.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        true
    }
}

#[cfg(test)]
mod tests;
