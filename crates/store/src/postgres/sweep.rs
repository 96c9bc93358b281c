//! How time passes for everybody. Any server sweeps, and none leads: what is due is found without a
//! lock, and whether it still is, is asked again under the lock of its task. A task that somebody
//! holds is stepped over, and looked at again a little later: it stops nobody else's time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{Command, Time};
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::limits::SILENCE_MAX;
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::time::{Millis, Timestamp};

use super::batch::{self, Answered};
use super::load::{BEGIN, BOUNDS};
use super::look::PROJECTS;
use super::manner::Manner;
use super::pen::COMMIT;
use super::step::{Cause, Goal, Step};
use super::trouble::Trouble;
use super::wire::{Answers, Flush, params};
use super::{Shared, amnesty, time};
use crate::clock::boot_millis;
use crate::order::{Actor, Committed, Swept};
use crate::rows::{int, nat, parse};
use crate::turns::{Due, in_turns, share_of_due};
use crate::{Clock, Error, Freed};

/// How long a request key is remembered.
const REQUESTS_KEPT: Millis = Millis::hours(72);
/// Request keys that one sweep forgets.
const REQUESTS_AT_ONCE: i64 = 500;
/// Tasks for which time passes in one transaction.
const STEPS_AT_ONCE: usize = 64;
/// How often a sweep may meet somebody who does not let go: waiting as often as this is shorter than
/// an outage.
const BUSY_MAX: usize = 8;
/// Looks at the time: a clock that was set and a silence are each put right once.
const LOOKS_MAX: usize = 4;
/// How long a sweep may go on before the time is watched again.
const WATCH_EVERY: i64 = 1_000;
/// When a task that somebody held is looked at again: at the next sweep but one.
const HELD_FOR: i64 = 500;
/// The same for one that was waited for in vain.
const BUSY_FOR: i64 = 2_000;

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
const OWED: &str = "SELECT id, tenant, body FROM (
        SELECT r.id, r.tenant, r.body,
            row_number() OVER (PARTITION BY r.tenant ORDER BY r.id) AS turn
        FROM unnest($2::int8[]) t (id) CROSS JOIN LATERAL (
            SELECT id, tenant, body FROM reactions WHERE tenant = t.id ORDER BY id LIMIT $1) r) w
    ORDER BY turn, id LIMIT $1";
const OPENED: &str = "SELECT DISTINCT tenant FROM pools WHERE shut_until > $1 AND shut_until <= $2";
/// What another server forgets just now is left to it.
const FORGET: &str = "DELETE FROM requests WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM requests WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// Where the first answer is of whatever is asked in a transaction of its own.
const FIRST: usize = 2;

/// Who there is, what time it is, and until when no lease ends.
struct Glance {
    now: Timestamp,
    amnesty: Timestamp,
    names: BTreeMap<i64, TenantId>,
    /// Projects that put ended tasks away, and after how long.
    keeping: Vec<(i64, String, i64)>,
}

/// One sweep under way.
struct Pass<'a> {
    shared: &'a Shared,
    glance: &'a Glance,
    clockwork: &'a Actor,
    swept: Swept,
    /// How often somebody was met who does not let go.
    busy: usize,
    /// When the time was last watched, by our own count.
    watched: i64,
    /// What this sweep does not look at. Whatever it stepped over stays so until its end, however
    /// long that takes: it waits for a later sweep.
    not_now: BTreeSet<(TenantId, TaskId)>,
}

/// Lets time pass for whatever is due, then carries out what tasks owe one another.
pub(super) async fn run(shared: &Shared, count_max: usize) -> Result<Committed, Error> {
    if shared.is_full() {
        return Err(Error::DiskFull);
    }
    let told = |trouble: Trouble| trouble.told();
    let glance = look(shared).await.map_err(told)?;
    let (clockwork, watched) = (Actor::clockwork(), boot_millis());
    let (swept, not_now) = (Swept::default(), shared.not_now());
    let (glance, clockwork) = (&glance, &clockwork);
    let mut pass = Pass { shared, glance, clockwork, swept, busy: 0, watched, not_now };
    let share = share_of_due(count_max, count_owed(shared, count_max).await.map_err(told)?);
    let due = pass.due(share).await.map_err(told)?;
    let steps = due.iter().map(|due| pass.step(due, Time::Pass, Cause::Due)).collect();
    pass.carry_out(steps).await?;
    while pass.done() < count_max && pass.busy < BUSY_MAX {
        let before = pass.swept;
        let steps = pass.owed(count_max - pass.done()).await.map_err(told)?;
        let none = steps.is_empty();
        pass.carry_out(steps).await?;
        // What others are telling is told by them.
        if none || pass.swept == before {
            break;
        }
    }
    let left = pass.owed(1).await.map_err(told)?;
    let left_due = pass.due(1).await.map_err(told)?;
    let swept = Swept { more: !left.is_empty() || !left_due.is_empty(), ..pass.swept };
    shared.swept(glance.now);
    Ok(Committed { swept, ..Committed::of_no_task(glance.now, None) })
}

