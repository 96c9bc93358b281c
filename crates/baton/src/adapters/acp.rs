//! Any program that speaks the Agent Client Protocol, version 1: JSON-RPC over lines.
//!
//! Greeting, session, prompt: each is said once the one before it is answered. What was said is
//! known from what was written, so whoever follows the same process again says nothing twice.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Adapter;
use super::failure::{self, Failure, Fault};
use super::fields::{clip, count, is_visible, list, micros, name, status, text};
use super::rpc::{self, Message, Open};
use super::seen::{End, Exit, Limit, Reply, Seen, Usage};
use super::turn::{Misfit, Plan, Session, Tools, Turn};

/// The version of the protocol.
const VERSION: u64 = 1;
/// Ids of our requests: the greeting, the session, and from there on one for every prompt.
const GREETING: u64 = 1;
const SESSION: u64 = 2;
/// The agent wants somebody to sign in.
const AUTHENTICATE: i64 = -32_000;
/// There is no such thing, as agents say of a session that they do not know.
const NOT_FOUND: i64 = -32_002;
/// Tools that may run at once.
const TOOLS_MAX: usize = 256;

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let client = json!({ "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") });
    // It reads and writes files itself: what goes through here could not be fenced in.
    let able =
        json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
    let params =
        json!({ "protocolVersion": VERSION, "clientCapabilities": able, "clientInfo": client });
    let greeting = request(GREETING, "initialize", &params);
    Ok(Plan {
        argv: turn.argv(&[]),
        stdin: format!("{greeting}\n").into_bytes(),
        ..Plan::default()
    })
}

/// The protocol has no way to name a variable; what is written here goes to the agent alone.
fn server(tools: &Tools) -> Value {
    let variables = tools.variables.iter();
    let variables: Vec<_> =
        variables.map(|(name, value)| json!({ "name": name, "value": value.reveal() })).collect();
    let Tools { program, arguments, .. } = tools;
    json!({ "name": "baton", "command": program, "args": arguments, "env": variables })
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// How far the conversation is, by what was written and what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Greeting,
    Greeted,
    SessionAsked,
    SessionThere,
    Prompted,
}

/// What is known of a process.
pub(super) struct Acp {
    step: Step,
    session: Option<String>,
    /// The session of an attempt before, if the agent can open it again.
    resumed: Option<String>,
    /// Where it works, and its servers.
    place: Value,
    prompt: String,
    next: u64,
    open: Open,
    /// Tools that run.
    tools: BTreeSet<String>,
    /// What the session has cost so far.
    cost: u64,
    /// Whether a prompt was written that is not answered.
    in_turn: bool,
    /// Whether the prompt that is answered next is the one under this id.
    prompted: u64,
}

impl Acp {
    pub(super) fn new(turn: &Turn<'_>) -> Self {
        let servers: Vec<_> = turn.tools.into_iter().map(server).collect();
        let resumed = match turn.session {
            Session::New(_) => None,
            Session::Resumed { id, .. } => Some(id.to_owned()),
        };
        Self {
            step: Step::Greeting,
            session: None,
            resumed,
            place: json!({ "cwd": turn.folder.to_string_lossy(), "mcpServers": servers }),
            prompt: turn.prompt.to_owned(),
            next: SESSION + 1,
            open: Open::default(),
            tools: BTreeSet::new(),
            cost: turn.session.booked().cost_micros,
            in_turn: true,
            prompted: SESSION + 1,
        }
    }

    fn advance(&mut self, to: Step) {
        self.step = self.step.max(to);
    }

    fn learn(&mut self, id: Option<String>, seen: &mut Vec<Seen>) {
        if let Some(id) = id
            && self.session.as_ref() != Some(&id)
        {
            self.session = Some(id.clone());
            seen.push(Seen::Session(id));
        }
    }
}

