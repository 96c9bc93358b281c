//! Everybody at once at the end of an attempt: one wins, the others are told, nothing is done twice.

use baton_domain::event::Event;
use baton_domain::ids::TenantId;
use baton_store::Entry;
use baton_store::read::Happened;
use baton_testkit::rounds;
use serde_json::{Value, json};

use crate::ground::Fresh;
use crate::scene::{ADA, BEA, Scene, Who, entry};
use crate::surfaces::plain;

crate::on_every_ground![
    embedded:
    whoever_races_for_the_end_of_an_attempt_one_wins,
    whoever_races_for_a_run_one_holds_it,
];

/// Races per test; the soak has ten thousand of both together.
const RACES: u64 = 25;

/// More than a task of a race has entries.
const ALL: usize = 100;

/// The ways in which an attempt can end, by its holder and by others.
const ENDS: [(bool, &str, &str); 7] = [
    (true, "run complete", r#"{ "run": "mine", "summary": "all of it" }"#),
    (true, "run fail", r#"{ "run": "mine", "code": "stuck", "reason": "no way" }"#),
    (true, "run block", r#"{ "run": "mine", "kind": "needs_input", "reason": "which?" }"#),
    (true, "run release", r#"{ "run": "mine", "reason": "no time" }"#),
    (false, "run force-release", r#"{ "run": "", "reason": "it is gone" }"#),
    (false, "run force-fail", r#"{ "run": "", "code": "gone", "reason": "it is gone" }"#),
    (false, "run cancel", r#"{ "run": "", "reason": "not today" }"#),
];

/// How many such events a task has.
async fn count(scene: &Scene, task: &str, is_such: fn(&Event) -> bool) -> usize {
    let (tenant, task) = (TenantId::new("local").expect("a name"), task.parse().expect("an id"));
    let entries = scene.world.engine.entries_of(&tenant, task, 0, ALL).await;
    let entries = entries.expect("it can be read").rows;
    let of = |entry: &Entry| match &entry.happened {
        Happened::ToTask(events) => events.iter().filter(|event| is_such(event)).count(),
        Happened::ToRecord(_) | Happened::Erased | Happened::Unknown(_) => 0,
    };
    entries.iter().map(of).sum()
}

/// A new task for a race.
async fn task(scene: &Scene) -> String {
    let task = json!({ "project": "shop", "title": "a race", "stage": "coding" });
    let made = scene.done(&ADA, "task create", task).await;
    made["id"].as_str().expect("it has an id").to_owned()
}

async fn whoever_races_for_the_end_of_an_attempt_one_wins(fresh: Fresh) {
    let mut scene = Scene::new(fresh).await;
    for race in 0..rounds(RACES) {
        let task = task(&scene).await;
        let claimed = scene.done(&BEA, "run claim", json!({ "task": task })).await;
        let token = claimed["claim_token"].as_str().expect("it is shown once").to_owned();
        scene.tokens.insert("race", token);
        scene
            .done(&Who { token: Some("race"), ..BEA }, "run begin", json!({ "run": "mine" }))
            .await;
        let mut asks = vec![];
        for (by_holder, what, arguments) in ENDS {
            let mut arguments: Value = serde_json::from_str(arguments).expect("it is JSON");
            let who = if by_holder { Who { token: Some("race"), ..BEA } } else { ADA };
            if !by_holder {
                arguments["run"] = json!(claimed["run"]["id"]);
            }
            let request = plain(entry(what), &arguments, &scene.mint());
            let (ask, mut caller) = (scene.signed(&who, request), scene.world.connect().await);
            asks.push(tokio::spawn(async move { (what, caller.ask(&ask).await) }));
        }
        let mut won = vec![];
        for ask in asks {
            let (what, answer) = ask.await.expect("it is answered");
            let told = format!("race {race}: {what}: {}", answer.json());
            match answer.status {
                200 | 201 => won.push(what),
                404 | 409 | 412 | 429 => {}
                other => panic!("{told}, {other}"),
            }
        }
        let ended = count(&scene, &task, |event| matches!(event, Event::AttemptEnded { .. })).await;
        assert_eq!(ended, 1, "race {race}: {won:?}");
        // Somebody may still act on what is left of the run: nobody ends the attempt again.
        let holders = won.iter().filter(|what| ENDS[..4].iter().any(|(_, own, _)| own == *what));
        assert!(holders.count() <= 1 && !won.is_empty(), "race {race}: {won:?}");
        let late =
            plain(entry("run checkpoint"), &json!({ "run": "mine", "summary": "late" }), "x");
        let late = scene.signed(&Who { token: Some("race"), ..BEA }, late);
        let answer = scene.world.ask(&late).await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "lease_lost"), "race {race}");
    }
}

async fn whoever_races_for_a_run_one_holds_it(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    for race in 0..rounds(RACES) {
        let task = task(&scene).await;
        let mut asks = vec![];
        for who in [ADA, BEA, crate::scene::WES, BEA, ADA, crate::scene::WES] {
            let request = plain(entry("run claim"), &json!({ "task": task }), &scene.mint());
            let (ask, mut caller) = (scene.signed(&who, request), scene.world.connect().await);
            asks.push(tokio::spawn(async move { caller.ask(&ask).await }));
        }
        let mut won = 0;
        for ask in asks {
            let answer = ask.await.expect("it is answered");
            assert!([201, 409].contains(&answer.status), "race {race}: {}", answer.json());
            won += usize::from(answer.status == 201);
        }
        let claims = count(&scene, &task, |event| matches!(event, Event::Claimed { .. })).await;
        assert_eq!((won, claims), (1, 1), "race {race}");
    }
}