/// Asks a few things in a transaction of its own. None of it is wrong if it happens twice, so it is
/// asked again if the connection was lost.
async fn ask(shared: &Shared, fill: impl Fn(&mut Flush)) -> Result<Answers, Trouble> {
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(BOUNDS, Manner::Sweep.bounds());
    fill(&mut flush);
    flush.add(COMMIT, vec![]);
    let mut tries = 0;
    loop {
        tries += 1;
        let mut lent = shared.sweepers.get().await?;
        lent.begun();
        match lent.send_kept(&flush).await {
            Ok(answers) => {
                lent.done();
                return Ok(answers);
            }
            Err(Trouble::Lost(_) | Trouble::Stale(_)) if tries < 2 => {}
            Err(trouble) => {
                batch::undo(&mut lent, &trouble).await;
                return Err(trouble);
            }
        }
    }
}

/// Watches the time. A clock that was set and a silence are put right first, so that nobody loses a
/// lease to either.
async fn look(shared: &Shared) -> Result<Glance, Trouble> {
    for _ in 0..LOOKS_MAX {
        let mut answers = ask(shared, |flush| {
            flush.add(amnesty::STATE, vec![]);
            flush.add(TENANTS, vec![]);
        })
        .await?;
        let (state, tenants) = (answers.rows(FIRST), answers.rows(FIRST + 1));
        let row = state.first().ok_or_else(|| "the database has no time".to_owned())?;
        let now = match shared.time.heard(row) {
            Err(Trouble::ClockSet) => {
                time::settle_for(shared, Manner::Sweep).await?;
                continue;
            }
            heard => heard?,
        };
        let now = shared.time.at_least(now.max(Timestamp(row.get(5))));
        let watched_at = shared.watched_at(row.get(2));
        if now.since(watched_at) > SILENCE_MAX {
            amnesty::grant(shared, Manner::Sweep).await?;
            continue;
        }
        let amnesty = Timestamp(row.get::<_, Option<i64>>(3).unwrap_or(0));
        let mut glance = Glance { now, amnesty, names: BTreeMap::new(), keeping: vec![] };
        let mut unknown = vec![];
        for row in tenants {
            let (tenant, version) = (row.get::<_, i64>(0), nat(row.get(2)));
            let name = TenantId::new(row.get::<_, &str>(1));
            let name = name.map_err(|_| "a tenant has no name".to_owned())?;
            glance.names.insert(tenant, name);
            match shared.known_records(tenant, version) {
                Some((projects, _)) => glance.keep(tenant, projects.values().map(|it| &**it)),
                None => unknown.push(tenant),
            }
        }
        watch(shared, &mut glance, &unknown).await?;
        return Ok(glance);
    }
    Err(Trouble::Busy("a silence does not end".into()))
}

/// Notes that the time was watched, forgets what is old, and finds what nobody here knows yet.
async fn watch(shared: &Shared, glance: &mut Glance, unknown: &[i64]) -> Result<(), Trouble> {
    let (now, before) = (glance.now, shared.swept_at());
    let mut answers = ask(shared, |flush| {
        flush.add(PROJECTS, params![unknown.to_vec()]);
        flush.add(OPENED, params![before.0, now.0]);
        flush.add(FORGET, params![(now - REQUESTS_KEPT).0, REQUESTS_AT_ONCE]);
        flush.add(amnesty::WATCHED, params![now.0]);
    })
    .await?;
    shared.note_watched(now);
    for row in answers.rows(FIRST) {
        let project: Project = parse(row.get(1))?;
        glance.keep(row.get(0), [&project]);
    }
    // A pause or a day that ended since the last sweep was nobody's order.
    let opened = answers.rows(FIRST + 1);
    let opened: BTreeSet<i64> = opened.iter().map(|row| row.get(0)).collect();
    let has_opened = |tenant: &i64| opened.contains(tenant) || before.day() != now.day();
    let opened = glance.names.iter().filter(|(tenant, _)| has_opened(tenant));
    let freed: Vec<Freed> = opened.map(|(_, name)| Freed::Pools(name.clone())).collect();
    if !freed.is_empty() {
        shared.bells.ring(&freed);
    }
    Ok(())
}