impl Adapter for Acp {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        match Message::read(event) {
            Some(Message::Request { id, method, params }) => self.asked(id, method, params, seen),
            Some(Message::Notice { method: "session/update", params }) => {
                self.update(&params["update"], seen);
            }
            Some(Message::Notice { .. }) => seen.push(Seen::Spoke { visible: false }),
            Some(Message::Result { id, result }) => self.answered(id, result, seen),
            Some(Message::Error { id, error }) => self.refused(id, error, seen),
            None => {}
        }
    }

    fn written(&mut self, message: &Value, seen: &mut Vec<Seen>) {
        match Message::read(message) {
            Some(Message::Request { id, method, .. }) => {
                let id = id.as_u64().unwrap_or(0);
                self.next = self.next.max(id.saturating_add(1));
                match method {
                    "session/new" | "session/load" => self.advance(Step::SessionAsked),
                    "session/prompt" => {
                        self.advance(Step::Prompted);
                        (self.in_turn, self.prompted) = (true, id);
                        seen.push(Seen::Started);
                    }
                    _ => {}
                }
            }
            // Whoever cancels takes back what the agent waits for, too.
            Some(Message::Notice { method: "session/cancel", .. }) => {
                let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
                self.open.give_up(&json!({ "result": cancelled }));
            }
            Some(Message::Result { id, result }) => self.told(id, result, seen),
            Some(Message::Error { id, .. }) => self.open.settle(id, seen),
            Some(Message::Notice { .. }) | None => {}
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if self.in_turn {
            seen.push(failure::gone(exit, last_words));
        }
    }

    fn owed(&self) -> Option<Value> {
        if let Some(mut answer) = self.open.owed() {
            answer["jsonrpc"] = "2.0".into();
            return Some(answer);
        }
        match self.step {
            Step::Greeted => {
                let mut params = self.place.clone();
                let method = match &self.resumed {
                    None => "session/new",
                    Some(id) => {
                        params["sessionId"] = id.as_str().into();
                        "session/load"
                    }
                };
                Some(request(SESSION, method, &params))
            }
            Step::SessionThere => self.prompt(&self.prompt),
            Step::Greeting | Step::SessionAsked | Step::Prompted => None,
        }
    }

    fn prompt(&self, text: &str) -> Option<Value> {
        let session = self.session.as_ref()?;
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        Some(request(self.next, "session/prompt", &params))
    }

    fn answer(&self, reply: &Reply) -> Option<Value> {
        let wish = self.open.find(reply.id())?;
        let kinds = match reply {
            Reply::Allow { .. } => ["allow_once", "allow_always"],
            Reply::Deny { .. } | Reply::Answer { .. } => ["reject_once", "reject_always"],
        };
        let option = |kind: &str| {
            let mut options = list(&wish.params["options"]);
            options.find(|option| option["kind"] == kind).map(|option| option["optionId"].clone())
        };
        let chosen = kinds.into_iter().find_map(option);
        let outcome = match chosen {
            Some(id) => json!({ "outcome": "selected", "optionId": id }),
            None => json!({ "outcome": "cancelled" }),
        };
        let result = json!({ "outcome": outcome });
        Some(json!({ "jsonrpc": "2.0", "id": rpc::id(reply.id()), "result": result }))
    }

    fn interrupt(&self) -> Option<Value> {
        let params = json!({ "sessionId": self.session.as_ref()? });
        Some(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }))
    }
}

impl Acp {
    fn answered(&mut self, id: &Value, result: &Value, seen: &mut Vec<Seen>) {
        match id.as_u64() {
            Some(GREETING) => {
                if result["agentCapabilities"]["loadSession"] != true {
                    // It forgets with its process; the packet has what the next one must know.
                    self.resumed = None;
                }
                if result["protocolVersion"] == VERSION {
                    self.advance(Step::Greeted);
                } else {
                    let said = format!("it speaks version {}", result["protocolVersion"]);
                    self.end(End::Failed, Some(failure::MISUSED.with(&said)), seen);
                }
            }
            Some(SESSION) => {
                let id = name(&result["sessionId"]).or_else(|| self.resumed.clone());
                self.learn(id, seen);
                self.advance(Step::SessionThere);
            }
            Some(id) if self.in_turn && id == self.prompted => self.ended(result, seen),
            Some(_) | None => {}
        }
    }

    fn refused(&mut self, id: &Value, error: &Value, seen: &mut Vec<Seen>) {
        let said = said(error);
        let code = error["code"].as_i64();
        let of_status = code.and_then(|code| status(&Value::from(code))).map(Failure::of_status);
        let failure = match (id.as_u64(), code) {
            (_, Some(AUTHENTICATE)) => &failure::NOT_SIGNED_IN,
            (Some(SESSION), _) if self.resumed.is_some() => &failure::SESSION_LOST,
            (_, Some(NOT_FOUND)) => &failure::SESSION_LOST,
            (Some(GREETING), _) => &failure::MISUSED,
            _ => of_status.unwrap_or_else(|| of_words(&said)),
        };
        if self.in_turn {
            self.end(End::Failed, Some(failure.with(&said)), seen);
        }
    }

    fn asked(&mut self, id: &Value, method: &str, params: &Value, seen: &mut Vec<Seen>) {
        let Some(key) = rpc::key(id) else { return };
        if method == "session/request_permission" && self.open.keep(&key, method, params) {
            let call = &params["toolCall"];
            let what = call["title"].as_str().or_else(|| call["kind"].as_str());
            let what = clip(what.unwrap_or("a tool"));
            seen.push(Seen::Permission { id: key, what });
        } else {
            self.open.refuse(key);
        }
    }

    fn update(&mut self, update: &Value, seen: &mut Vec<Seen>) {
        let kind = update["sessionUpdate"].as_str();
        if kind == Some("usage_update") {
            self.book_cost(&update["cost"], seen);
            return;
        }
        // What an agent tells before it was prompted is the past of a session that it opens.
        if self.step < Step::Prompted {
            seen.push(Seen::Spoke { visible: false });
            return;
        }
        match kind {
            Some("agent_message_chunk") => {
                seen.push(Seen::Spoke { visible: is_visible(&update["content"]["text"]) });
            }
            Some("tool_call" | "tool_call_update") => {
                self.tool(update, seen);
                if is_over(update)
                    && let Some(id) = name(&update["toolCallId"])
                    && self.tools.remove(&id)
                {
                    seen.push(Seen::ToolEnded { id });
                }
            }
            Some(_) | None => seen.push(Seen::Spoke { visible: false }),
        }
    }

