//! What people see.

use baton_domain::time::Timestamp;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::Machine;
use crate::cli::render::{Depth, Look, answer, clean, failure, json, json_lines};
use crate::cli::status::summary;
use crate::client::tests::Says;
use crate::operations;

fn look(color: bool) -> Look {
    // 2026-11-15T09:30:00Z
    Look { color, now: Timestamp(1_794_735_000_000), all: false }
}

fn check(noun: &str, verb: &str, body: &Value, expected: Expect) {
    let entry = operations::find(noun, verb).expect("it is in the table");
    let depth = if entry.about.changes() { Depth::Columns } else { Depth::Whole };
    let text = answer(body, &entry.answer, entry.about.columns, depth, look(false));
    expected.assert_eq(&text);
}

fn task(id: &str, badge: &str, title: &str) -> Value {
    json!({
        "id": id, "badge": badge, "stage": "coding", "title": title, "project": "shop",
        "labels": ["a", "b"], "needs": [], "created_at": "2026-11-15T09:25:00.000Z",
        "run": { "id": "R-1.1", "state": "queued", "ready_at": "2026-11-15T09:29:10.000Z" },
        "body": "First line\nsecond line",
    })
}

#[test]
fn a_list_is_a_table() {
    let items = [task("T-1", "queued", "Fix the cart"), task("T-128", "done", "Another")];
    let body = json!({ "items": items, "next": "T-128", "as_of": "5-1" });
    check(
        "task",
        "list",
        &body,
        expect![[r#"
        ID     BADGE   STAGE   TITLE
        T-1    queued  coding  Fix the cart
        T-128  done    coding  Another
        … there are more: --after T-128
    "#]],
    );
    check(
        "task",
        "list",
        &json!({ "items": [] }),
        expect![[r#"
        nothing
    "#]],
    );
}

#[test]
fn a_thing_is_its_fields() {
    check(
        "task",
        "show",
        &task("T-1", "queued", "Fix the cart"),
        expect![[r#"
        id            T-1
        badge         queued
        stage         coding
        title         Fix the cart
        body          First line
                      second line
        project       shop
        labels        a, b
        created_at    5m ago
        run.id        R-1.1
        run.state     queued
        run.ready_at  50s ago
    "#]],
    );
}

#[test]
fn what_was_done_is_one_line() {
    check(
        "task",
        "create",
        &task("T-1", "queued", "Fix the cart"),
        expect![[r#"
        T-1  queued  coding  Fix the cart
    "#]],
    );
}

#[test]
fn a_secret_is_shown_whole() {
    let token = "batonc_".to_owned() + &"x".repeat(90);
    let body = json!({
        "task": task("T-1", "running", "Fix the cart"), "run": { "id": "R-1.1", "state": "leased" },
        "attempt": "A-1.1", "lease": { "expires_at": "2026-11-15T09:35:00.000Z" },
        "claim_token": token, "at": "2026-11-15T09:30:00.000Z",
    });
    check(
        "run",
        "claim",
        &body,
        expect![[r#"
        task         T-1  Fix the cart
        run          R-1.1  leased
        attempt      A-1.1
        lease        in 5m
        claim_token  batonc_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    "#]],
    );
}

#[test]
fn causes_are_a_table_below_what_they_are_of() {
    let cause = json!({
        "code": "held", "sentence": "ada works on it.", "since": "2026-11-15T08:00:00.000Z",
        "command": "baton show T-1",
    });
    let body = json!({ "id": "T-1", "badge": "running", "causes": [cause] });
    check(
        "task",
        "explain",
        &body,
        expect![[r#"
            id     T-1
            badge  running

            CODE  SENTENCE          SINCE       COMMAND
            held  ada works on it.  1h 30m ago  baton show T-1
        "#]],
    );
}

#[test]
fn a_failure_says_what_why_and_what_next() {
    let body = json!({
        "title": "A value breaks a rule", "detail": "`title` is missing",
        "errors": [{ "field": "title", "rule": "is missing" }, { "field": "kind", "rule": "must be one of a, b" }],
        "next": ["baton add --help", "baton ls"],
    });
    expect![[r#"
        error: A value breaks a rule
          why: `title` is missing
               `kind` must be one of a, b
          next: baton add --help
                baton ls
    "#]]
    .assert_eq(&failure(&body));
}

#[test]
fn colours_are_ours_and_do_not_shift_a_table() {
    let entry = operations::find("task", "list").expect("tasks can be listed");
    let items = [task("T-1", "failed", "a"), task("T-2", "done", "b")];
    let body = json!({ "items": items });
    let text = answer(&body, &entry.answer, entry.about.columns, Depth::Whole, look(true));
    let plain = answer(&body, &entry.answer, entry.about.columns, Depth::Whole, look(false));
    assert!(text.contains("\u{1b}[31mfailed\u{1b}[0m"));
    let bare = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m"]
        .iter()
        .fold(text, |text, code| text.replace(code, ""));
    assert_eq!(bare, plain);
}

/// Texts that try to steer a terminal, or to hide something from whoever reads them.
const HOSTILE: [&str; 8] = [
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{9b}31mred",
    "\u{1b}]0;title\u{1b}\\",
    "a\u{202e}b",
    "a\u{2066}b\u{2069}",
    "over\rwrite\u{8}\u{7f}",
    "tag\u{e0041}\u{200b}\u{feff}",
];

#[tokio::test]
async fn nothing_hostile_reaches_a_terminal() {
    for text in HOSTILE {
        let steers = |text: &str| text.chars().any(|c| c != '\n' && clean::is_hidden(c));
        assert!(steers(text) && !steers(&clean::line(text)) && !steers(&clean::lines(text)));
        let body = json!({ "items": [task(text, text, text)], text: text, "next": text });
        let single = task(text, text, text);
        let wrong = json!({
            "code": "invalid", "title": text, "detail": text, "next": [text],
            "errors": [{}, { "field": text, "rule": text }], "missing": [{ "line": text, "path": text }],
        });
        for words in [&["ls"][..], &["ls", "--json"], &["ls", "--jsonl"], &["show", "T-1"], &[]] {
            let said = if words.first() == Some(&"show") { &single } else { &body };
            for says in
                [Says::Answer(200, said.clone(), None), Says::Answer(422, wrong.clone(), None)]
            {
                let printed = Machine::serving(vec![says]).types(words).await;
                assert!(!steers(&printed.out) && !steers(&printed.err), "{words:?} {printed:?}");
            }
        }
    }
}

#[test]
fn json_is_the_body_whatever_is_in_it() {
    for text in HOSTILE {
        let body = json!({ "items": [{ "title": text }], "as_of": "5-1" });
        let read: Value = serde_json::from_str(&json(&body)).expect("it is JSON");
        assert_eq!(read, body);
        let read: Value = serde_json::from_str(&json_lines(&body)).expect("it is one line");
        assert_eq!(read, body["items"][0]);
    }
}

#[test]
fn the_status_says_what_needs_you_and_what_to_do() {
    let mut waiting = task("T-7", "waiting_for_input", "Round half up?");
    waiting["needs"] = json!(["question"]);
    let mut held = task("T-3", "running", "Keep sessions");
    held["run"]["attempt"] = json!("A-3.1");
    let body = json!({ "items": [waiting, held, task("T-9", "queued", "Later")] });
    expect![[r#"
        1 need you · 1 at work · 1 other

        NEEDS YOU
          T-7     waiting_for_input   coding    Round half up?

        AT WORK
          T-3     running             coding    Keep sessions

        next: baton inbox
    "#]]
    .assert_eq(&summary(&body, &Value::Null, None));
}

#[test]
fn exhausted_accounts_are_told_before_anything_else() {
    let tasks = json!({ "items": [task("T-1", "queued", "First")] });
    let until = "2026-11-15T12:00:00.000Z";
    let stats = json!({ "exhausted": { "accounts": ["acme", "bolt"], "until": until } });
    let told = summary(&tasks, &stats, None);
    let line = told.lines().nth(1).expect("it has a second line");
    let expected = "queued work waits: every account is exhausted (acme, bolt); the first opens at";
    assert_eq!(line, format!("{expected} {until}"));
    assert!(!summary(&tasks, &json!({}), None).contains("exhausted"));
}
