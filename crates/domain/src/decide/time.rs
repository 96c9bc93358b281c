//! What time brings, and what other tasks bring. One function says what is due next, and the same
//! one fires it, so a pass over a converged task can only find nothing.

use crate::command::Time;
use crate::deadline::Deadline;
use crate::event::{Event, Requeue};
use crate::ids::{PrincipalId, TaskId};
use crate::limits::BACKSTOP;
use crate::project::Project;
use crate::reaction::{Cause, Reaction};
use crate::refusal::Refusal;
use crate::run::{Block, Death, Held, Idle, Mode, Outcome, Phase, Run, RunState, Why};
use crate::scene::{Decision, Lease, Scene};
use crate::task::{Flow, Owed, Stage};
use crate::text::Reason;
use crate::time::{Millis, Timestamp};

use super::ending::{self, Sentence, conclude, end};
use super::{Grip, graph, present, spend};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Archive,
    Requeue,
    Starvation,
    Expiry,
    Deadline(Deadline),
}

pub(super) fn decide(
    scene: &Scene<'_>,
    flow: &Flow,
    says: &Time,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    Ok(match says {
        Time::Pass => pass(scene, flow, now),
        Time::React(reaction) => react(scene, flow, reaction, now),
    })
}

/// When something is due for this task next.
#[must_use]
pub fn due_at(
    flow: &Flow,
    lease: Option<&Lease>,
    project: &Project,
    amnesty: Timestamp,
) -> Option<Timestamp> {
    next(flow, lease, project, amnesty).map(|(at, _)| at)
}

fn next(
    flow: &Flow,
    lease: Option<&Lease>,
    project: &Project,
    amnesty: Timestamp,
) -> Option<(Timestamp, Due)> {
    if let Stage::Ended(_) = &flow.stage {
        return Some((flow.ended_at? + project.archive_after?, Due::Archive));
    }
    let run = flow.run.as_ref()?;
    match &run.state {
        RunState::Idle(idle) => next_idle(flow, run, idle),
        RunState::Held(held) => {
            let expiry = lease.map(|lease| (lease.ends_at(amnesty), Due::Expiry));
            let deadline = next_deadline(held)
                .map(|(deadline, at)| (at.max(amnesty), Due::Deadline(deadline)));
            expiry.into_iter().chain(deadline).min_by_key(|(at, _)| *at)
        }
    }
}

fn next_idle(flow: &Flow, run: &Run, idle: &Idle) -> Option<(Timestamp, Due)> {
    match idle {
        Idle::Queued if !run.starved && flow.is_ready() => {
            Some((run.ready_at + flow.policy.starved, Due::Starvation))
        }
        Idle::Delayed { due_at, .. } => Some((*due_at, Due::Requeue)),
        Idle::Blocked(Block { why: Why::Transient { until }, sticky: false, .. }) => {
            Some((*until, Due::Requeue))
        }
        Idle::Queued | Idle::Blocked(_) | Idle::Submitted(_) => None,
    }
}

/// The worker enforces deadlines; the server fires them only as a backstop, except for those that
/// it alone knows of. An attempt that is being stopped is waited for as long as a process is seen
/// that will not die; if nobody tells anything, the cleanup deadline ends the wait.
fn next_deadline(held: &Held) -> Option<(Deadline, Timestamp)> {
    if let Phase::Stopping { survivor, .. } = held.phase {
        let cleanup = held.armed.iter().find(|(deadline, _)| *deadline == Deadline::Cleanup);
        return cleanup.filter(|_| !survivor).map(|(deadline, at)| (deadline, at + BACKSTOP));
    }
    let grace = |deadline| {
        let own = deadline == Deadline::UserInput || held.mode == Mode::Solo;
        if own { Millis(0) } else { BACKSTOP }
    };
    let fires = held.armed.iter().map(|(deadline, at)| (deadline, at + grace(deadline)));
    fires.min_by_key(|(_, at)| *at)
}

fn pass(scene: &Scene<'_>, flow: &Flow, now: Timestamp) -> Decision {
    match next(flow, scene.lease, scene.project, scene.amnesty) {
        Some((at, due)) if at <= now => fire(scene, due, now),
        Some(_) | None => Decision::default(),
    }
}

