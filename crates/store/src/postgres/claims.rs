//! Claims: lanes are found by skipping from one to the next, their heads are merged by age and
//! priority, and what is taken is locked without waiting for anybody.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Lane, Sort};
use baton_domain::pool::{PoolName, bar};
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;

use super::Shared;
use super::ink::Done;
use super::load::keep_locked;
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
/// Heads that one claim may try when the first was refused.
const CLAIM_TRIES: usize = 256;
/// Heads of a lane that others may be holding just now.
const SKIPPED_MAX: usize = 256;
/// Heads that a claim may step over because the judge broke.
const BROKEN_MAX: usize = 3;
/// Lanes that are remembered; beyond this all are forgotten and found again.
const KNOWN_MAX: usize = 16_384;

/// Each step finds the next lane by one look into the index, however many tasks are in a lane.
const LANES: &str = "WITH RECURSIVE l (lane, task) AS (
        (SELECT lane, task FROM flows WHERE tenant = $1 AND lane IS NOT NULL
         ORDER BY lane, ready_at, task LIMIT 1)
        UNION ALL
        SELECT n.lane, n.task FROM l CROSS JOIN LATERAL (
            SELECT lane, task FROM flows WHERE tenant = $1 AND lane > l.lane
            ORDER BY lane, ready_at, task LIMIT 1) n)
    SELECT lane, task FROM l LIMIT $2";
const PROBES: &str = "WITH RECURSIVE l (lane, task) AS (
        (SELECT probe, task FROM flows WHERE tenant = $1 AND probe IS NOT NULL
         ORDER BY probe, ready_at, task LIMIT 1)
        UNION ALL
        SELECT n.probe, n.task FROM l CROSS JOIN LATERAL (
            SELECT probe, task FROM flows WHERE tenant = $1 AND probe > l.lane
            ORDER BY probe, ready_at, task LIMIT 1) n)
    SELECT lane, task FROM l LIMIT $2";
const BODIES: &str = "SELECT body FROM flows WHERE tenant = $1 AND task = ANY($2::int8[])";
/// The heads are found without a lock; then as many as are wanted are locked, the first first, and
/// whatever somebody else has is stepped over.
const HEADS: &str = "SELECT f.tenant, f.task, f.head, f.body FROM (
        SELECT h.task, min(h.ready_at - l.boost) AS rank
        FROM unnest($2::int8[], $3::int8[]) l (id, boost)
        CROSS JOIN LATERAL (SELECT task, ready_at FROM flows WHERE tenant = $1 AND lane = l.id
            ORDER BY ready_at, task LIMIT $6) h
        GROUP BY h.task
        UNION ALL
        SELECT h.task, min(h.ready_at - l.boost) AS rank
        FROM unnest($4::int8[], $5::int8[]) l (id, boost)
        CROSS JOIN LATERAL (SELECT task, ready_at FROM flows WHERE tenant = $1 AND probe = l.id
            ORDER BY ready_at, task LIMIT $6) h
        GROUP BY h.task) c
    JOIN flows f ON f.tenant = $1 AND f.task = c.task
    WHERE f.lane IS NOT NULL OR f.probe IS NOT NULL
    ORDER BY c.rank, c.task LIMIT $7
    FOR UPDATE OF f SKIP LOCKED";

/// What time it is once the heads are locked: somebody may have written to them since the batch began.
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";

/// The lanes that claims of a batch may take from, by tenant.
#[derive(Default)]
pub(super) struct Lanes(BTreeMap<i64, Vec<(i64, Arc<Lane>)>>);

/// Claims that may take from the same lanes, and the heads that were locked for them.
pub(super) struct Group {
    tenant: i64,
    lanes: Vec<(i64, Arc<Lane>)>,
    /// Which steps.
    steps: Vec<usize>,
    heads: Vec<TaskId>,
    /// Whether there may be more heads than were locked.
    more: bool,
}

/// Lanes of a tenant in which something waits, each with the task at its head.
pub(super) struct Waiting {
    tenant: i64,
    heads: Vec<(i64, TaskId)>,
}

/// Asks for the lanes in which something waits; tells where the first of two answers will be.
pub(super) fn ask_lanes(flush: &mut Flush, tenant: i64) -> usize {
    let at = flush.add(LANES, params![tenant, LANES_MAX]);
    flush.add(PROBES, params![tenant, LANES_MAX]);
    at
}

impl Waiting {
    pub(super) fn read(tenant: i64, answers: &mut Answers, at: usize) -> Self {
        let rows = answers.rows(at).into_iter().chain(answers.rows(at + 1));
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
        lanes.0.insert(tenant, known.collect());
    }
    Ok(lanes)
}

impl Group {
    /// Keeps only some of its claims; tells whether any are left.
    pub(super) fn keep(&mut self, keeps: impl Fn(usize) -> bool) -> bool {
        self.steps.retain(|at| keeps(*at));
        !self.steps.is_empty()
    }
}

