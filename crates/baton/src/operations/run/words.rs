//! The words of question, answer and block: the row of a task has only the versions of the entries
//! that hold them.

use baton_domain::event::{Event, Requeue};
use baton_domain::run::{Block, BlockKind, Idle, Outcome, Phase, Run, RunState};
use baton_domain::task::Flow;
use baton_domain::text::{Line, Message, Reason};
use baton_domain::time::Timestamp;
use baton_store::Entry;

use crate::call::Call;
use crate::operations::heard::Heard;
use crate::problem::Problem;
use crate::shape::When;
use crate::views::{QuestionView, RunView};

/// Puts the words into the view of the live run.
pub async fn fill(call: &Call, flow: &Flow, view: &mut RunView) -> Result<(), Problem> {
    let Some(run) = flow.run.as_ref().filter(|run| run.number == view.id.number) else {
        return Ok(());
    };
    let block = parked(run);
    let raised = block.map(|block| block.raised);
    let given = run.answer.map(|answer| answer.given);
    let asks = view.question.is_some()
        || block.is_some_and(|block| block.why.kind() == BlockKind::NeedsInput);
    let talk = run.trail.talk.last.iter().copied().filter(|_| asks);
    let versions = talk.chain(raised).chain(given).collect();
    let said = Heard::at(call, flow.id, versions).await?;
    if let (Some(given), Some(shown)) = (given, &mut view.answer)
        && let Some((entry, text, unblock)) = said.of(given).rev().find_map(word_of_a_person)
    {
        shown.text = Some(text);
        shown.unblock = unblock;
        shown.by = Some(entry.actor.principal.clone());
        shown.at = Some(When(entry.at));
    }
    let asked = said.last(asked);
    if let (Some((text, _)), Some(shown)) = (&asked, &mut view.question) {
        shown.text = Some(text.clone());
    }
    if let (Some(block), Some(shown)) = (block, &mut view.block) {
        (shown.reason, shown.condition) = why(&said, block);
        // A question that nobody answered in time is parked without a word of its own.
        if shown.reason.is_none() && shown.kind == BlockKind::NeedsInput {
            let question = |(text, at)| QuestionView { asked_at: When(at), text: Some(text) };
            view.question = asked.map(question);
        }
    }
    Ok(())
}

/// Why a run is parked, or was when its holder picked it up, or will be once its holder is dead.
pub fn parked(run: &Run) -> Option<&Block> {
    match &run.state {
        RunState::Idle(Idle::Blocked(block)) => Some(block),
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_)) => None,
        RunState::Held(held) => match &held.phase {
            Phase::Stopping { verdict: Outcome::Blocked { block, .. }, .. } => Some(block),
            Phase::Leased
            | Phase::Working
            | Phase::WaitingInput(_)
            | Phase::Verifying { .. }
            | Phase::Stopping { .. } => held.picked.as_ref(),
        },
    }
}

/// The words of whoever parked the run, and the command that tells when the block is gone.
pub fn why(said: &Heard, block: &Block) -> (Option<Reason>, Option<Line>) {
    let words = said.of(block.raised).rev().find_map(|(_, event)| {
        let (Event::Stopping { reason, condition, .. }
        | Event::AttemptEnded { reason, condition, .. }) = event
        else {
            return None;
        };
        Some((reason.clone(), condition.clone()))
    });
    words.unwrap_or_default()
}

/// An answer, or why a run may go on; the latter is told as true.
pub fn word_of_a_person<'a>(
    (entry, event): (&'a Entry, &Event),
) -> Option<(&'a Entry, Message, bool)> {
    if let Event::Answered { answer } = event {
        return Some((entry, answer.clone(), false));
    }
    let Event::Requeued { why: Requeue::Unblocked, reason: Some(reason) } = event else {
        return None;
    };
    let text = Message::new("answer", reason.as_str()).ok()?;
    Some((entry, text, true))
}

fn asked(entry: &Entry, event: &Event) -> Option<(Message, Timestamp)> {
    let Event::Asked { question } = event else { return None };
    Some((question.clone(), entry.at))
}
