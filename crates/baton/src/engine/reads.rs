//! Reads pass straight through: they change nothing, so there is nothing to guard.

use std::sync::Arc;

use baton_domain::history::Past;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::project::Project;
use baton_domain::time::Timestamp;
use baton_store::chain::Audit;
use baton_store::{Cursor, Entry, Error, Filter, Page, PoolRow, TaskRow};

use super::Engine;

impl Engine {
    /// Now, on the clock that leases are measured by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Which life of the store this is.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.keyring.incarnation()
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
    pub async fn history(&self, tenant: &TenantId, id: TaskId) -> Result<Vec<Past>, Error> {
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

    /// Walks every chain and every seal, and names the first thing that is wrong.
    pub async fn audit(&self) -> Result<Audit, Error> {
        self.store.audit().await
    }
}