impl Lanes {
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
            let fresh =
                || Group { tenant: step.tenant, lanes, steps: vec![], heads: vec![], more: false };
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

fn has_room(ledger: &Ledger, room: &Room, lane: &Lane, claimant: &Claimant) -> bool {
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
        if lock_all {
            names.extend(ledger.set.iter().cloned());
        }
        for kept in ledger.tasks.values() {
            name_pools(&kept.flow, &mut names);
        }
        for group in groups.iter().filter(|group| group.tenant == *tenant) {
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
    names.extend(flow.key.clone().map(|key| PoolName::Key(flow.project.clone(), key)));
    names.extend([PoolName::Scheduler, PoolName::Project(flow.project.clone())]);
    for task in flow.ancestors.iter().chain([&flow.id]) {
        names.extend([PoolName::Tree(*task), PoolName::Budget(*task)]);
    }
}

/// Locks heads for claims: as many as there are claims, or as many as may be tried. Before anything
/// is judged the time is told anew, so that it never runs backwards for what was locked late.
pub(super) async fn lock_heads(
    shared: &Shared,
    conn: &mut Conn,
    room: &mut Room,
    groups: &mut [Group],
    steps: &[Step<'_>],
    again: bool,
) -> Result<(), Trouble> {
    let (mut flush, mut asked, mut before) = (Flush::default(), vec![], HashMap::new());
    for (at, group) in groups.iter().enumerate() {
        let Some(ledger) = room.tenants.get(&group.tenant) else { continue };
        let roomy = |(_, lane): &&(i64, Arc<Lane>)| {
            group.steps.iter().any(|at| match &steps[*at].goal {
                Goal::Next(claim) => has_room(ledger, room, lane, &claim.claimant),
                Goal::Task(..) | Goal::Birth(..) | Goal::Nothing => false,
            })
        };
        let of = |probes: bool| -> (Vec<i64>, Vec<i64>) {
            let lanes = group.lanes.iter().filter(roomy);
            let lanes = lanes.filter(|(_, lane)| (lane.sort == Sort::Probe) == probes);
            lanes.map(|(id, lane)| (*id, int(lane.priority.head_start().0))).unzip()
        };
        let (lanes, probes) = (of(false), of(true));
        if group.steps.is_empty() || (lanes.0.is_empty() && probes.0.is_empty()) {
            continue;
        }
        // What this batch locked before is not stepped over, so it must fit besides.
        let others: &mut usize = before.entry(group.tenant).or_default();
        *others += group.steps.len();
        let count = if again { CLAIM_TRIES } else { *others };
        let deep = int((count + SKIPPED_MAX) as u64);
        let params =
            params![group.tenant, lanes.0, lanes.1, probes.0, probes.1, deep, int(count as u64)];
        asked.push((at, count, flush.add(HEADS, params)));
    }
    if asked.is_empty() {
        return Ok(());
    }
    let clock = (!again).then(|| flush.add(CLOCK, params![]));
    let mut answers = conn.send(flush).await?;
    if let Some(row) = clock.and_then(|at| answers.rows(at).into_iter().next()) {
        let told = shared.time.heard(Timestamp(row.get(0)));
        room.now = shared.time.at_least(room.now.max(told));
    }
    for (at, count, rows) in asked {
        let heads = keep_locked(room, answers.rows(rows))?;
        groups[at].more = heads.len() == count;
        groups[at].heads = heads;
    }
    Ok(())
}

impl Room {
    /// Gives a claim the first head that the judge lets it have. None if there may be others.
    pub(super) fn claim(
        &mut self,
        shared: &Shared,
        step: &Step<'_>,
        groups: &[Group],
        at: usize,
        last_try: bool,
    ) -> Result<Option<Done>, Fail> {
        let Goal::Next(claim) = &step.goal else { return Ok(None) };
        let nothing = || Fail::from(Refusal::NothingClaimable);
        let ledger = self.ledger(step.tenant)?;
        let held = || ledger.held_by(&claim.claimant.principal);
        if let Some(refusal) = claim.claimant.own_bar(&ledger.pools, self.now, held) {
            return Err(refusal.into());
        }
        let group = groups.iter().find(|group| group.steps.contains(&at)).ok_or_else(nothing)?;
        let commands = [Command::Claim((*claim).clone())];
        let (mut broken, mut refused) = (0, false);
        for id in &group.heads {
            if !self.may_try(step.tenant, *id, &claim.claimant)? {
                continue;
            }
            match self.on_task(shared, step.tenant, *id, &commands) {
                Ok(ruling) => {
                    let done = self.write(step.tenant, ruling, step.actor, shared.salt())?;
                    return Ok(Some(done));
                }
                // What is wrong with the wish itself is wrong with every head.
                Err(Fail::Answer(Error::Refused(refusal @ Refusal::Invalid { .. }))) => {
                    return Err(refusal.into());
                }
                Err(Fail::Answer(Error::Refused(_))) => refused = true,
                // A task over which the judge breaks must not hide what queues behind it.
                Err(Fail::Answer(Error::Internal(why))) if broken < BROKEN_MAX => {
                    tracing::error!(task = %id, why, "a claim broke");
                    (broken, refused) = (broken + 1, true);
                }
                Err(other) => return Err(other),
            }
        }
        if !last_try && (group.more || refused) { Ok(None) } else { Err(nothing()) }
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
