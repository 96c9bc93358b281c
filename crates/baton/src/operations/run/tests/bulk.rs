//! Many requests in one.

use serde_json::{Value, json};

use super::code;
use super::desk::{Desk, ann, bot};

fn create(title: &str) -> Value {
    json!({ "operation": "task_create", "arguments": { "project": "demo", "title": title } })
}

#[tokio::test]
async fn each_of_many_is_carried_out_or_refused_by_itself() {
    let desk = Desk::new().await;
    let entries = json!({ "entries": [
        create("one"),
        { "operation": "task_show", "arguments": { "task": "T-9" } },
        { "operation": "task_create", "arguments": { "project": "demo", "title": " " } },
        { "operation": "no_such" },
        { "operation": "bulk_submit", "arguments": { "entries": [create("nested")] } },
        { "operation": "run_wait", "arguments": { "run": "T-1" } },
        { "operation": "run_claim" },
        create("two"),
    ] });
    let first = desk.ask_as(&ann(), "bulk submit", entries.clone(), "k").await;
    let first = first.expect("it may").body;
    let found: Vec<_> = first["items"].as_array().expect("a list").iter().collect();
    let statuses: Vec<_> = found.iter().map(|item| item["status"].as_u64()).collect();
    assert_eq!(statuses, [201, 404, 422, 422, 422, 422, 422, 201].map(Some));
    assert_eq!(first["failed"], 6);
    assert_eq!(found[0]["answer"]["id"], "T-1");
    assert_eq!(found[1]["problem"]["code"], "not_found");
    assert_eq!(found[4]["problem"]["errors"][0]["field"], "entries[4].operation");
    let dump = desk.dump().await;
    let again = desk.ask_as(&ann(), "bulk submit", entries, "k").await.expect("it may").body;
    assert_eq!(desk.dump().await, dump, "repeated as a whole, nothing happens twice");
    assert_eq!(again["items"][7]["answer"]["id"], "T-2");
    assert_eq!(again["items"][7]["replayed"], true);
}

#[tokio::test]
async fn each_of_many_needs_what_it_would_need_alone() {
    let desk = Desk::new().await;
    desk.claimed(&bot("bea")).await;
    let cancel = json!({ "run": "T-1", "reason": "not today" });
    let entries = json!({ "entries": [{ "operation": "run_cancel", "arguments": cancel }] });
    let dump = desk.dump().await;
    let answer = desk.granted(&bot("bea"), "bulk submit", entries).await;
    assert_eq!(answer["items"][0]["problem"]["code"], "not_for_you");
    assert_eq!(desk.dump().await, dump);
}

#[tokio::test]
async fn too_many_or_none_are_refused_whole() {
    let desk = Desk::new().await;
    let many: Vec<_> = (0..51).map(|n| create(&n.to_string())).collect();
    for entries in [json!([]), json!(many)] {
        let problem = desk.refused(&ann(), "bulk submit", json!({ "entries": entries })).await;
        assert_eq!(code(&problem), "invalid");
        assert_eq!(problem["errors"][0]["field"], "entries");
    }
}
