//! Orders about tasks, judged in memory. No rule is known here.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::ids::{ProjectId, TaskId};
use baton_domain::project::Project;
use baton_domain::scene::{Around, Lease, Needs};
use baton_domain::task::Task;

use super::Shared;
use super::ink::{Done, NewRequest};
use super::room::{Earlier, Ledger, Room};
use super::step::{Goal, Step};
use super::trouble::Trouble;
use crate::Error;
use crate::order::Committed;
use crate::ruling::{Ruling, Setting, needs, rule};

/// Why an order was not carried out.
pub(super) enum Fail {
    /// The caller is told, and nothing was written.
    Answer(Error),
    /// The whole batch ends.
    Trouble(Trouble),
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Self {
        Self::Answer(Error::Refused(refusal))
    }
}

impl From<Trouble> for Fail {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Room {
    pub(super) fn ledger(&self, tenant: i64) -> Result<&Ledger, Fail> {
        let missing = || Fail::Trouble(Trouble::Broken("a tenant is not in the room".into()));
        self.tenants.get(&tenant).ok_or_else(missing)
    }

    /// The answer to a request that was carried out before.
    pub(super) fn replay(&self, step: &Step<'_>) -> Result<Option<Done>, Fail> {
        let Some(request) = step.request else { return Ok(None) };
        let key = (step.actor.principal.clone(), request.key.as_str().to_owned());
        let earlier = self.ledger(step.asked_in)?.earlier.get(&key);
        let Some(earlier) = earlier else { return Ok(None) };
        if earlier.fingerprint != request.fingerprint {
            return Err(Fail::Answer(Error::KeyReused));
        }
        let ledger = self.ledger(step.tenant)?;
        let kept = earlier.task.and_then(|task| ledger.tasks.get(&task));
        // Whoever repeats an old claim must not be given the lease of the next holder.
        let lease = kept.and_then(|kept| kept.lease.clone());
        let lease = lease.filter(|lease| earlier.attempt == Some(lease.attempt));
        let committed = Committed {
            task: kept.map(|kept| Arc::clone(&kept.flow)),
            lease,
            run: earlier.run,
            replayed: true,
            ..Committed::of_no_task(earlier.at, None)
        };
        let (place, tenant) = (earlier.position, step.tenant);
        Ok(Some(Done { committed, place, entry: None, tenant }))
    }

    /// Remembers what was answered.
    pub(super) fn remember(&mut self, step: &Step<'_>, done: &Done) {
        let Some(request) = step.request else { return };
        let (committed, key) = (&done.committed, request.key.as_str().to_owned());
        let task = committed.task.as_ref().map(|flow| flow.id);
        let attempt = committed.lease.as_ref().map(|lease| lease.attempt);
        // A place in another tenant's order means nothing where the key is.
        let at_home = step.asked_in == step.tenant;
        self.written.requests.push(NewRequest {
            tenant: step.asked_in,
            principal: step.actor.principal.as_str().to_owned(),
            key: key.clone(),
            fingerprint: request.fingerprint,
            task,
            entry: done.entry.filter(|_| at_home),
            attempt,
            run: committed.run,
            at: committed.at,
        });
        let earlier = Earlier {
            fingerprint: request.fingerprint,
            at: committed.at,
            task,
            position: done.place.filter(|_| at_home),
            attempt,
            run: committed.run,
        };
        if let Some(ledger) = self.tenants.get_mut(&step.asked_in) {
            ledger.earlier.insert((step.actor.principal.clone(), key), earlier);
        }
    }

    /// Judges a step that names its task, or makes one, and takes in what was decided.
    pub(super) fn carry_out(&mut self, shared: &Shared, step: &Step<'_>) -> Result<Done, Fail> {
        let ruling = match &step.goal {
            Goal::Task(id, commands) => self.on_task(shared, step.tenant, *id, commands)?,
            Goal::Birth(project, commands) => self.birth(shared, step.tenant, project, commands)?,
            Goal::Next(_) | Goal::Nothing => {
                return Err(Trouble::Broken("a claim names no task by itself".into()).into());
            }
        };
        Ok(self.write(step.tenant, ruling, step.actor, shared.salt())?)
    }

