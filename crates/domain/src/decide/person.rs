//! What a person may do to a task.

use crate::command::Person;
use crate::contract::{Finding, Receipt};
use crate::event::{Event, Opened, Requeue};
use crate::ids::{LineId, StageName, TaskId};
use crate::limits::{LINEAGE_MAX, LINES_MAX};
use crate::refusal::{Missing, Refusal};
use crate::run::{BlockKind, Fault, Finish, Idle, Mode, Outcome, Phase, RunResult, RunState};
use crate::scene::{Decision, Scene};
use crate::task::{Approval, Ending, Flow, Hold, Owed, Stage};
use crate::text::{Code, Message, Reason};
use crate::time::Timestamp;

use super::birth::check_start;
use super::edit::edit;
use super::ending::{self, Sentence, conclude};
use super::wake::wake;
use super::{graph, present, review};

type Decided = Result<Decision, Refusal>;

pub(super) fn decide(scene: &Scene<'_>, flow: &Flow, says: &Person, now: Timestamp) -> Decided {
    if flow.ending().is_some() && !matches!(says, Person::Archive) {
        return Err(Refusal::Ended);
    }
    match says {
        Person::Edit(patch) => edit(scene, flow, patch),
        Person::Publish => publish(scene, flow),
        Person::Approve => match flow.approval {
            Approval::Pending => happened(Event::Approved),
            Approval::Approved => nothing(),
            Approval::NotRequired => Err(Refusal::WrongState { state: "not awaiting approval" }),
        },
        Person::Move { to, start_at } => shift(scene, flow, to.as_ref(), *start_at, now),
        Person::Hold { hold, on, reason } => set_hold(scene, flow, *hold, *on, reason),
        Person::Close(ending) => close(scene, flow, ending, now),
        Person::Archive => match &flow.stage {
            Stage::Ended(_) => happened(Event::Archived),
            Stage::Archived(_) => nothing(),
            Stage::Backlog | Stage::Working(_) => Err(Refusal::WrongState { state: "not ended" }),
        },
        Person::Depend { on, wait } => depend(scene, flow, *on, *wait),
        Person::Answer(text) => answer(flow, text),
        Person::Unblock(reason) => unblock(flow, reason),
        Person::Cancel(reason) => cancel(scene, flow, reason, now),
        Person::Retry(reason) => retry(scene, flow, reason),
        Person::Waive(receipts) => waive(scene, flow, receipts),
        Person::Review(said) => review::decide(scene, flow, said),
        Person::Release(reason) => {
            force(scene, flow, Outcome::Released { until: None }, reason, now)
        }
        Person::Fail { code, reason } => fail(scene, flow, code, reason, now),
    }
}

fn happened(event: Event) -> Decided {
    Ok(Decision::of(vec![event]))
}

fn nothing() -> Decided {
    Ok(Decision::default())
}

/// Puts the task into another column; a run that nobody holds is called off with it.
fn shift(
    scene: &Scene<'_>,
    flow: &Flow,
    to: Option<&StageName>,
    start_at: Option<Timestamp>,
    now: Timestamp,
) -> Decided {
    check_start(start_at, now)?;
    let target = to.cloned().map_or(Stage::Backlog, Stage::Working);
    if let Some(stage) = to.filter(|stage| scene.project.stage(stage).is_none()) {
        return Err(Refusal::NoStage { stage: stage.clone() });
    }
    if target == flow.stage {
        return nothing();
    }
    if let Some(fixed) = flow.fixed() {
        return Err(fixed);
    }
    let called_off = flow.run.as_ref().map(|_| ending::called_off(None));
    let mut events: Vec<_> = called_off.into_iter().collect();
    let run = to.and_then(|stage| ending::open(scene.project, flow, stage));
    let due_at = start_at.filter(|due_at| *due_at > now);
    let run = run.map(|run| Opened { due_at, ..run });
    // Whoever skips a stage skips its proof, too.
    let first = scene.project.first().map(|spec| &spec.name);
    let doubted = to.is_some() && to != first;
    events.push(Event::Moved { to: to.cloned(), run, doubted });
    Ok(Decision::of(events))
}

fn set_hold(scene: &Scene<'_>, flow: &Flow, hold: Hold, on: bool, reason: &Reason) -> Decided {
    if flow.holds.has(hold) == on {
        return nothing();
    }
    let set = Event::HoldSet { hold, on, reason: Some(reason.clone()) };
    let mut decision = Decision::of(vec![set]);
    let mut after = flow.holds;
    *after.flag(hold) = on;
    if after.are_none() && !flow.draft {
        ending::go_on(scene, flow, &mut decision);
    }
    Ok(decision)
}

