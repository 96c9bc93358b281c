//! How time passes for everybody. Any server sweeps, and none leads: what is due is found without a
//! lock, and whether it still is, is asked again under the lock of its task.

use std::borrow::Cow;
use std::collections::BTreeMap;

use baton_domain::command::{Command, Time};
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::limits::SILENCE_MAX;
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::time::{Millis, Timestamp};

use super::batch::{self, Answered};
use super::look::PROJECTS;
use super::room::Projects;
use super::step::{Cause, Goal, Step};
use super::trouble::Trouble;
use super::wire::{Flush, params};
use super::{Shared, amnesty};
use crate::order::{Actor, Committed, Swept};
use crate::rows::{int, nat, parse};
use crate::turns::{Due, in_turns, share_of_due};
use crate::{Error, Freed};

/// How long a request key is remembered.
const REQUESTS_KEPT: Millis = Millis::hours(72);
/// Request keys that one sweep forgets.
const REQUESTS_AT_ONCE: i64 = 500;
/// Tasks for which time passes in one transaction.
const STEPS_AT_ONCE: usize = 64;

const TENANTS: &str = "SELECT id, name, records_version FROM tenants";
/// Leases that have ended; one that was forfeited has, whatever the amnesty.
const ENDED: &str = "SELECT l.tenant, l.task,
        CASE WHEN l.expires_at = 0 THEN 0 ELSE greatest(l.expires_at, $2) END
    FROM unnest($4::int8[]) t (id) CROSS JOIN LATERAL (
        SELECT tenant, task, expires_at FROM leases WHERE tenant = t.id
            AND expires_at <= CASE WHEN $2::int8 <= $1::int8 THEN $1 ELSE 0 END
        ORDER BY expires_at, task LIMIT $3) l";
/// Whatever else is due. Whoever is held has the amnesty, too.
const DUE: &str =
    "SELECT d.tenant, d.task, CASE WHEN d.held THEN greatest(d.due_at, $2) ELSE d.due_at END
    FROM unnest($4::int8[]) t (id) CROSS JOIN LATERAL (
        SELECT f.tenant, f.task, f.held, f.due_at FROM flows f WHERE f.tenant = t.id
            AND f.due_at <= $1::int8 AND (NOT f.held OR $2::int8 <= $1)
            AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.tenant = f.tenant AND l.task = f.task
                AND l.expires_at <= CASE WHEN $2 <= $1 THEN $1 ELSE 0 END)
        ORDER BY f.due_at, f.task LIMIT $3) d";
const OLD: &str = "SELECT o.tenant, o.task, o.ended_at + p.kept
    FROM unnest($1::int8[], $2::text[], $3::int8[]) p (tenant, name, kept)
    CROSS JOIN LATERAL (SELECT tenant, task, ended_at FROM flows f WHERE f.tenant = p.tenant
        AND f.project = p.name AND f.ended_at <= $4::int8 - p.kept
        ORDER BY f.ended_at, f.task LIMIT $5) o";
const COUNT_OWED: &str = "SELECT count(*) FROM (SELECT 1 FROM reactions LIMIT $1) r";
/// The oldest of every tenant, then the second oldest: tenants take turns.
const OWED: &str = "SELECT id, tenant, body FROM (SELECT id, tenant, body,
        row_number() OVER (PARTITION BY tenant ORDER BY id) AS turn FROM reactions) r
    ORDER BY turn, id LIMIT $1";
const OPENED: &str = "SELECT DISTINCT tenant FROM pools WHERE shut_until > $1 AND shut_until <= $2";
const FORGET: &str = "DELETE FROM requests WHERE (tenant, principal, key) IN
    (SELECT tenant, principal, key FROM requests WHERE at <= $1 ORDER BY at LIMIT $2)";

/// Who there is, what time it is, and until when no lease ends.
struct Glance {
    now: Timestamp,
    amnesty: Timestamp,
    names: BTreeMap<i64, TenantId>,
    /// Projects that put ended tasks away, and after how long.
    keeping: Vec<(i64, String, i64)>,
}

