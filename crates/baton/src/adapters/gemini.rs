//! Gemini CLI, by its stream. It cannot ask; whoever wants that drives it by the Agent Client
//! Protocol.

use serde_json::{Value, json};

use crate::surroundings::Hidden;

use super::Adapter;
use super::failure::{self, Failure, Fault};
use super::fields::{is_visible, name, text, usage};
use super::seen::{End, Exit, Limit, Seen, Usage};
use super::turn::{Consent, File, Misfit, Plan, Session, Turn, variable};

/// Where its settings are, from its home on. Those that would win over a repository's must belong
/// to the administrator of the machine, so a repository's are kept out by not trusting it.
const SETTINGS: &str = ".gemini/settings.json";
/// How it signs in: by a key, unless the account says otherwise by the program's own variable.
const SIGN_IN: &str = "${GEMINI_DEFAULT_AUTH_TYPE:-gemini-api-key}";
/// What it exits with if its input is not understood.
const BAD_INPUT: i32 = 42;
/// What it exits with if it may not sign in.
const BAD_KEY: i32 = 41;
/// What it exits with after as many steps as it may take.
const TURNS: i32 = 53;
/// How often it asks its provider again. Left alone it does so for minutes, without a word.
const TRIES: u32 = 3;

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let mode = match turn.consent {
        Consent::Ask => "default",
        Consent::Edits => "auto_edit",
        Consent::All => "yolo",
    };
    let mut own = vec!["-o", "stream-json", "--approval-mode", mode];
    match turn.session {
        Session::New(id) => own.extend(["--session-id", id.unwrap_or_default()]),
        Session::Resumed { id, .. } => own.extend(["--resume", id]),
    }
    if let Some(model) = turn.model {
        own.extend(["-m", model]);
    }
    // Where nobody looks it refuses to work in a folder that is not trusted. This is read after the
    // settings are: those of the folder are still passed over.
    own.extend(["--skip-trust", "--allowed-mcp-server-names", "baton"]);
    let argv = turn.argv(&own);
    Ok(Plan {
        folders: vec![],
        argv,
        environment: vec![variable("GEMINI_TELEMETRY_ENABLED", "false")],
        files: vec![settings(turn)],
        stdin: turn.prompt.as_bytes().to_vec(),
        closes_stdin: true,
    })
}

fn settings(turn: &Turn<'_>) -> File {
    let mut settings = json!({
        "general": { "enableAutoUpdate": false, "maxAttempts": TRIES },
        "privacy": { "usageStatisticsEnabled": false },
        "security": { "folderTrust": { "enabled": true }, "auth": { "selectedType": SIGN_IN } },
        "hooksConfig": { "enabled": false },
        "mcp": { "allowed": ["baton"] },
    });
    if let Some(turns) = turn.turns_max {
        settings["model"] = json!({ "maxSessionTurns": turns });
    }
    if let Some(tools) = turn.tools {
        let filled = |(name, _): &(String, Hidden)| (name.clone(), json!(format!("${{{name}}}")));
        let variables: serde_json::Map<_, _> = tools.variables.iter().map(filled).collect();
        settings["mcpServers"] = json!({ "baton": {
            "command": tools.program, "args": tools.arguments, "env": variables, "trust": true,
        } });
    }
    File { path: SETTINGS.to_owned(), content: settings.to_string() }
}

/// What is known of a process.
#[derive(Default)]
pub(super) struct Gemini {
    session: Option<String>,
    /// What it said that went wrong, without ending its turn by it.
    wrong: Option<String>,
    /// What its provider refused with last.
    refused: Option<u16>,
    over: bool,
}

