//! What can happen, in one word each.

use baton_domain::time::Timestamp;

use crate::adapters::{End, Fault, Limit, Seen, Usage};
use crate::shim::{Cause, Exit};
use crate::worker::course::Input;

pub(in super::super) fn spoke() -> Seen {
    Seen::Spoke { visible: true }
}

pub(in super::super) fn tool(id: &str) -> Seen {
    Seen::ToolStarted { id: id.to_owned(), name: "shell".to_owned() }
}

pub(in super::super) fn tool_ended(id: &str) -> Seen {
    Seen::ToolEnded { id: id.to_owned() }
}

pub(in super::super) fn finished() -> Seen {
    Seen::Ended { reason: End::Finished, error: None }
}

pub(in super::super) fn failed(fault: Fault) -> Seen {
    Seen::Ended { reason: End::Failed, error: Some(fault) }
}

pub(in super::super) fn used(input: u64, cost_micros: u64) -> Seen {
    Seen::Used(Usage { input, output: 10, cached: 0, cost_micros })
}

pub(in super::super) fn limit(hard: bool, resets_at: Option<i64>) -> Seen {
    Seen::Limited(Limit { window: "5h".to_owned(), hard, resets_at: resets_at.map(Timestamp) })
}

pub(in super::super) fn asked(id: &str) -> Seen {
    Seen::Asked { id: id.to_owned(), text: "Which of the two?".to_owned() }
}

pub(in super::super) fn exited(code: i32) -> Input {
    Input::Exited(Exit::Code(code))
}

pub(in super::super) fn fence() -> Input {
    Input::Ending(Cause::Fence)
}
