//! The model: what every store must do, in the simplest form that can be right.
//!
//! One lock over plain maps, and every question is answered by looking at everything. It is no
//! place for clever code: the other stores are compared with it, answer by answer.

mod channels;
mod keys;
mod reads;
mod sweep;
mod tenant;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::time::{Millis, Timestamp};

use crate::chain::Audit;
use crate::channels::ChannelRow;
use crate::keys::{KeyFound, KeyRow};
use crate::order::{Committed, Order};
use crate::read::{
    Cursor, Entry, Filter, Health, HistoryKey, List, Page, PastId, PoolRow, RunFilter, RunFull,
    RunRow, Stats, TaskRow, Tenants, Told, begin, page_size,
};
use crate::ruling::Judge;
use crate::{Answer, Bell, Clock, Error, Freed, Store};
use tenant::{Kept, Tenant};
use turn::Turn;

/// A store that forgets everything when it is dropped.
pub struct MemoryStore {
    judge: Judge,
    clock: Arc<dyn Clock>,
    bell: Bell,
    state: Mutex<State>,
}

/// A memory has one life; cursors of any other are not for it.
const INCARNATION: u64 = 1;

/// Nothing is ever thrown away, so everything after the beginning is there.
const FLOOR: u64 = 0;

struct State {
    tenants: BTreeMap<TenantId, Tenant>,
    /// What tasks owe one another, oldest first.
    owed: VecDeque<(TenantId, Reaction)>,
    /// No lease ends before this.
    amnesty: Timestamp,
    swept_at: Timestamp,
    /// When somebody last watched the time: a sweep, or the end of a silence.
    watched_at: Timestamp,
    committed_at: Option<Timestamp>,
    verified_entries: u64,
    audited_at: Option<Timestamp>,
}

impl MemoryStore {
    /// An empty store. The time until its first sweep counts from now.
    #[must_use]
    pub fn new(judge: Judge, clock: Arc<dyn Clock>, bell: Bell) -> Self {
        let state = State {
            tenants: BTreeMap::new(),
            owed: VecDeque::new(),
            amnesty: Timestamp::default(),
            swept_at: clock.now(),
            watched_at: clock.now(),
            committed_at: None,
            verified_entries: 0,
            audited_at: None,
        };
        Self { judge, clock, bell, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a judge that panics leaves nothing to trust")
    }

    fn carry_out(&self, order: &Order) -> Result<Committed, Error> {
        let mut freed = vec![];
        let answer = {
            let mut state = self.lock();
            // The time is read under the lock, so that later commits never seem earlier.
            let now = self.clock.now();
            Turn { judge: self.judge, now, state: &mut state, freed: &mut freed }.carry_out(order)
        };
        if let Ok(committed) = &answer {
            freed.extend(self.written_of(order, committed).into_iter().map(Freed::Entries));
        }
        if !freed.is_empty() {
            (self.bell)(&freed);
        }
        answer
    }

    /// Whose entries an order added to; a sweep does not say, so everybody may look.
    fn written_of(&self, order: &Order, committed: &Committed) -> Vec<TenantId> {
        let swept = committed.swept.due + committed.swept.reactions > 0;
        let own = committed.position.filter(|_| !committed.replayed).map(|_| order.tenant.clone());
        let all = swept.then(|| self.lock().tenants.keys().cloned().collect::<Vec<_>>());
        all.into_iter().flatten().chain(own).collect()
    }

    /// Reads something of a tenant; one that nobody knows is an empty one.
    fn read<T>(&self, tenant: &TenantId, look: impl FnOnce(&Tenant) -> T) -> T {
        match self.lock().tenants.get(tenant) {
            Some(tenant) => look(tenant),
            None => look(&Tenant::default()),
        }
    }

    /// Answers at once with something of a tenant, as it is now.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        tenant: &'a TenantId,
        look: impl FnOnce(&Tenant, Timestamp) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(self.read(tenant, |own| look(own, now)))
        })
    }

    /// The same, with the position up to which it is true.
    fn told<'a, T: Send + 'a>(
        &'a self,
        tenant: &'a TenantId,
        look: impl FnOnce(&Tenant, Timestamp) -> T + Send + 'a,
    ) -> Answer<'a, Told<T>> {
        self.answer(tenant, move |own, now| Told { what: look(own, now), as_of: own.head() })
    }

    fn how_it_is(&self) -> Health {
        let state = self.lock();
        let now = self.clock.now();
        let kept = || state.tenants.values().flat_map(|tenant| tenant.tasks.values());
        let overdue =
            |kept: &Kept| kept.lease.as_ref().map(|lease| now.since(lease.ends_at(state.amnesty)));
        Health {
            commit_age: state.committed_at.map(|at| now.since(at)),
            sweep_age: Some(now.since(state.swept_at)),
            overdue: kept().filter_map(overdue).max().unwrap_or(Millis(0)),
            live: kept().filter(|kept| kept.flow.ending().is_none()).count(),
            verified_entries: state.verified_entries,
            audit_age: state.audited_at.map(|at| now.since(at)),
            ..Health::default()
        }
    }

    /// Nothing can be changed behind the back of a memory, so there is only counting to do.
    fn count_chains(&self) -> Audit {
        let mut state = self.lock();
        let entries = state.tenants.values().map(Tenant::head).sum();
        let seals = state.tenants.values().map(|tenant| tenant.seals).sum();
        state.verified_entries = entries;
        state.audited_at = Some(self.clock.now());
        Audit { entries, seals, fault: None, ended: true }
    }
}

