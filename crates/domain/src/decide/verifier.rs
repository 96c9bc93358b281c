//! What becomes of a submission once its lines were checked.

use std::collections::BTreeSet;

use crate::command::Verdict;
use crate::contract::{Finding, Receipt};
use crate::event::{Event, Then};
use crate::ids::LineId;
use crate::limits::{GUARDED_MAX, LINES_MAX, ROUNDS_MAX};
use crate::refusal::Refusal;
use crate::run::{Counts, Fault, Finish, Outcome, Phase, Purpose, RunResult};
use crate::scene::{Decision, Scene};
use crate::time::Timestamp;

use super::ending::{Sentence, code, conclude, fault, finish_attempt};
use super::{Grip, landing};

pub(super) fn decide(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Phase::Verifying { exited } = grip.held.phase else {
        return Err(Refusal::WrongState { state: grip.held.phase.word() });
    };
    if verdict.receipts.len() > LINES_MAX {
        return Err(Refusal::too_many("receipts", LINES_MAX));
    }
    if verdict.guarded.len() > GUARDED_MAX {
        return Err(Refusal::too_many("guarded", GUARDED_MAX));
    }
    // A waiver is a person's word, and no verifier's.
    let waives = |receipt: &Receipt| matches!(receipt.finding, Finding::Waived { .. });
    if verdict.receipts.iter().any(waives) {
        return Err(Refusal::PersonNeeded);
    }
    let brief = scene.task.and_then(|task| task.brief.as_ref()).ok_or(Refusal::NotFound)?;
    // What only a reviewer can say is not the verifier's to say.
    let words: BTreeSet<&LineId> = brief.contract.reviewed().collect();
    let failing = brief.contract.failing(&verdict.receipts);
    let passed = failing.iter().all(|line| words.contains(line));
    // What a stage that Baton works is about was reviewed before it came there.
    let asks = !words.is_empty() || !verdict.guarded.is_empty();
    let review = passed && asks && !landing::is_batons(grip);
    // Whoever empties the contract meanwhile lets the run pass, but nothing was proved.
    let nothing = brief.contract.lines.is_empty();
    let proved = if nothing { RunResult::Unverified } else { RunResult::Verified };
    let verified = Event::Verified {
        receipts: verdict.receipts.clone(),
        passed,
        commit: verdict.commit.clone(),
        review,
        guarded: verdict.guarded.clone(),
    };
    let mut decision = match (grip.held.purpose, passed) {
        (Purpose::Verify, true) if review => {
            let sentence =
                Sentence::new(Outcome::Completed { result: RunResult::Unverified }, None);
            finish_attempt(scene, grip, sentence, None, (Counts::Nothing, Then::Submitted))
        }
        // The agent is stopped; then the run waits for the reviewer.
        (_, true) if review => {
            let outcome = Outcome::Completed { result: RunResult::Unverified };
            conclude(scene, grip, Sentence::new(outcome, None), now)
        }
        (Purpose::Verify, true) => of_verifier(scene, grip, proved, now),
        (Purpose::Verify, false) => of_verifier(scene, grip, RunResult::Rejected, now),
        (_, true) => {
            let outcome = Outcome::Completed { result: proved };
            conclude(scene, grip, Sentence::new(outcome, None), now)
        }
        // The agent is gone: the next one goes on with the evidence.
        (_, false) if exited => {
            conclude(scene, grip, Sentence::new(Outcome::EndedWithoutResult, None), now)
        }
        (_, false) if grip.held.rounds + 1 >= ROUNDS_MAX => {
            let outcome = Outcome::Failed { code: code("gates_failed"), fault: Fault::Agent };
            conclude(scene, grip, Sentence::new(outcome, None), now)
        }
        (_, false) => Decision::default(),
    };
    decision.events.insert(0, verified);
    Ok(decision)
}

/// A verifier of its own: what fails is the fault of whoever submitted it.
fn of_verifier(scene: &Scene<'_>, grip: &Grip<'_>, result: RunResult, now: Timestamp) -> Decision {
    let then = match result {
        RunResult::Verified | RunResult::Unverified => {
            let finish = Finish::Completed;
            (Counts::Nothing, Then::Finished { finish, result: Some(result) })
        }
        RunResult::Rejected if landing::is_batons(grip) => {
            landing::unfit(grip, "gates_failed", now)
        }
        RunResult::Rejected => fault(grip, &code("gates_failed"), Some(result), now),
    };
    let sentence = Sentence::new(Outcome::Completed { result }, None);
    finish_attempt(scene, grip, sentence, None, then)
}
