//! One request per operation that is granted in the scene. An operation without one fails the
//! tests: whoever adds it adds its example.

use baton::operation::Entry;
use baton::operations;
use serde_json::{Value, json};

use crate::scene::{ADA, BEA, Scene, Who, holding, title};

/// A request.
#[derive(Clone, Debug)]
pub struct Example {
    pub who: Who,
    pub arguments: Value,
}

/// Every operation but one: who has revoked the key that it shows can ask nothing else, and not the
/// same again, so `key revoke-self` has tests of its own.
pub fn table() -> Vec<&'static Entry> {
    let apart = |entry: &&Entry| title(entry) != "key revoke-self";
    operations::all().iter().filter(apart).collect()
}

/// The example of an operation.
pub fn example(scene: &Scene, entry: &Entry) -> Example {
    example_with(&scene.spare, entry)
}

/// The same where this is the id of the key that nobody needs.
pub fn example_with(spare: &str, entry: &Entry) -> Example {
    let title = title(entry);
    let by = |who: Who, arguments: Value| Example { who, arguments };
    if let Some((_, token, arguments)) = OF_HOLDERS.iter().find(|(what, ..)| *what == title) {
        return by(holding(token), read(arguments));
    }
    if let Some((_, arguments)) = OF_PERSONS.iter().find(|(what, _)| *what == title) {
        return by(ADA, read(arguments));
    }
    match title.as_str() {
        "run claim" => by(BEA, json!({ "task": "T-1" })),
        "run start" => by(BEA, json!({ "project": "shop", "title": "an own goal" })),
        "key rotate" => by(ADA, json!({ "key": spare, "overlap": "5m" })),
        "key revoke" => by(ADA, json!({ "key": spare, "reason": "nobody needs it" })),
        "tenant create" => by(ADA, json!({ "tenant": "third" })),
        "tenant list" => by(ADA, json!({ "limit": 5 })),
        _ => panic!("`{title}` has no example: add one"),
    }
}

fn read(arguments: &str) -> Value {
    serde_json::from_str(arguments).expect("it is JSON")
}

