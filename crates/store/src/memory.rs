//! The model: what every store must do, in the simplest form that can be right.
//!
//! One lock over plain maps, and every question is answered by looking at everything. It is no
//! place for clever code: the other stores are compared with it, answer by answer.

mod keys;
mod sweep;
mod tenant;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use baton_domain::history::Record;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::time::{Millis, Timestamp};

use crate::chain::Audit;
use crate::keys::{KeyFound, KeyRow};
use crate::order::{Committed, Order};
use crate::read::{About, Cursor, Entry, Filter, Health, PAGE_MAX, Page, PoolRow, TaskRow};
use crate::ruling::Judge;
use crate::{Answer, Bell, Clock, Error, Store};
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

/// Nothing is ever thrown away, so the first position is always there.
const FLOOR: u64 = 1;

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
        if !freed.is_empty() {
            (self.bell)(&freed);
        }
        answer
    }

    /// Reads something of a tenant; one that nobody knows is an empty one.
    fn read<T>(&self, tenant: &TenantId, look: impl FnOnce(&Tenant) -> T) -> T {
        match self.lock().tenants.get(tenant) {
            Some(tenant) => look(tenant),
            None => look(&Tenant::default()),
        }
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
            ..Health::default()
        }
    }

    /// Nothing can be changed behind the back of a memory, so there is only counting to do.
    fn count_chains(&self) -> Audit {
        let mut state = self.lock();
        let entries = state.tenants.values().map(Tenant::head).sum();
        let seals = state.tenants.values().map(|tenant| tenant.seals).sum();
        state.verified_entries = entries;
        Audit { entries, seals, fault: None }
    }
}

impl Store for MemoryStore {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        Box::pin(async move { self.carry_out(&order) })
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Option<TaskRow>> {
        Box::pin(async move { Ok(self.read(tenant, |own| own.tasks.get(&id).map(Kept::row))) })
    }

    fn tasks<'a>(&'a self, tenant: &'a TenantId, filter: Filter) -> Answer<'a, Page<TaskRow>> {
        Box::pin(async move { Ok(self.read(tenant, |own| own.page(&filter))) })
    }

    fn history<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Vec<Record>> {
        let of_task = move |own: &Tenant| own.tasks.get(&id).map(|kept| kept.history.clone());
        Box::pin(async move { Ok(self.read(tenant, of_task).unwrap_or_default()) })
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        Box::pin(async move {
            if after.incarnation != 0 && after.incarnation != INCARNATION {
                return Err(Error::CursorExpired { floor: FLOOR });
            }
            Ok(self.read(tenant, |own| {
                let mut page = page(
                    own.entries.iter().filter(|entry| entry.position > after.position).cloned(),
                    count_max,
                    own.head(),
                );
                if let (true, Some(last)) = (page.more, page.rows.last()) {
                    page.as_of = last.position;
                }
                page
            }))
        })
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, Vec<Entry>> {
        let told = move |entry: &&Entry| match entry.about {
            About::Task(task, version) => task == id && version >= from_version,
            About::Records(_) => false,
        };
        Box::pin(async move {
            Ok(self.read(tenant, |own| {
                page(own.entries.iter().filter(told).cloned(), count_max, own.head()).rows
            }))
        })
    }

    fn projects<'a>(&'a self, tenant: &'a TenantId) -> Answer<'a, Vec<Arc<Project>>> {
        Box::pin(
            async move { Ok(self.read(tenant, |own| own.projects.values().cloned().collect())) },
        )
    }

    fn pools<'a>(&'a self, tenant: &'a TenantId) -> Answer<'a, Vec<PoolRow>> {
        let rows = |own: &Tenant| {
            let pools = own.pools.iter();
            pools.map(|(name, pool)| PoolRow { name: name.clone(), pool: pool.clone() }).collect()
        };
        Box::pin(async move { Ok(self.read(tenant, rows)) })
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
}

/// The first rows of a list, as many as may be on a page.
fn page<T>(mut rows: impl Iterator<Item = T>, count_max: usize, as_of: u64) -> Page<T> {
    let shown = rows.by_ref().take(count_max.min(PAGE_MAX)).collect();
    Page { rows: shown, more: rows.next().is_some(), as_of }
}