fn fire(scene: &Scene<'_>, due: Due, now: Timestamp) -> Decision {
    match due {
        Due::Archive => Decision::of(vec![Event::Archived]),
        Due::Requeue => Decision::of(vec![Event::Requeued { why: Requeue::Due, reason: None }]),
        Due::Starvation => Decision::of(vec![Event::Starved]),
        Due::Expiry => present(scene).map_or_else(Decision::default, |grip| {
            let outcome = match &grip.held.phase {
                Phase::Stopping { verdict, .. } => verdict.clone(),
                Phase::Leased
                | Phase::Working
                | Phase::WaitingInput(_)
                | Phase::Verifying { .. } => Outcome::Lost,
            };
            let death = (grip.held.mode == Mode::Supervised).then_some(Death::None);
            end(scene, &grip, Sentence::new(outcome, None), death, now)
        }),
        Due::Deadline(Deadline::Cleanup) => fire(scene, Due::Expiry, now),
        Due::Deadline(deadline) => present(scene).map_or_else(Decision::default, |grip| {
            let sentence = match untold(deadline, &grip, now) {
                Some(reason) => Sentence::new(Outcome::Lost, Some(reason)),
                None => Sentence::new(ending::overrun(deadline, now), None),
            };
            conclude(scene, &grip, sentence, now)
        }),
    }
}

/// Why an attempt is lost whose worker should have said that something takes too long, and did not.
/// Nobody knows how its agent is, so that it is not to blame. How old an attempt is the server knows by
/// itself, as long as its worker is there.
fn untold(deadline: Deadline, grip: &Grip<'_>, now: Timestamp) -> Option<Reason> {
    let measured = match deadline {
        Deadline::UserInput => true,
        Deadline::WallClock => now < grip.lease.fenced_at(),
        Deadline::ProcessStart
        | Deadline::PromptWrite
        | Deadline::FirstEvent
        | Deadline::FirstVisibleEvent
        | Deadline::StreamIdle
        | Deadline::ToolIdle
        | Deadline::Cleanup => false,
    };
    if measured || grip.held.mode == Mode::Solo {
        return None;
    }
    let why = format!("its worker did not say how it is: {}", deadline.timeout());
    Some(Reason::new("reason", why).expect("a plain sentence is a reason"))
}

fn react(scene: &Scene<'_>, flow: &Flow, reaction: &Reaction, now: Timestamp) -> Decision {
    if flow.ending().is_some() {
        return Decision::default();
    }
    match &reaction.cause {
        Cause::DependencySettled { met } => settle(scene, flow, reaction.from, *met),
        Cause::ChildSettled | Cause::ChildAdded => roll_up(scene, flow),
        // What was raised may be too little still, or spent by somebody else meanwhile.
        Cause::BudgetRaised if flow.waits_for_money() && spend::has_money(scene, flow, now) => {
            Decision::of(vec![Event::Requeued { why: Requeue::CapRaised, reason: None }])
        }
        Cause::BudgetRaised => Decision::default(),
        // Whoever did it there and holds the run here knows already.
        Cause::Wake { by: Some(by), .. } if is_held_by(flow, by) => Decision::default(),
        Cause::Wake { ended, .. } => {
            Decision::of(vec![Event::Woken { by: reaction.from, ended: *ended }])
        }
    }
}

fn is_held_by(flow: &Flow, principal: &PrincipalId) -> bool {
    flow.run.as_ref().and_then(Run::held).is_some_and(|held| held.holder == *principal)
}

/// One name leaves the set; the last one lets the task go on, so two at once give one run.
fn settle(scene: &Scene<'_>, flow: &Flow, on: TaskId, met: bool) -> Decision {
    let Some(wait) = flow.waits_for.get(&on) else { return Decision::default() };
    if !met && *wait == crate::task::Wait::Failed {
        return Decision::default();
    }
    let mut decision = Decision::of(vec![Event::DependencySettled { on, met }]);
    if !met {
        return decision;
    }
    if graph::parked_on(flow, on).is_some_and(|block| !block.sticky) {
        decision.events.push(Event::Requeued { why: Requeue::DependencyMet, reason: None });
    }
    let last = flow.waits_for.len() == 1;
    if last && flow.stage == Stage::Backlog && scene.project.promote {
        if ending::may_go_on(flow) {
            ending::advance(scene, flow, None, false, &mut decision);
        } else {
            decision.events.push(Event::Owing { owed: Owed::Advance });
        }
    }
    decision
}

/// An epic whose children are done is done with them, or as soon as nothing stops it. If some ended
/// otherwise, nobody but a person knows whether the rest is enough.
fn roll_up(scene: &Scene<'_>, flow: &Flow) -> Decision {
    let mut decision = Decision::default();
    let undone = ending::undone(scene, flow);
    if undone != flow.undone {
        decision.events.push(Event::ChildrenSettled { undone });
    }
    match ending::rolled_up(scene, flow) {
        Some(ending) if ending::may_go_on(flow) => {
            ending::close(scene, flow, &ending, &mut decision);
        }
        Some(_) if flow.owed.is_none() => {
            decision.events.push(Event::Owing { owed: Owed::Advance });
        }
        Some(_) | None => {}
    }
    decision
}
