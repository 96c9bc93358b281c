//! Where hindrances are looked for: in the task itself, in its run, in the pools, among the staff.

use std::collections::BTreeSet;

use crate::deadline::Deadline;
use crate::ids::{AttemptId, Capability};
use crate::lane::{Claimant, Lane, Sort};
use crate::limits::LINEAGE_MAX;
use crate::pool::{PoolName, Take, bar};
use crate::project::WorkedBy;
use crate::run::{Block, Cap, Delay, Finish, Finished, Held, Idle, Phase, Run, RunState, Why};
use crate::task::{Approval, Flow, Hold, Kind, Stage, Wait};
use crate::time::Timestamp;

use super::{Explained, Hindrance, Outlook, Remedy};

pub(super) fn hindrances(outlook: &Outlook<'_>, now: Timestamp) -> Vec<Explained> {
    let flow = outlook.flow;
    let mut found = Found::default();
    match &flow.stage {
        Stage::Archived(how) => found.add(Hindrance::Archived { how: how.clone() }, flow.ended_at),
        Stage::Ended(how) => found.add(Hindrance::Ended { how: how.clone() }, flow.ended_at),
        Stage::Backlog | Stage::Working(_) => {}
    }
    if flow.ending().is_some() {
        return found.0;
    }
    match flow.run.as_ref() {
        Some(Run { state: RunState::Held(held), .. }) => {
            of_attempt(outlook, held, &mut found, now);
            of_task(flow, &mut found);
        }
        Some(run) => {
            of_task(flow, &mut found);
            of_run(outlook, run, &mut found, now);
        }
        None => {
            of_task(flow, &mut found);
            without_run(outlook, &mut found);
        }
    }
    if !flow.unproven.is_empty() {
        found.add(Hindrance::StopUnverified { attempts: flow.unproven.clone() }, None);
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Explained>);

impl Found {
    fn add(&mut self, hindrance: Hindrance, since: Option<Timestamp>) {
        self.0.push(Explained { hindrance, since, next: None });
    }

    fn cure(&mut self, hindrance: Hindrance, since: Option<Timestamp>, next: Remedy) {
        self.0.push(Explained { hindrance, since, next: Some(next) });
    }
}

/// What stops the task whatever its run says, in the order in which a claim asks.
fn of_task(flow: &Flow, found: &mut Found) {
    if flow.draft {
        found.cure(Hindrance::Draft, Some(flow.created_at), Remedy::Publish);
    }
    if flow.approval == Approval::Pending {
        let since = Some(flow.created_at);
        found.cure(Hindrance::AwaitingApproval, since, Remedy::Approve);
    }
    for (hold, hindrance) in
        [(Hold::Frozen, Hindrance::Frozen), (Hold::Review, Hindrance::ReviewHold)]
    {
        if flow.holds.has(hold) {
            found.cure(hindrance, None, Remedy::Unhold { hold });
        }
    }
    for (on, _) in flow.waits_for.iter().filter(|(_, wait)| **wait == Wait::Failed) {
        let next = Remedy::Undepend { on: *on };
        found.cure(Hindrance::DependencyFailed { on: *on }, None, next);
    }
    for (on, _) in flow.waits_for.iter().filter(|(_, wait)| **wait == Wait::Open) {
        let next = Remedy::Show { task: *on };
        found.cure(Hindrance::DependencyOpen { on: *on }, None, next);
    }
    if flow.undone > 0 {
        found.cure(Hindrance::ChildrenUndone { count: flow.undone }, None, Remedy::Close);
    }
}

fn without_run(outlook: &Outlook<'_>, found: &mut Found) {
    let flow = outlook.flow;
    if flow.kind == Kind::Epic {
        if flow.undone == 0 {
            found.add(Hindrance::ChildrenOpen, None);
        }
        return;
    }
    // It goes on by itself once nothing else stops it.
    let promoted = outlook.project.promote && !flow.waits_for.is_empty();
    if flow.owed.is_some() || (flow.stage == Stage::Backlog && promoted) {
        return;
    }
    if flow.stage == Stage::Backlog {
        let since = (flow.runs == 0).then_some(flow.created_at);
        match outlook.project.first() {
            Some(first) => {
                found.cure(Hindrance::Backlog, since, Remedy::Move { to: first.name.clone() });
            }
            None => found.add(Hindrance::Backlog, since),
        }
        return;
    }
    if let Some(last) = &flow.last {
        let next = if last.depth < LINEAGE_MAX { Remedy::Retry } else { Remedy::Close };
        found.0.extend(after(last).map(|it| Explained {
            hindrance: it,
            since: None,
            next: Some(next),
        }));
    }
}

fn after(last: &Finished) -> Option<Hindrance> {
    match &last.finish {
        _ if last.silent_end => Some(Hindrance::EndedWithoutResult),
        Finish::Failed { code } => Some(Hindrance::Failed { why: code.clone() }),
        Finish::Cancelled => Some(Hindrance::Cancelled),
        Finish::Completed => None,
    }
}

fn of_attempt(outlook: &Outlook<'_>, held: &Held, found: &mut Found, now: Timestamp) {
    let until = outlook.lease.map(|lease| lease.ends_at(outlook.amnesty));
    match &held.phase {
        Phase::WaitingInput(question) => {
            let input = held.armed.iter().find(|(deadline, _)| *deadline == Deadline::UserInput);
            let until = input.map(|(_, at)| at);
            let since = Some(question.asked_at);
            found.cure(Hindrance::WaitingForInput { until }, since, Remedy::Answer);
        }
        Phase::Stopping { survivor: true, .. } => {
            let attempts = BTreeSet::from([held.attempt]);
            found.add(Hindrance::StopUnverified { attempts }, None);
        }
        Phase::Stopping { survivor: false, .. } => found.add(Hindrance::Stopping, None),
        Phase::Leased | Phase::Working if held.is_silent(now) => {
            found.cure(Hindrance::Silent, Some(held.active_at), Remedy::Release);
        }
        Phase::Verifying { .. } => found.add(Hindrance::Verifying, None),
        Phase::Leased | Phase::Working => {}
    }
    let attempt = AttemptId { task: outlook.flow.id, number: held.attempt };
    let (holder, purpose) = (held.holder.clone(), held.purpose);
    found.add(Hindrance::Held { attempt, holder, purpose, until }, Some(held.claimed_at));
}

fn of_run(outlook: &Outlook<'_>, run: &Run, found: &mut Found, now: Timestamp) {
    let RunState::Idle(idle) = &run.state else { return };
    match idle {
        Idle::Delayed { due_at, why } => {
            found.cure(Hindrance::Delayed { until: *due_at, why: *why }, None, Remedy::Retry);
            if *why == Delay::RateLimit {
                of_budgets(outlook, found, now);
            }
        }
        Idle::Blocked(block) => of_block(outlook, block, found, now),
        Idle::Queued | Idle::Submitted(_) => {
            let before = found.0.len();
            for lane in outlook.flow.lanes_once_free() {
                of_pools(outlook, own_asks(outlook.flow, &lane), found, now);
                of_staff(outlook, &lane, found, now);
            }
            if let Idle::Submitted(mark) = idle {
                let since = Some(run.ready_at);
                match (mark.review, mark.tree) {
                    (true, _) => found.cure(Hindrance::ReviewOpen, since, Remedy::Review),
                    (false, false) => found.cure(Hindrance::NoTree, since, Remedy::Waive),
                    (false, true) => {}
                }
            }
            if run.starved {
                found.add(Hindrance::Starving, Some(run.ready_at));
            }
            if found.0.len() == before && outlook.flow.impediment().is_none() {
                found.add(Hindrance::Queued, Some(run.ready_at));
            }
        }
    }
}

fn of_block(outlook: &Outlook<'_>, block: &Block, found: &mut Found, now: Timestamp) {
    let next = match &block.why {
        Why::NeedsInput => Remedy::Answer,
        Why::Capability { needs } => Remedy::PickUp { needs: needs.clone() },
        Why::Dependency { on } => Remedy::Show { task: *on },
        Why::Transient { .. } | Why::Limit { cap: Cap::Budget } => Remedy::Unblock,
        Why::Limit { cap } => Remedy::RaiseCap { cap: *cap },
    };
    found.cure(Hindrance::Blocked { block: block.why.clone() }, Some(block.at), next);
    if block.sticky {
        found.cure(Hindrance::Recurring, Some(block.at), Remedy::Unblock);
    }
    if block.why == (Why::Limit { cap: Cap::Budget }) {
        of_budgets(outlook, found, now);
    }
}

/// The budgets that are spent, for a run that waits for money.
fn of_budgets(outlook: &Outlook<'_>, found: &mut Found, now: Timestamp) {
    let budgets = outlook.flow.budgets().map(|pool| Take { pool, amount: 1 });
    of_pools(outlook, budgets, found, now);
}

/// Everything that must admit whoever claims this task.
fn own_asks(flow: &Flow, lane: &Lane) -> impl Iterator<Item = Take> {
    let own = [
        Take { pool: PoolName::Tree(flow.id), amount: 0 },
        Take { pool: PoolName::Budget(flow.id), amount: lane.budget_micros.max(1) },
    ];
    lane.shared_asks().chain(own)
}

fn of_pools(
    outlook: &Outlook<'_>,
    asks: impl Iterator<Item = Take>,
    found: &mut Found,
    now: Timestamp,
) {
    for Take { pool: name, amount } in asks {
        let Some(pool) = outlook.pools.get(&name) else { continue };
        if let Some(shut) = pool.shut.as_ref().filter(|_| !pool.is_open(now)) {
            let hindrance = Hindrance::Paused { pool: name.clone(), until: shut.until };
            found.cure(hindrance, Some(shut.since), Remedy::Resume { pool: name });
        } else if !pool.admits(amount, now) {
            let next = Remedy::RaiseLimit { pool: name.clone() };
            let until = pool.opens_at(amount, now);
            found.cure(Hindrance::PoolFull { pool: name, until }, None, next);
        }
    }
}

/// Whether anybody is there who would take it, and if not, what is missing.
fn of_staff(outlook: &Outlook<'_>, lane: &Lane, found: &mut Found, now: Timestamp) {
    let (staff, project) = (outlook.staff, outlook.project);
    let fits = |it: &&Claimant| lane.admits(it) && lane.is_open_to(it, project);
    let fitting: Vec<&Claimant> = staff.iter().filter(fits).collect();
    if !fitting.is_empty() {
        let bars =
            |it: &&Claimant| lane.own_asks(it).any(|ask| bar(outlook.pools, &ask, now).is_some());
        if fitting.iter().all(bars) {
            // Two of them may share an account.
            let own = fitting.iter().flat_map(|it| lane.own_asks(it)).map(|take| take.pool);
            let own: BTreeSet<PoolName> = own.collect();
            of_pools(outlook, own.into_iter().map(|pool| Take { pool, amount: 1 }), found, now);
        }
        return;
    }
    if lane.sort == Sort::Submitted {
        return found.cure(
            Hindrance::NoVerifier,
            Some(outlook.flow.ready_at()),
            Remedy::StartVerifier,
        );
    }
    let worked_by = project.stage(&lane.stage).map(|spec| spec.worked_by).unwrap_or_default();
    if worked_by == WorkedBy::Baton {
        let since = Some(outlook.flow.ready_at());
        return found.cure(Hindrance::NoVerifier, since, Remedy::StartVerifier);
    }
    if worked_by == WorkedBy::Train {
        let home = project.home();
        return found.cure(Hindrance::HomeAbsent { home }, None, Remedy::StartVerifier);
    }
    if worked_by == WorkedBy::Person {
        let hindrance = Hindrance::PersonStage { stage: lane.stage.clone() };
        return found.cure(hindrance, None, Remedy::Take);
    }
    if let Some(assignee) = lane.assignee.clone()
        && staff.iter().all(|it| it.principal != assignee)
    {
        return found.cure(Hindrance::AssigneeAbsent { assignee }, None, Remedy::ClearAssignee);
    }
    let capabilities = lane.capabilities.clone();
    let able = |it: &Claimant| it.person || capabilities.is_subset(&it.capabilities);
    let next = Remedy::StartWorker { capabilities: capabilities.clone() };
    if staff.is_empty() || staff.iter().any(able) {
        return found.cure(Hindrance::NoWorker, None, next);
    }
    let anywhere = |need: &&Capability| staff.iter().any(|it| it.capabilities.contains(*need));
    let mut needs = capabilities.clone();
    needs.retain(|need| !anywhere(&need));
    // Each is there, but nobody has all of them.
    let needs = if needs.is_empty() { capabilities } else { needs };
    found.cure(Hindrance::CapabilityMissing { needs }, None, next);
}
