//! The built-in agent that does what a file of steps says. What it prints is told here, once: it
//! writes these events, and they are read from what it wrote.

use baton_domain::time::Timestamp;
use serde_json::{Value, json};

use super::Adapter;
use super::failure::{self, Fault};
use super::fields::{count, name, text};
use super::seen::{End, Exit, Limit, Seen, Usage};
use super::turn::{Misfit, Plan, Turn};

/// The command that runs it.
pub const COMMAND: &str = "agent-script";
/// The account's window that its limits are of.
const WINDOW: &str = "script";

/// What the agent prints, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It begins, with this step.
    Started { step: usize },
    /// It says something.
    Said(String),
    /// It does something that takes a while.
    ToolStarted { id: usize, name: &'static str },
    /// It has done it.
    ToolEnded { id: usize },
    /// It read a file.
    Read(String),
    /// It spoke to Baton.
    Told(&'static str),
    /// It used this much.
    Used(Usage),
    /// Its account is limited until then.
    Limited { resets_at: Timestamp },
    /// It is through with its steps.
    Finished,
    /// It could not go on.
    Failed { code: String, detail: String },
}

impl Event {
    /// As it is printed.
    #[must_use]
    pub fn line(&self) -> Value {
        match self {
            Self::Started { step } => json!({ "type": "started", "step": step }),
            Self::Said(text) => json!({ "type": "said", "text": text }),
            Self::ToolStarted { id, name } => {
                json!({ "type": "tool_started", "id": id.to_string(), "name": name })
            }
            Self::ToolEnded { id } => json!({ "type": "tool_ended", "id": id.to_string() }),
            Self::Read(path) => json!({ "type": "read", "path": path }),
            Self::Told(what) => json!({ "type": "told", "what": what }),
            Self::Used(used) => json!({
                "type": "used", "input": used.input, "output": used.output,
                "cached": used.cached, "cost_micros": used.cost_micros,
            }),
            Self::Limited { resets_at } => json!({ "type": "limited", "resets_at": resets_at.0 }),
            Self::Finished => json!({ "type": "ended" }),
            Self::Failed { code, detail } => {
                json!({ "type": "ended", "error": { "code": code, "detail": detail } })
            }
        }
    }
}

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let argv = turn.argv(&[COMMAND]);
    Ok(Plan { argv, closes_stdin: true, ..Plan::default() })
}

/// What is known of a process.
#[derive(Default)]
pub(super) struct Script {
    resets_at: Option<Timestamp>,
    over: bool,
}

impl Adapter for Script {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        // Whatever comes after its end was not printed by the agent.
        if self.over {
            return;
        }
        match event["type"].as_str() {
            Some("started") => seen.push(Seen::Started),
            Some("said") => seen.push(Seen::Spoke { visible: true }),
            Some("told") => seen.push(Seen::Spoke { visible: false }),
            Some("tool_started") => {
                if let (Some(id), Some(name)) = (name(&event["id"]), name(&event["name"])) {
                    seen.push(Seen::ToolStarted { id, name });
                }
            }
            Some("tool_ended") => {
                seen.extend(name(&event["id"]).map(|id| Seen::ToolEnded { id }));
            }
            Some("read") => seen.extend(text(&event["path"]).map(Seen::Read)),
            Some("used") => seen.push(Seen::Used(Usage {
                input: count(&event["input"]),
                output: count(&event["output"]),
                cached: count(&event["cached"]),
                cost_micros: count(&event["cost_micros"]),
            })),
            Some("limited") => {
                let resets_at = event["resets_at"].as_i64().map(Timestamp);
                self.resets_at = self.resets_at.max(resets_at);
                seen.push(limit(false, resets_at));
            }
            Some("ended") => {
                let error = event.get("error").map(fault);
                let reason = if error.is_some() { End::Failed } else { End::Finished };
                if error.as_ref().is_some_and(|fault| fault.failure == &failure::RATE_LIMITED) {
                    seen.push(limit(true, self.resets_at));
                }
                self.over = true;
                seen.push(Seen::Ended { reason, error });
            }
            // It prints nothing else: what is there was forged, and shows nothing.
            Some(_) | None => {}
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if !self.over {
            seen.push(failure::gone(exit, last_words));
        }
    }
}

fn limit(hard: bool, resets_at: Option<Timestamp>) -> Seen {
    Seen::Limited(Limit { window: WINDOW.to_owned(), hard, resets_at })
}

fn fault(error: &Value) -> Fault {
    let known = failure::FAILURES.into_iter().find(|failure| error["code"] == failure.code);
    known.unwrap_or(&failure::CRASHED).with(error["detail"].as_str().unwrap_or_default())
}
