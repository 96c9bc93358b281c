//! Who is told that a task is finished or stuck.

use crate::event::Event;
use crate::reaction::{Cause, Reaction};
use crate::run::{Fault, Outcome};
use crate::scene::Decision;
use crate::task::Flow;

/// Tells the task whose agent made this one.
pub(super) fn wake(flow: &Flow, ended: bool, decision: &mut Decision) {
    let Some(to) = flow.creator_task else { return };
    let by = decision.events.iter().any(is_own_word).then(|| flow.run.as_ref()?.held());
    let by = by.flatten().map(|held| held.holder.clone());
    decision.reactions.push(Reaction { to, from: flow.id, cause: Cause::Wake { ended, by } });
}

/// Whether an attempt ended as its agent said, and not because somebody or time ended it.
fn is_own_word(event: &Event) -> bool {
    let Event::AttemptEnded { outcome, .. } = event else { return false };
    match outcome {
        Outcome::Completed { .. }
        | Outcome::Failed { fault: Fault::Agent, .. }
        | Outcome::Blocked { .. } => true,
        Outcome::Failed { fault: Fault::Infrastructure | Fault::Forced, .. }
        | Outcome::Released { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::Cancelled
        | Outcome::EndedWithoutResult => false,
    }
}