impl Store for MemoryStore {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        Box::pin(async move { self.carry_out(&order) })
    }

    fn incarnation(&self) -> u64 {
        INCARNATION
    }

    fn deployment(&self) -> DeploymentId {
        DeploymentId::new("memory").expect("a plain word is a name")
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        self.told(tenant, move |own, _| own.tasks.get(&id).map(Kept::row))
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        self.answer(tenant, move |own, now| own.list(&filter, now))
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        self.answer(tenant, move |own, _| own.runs(&filter))
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        self.told(tenant, move |own, _| own.run(id))
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        self.answer(tenant, move |own, _| own.history(id, after, count_max))
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        self.told(tenant, move |own, _| own.past(id, which))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        Box::pin(async move {
            self.read(tenant, |own| {
                let after = begin(after, INCARNATION, (FLOOR, own.head()))?;
                Ok(own.page(after, count_max))
            })
        })
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        self.answer(tenant, move |own, _| own.entries_of(id, from_version, count_max))
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        self.told(tenant, move |own, _| own.entries_at(id, versions))
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        self.told(tenant, move |own, _| own.receipt(id, line))
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        self.answer(tenant, move |own, _| own.project_list(after.as_ref(), count_max))
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        self.answer(tenant, move |own, _| own.pool_list(after.as_ref(), count_max))
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        self.told(tenant, move |own, now| own.stats(project.as_ref(), now))
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        Box::pin(async move { Ok(self.lock().key(id)) })
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        Box::pin(
            async move { Ok(self.read(tenant, |own| own.key_page(after.as_ref(), count_max))) },
        )
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        Box::pin(async move { Ok(self.lock().channels(tenant)) })
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        let tenants = &self.lock().tenants;
        let later = tenants.keys().filter(|name| after.as_ref().is_none_or(|after| *name > after));
        let mut rows: Vec<_> = later.cloned().collect();
        let count_max = page_size(count_max);
        let more = rows.len() > count_max;
        rows.truncate(count_max);
        Box::pin(async move { Ok(Tenants { rows, more }) })
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        self.answer(tenant, move |own, _| {
            let mut asked = own.requests.iter();
            let same = asked.find(|((who, own), _)| who == principal && own.as_str() == key);
            same.map(|(_, answered)| answered.fingerprint)
        })
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        Box::pin(async move {
            self.lock().touch_keys(&uses);
            Ok(())
        })
    }

    fn health(&self) -> Answer<'_, Health> {
        Box::pin(async move { Ok(self.how_it_is()) })
    }

    fn seal(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.lock().tenants.values_mut().for_each(Tenant::seal);
            Ok(())
        })
    }

    fn audit(&self) -> Answer<'_, Audit> {
        Box::pin(async move { Ok(self.count_chains()) })
    }

    fn audit_part(&self, _: usize) -> Answer<'_, Audit> {
        self.audit()
    }
}
