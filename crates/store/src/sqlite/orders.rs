//! From an order to rows: find the task, gather what its commands need to see, have them judged,
//! write what was decided. No rule is known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::{Claim, Command};
use baton_domain::ids::{ProjectId, TaskId};
use baton_domain::key::{admit_tenant, decide_key};
use baton_domain::pool::{Pools, is_eased};
use baton_domain::project::{Project, RecordScene, decide_record};
use baton_domain::scene::{Around, Lease, Needs};
use baton_domain::task::{Flow, Task};
use baton_domain::time::Timestamp;

use super::books::Books;
use super::pen::{Earlier, NewEntry, Pen};
use crate::chain::{Hash, ROOT};
use crate::order::{Actor, Aim, Committed, Order, Swept};
use crate::read::About;
use crate::ruling::{Judge, Ruling, Setting, needs, rule};
use crate::{Error, Freed};

/// Heads of lanes that one claim may try: the judge refuses one only for a pool of its own.
const CLAIM_TRIES: usize = 256;

/// Why an order was not carried out.
pub(super) enum Fail {
    /// The caller is told, and nothing was written.
    Answer(Error),
    /// The database failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Self {
        Self::Answer(Error::Refused(refusal))
    }
}

/// Where orders are carried out.
pub(super) struct Desk {
    pub(super) pen: Pen,
    pub(super) books: Books,
    pub(super) judge: Judge,
    pub(super) freed: Vec<Freed>,
}

/// A task as it was found.
pub(super) struct Found {
    pub(super) flow: Arc<Flow>,
    pub(super) lease: Option<Lease>,
    pub(super) head: Hash,
    pub(super) live: bool,
}

impl Desk {
    /// Carries out an order. On a full disk only ends of work are, and what was carried out before
    /// is still answered; time does not pass, for an expiry might fit where a renewal does not.
    pub(super) fn carry_out(
        &mut self,
        order: &Order,
        full: bool,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let no_room = full && !order.ends_work();
        if let Aim::Sweep(count_max) = order.aim {
            if no_room {
                return Err(Fail::Answer(Error::DiskFull));
            }
            return self.sweep(count_max, now);
        }
        let tenant = match self.books.by_name.get(&order.tenant) {
            Some(tenant) => *tenant,
            None if no_room => return Err(Fail::Answer(Error::DiskFull)),
            None => self.new_tenant(order, now)?,
        };
        if let Some(replayed) = self.replay(tenant, order)? {
            return Ok(replayed);
        }
        if no_room {
            return Err(Fail::Answer(Error::DiskFull));
        }
        let committed = match &order.aim {
            Aim::Task(id, commands) => self.on_task(tenant, *id, commands, &order.actor, now)?,
            Aim::Birth(project, commands) => {
                self.birth(tenant, project, commands, &order.actor, now)?
            }
            Aim::Next(claim) => self.claim(tenant, claim, &order.actor, now)?,
            Aim::Record(command, project) => {
                self.on_record(tenant, command, project.as_ref(), &order.actor, now)?
            }
            Aim::Key(command) => self.on_key(tenant, command, &order.actor, now)?,
            Aim::Sweep(_) => unreachable!("a sweep has no tenant"),
        };
        if let Some(request) = &order.request {
            let key = self.books.tenants[tenant].key;
            let row = Earlier {
                fingerprint: request.fingerprint,
                at: now,
                task: committed.task.as_ref().map(|flow| flow.id),
                position: committed.position,
                attempt: committed.lease.as_ref().map(|lease| lease.attempt),
            };
            self.pen.request(key, &order.actor.principal, request.key.as_str(), &row)?;
        }
        Ok(committed)
    }