/// Lets time pass for whatever is due, then carries out what tasks owe one another.
pub(super) async fn run(shared: &Shared, count_max: usize) -> Result<Committed, Error> {
    if shared.is_full() {
        return Err(Error::DiskFull);
    }
    let glance = match look(shared).await {
        Err(Trouble::Lost(_)) => look(shared).await,
        glance => glance,
    };
    let glance = glance.map_err(|trouble| trouble.told())?;
    let clockwork = Actor::clockwork();
    let mut swept = Swept::default();
    let owed = owed(shared, count_max).await.map_err(|trouble| trouble.told())?;
    let share = share_of_due(count_max, owed);
    let due = due(shared, &glance, share).await.map_err(|trouble| trouble.told())?;
    let steps: Vec<Step<'_>> = due
        .iter()
        .map(|due| step(shared, &glance, due, Time::Pass, Cause::Due, &clockwork))
        .collect();
    carry_out(shared, steps, &mut swept).await?;
    while swept.due + swept.reactions < count_max {
        let rest = count_max - swept.due - swept.reactions;
        let before = swept;
        let told = tell(shared, &glance, rest, &clockwork, &mut swept).await?;
        // What others are telling is told by them.
        if !told || swept == before {
            break;
        }
    }
    let left = self::owed(shared, 4).await.map_err(|trouble| trouble.told())?;
    let left_due = self::due(shared, &glance, 1).await.map_err(|trouble| trouble.told())?;
    swept.more = left > 0 || !left_due.is_empty();
    shared.swept(glance.now);
    Ok(Committed { swept, ..Committed::of_no_task(glance.now, None) })
}

/// Watches the time. A silence is ended first, so that nobody loses a lease to it.
async fn look(shared: &Shared) -> Result<Glance, Trouble> {
    for _ in 0..2 {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        let mut flush = Flush::default();
        let state = flush.add(amnesty::STATE, vec![]);
        let tenants = flush.add(TENANTS, vec![]);
        let mut answers = lent.send(flush).await?;
        let state = answers.rows(state);
        let row = state.first().ok_or_else(|| "the database has no time".to_owned())?;
        let now = shared.time.heard(Timestamp(row.get(0)));
        let now = shared.time.at_least(now.max(Timestamp(row.get(4))));
        let watched_at = Timestamp(row.get::<_, Option<i64>>(1).unwrap_or(0));
        if now.since(watched_at) > SILENCE_MAX {
            lent.done();
            drop(lent);
            amnesty::grant(shared).await?;
            continue;
        }
        let amnesty = Timestamp(row.get::<_, Option<i64>>(2).unwrap_or(0));
        let mut glance = Glance { now, amnesty, names: BTreeMap::new(), keeping: vec![] };
        let mut unknown = vec![];
        for row in answers.rows(tenants) {
            let (tenant, version) = (row.get::<_, i64>(0), nat(row.get(2)));
            let name = TenantId::new(row.get::<_, &str>(1));
            let name = name.map_err(|_| "a tenant has no name".to_owned())?;
            glance.names.insert(tenant, name);
            match shared.known_records(tenant, version) {
                Some((projects, _)) => glance.keep(tenant, &projects),
                None => unknown.push(tenant),
            }
        }
        let mut flush = Flush::default();
        let projects = flush.add(PROJECTS, params![unknown]);
        let opened = flush.add(OPENED, params![shared.swept_at().0, now.0]);
        flush.add(FORGET, params![(now - REQUESTS_KEPT).0, REQUESTS_AT_ONCE]);
        flush.add(amnesty::WATCHED, params![now.0]);
        let mut answers = lent.send(flush).await?;
        lent.done();
        for row in answers.rows(projects) {
            let project: Project = parse(row.get(1))?;
            let kept = project.archive_after.map(|kept| int(kept.0));
            let name = project.id.as_str().to_owned();
            glance.keeping.extend(kept.map(|kept| (row.get(0), name, kept)));
        }
        // A pause that ended since the last sweep was nobody's order.
        let opened = answers.rows(opened);
        let opened = opened.iter().filter_map(|row| glance.names.get(&row.get::<_, i64>(0)));
        let freed: Vec<Freed> = opened.map(|name| Freed::Pools(name.clone())).collect();
        if !freed.is_empty() {
            shared.bells.ring(&freed);
        }
        return Ok(glance);
    }
    Err(Trouble::Busy("a silence does not end".into()))
}

impl Glance {
    fn keep(&mut self, tenant: i64, projects: &Projects) {
        for project in projects.values() {
            let kept = project.archive_after.map(|kept| int(kept.0));
            let name = project.id.as_str().to_owned();
            self.keeping.extend(kept.map(|kept| (tenant, name, kept)));
        }
    }
}

