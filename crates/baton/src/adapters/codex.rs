//! Codex, by its app server: JSON-RPC over lines.
//!
//! Greeting, thread, turn: each is said once the one before it is answered. What was said is known
//! from what was written, so whoever follows the same process again says nothing twice.

use std::collections::BTreeMap;

use baton_domain::time::Timestamp;
use serde_json::{Value, json};

use super::Adapter;
use super::failure::{self, Failure, Fault};
use super::fields::{self, clip, is_visible, list, name, seconds, status, text, usage};
use super::rpc::{self, Message, Open};
use super::seen::{End, Exit, Limit, Reply, Seen, Usage};
use super::turn::{Consent, Misfit, Plan, Session, Tools, Turn, variable};

/// Ids of our requests: the greeting, the thread, and from there on one for every turn and
/// interrupt.
const GREETING: u64 = 1;
const THREAD: u64 = 2;
/// Windows of a limit that are told apart; there are two.
const WINDOWS_MAX: usize = 8;
/// How full a window is when nothing goes any more, in percent.
const FULL: u64 = 100;
/// From where on somebody should know.
const NEARLY_FULL: u64 = 90;

/// Where it keeps its own things in a home. It does not start without it, and does not make it.
pub(super) const HOME: &str = ".codex";

pub(super) fn plan(turn: &Turn<'_>) -> Result<Plan, Misfit> {
    let settings = settings(turn);
    let mut own = vec!["app-server"];
    own.extend(settings.iter().flat_map(|setting| ["-c", setting.as_str()]));
    let argv = turn.argv(&own);
    let stdin = format!("{}\n", greeting()).into_bytes();
    let folders = vec![HOME];
    Ok(Plan { argv, environment: environment(turn), folders, stdin, ..Plan::default() })
}

/// Where it keeps its own things: in the home of the task.
pub(super) fn environment(turn: &Turn<'_>) -> Vec<(String, String)> {
    let home = turn.home.join(HOME).to_string_lossy().into_owned();
    vec![variable("CODEX_HOME", home), variable("CODEX_DISABLE_UPDATE_CHECK", "1")]
}

/// What it is set up with, as `-c` takes it. These win over every file.
pub(super) fn settings(turn: &Turn<'_>) -> Vec<String> {
    let folder = quoted(&turn.folder.to_string_lossy());
    let mut settings = vec![
        // A folder that is trusted brings its own servers and hooks along.
        format!("projects={{{folder}={{trust_level=\"untrusted\"}}}}"),
        "check_for_update_on_startup=false".to_owned(),
        "analytics.enabled=false".to_owned(),
    ];
    settings.extend(turn.model.map(|model| format!("model={}", quoted(model))));
    settings.extend(turn.tools.map(server));
    settings
}

/// It passes on the variables that are named, and no others.
fn server(tools: &Tools) -> String {
    let arguments: Vec<_> = tools.arguments.iter().map(|one| quoted(one)).collect();
    let variables: Vec<_> = tools.variables.iter().map(|(name, _)| quoted(name)).collect();
    format!(
        "mcp_servers.baton={{command={},args=[{}],env_vars=[{}],default_tools_approval_mode=\"approve\"}}",
        quoted(&tools.program),
        arguments.join(","),
        variables.join(",")
    )
}

/// A text as TOML writes it, which is as JSON does.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn greeting() -> Value {
    let client = json!({ "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") });
    json!({ "id": GREETING, "method": "initialize", "params": { "clientInfo": client } })
}

/// How far the conversation is, by what was written and what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Greeting,
    Greeted,
    Thanked,
    ThreadAsked,
    ThreadThere,
    TurnAsked,
}

/// What is known of a process.
pub(super) struct Codex {
    step: Step,
    thread: Option<String>,
    turn: Option<String>,
    /// How the thread is opened and what is said in it.
    opening: Value,
    prompt: String,
    /// The id of our next request.
    next: u64,
    open: Open,
    /// What the thread has used so far, once it said so.
    total: Option<Usage>,
    /// Windows that were full when last told, and when they are empty again.
    full: BTreeMap<String, Option<Timestamp>>,
    /// What went wrong last.
    wrong: Option<Fault>,
    in_turn: bool,
}

