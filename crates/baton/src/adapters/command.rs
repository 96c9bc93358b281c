//! Any command line. Nothing is known of what it prints, so all of it is speech; it is told what to
//! do by its standard input, and it ends by its exit.

use serde_json::Value;

use super::seen::{End, Exit, Seen};
use super::turn::{Misfit, Plan, Turn};
use super::{Adapter, failure};

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let mut stdin = turn.prompt.as_bytes().to_vec();
    if !stdin.is_empty() {
        stdin.push(b'\n');
    }
    Ok(Plan { argv: turn.argv(&[]), stdin, closes_stdin: true, ..Plan::default() })
}

/// Nothing is known of it.
pub(super) struct Opaque;

impl Adapter for Opaque {
    fn is_opaque(&self) -> bool {
        true
    }

    fn event(&mut self, _event: &Value, _seen: &mut Vec<Seen>) {}

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        // The exit is the only way that it can say that its turn is over.
        seen.push(match exit {
            Exit::Code(0) => Seen::Ended { reason: End::Finished, error: None },
            Exit::Code(_) | Exit::Signal(_) => failure::gone(exit, last_words),
        });
    }
}