    /// Only a record or a key makes a tenant, and only if the rules accept it: asking leaves no
    /// trace.
    fn new_tenant(&mut self, order: &Order, now: Timestamp) -> Result<usize, Fail> {
        match &order.aim {
            Aim::Record(command, _) => drop(decide_record(&RecordScene::default(), command)?),
            Aim::Key(command) => {
                drop(decide_key(&self.pen.key_scene(None, command)?, command, now)?);
            }
            Aim::Next(_) => return Err(Refusal::NothingClaimable.into()),
            Aim::Task(..) | Aim::Birth(..) | Aim::Sweep(_) => {
                return Err(Refusal::NotFound.into());
            }
        }
        admit_tenant(self.books.tenants.len())?;
        let key = self.books.tenants.iter().map(|ledger| ledger.key).max().unwrap_or(0) + 1;
        self.pen.tenant(key, order.tenant.as_str())?;
        self.books.add_tenant(key, order.tenant.clone());
        Ok(self.books.tenants.len() - 1)
    }

    /// The answer to a request that was carried out before.
    fn replay(&self, tenant: usize, order: &Order) -> Result<Option<Committed>, Fail> {
        let Some(request) = &order.request else { return Ok(None) };
        let key = self.books.tenants[tenant].key;
        let earlier = self.pen.earlier(key, &order.actor.principal, request.key.as_str())?;
        let Some(earlier) = earlier else { return Ok(None) };
        if earlier.fingerprint != request.fingerprint {
            return Err(Fail::Answer(Error::KeyReused));
        }
        let found = earlier.task.map(|task| self.find(tenant, task)).transpose()?.flatten();
        let (task, lease) = found.map_or((None, None), |found| (Some(found.flow), found.lease));
        // Whoever repeats an old claim must not be given the lease of the next holder.
        let lease = lease.filter(|lease| earlier.attempt == Some(lease.attempt));
        let (at, position, swept) = (earlier.at, earlier.position, Swept::default());
        Ok(Some(Committed { at, position, task, lease, replayed: true, swept }))
    }

    pub(super) fn find(&self, tenant: usize, id: TaskId) -> Result<Option<Found>, Fail> {
        let ledger = &self.books.tenants[tenant];
        if let Some(live) = ledger.live.get(&id) {
            let (flow, lease) = (Arc::clone(&live.flow), live.lease.clone());
            return Ok(Some(Found { flow, lease, head: live.head, live: true }));
        }
        let ended = self.pen.find_ended(ledger.key, id)?;
        let found = |(flow, head)| Found { flow: Arc::new(flow), lease: None, head, live: false };
        Ok(ended.map(found))
    }

    pub(super) fn on_task(
        &mut self,
        tenant: usize,
        id: TaskId,
        commands: &[Command],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let found = self.find(tenant, id)?.ok_or(Refusal::NotFound)?;
        let needs = needs(commands, Some(&found.flow));
        let around = self.around(tenant, Some(&found.flow), &needs)?;
        let key = self.books.tenants[tenant].key;
        let brief = if needs.brief { self.pen.find_brief(key, id)? } else { None };
        let task = Task { flow: (*found.flow).clone(), brief };
        let project = found.flow.project.clone();
        let lease = found.lease.as_ref();
        let ruling = self.judged(tenant, &project, Some(task), lease, commands, &around, now)?;
        self.write(tenant, Some(&found), ruling, actor, now)
    }

    fn birth(
        &mut self,
        tenant: usize,
        project: &ProjectId,
        commands: &[Command],
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        if !matches!(commands.first(), Some(Command::Create(_))) {
            return Err(Refusal::NotFound.into());
        }
        let mut around = self.around(tenant, None, &needs(commands, None))?;
        around.next_id = self.books.tenants[tenant].next_task;
        let ruling = self.judged(tenant, project, None, None, commands, &around, now)?;
        self.write(tenant, None, ruling, actor, now)
    }

