//! The seam as Postgres serves it: orders to the writers, questions to the readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::scene::Lease;
use baton_domain::time::Timestamp;
use ed25519_dalek::SigningKey;
use tokio::sync::{Mutex, oneshot};

use super::reads::Reading;
use super::{PostgresStore, audit, channels, keys, lists, reads, runs, standby};
use crate::chain::Audit;
use crate::channels::ChannelRow;
use crate::inbox::Job;
use crate::keys::{KeyFound, KeyRow};
use crate::order::{Committed, Order};
use crate::read::{
    Cursor, Entry, Filter, Health, HistoryKey, List, Page, PastId, PoolRow, RunFilter, RunFull,
    RunRow, Stats, TaskRow, Tenants, Told,
};
use crate::{Answer, Clock, Error, Store};

/// Rows that one part of an audit goes over: bounds how long it holds on to one moment.
const AUDITED_AT_ONCE: usize = 5_000;

const FIGURES: &str = "SELECT (SELECT count(*) FROM flows WHERE live),
    (SELECT min(expires_at) FROM leases), (SELECT number FROM meta WHERE name = 'amnesty')";

/// Reads for a tenant at one moment, and ends it whatever came of it.
macro_rules! for_tenant {
    ($store:expr, $tenant:expr, $reading:ident, $read:expr) => {
        Box::pin(async move {
            let mut moment = $store.shared.read_for($tenant).await?;
            let $reading = &mut moment;
            let read = $read.await;
            end(moment, read).await
        })
    };
}

