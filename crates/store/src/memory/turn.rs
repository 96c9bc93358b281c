//! One order, carried out under the lock.

use std::sync::Arc;

use baton_domain::command::{Claim, Command};
use baton_domain::ids::{PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::lane::{Claimant, Lane};
use baton_domain::pool::{Pool, PoolName, Pools, bar, is_eased};
use baton_domain::project::{RecordCommand, RecordEvent, decide_record};
use baton_domain::refusal::Refusal;
use baton_domain::text::Text;
use baton_domain::time::Timestamp;

use super::State;
use super::tenant::{Answered, Kept, Tenant};
use crate::order::{Actor, Aim, Committed, Order, Swept};
use crate::read::{About, Happened};
use crate::ruling::{Judge, Ruling, unparked};
use crate::{Error, Freed};

/// One order, carried out under the lock.
pub(super) struct Turn<'a> {
    pub(super) judge: Judge,
    pub(super) now: Timestamp,
    pub(super) state: &'a mut State,
    pub(super) freed: &'a mut Vec<Freed>,
}

/// What came of an order: what it was about, and where its entry is.
#[derive(Default)]
struct Done {
    task: Option<TaskId>,
    run: Option<u32>,
    position: Option<u64>,
    swept: Swept,
}

impl Turn<'_> {
    pub(super) fn carry_out(mut self, order: &Order) -> Result<Committed, Error> {
        self.end_silence();
        let key = order.request.as_ref().map(|it| (order.actor.principal.clone(), it.key.clone()));
        if let (Some(request), Some(key)) = (&order.request, &key)
            && let Some(answered) = self.answered(order.asked_in(), key)
        {
            if answered.fingerprint != request.fingerprint {
                return Err(Error::KeyReused);
            }
            return Ok(self.replay(&order.tenant, answered));
        }
        let done = match &order.aim {
            Aim::Task(id, commands) => self.on_task(order, *id, commands)?,
            Aim::Birth(project, commands) => self.birth(order, project, commands)?,
            Aim::Next(claim) => self.claim_next(order, claim)?,
            Aim::Record(command, project) => self.on_record(order, command, project.as_ref())?,
            Aim::Key(command) => Done { position: self.on_key(order, command)?, ..Done::default() },
            Aim::Channel(command) => {
                Done { position: self.on_channel(order, command)?, ..Done::default() }
            }
            Aim::Sweep(count_max) => Done { swept: self.sweep(*count_max), ..Done::default() },
        };
        let committed = self.committed(&order.tenant, &done, self.now);
        if let (Some(request), Some(key)) = (&order.request, key) {
            let answered = Answered {
                fingerprint: request.fingerprint,
                at: self.now,
                // A place in another tenant's order means nothing where the key is.
                position: done.position.filter(|_| *order.asked_in() == order.tenant),
                task: done.task,
                attempt: committed.lease.as_ref().map(|lease| lease.attempt),
                run: done.run,
            };
            self.tenant(order.asked_in()).requests.insert(key, answered);
        }
        Ok(committed)
    }

    /// The tenant, which comes to be with what is first written for it.
    pub(super) fn tenant(&mut self, id: &TenantId) -> &mut Tenant {
        self.state.tenants.entry(id.clone()).or_default()
    }

    fn known(&self, id: &TenantId) -> Result<&Tenant, Refusal> {
        self.state.tenants.get(id).ok_or(Refusal::NotFound)
    }

    fn kept(&self, tenant: &TenantId, id: TaskId) -> Option<&Kept> {
        self.state.tenants.get(tenant)?.tasks.get(&id)
    }

    fn answered(&self, tenant: &TenantId, key: &(PrincipalId, Text<255>)) -> Option<&Answered> {
        self.state.tenants.get(tenant)?.requests.get(key)
    }

    fn committed(&self, tenant: &TenantId, done: &Done, at: Timestamp) -> Committed {
        let kept = done.task.and_then(|id| self.kept(tenant, id));
        Committed {
            task: kept.map(|kept| Arc::clone(&kept.flow)),
            lease: kept.and_then(|kept| kept.lease.clone()),
            run: done.run,
            brief: kept.map(|kept| kept.brief.clone()),
            swept: done.swept,
            ..Committed::of_no_task(at, done.position)
        }
    }

    /// The task as it is now; its lease only if it is still the one that was shown before, since
    /// whoever repeats an old claim must not be given the lease of the next holder.
    fn replay(&self, tenant: &TenantId, answered: &Answered) -> Committed {
        let Answered { task, run, position, .. } = *answered;
        let done = Done { task, run, position, ..Done::default() };
        let now = self.committed(tenant, &done, answered.at);
        let lease = now.lease.filter(|lease| answered.attempt == Some(lease.attempt));
        Committed { lease, replayed: true, ..now }
    }

    fn on_task(&mut self, order: &Order, id: TaskId, commands: &[Command]) -> Result<Done, Error> {
        let ruling = self.rule_on(&order.tenant, id, commands)?;
        Ok(self.keep(order, ruling))
    }

    pub(super) fn rule_on(
        &self,
        tenant: &TenantId,
        id: TaskId,
        commands: &[Command],
    ) -> Result<Ruling, Refusal> {
        let own = self.known(tenant)?;
        let project = own.project_of(&own.tasks.get(&id).ok_or(Refusal::NotFound)?.flow);
        own.rule(self.judge, (Some(id), &project), commands, (self.state.amnesty, self.now))
    }

    fn birth(
        &mut self,
        order: &Order,
        project: &ProjectId,
        commands: &[Command],
    ) -> Result<Done, Error> {
        let own = self.known(&order.tenant)?;
        let project = own.projects.get(project).ok_or(Refusal::NotFound)?;
        let times = (self.state.amnesty, self.now);
        let ruling = own.rule(self.judge, (None, project), commands, times)?;
        Ok(self.keep(order, ruling))
    }

    /// The first of all queued tasks by age and priority that the claimer may have.
    fn claim_next(&mut self, order: &Order, claim: &Claim) -> Result<Done, Error> {
        let nobody = Tenant::default();
        let own = self.state.tenants.get(&order.tenant).unwrap_or(&nobody);
        let command = [Command::Claim(claim.clone())];
        for id in own.queued_for(&claim.claimant, self.now) {
            match self.rule_on(&order.tenant, id, &command) {
                Ok(ruling) => return Ok(self.keep(order, ruling)),
                // A budget of the task's own, which its lane does not tell of, is spent.
                Err(Refusal::PoolFull { .. } | Refusal::Paused { .. }) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(own.nothing_for(&claim.claimant, self.now).into())
    }

    fn on_record(
        &mut self,
        order: &Order,
        command: &RecordCommand,
        project: Option<&ProjectId>,
    ) -> Result<Done, Error> {
        let nobody = Tenant::default();
        let own = self.state.tenants.get(&order.tenant).unwrap_or(&nobody);
        let scene = own.record_scene(command.meant(project));
        let events = decide_record(&scene, command, self.now)?;
        if events.is_empty() {
            return Ok(Done::default());
        }
        self.admit(&order.tenant)?;
        let now = self.now;
        let own = self.tenant(&order.tenant);
        let before = own.pools.clone();
        events.iter().for_each(|event| own.apply(event));
        own.records_version += 1;
        let about = About::Records(own.records_version);
        let position = own.record(&order.actor, now, about, Happened::ToRecord(events));
        let eased = eased(&before, &own.pools, now);
        let eased_pool = command.meant(project).pool.filter(|_| eased);
        let flows = || own.tasks.values().map(|kept| &*kept.flow);
        let owed = eased_pool.map(|pool| unparked(pool, flows())).unwrap_or_default();
        self.state.committed_at = Some(now);
        self.state.owed.extend(owed.into_iter().map(|owed| (order.tenant.clone(), owed)));
        self.freed.extend(eased.then(|| Freed::Pools(order.tenant.clone())));
        Ok(Done { position: Some(position), ..Done::default() })
    }

    fn keep(&mut self, order: &Order, ruling: Ruling) -> Done {
        let (task, run) = (Some(ruling.task.flow.id), ruling.run);
        let position = self.write(&order.tenant, &order.actor, ruling);
        Done { task, run, position, ..Done::default() }
    }

    /// Writes all that was decided; tells the position of the entry, if there is one.
    pub(super) fn write(
        &mut self,
        tenant: &TenantId,
        actor: &Actor,
        ruling: Ruling,
    ) -> Option<u64> {
        if ruling.is_nothing() {
            return None;
        }
        let now = self.now;
        let id = ruling.task.flow.id;
        let before = self.kept(tenant, id).map(|kept| kept.flow.lanes()).unwrap_or_default();
        self.state.committed_at = Some(now);
        self.state.owed.extend(ruling.reactions.iter().map(|owed| (tenant.clone(), owed.clone())));
        let own = self.tenant(tenant);
        let pools_before = own.pools.clone();
        for change in &ruling.pools {
            // A pool that nobody set does not exist and counts nothing.
            if let Some(pool) = own.pools.get_mut(change.pool()) {
                pool.apply(change, now);
            }
        }
        own.pools.retain(|_, pool| !pool.is_idle());
        let eased = eased(&pools_before, &own.pools, now);
        let position = own.keep(actor, now, ruling);
        let joined = own.tasks[&id].flow.lanes().into_iter().filter(|lane| !before.contains(lane));
        let joined: Vec<Lane> = joined.collect();
        self.freed.extend(joined.into_iter().map(|lane| Freed::Lane(tenant.clone(), lane)));
        self.freed.extend(eased.then(|| Freed::Pools(tenant.clone())));
        position
    }
}

impl Tenant {
    /// Keeps a task as it was decided, and the entry of what happened.
    fn keep(&mut self, actor: &Actor, now: Timestamp, ruling: Ruling) -> Option<u64> {
        let Ruling { task, lease, events, records, edges, .. } = ruling;
        let id = task.flow.id;
        let flow = Arc::new(task.flow);
        for (on, wait) in edges {
            if wait {
                self.edges.insert((id, on))
            } else {
                self.edges.remove(&(id, on))
            };
        }
        if flow.ending().is_some() {
            self.edges.retain(|(waiting, _)| *waiting != id);
        }
        let (brief, mut history) = match self.tasks.remove(&id) {
            Some(before) => (task.brief.unwrap_or(before.brief), before.history),
            None => (task.brief.expect("a task is born with its brief"), vec![]),
        };
        let version = flow.version;
        history.extend(records.into_iter().map(|record| (version, record)));
        self.tasks.insert(id, Kept { flow, brief, lease, history });
        if events.is_empty() {
            return None;
        }
        Some(self.record(actor, now, About::Task(id, version), Happened::ToTask(events)))
    }

    /// The tasks that a claimer might get, best first. Each must still be asked for.
    fn queued_for(&self, claimant: &Claimant, now: Timestamp) -> Vec<TaskId> {
        let mut found = vec![];
        for kept in self.tasks.values() {
            for lane in kept.flow.lanes() {
                let project = self.project_of(&kept.flow);
                if lane.admits(claimant)
                    && lane.is_open_to(claimant, &project)
                    && self.has_room(&lane, claimant, now)
                {
                    found.push((lane.rank(kept.flow.ready_at()), kept.flow.id));
                }
            }
        }
        found.sort();
        found.into_iter().map(|(_, id)| id).collect()
    }

    fn has_room(&self, lane: &Lane, claimant: &Claimant, now: Timestamp) -> bool {
        lane.asks(claimant).all(|ask| bar(&self.pools, &ask, now).is_none())
    }

    /// Why a claimer gets nothing: because it holds enough, or because there is nothing.
    fn nothing_for(&self, claimant: &Claimant, now: Timestamp) -> Refusal {
        let full = claimant.own_bar(&self.pools, now, || self.held_by(&claimant.principal));
        full.unwrap_or(Refusal::NothingClaimable)
    }

    fn apply(&mut self, event: &RecordEvent) {
        match event {
            RecordEvent::ProjectPut { project } => {
                self.projects.insert(project.id.clone(), Arc::new(project.clone()));
            }
            RecordEvent::ProjectRemoved { project } => {
                self.projects.remove(project);
            }
            RecordEvent::PoolLimited { pool, limit } => self.pool(pool).limit = *limit,
            RecordEvent::PoolShut { pool, shut } => self.pool(pool).shut = shut.clone(),
            RecordEvent::Key(_) | RecordEvent::Channel(_) => {
                unreachable!("keys and channels have rules of their own")
            }
        }
        self.pools.retain(|_, pool| !pool.is_idle());
    }

    /// The pool, which comes to be with what live attempts have taken from it already.
    fn pool(&mut self, name: &PoolName) -> &mut Pool {
        let used = self.taken_from(name);
        self.pools.entry(name.clone()).or_insert_with(|| Pool { used, ..Pool::default() })
    }
}

/// Whether any pool lets in again.
fn eased(before: &Pools, after: &Pools, now: Timestamp) -> bool {
    before.iter().any(|(name, before)| is_eased(name, Some(before), after.get(name), now))
}
