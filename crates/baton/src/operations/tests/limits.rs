use serde_json::json;

use super::desk::{Desk, ids};

#[tokio::test]
async fn a_limit_is_set_reached_raised_and_lifted() {
    let desk = Desk::open().await;
    for title in ["one", "two", "three"] {
        desk.task(title, json!({ "stage": "coding" })).await;
    }
    let pool = "stage demo coding";
    let set = desk.done("pool set", json!({ "pool": pool, "limit": 1 })).await;
    assert_eq!((&set["pool"], &set["limit"], &set["used"]), (&json!(pool), &json!(1), &json!(0)));
    desk.done("run claim", json!({})).await;
    assert_eq!(desk.refused("run claim", json!({})).await.0, "nothing_claimable");
    let listed = desk.done("pool list", json!({})).await;
    assert_eq!((ids(&listed, "pool"), &listed["items"][0]["used"]), (vec![pool.into()], &json!(1)));
    desk.done("pool set", json!({ "pool": pool, "limit": 2 })).await;
    desk.done("run claim", json!({})).await;
    let lifted = desk.done("pool set", json!({ "pool": pool })).await;
    assert!(lifted.get("limit").is_none());
    desk.done("run claim", json!({})).await;
}

#[tokio::test]
async fn every_pause_is_lifted_by_its_own_name() {
    let desk = Desk::open().await;
    let task = desk.task("one", json!({ "stage": "coding" })).await;
    let parts = [
        (json!({}), "scheduler".to_owned()),
        (json!({ "project": "demo" }), "project demo".to_owned()),
        (json!({ "project": "demo", "stage": "coding" }), "stage demo coding".to_owned()),
        (json!({ "task": task }), format!("tree {task}")),
    ];
    for (part, pool) in parts {
        let mut pause = part.clone();
        pause["reason"] = json!("a night");
        let paused = desk.done("scheduler pause", pause).await;
        assert_eq!(
            (&paused["pool"], &paused["paused"]["reason"]),
            (&json!(pool), &json!("a night"))
        );
        assert_eq!(desk.refused("run claim", json!({})).await.0, "nothing_claimable", "{pool}");
        let resumed = desk.done("scheduler resume", part).await;
        assert!(resumed.get("paused").is_none());
        assert_eq!(
            desk.done("task explain", json!({ "task": task })).await["causes"][0]["code"],
            "no_worker"
        );
    }
    desk.done("run claim", json!({})).await;
}

#[tokio::test]
async fn what_cannot_be_limited_or_paused_leaves_no_trace() {
    let desk = Desk::open().await;
    let cases = [
        ("pool set", json!({ "pool": "everything", "limit": 1 }), "invalid"),
        ("pool set", json!({ "pool": "stage demo", "limit": 1 }), "invalid"),
        ("pool set", json!({ "pool": "scheduler", "limit": 1 }), "invalid"),
        ("pool set", json!({ "pool": "project demo", "limit": 1 }), "invalid"),
        ("pool set", json!({ "pool": "stage demo nowhere", "limit": 1 }), "no_stage"),
        ("pool set", json!({ "pool": "stage other coding", "limit": 1 }), "not_found"),
        ("pool set", json!({ "pool": "key other database", "limit": 1 }), "not_found"),
        ("pool set", json!({ "pool": "budget T-99", "limit": 1 }), "not_found"),
        ("pool set", json!({ "pool": "budget T-99" }), "not_found"),
        ("pool set", json!({ "pool": "holder ann", "limit": -1 }), "invalid"),
        ("scheduler pause", json!({}), "invalid"),
        ("scheduler pause", json!({ "reason": "x", "stage": "coding" }), "invalid"),
        ("scheduler pause", json!({ "reason": "x", "project": "demo", "task": "T-1" }), "invalid"),
        ("scheduler pause", json!({ "reason": "x", "project": "other" }), "not_found"),
        ("scheduler pause", json!({ "reason": "x", "task": "T-99" }), "not_found"),
        ("scheduler resume", json!({ "project": "demo", "stage": "nowhere" }), "no_stage"),
    ];
    for (what, arguments, code) in cases {
        assert_eq!(desk.refused(what, arguments.clone()).await.0, code, "{what} {arguments}");
    }
}
