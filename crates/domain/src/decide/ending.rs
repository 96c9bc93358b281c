//! How attempts end, what that costs the run, and what follows for the task and for others.
//!
//! Kill, prove dead, then finish: a watched attempt first enters `stopping`, and its verdict
//! counts once its supervisor proved its death. A solo attempt has no process and ends at once.

use crate::deadline::{Deadline, allowed};
use crate::event::{Event, Opened, Then};
use crate::ids::StageName;
use crate::limits::{BACKSTOP, RECURRENCE_MAX};
use crate::pool::{PoolMove, PoolName, Take};
use crate::project::{PassedBy, Project};
use crate::reaction::{Cause, Reaction};
use crate::run::{
    Block, Cap, Counts, Death, Delay, Fault, Finish, Held, Mode, Outcome, Phase, Purpose,
    RunResult, Why,
};
use crate::scene::{Decision, Lease, LeaseChange, Scene};
use crate::task::{Ending, Flow, Hold, Kind, Owed, Stage};
use crate::text::{Code, Line, Reason};
use crate::time::Timestamp;

use super::wake::wake;
use super::{Grip, certainty, landing, spend};

/// A verdict on an attempt, with the words that go with it.
pub(super) struct Sentence {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<Reason>,
    pub(super) condition: Option<Line>,
}

impl Sentence {
    pub(super) fn new(outcome: Outcome, reason: Option<Reason>) -> Self {
        Self { outcome, reason, condition: None }
    }
}

/// Ends a solo attempt at once; a watched one is stopped first.
pub(super) fn conclude(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    sentence: Sentence,
    now: Timestamp,
) -> Decision {
    match grip.held.mode {
        Mode::Solo => end(scene, grip, sentence, None, now),
        Mode::Supervised => Decision {
            events: vec![Event::Stopping {
                verdict: sentence.outcome,
                fenced_at: Some(grip.lease.fenced_at()),
                reason: sentence.reason,
                condition: sentence.condition,
            }],
            lease: awaited(grip, now),
            ..Decision::default()
        },
    }
}

/// A short lease must not end before its supervisor had the time to prove a death.
fn awaited(grip: &Grip<'_>, now: Timestamp) -> Option<LeaseChange> {
    let cleanup = now + allowed(Deadline::Cleanup, &grip.flow.policy) + BACKSTOP;
    let Lease { expires_at, length, .. } = *grip.lease;
    let ends_early = expires_at < cleanup && expires_at != Lease::FORFEIT;
    ends_early.then_some(LeaseChange::Renew { expires_at: cleanup, length })
}

/// Ends an attempt for good.
pub(super) fn end(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    sentence: Sentence,
    death: Option<Death>,
    now: Timestamp,
) -> Decision {
    let consequence = if spend::was_for_want(grip, &sentence.outcome)
        && matches!(grip.held.phase, Phase::Stopping { .. })
        && spend::has_money(scene, grip.flow, now)
    {
        // More came while death was awaited, and nobody would tell the run again.
        within_tries(grip, Counts::Try, Then::Queued, now)
    } else {
        consequence(grip, &sentence.outcome, now)
    };
    finish_attempt(scene, grip, sentence, death, consequence)
}