impl Codex {
    pub(super) fn new(turn: &Turn<'_>) -> Self {
        let (approval, sandbox) = match turn.consent {
            Consent::Ask => ("untrusted", "workspace-write"),
            Consent::Edits => ("on-request", "workspace-write"),
            Consent::All => ("never", "danger-full-access"),
        };
        let mut params = json!({
            "cwd": turn.folder.to_string_lossy(), "approvalPolicy": approval, "sandbox": sandbox,
        });
        if let Some(model) = turn.model {
            params["model"] = model.into();
        }
        let method = match turn.session {
            Session::New(_) => "thread/start",
            Session::Resumed { id, .. } => {
                params["threadId"] = id.into();
                params["excludeTurns"] = true.into();
                "thread/resume"
            }
        };
        Self {
            step: Step::Greeting,
            thread: None,
            turn: None,
            opening: json!({ "id": THREAD, "method": method, "params": params }),
            prompt: turn.prompt.to_owned(),
            next: THREAD + 1,
            open: Open::default(),
            total: None,
            full: BTreeMap::new(),
            wrong: None,
            in_turn: true,
        }
    }
}

impl Adapter for Codex {
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>) {
        match Message::read(event) {
            Some(Message::Request { id, method, params }) => self.asked(id, method, params, seen),
            Some(Message::Notice { method, params }) => self.notice(method, params, seen),
            Some(Message::Result { id, result }) => self.answered(id, result, seen),
            Some(Message::Error { id, error }) => self.refused(id, error, seen),
            None => {}
        }
    }

    fn written(&mut self, message: &Value, seen: &mut Vec<Seen>) {
        match Message::read(message) {
            Some(Message::Request { id, method, .. }) => {
                self.next = self.next.max(id.as_u64().map_or(0, |id| id.saturating_add(1)));
                match method {
                    "thread/start" | "thread/resume" => self.advance(Step::ThreadAsked),
                    "turn/start" => {
                        self.advance(Step::TurnAsked);
                        self.in_turn = true;
                    }
                    _ => {}
                }
            }
            Some(Message::Notice { .. }) => self.advance(Step::Thanked),
            Some(Message::Result { id, .. } | Message::Error { id, .. }) => {
                self.open.settle(id, seen);
            }
            None => {}
        }
    }

    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>) {
        if !self.in_turn {
            return;
        }
        match self.wrong.take() {
            Some(fault) => self.fail(fault, seen),
            None => seen.push(failure::gone(exit, last_words)),
        }
    }

    fn owed(&self) -> Option<Value> {
        if let Some(answer) = self.open.owed() {
            return Some(answer);
        }
        match self.step {
            Step::Greeted => Some(json!({ "method": "initialized" })),
            Step::Thanked => Some(self.opening.clone()),
            Step::ThreadThere => self.prompt(&self.prompt),
            Step::Greeting | Step::ThreadAsked | Step::TurnAsked => None,
        }
    }

    fn prompt(&self, text: &str) -> Option<Value> {
        let thread = self.thread.as_ref()?;
        let input = json!([{ "type": "text", "text": text }]);
        let params = json!({ "threadId": thread, "input": input });
        Some(json!({ "id": self.next, "method": "turn/start", "params": params }))
    }

    fn answer(&self, reply: &Reply) -> Option<Value> {
        let wish = self.open.find(reply.id())?;
        let result = match wish.method.as_str() {
            "item/tool/requestUserInput" => answers(&wish.params, reply),
            "item/permissions/requestApproval" => match reply {
                Reply::Allow { .. } => {
                    json!({ "permissions": wish.params["permissions"], "scope": "turn" })
                }
                Reply::Deny { .. } | Reply::Answer { .. } => json!({ "permissions": {} }),
            },
            _ => match reply {
                Reply::Allow { .. } => json!({ "decision": "accept" }),
                Reply::Deny { .. } | Reply::Answer { .. } => json!({ "decision": "decline" }),
            },
        };
        Some(json!({ "id": rpc::id(reply.id()), "result": result }))
    }

    fn interrupt(&self) -> Option<Value> {
        let params = json!({ "threadId": self.thread.as_ref()?, "turnId": self.turn.as_ref()? });
        Some(json!({ "id": self.next, "method": "turn/interrupt", "params": params }))
    }
}

/// Every question gets the answer; whoever denies says why.
fn answers(params: &Value, reply: &Reply) -> Value {
    let said = match reply {
        Reply::Allow { .. } => "yes",
        Reply::Deny { why: text, .. } | Reply::Answer { text, .. } => text,
    };
    let ids = list(&params["questions"]).filter_map(|one| one["id"].as_str());
    let answers: Value = ids.map(|id| (id.to_owned(), json!({ "answers": [said] }))).collect();
    json!({ "answers": answers })
}

impl Codex {
    fn advance(&mut self, to: Step) {
        self.step = self.step.max(to);
    }

    fn learn(&mut self, thread: &Value, seen: &mut Vec<Seen>) {
        if let Some(id) = name(thread)
            && self.thread.as_ref() != Some(&id)
        {
            self.thread = Some(id.clone());
            seen.push(Seen::Session(id));
        }
    }

