//! What is meant to spoil a run does not: after everything that a holder can be made to say wrong,
//! the run comes to its end like any other.

use serde_json::json;

use crate::attacks::words;
use crate::examples::example;
use crate::ground::Fresh;
use crate::raw::bodies;
use crate::scene::{ADA, Scene, holding, title};
use crate::surfaces::plain;
use crate::wrongness::wrongs;

crate::on_every_ground![a_poisoned_run_still_comes_to_its_end];

async fn a_poisoned_run_still_comes_to_its_end(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let (who, before) = (holding("held"), scene.dump().await);
    let mut caller = scene.world.connect().await;
    let mut asked = 0;
    for entry in words() {
        let mut arguments = example(&scene, entry).arguments;
        arguments["run"] = json!("mine");
        let good = scene.signed(&who, plain(entry, &arguments, "poison"));
        let text = String::from_utf8(good.body.clone()).expect("it is JSON");
        for (body, status, _) in bodies(&text) {
            assert_eq!(caller.ask(&good.clone().bytes(body)).await.status, status, "{text}");
            asked += 1;
        }
        for wrong in entry.arguments.fields().iter().filter(|field| field.name != "run") {
            for wrong in wrongs(wrong) {
                let name = wrong.field.split(['.', '[']).next().expect("a field has a name");
                let mut arguments = arguments.clone();
                arguments[name] = wrong.value;
                let ask = scene.signed(&who, plain(entry, &arguments, "poison"));
                let answer = caller.ask(&ask).await;
                let refused = [400, 413, 422].contains(&answer.status);
                assert!(refused, "{} {}: {}", title(entry), wrong.field, answer.json());
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "only {asked} requests were made");
    assert_eq!(scene.dump().await, before);
    scene.done(&who, "run complete", json!({ "run": "mine", "summary": "all the same" })).await;
    let shown = scene.done(&ADA, "run show", json!({ "run": "R-4.1" })).await;
    assert_eq!(shown["state"], "completed");
}