/// Ends an attempt with a consequence that the caller has worked out.
pub(super) fn finish_attempt(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    sentence: Sentence,
    death: Option<Death>,
    (counts, then): (Counts, Then),
) -> Decision {
    let flow = grip.flow;
    let ended = Event::AttemptEnded {
        attempt: grip.held.attempt,
        certainty: certainty::of(grip.held, &sentence.outcome, death),
        outcome: sentence.outcome,
        reason: sentence.reason,
        condition: sentence.condition,
        death,
        counts,
        then: then.clone(),
    };
    let mut decision = Decision {
        events: vec![ended],
        lease: Some(LeaseChange::Drop),
        pools: give_back(flow, grip.held),
        reactions: vec![],
    };
    match (&flow.owed, &then) {
        (Some(Owed::Close(ending)), Then::Finished { .. }) => {
            close(scene, flow, ending, &mut decision);
        }
        (Some(Owed::Close(ending)), _) => {
            decision.events.push(called_off(None));
            close(scene, flow, ending, &mut decision);
        }
        (_, Then::Finished { finish: Finish::Completed, result }) => {
            let doubted = flow.doubted || *result != Some(RunResult::Verified);
            pass(scene, flow, &grip.run.stage, doubted, &mut decision);
        }
        (
            _,
            Then::Finished { finish: Finish::Failed { .. }, result: Some(RunResult::Rejected) },
        ) if landing::is_batons(grip) => {
            landing::set_back(scene, grip, &mut decision);
        }
        (
            _,
            Then::Finished { finish: Finish::Failed { .. }, .. }
            | Then::Blocked { again: false, .. },
        ) => wake(flow, false, &mut decision),
        // Whoever waits for it knows of the old block already.
        (
            _,
            Then::Finished { finish: Finish::Cancelled, .. }
            | Then::Blocked { again: true, .. }
            | Then::Queued
            | Then::Delayed { .. }
            | Then::Submitted,
        ) => {}
    }
    decision
}

/// What was taken is returned; what was spent stays gone. What went beyond the reservation is gone
/// from its pool already.
fn give_back(flow: &Flow, held: &Held) -> Vec<PoolMove> {
    let back = |take: &Take| PoolMove::Return { take: take.clone(), spent: 0 };
    let rest = move |pool: &PoolName| held.spent_micros.min(reserved(held, pool));
    held.takes.iter().map(back).chain(settle(flow, rest)).collect()
}

/// Money that is gone from the budgets of a task and of everything above it.
pub(super) fn settle(
    flow: &Flow,
    spent: impl Fn(&PoolName) -> u64,
) -> impl Iterator<Item = PoolMove> {
    flow.budgets().filter_map(move |pool| {
        let spent = spent(&pool);
        (spent > 0).then_some(PoolMove::Return { take: Take { pool, amount: 0 }, spent })
    })
}

/// What the attempt has reserved of a budget.
pub(super) fn reserved(held: &Held, pool: &PoolName) -> u64 {
    held.takes.iter().filter(|take| take.pool == *pool).map(|take| take.amount).sum()
}

/// A pass that nobody holds is called off.
pub(super) fn called_off(reason: Option<Reason>) -> Event {
    Event::RunFinished { finish: Finish::Cancelled, reason, result: None }
}

/// The stage is passed: go on, or owe it while something stops the task.
pub(super) fn pass(
    scene: &Scene<'_>,
    flow: &Flow,
    stage: &StageName,
    doubted: bool,
    decision: &mut Decision,
) {
    let by_person =
        scene.project.stage(stage).is_some_and(|spec| spec.passed_by == PassedBy::Person);
    if by_person && !flow.holds.review {
        decision.events.push(Event::HoldSet { hold: Hold::Review, on: true, reason: None });
    }
    if by_person || !flow.holds.are_none() {
        decision.events.push(Event::Owing { owed: Owed::Advance });
        return;
    }
    advance(scene, flow, Some(stage), doubted, decision);
}

/// Goes on to the stage after `from`, or to the first one, or to the end.
pub(super) fn advance(
    scene: &Scene<'_>,
    flow: &Flow,
    from: Option<&StageName>,
    doubted: bool,
    decision: &mut Decision,
) {
    let next = match from {
        None => scene.project.first(),
        Some(stage) => scene.project.after(stage),
    };
    match next {
        Some(spec) => {
            let run = open(scene.project, flow, &spec.name);
            decision.events.push(Event::Moved { to: Some(spec.name.clone()), run, doubted });
        }
        None => close(scene, flow, &Ending::Done { verified: !doubted }, decision),
    }
}