impl Store for PostgresStore {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        let (reply, answer) = oneshot::channel();
        let bytes = order.bytes();
        let queue = self.shared.queues.of(&order.aim);
        let pushed = queue.push(Job { order, bytes, reply });
        Box::pin(async move {
            pushed?;
            answer.await.unwrap_or_else(|_| Err(Error::Unknown("the writer is gone".into())))
        })
    }

    fn incarnation(&self) -> u64 {
        self.shared.incarnation
    }

    fn deployment(&self) -> DeploymentId {
        self.shared.deployment.clone()
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        for_tenant!(self, tenant, reading, lists::task(reading, id))
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        let now = self.shared.time.now();
        for_tenant!(self, tenant, reading, lists::tasks(reading, &filter, now))
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        for_tenant!(self, tenant, reading, runs::runs(reading, &filter))
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        for_tenant!(self, tenant, reading, runs::run(reading, id))
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        for_tenant!(self, tenant, reading, runs::history(reading, id, after, count_max))
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        for_tenant!(self, tenant, reading, runs::past(reading, id, which))
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        let life = self.shared.incarnation;
        for_tenant!(self, tenant, reading, reads::entries(reading, after, count_max, life))
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        for_tenant!(self, tenant, reading, reads::entries_of(reading, id, from_version, count_max))
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        for_tenant!(self, tenant, reading, reads::entries_at(reading, id, versions))
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        for_tenant!(self, tenant, reading, reads::receipt(reading, id, line))
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        for_tenant!(self, tenant, reading, lists::projects(reading, after.as_ref(), count_max))
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        for_tenant!(self, tenant, reading, lists::pools(reading, after.as_ref(), count_max))
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        let now = self.shared.time.now();
        for_tenant!(self, tenant, reading, lists::stats(reading, project.as_ref(), now))
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        Box::pin(async move {
            let mut moment = self.shared.read().await?;
            let read = keys::key(&mut moment, id).await;
            end(moment, read).await
        })
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        for_tenant!(self, tenant, reading, keys::keys(reading, after.as_ref(), count_max))
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        Box::pin(async move {
            let mut moment = self.shared.read().await?;
            let read = channels::channels(&mut moment, tenant).await;
            end(moment, read).await
        })
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        Box::pin(async move {
            let mut moment = self.shared.read().await?;
            let read = lists::tenants(&mut moment, after.as_ref(), count_max).await;
            end(moment, read).await
        })
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        Box::pin(async move {
            let mut moment = self.shared.read_for(tenant).await?;
            let read = reads::asked_before(&mut moment, principal, key).await;
            let found = end(moment, read).await?;
            if let Some((_, true)) = found {
                standby::confirm(&self.shared).await?;
            }
            Ok(found.map(|(fingerprint, _)| fingerprint))
        })
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        let (reply, answer) = oneshot::channel();
        let pushed = self.shared.queues.besides().push_uses(uses, reply);
        Box::pin(async move {
            pushed?;
            answer.await.unwrap_or_else(|_| Err(Error::Stopped("the writer is gone".into())))
        })
    }

    fn health(&self) -> Answer<'_, Health> {
        Box::pin(async move {
            let mut moment = self.shared.read().await?;
            let figures = moment.query(FIGURES, vec![]).await;
            let figures = end(moment, figures).await?;
            let row = figures.first().ok_or_else(|| Error::Read("there are no figures".into()))?;
            let (now, gauges) = (self.shared.time.now(), &self.shared.gauges);
            let age = |at: i64| (at > 0).then(|| now.since(Timestamp(at)));
            let amnesty = row.get::<_, Option<i64>>(2).unwrap_or(0);
            let ends = row.get::<_, Option<i64>>(1).map(Timestamp);
            let ends = ends.map(|at| match at {
                Lease::FORFEIT => at,
                Timestamp(_) => at.max(Timestamp(amnesty)),
            });
            Ok(Health {
                commit_age: age(gauges.committed_at.load(Ordering::Relaxed)),
                // The database looks after its own log.
                checkpoint_age: None,
                sweep_age: age(gauges.swept_at.load(Ordering::Relaxed)),
                overdue: ends.map(|at| now.since(at)).unwrap_or_default(),
                queued: self.shared.queues.waiting(),
                live: usize::try_from(row.get::<_, i64>(0)).unwrap_or(usize::MAX),
                audit_age: age(gauges.audited_at.load(Ordering::Relaxed)),
                tampered: gauges.tampered(),
                verified_entries: gauges.verified.load(Ordering::Relaxed),
                free_bytes: None,
                full: gauges.full.load(Ordering::Relaxed),
                clock_behind: self.shared.time.behind(),
                stopped: gauges.stopped(),
            })
        })
    }

    fn seal(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let Some(signing) = &self.shared.signing else { return Ok(()) };
            let mut moment = self.shared.read().await?;
            let due = audit::due_seals(&mut moment, signing).await;
            let seals = end(moment, due).await?;
            if seals.is_empty() {
                return Ok(());
            }
            let (reply, answer) = oneshot::channel();
            self.shared.queues.besides().push_seals(seals, reply);
            answer.await.unwrap_or_else(|_| Err(Error::Stopped("the writer is gone".into())))
        })
    }

    fn audit(&self) -> Answer<'_, Audit> {
        Box::pin(async move {
            let round = Mutex::new(Round::default());
            loop {
                let audit = self.walk(&round, AUDITED_AT_ONCE).await?;
                if audit.ended || audit.fault.is_some() {
                    return Ok(audit);
                }
            }
        })
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        Box::pin(async move { self.walk(&self.round, count_max.clamp(1, AUDITED_AT_ONCE)).await })
    }
}

/// Ends a moment; what was read of it stands.
async fn end<T>(moment: Reading<'_>, read: Result<T, Error>) -> Result<T, Error> {
    // After a failure the connection is thrown away with the moment.
    if read.is_ok() {
        moment.end().await;
    }
    read
}

/// An audit under way, and what it found so far.
#[derive(Default)]
pub(super) struct Round {
    reached: audit::Reached,
    so_far: Audit,
}

impl PostgresStore {
    /// Goes on with an audit; answers with everything that it found since it began.
    async fn walk(&self, round: &Mutex<Round>, count_max: usize) -> Result<Audit, Error> {
        let present = self.shared.signing.as_ref().map(SigningKey::verifying_key);
        let mut round = round.lock().await;
        let mut moment = self.shared.read().await?;
        let part = audit::part(&mut moment, &mut round.reached, present.as_ref(), count_max).await;
        let part = end(moment, part).await?;
        round.so_far.entries += part.entries;
        round.so_far.seals += part.seals;
        let found = Audit { fault: part.fault, ended: part.ended, ..round.so_far.clone() };
        if found.ended || found.fault.is_some() {
            round.so_far = Audit::default();
        }
        self.shared.gauges.audited(&found, self.shared.time.now());
        Ok(found)
    }
}
