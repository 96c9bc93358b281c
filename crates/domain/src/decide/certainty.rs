//! What is known of the effects of an attempt that is over.

use crate::run::{Certainty, Death, Fault, Held, Mode, Outcome, Phase};

/// What is known of the effects of an attempt that ended so.
pub(super) fn of(held: &Held, outcome: &Outcome, death: Option<Death>) -> Certainty {
    let begun = held.phase != Phase::Leased;
    match outcome {
        Outcome::Completed { .. } | Outcome::Blocked { .. } => Certainty::Executed,
        Outcome::Failed { fault: Fault::Agent | Fault::Forced, .. } => Certainty::Failed,
        // Whoever would have started it says that nothing was.
        Outcome::Released { .. }
        | Outcome::Cancelled
        | Outcome::Failed { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::EndedWithoutResult
            if death == Some(Death::NotStarted) && !held.effects =>
        {
            Certainty::NotStarted
        }
        Outcome::Released { .. } | Outcome::Cancelled if !begun => Certainty::NotStarted,
        Outcome::TimedOut { .. } | Outcome::Failed { .. }
            if !held.effects && held.mode == Mode::Supervised =>
        {
            Certainty::NotStarted
        }
        Outcome::Released { .. }
        | Outcome::Cancelled
        | Outcome::Failed { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::EndedWithoutResult => Certainty::Unknown,
    }
}
