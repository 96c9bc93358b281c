//! A store with nobody else in it, a clock that stands still, and what a case says to them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use baton_domain::Refusal;
use baton_domain::command::{Agent, Claim, Command, NewTask, Person, Proof, Supervisor};
use baton_domain::history::Past;
use baton_domain::ids::{Nonce, TaskId, TenantId};
use baton_domain::lane::Claimant;
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::{Project, RecordCommand};
use baton_domain::time::{Millis, Timestamp};
use baton_store::clock::ManualClock;
use baton_store::order::Swept;
use baton_store::read::PAGE_MAX;
use baton_store::{
    Actor, Aim, Bell, Committed, Cursor, Entry, Error, Freed, Order, Request, Store, TaskRow,
};

use crate::backend::Backend;
use crate::words::{caller, pipeline, principal, ready, tenant, text};

/// A store and everything around it, as one tenant sees it.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
    pub tenant: TenantId,
}

struct Shared {
    backend: Box<dyn Backend>,
    clock: Arc<ManualClock>,
    rung: Arc<Mutex<Vec<Freed>>>,
    store: Mutex<Option<Arc<dyn Store>>>,
    nonces: AtomicU64,
}

/// What a claim gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grip {
    pub task: TaskId,
    pub attempt: u32,
    pub nonce: Nonce,
}

/// When every case begins: some day in 2027.
const BEGIN: Timestamp = Timestamp(1_800_000_000_000);
/// How often time passes while a case waits: as often as it may without an amnesty.
const SWEEP_EVERY: Millis = Millis::seconds(5);
/// More than any case leaves to do.
const SWEEP_MAX: usize = 1_000;

impl World {
    /// The place that the store is at.
    pub fn backend(&self) -> &dyn Backend {
        self.shared.backend.as_ref()
    }

    /// A fresh store with project `web` of one stage, `coding`.
    pub async fn begin(backend: impl Backend) -> Self {
        let world = Self::empty(backend).await;
        world.put(pipeline("web", &["coding"])).await;
        world
    }

    /// A fresh store without anything.
    pub async fn empty(backend: impl Backend) -> Self {
        Self::under(backend, Arc::new(ManualClock::at(BEGIN))).await
    }

    /// Another fresh store without anything, under the same clock.
    pub async fn beside(&self, backend: impl Backend) -> Self {
        Self::under(backend, Arc::clone(&self.shared.clock)).await
    }

    async fn under(backend: impl Backend, clock: Arc<ManualClock>) -> Self {
        let rung = Arc::default();
        let store = backend.open(clock.clone(), bell(&rung));
        let shared = Shared {
            backend: Box::new(backend),
            clock,
            rung,
            store: Mutex::new(Some(store)),
            nonces: AtomicU64::new(0),
        };
        let world = Self { shared: Arc::new(shared), tenant: tenant("local") };
        // The first sweep of a store must find no lease that it could pity.
        world.sweep().await;
        world
    }

    /// The same store as another tenant sees it, with a project `web` of its own.
    pub async fn tenant(&self, name: &str) -> Self {
        let other = Self { shared: Arc::clone(&self.shared), tenant: tenant(name) };
        other.put(pipeline("web", &["coding"])).await;
        other
    }

