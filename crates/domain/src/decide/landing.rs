//! Stages that Baton itself works: what it finds there, what the train brought home, and how work goes back to
//! somebody who can put it right.

use crate::command::Merged;
use crate::contract::{Finding, Receipt};
use crate::event::{Event, Opened, Then};
use crate::limits::{LINEAGE_MAX, LINES_MAX};
use crate::refusal::Refusal;
use crate::run::{Cap, Counts, Delay, Finish, Outcome, Purpose, RunResult};
use crate::scene::{Decision, Scene};
use crate::time::Timestamp;

use super::Grip;
use super::ending::{Sentence, code, finish_attempt, limit, within_tries};
use super::wake::wake;

/// Whether the run is one that Baton or the train works: whoever holds it has no agent, and nobody submitted it.
pub(super) fn is_batons(grip: &Grip<'_>) -> bool {
    match grip.held.purpose {
        Purpose::Merge => true,
        Purpose::Verify => grip.held.submission.is_none(),
        Purpose::Work | Purpose::Probe => false,
    }
}

/// What a run is again that nobody could check.
pub(super) fn unchecked(grip: &Grip<'_>) -> Then {
    if is_batons(grip) { Then::Queued } else { Then::Submitted }
}

/// What Baton found is not good enough: it goes back, until that has happened too often in a row.
pub(super) fn unfit(grip: &Grip<'_>, word: &'static str, now: Timestamp) -> (Counts, Then) {
    let (flow, run) = (grip.flow, grip.run);
    let before = flow.setbacks.get(&run.stage).copied().unwrap_or_default();
    if before.saturating_add(1) >= flow.policy.setbacks_max || run.depth >= LINEAGE_MAX {
        return (Counts::Fault, limit(grip, Cap::Setbacks, &Then::Queued, now));
    }
    let finish = Finish::Failed { code: code(word) };
    (Counts::Fault, Then::Finished { finish, result: Some(RunResult::Rejected) })
}

/// Opens a run where somebody can put it right; it follows the one that failed, and is handed its evidence.
pub(super) fn set_back(scene: &Scene<'_>, grip: &Grip<'_>, decision: &mut Decision) {
    let (flow, run) = (grip.flow, grip.run);
    let Some(to) = scene.project.repairs(&run.stage) else { return wake(flow, false, decision) };
    let first = scene.project.first().is_some_and(|spec| spec.name == to.name);
    let opened = Opened {
        number: flow.runs + 1,
        stage: to.name.clone(),
        previous: Some(run.number),
        depth: run.depth + 1,
        due_at: None,
        worked_by: to.worked_by,
    };
    let (from, doubted) = (run.stage.clone(), flow.doubted && !first);
    decision.events.push(Event::SetBack { from, run: opened, doubted });
}

/// What became of a car of the train.
pub(super) fn merged(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    merged: &Merged,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if grip.held.purpose != Purpose::Merge {
        return Err(Refusal::NotForYou { why: "this attempt is no car of the train" });
    }
    match merged {
        Merged::Landed { commit, onto, receipts } => {
            let result = proved(receipts)?;
            let then = Then::Finished { finish: Finish::Completed, result: Some(result) };
            let sentence = Sentence::new(Outcome::Completed { result }, None);
            let mut decision = finish_attempt(scene, grip, sentence, None, (Counts::Nothing, then));
            let landed = Event::Merged { commit: commit.clone(), onto: onto.clone() };
            decision
                .events
                .splice(0..0, [checked(receipts, true), Some(landed)].into_iter().flatten());
            Ok(decision)
        }
        Merged::Unfit { kind, reason, receipts } => {
            bounded(receipts)?;
            let result = RunResult::Rejected;
            let sentence = Sentence::new(Outcome::Completed { result }, Some(reason.clone()));
            let then = unfit(grip, kind.code(), now);
            let mut decision = finish_attempt(scene, grip, sentence, None, then);
            decision.events.splice(0..0, checked(receipts, false));
            Ok(decision)
        }
        Merged::Waits { reason } => {
            let tries = u8::try_from(grip.run.tally.tries.saturating_add(1)).unwrap_or(u8::MAX);
            let pause = grip.flow.policy.pause(grip.flow.id, grip.held.attempt, tries);
            let then = Then::Delayed { due_at: now + pause, why: Delay::Target };
            let then = within_tries(grip, Counts::Try, then, now);
            let outcome = Outcome::Released { until: None };
            let sentence = Sentence::new(outcome, Some(reason.clone()));
            Ok(finish_attempt(scene, grip, sentence, None, then))
        }
    }
}

/// What a car is asked for is to be on the target branch, and that gates which there are hold there. What the
/// work itself was asked for was checked before, and is doubted still if it was not.
fn proved(receipts: &[Receipt]) -> Result<RunResult, Refusal> {
    bounded(receipts)?;
    let holds = |one: &Receipt| matches!(one.finding, Finding::Holds { .. });
    let all = receipts.iter().all(holds);
    Ok(if all { RunResult::Verified } else { RunResult::Unverified })
}

fn bounded(receipts: &[Receipt]) -> Result<(), Refusal> {
    if receipts.len() > LINES_MAX {
        return Err(Refusal::too_many("receipts", LINES_MAX));
    }
    // A waiver is a person's word, and nobody else's.
    let waives = |one: &Receipt| matches!(one.finding, Finding::Waived { .. });
    if receipts.iter().any(waives) { Err(Refusal::PersonNeeded) } else { Ok(()) }
}

fn checked(receipts: &[Receipt], passed: bool) -> Option<Event> {
    let some = !receipts.is_empty();
    let (review, guarded) = (false, vec![]);
    some.then(|| Event::Verified {
        receipts: receipts.to_vec(),
        passed,
        commit: None,
        review,
        guarded,
    })
}