    /// A tool runs, unless that is known. Some agents tell of it only by asking for permission.
    fn tool(&mut self, call: &Value, seen: &mut Vec<Seen>) {
        let Some(id) = name(&call["toolCallId"]) else { return };
        if self.tools.len() >= TOOLS_MAX || !self.tools.insert(id.clone()) {
            return;
        }
        let kind = name(&call["kind"]).unwrap_or_else(|| "tool".to_owned());
        if kind == "read" {
            let places = list(&call["locations"]).filter_map(|one| text(&one["path"]));
            seen.extend(places.map(Seen::Read));
        }
        seen.push(Seen::ToolStarted { id, name: kind });
    }

    /// A request of the agent was answered.
    fn told(&mut self, id: &Value, result: &Value, seen: &mut Vec<Seen>) {
        let wish = rpc::key(id).and_then(|key| self.open.find(&key));
        let chosen = &result["outcome"]["optionId"];
        let allowed = wish.filter(|wish| {
            let mut options = list(&wish.params["options"]);
            let kind = options.find(|option| option["optionId"] == *chosen);
            kind.and_then(|option| option["kind"].as_str())
                .is_some_and(|kind| kind.starts_with("allow"))
        });
        let call = allowed.map(|wish| wish.params["toolCall"].clone());
        self.open.settle(id, seen);
        if let Some(call) = call {
            self.tool(&call, seen);
        }
    }

    /// The session counts from its beginning.
    fn book_cost(&mut self, cost: &Value, seen: &mut Vec<Seen>) {
        let total = if cost["currency"] == "USD" { micros(&cost["amount"]) } else { 0 };
        let cost_micros = total.saturating_sub(self.cost);
        self.cost = self.cost.max(total);
        if cost_micros > 0 {
            seen.push(Seen::Used(Usage { cost_micros, ..Usage::default() }));
        }
    }

    fn ended(&mut self, result: &Value, seen: &mut Vec<Seen>) {
        let used = used(result);
        if !used.is_nothing() {
            seen.push(Seen::Used(used));
        }
        let (reason, error) = match result["stopReason"].as_str() {
            Some("end_turn") => (End::Finished, None),
            Some("cancelled") => (End::Interrupted, None),
            Some("max_turn_requests") => (End::Turns, Some(failure::TURNS_SPENT.with(""))),
            Some("max_tokens") => (End::Failed, Some(failure::CONTEXT_FULL.with(""))),
            Some("refusal") => (End::Failed, Some(failure::REFUSED.with(""))),
            Some(other) => (End::Failed, Some(failure::CRASHED.with(other))),
            None => (End::Failed, Some(failure::CRASHED.with("no reason"))),
        };
        self.end(reason, error, seen);
    }

    fn end(&mut self, reason: End, error: Option<Fault>, seen: &mut Vec<Seen>) {
        if error.as_ref().is_some_and(|fault| fault.failure == &failure::RATE_LIMITED) {
            let window = "requests".to_owned();
            seen.push(Seen::Limited(Limit { window, hard: true, resets_at: None }));
        }
        self.in_turn = false;
        seen.push(Seen::Ended { reason, error });
    }
}

fn is_over(update: &Value) -> bool {
    matches!(update["status"].as_str(), Some("completed" | "failed"))
}

/// What a turn used, as most say it, or as Gemini CLI does.
fn used(result: &Value) -> Usage {
    let (usage, quota) = (&result["usage"], &result["_meta"]["quota"]["token_count"]);
    let cached = count(&usage["cachedReadTokens"]);
    let input = count(&usage["inputTokens"]).saturating_add(cached);
    Usage {
        input: input.saturating_add(count(&quota["input_tokens"])),
        output: count(&usage["outputTokens"]).saturating_add(count(&quota["output_tokens"])),
        cached,
        cost_micros: 0,
    }
}

/// What an error says: in its message, or in what comes with it.
fn said(error: &Value) -> String {
    let data = &error["data"];
    let details = data.as_str().or_else(|| data["details"].as_str()).unwrap_or_default();
    clip(&format!("{} {details}", error["message"].as_str().unwrap_or_default()))
}

/// The protocol has no word for limits: agents say it in those of their provider.
fn of_words(said: &str) -> &'static Failure {
    let told = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if told(&["429", "RESOURCE_EXHAUSTED", "rate limit", "usage limit", "quota"]) {
        &failure::RATE_LIMITED
    } else if told(&["401", "UNAUTHENTICATED", "API key"]) {
        &failure::NOT_SIGNED_IN
    } else if told(&["500", "502", "503", "529", "INTERNAL", "overloaded"]) {
        &failure::PROVIDER_FAILED
    } else {
        &failure::CRASHED
    }
}