    fn answered(&mut self, id: &Value, result: &Value, seen: &mut Vec<Seen>) {
        match id.as_u64() {
            Some(GREETING) => self.advance(Step::Greeted),
            Some(THREAD) => {
                self.learn(&result["thread"]["id"], seen);
                self.advance(Step::ThreadThere);
            }
            // A turn that was taken up, or an interrupt that was heard; both are told again.
            Some(_) | None => {}
        }
    }

    fn refused(&mut self, id: &Value, error: &Value, seen: &mut Vec<Seen>) {
        let said = text(&error["message"]).unwrap_or_default();
        let failure = match id.as_u64() {
            Some(GREETING) => &failure::MISUSED,
            Some(THREAD) if self.opening["method"] == "thread/resume" => &failure::SESSION_LOST,
            Some(THREAD) => &failure::MISUSED,
            // An interrupt that came too late changes nothing.
            Some(_) if self.turn.is_some() || !self.in_turn => return,
            Some(_) | None => &failure::REQUEST_REFUSED,
        };
        self.fail(failure.with(&said), seen);
    }

    fn asked(&mut self, id: &Value, method: &str, params: &Value, seen: &mut Vec<Seen>) {
        let Some(key) = rpc::key(id) else { return };
        let kept = |open: &mut Open| open.keep(&key, method, params);
        match method {
            "item/commandExecution/requestApproval"
            | "item/fileChange/requestApproval"
            | "item/permissions/requestApproval"
                if kept(&mut self.open) =>
            {
                let what = ["command", "grantRoot", "reason"];
                let what = what.iter().find_map(|name| params[*name].as_str());
                let kind = method.split('/').nth(1).unwrap_or_default();
                let what = clip(&format!("{kind}: {}", what.unwrap_or("changes to files")));
                seen.push(Seen::Permission { id: key, what });
            }
            "item/tool/requestUserInput" if kept(&mut self.open) => {
                let texts = list(&params["questions"]).filter_map(|one| one["question"].as_str());
                let text = clip(&texts.collect::<Vec<_>>().join("\n"));
                seen.push(Seen::Asked { id: key, text });
            }
            // A form of some other server: nobody is there to fill it in.
            "mcpServer/elicitation/request" => {
                self.open.owe(key, json!({ "result": { "action": "decline" } }));
            }
            _ => self.open.refuse(key),
        }
    }

    fn notice(&mut self, method: &str, params: &Value, seen: &mut Vec<Seen>) {
        self.learn(&params["threadId"], seen);
        if method.starts_with("item/") && self.turn.is_none() {
            self.turn = name(&params["turnId"]);
        }
        match method {
            "turn/started" => {
                self.turn = name(&params["turn"]["id"]);
                (self.wrong, self.in_turn) = (None, true);
                seen.push(Seen::Started);
            }
            "turn/completed" => self.ended(&params["turn"], seen),
            "item/started" => item(&params["item"], true, seen),
            "item/completed" => {
                self.wrong = None;
                item(&params["item"], false, seen);
            }
            "item/agentMessage/delta" => {
                seen.push(Seen::Spoke { visible: is_visible(&params["delta"]) });
            }
            "thread/tokenUsage/updated" => self.book(&params["tokenUsage"], seen),
            "account/rateLimits/updated" => self.limits(&params["rateLimits"], seen),
            "serverRequest/resolved" => self.open.settle(&params["requestId"], seen),
            "error" => {
                let fault = fault(&params["error"]);
                if params["willRetry"] == true {
                    let status = http_status(&params["error"]["codexErrorInfo"]);
                    seen.push(Seen::Retrying { status });
                }
                // It may wait for an hour before it asks again, and be stopped before that.
                self.wrong = Some(fault);
            }
            _ if method.starts_with("item/") || method.starts_with("turn/") => {
                seen.push(Seen::Spoke { visible: false });
            }
            // The rest is about the program and not about the turn.
            _ => {}
        }
    }

    /// The thread counts over all of its processes; what came last is told beside it.
    fn book(&mut self, told: &Value, seen: &mut Vec<Seen>) {
        let names = ["inputTokens", "outputTokens", "cachedInputTokens"];
        let (total, last) = (usage(&told["total"], names), usage(&told["last"], names));
        // A thread that is opened again tells first what it used in the past.
        if self.turn.is_none() {
            self.total = Some(total);
            return;
        }
        let before = self.total.unwrap_or_else(|| total.beyond(last));
        let used = total.beyond(before);
        self.total = Some(total);
        if !used.is_nothing() {
            seen.push(Seen::Used(used));
        }
    }

