//! Secrets that are said in every text of every operation are nowhere afterwards: not in the
//! database, not in its log, not in a copy, not in what the server says, not in what others hear.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use baton::operation::Entry;
use baton::operations;
use baton::redaction::MASK;
use serde_json::{Value, json};

use crate::canaries::birds::Birds;
use crate::canaries::cage::Cage;
use crate::examples::{example_with, table};
use crate::ground::Sqlite;
use crate::scene::{ADA, Scene, entry as row, title};

mod birds;
mod cage;

/// Places that take free text and cannot take a secret for another reason.
const PICKY: &[(&str, &str)] = &[
    // A scope is one of a closed list.
    ("key create", "scopes"),
    // A place and hours are refused with one in them; see below.
    ("channel add", "webhook"),
    ("channel add", "quiet_hours"),
    // Nothing waits for a review where no worker is; see below.
    ("run review", "reason"),
    ("run review", "missing"),
    // It ends the key that says it, and nobody is left to listen; `key revoke` keeps the same text.
    ("key revoke-self", "reason"),
];

/// Lines of every kind that has texts.
const LINES: &str = r#"{ "contract": [{ "id": "a", "kind": "artifact" },
    { "id": "b", "kind": "gate" }, { "id": "c", "kind": "criterion" }] }"#;

/// What examples leave out, and takes text.
const MORE: &[(&str, &str)] = &[
    ("task create", LINES),
    ("task edit", LINES),
    ("run start", LINES),
    (
        "run complete",
        r#"{ "artifacts": [{ "path": "", "digest": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
            "bytes": 1 }] }"#,
    ),
];

/// How many different secrets there are, each in all of its encodings.
const CANARIES: usize = 40;

