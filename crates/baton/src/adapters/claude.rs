//! Claude Code, by its stream of JSON in both directions.
//!
//! One process takes several turns: each ends with a `result`, and the end of its input ends it. It
//! asks for permission by a request that is answered on its input.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::surroundings::Hidden;

use super::failure::{self, Failure, Fault};
use super::fields::{count, is_visible, list, micros, name, seconds, status, text, usage};
use super::seen::{End, Exit, Limit, Reply, Seen, Usage};
use super::turn::{Consent, File, Misfit, Plan, Session, Turn, variable};
use super::{Adapter, fields};

/// Requests of it that may be open at once; it asks for one tool after another, or for a handful.
const OPEN_MAX: usize = 64;
/// Messages whose use is remembered as booked: those of a turn that is not over.
const BOOKED_MAX: usize = 4_096;
/// How often it asks its provider again by itself. Left alone it goes on for minutes, also with a
/// key that is not accepted.
const RETRIES: &str = "4";
/// Where its servers are told to it, from its home on.
const SERVERS: &str = ".baton/claude-mcp.json";

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let mode = match turn.consent {
        Consent::Ask => "default",
        Consent::Edits | Consent::All => "acceptEdits",
    };
    let mut own = vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json"];
    own.extend(["--verbose", "--permission-prompt-tool", "stdio", "--permission-mode", mode]);
    // Nothing that a repository brings along is a setting, a hook or a server.
    own.extend(["--setting-sources", "", "--strict-mcp-config"]);
    let servers = turn.home.join(SERVERS).to_string_lossy().into_owned();
    if turn.tools.is_some() {
        own.extend(["--mcp-config", &servers, "--allowedTools", "mcp__baton"]);
    }
    match turn.session {
        Session::New(id) => own.extend(["--session-id", id.unwrap_or_default()]),
        Session::Resumed { id, .. } => own.extend(["--resume", id]),
    }
    if let Some(model) = turn.model {
        own.extend(["--model", model]);
    }
    let turns = turn.turns_max.map(|turns| turns.to_string());
    if let Some(turns) = &turns {
        own.extend(["--max-turns", turns]);
    }
    let files = turn.tools.map(|tools| {
        // It fills in variables of its own environment, so that no secret is written down.
        let filled = |(name, _): &(String, Hidden)| (name.clone(), json!(format!("${{{name}}}")));
        let variables: serde_json::Map<_, _> = tools.variables.iter().map(filled).collect();
        let server = json!({
            "type": "stdio", "command": tools.program, "args": tools.arguments, "env": variables,
        });
        let content = json!({ "mcpServers": { "baton": server } }).to_string();
        File { path: SERVERS.to_owned(), content }
    });
    Ok(Plan {
        folders: vec![],
        argv: turn.argv(&own),
        environment: vec![
            variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            variable("CLAUDE_CODE_MAX_RETRIES", RETRIES),
            variable("DISABLE_AUTOUPDATER", "1"),
        ],
        files: files.into_iter().collect(),
        stdin: format!("{}\n", told(turn.prompt)).into_bytes(),
        closes_stdin: false,
    })
}

fn told(text: &str) -> Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
    })
}

/// What is known of a process.
#[derive(Default)]
pub(super) struct Claude {
    session: Option<String>,
    /// What it waits for, by the id of its request.
    open: BTreeMap<String, Wish>,
    /// Requests of a kind that nobody here can serve, and that are not answered yet.
    unserved: BTreeSet<String>,
    /// What was booked in this turn, message by message: its own sum comes at the end.
    booked: Usage,
    messages: BTreeSet<String>,
    /// The limits that were told in this turn; only its end says whether they count.
    limits: BTreeMap<String, Option<Timestamp>>,
    /// What its provider refused with last.
    refused: Option<u16>,
    /// Whether a prompt was written whose turn is not over.
    in_turn: bool,
    complaint: Option<&'static Failure>,
    interrupts: u64,
}

