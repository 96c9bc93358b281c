//! Takes what waits and has it carried out. Orders that can be are carried out together, a few
//! batches at once, each of which is whatever arrived while the others were on their way. Whatever
//! might keep these waiting has a queue of its own: orders that must be alone, orders for what
//! somebody holds, claims that found only what somebody holds, and the passing of time.

use std::sync::Arc;
use std::time::Duration;

use baton_domain::Refusal;
use baton_domain::key::KeyId;
use baton_domain::time::Timestamp;
use tokio::sync::{Mutex, Notify, Semaphore};

use super::batch::{self, Answered};
use super::manner::{Manner, Tasks};
use super::records::find_tenant;
use super::step::{Step, is_alone};
use super::trouble::Trouble;
use super::wire::params;
use super::{Shared, audit, bells, keys, records, sweep};
use crate::Error;
use crate::inbox::{Inbox, Job, Work};
use crate::keys::USES_MAX;
use crate::order::{Aim, Committed};

/// Orders in one transaction: bounds how long the first of them waits.
const BATCH_MAX: usize = 256;
/// Batches that are under way together, one of which locks and judges while the other is committed.
/// More of them would only wait for each other's positions, and hold fewer orders each.
pub(super) const TOGETHER: usize = 2;
/// How long the next batch waits for its turn: one that has to wait for somebody else keeps nobody.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where an order waits, and how it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// With others.
    Together,
    /// By itself, and after whoever holds what it is about.
    Alone,
    /// Claims that stepped over what somebody held.
    Hungry,
    /// The passing of time.
    Sweeps,
}

/// The turn of a batch that locks and judges. It ends with the batch at the latest.
#[derive(Default)]
pub(super) struct Turn(Arc<Notify>);