    fn claim(
        &mut self,
        tenant: usize,
        claim: &Claim,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let commands = [Command::Claim(claim.clone())];
        let mut skip = BTreeSet::new();
        for _ in 0..CLAIM_TRIES {
            let id = self.books.tenants[tenant].next(claim, &skip, now)?;
            match self.on_task(tenant, id, &commands, actor, now) {
                Err(Fail::Answer(Error::Refused(refusal))) => {
                    // What is wrong with the wish itself is wrong with every head.
                    if let Refusal::Invalid { .. } = refusal {
                        return Err(refusal.into());
                    }
                    skip.insert(id);
                }
                other => return other,
            }
        }
        Err(Refusal::NothingClaimable.into())
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a judgement depends on")]
    fn judged(
        &self,
        tenant: usize,
        project: &ProjectId,
        task: Option<Task>,
        lease: Option<&Lease>,
        commands: &[Command],
        around: &Around,
        now: Timestamp,
    ) -> Result<Ruling, Fail> {
        let ledger = &self.books.tenants[tenant];
        let gone;
        let project = match (ledger.projects.get(project), &task) {
            (Some(project), _) => project,
            // What ended outlives its project.
            (None, Some(_)) => {
                gone = Arc::new(Project::gone(project.clone()));
                &gone
            }
            (None, None) => return Err(Refusal::NotFound.into()),
        };
        let amnesty = self.books.amnesty;
        let setting = Setting { project, pools: &ledger.pools, around, amnesty, now };
        Ok(rule(self.judge, task, lease, commands, &setting)?)
    }

    fn around(
        &self,
        tenant: usize,
        flow: Option<&Arc<Flow>>,
        needs: &Needs,
    ) -> Result<Around, Fail> {
        let mut around = Around::default();
        let ledger = &self.books.tenants[tenant];
        for id in &needs.named {
            if let Some(found) = self.find(tenant, *id)? {
                around.named.insert(*id, (*found.flow).clone());
            }
        }
        if let Some(parent) = needs.siblings_of {
            around.siblings = self.pen.children(ledger.key, parent)?.len();
        }
        for on in &needs.upstream_of {
            around.upstream.extend(ledger.upstream(*on));
            let waiting = ledger.awaited_by.get(on).map_or(0, BTreeSet::len);
            around.dependants_of_named = around.dependants_of_named.max(waiting);
        }
        if let Some(principal) = &needs.holding
            && !ledger.pools.is_empty()
        {
            around.holding = ledger.held_by(principal);
        }
        let Some(flow) = flow else { return Ok(around) };
        if needs.dependants {
            around.dependants = ledger.awaited_by.get(&flow.id).cloned().unwrap_or_default();
        }
        if needs.dependencies {
            around.dependencies = ledger.waits_for.get(&flow.id).cloned().unwrap_or_default();
        }
        if needs.children {
            for child in self.pen.children(ledger.key, flow.id)? {
                let found = self.find(tenant, child)?;
                around.children.insert(child, found.and_then(|f| f.flow.ending().cloned()));
            }
        }
        Ok(around)
    }

    /// Writes everything that was decided, then brings the books up to date.
    fn write(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        ruling: Ruling,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let flow = Arc::new(ruling.task.flow.clone());
        let mut committed = Committed {
            at: now,
            position: None,
            task: Some(Arc::clone(&flow)),
            lease: ruling.lease.clone(),
            replayed: false,
            swept: Swept::default(),
        };
        if ruling.is_nothing() {
            return Ok(committed);
        }
        let key = self.books.tenants[tenant].key;
        let before = found.and_then(|found| found.lease.as_ref());
        self.write_lease(key, &ruling, before)?;
        if ruling.events.is_empty() {
            if let Some(lease) = ruling.lease {
                self.books.renew(tenant, flow.id, lease);
            }
            return Ok(committed);
        }
        let head = found.map_or(ROOT, |found| found.head);
        let (position, head) = self.write_entry(tenant, &flow, &ruling, (actor, &head), now)?;
        committed.position = Some(position);
        self.write_rows(tenant, found, &flow, &ruling, &head)?;
        self.settle_pools(tenant, &ruling, now)?;
        for reaction in &ruling.reactions {
            let id = self.books.next_reaction;
            self.pen.reaction(id, key, reaction)?;
            self.books.next_reaction += 1;
            self.books.reactions.push_back((id, tenant, reaction.clone()));
        }
        self.keep_books(tenant, found, &flow, ruling, head);
        Ok(committed)
    }

    fn write_lease(
        &mut self,
        key: i64,
        ruling: &Ruling,
        before: Option<&Lease>,
    ) -> Result<(), Fail> {
        if !ruling.lease_changed {
            return Ok(());
        }
        let id = ruling.task.flow.id;
        match (before, &ruling.lease) {
            (Some(old), Some(new)) if old.attempt == new.attempt => {
                self.pen.renewal(key, id, new)?;
            }
            (None, Some(new)) => self.pen.lease(key, id, new)?,
            (Some(_), Some(new)) => {
                self.pen.drop_lease(key, id)?;
                self.pen.lease(key, id, new)?;
            }
            (Some(_), None) => self.pen.drop_lease(key, id)?,
            (None, None) => {}
        }
        Ok(())
    }

    fn write_entry(
        &mut self,
        tenant: usize,
        flow: &Flow,
        ruling: &Ruling,
        (actor, head): (&Actor, &Hash),
        now: Timestamp,
    ) -> Result<(u64, Hash), Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let position = ledger.position + 1;
        let entry = NewEntry {
            tenant: (ledger.key, ledger.id.as_str()),
            position,
            about: About::Task(flow.id, flow.version),
            at: now,
            actor,
        };
        let link = self.pen.entry(&entry, head, &ruling.events)?;
        ledger.position = position;
        Ok((position, link))
    }

