//! The same request gets the same answer, whichever way it comes.

use baton::operation::Entry;
use serde_json::{Value, json};

use crate::caller::Ask;
use crate::examples::{example, table};
use crate::scene::{Scene, title};
use crate::surfaces::{Said, Stand, WAYS, Way, plain};

/// Asks one way in a world of its own.
async fn alone(way: Way, at: usize) -> Said {
    let stand = Stand::of(Scene::new().await);
    let entry = table()[at];
    let asked = example(&stand.scene, entry);
    stand.ask(way, &asked.who, entry, &asked.arguments, "the-request").await
}

#[tokio::test]
async fn every_operation_answers_the_same_on_every_surface() {
    let scene = Scene::new().await;
    for (at, entry) in table().into_iter().enumerate() {
        let (title, asked) = (title(entry), example(&scene, entry));
        let first = alone(WAYS[0], at).await;
        assert_eq!(first.granted, asked.refused.is_none(), "{title}: {}", first.body);
        if let Some(code) = asked.refused {
            assert_eq!(first.body["code"], code, "{title}");
        }
        for way in WAYS[1..].iter().filter(|way| way.offers(entry)) {
            assert_eq!(alone(*way, at).await, way.told(&first), "{title} {way:?}");
        }
    }
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_answer_on_every_surface() {
    for (at, entry) in table().into_iter().enumerate() {
        if !entry.about.changes() {
            continue;
        }
        let stand = Stand::of(Scene::new().await);
        let asked = example(&stand.scene, table()[at]);
        let (who, arguments) = (&asked.who, &asked.arguments);
        let first = stand.ask(Way::Table, who, entry, arguments, "the-request").await;
        let before = stand.scene.dump().await;
        for way in [Way::Table, Way::Tcp, Way::Socket] {
            let again = stand.ask(way, who, entry, arguments, "the-request").await;
            let title = title(entry);
            assert_eq!(again.granted, first.granted, "{title} {way:?}: {}", again.body);
        }
        // A heartbeat has no request key: it is carried out as often as it comes.
        assert_eq!(stand.scene.dump().await, before, "{} was done twice", title(entry));
    }
}

/// Requests that are refused, for every reason that a surface could tell in its own way.
fn refusals(entry: &Entry, arguments: &Value) -> Vec<Value> {
    let mut all = vec![];
    // The command line knows by itself that there is nothing to be given.
    if !entry.arguments.fields().is_empty() {
        let mut strange = arguments.clone();
        strange["nonsense"] = json!("x");
        all.push(strange);
    }
    let mut missing = arguments.clone();
    // Whoever asks for a name that is free gets it, and a list of nothing is a list.
    let names = entry.about.placeholders().next().is_some() || entry.about.noun == "run";
    if names && title(entry) != "project add" && elsewhere(&mut missing) {
        all.push(missing);
    }
    let fields = arguments.as_object().expect("an object");
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.is_string()) {
        let mut blank = arguments.clone();
        blank[name] = json!("  ");
        all.push(blank);
    }
    all
}

/// Lets a request name things that do not exist; whether it names any.
pub fn elsewhere(arguments: &mut Value) -> bool {
    let mut found = false;
    for (name, missing) in [
        ("task", "T-999"),
        ("run", "R-999.1"),
        ("attempt", "A-999.1"),
        ("project", "nowhere"),
        ("key", "zzzzzzzzzzzz"),
    ] {
        if arguments[name].is_string() {
            arguments[name] = json!(missing);
            found = true;
        }
    }
    found
}

#[tokio::test]
async fn every_operation_refuses_the_same_on_every_surface() {
    let stand = Stand::of(Scene::new().await);
    let before = stand.scene.dump().await;
    for entry in table() {
        let asked = example(&stand.scene, entry);
        for arguments in refusals(entry, &asked.arguments) {
            let told = format!("{} {arguments}", title(entry));
            let first = stand.ask(Way::Table, &asked.who, entry, &arguments, "refused").await;
            if first.granted {
                assert!(!entry.about.changes(), "{told} was granted: {}", first.body);
                continue;
            }
            for way in WAYS[1..].iter().filter(|way| way.offers(entry)) {
                let said = stand.ask(*way, &asked.who, entry, &arguments, "refused").await;
                assert_eq!(said, way.told(&first), "{told} {way:?}");
            }
        }
    }
    assert_eq!(stand.scene.dump().await, before, "a refusal left a trace");
}

#[tokio::test]
async fn what_is_served_as_its_description_is_what_was_reviewed() {
    let scene = Scene::bare().await;
    let served = scene.world.ask(&scene.world.signed(Ask::get("/v1/openapi.json"))).await;
    let reviewed: Value =
        serde_json::from_str(include_str!("../../openapi.json")).expect("it is JSON");
    assert_eq!(served.json(), reviewed);
}

#[tokio::test]
async fn only_events_are_followed_and_every_other_list_is_told_once() {
    let scene = Scene::new().await;
    for entry in table().into_iter().filter(|entry| !entry.about.changes()) {
        let asked = example(&scene, entry);
        let ask = scene.signed(&asked.who, plain(entry, &asked.arguments, ""));
        let mut caller = scene.world.connect().await;
        caller.send(&ask.with("accept", "text/event-stream")).await;
        let (_, headers) = caller.head().await.expect("it answers");
        let streams = headers["content-type"] == "text/event-stream";
        assert_eq!(streams, title(entry) == "event list", "{}", title(entry));
        assert_eq!(streams, entry.is_followed(), "{}", title(entry));
    }
}
