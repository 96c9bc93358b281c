use std::collections::BTreeSet;

use baton_domain::ids::Label;
use baton_domain::time::Millis;
use serde_json::json;

use super::desk::{Asker, Desk};
use crate::engine::tests::world::{name, tenant, text};
use crate::roster::{Card, Place};

#[tokio::test]
async fn tasks_are_counted_by_column_badge_and_need() {
    let desk = Desk::open().await;
    desk.task("one", json!({})).await;
    desk.task("two", json!({ "stage": "coding" })).await;
    desk.task("three", json!({ "stage": "coding", "needs_approval": true })).await;
    let stats = desk.done("stats show", json!({})).await;
    let columns = json!([
        { "project": "demo", "stage": "backlog", "count": 1 },
        { "project": "demo", "stage": "coding", "count": 2 },
    ]);
    assert_eq!(stats["columns"], columns);
    assert_eq!(stats["badges"], json!({ "waiting": 1, "queued": 1, "needs_you": 1 }));
    assert_eq!((&stats["needs"]["approval"], &stats["inbox"]), (&json!(1), &json!(1)));
    assert_eq!((&stats["claims_waiting"], &stats["more"]), (&json!(0), &json!(false)));
    let theirs = desk.ask_as(&Asker::stranger(), "stats show", json!({})).await;
    assert_eq!(theirs.expect("it may look")["columns"], json!([]), "no count leaks");
    let unknown = json!({ "project": "nowhere" });
    assert_eq!(desk.refused("stats show", unknown).await.0, "not_found");
}

#[tokio::test]
async fn health_names_what_is_wrong_and_what_to_do() {
    let desk = Desk::open().await;
    let health = desk.done("health show", json!({})).await;
    assert_eq!((&health["green"], &health["troubles"]), (&json!(true), &json!([])));
    desk.world.clock.advance(Millis::minutes(1));
    let health = desk.done("health show", json!({})).await;
    assert_eq!(
        (&health["green"], &health["troubles"][0]["code"]),
        (&json!(false), &json!("sweep_late"))
    );
    assert_eq!(health["troubles"][0]["next"], "baton doctor");
    for count in ["live", "waiting", "queued"] {
        assert!(health.get(count).is_none(), "counts would tell of other tenants");
    }
}

#[tokio::test]
async fn workers_are_listed_while_they_are_here_and_drained_by_their_name() {
    let desk = Desk::open().await;
    let now = desk.world.engine.now();
    for worker in ["one", "two"] {
        let place = Place {
            tenant: tenant(),
            principal: name(worker),
            machine: Label::new("lap").expect("a plain word is a label"),
        };
        let card = Card {
            version: text("0.1.0"),
            slots: 3,
            agents: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            accounts: vec![],
            came_at: now,
            heard_at: now,
        };
        desk.world.engine.roster().put(place, card);
    }
    let drained = json!({ "worker": "two", "reason": "it goes" });
    desk.done("worker drain", drained).await;
    let page = desk.done("worker list", json!({ "limit": 1 })).await;
    assert_eq!((&page["items"][0]["worker"], &page["next"]), (&json!("one"), &json!("one")));
    let rest = desk.done("worker list", json!({ "after": "one" })).await;
    assert_eq!(rest["items"][0]["drained"]["reason"], "it goes");
    assert_eq!(rest["items"][0]["slots"], 3);
    desk.done("worker resume", json!({ "worker": "two" })).await;
    let rest = desk.done("worker list", json!({ "after": "one" })).await;
    assert!(rest["items"][0].get("drained").is_none() && rest.get("next").is_none(), "{rest}");
    let theirs = desk.ask_as(&Asker::stranger(), "worker list", json!({})).await;
    assert_eq!(theirs.expect("it may look")["items"], json!([]), "no worker of another tenant");
}