    pub(super) fn on_task(
        &self,
        shared: &Shared,
        tenant: i64,
        id: TaskId,
        commands: &[Command],
    ) -> Result<Ruling, Fail> {
        let ledger = self.ledger(tenant)?;
        let kept = ledger.tasks.get(&id).ok_or(Refusal::NotFound)?;
        let needs = needs(commands, Some(&kept.flow));
        let around = around(ledger, Some(id), &needs);
        let brief = ledger.briefs.get(&id).filter(|_| needs.brief).cloned();
        let task = Task { flow: (*kept.flow).clone(), brief };
        let (project, lease) = (kept.flow.project.clone(), kept.lease.as_ref());
        self.judged(shared, ledger, &project, Some(task), lease, commands, &around)
    }

    fn birth(
        &self,
        shared: &Shared,
        tenant: i64,
        project: &ProjectId,
        commands: &[Command],
    ) -> Result<Ruling, Fail> {
        if !matches!(commands.first(), Some(Command::Create(_))) {
            return Err(Refusal::NotFound.into());
        }
        let ledger = self.ledger(tenant)?;
        let mut around = around(ledger, None, &needs(commands, None));
        let counted = || Fail::Trouble(Trouble::Broken("births are not counted".into()));
        around.next_id = ledger.last_born.ok_or_else(counted)? + 1;
        self.judged(shared, ledger, project, None, None, commands, &around)
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a judgement depends on")]
    fn judged(
        &self,
        shared: &Shared,
        ledger: &Ledger,
        project: &ProjectId,
        task: Option<Task>,
        lease: Option<&Lease>,
        commands: &[Command],
        around: &Around,
    ) -> Result<Ruling, Fail> {
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
        let (amnesty, now) = (self.amnesty, self.now);
        let setting = Setting { project, pools: &ledger.pools, around, amnesty, now };
        // Nothing is written yet, so a judge that panics has spoiled nothing.
        let ruled = AssertUnwindSafe(|| rule(shared.judge, task, lease, commands, &setting));
        match catch_unwind(ruled) {
            Ok(ruling) => Ok(ruling?),
            Err(panic) => Err(Fail::Answer(Error::Internal(last_words(panic.as_ref())))),
        }
    }
}

fn around(ledger: &Ledger, id: Option<TaskId>, needs: &Needs) -> Around {
    let mut around = Around::default();
    let named = |id: &TaskId| Some((*id, (*ledger.tasks.get(id)?.flow).clone()));
    around.named = needs.named.iter().filter_map(named).collect();
    if let Some(parent) = needs.siblings_of {
        around.siblings = ledger.siblings.get(&parent).copied().unwrap_or(0);
    }
    for on in &needs.upstream_of {
        around.upstream.extend(ledger.upstream.get(on).into_iter().flatten());
        let waiting = ledger.dependants.get(on).map_or(0, BTreeSet::len);
        around.dependants_of_named = around.dependants_of_named.max(waiting);
    }
    if let Some(principal) = &needs.holding
        && !ledger.set.is_empty()
    {
        around.holding = ledger.held_by(principal);
    }
    let Some(id) = id else { return around };
    if needs.dependants {
        around.dependants = ledger.dependants.get(&id).cloned().unwrap_or_default();
    }
    if needs.dependencies {
        around.dependencies = ledger.dependencies.get(&id).cloned().unwrap_or_default();
    }
    if needs.children {
        around.children = ledger.children.get(&id).cloned().unwrap_or_default();
    }
    around
}

/// What a panic said.
pub(super) fn last_words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it broke").to_owned()
}
