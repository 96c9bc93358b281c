//! The second flush of a batch: what only the first could name. Pools are locked here, and then the
//! count of births; everything else is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_domain::ids::{AttemptId, PrincipalId, TaskId};
use baton_domain::limits::UPSTREAM_MAX;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::scene::Needs;
use baton_domain::task::{Brief, Flow};
use tokio_postgres::Row;

use super::Shared;
use super::load::{LEASES, columns, keep_leases, keep_tasks};
use super::room::{Ledger, Projects, Room};
use super::step::Step;
use super::trouble::Trouble;
use super::wire::{Conn, Flush, params};
use crate::rows::{int, nat, parse};

const LOCK_POOLS: &str = "SELECT p.tenant, p.name, p.body
    FROM unnest($1::int8[], $2::text[]) n (tenant, name)
    JOIN pools p ON p.tenant = n.tenant AND p.name = n.name
    ORDER BY p.tenant, p.name FOR UPDATE OF p";
const LOCK_BIRTHS: &str = "SELECT tenant, last FROM births WHERE tenant = ANY($1::int8[])
    ORDER BY tenant FOR UPDATE";
const READ_TASKS: &str = "SELECT f.tenant, f.task, f.head, f.body
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN flows f ON f.tenant = n.tenant AND f.task = n.task";
const BRIEFS: &str = "SELECT b.tenant, b.task, b.body
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN briefs b ON b.tenant = n.tenant AND b.task = n.task";
const CHILDREN: &str = "SELECT b.tenant, b.parent, b.task, f.body
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN briefs b ON b.tenant = n.tenant AND b.parent = n.task
    LEFT JOIN flows f ON f.tenant = b.tenant AND f.task = b.task AND NOT f.live";
const SIBLINGS: &str = "SELECT count(*) FROM briefs WHERE tenant = $1 AND parent = $2";
const DEPENDENCIES: &str = "SELECT on_task FROM edges WHERE tenant = $1 AND task = $2";
const UPSTREAM: &str = "WITH RECURSIVE up (task) AS (
        VALUES ($2::int8)
        UNION
        SELECT n.task FROM up u JOIN flows f ON f.tenant = $1 AND f.task = u.task AND f.live
        CROSS JOIN LATERAL (
            SELECT e.on_task AS task FROM edges e WHERE e.tenant = $1 AND e.task = u.task
            UNION ALL
            SELECT b.task FROM briefs b JOIN flows c ON c.tenant = $1 AND c.task = b.task AND c.live
            WHERE f.epic AND b.tenant = $1 AND b.parent = u.task) n)
    SELECT task FROM up LIMIT $3";
pub(super) const PROJECTS: &str =
    "SELECT tenant, body FROM projects WHERE tenant = ANY($1::int8[])";
const HOLDING: &str = "SELECT tenant, holder, task, attempt FROM leases
    WHERE tenant = ANY($1::int8[]) AND holder = ANY($2::text[])";
const POOLS_SET: &str = "SELECT tenant, name FROM pools WHERE tenant = ANY($1::int8[])";

/// What the second flush is to bring.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) pools: BTreeSet<(i64, String)>,
    pub(super) births: BTreeSet<i64>,
    /// Tenants whose records changed since anybody here looked at them.
    pub(super) records: BTreeSet<i64>,
    pub(super) reads: BTreeSet<(i64, TaskId)>,
    pub(super) briefs: BTreeSet<(i64, TaskId)>,
    pub(super) children: BTreeSet<(i64, TaskId)>,
    pub(super) holders: BTreeSet<(i64, PrincipalId)>,
    /// For the one order of a batch that looks around: its tenant, its task and its needs.
    pub(super) around: Option<(i64, Option<TaskId>, Needs)>,
}