impl Turn {
    /// Lets the next batch have its turn.
    pub(super) fn end(&self) {
        self.0.notify_one();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

/// Places for batches that are under way together.
struct Places(Semaphore);

impl Default for Places {
    fn default() -> Self {
        Self(Semaphore::new(TOGETHER))
    }
}

/// What waits in each queue.
#[derive(Default)]
pub(super) struct Queues {
    together: Inbox,
    /// Held by the batch that locks and judges: whatever arrives meanwhile is the next one.
    turn: Mutex<()>,
    /// Held until a batch is committed.
    places: Places,
    alone: Inbox,
    hungry: Inbox,
    sweeps: Inbox,
}

impl Queues {
    /// Where an order waits first.
    pub(super) fn of(&self, aim: &Aim) -> &Inbox {
        match aim {
            Aim::Sweep(_) => &self.sweeps,
            aim if is_alone(aim) => &self.alone,
            Aim::Task(..)
            | Aim::Birth(..)
            | Aim::Next(_)
            | Aim::Record(..)
            | Aim::Key(_)
            | Aim::Channel(_) => &self.together,
        }
    }

    /// Where what is no order waits.
    pub(super) fn besides(&self) -> &Inbox {
        &self.alone
    }

    fn get(&self, queue: Queue) -> &Inbox {
        match queue {
            Queue::Together => &self.together,
            Queue::Alone => &self.alone,
            Queue::Hungry => &self.hungry,
            Queue::Sweeps => &self.sweeps,
        }
    }

    /// How many orders wait.
    pub(super) fn waiting(&self) -> usize {
        self.together.waiting() + self.alone.waiting() + self.hungry.waiting()
    }

    /// Nothing more is accepted; what waits is still carried out.
    pub(super) fn close(&self) {
        for inbox in [&self.together, &self.alone, &self.hungry, &self.sweeps] {
            inbox.close();
        }
    }
}

/// Works until the queue is closed and empty.
pub(super) async fn work(shared: Arc<Shared>, queue: Queue) {
    let count_max = match queue {
        Queue::Together | Queue::Hungry => BATCH_MAX,
        Queue::Alone | Queue::Sweeps => 1,
    };
    loop {
        // What arrives while two batches are under way is one batch when the first of them is done.
        let held = match queue {
            Queue::Together => {
                let place = shared.queues.places.0.acquire().await.ok();
                place.zip(Some(shared.queues.turn.lock().await))
            }
            Queue::Alone | Queue::Hungry | Queue::Sweeps => None,
        };
        let batch = shared.queues.get(queue).next(count_max).await;
        if batch.is_empty() {
            return;
        }
        let (own, turn) = (Arc::clone(&shared), Turn::default());
        let judged = Arc::clone(&turn.0);
        // A panic is the matter of the batch that brought it about: its callers see that nobody
        // knows, and the next batch is taken as ever.
        let mut carried = tokio::spawn(async move { carry_out(&own, queue, batch, turn).await });
        let mut in_time = None;
        if let Some((place, turn)) = held {
            drop(tokio::time::timeout(PATIENCE, judged.notified()).await);
            drop(turn);
            in_time = tokio::time::timeout(PATIENCE, &mut carried).await.ok();
            drop(place);
        }
        let ended = match in_time {
            Some(ended) => ended,
            None => carried.await,
        };
        if ended.is_err() {
            tracing::error!("a batch broke");
        }
    }
}

async fn carry_out(shared: &Arc<Shared>, queue: Queue, batch: Vec<Work>, turn: Turn) {
    let mut jobs = vec![];
    for work in batch {
        match (work, queue) {
            (Work::Order(job), Queue::Together | Queue::Hungry) => jobs.push(*job),
            (Work::Order(job), Queue::Alone | Queue::Sweeps) => {
                let answer = one(shared, &job).await;
                drop(job.reply.send(answer));
            }
            (Work::Seal(seals, reply), _) => {
                drop(reply.send(audit::write_seals(shared, seals).await));
            }
            (Work::Uses(uses, reply), _) => drop(reply.send(touch(shared, uses).await)),
        }
    }
    match queue {
        Queue::Together => together(shared, jobs, &turn).await,
        Queue::Hungry => hungry(shared, jobs).await,
        Queue::Alone | Queue::Sweeps => {}
    }
}

/// Carries out orders together. Those for what somebody holds wait elsewhere, so that nobody waits
/// for them.
async fn together(shared: &Shared, jobs: Vec<Job>, turn: &Turn) {
    let answered = orders(shared, &jobs, Manner::Together(turn)).await;
    for job in reply(jobs, answered.answers) {
        let queue = match job.order.aim {
            Aim::Next(_) => Queue::Hungry,
            Aim::Task(..)
            | Aim::Birth(..)
            | Aim::Record(..)
            | Aim::Key(_)
            | Aim::Channel(_)
            | Aim::Sweep(_) => Queue::Alone,
        };
        shared.queues.get(queue).hand_on(job);
    }
}

/// Claims that found only what somebody held are tried once more, and then after waiting for it. If
/// it is still not let go of, there is nothing to claim, but whoever waits for work is woken soon.
async fn hungry(shared: &Arc<Shared>, jobs: Vec<Job>) {
    let again = orders(shared, &jobs, Manner::Hungry(&Tasks::new())).await;
    let jobs = reply(jobs, again.answers);
    if jobs.is_empty() {
        return;
    }
    let last = orders(shared, &jobs, Manner::Hungry(&again.stepped_over)).await;
    let given_up = |answer: Option<Result<Committed, Error>>| match answer {
        Some(Err(Error::Overloaded)) | None => None,
        answer => answer,
    };
    for job in reply(jobs, last.answers.into_iter().map(given_up).collect()) {
        bells::ring_soon(shared, &job.order.tenant);
        drop(job.reply.send(Err(Error::Refused(Refusal::NothingClaimable))));
    }
}

/// Tells every caller its answer; gives back those that have none yet.
fn reply(jobs: Vec<Job>, answers: Vec<Option<Result<Committed, Error>>>) -> Vec<Job> {
    let mut left = vec![];
    for (job, answer) in jobs.into_iter().zip(answers) {
        match answer {
            // A caller that has gone away will find its answer by its request key.
            Some(answer) => drop(job.reply.send(answer)),
            None => left.push(job),
        }
    }
    left
}

async fn one(shared: &Shared, job: &Job) -> Result<Committed, Error> {
    match &job.order.aim {
        Aim::Sweep(count_max) => sweep::run(shared, *count_max).await,
        Aim::Record(..) | Aim::Key(_) | Aim::Channel(_) => records::run(shared, &job.order).await,
        Aim::Task(..) | Aim::Birth(..) | Aim::Next(_) => {
            let answered = orders(shared, std::slice::from_ref(job), Manner::Alone).await;
            let answer = answered.answers.into_iter().next().flatten();
            answer.unwrap_or(Err(Error::Internal("no answer".into())))
        }
    }
}

/// Carries out orders about tasks, those of tenants that nobody has heard of excepted.
async fn orders(shared: &Shared, jobs: &[Job], manner: Manner<'_>) -> Answered {
    let nothing = || Some(Err(Error::Internal("no answer".into())));
    let mut answers: Vec<Option<Result<Committed, Error>>> =
        jobs.iter().map(|_| nothing()).collect();
    let (mut steps, mut places) = (vec![], vec![]);
    for (at, job) in jobs.iter().enumerate() {
        match tenant(shared, job).await {
            Ok(tenant) => {
                if let Some(step) = Step::of(&job.order, tenant) {
                    steps.push(step);
                    places.push(at);
                }
            }
            Err(error) => answers[at] = Some(Err(error)),
        }
    }
    let mut stepped_over = Tasks::new();
    if !steps.is_empty() {
        let answered = batch::run(shared, &steps, manner).await;
        stepped_over = answered.stepped_over;
        for (at, answer) in places.into_iter().zip(answered.answers) {
            answers[at] = answer;
        }
    }
    if !shared.known().aside.is_empty() {
        for job in jobs {
            if let Aim::Task(id, _) = &job.order.aim {
                shared.known().aside.remove(&(job.order.tenant.clone(), *id));
            }
        }
    }
    Answered { answers, stepped_over }
}
async fn tenant(shared: &Shared, job: &Job) -> Result<i64, Error> {
    let name = &job.order.tenant;
    if let Some(tenant) = shared.known_tenant(name) {
        return Ok(tenant);
    }
    let found = async {
        let mut lent = shared.writers.get().await?;
        find_tenant(&mut lent, name).await
    };
    match found.await.map_err(|trouble: Trouble| trouble.told())? {
        Some(tenant) => {
            shared.know_tenant(name, tenant);
            Ok(tenant)
        }
        None if shared.is_full() && !job.order.ends_work() => Err(Error::DiskFull),
        None => Err(Error::Refused(match &job.order.aim {
            Aim::Next(_) => Refusal::NothingClaimable,
            Aim::Task(..)
            | Aim::Birth(..)
            | Aim::Record(..)
            | Aim::Key(_)
            | Aim::Channel(_)
            | Aim::Sweep(_) => Refusal::NotFound,
        })),
    }
}

/// Notes when keys were last used; of a key that is gone nothing is noted.
async fn touch(shared: &Shared, uses: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
    if shared.is_full() {
        return Ok(());
    }
    let mut latest = std::collections::BTreeMap::new();
    for (id, at) in uses.into_iter().take(USES_MAX) {
        let known = latest.entry(id.as_str().to_owned()).or_insert(at.0);
        *known = at.0.max(*known);
    }
    let (ids, times): (Vec<String>, Vec<i64>) = latest.into_iter().unzip();
    let touched = async {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        lent.query(keys::TOUCH, params![ids, times]).await?;
        lent.done();
        Ok(())
    };
    touched.await.map_err(|trouble: Trouble| trouble.told())
}
