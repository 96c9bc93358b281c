//! What people read about supervision is what is done.

use baton_domain::deadline::{Deadline, allowed};
use baton_domain::limits::BACKSTOP;
use baton_domain::policy::Policy;
use baton_domain::run::Cap;

use super::SECOND;
use crate::shape::choices::Word as _;
use crate::worker::course::watch::{BUSY_EVERY_MS, LOOK_MS, USAGE_EVERY_MS};
use crate::worker::course::{NUDGES_MAX, PREPARE_MS_MAX};

const GUIDE: &str = include_str!("../../../../../../docs/guides/supervision.md");

const DEADLINES: [Deadline; 9] = [
    Deadline::ProcessStart,
    Deadline::PromptWrite,
    Deadline::FirstEvent,
    Deadline::FirstVisibleEvent,
    Deadline::StreamIdle,
    Deadline::ToolIdle,
    Deadline::UserInput,
    Deadline::Cleanup,
    Deadline::WallClock,
];

fn check(part: &str) {
    assert!(GUIDE.contains(part), "the guide says `{part}`");
}

#[test]
fn the_guide_tells_every_deadline_and_cap_as_it_is() {
    let policy = Policy::default();
    for deadline in DEADLINES {
        let seconds = allowed(deadline, &policy).0 / SECOND;
        check(&format!("| `{}` | {seconds} s |", deadline.word()));
    }
    check(&format!("| turns | {} | `{}` |", policy.turns_max, Cap::Turns.knob()));
    check(&format!("| tool_calls | {} | `{}` |", policy.tool_calls_max, Cap::ToolCalls.knob()));
    let tokens =
        format!("| tokens, cached ones aside | {} | `{}` |", policy.tokens_max, Cap::Tokens.knob());
    check(&tokens);
    check(&format!("the server waits {} s longer", BACKSTOP.0 / SECOND));
    check(&format!("making the place may take {} min", PREPARE_MS_MAX / (60 * SECOND)));
    check(&format!("looked at every {} s", BUSY_EVERY_MS / SECOND));
    check(&format!("for {} s before it calls them hung", LOOK_MS / SECOND));
    check(&format!("told every {} s", USAGE_EVERY_MS / SECOND));
    assert_eq!(NUDGES_MAX, 2, "the guide says that it is asked twice at most");
}
