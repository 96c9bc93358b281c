//! Another tenant cannot tell a world in which we are from one in which we are not.

use baton::operations;
use serde_json::{Value, json};

use crate::caller::Answer;
use crate::examples::{example, table};
use crate::ground::Fresh;
use crate::scene::{ADA, Scene, Who, title};
use crate::surfaces::plain;

crate::on_every_ground![
    embedded:
    our_claim_tokens_are_worth_nothing_elsewhere,
    she_sees_the_same_with_us_and_without_us,
    a_request_key_of_ours_is_free_for_her,
    her_stream_has_her_events_alone,
];

/// The owner of another tenant, which has nothing yet.
pub const EVE: Who = Who { key: "eve", token: None };

/// An answer without what differs from one request to the next: the time of day, and secrets.
pub fn told(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
    let headers: Vec<_> = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
    (answer.status, headers, String::from_utf8_lossy(&answer.body).into_owned())
}

/// The answer with ids and secrets of new keys taken out.
pub fn plainly(answer: &Answer) -> (u16, Value) {
    let mut body = answer.json();
    mask(&mut body);
    (answer.status, body)
}

pub fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let is_key = map.contains_key("scopes") || map.contains_key("owner");
            for (name, inner) in map.iter_mut() {
                let of_key = ["id", "key", "parent"].contains(&name.as_str());
                if name.ends_with("token") || name == "secret" || of_key && is_key {
                    *inner = Value::Null;
                } else {
                    mask(inner);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

async fn our_claim_tokens_are_worth_nothing_elsewhere(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let thief = Who { token: Some("held"), ..EVE };
    for entry in table() {
        let asked = example(&scene, entry);
        let answer =
            scene.world.ask(&scene.signed(&thief, plain(entry, &asked.arguments, "t"))).await;
        let told = format!("{}: {}", title(entry), answer.json());
        assert_eq!((answer.status, answer.code().as_str()), (409, "lease_lost"), "{told}");
    }
    assert_eq!(scene.dump().await, before);
}

async fn she_sees_the_same_with_us_and_without_us(fresh: Fresh) {
    let (with, without) = (Scene::new(fresh).await, Scene::bare(fresh).await);
    let ours = with.dump_of("local").await;
    for entry in table() {
        let arguments = example(&with, entry).arguments;
        let mut answers = vec![];
        for scene in [&with, &without] {
            let ask = scene.signed(&EVE, plain(entry, &arguments, "same-key"));
            answers.push(plainly(&scene.world.ask(&ask).await));
        }
        assert_eq!(answers[0], answers[1], "{}", title(entry));
        let nobody = answers[0].1.to_string();
        assert!(!nobody.contains("bea") && !nobody.contains("\"queued\":1"), "{nobody}");
    }
    assert_eq!(with.dump_of("local").await, ours, "she changed something of ours");
}

/// Who has the same name over there: request keys belong to a tenant and to a name.
fn alike(key: &str) -> &'static str {
    if key == "ada" { "her ada" } else { "her bea" }
}

async fn name_alike(scene: &mut Scene) {
    for (name, kind) in [("ada", "person"), ("bea", "agent")] {
        let wish = json!({ "name": name, "principal": name, "kind": kind, "scopes": ["all"] });
        let made = scene.done(&EVE, "key create", wish).await;
        let key = made["key"].as_str().expect("it is shown once").to_owned();
        scene.keys.insert(alike(name), key);
    }
}

async fn a_request_key_of_ours_is_free_for_her(fresh: Fresh) {
    let (mut with, mut without) = (Scene::new(fresh).await, Scene::bare(fresh).await);
    for scene in [&mut with, &mut without] {
        name_alike(scene).await;
    }
    for (at, entry) in table().into_iter().enumerate().filter(|(_, entry)| entry.about.changes()) {
        let (asked, shared) = (example(&with, entry), format!("shared-{at}"));
        let ours = plain(entry, &asked.arguments, &shared);
        let mut first = with.world.ask(&with.signed(&asked.who, ours.clone())).await;
        if first.status >= 300 {
            // Something before has used up what this one needs.
            (with, without) = (Scene::new(fresh).await, Scene::bare(fresh).await);
            for scene in [&mut with, &mut without] {
                name_alike(scene).await;
            }
            first = with.world.ask(&with.signed(&asked.who, ours.clone())).await;
        }
        assert!(first.status < 300, "{}: {}", title(entry), first.json());
        let before = with.dump_of("local").await;
        let mut answers = vec![];
        for scene in [&with, &without] {
            let twin = Who { key: alike(asked.who.key), token: None };
            let answer = scene.world.ask(&scene.signed(&twin, ours.clone())).await;
            assert_eq!(answer.header("idempotent-replayed"), "", "{}", title(entry));
            answers.push(plainly(&answer));
        }
        assert_eq!(answers[0], answers[1], "{}", title(entry));
        assert_eq!(with.dump_of("local").await, before, "{}", title(entry));
    }
}

async fn her_stream_has_her_events_alone(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let events = operations::find("event", "list").expect("it is in the table");
    let list = |who: &Who| scene.signed(who, plain(events, &serde_json::json!({}), ""));
    let ours = scene.world.ask(&list(&ADA)).await.json();
    let cursor = ours["as_of"].as_str().expect("it tells how far it is").to_owned();
    let hers = scene.world.ask(&list(&EVE)).await.json();
    let count = hers["items"].as_array().expect("a list").len();
    // From the beginning, and from a place that only we know.
    for last in [None, Some(cursor.as_str())] {
        let ask = list(&EVE).with("accept", "text/event-stream");
        let ask = match last {
            Some(last) => ask.with("last-event-id", last),
            None => ask,
        };
        let mut stream = scene.world.connect().await;
        stream.send(&ask).await;
        let (status, _) = stream.head().await.expect("it begins");
        if status != 200 {
            assert_eq!((status, last.is_some()), (410, true), "a place that is not hers");
            continue;
        }
        let name = if last.is_some() { "after" } else { "before" };
        scene.done(&ADA, "task freeze", serde_json::json!({ "task": "T-1", "reason": name })).await;
        let add = serde_json::json!({ "project": name });
        scene.done(&EVE, "project add", add).await;
        let mut seen = 0;
        while let Some(event) = stream.event().await {
            let text = event.data.to_string();
            assert!(!text.contains("T-1") && !text.contains("bea"), "{text}");
            seen += 1;
            if text.contains(name) {
                break;
            }
            assert!(seen <= count + 2, "these are more than hers: {text}");
        }
    }
}
