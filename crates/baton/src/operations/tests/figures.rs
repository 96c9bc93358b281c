use baton_domain::time::Millis;
use serde_json::json;

use super::desk::{Asker, Desk};

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