/// Whether neither a hold nor its being a draft keeps the task where it is.
pub(super) fn may_go_on(flow: &Flow) -> bool {
    flow.holds.are_none() && !flow.draft
}

/// Does what is owed, now that nothing stops the task any more.
pub(super) fn go_on(scene: &Scene<'_>, flow: &Flow, decision: &mut Decision) {
    if flow.owed != Some(Owed::Advance) {
        return;
    }
    match (rolled_up(scene, flow), &flow.stage) {
        (Some(ending), _) => close(scene, flow, &ending, decision),
        (None, Stage::Backlog) => advance(scene, flow, None, flow.doubted, decision),
        (None, Stage::Working(stage)) if flow.kind != Kind::Epic => {
            advance(scene, flow, Some(stage), flow.doubted, decision);
        }
        // A child was added meanwhile, and its end will tell; or the task has ended.
        (None, Stage::Working(_) | Stage::Ended(_) | Stage::Archived(_)) => {}
    }
}

/// How the children of an epic ended, if it has any and none is open.
pub(super) fn settled<'a>(scene: &Scene<'a>, flow: &Flow) -> Option<Vec<&'a Ending>> {
    let children = &scene.around.children;
    let ended: Vec<&Ending> = children.values().flatten().collect();
    let all = !children.is_empty() && ended.len() == children.len();
    (flow.kind == Kind::Epic && all).then_some(ended)
}

