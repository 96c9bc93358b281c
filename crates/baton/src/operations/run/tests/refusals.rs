//! What is refused, and leaves no trace.

use baton_domain::time::Millis;
use serde_json::{Value, json};

use super::code;
use super::desk::{Desk, Who, ann, bot};
use crate::shape::Violation;

/// Every operation on runs that takes a reason or another text, with a text in its place.
fn texts(text: &str) -> Vec<(&'static str, &'static str, Value)> {
    let about = |more: Value| {
        let mut arguments = json!({ "run": "R-9.9" });
        let more = more.as_object().expect("fields").clone();
        arguments.as_object_mut().expect("fields").extend(more);
        arguments
    };
    vec![
        ("run block", "reason", about(json!({ "kind": "needs_input", "reason": text }))),
        ("run unblock", "reason", about(json!({ "reason": text }))),
        ("run release", "reason", about(json!({ "reason": text }))),
        ("run fail", "reason", about(json!({ "code": "broken", "reason": text }))),
        ("run cancel", "reason", about(json!({ "reason": text }))),
        ("run retry", "reason", about(json!({ "reason": text }))),
        ("run force-release", "reason", about(json!({ "reason": text }))),
        ("run force-fail", "reason", about(json!({ "code": "broken", "reason": text }))),
        ("run ask", "question", about(json!({ "question": text }))),
        ("run answer", "answer", about(json!({ "answer": text }))),
        ("run progress", "summary", about(json!({ "summary": text }))),
        ("run checkpoint", "summary", about(json!({ "summary": text }))),
        ("run complete", "summary", about(json!({ "summary": text }))),
        ("run start", "title", json!({ "title": text })),
    ]
}

/// Asks as a person, who may ask all of them, and has every refusal before any look at the store.
async fn refused_unseen(desk: &Desk, text: &str, rule: &str) {
    let orders = desk.world.flaws.orders();
    for (what, field, arguments) in texts(text) {
        let problem = desk.refused(&ann(), what, arguments).await;
        assert_eq!(code(&problem), "invalid", "{what}: {problem}");
        let first = &problem["errors"][0];
        let violation = Violation {
            field: first["field"].as_str().expect("it is named").to_owned(),
            rule: first["rule"].as_str().expect("it is told").to_owned(),
        };
        assert_eq!(violation.field, field, "{what}");
        assert!(violation.rule.contains(rule), "{what}: {}", violation.rule);
        assert!(!problem.to_string().contains("batonc_1"), "{what} repeats the secret");
    }
    assert_eq!(desk.world.flaws.orders(), orders, "nothing reached the store");
}

#[tokio::test]
async fn a_blank_reason_is_refused_before_the_lease_is_looked_at() {
    let desk = Desk::new().await;
    refused_unseen(&desk, " \t\n ", "must not be blank").await;
}

#[tokio::test]
async fn a_text_with_a_claim_token_is_refused_and_never_kept() {
    let desk = Desk::new().await;
    refused_unseen(&desk, "look: batonc_1abcdef", "must not contain a claim token").await;
    assert!(!desk.dump().await.contains("batonc_"));
}

#[tokio::test]
async fn a_text_with_hidden_characters_is_refused() {
    let desk = Desk::new().await;
    refused_unseen(&desk, "wipe \u{1b}[2J", "must not contain the hidden character").await;
}

#[tokio::test]
async fn a_block_says_what_its_kind_needs_and_nothing_else() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let cases = [
        (json!({ "kind": "capability" }), "capability"),
        (json!({ "kind": "transient" }), "until"),
        (json!({ "kind": "dependency" }), "on"),
        (json!({ "kind": "limit" }), "kind"),
        (json!({ "kind": "needs_input", "on": "T-1" }), "on"),
        (json!({ "kind": "capability", "capability": "rust", "on": "T-1" }), "on"),
        (json!({ "kind": "dependency", "on": "T-1" }), "on"),
        (json!({ "kind": "transient", "until": "2001-01-01T00:00:00Z" }), "until"),
    ];
    for (mut block, field) in cases {
        block["run"] = json!("mine");
        block["reason"] = json!("stuck");
        let problem = desk.refused(&bea, "run block", block.clone()).await;
        let known = [code(&problem), field];
        assert!(
            problem["errors"][0]["field"] == field || known[0] == "cycle",
            "{block} is refused with {problem}"
        );
    }
    let block = json!({ "run": "mine", "kind": "capability", "capability": "rust",
        "reason": "it is in Rust" });
    let blocked = desk.granted(&bea, "run block", block).await;
    assert_eq!(blocked["block"]["capability"], "rust");
    assert!(blocked["lease"].is_null() && blocked["holder"].is_null());
}

