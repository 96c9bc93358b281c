//! From an order to rows: find the task, gather what its commands need to see, have them judged,
//! write what was decided. No rule is known here.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::channel::{ChannelScene, decide_channel};
use baton_domain::command::{Claim, Command};
use baton_domain::ids::{ProjectId, TaskId, TenantId};
use baton_domain::key::{admit_tenant, decide_key};
use baton_domain::project::{Project, RecordScene, decide_record};
use baton_domain::scene::{Around, Lease, Needs};
use baton_domain::task::{Flow, Task};
use baton_domain::time::Timestamp;
use rusqlite::ErrorCode;

use super::books::Books;
use super::pen::Pen;
use super::requests::Earlier;
use crate::chain::Hash;
use crate::order::{Actor, Aim, Committed, Order};
use crate::ruling::{Judge, Ruling, Setting, needs, rule};
use crate::{Error, Freed};

/// Heads of lanes that one claim may try: the judge refuses one only for a pool of its own.
const CLAIM_TRIES: usize = 256;

/// Heads that a claim may step over because the judge broke: if it breaks over several, the fault is
/// with the claim.
const BROKEN_MAX: usize = 3;

/// Why an order was not carried out.
pub(super) enum Fail {
    /// The caller is told, and nothing was written.
    Answer(Error),
    /// This order cannot be carried out and may have left half of itself behind: it must be undone.
    Broken(String),
    /// The database failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fail {
    /// A row that cannot be read or may not be written is the matter of one order; a database that
    /// fails is everybody's.
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        match code {
            None
            | Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                Self::Broken(error.to_string())
            }
            Some(_) => Self::Sql(error),
        }
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
    /// Tasks for which time cannot pass, until somebody changes them or the store is opened again:
    /// one of them must not stop the time of all.
    pub(super) set_aside: BTreeSet<(TenantId, TaskId)>,
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
        if let Some(replayed) = self.replay(order)? {
            return Ok(replayed);
        }
        if no_room {
            return Err(Fail::Answer(Error::DiskFull));
        }
        let tenant = match self.books.by_name.get(&order.tenant) {
            Some(tenant) => *tenant,
            None => self.new_tenant(order, now)?,
        };
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
            Aim::Channel(command) => self.on_channel(tenant, command, &order.actor, now)?,
            Aim::Sweep(_) => unreachable!("a sweep has no tenant"),
        };
        if let (false, Aim::Task(id, _)) = (self.set_aside.is_empty(), &order.aim) {
            self.set_aside.remove(&(order.tenant.clone(), *id));
        }
        if let Some(request) = &order.request {
            let asked_in = self.asked_in(order).unwrap_or(tenant);
            let key = self.books.tenants[asked_in].key;
            let row = Earlier {
                fingerprint: request.fingerprint,
                at: now,
                task: committed.task.as_ref().map(|flow| flow.id),
                // A place in another tenant's order means nothing where the key is.
                position: committed.position.filter(|_| asked_in == tenant),
                attempt: committed.lease.as_ref().map(|lease| lease.attempt),
                run: committed.run,
            };
            self.pen.request(key, &order.actor.principal, request.key.as_str(), &row)?;
        }
        Ok(committed)
    }

    /// Only a record or a key makes a tenant, and only if the rules accept it: asking leaves no
    /// trace.
    fn new_tenant(&mut self, order: &Order, now: Timestamp) -> Result<usize, Fail> {
        match &order.aim {
            Aim::Record(command, _) => drop(decide_record(&RecordScene::default(), command, now)?),
            Aim::Key(command) => {
                drop(decide_key(&self.pen.key_scene(None, command)?, command, now)?);
            }
            Aim::Channel(command) => {
                drop(decide_channel(&ChannelScene::default(), command, now)?);
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

    /// The tenant among whose request keys that of an order is.
    fn asked_in(&self, order: &Order) -> Option<usize> {
        self.books.by_name.get(order.asked_in()).copied()
    }

    /// The answer to a request that was carried out before.
    fn replay(&self, order: &Order) -> Result<Option<Committed>, Fail> {
        let (Some(request), Some(asked_in)) = (&order.request, self.asked_in(order)) else {
            return Ok(None);
        };
        let key = self.books.tenants[asked_in].key;
        let earlier = self.pen.earlier(key, &order.actor.principal, request.key.as_str())?;
        let Some(earlier) = earlier else { return Ok(None) };
        if earlier.fingerprint != request.fingerprint {
            return Err(Fail::Answer(Error::KeyReused));
        }
        let tenant = self.books.by_name.get(&order.tenant);
        let found = earlier.task.zip(tenant).map(|(task, tenant)| self.find(*tenant, task));
        let found = found.transpose()?.flatten();
        let (task, lease) = found.map_or((None, None), |found| (Some(found.flow), found.lease));
        // Whoever repeats an old claim must not be given the lease of the next holder.
        let lease = lease.filter(|lease| earlier.attempt == Some(lease.attempt));
        let none = Committed::of_no_task(earlier.at, earlier.position);
        Ok(Some(Committed { task, lease, run: earlier.run, replayed: true, ..none }))
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
        let mut broken = 0;
        // Nearly always the first head is taken; the others are looked up only if it is refused.
        let first = self.books.tenants[tenant].candidates(claim, 1, now)?;
        let mut tried = 0;
        let mut heads = first;
        while let Some(id) = heads.get(tried).copied() {
            match self.on_task(tenant, id, &commands, actor, now) {
                Err(Fail::Answer(Error::Refused(refusal))) => {
                    // What is wrong with the wish itself is wrong with every head.
                    if let Refusal::Invalid { .. } = refusal {
                        return Err(refusal.into());
                    }
                }
                // A task over which the judge breaks must not hide what queues behind it.
                Err(Fail::Answer(Error::Internal(why))) if broken < BROKEN_MAX => {
                    tracing::error!(task = %id, why, "a claim broke");
                    broken += 1;
                }
                other => return other,
            }
            if tried == 0 {
                heads = self.books.tenants[tenant].candidates(claim, CLAIM_TRIES, now)?;
            }
            tried += 1;
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
        // Nothing is written yet, so a judge that panics has spoiled nothing.
        let ruled = AssertUnwindSafe(|| rule(self.judge, task, lease, commands, &setting));
        match catch_unwind(ruled) {
            Ok(ruling) => Ok(ruling?),
            Err(panic) => Err(Fail::Answer(Error::Internal(last_words(panic.as_ref())))),
        }
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
}

/// What a panic said.
pub(super) fn last_words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it broke").to_owned()
}