fn publish(scene: &Scene<'_>, flow: &Flow) -> Decided {
    if !flow.draft {
        return nothing();
    }
    let mut decision = Decision::of(vec![Event::Published]);
    if flow.holds.are_none() {
        ending::go_on(scene, flow, &mut decision);
    }
    Ok(decision)
}

fn close(scene: &Scene<'_>, flow: &Flow, ending: &Ending, now: Timestamp) -> Decided {
    let refuse = |rule: &str| Refusal::Invalid { field: "ending".into(), rule: rule.into() };
    match ending {
        // A person may find that what came of an epic is enough; that proves nothing.
        Ending::Done { verified: false } if ending::undone(scene, flow) > 0 => {}
        Ending::Done { .. } => return Err(refuse("must not be done: only a passed run does that")),
        Ending::Superseded { by, .. } if *by == flow.id => {
            return Err(refuse("must name another task"));
        }
        Ending::Superseded { by, .. } if !scene.around.named.contains_key(by) => {
            return Err(Refusal::NotFound);
        }
        Ending::Superseded { .. } | Ending::Abandoned { .. } | Ending::Rejected { .. } => {}
    }
    let owing = Event::Owing { owed: Owed::Close(ending.clone()) };
    let mut decision = Decision::default();
    match present(scene) {
        Some(grip) if matches!(grip.held.phase, Phase::Stopping { .. }) => {
            if flow.owed != Some(Owed::Close(ending.kept())) {
                decision.events.push(owing);
            }
            return Ok(decision);
        }
        Some(grip) => {
            let stop = conclude(scene, &grip, Sentence::new(Outcome::Cancelled, None), now);
            if grip.held.mode == Mode::Supervised {
                decision.events.push(owing);
                decision.events.extend(stop.events);
                return Ok(decision);
            }
            decision = stop;
        }
        None if flow.run.is_some() => decision.events.push(ending::called_off(None)),
        None => {}
    }
    ending::close(scene, flow, ending, &mut decision);
    Ok(decision)
}

fn depend(scene: &Scene<'_>, flow: &Flow, on: TaskId, wait: bool) -> Decided {
    let declared = &scene.around.dependencies;
    match (wait, declared.contains(&on)) {
        (true, true) | (false, false) => nothing(),
        (false, true) => {
            let requeued = Event::Requeued { why: Requeue::Unblocked, reason: None };
            let parked = graph::parked_on(flow, on).map(|_| requeued);
            let removed = Event::DependencyRemoved { on };
            Ok(Decision::of([removed].into_iter().chain(parked).collect()))
        }
        (true, false) => {
            let met =
                graph::check_edge(scene.around, &flow.project, (flow.id, &flow.ancestors), on)?;
            graph::check_count(&declared.iter().copied().chain([on]).collect())?;
            happened(Event::DependencyAdded { on, met })
        }
    }
}

fn answer(flow: &Flow, text: &Message) -> Decided {
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    let answered = Event::Answered { answer: text.clone() };
    let refused = Err(Refusal::WrongState { state: run.word() });
    match &run.state {
        RunState::Idle(Idle::Blocked(block)) if block.why.kind() == BlockKind::NeedsInput => {
            let requeued = Event::Requeued { why: Requeue::Answered, reason: None };
            Ok(Decision::of(vec![answered, requeued]))
        }
        RunState::Idle(_) => refused,
        RunState::Held(held) => match &held.phase {
            Phase::WaitingInput(_) => happened(answered),
            Phase::Stopping { verdict: Outcome::Blocked { block, answered: false }, .. }
                if block.why.kind() == BlockKind::NeedsInput =>
            {
                happened(answered)
            }
            Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. } => {
                refused
            }
        },
    }
}

fn unblock(flow: &Flow, reason: &Reason) -> Decided {
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    match &run.state {
        RunState::Idle(Idle::Blocked(_)) => {
            happened(Event::Requeued { why: Requeue::Unblocked, reason: Some(reason.clone()) })
        }
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
        | RunState::Held(_) => Err(Refusal::WrongState { state: run.word() }),
    }
}

fn cancel(scene: &Scene<'_>, flow: &Flow, reason: &Reason, now: Timestamp) -> Decided {
    match flow.run.as_ref().ok_or(Refusal::NoRun)?.state {
        RunState::Idle(_) => happened(ending::called_off(Some(reason.clone()))),
        RunState::Held(_) => force(scene, flow, Outcome::Cancelled, reason, now),
    }
}

fn fail(scene: &Scene<'_>, flow: &Flow, code: &Code, reason: &Reason, now: Timestamp) -> Decided {
    match flow.run.as_ref().ok_or(Refusal::NoRun)?.state {
        RunState::Idle(_) => {
            let finish = Finish::Failed { code: code.clone() };
            let failed = Event::RunFinished { finish, reason: Some(reason.clone()), result: None };
            let mut decision = Decision::of(vec![failed]);
            wake(flow, false, &mut decision);
            Ok(decision)
        }
        RunState::Held(_) => {
            let outcome = Outcome::Failed { code: code.clone(), fault: Fault::Forced };
            force(scene, flow, outcome, reason, now)
        }
    }
}

