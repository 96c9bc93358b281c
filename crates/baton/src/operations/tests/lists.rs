use baton_domain::command::Agent;
use baton_domain::time::Millis;
use serde_json::{Value, json};

use super::desk::{Asker, Desk, ids};
use crate::engine::tests::world::text;

#[tokio::test]
async fn a_list_shows_what_it_is_asked_for() {
    let desk = Desk::open().await;
    let plain = desk.task("plain", json!({})).await;
    let coding = desk.task("coding", json!({ "stage": "coding", "labels": ["web"] })).await;
    let bobs = desk.task("a Bug for bob", json!({ "assignee": "bob", "kind": "bug" })).await;
    let child = desk.task("child", json!({ "parent": plain, "depends_on": [bobs] })).await;
    let closed = desk.task("closed", json!({})).await;
    desk.done("task close", json!({ "task": closed, "reason": "no" })).await;
    let archived = desk.task("archived", json!({})).await;
    desk.done("task close", json!({ "task": archived, "reason": "no" })).await;
    desk.done("task archive", json!({ "task": archived })).await;
    let live = vec![&plain, &coding, &bobs, &child];
    let cases: Vec<(Value, Vec<&String>)> = vec![
        (json!({}), live.clone()),
        (json!({ "project": "demo" }), live.clone()),
        (json!({ "project": "other" }), vec![]),
        (json!({ "stage": "backlog" }), vec![&plain, &bobs, &child]),
        (json!({ "stage": "coding" }), vec![&coding]),
        (json!({ "stage": "closed" }), vec![&closed]),
        (json!({ "stage": "archived" }), vec![&archived]),
        (json!({ "stage": "done" }), vec![]),
        (json!({ "badge": "queued" }), vec![&coding]),
        (json!({ "label": "web" }), vec![&coding]),
        (json!({ "assignee": "bob" }), vec![&bobs]),
        (json!({ "kind": "bug" }), vec![&bobs]),
        (json!({ "parent": plain }), vec![&child]),
        (json!({ "waits_for": bobs }), vec![&child]),
        (json!({ "text": "bug FOR" }), vec![&bobs]),
        (json!({ "ended": true, "newest": true, "limit": 2 }), vec![&archived, &closed]),
    ];
    for (filter, found) in cases {
        let page = desk.done("task list", filter.clone()).await;
        assert_eq!(ids(&page, "id").iter().collect::<Vec<_>>(), found, "{filter}");
        assert!(page["as_of"].is_string());
    }
    let backlog = desk.done("backlog list", json!({ "assignee": "bob" })).await;
    assert_eq!(ids(&backlog, "id"), [bobs.as_str()]);
    assert_eq!(ids(&desk.done("backlog list", json!({})).await, "id").len(), 3);
}

#[tokio::test]
async fn pages_follow_one_another_without_gaps() {
    let desk = Desk::open().await;
    for number in 1..=5 {
        desk.task(&format!("task {number}"), json!({})).await;
    }
    let mut seen = vec![];
    let mut page = desk.done("task list", json!({ "limit": 2 })).await;
    for _ in 0..5 {
        seen.extend(ids(&page, "id"));
        let Some(next) = page.get("next").cloned() else { break };
        page = desk.done("task list", json!({ "limit": 2, "after": next })).await;
    }
    assert_eq!(seen, ["T-1", "T-2", "T-3", "T-4", "T-5"]);
}

#[tokio::test]
async fn the_inbox_tells_what_waits_since_when_and_what_to_do() {
    let desk = Desk::open().await;
    let approve = desk.task("approve", json!({ "needs_approval": true })).await;
    let asks = desk.task("asks", json!({ "stage": "coding" })).await;
    desk.task("fine", json!({})).await;
    let claimed = desk.world.claim("bob").await.expect("there is work");
    desk.world.say(&claimed, Agent::Begin).await.expect("it begins");
    desk.world.say(&claimed, Agent::Ask(text("Which colour?"))).await.expect("it may ask");
    let inbox = desk.done("inbox list", json!({})).await;
    assert_eq!(ids(&inbox, "task"), [approve.as_str(), asks.as_str()]);
    let (first, second) = (&inbox["items"][0], &inbox["items"][1]);
    assert_eq!((&first["need"], &second["need"]), (&json!("approval"), &json!("question")));
    assert_eq!(first["command"], format!("baton task approve {approve}"));
    assert_eq!(second["words"], "Which colour?");
    assert!(first["since"].is_string() && second["since"].is_string());
    assert!(second["otherwise_at"].is_string(), "a question does not wait for ever");
    let only = desk.done("inbox list", json!({ "need": "question" })).await;
    assert_eq!(ids(&only, "task"), [asks.as_str()]);
    desk.done("task approve", json!({ "task": approve })).await;
    assert_eq!(ids(&desk.done("inbox list", json!({})).await, "task"), [asks.as_str()]);
    let theirs = desk.ask_as(&Asker::stranger(), "inbox list", json!({})).await;
    assert_eq!(theirs.expect("it may look")["items"], json!([]));
}