    fn limits(&mut self, told: &Value, seen: &mut Vec<Seen>) {
        for window in ["primary", "secondary"] {
            let about = &told[window];
            if about.is_null() {
                continue;
            }
            let (used, resets_at) =
                (fields::count(&about["usedPercent"]), seconds(&about["resetsAt"]));
            let window = match about["windowDurationMins"].as_u64() {
                Some(minutes) => format!("{minutes}m"),
                None => window.to_owned(),
            };
            if used < FULL {
                self.full.remove(&window);
            } else if self.full.len() < WINDOWS_MAX {
                let known = self.full.entry(window.clone()).or_default();
                *known = (*known).max(resets_at);
            }
            if used >= NEARLY_FULL {
                seen.push(Seen::Limited(Limit { window, hard: false, resets_at }));
            }
        }
    }

    fn ended(&mut self, turn: &Value, seen: &mut Vec<Seen>) {
        match turn["status"].as_str() {
            Some("completed") => {
                self.over(Seen::Ended { reason: End::Finished, error: None }, seen)
            }
            Some("interrupted") => {
                self.over(Seen::Ended { reason: End::Interrupted, error: None }, seen);
            }
            Some(_) | None => {
                let told = turn.get("error").filter(|error| !error.is_null()).map(fault);
                let fault = told.or(self.wrong.take());
                self.fail(fault.unwrap_or_else(|| failure::CRASHED.with("")), seen);
            }
        }
    }

    /// A turn that failed by a limit says so; the later reset of those that are full counts.
    fn fail(&mut self, fault: Fault, seen: &mut Vec<Seen>) {
        if fault.failure.class == failure::Class::Limit {
            let last = self.full.iter().max_by_key(|(_, at)| **at);
            let (window, resets_at) =
                last.map_or(("requests", None), |(window, at)| (window.as_str(), *at));
            let window = window.to_owned();
            seen.push(Seen::Limited(Limit { window, hard: true, resets_at }));
        }
        self.over(Seen::Ended { reason: End::Failed, error: Some(fault) }, seen);
    }

    fn over(&mut self, end: Seen, seen: &mut Vec<Seen>) {
        (self.turn, self.wrong, self.in_turn) = (None, None, false);
        seen.push(end);
    }
}

/// What an item of a turn shows.
fn item(item: &Value, begins: bool, seen: &mut Vec<Seen>) {
    let Some(kind) = item["type"].as_str() else { return };
    match kind {
        "agentMessage" | "plan" => {
            seen.push(Seen::Spoke { visible: is_visible(&item["text"]) });
        }
        "commandExecution"
        | "fileChange"
        | "mcpToolCall"
        | "dynamicToolCall"
        | "collabAgentToolCall"
        | "webSearch"
        | "imageGeneration"
        | "sleep" => {
            let Some(id) = name(&item["id"]) else { return };
            if begins {
                let named = name(&item["tool"]).unwrap_or_else(|| kind.to_owned());
                let reads = list(&item["commandActions"]).filter(|action| action["type"] == "read");
                seen.extend(reads.filter_map(|action| text(&action["path"])).map(Seen::Read));
                seen.push(Seen::ToolStarted { id, name: named });
            } else {
                seen.push(Seen::ToolEnded { id });
            }
        }
        // What the prompt was is no news.
        "userMessage" => {}
        _ => seen.push(Seen::Spoke { visible: false }),
    }
}

fn http_status(info: &Value) -> Option<u16> {
    let about = info.as_object()?.values().next()?;
    status(&about["httpStatusCode"])
}

/// What an error of a turn means.
fn fault(error: &Value) -> Fault {
    let info = &error["codexErrorInfo"];
    let failure = match info.as_str() {
        Some("rateLimitExceeded") => &failure::RATE_LIMITED,
        Some("usageLimitExceeded") => &failure::RATE_LIMITED,
        Some("unauthorized") => &failure::NOT_SIGNED_IN,
        Some("modelNotFound") => &failure::MODEL_UNKNOWN,
        Some("contextWindowExceeded") => &failure::CONTEXT_FULL,
        Some("sessionBudgetExceeded") => &failure::BUDGET_SPENT,
        Some("tooManyDenials") => &failure::DENIED_TOO_OFTEN,
        Some("cyberPolicy" | "misalignmentPolicyViolation") => &failure::REFUSED,
        Some("sandboxError") => &failure::SANDBOX_FAILED,
        Some("badRequest") => &failure::REQUEST_REFUSED,
        Some(
            "internalServerError"
            | "serverOverloaded"
            | "flexUnavailable"
            | "policyCapacityUnavailable",
        ) => &failure::PROVIDER_FAILED,
        Some(_) => &failure::CRASHED,
        None if info.is_object() => {
            http_status(info).map_or(&failure::PROVIDER_AWAY, Failure::of_status)
        }
        None => &failure::CRASHED,
    };
    failure.with(error["message"].as_str().unwrap_or_default())
}
