//! Claims: lanes are found by skipping from one to the next, their heads are merged by age and
//! priority, and what is taken is locked without waiting for anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Lane};
use baton_domain::pool::{PoolName, bar};
use baton_domain::task::Flow;

use super::Shared;
use super::heads::Group;
use super::ink::Done;
use super::look::Wanted;
use super::orders::Fail;
use super::room::{Ledger, Room};
use super::step::{Goal, Step};
use super::trouble::Trouble;
use super::wire::{Answers, Conn, Flush, params};
use crate::Error;
use crate::rows::{int, json, lane_number, nat, parse};

/// Lanes of a tenant that a claim looks at.
const LANES_MAX: i64 = 4_096;
/// Heads that a claim may step over because the judge broke.
const BROKEN_MAX: usize = 3;
/// Lanes of a tenant that are guessed to be those of the batch before: looking into one costs little.
const MET_MAX: usize = 64;
/// Lanes that are remembered; beyond this all are forgotten and found again.
const KNOWN_MAX: usize = 16_384;

/// Each step finds the next lane by one look into the index, however many tasks are in a lane.
const LANES: &str = "WITH RECURSIVE l (lane, task) AS (
        (SELECT lane, task FROM flows WHERE tenant = $1 AND lane IS NOT NULL
         ORDER BY lane, ready_at, task LIMIT 1)
        UNION ALL
        SELECT n.lane, n.task FROM l CROSS JOIN LATERAL (
            SELECT lane, task FROM flows WHERE tenant = $1 AND lane > l.lane
            ORDER BY lane, ready_at, task LIMIT 1) n),
    p (lane, task) AS (
        (SELECT probe, task FROM flows WHERE tenant = $1 AND probe IS NOT NULL
         ORDER BY probe, ready_at, task LIMIT 1)
        UNION ALL
        SELECT n.probe, n.task FROM p CROSS JOIN LATERAL (
            SELECT probe, task FROM flows WHERE tenant = $1 AND probe > p.lane
            ORDER BY probe, ready_at, task LIMIT 1) n)
    (SELECT lane, task FROM l LIMIT $2) UNION ALL (SELECT lane, task FROM p LIMIT $2)";
const BODIES: &str = "SELECT body FROM flows WHERE tenant = $1 AND task = ANY($2::int8[])";
/// The lanes that claims of a batch may take from, by tenant.
#[derive(Default)]
pub(super) struct Lanes(BTreeMap<i64, Vec<(i64, Arc<Lane>)>>);

/// What came of a claim.
pub(super) enum Claimed {
    Taken(Box<Done>),
    /// There may be something further down.
    Hungry,
    /// There is nothing besides what somebody else holds, and may let go of again.
    SteppedOver,
}

/// Lanes of a tenant in which something waits, each with the task at its head.
pub(super) struct Waiting {
    tenant: i64,
    heads: Vec<(i64, TaskId)>,
}

/// Asks for the lanes in which something waits; tells where the answer will be.
pub(super) fn ask_lanes(flush: &mut Flush, tenant: i64) -> usize {
    flush.add(LANES, params![tenant, LANES_MAX])
}

impl Waiting {
    pub(super) fn read(tenant: i64, answers: &mut Answers, at: usize) -> Self {
        let rows = answers.rows(at).into_iter();
        Self { tenant, heads: rows.map(|row| (row.get(0), TaskId(nat(row.get(1))))).collect() }
    }
}

/// What the lanes are. One that nobody here has met before is read off the task at its head.
pub(super) async fn lanes(
    shared: &Shared,
    conn: &mut Conn,
    waiting: Vec<Waiting>,
) -> Result<Lanes, Trouble> {
    let mut lanes = Lanes::default();
    for Waiting { tenant, heads } in waiting {
        let unknown = |(lane, task): &(i64, TaskId)| {
            shared.known_lane(*lane).is_none().then_some(int(task.0))
        };
        let unknown: Vec<i64> = heads.iter().filter_map(unknown).collect();
        if !unknown.is_empty() {
            for row in conn.query(BODIES, params![tenant, unknown]).await? {
                let flow: Flow = parse(row.get(0))?;
                shared.know_lanes(flow.lanes());
            }
        }
        let known = heads.iter().filter_map(|(id, _)| Some((*id, shared.known_lane(*id)?)));
        let known: Vec<_> = known.collect();
        shared.meet_lanes(tenant, &known);
        lanes.know(tenant, known);
    }
    Ok(lanes)
}

