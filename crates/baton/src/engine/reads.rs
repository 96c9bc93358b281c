//! Reads pass straight through: they change nothing, so there is nothing to guard.

use std::sync::Arc;

use baton_domain::history::Record;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;
use baton_store::chain::Audit;
use baton_store::{Cursor, Entry, Error, Filter, KeyFound, KeyRow, Page, PoolRow, TaskRow};

use super::Engine;

impl Engine {
    /// Now, on the clock that leases are measured by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// One task with everything but its history.
    pub async fn task(&self, tenant: &TenantId, id: TaskId) -> Result<Option<TaskRow>, Error> {
        self.store.task(tenant, id).await
    }

    /// Tasks by filter, in the order of their numbers.
    pub async fn tasks(&self, tenant: &TenantId, filter: Filter) -> Result<Page<TaskRow>, Error> {
        self.store.tasks(tenant, filter).await
    }

    /// What the history of a task keeps, oldest first.
    pub async fn history(&self, tenant: &TenantId, id: TaskId) -> Result<Vec<Record>, Error> {
        self.store.history(tenant, id).await
    }

    /// Entries after a cursor, in the order in which they were committed, without gaps.
    pub async fn entries(
        &self,
        tenant: &TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Result<Page<Entry>, Error> {
        self.store.entries(tenant, after, count_max).await
    }

    /// Entries of one task from a version on.
    pub async fn entries_of(
        &self,
        tenant: &TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Result<Vec<Entry>, Error> {
        self.store.entries_of(tenant, id, from_version, count_max).await
    }

    /// The projects of a tenant.
    pub async fn projects(&self, tenant: &TenantId) -> Result<Vec<Arc<Project>>, Error> {
        self.store.projects(tenant).await
    }

    /// The pools of a tenant that somebody set.
    pub async fn pools(&self, tenant: &TenantId) -> Result<Vec<PoolRow>, Error> {
        self.store.pools(tenant).await
    }

    /// The key with this public id, whoever's it is, and what opens it.
    pub async fn key(&self, id: &KeyId) -> Result<Option<KeyFound>, Error> {
        self.store.key(id).await
    }

    /// The keys of a tenant after this one, in the order of their ids.
    pub async fn keys(
        &self,
        tenant: &TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Result<Page<KeyRow>, Error> {
        self.store.keys(tenant, after, count_max).await
    }

    /// Notes when keys were last used, which is no history and therefore no order.
    pub async fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
        self.store.touch_keys(uses).await
    }

    /// Walks every chain and every seal, and names the first thing that is wrong.
    pub async fn audit(&self) -> Result<Audit, Error> {
        self.store.audit().await
    }
}
