//! What was asked for counts in every part: a filter picks, and a version belongs to its request.

use serde_json::{Value, json};

use crate::caller::Ask;
use crate::foreign::EVE;
use crate::ground::Fresh;
use crate::scene::{ADA, BEA, Scene, Under, entry, holding};

crate::on_every_ground![
    a_list_of_one_run_has_nothing_of_another,
    the_version_is_part_of_what_a_request_key_was_used_for,
    figures_of_all_tenants_are_for_whoever_runs_the_server,
];

/// What a list shows of its items in this field.
async fn listed(scene: &Scene, what: &str, run: &str, field: &str) -> Vec<Value> {
    let list = scene.done(&ADA, what, json!({ "task": "T-13", "run": run })).await;
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| item[field].clone()).collect()
}

async fn a_list_of_one_run_has_nothing_of_another(fresh: Fresh) {
    let mut scene = Scene::new(fresh).await;
    scene.done(&ADA, "run retry", json!({ "run": "R-13.1", "reason": "once more" })).await;
    let claimed = scene.done(&BEA, "run claim", json!({ "task": "T-13" })).await;
    let token = claimed["claim_token"].as_str().expect("it is shown once").to_owned();
    scene.tokens.insert("again", token);
    let note = json!({ "run": "mine", "summary": "this time" });
    scene.done(&holding("again"), "run begin", json!({ "run": "mine" })).await;
    scene.done(&holding("again"), "run checkpoint", note).await;
    // An attempt is history once it is over.
    scene.done(&holding("again"), "run release", json!({ "run": "mine", "reason": "a" })).await;
    assert_eq!(listed(&scene, "attempt list", "R-13.1", "id").await, ["A-13.1"]);
    assert_eq!(listed(&scene, "attempt list", "R-13.2", "id").await, ["A-13.2"]);
    assert_eq!(listed(&scene, "checkpoint list", "R-13.1", "summary").await, [] as [&str; 0]);
    assert_eq!(listed(&scene, "checkpoint list", "R-13.2", "summary").await, ["this time"]);
}

async fn the_version_is_part_of_what_a_request_key_was_used_for(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let shown = scene.done(&ADA, "task show", json!({ "task": "T-1" })).await;
    let version = shown["version"].as_u64().expect("it has one");
    let edit = |version| {
        let arguments = json!({ "task": "T-1", "title": "better" });
        scene.perform(&ADA, entry("task edit"), arguments, Under { request: "edit", version })
    };
    assert!(edit(Some(version)).await.is_ok());
    let again = edit(Some(version)).await.expect("it is repeated");
    assert!(again.replayed);
    for other in [None, Some(version + 1)] {
        let refused = edit(other).await.map(|reply| reply.body);
        assert_eq!(refused.map_err(|problem| problem.code()), Err("key_reused"), "{other:?}");
    }
}

async fn figures_of_all_tenants_are_for_whoever_runs_the_server(fresh: Fresh) {
    let scene = Scene::bare(fresh).await;
    let ask = |who| scene.signed(who, Ask::get("/metrics"));
    assert_eq!(scene.world.ask(&ask(&ADA)).await.status, 200);
    let refused = scene.world.ask(&ask(&EVE)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "not_for_you"));
}