/// What the holder of a run says, under which token.
const OF_HOLDERS: &[(&str, &str, &str)] = &[
    ("run begin", "claimed", r#"{ "run": "R-15.1" }"#),
    ("run heartbeat", "held", r#"{ "run": "R-4.1", "lease": "10m" }"#),
    (
        "run progress",
        "held",
        r#"{ "run": "R-4.1", "done": ["a"], "failed": [{ "item": "b", "reason": "stuck" }] }"#,
    ),
    (
        "run checkpoint",
        "held",
        r#"{ "run": "R-4.1", "summary": "more of it", "git": { "head": "abc" },
            "evidence": [{ "kind": "photo", "reference": "a.png" }] }"#,
    ),
    ("run ask", "held", r#"{ "run": "R-4.1", "question": "how many?" }"#),
    ("run receive", "answered", r#"{ "run": "R-14.1", "mark": "applied" }"#),
    ("run block", "held", r#"{ "run": "R-4.1", "kind": "needs_input", "reason": "which?" }"#),
    ("run release", "held", r#"{ "run": "R-4.1", "reason": "no time" }"#),
    ("run exit", "held", r#"{ "run": "R-4.1" }"#),
    ("run complete", "held", r#"{ "run": "R-4.1", "summary": "all of it" }"#),
    ("run fail", "held", r#"{ "run": "R-4.1", "code": "stuck", "reason": "no way" }"#),
];

/// What a person asks.
const OF_PERSONS: &[(&str, &str)] = &[
    ("project add", r#"{ "project": "toys", "stages": [{ "name": "coding" }] }"#),
    ("project list", r#"{ "limit": 5 }"#),
    ("project show", r#"{ "project": "shop" }"#),
    ("project pause", r#"{ "project": "shop", "reason": "a holiday" }"#),
    ("project resume", r#"{ "project": "spare" }"#),
    ("project remove", r#"{ "project": "spare" }"#),
    (
        "task create",
        r#"{ "project": "shop", "title": "more", "labels": ["a"], "policy": { "lease": "5m" },
            "contract": [{ "id": "tests", "kind": "gate", "command": "make test" }] }"#,
    ),
    ("task publish", r#"{ "task": "T-2" }"#),
    ("task show", r#"{ "task": "T-4" }"#),
    ("task list", r#"{ "project": "shop", "ended": true, "limit": 20 }"#),
    ("task edit", r#"{ "task": "T-1", "title": "better", "clear": ["assignee"] }"#),
    ("task move", r#"{ "task": "T-1", "stage": "backlog" }"#),
    ("task approve", r#"{ "task": "T-3" }"#),
    ("task reject", r#"{ "task": "T-3", "reason": "no" }"#),
    ("task freeze", r#"{ "task": "T-1", "reason": "later" }"#),
    ("task unfreeze", r#"{ "task": "T-5", "reason": "now" }"#),
    ("task hold", r#"{ "task": "T-1", "reason": "look" }"#),
    ("task unhold", r#"{ "task": "T-6", "reason": "looked" }"#),
    ("task close", r#"{ "task": "T-1", "ending": "superseded", "by": "T-9", "reason": "no" }"#),
    ("task archive", r#"{ "task": "T-7" }"#),
    ("task depend", r#"{ "task": "T-1", "on": "T-9" }"#),
    ("task undepend", r#"{ "task": "T-8", "on": "T-1" }"#),
    ("task tree", r#"{ "task": "T-9" }"#),
    ("task explain", r#"{ "task": "T-8" }"#),
    ("backlog list", r#"{ "project": "shop" }"#),
    ("run show", r#"{ "run": "R-11.1", "handoff": true }"#),
    ("run list", r#"{ "project": "shop", "live": true }"#),
    ("run answer", r#"{ "run": "R-11.1", "answer": "green" }"#),
    ("run unblock", r#"{ "run": "R-12.1", "reason": "any size" }"#),
    ("run wait", r#"{ "run": "R-4.1", "since": 0, "wait": "1s" }"#),
    ("run cancel", r#"{ "run": "R-4.1", "reason": "not today" }"#),
    ("run retry", r#"{ "run": "R-13.1", "reason": "once more" }"#),
    ("run logs", r#"{ "run": "R-4.1", "limit": 5 }"#),
    ("run diff", r#"{ "run": "R-4.1", "stat": true }"#),
    ("run handoff", r#"{ "run": "R-4.1" }"#),
    ("run waive", r#"{ "run": "R-17.1", "reason": "seen by eye" }"#),
    (
        "run review",
        r#"{ "run": "R-18.1", "verdict": "reject", "reason": "it looks odd", "confidence": 90,
            "missing": ["a picture"] }"#,
    ),
    ("run force-release", r#"{ "run": "R-4.1", "reason": "it is gone" }"#),
    ("run force-fail", r#"{ "run": "R-4.1", "code": "gone", "reason": "it is gone" }"#),
    ("checkpoint list", r#"{ "task": "T-4" }"#),
    ("checkpoint show", r#"{ "task": "T-4", "number": 1 }"#),
    ("attempt list", r#"{ "task": "T-13" }"#),
    ("attempt show", r#"{ "attempt": "A-13.1" }"#),
    ("receipt list", r#"{ "task": "T-16" }"#),
    ("receipt show", r#"{ "task": "T-16", "line": "tests" }"#),
    ("receipt keys", r#"{}"#),
    ("inbox list", r#"{ "project": "shop" }"#),
    (
        "channel add",
        r#"{ "channel": "pager", "webhook": "https://127.0.0.1:9/in", "need": ["stop_unverified"],
            "done": false, "delay": "5m", "quiet_hours": "22:00-07:00 Europe/Berlin" }"#,
    ),
    ("channel list", r#"{ "limit": 5 }"#),
    ("channel test", r#"{ "channel": "desk" }"#),
    ("channel remove", r#"{ "channel": "desk" }"#),
    ("event list", r#"{ "limit": 100 }"#),
    ("pool list", r#"{ "limit": 100 }"#),
    ("pool set", r#"{ "pool": "holder bea", "limit": 9 }"#),
    ("scheduler pause", r#"{ "project": "shop", "stage": "coding", "reason": "a holiday" }"#),
    ("scheduler resume", r#"{ "task": "T-9" }"#),
    ("worker list", "{}"),
    ("worker drain", r#"{ "worker": "bea", "reason": "its machine goes" }"#),
    ("worker resume", r#"{ "worker": "rex" }"#),
    ("stats show", "{}"),
    ("health show", "{}"),
    (
        "bulk submit",
        r#"{ "entries": [{ "operation": "task_show", "arguments": { "task": "T-1" } },
            { "operation": "task_freeze", "arguments": { "task": "T-1", "reason": "later" } },
            { "operation": "task_show", "arguments": { "task": "T-999" } }] }"#,
    ),
    ("key create", r#"{ "name": "another", "scopes": ["task:read"], "lifetime": "1h" }"#),
    ("key list", "{}"),
];