/// What it asked for.
enum Wish {
    /// To use a tool with these arguments.
    Tool(Value),
    /// To know something, in the form of its own tool.
    Answer(Value),
}

impl Adapter for Claude {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        self.learn(&event["session_id"], seen);
        match event["type"].as_str() {
            Some("system") => self.system(event, seen),
            Some("assistant") => self.assistant(&event["message"], seen),
            Some("user") => {
                let results = list(&event["message"]["content"]);
                let ids = results.filter_map(|block| name(&block["tool_use_id"]));
                seen.extend(ids.map(|id| Seen::ToolEnded { id }));
            }
            Some("rate_limit_event") => self.limited(&event["rate_limit_info"], seen),
            Some("control_request") => self.asked(event, seen),
            Some("control_cancel_request") => {
                if let Some(id) = name(&event["request_id"]) {
                    self.settle(id, seen);
                }
            }
            Some("result") => self.ended(event, seen),
            // The receipt of an interrupt, or word that it is alive: nothing happened.
            Some("control_response" | "keep_alive") => {}
            Some(_) => seen.push(Seen::Spoke { visible: false }),
            None => {}
        }
    }

    fn written(&mut self, message: &Value, seen: &mut Vec<Seen>) {
        match message["type"].as_str() {
            Some("user") => self.in_turn = true,
            Some("control_response") => {
                if let Some(id) = name(&message["response"]["request_id"]) {
                    self.settle(id, seen);
                }
            }
            Some("control_request") => self.interrupts += 1,
            Some(_) | None => {}
        }
    }

    fn complained(&mut self, line: &str, _seen: &mut Vec<Seen>) {
        if line.contains("is already in use") {
            self.complaint = Some(&failure::SESSION_TAKEN);
        } else if line.contains("No conversation found") {
            self.complaint = Some(&failure::SESSION_LOST);
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if !self.in_turn {
            return;
        }
        let known = self.complaint.or_else(|| self.refused.map(Failure::of_status));
        match known {
            Some(failure) => self.fail(End::Failed, failure.with(last_words), seen),
            None => seen.push(failure::gone(exit, last_words)),
        }
    }

    fn owed(&self) -> Option<Value> {
        let id = self.unserved.first()?;
        let error = "this is not served here";
        Some(json!({
            "type": "control_response",
            "response": { "subtype": "error", "request_id": id, "error": error },
        }))
    }

    fn prompt(&self, text: &str) -> Option<Value> {
        Some(told(text))
    }

    fn answer(&self, reply: &Reply) -> Option<Value> {
        let id = reply.id();
        let response = match (self.open.get(id)?, reply) {
            (Wish::Tool(input) | Wish::Answer(input), Reply::Allow { .. }) => {
                json!({ "behavior": "allow", "updatedInput": input })
            }
            (Wish::Answer(input), Reply::Answer { text, .. }) => {
                json!({ "behavior": "allow", "updatedInput": answered(input, text) })
            }
            // Whoever answers a question of yes or no in words has not said yes.
            (Wish::Tool(_), Reply::Answer { text: why, .. }) | (_, Reply::Deny { why, .. }) => {
                json!({ "behavior": "deny", "message": why })
            }
        };
        Some(json!({
            "type": "control_response",
            "response": { "subtype": "success", "request_id": id, "response": response },
        }))
    }

    fn interrupt(&self) -> Option<Value> {
        let id = format!("baton-interrupt-{}", self.interrupts + 1);
        Some(json!({
            "type": "control_request", "request_id": id, "request": { "subtype": "interrupt" },
        }))
    }
}

/// The questions of its own tool, each with the answer.
fn answered(input: &Value, text: &str) -> Value {
    let mut input = input.clone();
    let asked: Vec<_> =
        list(&input["questions"]).filter_map(|one| one["question"].as_str()).collect();
    let answers: Value = asked.iter().map(|one| ((*one).to_owned(), json!(text))).collect();
    if input.is_object() {
        input["answers"] = answers;
    }
    input
}