/// A person vouches for what nobody proved. What was submitted counts as verified by that word, so all
/// that is open must be named, and nothing that is not asked for.
fn waive(scene: &Scene<'_>, flow: &Flow, receipts: &[Receipt]) -> Decided {
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    let RunState::Idle(Idle::Submitted(_)) = &run.state else {
        return Err(Refusal::WrongState { state: run.word() });
    };
    let brief = scene.task.and_then(|task| task.brief.as_ref()).ok_or(Refusal::NotFound)?;
    let refuse = |rule: &str| Refusal::Invalid { field: "lines".into(), rule: rule.into() };
    let asked = |one: &Receipt| brief.contract.lines.contains_key(&one.line);
    if receipts.len() > LINES_MAX || !receipts.iter().all(asked) {
        return Err(refuse("must be lines of the contract"));
    }
    if !receipts.iter().all(|one| matches!(one.finding, Finding::Waived { .. })) {
        return Err(refuse("must be waived: a person vouches, and checks nothing"));
    }
    let open = brief.contract.failing(receipts);
    if !open.is_empty() || receipts.is_empty() {
        let missing = |line: &&LineId| Missing {
            line: (*line).clone(),
            code: "line_open",
            path: String::new(),
        };
        return Err(Refusal::Incomplete { missing: open.iter().map(missing).collect() });
    }
    let verified = Event::Verified {
        receipts: receipts.to_vec(),
        passed: true,
        commit: None,
        review: false,
        guarded: vec![],
    };
    let (finish, result) = (Finish::Completed, Some(RunResult::Verified));
    let finished = Event::RunFinished { finish, reason: None, result };
    let mut decision = Decision::of(vec![verified, finished]);
    ending::pass(scene, flow, &run.stage, flow.doubted, &mut decision);
    Ok(decision)
}

/// Ends whoever holds the run.
fn force(
    scene: &Scene<'_>,
    flow: &Flow,
    outcome: Outcome,
    reason: &Reason,
    now: Timestamp,
) -> Decided {
    let Some(grip) = present(scene) else {
        let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
        return Err(Refusal::WrongState { state: run.word() });
    };
    if let Phase::Stopping { verdict, .. } = &grip.held.phase
        && !overrules(&outcome, verdict)?
    {
        return nothing();
    }
    Ok(conclude(scene, &grip, Sentence::new(outcome, Some(reason.clone())), now))
}

/// The first verdict counts, except that what a person calls off does not go on.
fn overrules(outcome: &Outcome, verdict: &Outcome) -> Result<bool, Refusal> {
    match (outcome, verdict) {
        (Outcome::Released { .. }, _)
        | (_, Outcome::Cancelled | Outcome::Failed { fault: Fault::Forced, .. }) => Ok(false),
        (_, Outcome::Completed { .. }) => Err(Refusal::WrongState { state: "stopping" }),
        (
            _,
            Outcome::Failed { fault: Fault::Agent | Fault::Infrastructure, .. }
            | Outcome::Blocked { .. }
            | Outcome::Released { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Lost
            | Outcome::EndedWithoutResult,
        ) => Ok(true),
    }
}

fn retry(scene: &Scene<'_>, flow: &Flow, reason: &Reason) -> Decided {
    if let Some(run) = &flow.run {
        return match &run.state {
            RunState::Idle(Idle::Delayed { .. }) => {
                happened(Event::Requeued { why: Requeue::Unblocked, reason: Some(reason.clone()) })
            }
            RunState::Idle(Idle::Queued) => nothing(),
            RunState::Idle(Idle::Blocked(_) | Idle::Submitted(_)) | RunState::Held(_) => {
                Err(Refusal::WrongState { state: run.word() })
            }
        };
    }
    let last = flow.last.as_ref().ok_or(Refusal::NoRun)?;
    let (Stage::Working(stage), Finish::Failed { .. } | Finish::Cancelled) =
        (&flow.stage, &last.finish)
    else {
        return Err(Refusal::NoRun);
    };
    if last.depth >= LINEAGE_MAX {
        return Err(Refusal::LineageTooLong);
    }
    let run = Opened {
        number: flow.runs + 1,
        stage: stage.clone(),
        previous: Some(last.number),
        depth: last.depth + 1,
        due_at: None,
        worked_by: scene.project.worked_by(stage),
    };
    happened(Event::RunOpened { run, reason: Some(reason.clone()) })
}
