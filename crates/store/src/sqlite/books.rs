//! What the writer keeps in memory: every live task, the lanes it queues in, and when it is due.
//! The database is the truth; after any doubt the books are thrown away and read again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::Claim;
use baton_domain::decide::due_at;
use baton_domain::ids::{AttemptId, PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::lane::{Claimant, Lane};
use baton_domain::limits::UPSTREAM_MAX;
use baton_domain::pool::{PoolName, Pools, bar};
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::scene::Lease;
use baton_domain::task::{Flow, Kind};
use baton_domain::time::Timestamp;

use crate::chain::{Hash, ROOT};

/// Everything that the writer knows without asking the database.
pub(super) struct Books {
    pub(super) tenants: Vec<Ledger>,
    pub(super) by_name: HashMap<TenantId, usize>,
    pub(super) next_reaction: i64,
    /// No lease ends before this.
    pub(super) amnesty: Timestamp,
    /// When time last passed.
    pub(super) swept_at: Timestamp,
    /// When somebody last watched the time: a sweep, or the end of a silence.
    pub(super) watched_at: Timestamp,
}

/// The books of one tenant.
pub(super) struct Ledger {
    pub(super) key: i64,
    pub(super) id: TenantId,
    pub(super) next_task: u64,
    pub(super) position: u64,
    pub(super) records_version: u64,
    pub(super) records_head: Hash,
    pub(super) projects: HashMap<ProjectId, Arc<Project>>,
    pub(super) pools: Pools,
    pub(super) live: HashMap<TaskId, Live>,
    /// When something is due, and for which task.
    pub(super) due: BTreeSet<(Timestamp, TaskId)>,
    /// When leases end.
    pub(super) expiring: BTreeSet<(Timestamp, TaskId)>,
    /// What its tasks owe one another, in the order in which it arose.
    pub(super) reactions: VecDeque<(i64, Reaction)>,
    pub(super) lanes: BTreeMap<Lane, BTreeSet<(Timestamp, TaskId)>>,
    /// What each live task declares to wait for, and the other way round.
    pub(super) waits_for: HashMap<TaskId, BTreeSet<TaskId>>,
    pub(super) awaited_by: HashMap<TaskId, BTreeSet<TaskId>>,
    /// The live children of each task.
    children: HashMap<TaskId, BTreeSet<TaskId>>,
}

/// A live task.
pub(super) struct Live {
    pub(super) flow: Arc<Flow>,
    pub(super) lease: Option<Lease>,
    pub(super) head: Hash,
    lanes: Vec<Lane>,
    ready_at: Timestamp,
    due: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

impl Books {
    pub(super) fn empty(amnesty: Timestamp, swept_at: Timestamp) -> Self {
        Self {
            tenants: vec![],
            by_name: HashMap::new(),
            next_reaction: 1,
            amnesty,
            swept_at,
            watched_at: swept_at,
        }
    }

    /// A tenant that nobody has heard of.
    pub(super) fn add_tenant(&mut self, key: i64, id: TenantId) -> &mut Ledger {
        self.by_name.insert(id.clone(), self.tenants.len());
        self.tenants.push(Ledger {
            key,
            id,
            next_task: 1,
            position: 0,
            records_version: 0,
            records_head: ROOT,
            projects: HashMap::new(),
            pools: Pools::new(),
            live: HashMap::new(),
            due: BTreeSet::new(),
            expiring: BTreeSet::new(),
            reactions: VecDeque::new(),
            lanes: BTreeMap::new(),
            waits_for: HashMap::new(),
            awaited_by: HashMap::new(),
            children: HashMap::new(),
        });
        self.tenants.last_mut().expect("it was added just now")
    }

    /// Puts a live task into the books, or its new state; tells the lanes that it joined.
    pub(super) fn put(
        &mut self,
        tenant: usize,
        flow: Arc<Flow>,
        lease: Option<Lease>,
        head: Hash,
    ) -> Vec<Lane> {
        let id = flow.id;
        let before = self.take(tenant, id);
        let ledger = &mut self.tenants[tenant];
        let (lanes, ready_at) = (flow.lanes(), flow.ready_at());
        for lane in &lanes {
            ledger.lanes.entry(lane.clone()).or_default().insert((ready_at, id));
        }
        if let Some(parent) = flow.parent() {
            ledger.children.entry(parent).or_default().insert(id);
        }
        let had = |lane: &&Lane| !before.as_ref().is_some_and(|live| live.lanes.contains(lane));
        let joined = lanes.iter().filter(had).cloned().collect();
        let (due, ends_at) = (None, None);
        ledger.live.insert(id, Live { flow, lease, head, lanes, ready_at, due, ends_at });
        ledger.set_alarms(id, self.amnesty);
        joined
    }

    /// Takes a task out of the books.
    pub(super) fn take(&mut self, tenant: usize, id: TaskId) -> Option<Live> {
        let ledger = &mut self.tenants[tenant];
        let live = ledger.live.remove(&id)?;
        for lane in &live.lanes {
            if let Some(queue) = ledger.lanes.get_mut(lane) {
                queue.remove(&(live.ready_at, id));
                if queue.is_empty() {
                    ledger.lanes.remove(lane);
                }
            }
        }
        let parent = live.flow.parent();
        if let Some((parent, siblings)) =
            parent.and_then(|parent| Some((parent, ledger.children.get_mut(&parent)?)))
        {
            siblings.remove(&id);
            if siblings.is_empty() {
                ledger.children.remove(&parent);
            }
        }
        ledger.forget_alarms(&live);
        Some(live)
    }

    /// A renewal moves only the lease and the time at which it ends.
    pub(super) fn renew(&mut self, tenant: usize, id: TaskId, lease: Lease) {
        let ledger = &mut self.tenants[tenant];
        let Some(mut live) = ledger.live.remove(&id) else { return };
        ledger.forget_alarms(&live);
        live.lease = Some(lease);
        ledger.live.insert(id, live);
        ledger.set_alarms(id, self.amnesty);
    }

    /// Nobody loses a lease to an outage of ours: every due time is worked out anew.
    pub(super) fn grant_amnesty(&mut self, until: Timestamp) {
        self.amnesty = until;
        for tenant in 0..self.tenants.len() {
            let held = self.tenants[tenant].live.values();
            let held: Vec<_> = held
                .filter_map(|live| live.lease.clone().map(|lease| (live.flow.id, lease)))
                .collect();
            for (id, lease) in held {
                self.renew(tenant, id, lease);
            }
        }
    }

    /// Whether anybody holds anything.
    pub(super) fn has_leases(&self) -> bool {
        self.tenants.iter().any(|ledger| ledger.live.values().any(|live| live.lease.is_some()))
    }
}

impl Ledger {
    /// Works out when time has something to do with a task.
    fn set_alarms(&mut self, id: TaskId, amnesty: Timestamp) {
        let Some(live) = self.live.get_mut(&id) else { return };
        let project = self.projects.get(&live.flow.project);
        let lease = live.lease.as_ref();
        live.due = project.and_then(|project| due_at(&live.flow, lease, project, amnesty));
        live.ends_at = lease.map(|lease| lease.ends_at(amnesty));
        self.due.extend(live.due.map(|due| (due, id)));
        self.expiring.extend(live.ends_at.map(|ends_at| (ends_at, id)));
    }

    /// Whether the lease of a task has ended by now.
    pub(super) fn has_ended_lease(&self, id: TaskId, now: Timestamp) -> bool {
        self.live.get(&id).and_then(|live| live.ends_at).is_some_and(|ends_at| ends_at <= now)
    }

    fn forget_alarms(&mut self, live: &Live) {
        let id = live.flow.id;
        if let Some(due) = live.due {
            self.due.remove(&(due, id));
        }
        if let Some(ends_at) = live.ends_at {
            self.expiring.remove(&(ends_at, id));
        }
    }

    /// The tasks that a claim may get, first by age and priority, at most so many. Each lane is looked
    /// at once, however many of its tasks are wanted.
    pub(super) fn candidates(
        &self,
        claim: &Claim,
        count_max: usize,
        now: Timestamp,
    ) -> Result<Vec<TaskId>, Refusal> {
        let claimant = &claim.claimant;
        let held = || self.held_by(&claimant.principal);
        if let Some(refusal) = claimant.own_bar(&self.pools, now, held) {
            return Err(refusal);
        }
        let open = self.lanes.iter().filter(|(lane, _)| {
            lane.admits(claimant)
                && self.is_for(lane, claimant)
                && self.has_room(lane, claimant, now)
        });
        let ranked =
            |lane: &Lane, (ready_at, id): &(Timestamp, TaskId)| (lane.rank(*ready_at), *id);
        if count_max == 1 {
            let heads = open.filter_map(|(lane, queue)| Some(ranked(lane, queue.first()?)));
            let first = heads.min().ok_or(Refusal::NothingClaimable)?;
            return Ok(vec![first.1]);
        }
        let mut found: Vec<_> = open
            .flat_map(|(lane, queue)| {
                queue.iter().take(count_max).map(move |head| ranked(lane, head))
            })
            .collect();
        found.sort();
        found.dedup_by_key(|(_, id)| *id);
        found.truncate(count_max);
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    /// Whether the project lets this claimer work, check or probe there.
    fn is_for(&self, lane: &Lane, claimant: &Claimant) -> bool {
        self.projects.get(&lane.project).is_none_or(|project| lane.is_open_to(claimant, project))
    }

    fn has_room(&self, lane: &Lane, claimant: &Claimant, now: Timestamp) -> bool {
        // Nearly always nobody has set a limit, and there is nothing to look at.
        self.pools.is_empty()
            || lane.asks(claimant).all(|ask| bar(&self.pools, &ask, now).is_none())
    }

    /// An attempt that this principal holds.
    pub(super) fn held_by(&self, principal: &PrincipalId) -> Option<AttemptId> {
        let lease = |live: &Live| live.lease.as_ref().map(|lease| (live.flow.id, lease.clone()));
        self.live
            .values()
            .filter_map(lease)
            .filter(|(_, lease)| lease.holder == *principal)
            .map(|(task, lease)| AttemptId { task, number: lease.attempt })
            .min()
    }

    /// How much live attempts have taken from a pool.
    pub(super) fn taken_from(&self, pool: &PoolName) -> u64 {
        let held = self.live.values().filter_map(|live| live.flow.run.as_ref()?.held());
        held.flat_map(|held| &held.takes)
            .filter(|take| take.pool == *pool)
            .map(|take| take.amount)
            .sum()
    }

    /// Everything that a task waits for, directly or through others; an epic waits for its children.
    /// One more than the bound if there is more.
    pub(super) fn upstream(&self, of: TaskId) -> BTreeSet<TaskId> {
        let mut seen = BTreeSet::new();
        let mut rest = vec![of];
        while let Some(task) = rest.pop() {
            let is_epic = |live: &&Live| live.flow.kind == Kind::Epic;
            let epic = self.live.get(&task).filter(is_epic);
            let children = epic.and_then(|_| self.children.get(&task));
            for on in self.waits_for.get(&task).into_iter().chain(children).flatten() {
                if seen.insert(*on) {
                    rest.push(*on);
                }
            }
            if seen.len() > UPSTREAM_MAX {
                break;
            }
        }
        seen
    }

    /// Declares or withdraws a dependency.
    pub(super) fn set_edge(&mut self, task: TaskId, on: TaskId, add: bool) {
        if add {
            self.waits_for.entry(task).or_default().insert(on);
            self.awaited_by.entry(on).or_default().insert(task);
            return;
        }
        if let Some(edges) = self.waits_for.get_mut(&task) {
            edges.remove(&on);
        }
        self.forget_waiter(task, on);
    }

    /// An ended task waits for nothing any more.
    pub(super) fn forget_edges_of(&mut self, task: TaskId) {
        for on in self.waits_for.remove(&task).unwrap_or_default() {
            self.forget_waiter(task, on);
        }
    }

    fn forget_waiter(&mut self, task: TaskId, on: TaskId) {
        if let Some(waiters) = self.awaited_by.get_mut(&on) {
            waiters.remove(&task);
            if waiters.is_empty() {
                self.awaited_by.remove(&on);
            }
        }
    }
}