impl Claude {
    fn learn(&mut self, id: &Value, seen: &mut Vec<Seen>) {
        if let Some(id) = name(id)
            && self.session.as_ref() != Some(&id)
        {
            self.session = Some(id.clone());
            seen.push(Seen::Session(id));
        }
    }

    fn system(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        match event["subtype"].as_str() {
            Some("init") => {
                self.in_turn = true;
                seen.push(Seen::Started);
            }
            Some("api_retry") => {
                self.refused = status(&event["error_status"]);
                seen.push(Seen::Retrying { status: self.refused });
            }
            Some(_) | None => seen.push(Seen::Spoke { visible: false }),
        }
    }

    fn assistant(&mut self, message: &Value, seen: &mut Vec<Seen>) {
        // What the program puts into the model's mouth itself are errors.
        if message["model"] == "<synthetic>" {
            seen.push(Seen::Spoke { visible: false });
            return;
        }
        (self.refused, self.in_turn) = (None, true);
        for block in list(&message["content"]) {
            match block["type"].as_str() {
                Some("text") => seen.push(Seen::Spoke { visible: is_visible(&block["text"]) }),
                Some("tool_use") => {
                    let (id, tool) = (name(&block["id"]), name(&block["name"]));
                    let read = &block["input"]["file_path"];
                    if tool.as_deref() == Some("Read")
                        && let Some(path) = text(read)
                    {
                        seen.push(Seen::Read(path));
                    }
                    if let (Some(id), Some(name)) = (id, tool) {
                        seen.push(Seen::ToolStarted { id, name });
                    }
                }
                Some(_) | None => seen.push(Seen::Spoke { visible: false }),
            }
        }
        self.book(message, seen);
    }

    /// A message comes once for each of its blocks, with the use of the whole each time.
    fn book(&mut self, message: &Value, seen: &mut Vec<Seen>) {
        let Some(id) = name(&message["id"]) else { return };
        if self.messages.len() >= BOOKED_MAX || !self.messages.insert(id) {
            return;
        }
        let used = used(&message["usage"], SNAKE);
        self.booked = self.booked.plus(used);
        if !used.is_nothing() {
            seen.push(Seen::Used(used));
        }
    }

    fn limited(&mut self, info: &Value, seen: &mut Vec<Seen>) {
        let window = name(&info["rateLimitType"]).unwrap_or_else(|| "account".to_owned());
        let resets_at = seconds(&info["resetsAt"]);
        match info["status"].as_str() {
            Some("allowed") => {
                self.limits.remove(&window);
                return;
            }
            Some("rejected") if self.limits.len() < OPEN_MAX => {
                let known = self.limits.entry(window.clone()).or_default();
                *known = (*known).max(resets_at);
            }
            Some(_) | None => {}
        }
        seen.push(Seen::Limited(Limit { window, hard: false, resets_at }));
    }

    fn asked(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        let (Some(id), request) = (name(&event["request_id"]), &event["request"]) else { return };
        if request["subtype"] != "can_use_tool" || self.open.len() >= OPEN_MAX {
            if self.unserved.len() < OPEN_MAX {
                self.unserved.insert(id);
            }
            return;
        }
        let (input, tool) = (request["input"].clone(), &request["tool_name"]);
        if tool == "AskUserQuestion" {
            let texts = list(&input["questions"]).filter_map(|one| one["question"].as_str());
            let text = fields::clip(&texts.collect::<Vec<_>>().join("\n"));
            seen.push(Seen::Asked { id: id.clone(), text });
            self.open.insert(id, Wish::Answer(input));
            return;
        }
        let what = ["command", "file_path", "url", "path"];
        let what = what.iter().find_map(|name| input[*name].as_str()).map(str::to_owned);
        let what = what.unwrap_or_else(|| input.to_string());
        let what = fields::clip(&format!("{}: {what}", tool.as_str().unwrap_or("a tool")));
        seen.push(Seen::Permission { id: id.clone(), what });
        self.open.insert(id, Wish::Tool(input));
    }