/// Everything that a holder may say.
fn sayings() -> Vec<(&'static str, Value)> {
    let run = json!({ "run": "mine" });
    let with = |more: Value| {
        let mut arguments = run.clone();
        let more = more.as_object().expect("fields").clone();
        arguments.as_object_mut().expect("fields").extend(more);
        arguments
    };
    vec![
        ("run begin", with(json!({}))),
        ("run heartbeat", with(json!({}))),
        ("run progress", with(json!({ "summary": "on it" }))),
        ("run checkpoint", with(json!({ "summary": "half" }))),
        ("run ask", with(json!({ "question": "which colour?" }))),
        ("run receive", with(json!({ "mark": "applied" }))),
        ("run block", with(json!({ "kind": "needs_input", "reason": "stuck" }))),
        ("run release", with(json!({ "reason": "no time" }))),
        ("run complete", with(json!({}))),
        ("run fail", with(json!({ "code": "broken", "reason": "it broke" }))),
    ]
}

#[tokio::test]
async fn a_late_holder_is_refused_whatever_it_says() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    desk.world.clock.advance(Millis::minutes(6));
    desk.world.sweep_until_amnesty_ends().await;
    desk.granted(&bot("cid"), "run claim", json!({})).await;
    for (what, arguments) in sayings() {
        assert_eq!(code(&desk.refused(&bea, what, arguments).await), "lease_lost", "{what}");
    }
}

#[tokio::test]
async fn a_holder_without_token_names_its_attempt_and_nobody_elses() {
    let desk = Desk::new().await;
    desk.claimed(&bot("bea")).await;
    let say = |attempt: Value| {
        let mut arguments = json!({ "run": "T-1", "summary": "on it" });
        if !attempt.is_null() {
            arguments["attempt"] = attempt;
        }
        arguments
    };
    let asked = |who: Who, attempt: Value| {
        let desk = &desk;
        async move { desk.refused(&who, "run progress", say(attempt)).await }
    };
    assert_eq!(code(&asked(bot("bea"), Value::Null).await), "malformed");
    assert_eq!(code(&asked(bot("bea"), json!("A-1.2")).await), "lease_lost");
    assert_eq!(code(&asked(bot("cid"), json!("A-1.1")).await), "lease_lost");
    for wrong in [json!("A-2.1"), json!(1), json!("1")] {
        let problem = asked(bot("bea"), wrong).await;
        assert_eq!(
            (code(&problem), problem["errors"][0]["field"].clone()),
            ("invalid", json!("attempt"))
        );
    }
    desk.granted(&bot("bea"), "run progress", say(json!("A-1.1"))).await;
}

#[tokio::test]
async fn a_run_of_another_tenant_is_a_run_that_is_not_there() {
    let desk = Desk::new().await;
    desk.claimed(&bot("bea")).await;
    let other = ann().elsewhere();
    let operations = [
        ("run show", json!({ "run": "T-1" })),
        ("run show", json!({ "run": "R-1.1" })),
        ("run handoff", json!({ "run": "T-1" })),
        ("run wait", json!({ "run": "T-1", "wait": "1ms" })),
        ("run cancel", json!({ "run": "T-1", "reason": "mine now" })),
        ("run answer", json!({ "run": "T-1", "answer": "green" })),
        ("run unblock", json!({ "run": "T-1", "reason": "mine now" })),
        ("run retry", json!({ "run": "T-1", "reason": "mine now" })),
        ("run progress", json!({ "run": "T-1", "attempt": "A-1.1", "summary": "on it" })),
        ("checkpoint list", json!({ "task": "T-1" })),
        ("checkpoint show", json!({ "task": "T-1", "number": 1 })),
        ("attempt list", json!({ "task": "T-1" })),
        ("attempt show", json!({ "attempt": "A-1.1" })),
        ("receipt list", json!({ "task": "T-1" })),
    ];
    for (what, arguments) in operations {
        let problem = desk.refused(&other, what, arguments.clone()).await;
        assert_eq!(code(&problem), "not_found", "{what} {arguments}");
    }
    let list = desk.granted(&other, "run list", json!({})).await;
    assert_eq!(list["items"], json!([]));
}
