//! A request that was carried out and is asked again, after everything has changed, is never told
//! that nothing happened.

use baton_domain::time::Millis;
use serde_json::json;

use crate::examples::{example, table};
use crate::ground::Memory;
use crate::scene::{ADA, Scene, TASKS, entry, title};

/// Ends whatever there is: leases, runs, tasks, projects, keys that nobody needs.
async fn ruin(scene: &Scene) {
    let ask = |what: &'static str, arguments| async move {
        // Much of it has ended already, and then there is nothing to end.
        drop(scene.perform(&ADA, entry(what), arguments, &scene.mint()).await);
    };
    for _ in 0..2 {
        scene.world.clock.advance(Millis::hours(25));
        scene.world.engine.sweep(1_000).await.expect("time passes");
    }
    for number in 1..=TASKS.len() + 1 {
        let task = format!("T-{number}");
        ask("run cancel", json!({ "run": task, "reason": "over" })).await;
        ask("task close", json!({ "task": task, "reason": "over" })).await;
        ask("task archive", json!({ "task": task })).await;
    }
    for project in ["shop", "toys", "spare"] {
        ask("project remove", json!({ "project": project })).await;
    }
    ask("channel remove", json!({ "channel": "pager" })).await;
    ask("key revoke", json!({ "key": scene.spare, "reason": "over" })).await;
}

#[tokio::test]
async fn whatever_was_carried_out_is_never_denied_later() {
    let mut refused = 0;
    for entry in table().into_iter().filter(|entry| entry.about.takes_request_key()) {
        let scene = Scene::new(Memory::fresh).await;
        let (asked, title) = (example(&scene, entry), title(entry));
        let ask = || scene.perform(&asked.who, entry, asked.arguments.clone(), "once");
        let first = ask().await;
        first.unwrap_or_else(|problem| panic!("{title}: {}", problem.body()));
        ruin(&scene).await;
        if let Err(problem) = ask().await {
            assert_eq!(problem.body()["certainty"], "happened", "{title}: {}", problem.body());
            refused += 1;
        }
    }
    assert!(refused > 0, "nothing was in anybody's way: too tame");
}