    fn settle(&mut self, id: String, seen: &mut Vec<Seen>) {
        self.unserved.remove(&id);
        if self.open.remove(&id).is_some() {
            seen.push(Seen::Settled { id });
        }
    }

    /// The end of a turn. Its `subtype` says `success` also where its provider refused everything.
    fn ended(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        self.settle_up(event, seen);
        let refused = status(&event["api_error_status"]);
        let wrong = event["is_error"] == true || refused.is_some();
        let said = text(&event["result"]).unwrap_or_default();
        match (event["terminal_reason"].as_str(), event["subtype"].as_str()) {
            (Some("max_turns"), _) | (_, Some("error_max_turns")) => {
                self.fail(End::Turns, failure::TURNS_SPENT.with(&said), seen);
            }
            (Some("budget_exhausted"), _) | (_, Some("error_max_budget_usd")) => {
                self.fail(End::Budget, failure::BUDGET_SPENT.with(&said), seen);
            }
            (Some(reason), _) if reason.starts_with("aborted") => {
                self.over(Seen::Ended { reason: End::Interrupted, error: None }, seen);
            }
            (Some("prompt_too_long"), _) => {
                self.fail(End::Failed, failure::CONTEXT_FULL.with(&said), seen);
            }
            _ if wrong => {
                let failure = refused.map_or(&failure::CRASHED, Failure::of_status);
                self.fail(End::Failed, failure.with(&said), seen);
            }
            _ if event["stop_reason"] == "refusal" => {
                self.fail(End::Failed, failure::REFUSED.with(&said), seen);
            }
            _ => self.over(Seen::Ended { reason: End::Finished, error: None }, seen),
        }
    }

    /// Books what the messages of the turn did not say: its own sum counts.
    fn settle_up(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        let models = event["model_usage_since_last_result"].as_object();
        let mut sum = used(&event["usage"], SNAKE);
        if let Some(models) = models {
            sum = Usage::default();
            for model in models.values() {
                let cost_micros = micros(&model["costUSD"]);
                sum = sum.plus(Usage { cost_micros, ..used(model, CAMEL) });
            }
        }
        let rest = sum.beyond(self.booked);
        if !rest.is_nothing() {
            seen.push(Seen::Used(rest));
        }
    }

    /// A turn that failed by a limit says so; the later reset counts.
    fn fail(&mut self, reason: End, fault: Fault, seen: &mut Vec<Seen>) {
        if fault.failure == &failure::RATE_LIMITED {
            let last = self.limits.iter().max_by_key(|(_, at)| **at);
            let (window, resets_at) =
                last.map_or(("requests", None), |(window, at)| (window.as_str(), *at));
            let window = window.to_owned();
            seen.push(Seen::Limited(Limit { window, hard: true, resets_at }));
        }
        self.over(Seen::Ended { reason, error: Some(fault) }, seen);
    }

    fn over(&mut self, end: Seen, seen: &mut Vec<Seen>) {
        self.in_turn = false;
        self.refused = None;
        self.booked = Usage::default();
        self.messages.clear();
        self.limits.clear();
        seen.push(end);
    }
}

/// Names of what is used: in messages, and in its own sums.
const SNAKE: [&str; 4] =
    ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const CAMEL: [&str; 4] =
    ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];

/// Tokens that come from a cache, or go into one, are not counted among its input.
fn used(value: &Value, [input, output, cached, kept]: [&str; 4]) -> Usage {
    let used = usage(value, [input, output, cached]);
    Usage {
        input: used.input.saturating_add(used.cached).saturating_add(count(&value[kept])),
        ..used
    }
}