/// How many reactions are owed, as far as it matters.
async fn owed(shared: &Shared, count_max: usize) -> Result<usize, Trouble> {
    let mut lent = shared.writers.get().await?;
    lent.begun();
    let bound = int((count_max / 4 + 1) as u64);
    let rows = lent.query(COUNT_OWED, params![bound]).await?;
    lent.done();
    Ok(rows.first().map_or(0, |row| usize::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// What is due by now: ended leases first, and tenants take turns.
async fn due(shared: &Shared, glance: &Glance, count_max: usize) -> Result<Vec<Due>, Trouble> {
    let mut lent = shared.writers.get().await?;
    lent.begun();
    // What was set aside must not hide what is behind it.
    let aside = shared.known().aside.clone();
    let bound = int((count_max + aside.len()) as u64);
    let tenants: Vec<i64> = glance.names.keys().copied().collect();
    let (now, amnesty) = (glance.now.0, glance.amnesty.0);
    let mut flush = Flush::default();
    flush.add(ENDED, params![now, amnesty, bound, tenants.clone()]);
    flush.add(DUE, params![now, amnesty, bound, tenants]);
    let of: Vec<i64> = glance.keeping.iter().map(|row| row.0).collect();
    let projects: Vec<String> = glance.keeping.iter().map(|row| row.1.clone()).collect();
    let kept: Vec<i64> = glance.keeping.iter().map(|row| row.2).collect();
    flush.add(OLD, params![of, projects, kept, now, bound]);
    let mut answers = lent.send(flush).await?;
    lent.done();
    let mut due = vec![];
    for at in 0..3 {
        for row in answers.rows(at) {
            let Some(tenant) = glance.names.get(&row.get::<_, i64>(0)) else { continue };
            let id = TaskId(nat(row.get(1)));
            if !aside.contains(&(tenant.clone(), id)) {
                let (lease, tenant) = (at == 0, tenant.clone());
                due.push(Due { lease, at: Timestamp(row.get(2)), tenant, id });
            }
        }
    }
    Ok(in_turns(due, count_max))
}

fn step<'a>(
    shared: &Shared,
    glance: &Glance,
    due: &Due,
    time: Time,
    cause: Cause,
    actor: &'a Actor,
) -> Step<'a> {
    let named = glance.names.iter().find(|(_, name)| **name == due.tenant);
    let tenant = shared.known_tenant(&due.tenant).or(named.map(|(tenant, _)| *tenant));
    Step {
        tenant: tenant.unwrap_or(0),
        tenant_id: due.tenant.clone(),
        actor,
        goal: Goal::Task(due.id, Cow::Owned(vec![Command::Time(time)])),
        request: None,
        cause,
        ends: true,
    }
}

/// Tells tasks what others owe them; false if nothing is owed.
async fn tell(
    shared: &Shared,
    glance: &Glance,
    count_max: usize,
    clockwork: &Actor,
    swept: &mut Swept,
) -> Result<bool, Error> {
    let aside = shared.known().aside.clone();
    let bound = int((count_max + aside.len()) as u64);
    let rows = async {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        let rows = lent.query(OWED, params![bound]).await?;
        lent.done();
        Ok::<_, Trouble>(rows)
    };
    let rows = rows.await.map_err(|trouble| trouble.told())?;
    let mut steps = vec![];
    for row in rows {
        let reaction: Reaction = parse(row.get(2)).map_err(Error::Internal)?;
        let Some(tenant) = glance.names.get(&row.get::<_, i64>(1)).cloned() else { continue };
        if aside.contains(&(tenant.clone(), reaction.to)) {
            continue;
        }
        let due = Due { lease: false, at: glance.now, tenant, id: reaction.to };
        let cause = Cause::Owed(row.get(0));
        steps.push(step(shared, glance, &due, Time::React(reaction), cause, clockwork));
    }
    steps.truncate(count_max);
    let any = !steps.is_empty();
    carry_out(shared, steps, swept).await?;
    Ok(any)
}

/// Carries out steps of time in their order, those that look around each by itself.
async fn carry_out(shared: &Shared, steps: Vec<Step<'_>>, swept: &mut Swept) -> Result<(), Error> {
    let mut rest = steps.as_slice();
    while let Some(first) = rest.first() {
        let looks = |step: &Step<'_>| step.needs(None).children;
        let together = rest.iter().take(STEPS_AT_ONCE).take_while(|step| !looks(step)).count();
        let count = if looks(first) { 1 } else { together };
        let (some, others) = rest.split_at(count.max(1));
        rest = others;
        let answered = batch::run(shared, some).await;
        count_up(shared, some, answered, swept)?;
    }
    Ok(())
}

/// A task for which time cannot pass is set aside: it must not stop the time of all.
fn count_up(
    shared: &Shared,
    steps: &[Step<'_>],
    answered: Answered,
    swept: &mut Swept,
) -> Result<(), Error> {
    for (step, answer) in steps.iter().zip(answered) {
        match (answer, step.task()) {
            (Ok(committed), _) => {
                swept.due += committed.swept.due;
                swept.reactions += committed.swept.reactions;
            }
            (Err(Error::Internal(why)), Some(task)) => {
                let aside = (step.tenant_id.clone(), task);
                tracing::error!(tenant = %aside.0, %task, why, "time cannot pass: set aside");
                shared.known().aside.insert(aside);
            }
            (Err(error), _) => return Err(error),
        }
    }
    Ok(())
}
