//! The same request gets the same answer, whichever way it comes.

use baton::operation::Entry;
use serde_json::{Value, json};

use crate::caller::Ask;
use crate::examples::{example, table};
use crate::ground::Fresh;
use crate::scene::{Scene, title};
use crate::surfaces::{Said, Stand, WAYS, Way, plain};

crate::on_every_ground![
    embedded:
    every_operation_answers_the_same_on_every_surface,
    a_repeated_request_gets_the_same_answer_on_every_surface,
    every_operation_refuses_the_same_on_every_surface,
    what_is_served_as_its_description_is_what_was_reviewed,
    only_events_are_followed_and_every_other_list_is_told_once,
];

/// A world for every way, in each of which the same happens.
async fn stands(fresh: Fresh) -> Vec<(Way, Stand)> {
    let mut all = vec![];
    for way in WAYS {
        all.push((way, Stand::of(Scene::new(fresh).await)));
    }
    all
}

async fn ask(stands: &[(Way, Stand)], at: usize) -> Vec<(Way, Said)> {
    let (entry, request) = (table()[at], format!("request-of-{at}"));
    let mut all = vec![];
    for (way, stand) in stands {
        let asked = example(&stand.scene, entry);
        // What a surface does not offer happens in its world as well, or the worlds would part.
        let by = if way.offers(entry) { *way } else { WAYS[0] };
        let mut said = stand.ask(by, &asked.who, entry, &asked.arguments, &request).await;
        without_origin(&mut said.body);
        all.push((by, said));
    }
    all
}

/// By which way something came is kept with it, and is all that may differ.
pub fn without_origin(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("origin");
            map.values_mut().for_each(without_origin);
        }
        Value::Array(list) => list.iter_mut().for_each(without_origin),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

async fn every_operation_answers_the_same_on_every_surface(fresh: Fresh) {
    let mut worlds = stands(fresh).await;
    for (at, entry) in table().into_iter().enumerate() {
        let title = title(entry);
        let mut said = ask(&worlds, at).await;
        if !said[0].1.granted {
            // Something before has used up what this one needs.
            worlds = stands(fresh).await;
            said = ask(&worlds, at).await;
        }
        let (_, first) = &said[0];
        assert!(first.granted, "{title}: {}", first.body);
        for (way, other) in &said[1..] {
            assert_eq!(*other, way.told(entry, first), "{title} {way:?}");
        }
    }
}

/// An answer without what is told once, and without how far the events were when it was told.
fn once(entry: &Entry, said: &Said) -> Said {
    let mut said = said.clone();
    let body = said.body.as_object_mut().expect("fields");
    body.remove("as_of");
    if entry.about.noun == "key" || entry.about.noun == "tenant" {
        body.remove("key");
        let key = if entry.about.noun == "key" { &mut said.body } else { &mut said.body["owner"] };
        key.as_object_mut().expect("fields").remove("hint");
    }
    said
}

async fn a_repeated_request_gets_the_same_answer_on_every_surface(fresh: Fresh) {
    let mut stand = Stand::of(Scene::new(fresh).await);
    for (at, entry) in table().into_iter().enumerate() {
        if !entry.about.changes() {
            continue;
        }
        let (title, request) = (title(entry), format!("request-of-{at}"));
        let asked = example(&stand.scene, entry);
        let (who, arguments) = (&asked.who, &asked.arguments);
        let mut first = stand.ask(Way::Table, who, entry, arguments, &request).await;
        if !first.granted {
            stand = Stand::of(Scene::new(fresh).await);
            first = stand.ask(Way::Table, who, entry, arguments, &request).await;
        }
        assert!(first.granted, "{title}: {}", first.body);
        let before = stand.scene.dump().await;
        let again = stand.ask(Way::Table, who, entry, arguments, &request).await;
        // Among many there may be some that only look, and see what the others did.
        if title != "bulk submit" {
            let (now, then) = (once(entry, &again), once(entry, &first));
            assert_eq!(now, then, "{title} is told otherwise the second time");
        }
        for way in &WAYS[1..] {
            let by = if way.offers(entry) { *way } else { Way::Tcp };
            let said = stand.ask(by, who, entry, arguments, &request).await;
            assert_eq!(said, by.told(entry, &again), "{title} {way:?}");
        }
        // A heartbeat has no request key: it is carried out as often as it comes.
        assert_eq!(stand.scene.dump().await, before, "{title} was done twice");
    }
}

/// Requests that are refused, for every reason that a surface could tell in its own way.
pub fn refusals(entry: &Entry, arguments: &Value) -> Vec<Value> {
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
    let adds = ["project add", "channel add"].contains(&title(entry).as_str());
    if names && !adds && elsewhere(&mut missing) {
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
        ("channel", "nowhere"),
        ("key", "zzzzzzzzzzzz"),
    ] {
        if arguments[name].is_string() {
            arguments[name] = json!(missing);
            found = true;
        }
    }
    found
}

async fn every_operation_refuses_the_same_on_every_surface(fresh: Fresh) {
    let stand = Stand::of(Scene::new(fresh).await);
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
            for way in &WAYS[1..] {
                let said = stand.ask(*way, &asked.who, entry, &arguments, "refused").await;
                assert_eq!(said, way.told(entry, &first), "{told} {way:?}");
            }
        }
    }
    assert_eq!(stand.scene.dump().await, before, "a refusal left a trace");
}

async fn what_is_served_as_its_description_is_what_was_reviewed(fresh: Fresh) {
    let scene = Scene::bare(fresh).await;
    let served = scene.world.ask(&scene.world.signed(Ask::get("/v1/openapi.json"))).await;
    let reviewed: Value =
        serde_json::from_str(include_str!("../../openapi.json")).expect("it is JSON");
    assert_eq!(served.json(), reviewed);
}

async fn only_events_are_followed_and_every_other_list_is_told_once(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
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