impl Wanted {
    /// What the steps need besides, now that their tasks are known.
    pub(super) fn of(room: &Room, steps: &[Step<'_>]) -> Self {
        let mut wanted = Self::default();
        for (tenant, ledger) in &room.tenants {
            if !ledger.records_known {
                wanted.records.insert(*tenant);
            }
        }
        for step in steps {
            let Some(ledger) = room.tenants.get(&step.tenant) else { continue };
            wanted.reads.extend(step.replayed_task(ledger).map(|task| (step.tenant, task)));
            wanted.births.extend(step.is_birth().then_some(step.tenant));
            let flow = step.task().and_then(|task| ledger.tasks.get(&task)).map(|kept| &*kept.flow);
            let needs = step.needs(flow);
            let own = step.task().map(|task| (step.tenant, task));
            wanted.briefs.extend(own.filter(|_| needs.brief));
            wanted.children.extend(own.filter(|_| needs.children));
            let holding = needs.holding.clone().filter(|_| !ledger.set.is_empty());
            wanted.holders.extend(holding.map(|who| (step.tenant, who)));
            let looks = needs.siblings_of.is_some() || !needs.upstream_of.is_empty();
            if looks || needs.dependencies {
                wanted.around = Some((step.tenant, step.task(), needs));
            }
        }
        wanted
    }

    fn is_nothing(&self) -> bool {
        self.pools.is_empty()
            && self.births.is_empty()
            && self.records.is_empty()
            && self.reads.is_empty()
            && self.briefs.is_empty()
            && self.children.is_empty()
            && self.holders.is_empty()
            && self.around.is_none()
    }
}

/// What a part of the second flush is about, and where its rows will be.
enum Part {
    Pools,
    Births,
    Projects,
    PoolsSet,
    Reads,
    Leases,
    Briefs,
    Children,
    Holders,
    Siblings(i64, TaskId),
    Dependencies(i64, TaskId),
    Upstream(i64, TaskId),
}

/// The second flush. Pools come before births, and tasks came before both.
pub(super) async fn look_again(
    shared: &Shared,
    conn: &mut Conn,
    room: &mut Room,
    wanted: &Wanted,
) -> Result<(), Trouble> {
    if wanted.is_nothing() {
        return Ok(());
    }
    let mut flush = Flush::default();
    let mut parts = vec![];
    let two = |pairs: &BTreeSet<(i64, TaskId)>| {
        let (tenants, tasks) = columns(pairs);
        params![tenants, tasks]
    };
    if !wanted.pools.is_empty() {
        let (tenants, names): (Vec<i64>, Vec<String>) = wanted.pools.iter().cloned().unzip();
        parts.push((Part::Pools, flush.add(LOCK_POOLS, params![tenants, names])));
    }
    if !wanted.births.is_empty() {
        let tenants: Vec<i64> = wanted.births.iter().copied().collect();
        parts.push((Part::Births, flush.add(LOCK_BIRTHS, params![tenants])));
    }
    if !wanted.records.is_empty() {
        let tenants: Vec<i64> = wanted.records.iter().copied().collect();
        parts.push((Part::Projects, flush.add(PROJECTS, params![tenants.clone()])));
        parts.push((Part::PoolsSet, flush.add(POOLS_SET, params![tenants])));
    }
    if !wanted.reads.is_empty() {
        parts.push((Part::Reads, flush.add(READ_TASKS, two(&wanted.reads))));
        parts.push((Part::Leases, flush.add(LEASES, two(&wanted.reads))));
    }
    if !wanted.briefs.is_empty() {
        parts.push((Part::Briefs, flush.add(BRIEFS, two(&wanted.briefs))));
    }
    if !wanted.children.is_empty() {
        parts.push((Part::Children, flush.add(CHILDREN, two(&wanted.children))));
    }
    if !wanted.holders.is_empty() {
        let holders: (Vec<i64>, Vec<String>) =
            wanted.holders.iter().map(|(tenant, who)| (*tenant, who.as_str().to_owned())).unzip();
        parts.push((Part::Holders, flush.add(HOLDING, params![holders.0, holders.1])));
    }
    look_around(&mut flush, &mut parts, wanted);
    let mut answers = conn.send(flush).await?;
    for (tenant, name) in &wanted.pools {
        // One that is gone meanwhile limits nothing, and is known to be gone.
        let name = parse(name.as_bytes())?;
        room.tenants.get_mut(tenant).map(|ledger| ledger.locked.insert(name));
    }
    for (part, at) in parts {
        take_in(room, &part, answers.rows(at))?;
    }
    for tenant in &wanted.records {
        if let Some(ledger) = room.tenants.get_mut(tenant) {
            ledger.records_known = true;
            let records = (Arc::clone(&ledger.projects), Arc::clone(&ledger.set));
            shared.know_records(*tenant, ledger.records_version, records);
        }
    }
    Ok(())
}

fn look_around(flush: &mut Flush, parts: &mut Vec<(Part, usize)>, wanted: &Wanted) {
    let Some((tenant, task, needs)) = &wanted.around else { return };
    if let Some(parent) = needs.siblings_of {
        let at = flush.add(SIBLINGS, params![*tenant, int(parent.0)]);
        parts.push((Part::Siblings(*tenant, parent), at));
    }
    if let Some(task) = task.filter(|_| needs.dependencies) {
        let at = flush.add(DEPENDENCIES, params![*tenant, int(task.0)]);
        parts.push((Part::Dependencies(*tenant, task), at));
    }
    for on in &needs.upstream_of {
        let bound = int(UPSTREAM_MAX as u64 + 2);
        let at = flush.add(UPSTREAM, params![*tenant, int(on.0), bound]);
        parts.push((Part::Upstream(*tenant, *on), at));
    }
}

fn take_in(room: &mut Room, part: &Part, rows: Vec<Row>) -> Result<(), Trouble> {
    let task = |row: &Row, at: usize| TaskId(nat(row.get(at)));
    match part {
        Part::Reads => return keep_tasks(room, rows, false).map(drop),
        Part::Leases => return keep_leases(room, rows),
        Part::Projects => return keep_projects(room, &rows),
        Part::PoolsSet => return keep_set(room, &rows),
        Part::Siblings(tenant, parent) => {
            let count = rows.first().map_or(0, |row| nat(row.get(0)));
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            room.tenants.get_mut(tenant).map(|ledger| ledger.siblings.insert(*parent, count));
        }
        Part::Dependencies(tenant, of) => {
            let on = rows.iter().map(|row| task(row, 0)).collect();
            room.tenants.get_mut(tenant).map(|ledger| ledger.dependencies.insert(*of, on));
        }
        Part::Upstream(tenant, of) => {
            let up = rows.iter().map(|row| task(row, 0)).filter(|up| up != of).collect();
            room.tenants.get_mut(tenant).map(|ledger| ledger.upstream.insert(*of, up));
        }
        Part::Pools | Part::Births | Part::Briefs | Part::Children | Part::Holders => {
            for row in &rows {
                let Some(ledger) = room.tenants.get_mut(&row.get::<_, i64>(0)) else { continue };
                take_in_row(ledger, part, row)?;
            }
        }
    }
    Ok(())
}

fn keep_projects(room: &mut Room, rows: &[Row]) -> Result<(), Trouble> {
    let mut found: BTreeMap<i64, Projects> = BTreeMap::new();
    for row in rows {
        let project: Project = parse(row.get(1))?;
        let of = found.entry(row.get(0)).or_default();
        of.insert(project.id.clone(), Arc::new(project));
    }
    for (tenant, projects) in found {
        room.tenants.get_mut(&tenant).map(|ledger| ledger.projects = Arc::new(projects));
    }
    Ok(())
}

fn keep_set(room: &mut Room, rows: &[Row]) -> Result<(), Trouble> {
    let mut found: BTreeMap<i64, BTreeSet<PoolName>> = BTreeMap::new();
    for row in rows {
        let name: PoolName = parse(row.get::<_, &str>(1).as_bytes())?;
        found.entry(row.get(0)).or_default().insert(name);
    }
    for (tenant, set) in found {
        room.tenants.get_mut(&tenant).map(|ledger| ledger.set = Arc::new(set));
    }
    Ok(())
}

fn take_in_row(ledger: &mut Ledger, part: &Part, row: &Row) -> Result<(), Trouble> {
    match part {
        Part::Pools => {
            let name: PoolName = parse(row.get::<_, &str>(1).as_bytes())?;
            ledger.pools.insert(name, parse(row.get(2))?);
        }
        Part::Births => ledger.last_born = Some(nat(row.get(1))),
        Part::Briefs => {
            let brief: Brief = parse(row.get(2))?;
            ledger.briefs.insert(TaskId(nat(row.get(1))), brief);
        }
        Part::Children => {
            let (parent, child) = (TaskId(nat(row.get(1))), TaskId(nat(row.get(2))));
            let body: Option<&[u8]> = row.get(3);
            let flow: Option<Flow> = body.map(parse).transpose()?;
            let ending = flow.and_then(|flow| flow.ending().cloned());
            ledger.children.entry(parent).or_default().insert(child, ending);
        }
        Part::Holders => {
            let holder = PrincipalId::new(row.get::<_, &str>(1))
                .map_err(|_| "a holder has no name".to_owned())?;
            let number = u32::try_from(row.get::<_, i64>(3)).unwrap_or(u32::MAX);
            let id = AttemptId { task: TaskId(nat(row.get(2))), number };
            let first = ledger.holding.entry(holder).or_insert(id);
            *first = id.min(*first);
        }
        Part::Projects
        | Part::PoolsSet
        | Part::Reads
        | Part::Leases
        | Part::Siblings(..)
        | Part::Dependencies(..)
        | Part::Upstream(..) => {}
    }
    Ok(())
}
