//! Codex, by `exec --json`: for where its app server cannot be used. It cannot ask, takes one turn,
//! and says of limits only what people read.

use serde_json::Value;

use super::Adapter;
use super::codex::{HOME, environment, settings};
use super::failure::{self, Failure, Fault};
use super::fields::{is_visible, name, text, usage};
use super::seen::{End, Exit, Limit, Seen, Usage};
use super::turn::{Consent, Misfit, Plan, Session, Turn};

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let sandbox = match turn.consent {
        Consent::Ask => "read-only",
        Consent::Edits => "workspace-write",
        Consent::All => "danger-full-access",
    };
    let settings = settings(turn);
    let mut own = vec!["exec", "--json", "--skip-git-repo-check", "-s", sandbox];
    own.extend(settings.iter().flat_map(|setting| ["-c", setting.as_str()]));
    let mut argv = turn.argv(&own);
    if let Session::Resumed { id, .. } = turn.session {
        argv.extend(["resume".to_owned(), id.to_owned()]);
    }
    // The prompt comes by its input, where nobody sees it in a list of processes.
    argv.push("-".to_owned());
    let stdin = turn.prompt.as_bytes().to_vec();
    let (environment, folders, closes_stdin) = (environment(turn), vec![HOME], true);
    Ok(Plan { argv, environment, folders, stdin, closes_stdin, ..Plan::default() })
}

/// What is known of a process.
pub(super) struct Exec {
    session: Option<String>,
    /// What the thread has used so far: it counts over all of its processes.
    total: Usage,
    /// What it said last that went wrong, without ending its turn by it.
    wrong: Option<String>,
    over: bool,
}

impl Exec {
    pub(super) fn new(turn: &Turn<'_>) -> Self {
        Self { session: None, total: turn.session.booked(), wrong: None, over: false }
    }

    fn end(&mut self, reason: End, error: Option<Fault>, seen: &mut Vec<Seen>) {
        if error.as_ref().is_some_and(|fault| fault.failure == &failure::RATE_LIMITED) {
            let window = "requests".to_owned();
            seen.push(Seen::Limited(Limit { window, hard: true, resets_at: None }));
        }
        self.over = true;
        seen.push(Seen::Ended { reason, error });
    }
}

impl Adapter for Exec {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        match event["type"].as_str() {
            Some("thread.started") => {
                if let Some(id) = name(&event["thread_id"]).filter(|_| self.session.is_none()) {
                    self.session = Some(id.clone());
                    seen.push(Seen::Session(id));
                }
            }
            Some("turn.started") => seen.push(Seen::Started),
            Some("item.started") => item(&event["item"], true, seen),
            Some("item.completed") => item(&event["item"], false, seen),
            Some("turn.completed") => {
                let names = ["input_tokens", "output_tokens", "cached_input_tokens"];
                let total = usage(&event["usage"], names);
                let used = total.beyond(self.total);
                self.total = total;
                if !used.is_nothing() {
                    seen.push(Seen::Used(used));
                }
                self.end(End::Finished, None, seen);
            }
            Some("turn.failed") => {
                let said = text(&event["error"]["message"]).or(self.wrong.take());
                let fault = fault(&said.unwrap_or_default());
                self.end(End::Failed, Some(fault), seen);
            }
            Some("error") => {
                let said = text(&event["message"]).unwrap_or_default();
                if said.starts_with("Reconnecting") {
                    seen.push(Seen::Retrying { status: status(&said) });
                }
                self.wrong = Some(said);
            }
            Some(_) => seen.push(Seen::Spoke { visible: false }),
            None => {}
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if self.over {
            return;
        }
        match (self.wrong.take(), exit) {
            (Some(said), Exit::Code(_)) => self.end(End::Failed, Some(fault(&said)), seen),
            (Some(_), Exit::Signal(_)) | (None, _) if last_words.contains("no rollout found") => {
                self.end(End::Failed, Some(failure::SESSION_LOST.with(last_words)), seen);
            }
            (Some(_), Exit::Signal(_)) | (None, _) => seen.push(failure::gone(exit, last_words)),
        }
    }
}

/// What an item of a turn shows.
fn item(item: &Value, begins: bool, seen: &mut Vec<Seen>) {
    match item["type"].as_str() {
        Some("agent_message") => seen.push(Seen::Spoke { visible: is_visible(&item["text"]) }),
        Some(
            kind @ ("command_execution" | "mcp_tool_call" | "file_change" | "web_search"
            | "collab_tool_call"),
        ) => {
            let Some(id) = name(&item["id"]) else { return };
            seen.push(if begins {
                let named = name(&item["tool"]).unwrap_or_else(|| kind.to_owned());
                Seen::ToolStarted { id, name: named }
            } else {
                Seen::ToolEnded { id }
            });
        }
        // An item that is an error may be a warning: only the turn says that it failed.
        Some(_) => seen.push(Seen::Spoke { visible: false }),
        None => {}
    }
}

/// The status of the provider that the words quote.
fn status(said: &str) -> Option<u16> {
    let numbers = said.split(|c: char| !c.is_ascii_digit()).filter(|word| word.len() == 3);
    let mut numbers = numbers.filter_map(|word| word.parse::<u16>().ok());
    numbers.find(|status| (400..600).contains(status))
}

/// It says what went wrong in words for people alone: those that have been seen are known.
fn fault(said: &str) -> Fault {
    let told = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let failure = if told(&["usage limit"]) {
        &failure::RATE_LIMITED
    } else if told(&["experiencing high demand"]) {
        &failure::PROVIDER_FAILED
    } else if told(&["error sending request", "stream disconnected"]) {
        &failure::PROVIDER_AWAY
    } else {
        status(said).map_or(&failure::CRASHED, Failure::of_status)
    };
    failure.with(said)
}
