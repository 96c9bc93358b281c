//! The seam as Postgres serves it.

use std::sync::Arc;

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;

use super::PostgresStore;
use crate::chain::Audit;
use crate::keys::{KeyFound, KeyRow};
use crate::order::{Committed, Order};
use crate::read::{
    Cursor, Entry, Filter, Health, HistoryKey, List, Page, PoolRow, RunFilter, RunFull, RunRow,
    Stats, TaskRow, Tenants, Told,
};
use crate::{Answer, Error, Store};

impl Store for PostgresStore {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn incarnation(&self) -> u64 {
        0
    }

    fn deployment(&self) -> DeploymentId {
        DeploymentId::new("d-0").expect("a name")
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn health(&self) -> Answer<'_, Health> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn seal(&self) -> Answer<'_, ()> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn audit(&self) -> Answer<'_, Audit> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        Box::pin(async { Err(Error::Stopped("being built".into())) })
    }
}