impl Glance {
    fn keep<'a>(&mut self, tenant: i64, projects: impl IntoIterator<Item = &'a Project>) {
        for project in projects {
            let kept = project.archive_after.map(|kept| int(kept.0));
            let name = project.id.as_str().to_owned();
            self.keeping.extend(kept.map(|kept| (tenant, name, kept)));
        }
    }
}

/// How many reactions are owed, as far as it matters.
async fn count_owed(shared: &Shared, count_max: usize) -> Result<usize, Trouble> {
    let bound = int((count_max / 4 + 1) as u64);
    let rows = ask(shared, |flush| {
        flush.add(COUNT_OWED, params![bound]);
    })
    .await?
    .rows(FIRST);
    Ok(rows.first().map_or(0, |row| usize::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

impl<'a> Pass<'a> {
    fn done(&self) -> usize {
        self.swept.due + self.swept.reactions
    }

    fn step(&self, due: &Due, time: Time, cause: Cause) -> Step<'a> {
        let named = self.glance.names.iter().find(|(_, name)| **name == due.tenant);
        let tenant = self.shared.known_tenant(&due.tenant).or(named.map(|(tenant, _)| *tenant));
        Step {
            tenant: tenant.unwrap_or(0),
            tenant_id: due.tenant.clone(),
            asked_in: tenant.unwrap_or(0),
            actor: self.clockwork,
            goal: Goal::Task(due.id, Cow::Owned(vec![Command::Time(time)])),
            request: None,
            cause,
            ends: true,
        }
    }

    /// What is due by now: ended leases first, and tenants take turns.
    async fn due(&self, count_max: usize) -> Result<Vec<Due>, Trouble> {
        let glance = self.glance;
        // What is not to be looked at now must not hide what is behind it.
        let bound = int((count_max + self.not_now.len()) as u64);
        let tenants: Vec<i64> = glance.names.keys().copied().collect();
        let (now, amnesty) = (glance.now.0, glance.amnesty.0);
        let of: Vec<i64> = glance.keeping.iter().map(|row| row.0).collect();
        let projects: Vec<String> = glance.keeping.iter().map(|row| row.1.clone()).collect();
        let kept: Vec<i64> = glance.keeping.iter().map(|row| row.2).collect();
        let mut answers = ask(self.shared, |flush| {
            flush.add(ENDED, params![now, amnesty, bound, tenants.clone()]);
            flush.add(DUE, params![now, amnesty, bound, tenants.clone()]);
            flush.add(OLD, params![of.clone(), projects.clone(), kept.clone(), now, bound]);
        })
        .await?;
        let mut due = vec![];
        for at in 0..3 {
            for row in answers.rows(FIRST + at) {
                let Some(tenant) = glance.names.get(&row.get::<_, i64>(0)) else { continue };
                let id = TaskId(nat(row.get(1)));
                if !self.not_now.contains(&(tenant.clone(), id)) {
                    let (lease, tenant) = (at == 0, tenant.clone());
                    due.push(Due { lease, at: Timestamp(row.get(2)), tenant, id });
                }
            }
        }
        Ok(in_turns(due, count_max))
    }

    /// What tasks owe one another: the oldest first, and tenants take turns.
    async fn owed(&self, count_max: usize) -> Result<Vec<Step<'a>>, Trouble> {
        let bound = int((count_max + self.not_now.len()) as u64);
        let tenants: Vec<i64> = self.glance.names.keys().copied().collect();
        let asked = ask(self.shared, |flush| {
            flush.add(OWED, params![bound, tenants.clone()]);
        });
        let mut steps = vec![];
        for row in asked.await?.rows(FIRST) {
            let reaction: Reaction = parse(row.get(2))?;
            let Some(tenant) = self.glance.names.get(&row.get::<_, i64>(1)) else { continue };
            if self.not_now.contains(&(tenant.clone(), reaction.to)) {
                continue;
            }
            let (at, tenant) = (self.glance.now, tenant.clone());
            let due = Due { lease: false, at, tenant, id: reaction.to };
            steps.push(self.step(&due, Time::React(reaction), Cause::Owed(row.get(0))));
        }
        steps.truncate(count_max);
        Ok(steps)
    }

    /// Carries out steps of time in their order, those that look around each by itself. If somebody
    /// stands in the way of some, they are halved until it is clear of which.
    async fn carry_out(&mut self, steps: Vec<Step<'a>>) -> Result<(), Error> {
        let mut parts = parts(&steps);
        while let Some(part) = parts.pop() {
            self.keep_watch().await;
            let manner = if self.busy == 0 { Manner::Sweep } else { Manner::Hurried };
            let Answered { answers, .. } = batch::run(self.shared, part, manner).await;
            if !matches!(answers.first(), Some(Some(Err(Error::Overloaded)))) {
                self.count_up(part, answers)?;
                continue;
            }
            self.busy += 1;
            if part.len() > 1 && self.busy < BUSY_MAX {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
                continue;
            }
            for step in part {
                self.put_off(step, BUSY_FOR);
            }
            if self.busy >= BUSY_MAX {
                // Whatever else is due comes with the next sweep, which begins at once.
                break;
            }
        }
        Ok(())
    }

    /// Whoever is still sweeping watches the time.
    async fn keep_watch(&mut self) {
        let now = boot_millis();
        if now - self.watched < WATCH_EVERY {
            return;
        }
        self.watched = now;
        let at = self.shared.time.now();
        let noted = ask(self.shared, |flush| {
            flush.add(amnesty::WATCHED, params![at.0]);
        });
        match noted.await {
            Ok(_) => self.shared.note_watched(at),
            Err(trouble) => tracing::warn!(?trouble, "cannot note that the time was watched"),
        }
    }

    fn put_off(&mut self, step: &Step<'_>, length: i64) {
        if let Some(task) = step.task() {
            let key = (step.tenant_id.clone(), task);
            self.not_now.insert(key.clone());
            self.shared.known().later.insert(key, boot_millis() + length);
        }
    }

    /// A task for which time cannot pass is set aside: it must not stop the time of all.
    fn count_up(
        &mut self,
        steps: &[Step<'_>],
        answers: Vec<Option<Result<Committed, Error>>>,
    ) -> Result<(), Error> {
        for (step, answer) in steps.iter().zip(answers) {
            match (answer, step.task()) {
                (Some(Ok(committed)), _) => {
                    self.swept.due += committed.swept.due;
                    self.swept.reactions += committed.swept.reactions;
                }
                (None, _) => self.put_off(step, HELD_FOR),
                (Some(Err(Error::Overloaded)), _) => self.put_off(step, BUSY_FOR),
                (Some(Err(Error::Internal(why))), Some(task)) => {
                    let aside = (step.tenant_id.clone(), task);
                    tracing::error!(tenant = %aside.0, %task, why, "time cannot pass: set aside");
                    self.not_now.insert(aside.clone());
                    self.shared.known().aside.insert(aside);
                }
                (Some(Err(error)), _) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What may be carried out together, the last first. Whoever looks around is alone.
fn parts<'s, 'a>(steps: &'s [Step<'a>]) -> Vec<&'s [Step<'a>]> {
    let looks = |step: &Step<'_>| step.needs(None).children;
    let mut parts: Vec<&[Step<'_>]> = vec![];
    for run in steps.chunk_by(|one, next| !looks(one) && !looks(next)) {
        parts.extend(run.chunks(STEPS_AT_ONCE));
    }
    parts.reverse();
    parts
}

impl Shared {
    /// Tasks that a sweep is not to look at now: those for which time cannot pass, and those that
    /// somebody held a moment ago.
    fn not_now(&self) -> BTreeSet<(TenantId, TaskId)> {
        let (mut known, now) = (self.known(), boot_millis());
        known.later.retain(|_, until| *until > now);
        known.aside.iter().chain(known.later.keys()).cloned().collect()
    }
}
