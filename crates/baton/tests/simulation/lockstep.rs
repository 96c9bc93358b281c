//! A store in lockstep with the simulation: every answer is there at once, and some are lost.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;
use baton_store::chain::Audit;
use baton_store::{
    Aim, Answer, ChannelRow, Clock, Committed, Cursor, Entry, Error, Filter, Health, HistoryKey,
    KeyFound, KeyRow, List, Order, Page, PastId, PoolRow, RunFilter, RunFull, RunRow, Stats, Store,
    TaskRow, Tenants, Told,
};
use baton_testkit::chance::Chance;

use crate::sightings::{Sight, Sightings};
use crate::vocabulary::tenant;

/// What goes wrong between the engine and its store.
pub struct Faults {
    chance: Chance,
    /// How often an order gets no good answer, in this run.
    rate: f64,
    pub on: bool,
    /// Whether the bell is lost just now.
    pub mute: bool,
}

/// What becomes of an order.
enum Fate {
    Answered,
    Overloaded,
    /// It never arrives, and nobody can tell.
    LostBefore,
    /// It is carried out, and nobody can tell.
    LostAfter,
}

impl Faults {
    /// Half of all runs know no faults at all, so that rare mixtures of others are seen, too.
    pub fn new(mut chance: Chance) -> Self {
        let rate = *chance.pick(&[0.0, 0.0, 0.02, 0.2]);
        Self { chance, rate, on: true, mute: false }
    }

    fn fate(&mut self) -> Fate {
        if !self.on || !self.chance.chance(self.rate) {
            return Fate::Answered;
        }
        match self.chance.below(3) {
            0 => Fate::Overloaded,
            1 => Fate::LostBefore,
            _ => Fate::LostAfter,
        }
    }
}

/// When somebody last watched the time, and until when leases live on for it: the store's own
/// rule, kept here a second time to hold the store to it.
pub struct Watch {
    watched_at: Timestamp,
    pub amnesty: Timestamp,
}

impl Watch {
    pub fn starting_at(now: Timestamp) -> Self {
        Self { watched_at: now, amnesty: Timestamp(0) }
    }

    /// An order arrives; tells whether it brought an amnesty.
    fn hear(&mut self, order: &Order, now: Timestamp, has_leases: impl FnOnce() -> bool) -> bool {
        let silent = now.since(self.watched_at) > SILENCE_MAX;
        if silent || matches!(order.aim, Aim::Sweep(_)) {
            self.watched_at = now;
        }
        let granted = silent && has_leases();
        if granted {
            self.amnesty = now + AMNESTY;
        }
        granted
    }
}

pub struct Lockstep {
    inner: Mutex<Option<Arc<dyn Store>>>,
    clock: Arc<dyn Clock>,
    watch: Arc<Mutex<Watch>>,
    faults: Arc<Mutex<Faults>>,
    sightings: Arc<Mutex<Sightings>>,
    /// Requests that were carried out, whether or not anybody was told.
    done: Mutex<BTreeSet<String>>,
}

impl Lockstep {
    pub fn new(
        store: Arc<dyn Store>,
        (clock, watch): (Arc<dyn Clock>, Arc<Mutex<Watch>>),
        faults: Arc<Mutex<Faults>>,
        sightings: Arc<Mutex<Sightings>>,
    ) -> Self {
        let (inner, done) = (Mutex::new(Some(store)), Mutex::default());
        Self { inner, clock, watch, faults, sightings, done }
    }

    fn has_leases(&self) -> bool {
        let filter = Filter { count_max: 500, ..Filter::default() };
        let page = now(self.inner().tasks(&tenant(), filter)).expect("it can be read");
        page.rows.iter().any(|row| row.lease.is_some())
    }

    /// Takes the store away and brings back another, with nobody holding on to the first.
    pub fn exchange(&self, reopen: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) {
        let store = self.inner.lock().expect("one thread").take().expect("there is a store");
        *self.inner.lock().expect("one thread") = Some(reopen(store));
    }

    fn inner(&self) -> Arc<dyn Store> {
        self.inner.lock().expect("one thread").clone().expect("there is a store")
    }

    fn saw(&self, sight: Sight) {
        self.sightings.lock().expect("one thread").saw(sight);
    }

    fn carry_out(&self, order: Order) -> Result<Committed, Error> {
        let fate = self.faults.lock().expect("one thread").fate();
        match fate {
            Fate::Answered => self.hand_over(order),
            Fate::Overloaded => Err(Error::Overloaded),
            Fate::LostBefore => {
                self.saw(Sight::UnknownThatDidNotHappen);
                Err(Error::Unknown("the simulation lost the order".into()))
            }
            Fate::LostAfter => {
                if self.hand_over(order).is_ok() {
                    self.saw(Sight::UnknownThatHappened);
                }
                Err(Error::Unknown("the simulation lost the answer".into()))
            }
        }
    }
}

impl Lockstep {
    /// A request is carried out once, however often it comes.
    fn hand_over(&self, order: Order) -> Result<Committed, Error> {
        let mut watch = self.watch.lock().expect("one thread");
        if watch.hear(&order, self.clock.now(), || self.has_leases()) {
            self.saw(Sight::Amnesty);
        }
        drop(watch);
        let key = order.request.as_ref().map(|request| request.key.to_string());
        let answer = now(self.inner().submit(order));
        if let Some(key) = key {
            let mut done = self.done.lock().expect("one thread");
            let before = done.contains(&key);
            match &answer {
                Ok(committed) => assert_eq!(committed.replayed, before, "{key} is done once"),
                Err(_) => assert!(!before, "{key} was done and is refused now"),
            }
            if answer.is_ok() {
                done.insert(key);
            }
        }
        answer
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer on this thread, so that what other threads do is one step for us.
pub fn now<T>(answer: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(std::future::ready(answer))
}

impl Store for Lockstep {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        ready(self.carry_out(order))
    }

    fn incarnation(&self) -> u64 {
        self.inner().incarnation()
    }

    fn deployment(&self) -> DeploymentId {
        self.inner().deployment()
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        ready(now(self.inner().task(tenant, id)))
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        ready(now(self.inner().tasks(tenant, filter)))
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        ready(now(self.inner().runs(tenant, filter)))
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        ready(now(self.inner().run(tenant, id)))
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        ready(now(self.inner().history(tenant, id, after, count_max)))
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        ready(now(self.inner().past(tenant, id, which)))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        ready(now(self.inner().entries(tenant, after, count_max)))
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        ready(now(self.inner().entries_of(tenant, id, from_version, count_max)))
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        ready(now(self.inner().entries_at(tenant, id, versions)))
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        ready(now(self.inner().receipt(tenant, id, line)))
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        ready(now(self.inner().projects(tenant, after, count_max)))
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        ready(now(self.inner().pools(tenant, after, count_max)))
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        ready(now(self.inner().stats(tenant, project)))
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        ready(now(self.inner().key(id)))
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        ready(now(self.inner().keys(tenant, after, count_max)))
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        ready(now(self.inner().channels(tenant)))
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        ready(now(self.inner().tenants(after, count_max)))
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        ready(now(self.inner().asked_before(tenant, principal, key)))
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        ready(now(self.inner().touch_keys(uses)))
    }

    fn health(&self) -> Answer<'_, Health> {
        ready(now(self.inner().health()))
    }

    fn seal(&self) -> Answer<'_, ()> {
        ready(now(self.inner().seal()))
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        ready(now(self.inner().audit_part(count_max)))
    }

    fn audit(&self) -> Answer<'_, Audit> {
        ready(now(self.inner().audit()))
    }
}