#[tokio::test]
async fn the_inbox_tells_when_a_dependency_failed_and_which() {
    let desk = Desk::open().await;
    let first = desk.task("first", json!({})).await;
    let then = desk.task("then", json!({ "depends_on": [first] })).await;
    desk.done("task close", json!({ "task": first, "reason": "no" })).await;
    desk.world.clock.advance(Millis::seconds(1));
    desk.world.engine.sweep(100).await.expect("time passes");
    let inbox = desk.done("inbox list", json!({})).await;
    assert_eq!(inbox["items"][0]["need"], "dependency_failed");
    assert_eq!(inbox["items"][0]["command"], format!("baton task undepend {then} {first}"));
    assert!(inbox["items"][0]["since"].is_string());
}

#[tokio::test]
async fn events_are_read_page_by_page_and_followed_from_where_they_end() {
    let desk = Desk::open().await;
    let task = desk.task("told", json!({})).await;
    let first = desk.done("event list", json!({ "limit": 1 })).await;
    assert_eq!(first["items"][0]["events"][0]["event"], "project_put");
    assert!(first["items"][0].get("task").is_none());
    assert_eq!(first["next"], first["items"][0]["cursor"]);
    let then = desk.done("event list", json!({ "after": first["next"] })).await;
    assert_eq!(then["items"][0]["task"], task);
    assert_eq!(then["items"][0]["events"][0]["event"], "created");
    assert_eq!(then["items"][0]["actor"]["principal"], "ann");
    assert!(then.get("next").is_none());
    let end = then["as_of"].clone();
    assert_eq!(desk.done("event list", json!({ "after": end })).await["items"], json!([]));
    desk.task("another", json!({})).await;
    assert_eq!(desk.done("event list", json!({ "after": end })).await["items"][0]["task"], "T-2");
}

#[tokio::test]
async fn a_cursor_of_another_life_or_from_the_future_has_expired() {
    let desk = Desk::open().await;
    let end = desk.done("event list", json!({})).await["as_of"].clone();
    let (life, _) = end.as_str().and_then(|end| end.split_once('-')).expect("it is a cursor");
    for cursor in ["beef-1".to_owned(), format!("{life}-999")] {
        let (code, problem) = desk.refused("event list", json!({ "after": cursor })).await;
        assert_eq!((code, &problem["status"]), ("cursor_expired", &json!(410)));
    }
    assert_eq!(desk.refused("event list", json!({ "after": "now" })).await.0, "invalid");
}

/// The tasks of some events, in order.
fn tasks_of(body: &Value) -> Vec<&str> {
    let items = body["items"].as_array().expect("a list");
    items.iter().filter_map(|item| item["task"].as_str()).collect()
}

#[tokio::test]
async fn events_are_told_of_one_task_of_one_kind_and_from_the_end() {
    let desk = Desk::open().await;
    for title in ["one", "two"] {
        desk.done("task create", json!({ "project": "demo", "title": title })).await;
    }
    for reason in ["later", "much later"] {
        desk.done("task freeze", json!({ "task": "T-1", "reason": reason })).await;
        desk.done("task unfreeze", json!({ "task": "T-1", "reason": "now" })).await;
    }
    desk.done("scheduler pause", json!({ "reason": "a holiday" })).await;
    desk.done("scheduler resume", json!({})).await;
    let ask = |arguments: Value| desk.done("event list", arguments);

    let of_one = ask(json!({ "task": "T-1" })).await;
    assert_eq!(tasks_of(&of_one), ["T-1"; 5]);
    let holds = ask(json!({ "task": "T-1", "kind": "hold_set", "limit": 3 })).await;
    assert_eq!(tasks_of(&holds), ["T-1"; 3]);
    let rest = json!({ "task": "T-1", "kind": "hold_set", "after": holds["next"] });
    assert_eq!(tasks_of(&ask(rest).await), ["T-1"]);

    let all = ask(json!({})).await;
    let mut backwards = all["items"].as_array().expect("a list").clone();
    backwards.reverse();
    assert_eq!(ask(json!({ "newest": true })).await["items"], json!(backwards));
    let opened = &backwards[0]["events"][0];
    assert_eq!(*opened, json!({ "event": "pool_opened", "pool": "scheduler" }));
    let (mut paged, mut after) = (vec![], None);
    loop {
        let mut asked = json!({ "newest": true, "limit": 2 });
        if let Some(after) = after {
            asked["after"] = after;
        }
        let page = ask(asked).await;
        paged.extend(page["items"].as_array().expect("a list").clone());
        after = page.get("next").cloned();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, backwards, "page by page it is the same");
    let mut of_task = of_one["items"].as_array().expect("a list").clone();
    of_task.reverse();
    let newest = ask(json!({ "task": "T-1", "newest": true, "limit": 2 })).await;
    assert_eq!(newest["items"], json!(of_task[..2]));
    let then = json!({ "task": "T-1", "newest": true, "after": newest["next"] });
    assert_eq!(ask(then).await["items"], json!(of_task[2..]));
    assert_eq!(desk.refused("event list", json!({ "task": "T-9" })).await.0, "not_found");
}
