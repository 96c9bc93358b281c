//! Reads pass straight through: they change nothing, so there is nothing to guard.

use std::sync::Arc;

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;
use baton_store::chain::Audit;
use baton_store::{
    ChannelRow, Cursor, Entry, Error, Filter, HistoryKey, KeyFound, KeyRow, List, Page, PastId,
    PoolRow, RunFilter, RunFull, RunRow, Stats, TaskRow, Tenants, Told,
};

use super::Engine;

impl Engine {
    /// Now, on the clock that leases are measured by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Which life of the store this is; cursors and tokens of another are dead.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.store.incarnation()
    }

    /// Which installation this is, for marking processes, worktrees and refs.
    #[must_use]
    pub fn deployment(&self) -> DeploymentId {
        self.store.deployment()
    }

    /// How far the entries of a tenant are.
    pub async fn head(&self, tenant: &TenantId) -> Result<u64, Error> {
        // Every read tells it; this one finds nothing, for tasks are numbered from one.
        Ok(self.store.task(tenant, TaskId(0)).await?.as_of)
    }

    /// How far the entries of a tenant were at most a second ago: many who have heard nothing share
    /// one look.
    pub async fn head_lately(&self, tenant: &TenantId) -> Result<u64, Error> {
        let now = self.clock.now();
        if let Some(head) = self.changes.head_lately(tenant, now) {
            return Ok(head);
        }
        let head = self.head(tenant).await?;
        self.changes.note_head(tenant, now, head);
        Ok(head)
    }

    /// One task with everything but its history.
    pub async fn task(
        &self,
        tenant: &TenantId,
        id: TaskId,
    ) -> Result<Told<Option<TaskRow>>, Error> {
        self.store.task(tenant, id).await
    }

    /// Tasks by filter, in the order of their numbers.
    pub async fn tasks(
        &self,
        tenant: &TenantId,
        filter: Filter,
    ) -> Result<List<TaskRow, TaskId>, Error> {
        self.store.tasks(tenant, filter).await
    }

    /// Runs by filter, live and finished ones, in the order of their numbers.
    pub async fn runs(
        &self,
        tenant: &TenantId,
        filter: RunFilter,
    ) -> Result<List<RunRow, RunId>, Error> {
        self.store.runs(tenant, filter).await
    }

    /// One run with its attempts and checkpoints.
    pub async fn run(&self, tenant: &TenantId, id: RunId) -> Result<Told<Option<RunFull>>, Error> {
        self.store.run(tenant, id).await
    }

    /// What the history of a task keeps, oldest first.
    pub async fn history(
        &self,
        tenant: &TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Result<List<Past, HistoryKey>, Error> {
        self.store.history(tenant, id, after, count_max).await
    }

    /// One row of the history of a task.
    pub async fn past(
        &self,
        tenant: &TenantId,
        id: TaskId,
        which: PastId,
    ) -> Result<Told<Option<Past>>, Error> {
        self.store.past(tenant, id, which).await
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
    ) -> Result<List<Entry, u64>, Error> {
        self.store.entries_of(tenant, id, from_version, count_max).await
    }

    /// Entries of one task at these versions, oldest first; what is no longer kept is absent.
    pub async fn entries_at(
        &self,
        tenant: &TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Result<Vec<Entry>, Error> {
        Ok(self.store.entries_at(tenant, id, versions).await?.what)
    }

    /// The last entry of a task that tells what was found of a line of its contract.
    pub async fn receipt(
        &self,
        tenant: &TenantId,
        id: TaskId,
        line: &LineId,
    ) -> Result<Option<Entry>, Error> {
        Ok(self.store.receipt(tenant, id, line).await?.what)
    }

    /// The projects of a tenant, in the order of their names.
    pub async fn projects(
        &self,
        tenant: &TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Result<List<Arc<Project>, ProjectId>, Error> {
        self.store.projects(tenant, after, count_max).await
    }

    /// The pools of a tenant that somebody set, in the order of their names.
    pub async fn pools(
        &self,
        tenant: &TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Result<List<PoolRow, PoolName>, Error> {
        self.store.pools(tenant, after, count_max).await
    }

    /// How many tasks there are, of one project or of all, and in which state.
    pub async fn stats(
        &self,
        tenant: &TenantId,
        project: Option<ProjectId>,
    ) -> Result<Told<Stats>, Error> {
        self.store.stats(tenant, project).await
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

    /// The channels of a tenant, or of all.
    pub async fn channels(&self, tenant: Option<&TenantId>) -> Result<Vec<ChannelRow>, Error> {
        self.store.channels(tenant).await
    }

    /// The tenants after this one, in the order of their names.
    pub async fn tenants(
        &self,
        after: Option<TenantId>,
        count_max: usize,
    ) -> Result<Tenants, Error> {
        self.store.tenants(after, count_max).await
    }

    /// What a request under this key was for, if one was carried out.
    pub async fn asked_before(
        &self,
        tenant: &TenantId,
        principal: &PrincipalId,
        key: &str,
    ) -> Result<Option<[u8; 32]>, Error> {
        self.store.asked_before(tenant, principal, key).await
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
