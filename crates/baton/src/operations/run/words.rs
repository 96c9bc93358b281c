//! The words of question, answer and block: the row of a task has only the version of the entry
//! that holds them.

use baton_domain::event::Event;
use baton_domain::run::{BlockKind, Idle, Outcome, Phase, RunState};
use baton_domain::task::Flow;
use baton_domain::text::Message;
use baton_domain::time::Timestamp;
use baton_store::Entry;

use crate::call::Call;
use crate::operations::recent::Recent;
use crate::problem::Problem;
use crate::shape::When;
use crate::views::{QuestionView, RunView};

/// Puts the words into the view of the live run.
pub async fn fill(call: &Call, flow: &Flow, view: &mut RunView) -> Result<(), Problem> {
    let Some(run) = flow.run.as_ref().filter(|run| run.number == view.id.number) else {
        return Ok(());
    };
    if let (Some(answer), Some(shown)) = (run.answer, &mut view.answer) {
        let entry = Recent::at(call, flow.id, answer.given).await?;
        let words = entry.last(|entry, event| {
            let Event::Answered { answer } = event else { return None };
            Some((answer.clone(), entry.actor.clone(), entry.at))
        });
        if let Some((text, actor, at)) = words {
            shown.text = Some(text);
            shown.by = Some(actor.principal);
            shown.at = Some(When(at));
        }
    }
    let (block, question) = match &run.state {
        RunState::Idle(Idle::Blocked(block)) => (Some(block), None),
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_)) => (None, None),
        RunState::Held(held) => match &held.phase {
            Phase::WaitingInput(question) => (held.picked.as_ref(), Some(question)),
            Phase::Stopping { verdict: Outcome::Blocked { block, .. }, .. } => (Some(block), None),
            Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. } => {
                (held.picked.as_ref(), None)
            }
        },
    };
    if let (Some(question), Some(shown)) = (question, &mut view.question) {
        shown.text = Recent::at(call, flow.id, question.raised).await?.last(asked).map(|it| it.0);
    }
    if let (Some(block), Some(shown)) = (block, &mut view.block) {
        let entry = Recent::at(call, flow.id, block.raised).await?;
        let words = entry.last(|_, event| {
            let (Event::Stopping { reason, condition, .. }
            | Event::AttemptEnded { reason, condition, .. }) = event
            else {
                return None;
            };
            Some((reason.clone(), condition.clone()))
        });
        (shown.reason, shown.condition) = words.unwrap_or_default();
        // A question that nobody answered in time is parked without a word of its own.
        if shown.reason.is_none() && block.why.kind() == BlockKind::NeedsInput {
            view.question = unanswered(call, flow).await?;
        }
    }
    Ok(())
}

async fn unanswered(call: &Call, flow: &Flow) -> Result<Option<QuestionView>, Problem> {
    let last = Recent::of(call, flow).await?.last(asked);
    Ok(last.map(|(text, at)| QuestionView { asked_at: When(at), text: Some(text) }))
}

fn asked(entry: &Entry, event: &Event) -> Option<(Message, Timestamp)> {
    let Event::Asked { question } = event else { return None };
    Some((question.clone(), entry.at))
}