/// How many children of an epic ended otherwise than done, once none is open.
pub(super) fn undone(scene: &Scene<'_>, flow: &Flow) -> u8 {
    let ended = settled(scene, flow).unwrap_or_default();
    let count = ended.iter().filter(|ending| !ending.satisfies()).count();
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// How an epic ends by its children: once all of them are done.
pub(super) fn rolled_up(scene: &Scene<'_>, flow: &Flow) -> Option<Ending> {
    let ended = settled(scene, flow)?;
    // Nobody checked what the epic itself asks for.
    let unasked = flow.contract.is_none() && !flow.doubted;
    let proved = |ending: &&Ending| matches!(ending, Ending::Done { verified: true });
    let verified = unasked && ended.iter().all(proved);
    ended.iter().all(|ending| ending.satisfies()).then_some(Ending::Done { verified })
}

/// The pass that begins with entering a stage; an epic has none.
pub(super) fn open(project: &Project, flow: &Flow, stage: &StageName) -> Option<Opened> {
    (flow.kind != Kind::Epic).then(|| Opened {
        number: flow.runs + 1,
        stage: stage.clone(),
        previous: None,
        depth: 0,
        due_at: None,
        worked_by: project.worked_by(stage),
    })
}

/// Ends the task and tells everybody who waits for that.
pub(super) fn close(scene: &Scene<'_>, flow: &Flow, ending: &Ending, decision: &mut Decision) {
    decision.events.push(Event::Ended { ending: ending.clone() });
    let met = ending.satisfies();
    let tell = |to, cause| Reaction { to, from: flow.id, cause };
    let dependants = scene.around.dependants.iter();
    decision.reactions.extend(
        dependants
            .map(|to| tell(*to, Cause::DependencySettled { met }))
            .chain(flow.parent().map(|to| tell(to, Cause::ChildSettled))),
    );
    wake(flow, true, decision);
}

/// What an ending costs the run, and what becomes of it.
fn consequence(grip: &Grip<'_>, outcome: &Outcome, now: Timestamp) -> (Counts, Then) {
    let finished = |finish| Then::Finished { finish, result: None };
    match outcome {
        Outcome::Cancelled => (Counts::Try, finished(Finish::Cancelled)),
        Outcome::Failed { code, fault: Fault::Forced } => {
            (Counts::Try, finished(Finish::Failed { code: code.clone() }))
        }
        Outcome::Completed { .. }
        | Outcome::Failed { .. }
        | Outcome::Blocked { .. }
        | Outcome::Released { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::EndedWithoutResult => match grip.held.purpose {
            Purpose::Work | Purpose::Merge => of_work(grip, outcome, now),
            // Whoever tried the condition is gone: the run is parked as before.
            Purpose::Probe => match &grip.held.picked {
                Some(block) => (Counts::Nothing, parked_again(block)),
                None => (Counts::Nothing, Then::Queued),
            },
            // A verifier that dies or gives up leaves the run as it was.
            Purpose::Verify if matches!(outcome, Outcome::Released { .. }) => {
                within_tries(grip, Counts::Try, landing::unchecked(grip), now)
            }
            Purpose::Verify => loss(grip, landing::unchecked(grip), now),
        },
    }
}

fn of_work(grip: &Grip<'_>, outcome: &Outcome, now: Timestamp) -> (Counts, Then) {
    let pinned = grip.held.submission.is_some();
    let again = grip.held.picked.as_ref().map(parked_again);
    match outcome {
        // What its commands proved waits for a reviewer.
        Outcome::Completed { .. } if grip.held.submission.is_some_and(|mark| mark.review) => {
            (Counts::Try, Then::Submitted)
        }
        Outcome::Completed { result } => {
            (Counts::Try, Then::Finished { finish: Finish::Completed, result: Some(*result) })
        }
        Outcome::Failed { code, fault: Fault::Agent } => fault(grip, code, None, now),
        // What was submitted is pinned and can be verified by anybody.
        Outcome::Lost | Outcome::Failed { fault: Fault::Infrastructure, .. } if pinned => {
            loss(grip, Then::Submitted, now)
        }
        Outcome::Released { .. } | Outcome::TimedOut { .. } if pinned => {
            within_tries(grip, Counts::Try, Then::Submitted, now)
        }
        Outcome::Failed { fault: Fault::Infrastructure, .. }
        | Outcome::TimedOut { deadline: Deadline::ProcessStart | Deadline::PromptWrite } => {
            let losses = grip.run.tally.losses.saturating_add(1);
            loss(grip, again.unwrap_or_else(|| back_off(grip, losses, now)), now)
        }
        Outcome::Blocked { answered: true, .. } => (Counts::Try, Then::Queued),
        Outcome::Blocked { block, answered: false } => {
            let block = with_recurrence(grip, block);
            if !block.sticky && was_met_meanwhile(grip, &block) {
                return (Counts::Try, Then::Queued);
            }
            (Counts::Try, Then::Blocked { block, again: false })
        }
        Outcome::Released { until } => {
            let wait = until.filter(|until| *until > now);
            let delayed = |due_at| Then::Delayed { due_at, why: Delay::RateLimit };
            let then = again.unwrap_or_else(|| wait.map_or(Then::Queued, delayed));
            within_tries(grip, Counts::Try, then, now)
        }
        Outcome::Lost => loss(grip, again.unwrap_or(Then::Queued), now),
        Outcome::TimedOut { .. } if grip.held.mode == Mode::Solo => {
            continuation(grip, again.unwrap_or(Then::Queued), now)
        }
        Outcome::TimedOut { deadline } => fault(grip, &code(deadline.timeout()), None, now),
        Outcome::EndedWithoutResult => continuation(grip, again.unwrap_or(Then::Queued), now),
        Outcome::Cancelled | Outcome::Failed { fault: Fault::Forced, .. } => {
            (Counts::Try, Then::Finished { finish: Finish::Cancelled, result: None })
        }
    }
}

/// Whether the task that the block waits for was done while death was awaited: nobody would tell
/// the run again.
fn was_met_meanwhile(grip: &Grip<'_>, block: &Block) -> bool {
    matches!((&grip.held.phase, &block.why),
        (Phase::Stopping { .. }, Why::Dependency { on }) if !grip.flow.waits_for.contains_key(on))
}

fn parked_again(block: &Block) -> Then {
    Then::Blocked { block: block.clone(), again: true }
}

/// The agent's fault: try again after a pause, until there were enough of them.
pub(super) fn fault(
    grip: &Grip<'_>,
    code: &Code,
    result: Option<RunResult>,
    now: Timestamp,
) -> (Counts, Then) {
    let faults = grip.run.tally.faults.saturating_add(1);
    if faults >= grip.flow.policy.attempts_max {
        let finish = Finish::Failed { code: code.clone() };
        return (Counts::Fault, Then::Finished { finish, result });
    }
    // Rejected work is taken up again at once: the evidence is the pause.
    let then = if result.is_some() { Then::Queued } else { back_off(grip, faults, now) };
    within_tries(grip, Counts::Fault, then, now)
}

fn back_off(grip: &Grip<'_>, failures: u8, now: Timestamp) -> Then {
    let pause = grip.flow.policy.pause(grip.flow.id, grip.held.attempt, failures);
    Then::Delayed { due_at: now + pause, why: Delay::Backoff }
}

fn loss(grip: &Grip<'_>, then: Then, now: Timestamp) -> (Counts, Then) {
    if grip.run.tally.losses.saturating_add(1) >= grip.flow.policy.losses_max {
        return (Counts::Loss, limit(grip, Cap::Losses, &then, now));
    }
    within_tries(grip, Counts::Loss, then, now)
}

fn continuation(grip: &Grip<'_>, then: Then, now: Timestamp) -> (Counts, Then) {
    let (tally, policy) = (&grip.run.tally, &grip.flow.policy);
    // Nobody watches a solo agent's work, so it is believed to have moved.
    let stalled = grip.held.mode == Mode::Supervised && !grip.held.moved;
    let counts = if stalled { Counts::Stall } else { Counts::Continuation };
    if stalled && tally.stalls.saturating_add(1) >= policy.stalls_max {
        return (counts, limit(grip, Cap::Stalls, &then, now));
    }
    if tally.continuations >= policy.continuations_max {
        return (counts, limit(grip, Cap::Continuations, &then, now));
    }
    within_tries(grip, counts, then, now)
}

pub(super) fn within_tries(
    grip: &Grip<'_>,
    counts: Counts,
    then: Then,
    now: Timestamp,
) -> (Counts, Then) {
    if grip.run.tally.tries.saturating_add(1) >= grip.flow.policy.tries_max {
        return (counts, limit(grip, Cap::Tries, &then, now));
    }
    (counts, then)
}

/// Parks the run at a cap, instead of what would have become of it; a submission that is still to be
/// verified is parked with it.
pub(super) fn limit(grip: &Grip<'_>, cap: Cap, instead: &Then, now: Timestamp) -> Then {
    let submission = grip.held.submission.filter(|_| *instead == Then::Submitted);
    let block = Block { submission, ..Block::new(Why::Limit { cap }, now) };
    Then::Blocked { block: with_recurrence(grip, &block), again: false }
}

/// The same kind of block that came back too often is for a person alone; picking one up clears it.
pub(super) fn with_recurrence(grip: &Grip<'_>, block: &Block) -> Block {
    let kind = block.why.kind();
    let mut seen = grip.flow.recurrence.get(&kind).copied().unwrap_or_default();
    seen.cleared |= grip.held.picked.as_ref().is_some_and(|picked| picked.why.kind() == kind);
    Block { sticky: seen.raised_again().count >= RECURRENCE_MAX, ..block.clone() }
}

/// What it means that something took too long; a question that nobody answered parks the run.
pub(super) fn overrun(deadline: Deadline, now: Timestamp) -> Outcome {
    if deadline != Deadline::UserInput {
        return Outcome::TimedOut { deadline };
    }
    Outcome::Blocked { block: Block::new(Why::NeedsInput, now), answered: false }
}

/// A code that the rules themselves give.
pub(super) fn code(word: &'static str) -> Code {
    Code::new("code", word).expect("the rules' own codes are short words")
}