    /// The same store as a tenant sees it that has never written anything.
    pub fn stranger(&self, name: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), tenant: tenant(name) }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        let store = self.shared.store.lock().expect("no case panics with the store in its hands");
        Arc::clone(store.as_ref().expect("a store is closed only to be opened again"))
    }

    /// Closes the store and opens it again.
    pub fn reopen(&self) {
        let mut place = self.shared.store.lock().expect("no case panics while it reopens");
        let store = place.take().expect("a store is closed only to be opened again");
        let clock = self.shared.clock.clone();
        *place = Some(self.shared.backend.reopen(store, clock, bell(&self.shared.rung)));
    }

    pub fn now(&self) -> Timestamp {
        baton_store::Clock::now(&*self.shared.clock)
    }

    /// Lets time pass while nobody sweeps.
    pub fn silence(&self, length: Millis) {
        self.shared.clock.advance(length);
    }

    /// Lets time pass, and sweeps as a server does.
    pub async fn wait(&self, length: Millis) {
        let end = self.now() + length;
        while self.now() < end {
            self.shared.clock.advance(end.since(self.now()).min(SWEEP_EVERY));
            self.sweep().await;
        }
    }

    /// Carries out whatever is due or owed.
    pub async fn sweep(&self) -> Swept {
        let swept = self.sweep_some(SWEEP_MAX).await;
        assert!(!swept.more, "a case leaves less to do than one sweep does");
        swept
    }

    pub async fn sweep_some(&self, count_max: usize) -> Swept {
        let swept = self.store().submit(Order::sweep(count_max)).await;
        swept.expect("a sweep is never refused").swept
    }

    /// What became claimable since this was last asked. A store may ring after it has answered,
    /// but not later than before it answers the next order.
    pub async fn rung(&self) -> Vec<Freed> {
        self.sweep_some(0).await;
        let rung = std::mem::take(&mut *self.shared.rung.lock().expect("nobody panics"));
        rung.into_iter().filter(|freed| !matches!(freed, Freed::Entries(_))).collect()
    }

    /// Whose entries the bell told of since somebody last asked.
    pub async fn told(&self) -> BTreeSet<TenantId> {
        self.sweep_some(0).await;
        let rung = std::mem::take(&mut *self.shared.rung.lock().expect("nobody panics"));
        let of = |freed| match freed {
            Freed::Entries(tenant) => Some(tenant),
            Freed::Lane(..) | Freed::Pools(_) => None,
        };
        rung.into_iter().filter_map(of).collect()
    }

    pub async fn order(
        &self,
        actor: Actor,
        aim: Aim,
        request: Option<Request>,
    ) -> Result<Committed, Error> {
        self.store().submit(Order { tenant: self.tenant.clone(), actor, aim, request }).await
    }

    /// Ann orders something.
    pub async fn ask(&self, aim: Aim) -> Result<Committed, Refusal> {
        self.order(caller("ann"), aim, None).await.map_err(refusal)
    }

    pub async fn tell(&self, task: TaskId, says: Person) -> Result<Committed, Refusal> {
        self.ask(Aim::Task(task, vec![Command::Person(says)])).await
    }

    pub async fn birth(&self, new: NewTask) -> Result<TaskId, Refusal> {
        let aim = Aim::Birth(new.project.clone(), vec![Command::Create(Box::new(new))]);
        Ok(self.ask(aim).await?.task.expect("a birth is about a task").id)
    }

    /// A new task that must come to be.
    pub async fn make(&self, new: NewTask) -> TaskId {
        self.birth(new).await.expect("nothing is wrong with this task")
    }

    /// A new task whose run waits for a holder.
    pub async fn queued(&self) -> TaskId {
        self.make(ready("something to do")).await
    }

    /// A wish to hold a run, with a nonce that nobody had before and that needs all its bits.
    pub fn wish(&self, claimant: &Claimant) -> Claim {
        let count = self.shared.nonces.fetch_add(1, Ordering::Relaxed);
        let nonce = Nonce(u128::MAX - u128::from(count));
        Claim { claimant: claimant.clone(), nonce, lease: None }
    }

    /// Claims whatever comes next.
    pub async fn claim(&self, claimant: &Claimant) -> Result<Grip, Refusal> {
        self.grip(Aim::Next(self.wish(claimant))).await
    }

    /// Claims this very task.
    pub async fn take(&self, task: TaskId, claimant: &Claimant) -> Result<Grip, Refusal> {
        self.grip(Aim::Task(task, vec![Command::Claim(self.wish(claimant))])).await
    }

    pub async fn grip(&self, aim: Aim) -> Result<Grip, Refusal> {
        let committed = self.ask(aim).await?;
        let task = committed.task.expect("a claim is about a task").id;
        let lease = committed.lease.expect("a claim gives a lease");
        Ok(Grip { task, attempt: lease.attempt, nonce: lease.nonce })
    }

    pub async fn agent(&self, grip: &Grip, says: Agent) -> Result<Committed, Refusal> {
        self.ask(Aim::Task(grip.task, vec![Command::Agent(grip.proof(), says)])).await
    }

    pub async fn supervisor(&self, grip: &Grip, says: Supervisor) -> Result<Committed, Refusal> {
        self.ask(Aim::Task(grip.task, vec![Command::Supervisor(grip.proof(), says)])).await
    }

    /// Asks something of a record that must not be refused.
    pub async fn record(&self, command: RecordCommand) -> Committed {
        self.ask(Aim::Record(command, None)).await.expect("nothing is wrong with this record")
    }

    pub async fn put(&self, project: Project) {
        self.record(RecordCommand::PutProject(project)).await;
    }

    pub async fn limit(&self, pool: PoolName, limit: u64) {
        self.record(RecordCommand::LimitPool { pool, limit: Some(limit) }).await;
    }

    pub async fn row(&self, task: TaskId) -> TaskRow {
        let row = self.store().task(&self.tenant, task).await;
        row.expect("reading works").what.expect("the task is there")
    }

    pub async fn history(&self, task: TaskId) -> Vec<Past> {
        let mut records = vec![];
        let mut after = None;
        loop {
            let page = self.store().history(&self.tenant, task, after, PAGE_MAX).await;
            let page = page.expect("reading works");
            records.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return records;
            }
        }
    }

    pub async fn pool(&self, name: &PoolName) -> Option<Pool> {
        let rows = self.store().pools(&self.tenant, None, PAGE_MAX).await.expect("reading works");
        rows.rows.into_iter().find(|row| row.name == *name).map(|row| row.pool)
    }

    /// Every entry after a position, page by page.
    pub async fn entries_after(&self, position: u64) -> Vec<Entry> {
        let mut after = Cursor { incarnation: 0, position };
        let mut entries = vec![];
        loop {
            let page = self.store().entries(&self.tenant, after, PAGE_MAX).await;
            let page = page.expect("reading works");
            entries.extend(page.rows);
            after.position = page.as_of;
            if !page.more {
                return entries;
            }
        }
    }

    pub async fn entries(&self) -> Vec<Entry> {
        self.entries_after(0).await
    }
}

impl Grip {
    pub fn proof(&self) -> Proof {
        Proof::Token { attempt: self.attempt, nonce: self.nonce }
    }
}

/// A key for a request, and a fingerprint of what it is for.
pub fn request(key: &str, what: u8) -> Option<Request> {
    Some(Request { key: text(key), fingerprint: [what; 32], asked_in: None })
}

/// The refusal behind an answer; a case that meets anything else has failed.
pub fn refusal(error: Error) -> Refusal {
    let Error::Refused(refusal) = error else { panic!("the store failed: {error}") };
    refusal
}

/// The proof of a caller by its name alone.
pub fn as_caller(attempt: u32, name: &str) -> Proof {
    Proof::Caller { attempt, principal: principal(name) }
}

fn bell(rung: &Arc<Mutex<Vec<Freed>>>) -> Bell {
    let rung = Arc::clone(rung);
    Arc::new(move |freed: &[Freed]| {
        rung.lock().expect("nobody panics while listening").extend_from_slice(freed);
    })
}