impl Lanes {
    pub(super) fn know(&mut self, tenant: i64, lanes: Vec<(i64, Arc<Lane>)>) {
        self.0.insert(tenant, lanes);
    }

    /// Groups the claims of a batch by the lanes that are open to them.
    pub(super) fn groups(&self, room: &Room, steps: &[Step<'_>]) -> Vec<Group> {
        let mut groups: BTreeMap<(i64, Vec<i64>), Group> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            let Goal::Next(claim) = &step.goal else { continue };
            let Some(ledger) = room.tenants.get(&step.tenant) else { continue };
            let all = self.0.get(&step.tenant).into_iter().flatten();
            let open = all.filter(|(_, lane)| is_open(ledger, lane, &claim.claimant));
            let mut lanes: Vec<_> = open.cloned().collect();
            lanes.sort_by_key(|(id, _)| *id);
            lanes.dedup_by_key(|(id, _)| *id);
            let key = (step.tenant, lanes.iter().map(|(id, _)| *id).collect());
            let fresh = || Group::new(step.tenant, lanes);
            groups.entry(key).or_insert_with(fresh).steps.push(at);
        }
        groups.into_values().collect()
    }
}

/// Whether the claimer may take from this lane, room aside.
fn is_open(ledger: &Ledger, lane: &Lane, claimant: &Claimant) -> bool {
    let project = ledger.projects.get(&lane.project);
    lane.admits(claimant) && project.is_none_or(|project| lane.is_open_to(claimant, project))
}

pub(super) fn has_room(ledger: &Ledger, room: &Room, lane: &Lane, claimant: &Claimant) -> bool {
    // Nearly always nobody has set a limit, and there is nothing to look at.
    ledger.pools.is_empty()
        || lane.asks(claimant).all(|ask| bar(&ledger.pools, &ask, room.now).is_none())
}

