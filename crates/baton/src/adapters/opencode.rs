//! opencode, by its stream. It cannot ask; whoever wants that drives it by the Agent Client
//! Protocol.

use serde_json::{Value, json};

use crate::surroundings::Hidden;

use super::Adapter;
use super::failure::{self, Failure, Fault};
use super::fields::{is_visible, micros, name, status, text, usage};
use super::seen::{End, Exit, Limit, Seen, Usage};
use super::turn::{Consent, Misfit, Plan, Session, Turn, variable};

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    // That it asks its provider again stands in its log alone.
    let mut own = vec!["run", "--format", "json", "--print-logs", "--log-level", "ERROR"];
    if turn.consent == Consent::All {
        own.push("--auto");
    }
    if let Session::Resumed { id, .. } = turn.session {
        own.extend(["-s", id]);
    }
    if let Some(model) = turn.model {
        own.extend(["-m", model]);
    }
    let argv = turn.argv(&own);
    // The prompt comes by its input, where nobody sees it in a list of processes.
    let stdin = turn.prompt.as_bytes().to_vec();
    Ok(Plan { argv, environment: environment(turn), stdin, closes_stdin: true, ..Plan::default() })
}

/// What it is set up with. It comes by a variable, and nothing comes from a repository.
pub(super) fn environment(turn: &Turn<'_>) -> Vec<(String, String)> {
    // What a repository tells agents is read; what it would have them run is not.
    let told = turn.folder.join("AGENTS.md").to_string_lossy().into_owned();
    let mut settings = json!({ "autoupdate": false, "share": "disabled", "instructions": [told] });
    let ask = match turn.consent {
        Consent::Ask => json!({ "bash": "ask", "edit": "ask", "webfetch": "ask" }),
        Consent::Edits => json!({ "bash": "ask", "edit": "allow", "webfetch": "ask" }),
        Consent::All => json!({ "bash": "allow", "edit": "allow", "webfetch": "allow" }),
    };
    settings["permission"] = ask;
    if let Some(tools) = turn.tools {
        let filled =
            |(name, _): &(String, Hidden)| (name.clone(), json!(format!("{{env:{name}}}")));
        let variables: serde_json::Map<_, _> = tools.variables.iter().map(filled).collect();
        let mut command = vec![tools.program.clone()];
        command.extend(tools.arguments.iter().cloned());
        settings["mcp"] = json!({ "baton": {
            "type": "local", "command": command, "environment": variables, "enabled": true,
        } });
    }
    let less = ["AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH", "PROJECT_CONFIG"];
    let mut variables: Vec<_> =
        less.iter().map(|less| variable(&format!("OPENCODE_DISABLE_{less}"), "1")).collect();
    // Those plugins that it can be told not to run; see what it heeds in spite of it.
    variables.push(variable("OPENCODE_PURE", "1"));
    variables.push(variable("OPENCODE_CONFIG_CONTENT", settings.to_string()));
    variables
}

/// What is known of a process.
#[derive(Default)]
pub(super) struct Opencode {
    session: Option<String>,
    started: bool,
    /// What ended the last step: its turn is over once it exits, as it says nothing of turns.
    last: Option<Last>,
}

enum Last {
    /// The model had nothing more to say, or this was the reason.
    Step(String),
    /// It went wrong.
    Wrong(Fault),
}

impl Adapter for Opencode {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        if let Some(id) = name(&event["sessionID"])
            && self.session.as_ref() != Some(&id)
        {
            self.session = Some(id.clone());
            seen.push(Seen::Session(id));
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("step_start") => {
                self.last = None;
                if !self.started {
                    self.started = true;
                    seen.push(Seen::Started);
                }
                // It is silent until a step is over, whatever is done in it: a step is as long as
                // its tools are.
                if let Some(id) = name(&part["messageID"]) {
                    seen.push(Seen::ToolStarted { id, name: "step".to_owned() });
                }
            }
            Some("text") => seen.push(Seen::Spoke { visible: is_visible(&part["text"]) }),
            Some("tool_use") => tool(part, seen),
            Some("step_finish") => {
                let names = ["input", "output", "cached"];
                let tokens = &part["tokens"];
                let cached = tokens["cache"]["read"].as_u64().unwrap_or(0);
                let plain = usage(tokens, names);
                let (input, cost_micros) =
                    (plain.input.saturating_add(cached), micros(&part["cost"]));
                let used = Usage { input, cached, cost_micros, ..plain };
                if !used.is_nothing() {
                    seen.push(Seen::Used(used));
                }
                seen.extend(name(&part["messageID"]).map(|id| Seen::ToolEnded { id }));
                self.last = Some(Last::Step(text(&part["reason"]).unwrap_or_default()));
            }
            Some("error") => {
                self.last = Some(Last::Wrong(fault(&event["error"])));
                seen.push(Seen::Spoke { visible: false });
            }
            Some(_) => seen.push(Seen::Spoke { visible: false }),
            None => {}
        }
    }

    /// It asks again many times over minutes, and is silent meanwhile but for its log.
    fn complained(&mut self, line: &str, seen: &mut Vec<Seen>) {
        if line.contains(" level=ERROR ") && line.contains(" message=\"stream error\" ") {
            seen.push(Seen::Retrying { status: None });
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        let end = match (self.last.take(), exit) {
            (Some(Last::Wrong(fault)), _) => {
                if fault.failure == &failure::RATE_LIMITED {
                    let window = "requests".to_owned();
                    seen.push(Seen::Limited(Limit { window, hard: true, resets_at: None }));
                }
                Seen::Ended { reason: End::Failed, error: Some(fault) }
            }
            (Some(Last::Step(reason)), Exit::Code(0)) if reason != "tool-calls" => {
                Seen::Ended { reason: End::Finished, error: None }
            }
            (None, Exit::Code(_)) if last_words.contains("Session not found") => {
                let fault = failure::SESSION_LOST.with(last_words);
                Seen::Ended { reason: End::Failed, error: Some(fault) }
            }
            (Some(Last::Step(_)) | None, _) => failure::gone(exit, last_words),
        };
        seen.push(end);
    }
}

/// A tool is told once, when it is over.
fn tool(part: &Value, seen: &mut Vec<Seen>) {
    let (id, tool) = (name(&part["callID"]), name(&part["tool"]));
    let (Some(id), Some(name)) = (id, tool) else { return };
    if name == "read" {
        seen.extend(text(&part["state"]["input"]["filePath"]).map(Seen::Read));
    }
    seen.push(Seen::ToolStarted { id: id.clone(), name });
    if matches!(part["state"]["status"].as_str(), Some("completed" | "error")) {
        seen.push(Seen::ToolEnded { id });
    }
}

fn fault(error: &Value) -> Fault {
    let data = &error["data"];
    let said = data["message"].as_str().or_else(|| error["name"].as_str()).unwrap_or_default();
    let failure = match (error["name"].as_str(), status(&data["statusCode"])) {
        (Some("ProviderAuthError"), _) => &failure::NOT_SIGNED_IN,
        (Some("MessageOutputLengthError" | "ContextOverflowError"), _) => &failure::CONTEXT_FULL,
        (Some("ProviderModelNotFoundError"), _) => &failure::MODEL_UNKNOWN,
        (_, Some(status)) => Failure::of_status(status),
        (Some("APIError"), None) => &failure::PROVIDER_AWAY,
        (_, None) => &failure::CRASHED,
    };
    failure.with(said)
}
