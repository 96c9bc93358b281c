//! Tokens where they are not good: for another run, of a lease that is over, after the end.

use baton::operation::{Entry, Permit};
use baton::operations;
use baton_domain::scope::Level;
use baton_domain::time::Millis;
use serde_json::{Value, json};

use crate::examples::{example, table};
use crate::ground::Fresh;
use crate::scene::{Scene, Who, holding, title};
use crate::surfaces::plain;

crate::on_every_ground![
    a_token_is_good_for_its_own_run_alone,
    a_holder_that_slept_past_its_lease_changes_nothing,
    the_token_of_a_parked_or_finished_run_is_dead,
    the_next_holder_is_not_reached_by_the_token_of_the_last,
    a_token_is_refused_in_every_text,
];

/// Everything that a holder says of its run.
pub fn words() -> impl Iterator<Item = &'static Entry> {
    table().into_iter().filter(|entry| {
        entry.about.permit == Permit::Scope(Level::Work)
            && entry.about.placeholders().any(|name| name == "run")
    })
}

/// What is said to every word of a holder about this run.
async fn codes(scene: &Scene, who: &Who, run: &str) -> Vec<(String, u16, String)> {
    let mut all = vec![];
    for entry in words() {
        let mut arguments = example(scene, entry).arguments;
        arguments["run"] = json!(run);
        let request = scene.signed(who, plain(entry, &arguments, &scene.mint()));
        let answer = scene.world.ask(&request).await;
        all.push((title(entry), answer.status, answer.code()));
    }
    assert!(all.len() >= 10, "a holder has more to say than {all:?}");
    all
}

fn all_are(found: Vec<(String, u16, String)>, status: u16, code: &str) {
    for (word, own, said) in found {
        assert_eq!((own, said.as_str()), (status, code), "{word}");
    }
}

async fn a_token_is_good_for_its_own_run_alone(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    for run in ["R-11.1", "T-15", "R-999.1"] {
        all_are(codes(&scene, &holding("held"), run).await, 404, "not_found");
    }
    assert_eq!(scene.dump().await, before);
}

async fn a_holder_that_slept_past_its_lease_changes_nothing(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    // The clockwork goes on while the holder stands still.
    scene.world.engine.sweep(100).await.expect("time passes");
    for _ in 0..200 {
        scene.world.clock.advance(Millis::seconds(2));
        scene.world.engine.sweep(100).await.expect("time passes");
    }
    let shown = scene.done(&crate::scene::ADA, "run show", json!({ "run": "R-4.1" })).await;
    assert_eq!(shown["state"], "queued", "its run is free");
    let before = scene.dump().await;
    for run in ["mine", "R-4.1", "T-4"] {
        all_are(codes(&scene, &holding("held"), run).await, 409, "lease_lost");
    }
    assert_eq!(scene.dump().await, before);
}

async fn the_token_of_a_parked_or_finished_run_is_dead(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    for token in ["blocked", "failed"] {
        all_are(codes(&scene, &holding(token), "mine").await, 409, "lease_lost");
    }
    assert_eq!(scene.dump().await, before);
}

async fn the_next_holder_is_not_reached_by_the_token_of_the_last(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let why = json!({ "run": "R-4.1", "reason": "it is gone" });
    scene.done(&crate::scene::ADA, "run force-release", why).await;
    let taken = scene.done(&crate::scene::WES, "run claim", json!({ "task": "T-4" })).await;
    assert_eq!(taken["attempt"], "A-4.2");
    let before = scene.dump().await;
    all_are(codes(&scene, &holding("held"), "R-4.1").await, 409, "lease_lost");
    let entry = operations::find("run", "begin").expect("it is in the table");
    let named = json!({ "run": "R-4.1", "attempt": "A-4.2" });
    let request = scene.signed(&crate::scene::BEA, plain(entry, &named, "named"));
    let answer = scene.world.ask(&request).await;
    assert_eq!(answer.code(), "lease_lost", "an attempt is named by its holder alone");
    assert_eq!(scene.dump().await, before);
}

async fn a_token_is_refused_in_every_text(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let token = scene.tokens["held"].clone();
    for entry in table() {
        let asked = example(&scene, entry);
        for (name, value) in asked.arguments.as_object().expect("an object") {
            let free =
                ["reason", "title", "question", "answer", "summary"].contains(&name.as_str());
            if !free {
                continue;
            }
            let mut arguments = asked.arguments.clone();
            arguments[name] = json!(format!("{} {token}", value.as_str().unwrap_or_default()));
            let request = scene.signed(&asked.who, plain(entry, &arguments, "text"));
            let answer = scene.world.ask(&request).await;
            let told = format!("{} {name}: {}", title(entry), answer.json());
            assert_eq!((answer.status, answer.code().as_str()), (422, "invalid"), "{told}");
            let body: Value = answer.json();
            assert!(!body.to_string().contains(&token), "it is not repeated");
        }
    }
    assert_eq!(scene.dump().await, before);
}
