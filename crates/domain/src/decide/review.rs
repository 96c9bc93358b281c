//! What a reviewer says of what was submitted, once its commands have passed.

use crate::command::Review;
use crate::contract::Finding;
use crate::event::Event;
use crate::ids::LineId;
use crate::limits::{LINES_MAX, MISSING_MAX, REVIEWS_MAX};
use crate::refusal::{Missing, Refusal};
use crate::run::{Finish, Idle, RunResult, RunState};
use crate::scene::{Decision, Scene};
use crate::task::Flow;

use super::ending::{self, code};

pub(super) fn decide(scene: &Scene<'_>, flow: &Flow, said: &Review) -> Result<Decision, Refusal> {
    let wrong =
        |field: &str, rule: &str| Refusal::Invalid { field: field.into(), rule: rule.into() };
    if said.confidence > 100 {
        return Err(wrong("confidence", "must be 0 to 100"));
    }
    if said.missing.len() > MISSING_MAX {
        return Err(Refusal::too_many("missing", MISSING_MAX));
    }
    if said.receipts.len() > LINES_MAX {
        return Err(Refusal::too_many("receipts", LINES_MAX));
    }
    if said.approved && !said.missing.is_empty() {
        return Err(wrong("missing", "must be empty: what is approved misses nothing"));
    }
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    match &run.state {
        RunState::Idle(Idle::Submitted(mark)) if mark.review => {}
        RunState::Idle(_) | RunState::Held(_) => {
            return Err(Refusal::WrongState { state: run.word() });
        }
    }
    if run.author.as_ref() == Some(&said.by) {
        return Err(Refusal::NotForYou { why: "nobody reviews their own work" });
    }
    let told = Event::Reviewed { review: Box::new(said.clone()) };
    if said.approved { approved(scene, flow, said, told) } else { Ok(rejected(flow, told)) }
}

/// Every line that only a reviewer can answer must be answered.
fn approved(
    scene: &Scene<'_>,
    flow: &Flow,
    said: &Review,
    told: Event,
) -> Result<Decision, Refusal> {
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    let brief = scene.task.and_then(|task| task.brief.as_ref()).ok_or(Refusal::NotFound)?;
    let holds = |line: &&LineId| {
        let mut own = said.receipts.iter().filter(|one| one.line == **line).peekable();
        own.peek().is_some() && own.all(|one| matches!(one.finding, Finding::Holds { .. }))
    };
    let open = brief.contract.reviewed().filter(|line| !holds(line)).cloned();
    let missing: Vec<_> =
        open.map(|line| Missing { line, code: "line_open", path: String::new() }).collect();
    if !missing.is_empty() {
        return Err(Refusal::Incomplete { missing });
    }
    let (finish, result) = (Finish::Completed, Some(RunResult::Verified));
    let finished = Event::RunFinished { finish, reason: None, result };
    let mut decision = Decision::of(vec![told, finished]);
    ending::pass(scene, flow, &run.stage, flow.doubted, &mut decision);
    Ok(decision)
}

/// One fault of whoever submitted it; the next attempt is handed what is missing.
fn rejected(flow: &Flow, told: Event) -> Decision {
    let mut decision = Decision::of(vec![told]);
    let Some(run) = &flow.run else { return decision };
    let faults = run.tally.faults.saturating_add(1);
    if faults >= flow.policy.attempts_max || run.rejections.saturating_add(1) >= REVIEWS_MAX {
        let finish = Finish::Failed { code: code("review_rejected") };
        let result = Some(RunResult::Rejected);
        decision.events.push(Event::RunFinished { finish, reason: None, result });
        super::wake::wake(flow, false, &mut decision);
    }
    decision
}
