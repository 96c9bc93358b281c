//! By which way something was asked, as history keeps it; and what is told once.

use std::process::Command;

use serde_json::{Value, json};

use crate::caller::Ask;
use crate::serving::{folder, start};
use crate::world::World;

/// Who did the last thing, by the list of events.
fn last_origin(events: &Value) -> String {
    events["items"][0]["actor"]["origin"].as_str().expect("every entry has one").to_owned()
}

#[tokio::test]
async fn a_caller_is_known_by_its_way_whatever_it_says_of_itself() {
    let world = World::new().await;
    for (number, (said, origin)) in
        [(None, "rest"), (Some("cli"), "cli"), (Some("clockwork"), "rest")].into_iter().enumerate()
    {
        let path = format!("/v1/projects/shop-{number}");
        let put = world.signed(Ask::change("PUT", &path, &path, &json!({})));
        let put = if let Some(said) = said { put.with("baton-client", said) } else { put };
        assert_eq!(world.ask(&put).await.status, 200);
        let events = world.ask(&world.get("/v1/events?newest=true&limit=1")).await.json();
        assert_eq!(last_origin(&events), origin, "{said:?}");
    }
}

#[tokio::test]
async fn what_is_typed_is_kept_as_typed() {
    let home = folder();
    let serving = start(home.path());
    let typed = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["project", "add", "shop"])
        .env_clear()
        .env("BATON_HOME", home.path())
        .output()
        .expect("it runs");
    assert!(typed.status.success(), "{}", String::from_utf8_lossy(&typed.stderr));
    let ask = serving.get("/v1/events?newest=true&limit=1");
    assert_eq!(last_origin(&serving.connect().await.ask(&ask).await.json()), "cli");
}

#[tokio::test]
async fn a_key_that_is_asked_for_again_has_no_secret_and_says_how_to_get_one() {
    let world = World::new().await;
    let wish = json!({ "name": "laptop", "principal": "bea", "scopes": ["read"] });
    let ask = world.signed(Ask::change("POST", "/v1/keys", "once", &wish));
    let first = world.ask(&ask).await;
    assert_eq!((first.status, first.json().get("hint")), (201, None), "{first:?}");
    assert!(first.json()["key"].is_string(), "it is shown once");
    let again = world.ask(&ask).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
    let (again, id) = (again.json(), first.json()["id"].clone());
    assert_eq!((&again["id"], again.get("key")), (&id, None));
    let id = id.as_str().expect("an id is a text");
    let hint = again["hint"].as_str().expect("it is told what to do");
    assert!(hint.ends_with(&format!("baton key rotate {id}")), "{hint}");
}
