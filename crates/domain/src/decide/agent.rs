//! What the agent of an attempt may say.

use crate::command::{Agent, Note, Report};
use crate::contract::Submission;
use crate::event::Event;
use crate::limits::{
    CHECKPOINTS_MAX, EVIDENCE_MAX, ITEMS_MAX, LATE_ATTEMPTS_MAX, PARKED_MAX, PROGRESS_MAX,
};
use crate::refusal::Refusal;
use crate::run::{Block, Fault, Mark, Mode, Outcome, Phase, Progress, Purpose, RunResult, Why};
use crate::scene::{Decision, LeaseChange, Scene};
use crate::task::Flow;
use crate::text::{Line, Reason, Summary};
use crate::time::Timestamp;

use super::ending::{Sentence, conclude, finish_attempt};
use super::{Grip, graph};
use crate::event::Then;
use crate::run::Counts;

pub(super) fn decide(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    says: &Agent,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    match grip.held.purpose {
        Purpose::Work | Purpose::Merge => {}
        Purpose::Verify | Purpose::Probe => {
            return Err(Refusal::NotForYou { why: "this attempt only verifies or probes" });
        }
    }
    speaks(grip, says)?;
    match says {
        Agent::Begin
        | Agent::Progress(_)
        | Agent::Checkpoint(_)
        | Agent::Ask(_)
        | Agent::Receive(_)
        | Agent::Withdraw => grip.held.may_say_more(now)?,
        Agent::Block { .. } | Agent::Fail { .. } | Agent::Complete { .. } => {}
    }
    let mut decision = match says {
        Agent::Begin => Decision::default(),
        Agent::Progress(report) => progress(grip, report)?,
        Agent::Checkpoint(note) => checkpoint(grip, note, false)?,
        Agent::Ask(question) => Decision::of(vec![Event::Asked { question: question.clone() }]),
        Agent::Receive(mark) => receive(grip, *mark),
        Agent::Withdraw => match grip.held.phase {
            Phase::WaitingInput(_) => Decision::of(vec![Event::Withdrawn]),
            Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. } => {
                receive(grip, Mark::Applied)
            }
        },
        Agent::Block { why, reason, condition } => {
            block(scene, grip, why, (reason, condition.as_ref()), now)?
        }
        Agent::Fail { code, reason } => {
            let outcome = Outcome::Failed { code: code.clone(), fault: Fault::Agent };
            conclude(scene, grip, Sentence::new(outcome, Some(reason.clone())), now)
        }
        Agent::Complete { summary, submission } => {
            complete(scene, grip, summary.as_ref(), submission, now)?
        }
    };
    if grip.held.phase == Phase::Leased {
        decision.events.insert(0, Event::Began);
    }
    // Every accepted call of a solo agent shows that it lives.
    if grip.held.mode == Mode::Solo && decision.lease.is_none() {
        let length = grip.lease.length;
        decision.lease = Some(LeaseChange::Renew { expires_at: now + length, length });
    }
    Ok(decision)
}

/// An agent that has submitted, or is being stopped, has had its word; it may still leave notes.
fn speaks(grip: &Grip<'_>, says: &Agent) -> Result<(), Refusal> {
    let state = grip.held.phase.word();
    match (&grip.held.phase, says) {
        (Phase::Leased | Phase::Working, _) => Ok(()),
        (Phase::WaitingInput(_), Agent::Ask(_)) => Err(Refusal::WrongState { state }),
        (Phase::WaitingInput(_), _) => Ok(()),
        (Phase::Verifying { .. }, Agent::Begin | Agent::Receive(_) | Agent::Withdraw) => Ok(()),
        (Phase::Verifying { .. } | Phase::Stopping { .. }, Agent::Checkpoint(_)) => Ok(()),
        (Phase::Verifying { .. } | Phase::Stopping { .. }, _) => Err(Refusal::WrongState { state }),
    }
}

fn receive(grip: &Grip<'_>, mark: Mark) -> Decision {
    match grip.run.answer {
        Some(answer) if answer.mark < mark => Decision::of(vec![Event::AnswerMarked { mark }]),
        Some(_) | None => Decision::default(),
    }
}

fn progress(grip: &Grip<'_>, report: &Report) -> Result<Decision, Refusal> {
    let items = report.done.len() + report.failed.len();
    if items > ITEMS_MAX {
        return Err(Refusal::too_many("items", ITEMS_MAX));
    }
    let Progress { done, failed } = grip.run.progress;
    if items > 0 && done.saturating_add(failed) >= PROGRESS_MAX {
        let rule = format!("of one run must not be more than {PROGRESS_MAX}");
        return Err(Refusal::Invalid { field: "items".into(), rule });
    }
    if *report == Report::default() {
        let rule = "must say something: a summary, a cursor or items";
        return Err(Refusal::Invalid { field: "progress".into(), rule: rule.into() });
    }
    Ok(Decision::of(vec![Event::Progressed { report: report.clone() }]))
}

