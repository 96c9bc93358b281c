//! Orders about projects and pools.

use std::sync::Arc;

use baton_domain::ids::{ProjectId, StageName};
use baton_domain::pool::{Pool, PoolName, is_eased};
use baton_domain::project::{RecordCommand, RecordEvent, RecordScene, decide_record};
use baton_domain::task::Stage;
use baton_domain::time::Timestamp;

use super::orders::{Desk, Fail};
use super::pen::NewEntry;
use crate::Freed;
use crate::order::{Actor, Committed};
use crate::read::About;
use crate::ruling::unparked;

impl Desk {
    pub(super) fn on_record(
        &mut self,
        tenant: usize,
        command: &RecordCommand,
        project: Option<&ProjectId>,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let scene = self.record_scene(tenant, command, project)?;
        let events = decide_record(&scene, command, now)?;
        let position = if events.is_empty() {
            None
        } else {
            for event in &events {
                self.apply_record(tenant, event, now)?;
            }
            Some(self.write_record_entry(tenant, &events, actor, now)?)
        };
        Ok(Committed::of_no_task(now, position))
    }

    fn record_scene(
        &self,
        tenant: usize,
        command: &RecordCommand,
        project: Option<&ProjectId>,
    ) -> Result<RecordScene, Fail> {
        let ledger = &self.books.tenants[tenant];
        let meant = command.meant(project);
        let mut scene = RecordScene {
            projects: ledger.projects.len(),
            task: meant.task.map(|id| self.find(tenant, id)).transpose()?.flatten().is_some(),
            pool: meant.pool.and_then(|name| ledger.pools.get(name)).cloned(),
            pools: ledger.pools.len(),
            ..RecordScene::default()
        };
        let Some(id) = meant.project else { return Ok(scene) };
        scene.project = ledger.projects.get(id).map(|project| (**project).clone());
        if meant.pool.is_some() {
            return Ok(scene);
        }
        for live in ledger.live.values().filter(|live| live.flow.project == *id) {
            scene.live += 1;
            if let Stage::Working(stage) = &live.flow.stage {
                push_once(&mut scene.occupied, stage);
            }
        }
        scene.occupied.sort();
        Ok(scene)
    }

    fn apply_record(
        &mut self,
        tenant: usize,
        event: &RecordEvent,
        now: Timestamp,
    ) -> Result<(), Fail> {
        let key = self.books.tenants[tenant].key;
        match event {
            RecordEvent::ProjectPut { project } => {
                self.pen.project(key, project)?;
                let kept = Arc::new(project.clone());
                self.books.tenants[tenant].projects.insert(project.id.clone(), kept);
            }
            RecordEvent::ProjectRemoved { project } => {
                self.pen.drop_project(key, project)?;
                self.books.tenants[tenant].projects.remove(project);
            }
            RecordEvent::PoolLimited { pool, limit } => {
                let mut row = self.pool(tenant, pool);
                row.limit = *limit;
                self.keep_pool(tenant, pool, row, now)?;
            }
            RecordEvent::PoolShut { pool, shut } => {
                let mut row = self.pool(tenant, pool);
                row.shut.clone_from(shut);
                self.keep_pool(tenant, pool, row, now)?;
            }
            RecordEvent::Key(_) | RecordEvent::Channel(_) => {
                unreachable!("keys and channels have rules of their own")
            }
        }
        Ok(())
    }

    /// A pool as it is, or as it would be if somebody had been counting all along.
    fn pool(&self, tenant: usize, name: &PoolName) -> Pool {
        let ledger = &self.books.tenants[tenant];
        ledger
            .pools
            .get(name)
            .cloned()
            .unwrap_or_else(|| Pool { used: ledger.taken_from(name), ..Pool::default() })
    }

    fn keep_pool(
        &mut self,
        tenant: usize,
        name: &PoolName,
        pool: Pool,
        now: Timestamp,
    ) -> Result<(), Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let before = ledger.pools.insert(name.clone(), pool);
        self.pen.pool(ledger.key, name, &ledger.pools[name])?;
        ledger.pools.retain(|_, pool| !pool.is_idle());
        if is_eased(name, before.as_ref(), ledger.pools.get(name), now) {
            self.freed.push(Freed::Pools(ledger.id.clone()));
            let owed = unparked(name, ledger.live.values().map(|live| &*live.flow));
            self.owe(tenant, owed)?;
        }
        Ok(())
    }

    pub(super) fn write_record_entry(
        &mut self,
        tenant: usize,
        events: &[RecordEvent],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let (position, version) = (ledger.position + 1, ledger.records_version + 1);
        let entry = NewEntry {
            tenant: (ledger.key, ledger.id.as_str()),
            position,
            about: About::Records(version),
            at: now,
            actor,
        };
        let head = self.pen.entry(&entry, &ledger.records_head, &events, None)?;
        self.pen.records_head(ledger.key, version, &head)?;
        ledger.position = position;
        ledger.records_version = version;
        ledger.records_head = head;
        Ok(position)
    }
}

fn push_once(stages: &mut Vec<StageName>, stage: &StageName) {
    if !stages.contains(stage) {
        stages.push(stage.clone());
    }
}