/// Every file below a folder that holds one of these, and how much was looked at.
fn holding(folder: &Path, needles: &AhoCorasick, seen: &mut usize) -> Vec<String> {
    let mut found = vec![];
    for one in fs::read_dir(folder).expect("it is ours") {
        let path = one.expect("it is there").path();
        if path.is_dir() {
            found.extend(holding(&path, needles, seen));
        } else if path.is_file() && !birds::is_nest(&path) {
            let bytes = fs::read(&path).expect("it is ours");
            *seen += bytes.len();
            if let Some(at) = needles.find(&bytes) {
                let start = at.start().saturating_sub(40);
                let around = String::from_utf8_lossy(&bytes[start..at.end()]).into_owned();
                found.push(format!("{}: {around}", path.display()));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_canaries_in_every_text_of_every_operation_are_nowhere_afterwards() {
    let mut cage = Cage::new();
    let mut birds = Birds::hatch(&cage.data(), CANARIES, PICKY);
    let needles = birds.needles();
    let mut texts = BTreeSet::new();
    let mut masked = 0;
    let takes_text = |entry: &&Entry| !free_texts(entry).is_empty() || entry.about.noun == "bulk";
    for (number, entry) in table().into_iter().filter(takes_text).enumerate() {
        let scene = cage.scene(number).await;
        let mut example = example_with(&scene.spare, entry);
        let more =
            MORE.iter().find(|(what, _)| *what == title(entry)).map_or("{}", |(_, more)| more);
        let more: Value = serde_json::from_str(more).expect("it is JSON");
        let fields = example.arguments.as_object_mut().expect("fields");
        fields.extend(more.as_object().expect("fields").clone());
        let mut reached = vec![];
        birds.fill(&mut example.arguments, entry, &mut reached);
        texts.extend(reached.iter().map(|place| format!("{} {place}", title(entry))));
        let mut heard = scene.listen(&cage).await;
        let answer = scene.ask(&cage, &example.who, entry, &example.arguments).await;
        assert!(answer.status < 300, "{}: {:?}", title(entry), answer.json());
        let expected = !reached.is_empty() && entry.about.noun != "bulk";
        let told = answer.json()["redacted"].as_u64();
        assert_eq!(told.is_some(), expected, "{}: {}", title(entry), answer.json());
        masked += told.unwrap_or(0);
        if let Some(found) = needles.find(&answer.body) {
            panic!("{}: {}", title(entry), String::from_utf8_lossy(&answer.body[found.range()]));
        }
        scene.hear_to_the_end(&cage, &mut heard, &needles).await;
    }
    let all: BTreeSet<_> = operations::all().iter().flat_map(free_texts).collect();
    let missing: Vec<_> = all.difference(&texts).collect();
    assert!(missing.is_empty(), "give these places an example: {missing:#?}");
    assert!(birds.all_flew(), "some secrets were never said");
    assert!(masked > 1_000, "{masked}");

    cage.backup();
    let log = cage.stop();
    assert!(log.contains("secrets were redacted"), "the log is there");
    let mut seen = 0;
    assert_eq!(holding(cage.place(), &needles, &mut seen), [] as [&str; 0]);
    assert!(seen > 1_000_000, "{seen} bytes are less than all this");
    assert!(
        fs::read(cage.copy())
            .expect("it is there")
            .windows(MASK.len())
            .any(|part| part == MASK.as_bytes())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_a_claim_token_or_a_key_in_any_encoding_is_refused_and_nowhere_afterwards() {
    let mut cage = Cage::new();
    let scene = cage.scene(0).await;
    let own = [scene.token("held"), scene.key("bea")];
    let checkpoint = operations::find("run", "checkpoint").expect("it is in the table");
    let who = example_with(&scene.spare, checkpoint).who;
    for secret in &own {
        for said in birds::encoded(secret) {
            let arguments = json!({ "run": "R-4.1", "summary": format!("it is {said}, look") });
            let refused = scene.ask(&cage, &who, checkpoint, &arguments).await;
            let field = &refused.json()["errors"][0];
            assert_eq!(refused.status, 422, "{said}: {}", refused.json());
            assert!(
                field["rule"].as_str().is_some_and(|rule| rule.starts_with("must not contain a"))
            );
        }
        let named = json!({ "run": "R-4.1", "summary": "half", "git": { "head": secret } });
        assert_eq!(scene.ask(&cage, &who, checkpoint, &named).await.status, 422);
    }
    cage.backup();
    cage.stop();
    assert_eq!(holding(cage.place(), &birds::needles(&own), &mut 0), [] as [&str; 0]);
}

/// Something that looks like what others hand out.
const CANARY: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

#[tokio::test]
async fn a_secret_in_what_a_reviewer_says_is_masked_and_nowhere_afterwards() {
    let reason = format!("it shows {CANARY}");
    for (verdict, missing) in [("reject", json!([reason])), ("approve", json!([]))] {
        let scene = Scene::new(Sqlite::fresh).await;
        let said =
            json!({ "run": "R-18.1", "verdict": verdict, "reason": reason, "missing": missing });
        let told = scene.done(&ADA, "run review", said).await;
        assert!(told["redacted"].as_u64().is_some_and(|count| count > 0), "{told}");
        let kept = scene.dump().await;
        assert!(!kept.contains(CANARY) && kept.contains(MASK), "{verdict}");
    }
}

#[tokio::test]
async fn a_secret_in_where_or_when_a_channel_tells_is_refused_and_nowhere_afterwards() {
    let scene = Scene::new(Sqlite::fresh).await;
    let before = scene.dump().await;
    let place = json!({ "channel": "pager", "webhook": format!("https://127.0.0.1:9/{CANARY}") });
    let hours = json!({ "channel": "pager", "quiet_hours": format!("22:00-07:00 {CANARY}") });
    for (field, arguments) in [("webhook", place), ("quiet_hours", hours)] {
        let refused = scene.perform(&ADA, row("channel add"), arguments, "secret").await;
        let body = refused.err().map(|problem| problem.body()).expect("it is refused");
        let named = (&body["code"], &body["errors"][0]["field"]);
        assert_eq!(named, (&json!("invalid"), &json!(field)), "{body}");
        assert!(!body.to_string().contains(CANARY), "{body}");
    }
    assert_eq!(scene.dump().await, before);
}

/// The places of an operation that take free text and end up somewhere.
fn free_texts(entry: &Entry) -> Vec<String> {
    let mut places = vec![];
    if entry.about.changes() {
        birds::places("", &entry.arguments, &mut places);
    }
    let title = title(entry);
    let apart = |place: &String| !PICKY.contains(&(title.as_str(), place));
    places.into_iter().filter(apart).map(|place| format!("{title} {place}")).collect()
}