pub(super) fn checkpoint(
    grip: &Grip<'_>,
    note: &Note,
    snapshot: bool,
) -> Result<Decision, Refusal> {
    if note.evidence.len() > EVIDENCE_MAX {
        return Err(Refusal::too_many("evidence", EVIDENCE_MAX));
    }
    if note.git.len() > EVIDENCE_MAX {
        return Err(Refusal::too_many("git", EVIDENCE_MAX));
    }
    if grip.run.checkpoints >= CHECKPOINTS_MAX {
        let rule = format!("of one run must not be more than {CHECKPOINTS_MAX}");
        return Err(Refusal::Invalid { field: "checkpoints".into(), rule });
    }
    let (number, note) = (grip.flow.checkpoints + 1, Box::new(note.clone()));
    Ok(Decision::of(vec![Event::Checkpointed { number, note, of: None, snapshot }]))
}

/// What the supervisor of an attempt kept that is over; none if that is too long ago, or too much.
pub(super) fn late(flow: &Flow, attempt: u32, note: &Note) -> Option<Decision> {
    let recent = attempt.saturating_add(LATE_ATTEMPTS_MAX) > flow.attempts;
    let small = note.evidence.len() <= EVIDENCE_MAX && note.git.len() <= EVIDENCE_MAX;
    let (number, of) = (flow.checkpoints + 1, Some(attempt));
    let event = Event::Checkpointed { number, note: Box::new(note.clone()), of, snapshot: true };
    (recent && small && number <= CHECKPOINTS_MAX).then(|| Decision::of(vec![event]))
}

fn block(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    why: &Why,
    (reason, condition): (&Reason, Option<&Line>),
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let refuse =
        |field: &str, rule: &str| Err(Refusal::Invalid { field: field.into(), rule: rule.into() });
    let mut edge = None;
    match why {
        Why::NeedsInput | Why::Capability { .. } => {}
        Why::Transient { until } if *until <= now || *until > now + PARKED_MAX => {
            return refuse("until", "must be in the future, at most 30 days away");
        }
        Why::Transient { .. } => {}
        Why::Dependency { on } => {
            if !scene.around.dependencies.contains(on) {
                let met = graph::check_edge(
                    scene.around,
                    &grip.flow.project,
                    (grip.flow.id, &grip.flow.ancestors),
                    *on,
                )?;
                let declared = scene.around.dependencies.iter().chain([on]);
                graph::check_count(&declared.copied().collect())?;
                edge = Some(Event::DependencyAdded { on: *on, met });
            }
            if !edge.as_ref().map_or_else(|| grip.flow.waits_for.contains_key(on), is_open) {
                return refuse("on", "is done already: there is nothing to wait for");
            }
        }
        Why::Limit { .. } => return refuse("why", "limit is raised by the rules alone"),
    }
    let block = Block { condition: condition.is_some(), ..Block::new(why.clone(), now) };
    let sentence = Sentence {
        outcome: Outcome::Blocked { block, answered: false },
        reason: Some(reason.clone()),
        condition: condition.cloned(),
    };
    let mut decision = conclude(scene, grip, sentence, now);
    decision.events.splice(0..0, edge);
    Ok(decision)
}

fn is_open(edge: &Event) -> bool {
    matches!(edge, Event::DependencyAdded { met: false, .. })
}

/// The agent's word is never a gate: with lines to check, the run is only submitted.
fn complete(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    summary: Option<&Summary>,
    submission: &Submission,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    submission.check()?;
    let submitted = Event::Submitted { summary: summary.cloned(), submission: submission.clone() };
    let done = Outcome::Completed { result: RunResult::Unverified };
    let Some(mark) = &grip.flow.contract else {
        let mut decision = conclude(scene, grip, Sentence::new(done, None), now);
        if summary.is_some() || *submission != Submission::default() {
            decision.events.insert(0, submitted);
        }
        return Ok(decision);
    };
    if submission.contract.as_ref().is_some_and(|hash| *hash != mark.hash) {
        return Err(Refusal::ContractChanged);
    }
    let brief = scene.task.and_then(|task| task.brief.as_ref());
    let missing = brief.map(|brief| brief.contract.missing(submission)).unwrap_or_default();
    if !missing.is_empty() {
        return Err(Refusal::Incomplete { missing });
    }
    if grip.held.mode == Mode::Supervised {
        return Ok(Decision::of(vec![submitted]));
    }
    let sentence = Sentence::new(done, None);
    let then = (Counts::Try, Then::Submitted);
    let mut decision = finish_attempt(scene, grip, sentence, None, then);
    decision.events.insert(0, submitted);
    Ok(decision)
}
