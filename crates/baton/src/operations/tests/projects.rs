use serde_json::json;

use super::desk::{Asker, Desk, ids};

#[tokio::test]
async fn a_project_is_added_listed_shown_and_removed() {
    let desk = Desk::open().await;
    let stages = json!([
        { "name": "coding" },
        { "name": "review", "worked_by": "person", "passed_by": "person" },
    ]);
    let added = desk
        .done("project add", json!({ "project": "shop", "root": "/srv/shop", "stages": stages }));
    let added = added.await;
    assert_eq!(added["stages"][0]["worked_by"], "agent");
    assert_eq!(added["stages"][1]["passed_by"], "person");
    assert!(added["as_of"].is_string(), "who follows from here misses nothing");
    let listed = desk.done("project list", json!({ "limit": 1 })).await;
    assert_eq!((ids(&listed, "id"), &listed["next"]), (vec!["demo".into()], &json!("demo")));
    let listed = desk.done("project list", json!({ "after": "demo" })).await;
    assert_eq!(ids(&listed, "id"), ["shop"]);
    assert!(listed.get("next").is_none());
    let shown = desk.done("project show", json!({ "project": "shop" })).await;
    assert_eq!(shown["root"], "/srv/shop");
    desk.done("project remove", json!({ "project": "shop" })).await;
    assert_eq!(desk.refused("project show", json!({ "project": "shop" })).await.0, "not_found");
}

#[tokio::test]
async fn a_paused_project_hands_out_nothing_until_it_is_resumed() {
    let desk = Desk::open().await;
    desk.task("wait", json!({ "stage": "coding" })).await;
    let paused = json!({ "project": "demo", "reason": "a freeze" });
    let paused = desk.done("project pause", paused).await;
    assert_eq!(paused["paused"]["reason"], "a freeze");
    assert_eq!(
        desk.done("project list", json!({})).await["items"][0]["paused"]["reason"],
        "a freeze"
    );
    assert_eq!(desk.refused("run claim", json!({})).await.0, "nothing_claimable");
    let resumed = desk.done("project resume", json!({ "project": "demo" })).await;
    assert!(resumed.get("paused").is_none());
    desk.done("run claim", json!({})).await;
}

#[tokio::test]
async fn what_cannot_be_done_to_a_project_leaves_no_trace() {
    let desk = Desk::open().await;
    desk.task("live", json!({})).await;
    let cases = [
        ("project remove", json!({ "project": "demo" }), "project_in_use"),
        ("project remove", json!({ "project": "nowhere" }), "not_found"),
        ("project pause", json!({ "project": "nowhere", "reason": "why" }), "not_found"),
        ("project resume", json!({ "project": "nowhere" }), "not_found"),
        ("project pause", json!({ "project": "demo", "reason": " " }), "invalid"),
        ("project pause", json!({ "project": "demo" }), "invalid"),
        (
            "project pause",
            json!({ "project": "demo", "reason": "late", "until": "2000-01-01T00:00:00Z" }),
            "invalid",
        ),
        ("project add", json!({ "project": "shop", "stages": [] }), "invalid"),
        ("project add", json!({ "project": "shop", "stages": [{ "name": "done" }] }), "invalid"),
        ("project add", json!({ "project": "Shop" }), "invalid"),
        ("project list", json!({ "limit": 0 }), "invalid"),
        ("project list", json!({ "limit": 501 }), "invalid"),
    ];
    for (what, arguments, code) in cases {
        assert_eq!(desk.refused(what, arguments.clone()).await.0, code, "{what} {arguments}");
    }
}

#[tokio::test]
async fn an_agent_may_look_at_projects_but_not_change_them() {
    let desk = Desk::open().await;
    let agent = Asker::agent();
    desk.ask_as(&agent, "project show", json!({ "project": "demo" })).await.expect("it may look");
    for (what, arguments) in [
        ("project add", json!({ "project": "shop" })),
        ("project pause", json!({ "project": "demo", "reason": "why" })),
        ("project remove", json!({ "project": "demo" })),
    ] {
        assert_eq!(desk.refused_to(&agent, what, arguments).await.0, "not_for_you", "{what}");
    }
}