/// The pools that may matter to what this batch does: those of its tasks, of the lanes that its
/// claims look at, and of its claimers.
pub(super) fn want_pools(
    room: &Room,
    groups: &[Group],
    steps: &[Step<'_>],
    lock_all: bool,
    wanted: &mut Wanted,
) {
    for (tenant, ledger) in room.tenants.iter().filter(|(_, ledger)| !ledger.set.is_empty()) {
        let mut names = BTreeSet::new();
        let mut own = steps.iter().filter(|step| step.tenant == *tenant);
        if lock_all || own.any(Step::claims_its_own) {
            names.extend(ledger.set.iter().cloned());
        }
        for kept in ledger.tasks.values() {
            name_pools(&kept.flow, &mut names);
        }
        let claims = || groups.iter().filter(|group| group.tenant == *tenant);
        if claims().next().is_some() {
            // Whoever takes what comes next may meet any task, and its own pools are in no lane. There are
            // few of them, and here all pools are locked in one order.
            let of_a_task = |name: &&PoolName| match name {
                PoolName::Tree(_) | PoolName::Budget(_) => true,
                PoolName::Scheduler
                | PoolName::Project(_)
                | PoolName::Stage(..)
                | PoolName::Holder(_)
                | PoolName::Key(..)
                | PoolName::Role(_)
                | PoolName::Account(_)
                | PoolName::ProjectBudget(_)
                | PoolName::ProjectDayBudget(_)
                | PoolName::DayBudget => false,
            };
            names.extend(ledger.set.iter().filter(of_a_task).cloned());
        }
        for group in claims() {
            let claimants = group.steps.iter().filter_map(|at| steps[*at].claimants().next());
            for claimant in claimants {
                names.extend(
                    group
                        .lanes
                        .iter()
                        .flat_map(|(_, lane)| lane.asks(claimant))
                        .map(|ask| ask.pool),
                );
            }
        }
        for claimant in steps.iter().filter(|step| step.tenant == *tenant).flat_map(Step::claimants)
        {
            names.insert(PoolName::Holder(claimant.principal.clone()));
            names.extend(claimant.account.clone().map(PoolName::Account));
            names.extend(claimant.agents.iter().map(|offer| PoolName::Role(offer.role.clone())));
        }
        names.retain(|name| ledger.set.contains(name));
        wanted.pools.extend(names.iter().map(|name| (*tenant, json(name))));
    }
}

/// The pools that a task may take from, give back to or be stopped by.
fn name_pools(flow: &Flow, names: &mut BTreeSet<PoolName>) {
    let held = flow.run.as_ref().and_then(|run| run.held());
    names.extend(held.into_iter().flat_map(|held| &held.takes).map(|take| take.pool.clone()));
    let stage = flow.run.as_ref().map(|run| run.stage.clone());
    names.extend(stage.map(|stage| PoolName::Stage(flow.project.clone(), stage)));
    let roles = flow.capabilities.iter().filter_map(|need| need.names_agent());
    names.extend(roles.map(PoolName::Role));
    names.extend(flow.key.clone().map(|key| PoolName::Key(flow.project.clone(), key)));
    names.extend([PoolName::Scheduler, PoolName::Project(flow.project.clone())]);
    names.extend(flow.ancestors.iter().chain([&flow.id]).map(|task| PoolName::Tree(*task)));
    names.extend(flow.budgets());
}

impl Room {
    /// Gives a claim the first head that the judge lets it have.
    pub(super) fn claim(
        &mut self,
        shared: &Shared,
        step: &Step<'_>,
        groups: &[Group],
        at: usize,
    ) -> Result<Claimed, Fail> {
        let Goal::Next(claim) = &step.goal else { return Ok(Claimed::Hungry) };
        let nothing = || Fail::from(Refusal::NothingClaimable);
        let ledger = self.ledger(step.tenant)?;
        let held = || ledger.held_by(&claim.claimant.principal);
        if let Some(refusal) = claim.claimant.own_bar(&ledger.pools, self.now, held) {
            return Err(refusal.into());
        }
        let group = groups.iter().find(|group| group.steps.contains(&at)).ok_or_else(nothing)?;
        let commands = [Command::Claim((*claim).clone())];
        let mut broken = 0;
        for id in &group.heads {
            if !self.may_try(step.tenant, *id, &claim.claimant)? {
                continue;
            }
            match self.on_task(shared, step.tenant, *id, &commands) {
                Ok(ruling) => {
                    let done = self.write(step.tenant, ruling, step.actor, shared.salt())?;
                    return Ok(Claimed::Taken(Box::new(done)));
                }
                // What is wrong with the wish itself is wrong with every head.
                Err(Fail::Answer(Error::Refused(refusal @ Refusal::Invalid { .. }))) => {
                    return Err(refusal.into());
                }
                Err(Fail::Answer(Error::Refused(_))) => {}
                // A task over which the judge breaks must not hide what queues behind it.
                Err(Fail::Answer(Error::Internal(why))) if broken < BROKEN_MAX => {
                    tracing::error!(task = %id, why, "a claim broke");
                    broken += 1;
                }
                Err(other) => return Err(other),
            }
        }
        if group.more {
            Ok(Claimed::Hungry)
        } else if group.stepped_over.is_empty() {
            Err(nothing())
        } else {
            Ok(Claimed::SteppedOver)
        }
    }

    /// Whether a head still queues in a lane that lets the claimer in.
    fn may_try(&self, tenant: i64, id: TaskId, claimant: &Claimant) -> Result<bool, Fail> {
        let ledger = self.ledger(tenant)?;
        let Some(kept) = ledger.tasks.get(&id) else { return Ok(false) };
        let lets_in =
            |lane: &Lane| is_open(ledger, lane, claimant) && has_room(ledger, self, lane, claimant);
        Ok(kept.locked && kept.flow.lanes().iter().any(lets_in))
    }
}

impl Shared {
    /// The lanes in which something waited when a claim last looked.
    pub(super) fn met_lanes(&self, tenant: i64) -> Option<Vec<(i64, Arc<Lane>)>> {
        self.known().met.get(&tenant).cloned()
    }

    /// Notes in which lanes something waits. One that is empty now is likely to fill again, so it is
    /// forgotten only with the next change.
    fn meet_lanes(&self, tenant: i64, lanes: &[(i64, Arc<Lane>)]) {
        let mut known = self.known();
        let met = known.met.entry(tenant).or_default();
        if lanes.len() > MET_MAX {
            known.met.remove(&tenant);
        } else if !lanes.iter().all(|(id, _)| met.iter().any(|(other, _)| other == id)) {
            *met = lanes.to_vec();
        }
    }

    fn known_lane(&self, id: i64) -> Option<Arc<Lane>> {
        self.known().lanes.get(&id).cloned()
    }

    fn know_lanes(&self, lanes: Vec<Lane>) {
        let mut known = self.known();
        if known.lanes.len() > KNOWN_MAX {
            known.lanes.clear();
        }
        for lane in lanes {
            known.lanes.insert(lane_number(&lane), Arc::new(lane));
        }
    }
}
