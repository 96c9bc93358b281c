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
use tokio_postgres::Row;

use super::Shared;
use super::ink::Done;
use super::load::keep_locked;
use super::look::Wanted;
use super::orders::Fail;
use super::room::{Ledger, Room};
use super::step::{Goal, Step};
use super::time::told;
use super::trouble::Trouble;
use super::wire::{Answers, Conn, Flush, params};
use crate::Error;
use crate::rows::{int, json, lane_number, nat, parse};

/// Lanes of a tenant that a claim looks at.
const LANES_MAX: i64 = 4_096;
/// Heads that are locked besides one for each claim, round after round, as long as one finds nothing:
/// most are content with the first, and whoever is not shall not lock all at once.
const WIDTHS: [usize; 4] = [0, 8, 64, 256];
/// Heads that others hold and that are told of: enough to wait for.
const TOLD_MAX: i64 = 8;
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
/// whatever somebody else has is stepped over. If fewer could be locked than were wanted, the first
/// that were stepped over come too, without a body, and every row says how many heads were found.
const HEADS: &str = "WITH c AS MATERIALIZED (
        SELECT h.task, min(h.rank) AS rank FROM (
            SELECT n.task, n.ready_at - l.boost AS rank
            FROM unnest($2::int8[], $3::int8[]) l (id, boost)
            CROSS JOIN LATERAL (SELECT task, ready_at FROM flows WHERE tenant = $1 AND lane = l.id
                ORDER BY ready_at, task LIMIT $6) n
            UNION ALL
            SELECT n.task, n.ready_at - l.boost AS rank
            FROM unnest($4::int8[], $5::int8[]) l (id, boost)
            CROSS JOIN LATERAL (SELECT task, ready_at FROM flows WHERE tenant = $1 AND probe = l.id
                ORDER BY ready_at, task LIMIT $6) n) h
        GROUP BY h.task ORDER BY rank, h.task),
    o AS MATERIALIZED (
        SELECT f.tenant, f.task, f.head, f.body, c.rank
        FROM c CROSS JOIN LATERAL (SELECT tenant, task, head, body FROM flows
            WHERE tenant = $1 AND task = c.task AND (lane IS NOT NULL OR probe IS NOT NULL)
            FOR UPDATE SKIP LOCKED) f
        LIMIT $7)
    SELECT u.tenant, u.task, u.head, u.body, (SELECT count(*) FROM c) FROM (
        SELECT tenant, task, head, body, rank FROM o
        UNION ALL
        (SELECT $1::int8, c.task, NULL::bytea, NULL::bytea, c.rank FROM c
         WHERE (SELECT count(*) FROM o) < $7::int8
            AND NOT EXISTS (SELECT 1 FROM o WHERE o.task = c.task)
         ORDER BY c.rank, c.task LIMIT $8)) u
    ORDER BY u.rank, u.task";

/// What time it is once heads are locked: somebody may have written to them since the batch began.
const CLOCK: &str = concat!("SELECT ", told!());

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
    /// Heads that somebody else held, if there were no more.
    stepped_over: Vec<TaskId>,
}

/// What came of a claim.
pub(super) enum Claimed {
    Taken(Box<Done>),
    /// There may be something further down.
    Hungry,
    /// There is nothing besides what somebody else holds, and may let go of again.
    SteppedOver,
}

/// Rounds in which heads are locked.
pub(super) const ROUNDS: usize = WIDTHS.len();

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

    /// What its claims stepped over.
    pub(super) fn stepped_over(&self) -> impl Iterator<Item = (i64, TaskId)> {
        self.stepped_over.iter().map(|task| (self.tenant, *task))
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
            let fresh = || Group {
                tenant: step.tenant,
                lanes,
                steps: vec![],
                heads: vec![],
                more: false,
                stepped_over: vec![],
            };
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
    names.extend(flow.ancestors.iter().chain([&flow.id]).map(|task| PoolName::Tree(*task)));
    names.extend(flow.budgets());
}

/// Locks heads for claims: as many as there are claims, and more in every further round. The time is
/// told anew in each, so that it never runs backwards for what was locked late.
pub(super) async fn lock_heads(
    shared: &Shared,
    conn: &mut Conn,
    room: &mut Room,
    groups: &mut [Group],
    steps: &[Step<'_>],
    round: usize,
) -> Result<(), Trouble> {
    let (mut flush, mut asked, mut before) = (Flush::default(), vec![], HashMap::new());
    for (at, group) in groups.iter_mut().enumerate() {
        (group.more, group.stepped_over) = (false, vec![]);
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
        let count = *others + WIDTHS[round];
        let deep = int((count + SKIPPED_MAX) as u64);
        let (lanes, boosts) = lanes;
        let (probes, probe_boosts) = probes;
        let wanted = int(count as u64);
        let params =
            params![group.tenant, lanes, boosts, probes, probe_boosts, deep, wanted, TOLD_MAX];
        asked.push((at, count, deep, flush.add(HEADS, params)));
    }
    if asked.is_empty() {
        return Ok(());
    }
    let clock = flush.add(CLOCK, params![]);
    let mut answers = conn.send(flush).await?;
    if let Some(row) = answers.rows(clock).first() {
        let told = shared.time.heard(row)?;
        room.now = shared.time.at_least(room.now.max(told));
    }
    for (at, count, deep, rows) in asked {
        let rows = answers.rows(rows);
        let found = rows.first().map_or(0, |row| row.get::<_, i64>(4));
        let is_locked = |row: &Row| row.get::<_, Option<&[u8]>>(2).is_some();
        let (locked, others): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_locked);
        let group = &mut groups[at];
        group.heads = keep_locked(room, locked)?;
        group.more = round + 1 < ROUNDS && (group.heads.len() == count || found >= deep);
        group.stepped_over = others.iter().map(|row| TaskId(nat(row.get(1)))).collect();
    }
    Ok(())
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