    fn write_rows(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        flow: &Flow,
        ruling: &Ruling,
        head: &Hash,
    ) -> Result<(), Fail> {
        let ledger = &self.books.tenants[tenant];
        let key = ledger.key;
        if let (true, Some(brief)) = (ruling.brief_changed, &ruling.task.brief) {
            self.pen.brief(key, flow, brief)?;
        }
        if flow.ending().is_some() {
            self.pen.ended(key, flow, head)?;
            if found.is_some_and(|found| found.live) {
                self.pen.drop_flow(key, flow.id)?;
            }
        } else if found.is_some() {
            self.pen.flow(key, flow, head)?;
        } else {
            self.pen.new_flow(key, flow, head)?;
        }
        for record in &ruling.records {
            self.pen.record(key, flow, record)?;
        }
        for (on, add) in &ruling.edges {
            self.pen.edge(key, flow.id, *on, *add)?;
        }
        Ok(())
    }

    fn settle_pools(&mut self, tenant: usize, ruling: &Ruling, now: Timestamp) -> Result<(), Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let mut touched = Pools::new();
        for change in &ruling.pools {
            let Some(pool) = ledger.pools.get_mut(change.pool()) else { continue };
            touched.entry(change.pool().clone()).or_insert_with(|| pool.clone());
            pool.apply(change);
        }
        let mut eased = false;
        for (name, before) in &touched {
            let pool = &ledger.pools[name];
            eased |= is_eased(name, Some(before), Some(pool), now);
            self.pen.pool(ledger.key, name, pool)?;
            if pool.is_idle() {
                ledger.pools.remove(name);
            }
        }
        if eased {
            self.freed.push(Freed::Pools(ledger.id.clone()));
        }
        Ok(())
    }

    fn keep_books(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        flow: &Arc<Flow>,
        ruling: Ruling,
        head: Hash,
    ) {
        let ledger = &mut self.books.tenants[tenant];
        if found.is_none() {
            ledger.next_task = flow.id.0 + 1;
        }
        for (on, add) in &ruling.edges {
            ledger.set_edge(flow.id, *on, *add);
        }
        if flow.ending().is_some() {
            ledger.forget_edges_of(flow.id);
            self.books.take(tenant, flow.id);
            return;
        }
        let name = ledger.id.clone();
        let joined = self.books.put(tenant, Arc::clone(flow), ruling.lease, head);
        self.freed.extend(joined.into_iter().map(|lane| Freed::Lane(name.clone(), lane)));
    }
}
