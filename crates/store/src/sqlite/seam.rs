//! The seam as SQLite serves it: orders to the writer, questions to the readers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::{Millis, Timestamp};
use ed25519_dalek::SigningKey;
use tokio::sync::oneshot;

use super::{SqliteStore, audit, channels, keys, lists, reads, requests, runs};
use crate::chain::Audit;
use crate::channels::ChannelRow;
use crate::inbox::Job;
use crate::keys::{KeyFound, KeyRow};
use crate::order::{Committed, Order};
use crate::read::{
    Cursor, Entry, Filter, Health, HistoryKey, List, Page, PastId, PoolRow, RunFilter, RunFull,
    RunRow, Stats, TaskRow, Tenants, Told,
};
use crate::{Answer, Error, Store};

/// Rows that one part of an audit goes over: bounds how long it holds on to one moment.
const AUDITED_AT_ONCE: usize = 5_000;

impl Store for SqliteStore {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        let (reply, answer) = oneshot::channel();
        let bytes = order.bytes();
        let pushed = self.inbox.push(Job { order, bytes, reply });
        Box::pin(async move {
            if let Err(error) = pushed {
                return Err(match self.gauges.stopped() {
                    Some(why) => Error::Stopped(why),
                    None => error,
                });
            }
            answer.await.unwrap_or_else(|_| Err(Error::Unknown("the writer is gone".into())))
        })
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn deployment(&self) -> DeploymentId {
        self.deployment.clone()
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        let tenant = tenant.clone();
        self.read(move |conn| lists::task(conn, &tenant, id))
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        let (tenant, now) = (tenant.clone(), self.clock.now());
        self.read(move |conn| lists::tasks(conn, &tenant, &filter, now))
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        let tenant = tenant.clone();
        self.read(move |conn| runs::runs(conn, &tenant, &filter))
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        let tenant = tenant.clone();
        self.read(move |conn| runs::run(conn, &tenant, id))
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        let tenant = tenant.clone();
        self.read(move |conn| runs::history(conn, &tenant, id, after, count_max))
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        let tenant = tenant.clone();
        self.read(move |conn| runs::past(conn, &tenant, id, which))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        let (tenant, life) = (tenant.clone(), self.incarnation);
        self.read(move |conn| reads::entries(conn, &tenant, after, count_max, life))
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        let tenant = tenant.clone();
        let from = from_version;
        self.read(move |conn| reads::entries_of(conn, &tenant, id, from, count_max))
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        let tenant = tenant.clone();
        self.read(move |conn| reads::entries_at(conn, &tenant, id, versions))
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        let (tenant, line) = (tenant.clone(), line.clone());
        self.read(move |conn| reads::receipt(conn, &tenant, id, &line))
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        let tenant = tenant.clone();
        self.read(move |conn| lists::projects(conn, &tenant, after.as_ref(), count_max))
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        let tenant = tenant.clone();
        self.read(move |conn| lists::pools(conn, &tenant, after.as_ref(), count_max))
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        let (tenant, now) = (tenant.clone(), self.clock.now());
        self.read(move |conn| lists::stats(conn, &tenant, project.as_ref(), now))
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        let id = id.clone();
        self.read(move |conn| keys::key(conn, &id))
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        let tenant = tenant.clone();
        self.read(move |conn| keys::keys(conn, &tenant, after.as_ref(), count_max))
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        let tenant = tenant.cloned();
        self.read(move |conn| channels::channels(conn, tenant.as_ref()))
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        self.read(move |conn| lists::tenants(conn, after.as_ref(), count_max))
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        let (tenant, principal, key) = (tenant.clone(), principal.clone(), key.to_owned());
        self.read(move |conn| requests::asked_before(conn, &tenant, &principal, &key))
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        let (reply, answer) = oneshot::channel();
        let pushed = self.inbox.push_uses(uses, reply);
        Box::pin(async move {
            pushed?;
            answer.await.unwrap_or_else(|_| Err(Error::Stopped("the writer is gone".into())))
        })
    }

    fn health(&self) -> Answer<'_, Health> {
        let now = self.clock.now();
        let age = |at: i64| (at > 0).then(|| now.since(Timestamp(at)));
        let gauges = &self.gauges;
        let overdue = Timestamp(gauges.overdue_since.load(Ordering::Relaxed));
        let health = Health {
            commit_age: age(gauges.committed_at.load(Ordering::Relaxed)),
            checkpoint_age: age(self.checkpoints.at.load(Ordering::Relaxed)),
            sweep_age: age(gauges.swept_at.load(Ordering::Relaxed)),
            overdue: now.since(overdue),
            queued: self.inbox.waiting(),
            live: gauges.live.load(Ordering::Relaxed),
            audit_age: age(gauges.audited_at.load(Ordering::Relaxed)),
            tampered: gauges.tampered(),
            verified_entries: gauges.verified.load(Ordering::Relaxed),
            free_bytes: (self.free_bytes)(),
            full: gauges.full.load(Ordering::Relaxed),
            clock_behind: Millis(0),
            stopped: gauges.stopped(),
        };
        Box::pin(async move { Ok(health) })
    }

    fn seal(&self) -> Answer<'_, ()> {
        let Some(signing) = self.signing.clone() else { return Box::pin(async { Ok(()) }) };
        let due = self.read(move |conn| audit::due_seals(conn, &signing));
        Box::pin(async move {
            let seals = due.await?;
            if seals.is_empty() {
                return Ok(());
            }
            let (reply, answer) = oneshot::channel();
            self.inbox.push_seals(seals, reply);
            answer.await.unwrap_or_else(|_| Err(Error::Stopped("the writer is gone".into())))
        })
    }

    fn audit(&self) -> Answer<'_, Audit> {
        Box::pin(async move {
            let walk = Arc::new(Mutex::new(Round::default()));
            loop {
                let audit = self.walk(&walk, AUDITED_AT_ONCE).await?;
                if audit.ended || audit.fault.is_some() {
                    return Ok(audit);
                }
            }
        })
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        self.walk(&self.round, count_max.clamp(1, AUDITED_AT_ONCE))
    }
}

/// An audit under way, and what it found so far.
#[derive(Default)]
pub(super) struct Round {
    place: audit::Reached,
    so_far: Audit,
}

impl SqliteStore {
    /// Goes on with an audit; answers with everything that it found since it began.
    fn walk(&self, round: &Arc<Mutex<Round>>, count_max: usize) -> Answer<'_, Audit> {
        let present = self.signing.as_ref().map(SigningKey::verifying_key);
        let (round, gauges) = (Arc::clone(round), Arc::clone(&self.gauges));
        let now = self.clock.now();
        self.read(move |conn| {
            let mut round = round.lock().unwrap_or_else(PoisonError::into_inner);
            let part = audit::part(conn, &mut round.place, present.as_ref(), count_max)?;
            round.so_far.entries += part.entries;
            round.so_far.seals += part.seals;
            let found = Audit { fault: part.fault, ended: part.ended, ..round.so_far.clone() };
            if found.ended || found.fault.is_some() {
                round.so_far = Audit::default();
            }
            gauges.audited(&found, now);
            Ok(found)
        })
    }
}