impl Gemini {
    fn fault(&self, error: &Value, said: &str) -> Fault {
        let known = self.refused.map(Failure::of_status);
        known.unwrap_or_else(|| failure_of(error, said)).with(said)
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

impl Adapter for Gemini {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        match event["type"].as_str() {
            Some("init") => {
                if let Some(id) = name(&event["session_id"]).filter(|_| self.session.is_none()) {
                    self.session = Some(id.clone());
                    seen.push(Seen::Session(id));
                }
                seen.push(Seen::Started);
            }
            // It repeats what it was told.
            Some("message") if event["role"] == "user" => {}
            Some("message") => {
                self.refused = None;
                seen.push(Seen::Spoke { visible: is_visible(&event["content"]) });
            }
            Some("tool_use") => {
                let (id, tool) = (name(&event["tool_id"]), name(&event["tool_name"]));
                let arguments = &event["parameters"];
                let path =
                    text(&arguments["file_path"]).or_else(|| text(&arguments["absolute_path"]));
                if tool.as_deref() == Some("read_file") {
                    seen.extend(path.map(Seen::Read));
                }
                if let (Some(id), Some(name)) = (id, tool) {
                    seen.push(Seen::ToolStarted { id, name });
                }
            }
            Some("tool_result") => {
                seen.extend(name(&event["tool_id"]).map(|id| Seen::ToolEnded { id }));
            }
            Some("error") => {
                self.wrong = text(&event["message"]);
                seen.push(Seen::Spoke { visible: false });
            }
            Some("result") => {
                let names = ["input_tokens", "output_tokens", "cached"];
                let used: Usage = usage(&event["stats"], names);
                if !used.is_nothing() {
                    seen.push(Seen::Used(used));
                }
                if event["status"] == "success" {
                    self.end(End::Finished, None, seen);
                } else {
                    let said = text(&event["error"]["message"]).or(self.wrong.take());
                    let fault = self.fault(&event["error"], &said.unwrap_or_default());
                    self.end(End::Failed, Some(fault), seen);
                }
            }
            Some(_) => seen.push(Seen::Spoke { visible: false }),
            None => {}
        }
    }

    /// That it asks its provider again stands only among its complaints.
    fn complained(&mut self, line: &str, seen: &mut Vec<Seen>) {
        if let Some((_, rest)) = line.split_once(" failed with status ")
            && line.starts_with("Attempt ")
        {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            self.refused = digits.and_then(|digits| digits.parse().ok());
            seen.push(Seen::Retrying { status: self.refused });
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if self.over {
            return;
        }
        let said = self.wrong.take().unwrap_or_else(|| last_words.to_owned());
        match exit {
            Exit::Code(TURNS) => {
                self.end(End::Turns, Some(failure::TURNS_SPENT.with(&said)), seen);
            }
            Exit::Code(BAD_KEY) => {
                self.end(End::Failed, Some(failure::NOT_SIGNED_IN.with(&said)), seen);
            }
            Exit::Code(BAD_INPUT) => {
                let lost = said.contains("session") || said.contains("Session");
                let failure = if lost { &failure::SESSION_LOST } else { &failure::MISUSED };
                self.end(End::Failed, Some(failure.with(&said)), seen);
            }
            Exit::Code(code) if code != 0 => {
                let fault = self.fault(&Value::Null, &said);
                self.end(End::Failed, Some(fault), seen);
            }
            Exit::Code(_) | Exit::Signal(_) => seen.push(failure::gone(exit, &said)),
        }
    }
}

/// Its errors have a type and words; the words quote the status of the provider.
fn failure_of(error: &Value, said: &str) -> &'static Failure {
    let told = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match error["type"].as_str() {
        Some("FatalAuthenticationError") => &failure::NOT_SIGNED_IN,
        Some("FatalTurnLimitedError") => &failure::TURNS_SPENT,
        Some("FatalInputError" | "FatalConfigError") => &failure::MISUSED,
        Some("FatalSandboxError") => &failure::SANDBOX_FAILED,
        Some(_) | None if told(&["RESOURCE_EXHAUSTED", "\"code\":429", "quota", "exhausted"]) => {
            &failure::RATE_LIMITED
        }
        Some(_) | None if told(&["UNAUTHENTICATED", "\"code\":401", "API key not valid"]) => {
            &failure::NOT_SIGNED_IN
        }
        Some(_) | None if told(&["\"code\":404", "NOT_FOUND"]) => &failure::MODEL_UNKNOWN,
        Some(_) | None if told(&["\"code\":5", "INTERNAL", "UNAVAILABLE"]) => {
            Failure::of_status(500)
        }
        Some(_) | None if told(&["ECONNREFUSED", "ENOTFOUND", "fetch failed"]) => {
            &failure::PROVIDER_AWAY
        }
        Some(_) | None => &failure::CRASHED,
    }
}
