//! The heads of lanes: as many as there are claims are locked, and whatever somebody else holds is
//! stepped over. Nearly always the lanes are those of the batch before, so heads are locked in
//! the first flush as if they were; what it brings tells whether that was right.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_domain::ids::TaskId;
use baton_domain::lane::{Lane, Sort};
use tokio_postgres::Row;

use super::Shared;
use super::claims::{Lanes, has_room};
use super::load::keep_locked;
use super::room::Room;
use super::step::{Goal, Step};
use super::time::told;
use super::trouble::Trouble;
use super::wire::{Answers, Conn, Flush, params};
use crate::rows::{int, nat};

/// Heads that are locked besides one for each claim, round after round, as long as one finds nothing:
/// most are content with the first, and whoever is not shall not lock all at once.
const WIDTHS: [usize; ROUNDS] = [0, 8, 64, 256];
/// Heads of a lane that others may be holding just now, round after round.
const SKIPPED_MAX: [usize; ROUNDS] = [32, 64, 256, 256];
/// Heads that others hold and that are told of: enough to wait for.
const TOLD_MAX: i64 = 8;
/// Rounds in which heads are locked.
pub(super) const ROUNDS: usize = 4;

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

/// Claims that may take from the same lanes, and the heads that were locked for them.
pub(super) struct Group {
    pub(super) tenant: i64,
    pub(super) lanes: Vec<(i64, Arc<Lane>)>,
    /// Which steps.
    pub(super) steps: Vec<usize>,
    pub(super) heads: Vec<TaskId>,
    /// Whether there may be more heads than were locked.
    pub(super) more: bool,
    /// Heads that somebody else held, if there were no more.
    pub(super) stepped_over: Vec<TaskId>,
}

/// Heads that were asked for: of which group, how many, how deep, and where the answer will be.
struct Asked {
    group: usize,
    count: usize,
    deep: i64,
    at: usize,
}

impl Group {
    pub(super) fn new(tenant: i64, lanes: Vec<(i64, Arc<Lane>)>) -> Self {
        let (steps, heads, stepped_over) = (vec![], vec![], vec![]);
        Self { tenant, lanes, steps, heads, more: false, stepped_over }
    }

    /// Keeps only some of its claims; tells whether any are left.
    pub(super) fn keep(&mut self, keeps: impl Fn(usize) -> bool) -> bool {
        self.steps.retain(|at| keeps(*at));
        !self.steps.is_empty()
    }

    fn has(&self, lane: i64) -> bool {
        self.lanes.binary_search_by_key(&lane, |(id, _)| *id).is_ok()
    }

    /// What its claims stepped over.
    pub(super) fn stepped_over(&self) -> impl Iterator<Item = (i64, TaskId)> {
        self.stepped_over.iter().map(|task| (self.tenant, *task))
    }
}

/// Locks heads for claims: as many as there are claims, and more in every further round. The time is
/// told anew in each, so that it never runs backwards for what was locked late.
pub(super) async fn lock(
    shared: &Shared,
    conn: &mut Conn,
    room: &mut Room,
    groups: &mut [Group],
    steps: &[Step<'_>],
    round: usize,
) -> Result<(), Trouble> {
    let mut flush = Flush::default();
    let asked = ask(&mut flush, room, groups, steps, round);
    if asked.is_empty() {
        return Ok(());
    }
    let clock = flush.add(CLOCK, params![]);
    let mut answers = conn.send(flush).await?;
    if let Some(row) = answers.rows(clock).first() {
        let told = shared.time.heard(row)?;
        room.now = shared.time.at_least(room.now.max(told));
    }
    for asked in asked {
        let rows = answers.rows(asked.at);
        keep(room, &mut groups[asked.group], &asked, rows, round)?;
    }
    Ok(())
}

fn ask(
    flush: &mut Flush,
    room: &Room,
    groups: &mut [Group],
    steps: &[Step<'_>],
    round: usize,
) -> Vec<Asked> {
    let (mut asked, mut before) = (vec![], HashMap::new());
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
        let deep = int((count + SKIPPED_MAX[round]) as u64);
        let (lanes, boosts) = lanes;
        let (probes, probe_boosts) = probes;
        let wanted = int(count as u64);
        let params =
            params![group.tenant, lanes, boosts, probes, probe_boosts, deep, wanted, TOLD_MAX];
        asked.push(Asked { group: at, count, deep, at: flush.add(HEADS, params) });
    }
    asked
}

fn keep(
    room: &mut Room,
    group: &mut Group,
    asked: &Asked,
    rows: Vec<Row>,
    round: usize,
) -> Result<(), Trouble> {
    let found = rows.first().map_or(0, |row| row.get::<_, i64>(4));
    let is_locked = |row: &Row| row.get::<_, Option<&[u8]>>(2).is_some();
    let (locked, others): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_locked);
    group.heads = keep_locked(room, locked)?;
    group.more = round + 1 < ROUNDS && (group.heads.len() == asked.count || found >= asked.deep);
    group.stepped_over = others.iter().map(|row| TaskId(nat(row.get(1)))).collect();
    Ok(())
}

/// Heads that were locked as if lanes and records were those of the batch before.
pub(super) struct Guess {
    groups: Vec<Group>,
    asked: Vec<Asked>,
    /// Which records were taken for granted.
    versions: BTreeMap<i64, u64>,
    rows: Vec<Vec<Row>>,
}

impl Guess {
    /// Asks for heads with the first flush. Where something is limited nothing is guessed: what is
    /// full must be known before a head is locked.
    pub(super) fn ask(
        shared: &Shared,
        flush: &mut Flush,
        room: &Room,
        steps: &[Step<'_>],
    ) -> Option<Self> {
        let (mut lanes, mut versions) = (Lanes::default(), BTreeMap::new());
        for step in steps.iter().filter(|step| step.is_claim()) {
            let ledger = room.tenants.get(&step.tenant)?;
            if !ledger.records_guessed || !ledger.set.is_empty() {
                return None;
            }
            versions.insert(step.tenant, ledger.records_version);
            lanes.know(step.tenant, shared.met_lanes(step.tenant)?);
        }
        let mut groups = lanes.groups(room, steps);
        let asked = ask(flush, room, &mut groups, steps, 0);
        (!asked.is_empty()).then_some(Self { groups, asked, versions, rows: vec![] })
    }

    /// Takes the answer, to be looked at once the lanes are known.
    pub(super) fn hear(mut self, answers: &mut Answers) -> Self {
        self.rows = self.asked.iter().map(|asked| answers.rows(asked.at)).collect();
        self
    }

    /// The groups with their heads, if no claim may look further than it was guessed to.
    pub(super) fn holds(
        mut self,
        room: &mut Room,
        groups: &[Group],
    ) -> Result<Option<Vec<Group>>, Trouble> {
        let same = |(tenant, version): (&i64, &u64)| {
            let ledger = room.tenants.get(tenant);
            ledger.is_some_and(|ledger| ledger.records_version == *version)
        };
        let covers = |group: &Group| {
            let guessed = |at: &usize| {
                let own = self.groups.iter().find(|guessed| guessed.steps.contains(at));
                own.is_some_and(|own| group.lanes.iter().all(|lane| own.has(lane.0)))
            };
            group.steps.iter().all(guessed)
        };
        if !self.versions.iter().all(same) || !groups.iter().all(covers) {
            return Ok(None);
        }
        for (asked, rows) in self.asked.iter().zip(self.rows) {
            keep(room, &mut self.groups[asked.group], asked, rows, 0)?;
        }
        Ok(Some(self.groups))
    }
}
