//! What is refused because of how things stand is refused with the same words on every surface.
//!
//! Every operation is asked about everything that the scene has, in every state that a task can be
//! in there, until it has given each refusal that it has; these are then asked for on every surface.
//! What a surface says does not depend on the store, so one store is enough.

use std::collections::{BTreeMap, BTreeSet};

use baton::operation::Entry;
use baton::problem::CODES;
use serde_json::{Value, json};

use crate::attacks::words;
use crate::examples::{example, table};
use crate::foreign::EVE;
use crate::ground::Memory;
use crate::scene::{ADA, BEA, HELD, Scene, Under, WES, Who, carry_out, entry, holding, title};
use crate::surfaces::{Stand, WAYS, Way};

/// States that nothing else needs: a task for later, one for somebody else, one in a paused
/// project, one whose stage is full, and a key that has ended.
const MORE: &[(Who, &str, &str)] = &[
    (
        ADA,
        "task create",
        r#"{ "project": "shop", "title": "for later", "stage": "coding",
            "start_at": "2023-12-24T00:00:00Z" }"#,
    ),
    (
        ADA,
        "task create",
        r#"{ "project": "shop", "title": "for zoe", "stage": "coding", "assignee": "zoe" }"#,
    ),
    (ADA, "task create", r#"{ "project": "spare", "title": "paused", "stage": "coding" }"#),
    (ADA, "project add", r#"{ "project": "narrow" }"#),
    (ADA, "task create", r#"{ "project": "narrow", "title": "no room", "stage": "coding" }"#),
    (ADA, "pool set", r#"{ "pool": "stage narrow coding", "limit": 0 }"#),
    (
        ADA,
        "task create",
        r#"{ "project": "shop", "title": "limited", "key": "one",
        "stage": "coding" }"#,
    ),
    (
        ADA,
        "task create",
        r#"{ "project": "shop", "title": "to be shown", "stage": "coding",
            "contract": [{ "id": "report", "kind": "artifact", "path": "report.md" }] }"#,
    ),
    (ADA, "pool set", r#"{ "pool": "holder wes", "limit": 0 }"#),
    (ADA, "channel add", r#"{ "channel": "inside", "webhook": "https://127.0.0.1:9/in" }"#),
    (ADA, "key create", r#"{ "name": "taken", "scopes": ["task:read"] }"#),
];

/// Tasks of the scene with these.
const TASKS: u64 = 24;

/// Requests that are refused for more than the state of one task.
const SPECIAL: &[(Who, &str, &str)] = &[
    (ADA, "project remove", r#"{ "project": "shop" }"#),
    (ADA, "project add", r#"{ "project": "shop", "stages": [{ "name": "qa" }] }"#),
    (ADA, "task move", r#"{ "task": "T-1", "stage": "nowhere" }"#),
    (ADA, "task create", r#"{ "project": "shop", "title": "a", "stage": "nowhere" }"#),
    (ADA, "task create", r#"{ "project": "shop", "title": "a", "parent": "T-7" }"#),
    (ADA, "key create", r#"{ "name": "taken", "scopes": ["task:read"] }"#),
    (ADA, "channel test", r#"{ "channel": "inside" }"#),
    (ADA, "event list", r#"{ "after": "5f3a-1" }"#),
    (ADA, "event list", r#"{ "after": "0-99999" }"#),
    (BEA, "run claim", r#"{ "project": "nowhere" }"#),
    (BEA, "run claim", r#"{ "stage": "qa" }"#),
    (BEA, "run start", r#"{ "title": "whose?" }"#),
    (BEA, "run start", r#"{ "project": "shop", "title": "a", "parent": "T-7" }"#),
    (EVE, "tenant list", "{}"),
    (WES, "run claim", r#"{ "task": "T-1" }"#),
    (holding("proving"), "run complete", r#"{ "run": "mine" }"#),
    (
        holding("proving"),
        "run complete",
        r#"{ "run": "mine", "contract":
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }"#,
    ),
];

/// Of many, each has a key of its own; and whoever only waits, or only tries a channel out, has nothing
/// carried out.
const KNOWS_NO_KEY: [&str; 3] = ["bulk submit", "channel test", "run wait"];

/// Codes that no state here gives: those of requests that cannot be read, of what has tests of its own
/// below, of the server, its load and its disk, and of bounds that are reached after many steps.
const ELSEWHERE: &[&str] = &[
    "damaged",
    "disk_full",
    "forbidden",
    "headers_too_large",
    "heard_before",
    "in_use",
    "internal",
    "key_reused",
    "limit_reached",
    "lineage_too_long",
    "malformed",
    "no_agent",
    "not_kept",
    "not_yet",
    "overloaded",
    "person_needed",
    "rate_limited",
    "stopped",
    "too_large",
    "too_many",
    "too_slow",
    "unauthenticated",
    "unknown",
    "unreachable",
    "unsupported",
    "url_too_long",
    "version_changed",
    "wrong_method",
    "wrong_place",
];

/// A request that is refused.
#[derive(Clone)]
struct Case {
    who: Who,
    entry: &'static Entry,
    arguments: Value,
}

async fn scene() -> Scene {
    let mut scene = Scene::new(Memory::fresh).await;
    carry_out(&scene, MORE).await;
    let claimed = scene.done(&BEA, "run claim", json!({ "task": "T-24" })).await;
    let token = claimed["claim_token"].as_str().expect("it is shown once").to_owned();
    scene.tokens.insert("proving", token);
    scene.done(&holding("proving"), "run begin", json!({ "run": "mine" })).await;
    let wish = json!({ "name": "ended", "scopes": ["task:read"] });
    let made = scene.done(&ADA, "key create", wish).await;
    let ended = made["id"].as_str().expect("it has an id").to_owned();
    scene.done(&ADA, "key revoke", json!({ "key": ended, "reason": "over" })).await;
    scene.tokens.insert("ended", ended);
    scene
}

/// Every operation about everything there is.
fn cases(scene: &Scene) -> Vec<Case> {
    let mut all = vec![];
    for entry in table() {
        let own = example(scene, entry);
        let with = |name: &str, value: Value| {
            let mut arguments = own.arguments.clone();
            arguments[name] = value;
            Case { who: own.who, entry, arguments }
        };
        for number in 1..=TASKS {
            for name in ["task", "on", "by"] {
                if own.arguments[name].is_string() {
                    all.push(with(name, json!(format!("T-{number}"))));
                }
            }
            if own.arguments["run"].is_string() && own.who.token.is_none() {
                for run in [format!("T-{number}"), format!("R-{number}.1"), format!("R-{number}.2")]
                {
                    all.push(with("run", json!(run)));
                }
            }
        }
        if own.arguments["key"].is_string() && entry.about.noun == "key" {
            all.push(with("key", json!(scene.tokens["ended"])));
        }
    }
    for (entry, (token, _)) in words().flat_map(|entry| HELD.iter().map(move |held| (entry, held)))
    {
        let mut arguments = example(scene, entry).arguments;
        arguments["run"] = json!("mine");
        all.push(Case { who: holding(token), entry, arguments: arguments.clone() });
        (arguments["run"], arguments["attempt"]) = (json!("R-4.1"), json!("A-4.9"));
        all.push(Case { who: BEA, entry, arguments });
    }
    for (who, what, arguments) in SPECIAL {
        let arguments = serde_json::from_str(arguments).expect("it is JSON");
        all.push(Case { who: *who, entry: entry(what), arguments });
    }
    all
}

/// One request for every refusal of every operation.
async fn refusals() -> BTreeMap<(String, &'static str), Case> {
    let mut scene = scene().await;
    let (mut found, mut asked) = (BTreeMap::new(), 0);
    for case in cases(&scene) {
        let Case { who, entry, arguments } = &case;
        let said = scene.perform(who, entry, arguments.clone(), &format!("find-{asked}")).await;
        asked += 1;
        match said {
            Ok(_) if entry.about.changes() => scene = self::scene().await,
            Ok(_) => {}
            Err(problem) => {
                found.entry((title(entry), problem.code())).or_insert(case);
            }
        }
    }
    found
}

#[tokio::test]
async fn every_refusal_that_a_state_gives_is_the_same_on_every_surface() {
    let found = refusals().await;
    let stand = Stand::of(scene().await);
    let before = stand.scene.dump().await;
    for ((title, code), Case { who, entry, arguments }) in &found {
        let told = format!("{title} {arguments}");
        let first = stand.ask(Way::Table, who, entry, arguments, "refused").await;
        assert_eq!((first.granted, &first.body["code"]), (false, &json!(code)), "{told}");
        for way in &WAYS[1..] {
            let said = stand.ask(*way, who, entry, arguments, "refused").await;
            assert_eq!(said, way.told(entry, &first), "{told} {way:?}");
        }
    }
    assert_eq!(stand.scene.dump().await, before, "a refusal left a trace");
    let seen: BTreeSet<_> = found.keys().map(|(_, code)| *code).collect();
    let unseen = CODES.iter().map(|code| code.word).filter(|word| !seen.contains(word));
    assert_eq!(unseen.collect::<Vec<_>>(), ELSEWHERE, "of {} refusals", found.len());
}

#[tokio::test]
async fn a_request_key_that_was_used_is_refused_the_same_on_every_surface() {
    let stand = Stand::of(Scene::new(Memory::fresh).await);
    let create = entry("task create");
    for who in [ADA, BEA] {
        let task = json!({ "project": "shop", "title": "the first under this key" });
        assert!(stand.ask(Way::Table, &who, create, &task, "used").await.granted);
    }
    let before = stand.scene.dump().await;
    for entry in table().into_iter().filter(|entry| entry.about.takes_request_key()) {
        let (asked, title) = (example(&stand.scene, entry), title(entry));
        if KNOWS_NO_KEY.contains(&title.as_str()) {
            continue;
        }
        let first = stand.ask(Way::Table, &asked.who, entry, &asked.arguments, "used").await;
        let told = format!("{title}: {}", first.body);
        assert_eq!((first.granted, &first.body["code"]), (false, &json!("key_reused")), "{told}");
        for way in &WAYS[1..] {
            let said = stand.ask(*way, &asked.who, entry, &asked.arguments, "used").await;
            assert_eq!(said, way.told(entry, &first), "{title} {way:?}");
        }
    }
    assert_eq!(stand.scene.dump().await, before, "a refusal left a trace");
}

#[tokio::test]
async fn a_version_that_is_not_the_last_is_refused_the_same_on_every_surface() {
    let stand = Stand::of(Scene::new(Memory::fresh).await);
    let before = stand.scene.dump().await;
    for entry in table().into_iter().filter(|entry| entry.about.changes()) {
        let (asked, title) = (example(&stand.scene, entry), title(entry));
        let under = Under { request: "version", version: Some(999) };
        let first = stand.ask(Way::Table, &asked.who, entry, &asked.arguments, under).await;
        let code = if entry.about.takes_version() { "version_changed" } else { "malformed" };
        let told = format!("{title}: {}", first.body);
        assert_eq!((first.granted, &first.body["code"]), (false, &json!(code)), "{told}");
        // No tool takes a version.
        for way in [Way::Tcp, Way::Socket, Way::Cli] {
            let said = stand.ask(way, &asked.who, entry, &asked.arguments, under).await;
            assert_eq!(said, first, "{title} {way:?}");
        }
    }
    assert_eq!(stand.scene.dump().await, before, "a refusal left a trace");
}
