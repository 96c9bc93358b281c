//! What is answered is what the description for programs says, to every status: real answers are
//! held against `openapi.json` by a validator that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use baton::operation::Entry;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::caller::{Answer, Ask};
use crate::equal::elsewhere;
use crate::examples::{Example, example, table};
use crate::ground::Memory;
use crate::scene::{ADA, BEA, Scene, Who, title};
use crate::surfaces::plain;

/// The statuses that the requests below bring about.
const SEEN: [u16; 11] = [200, 201, 400, 401, 403, 404, 405, 409, 412, 415, 422];

/// The description, with a validator for each of its parts that was needed so far.
struct Described {
    whole: Value,
    ready: BTreeMap<String, Validator>,
    seen: BTreeSet<u16>,
}

impl Described {
    fn new() -> Self {
        let whole = serde_json::from_str(include_str!("../../openapi.json")).expect("it is JSON");
        Self { whole, ready: BTreeMap::new(), seen: BTreeSet::new() }
    }

    fn operation(&self, entry: &Entry) -> &Value {
        let method = entry.about.method.word().to_lowercase();
        &self.whole["paths"][entry.about.path][method]
    }

    /// What the validator says of a value, under the schema at this place of the description.
    fn faults(&mut self, name: &str, schema: &Value, value: &Value) -> Vec<String> {
        let validator = self.ready.entry(name.to_owned()).or_insert_with(|| {
            let mut root = schema.as_object().cloned().unwrap_or_else(Map::new);
            root.insert("components".to_owned(), self.whole["components"].clone());
            jsonschema::draft202012::new(&Value::Object(root)).expect("it is a schema")
        });
        let told =
            |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
        validator.iter_errors(value).map(told).collect()
    }

    fn check(&mut self, entry: &Entry, answer: &Answer) {
        let told = format!("{} {}: {}", title(entry), answer.status, answer.json());
        let response = &self.operation(entry)["responses"][answer.status.to_string()];
        let response = match response["$ref"].as_str() {
            Some(place) => self.whole.pointer(place.trim_start_matches('#')).expect("it is there"),
            None => response,
        };
        let kind = answer.header("content-type").split(';').next().unwrap_or_default();
        let schema = response["content"][kind]["schema"].clone();
        assert!(schema.is_object(), "{kind} is not described: {told}");
        let name = format!("{} {}", entry.about.name(), answer.status);
        let faults = self.faults(&name, &schema, &answer.json());
        assert!(faults.is_empty(), "{faults:?}: {told}");
        self.seen.insert(answer.status);
    }
}

/// Requests that are refused, each for another reason.
fn refused(scene: &Scene, entry: &Entry, asked: &Example) -> Vec<Ask> {
    let key = "described";
    let signed = |who: &Who, ask: Ask| scene.signed(who, ask);
    let right = || plain(entry, &asked.arguments, key);
    let mut strange = asked.arguments.clone();
    strange["nonsense"] = json!("x");
    let mut missing = asked.arguments.clone();
    elsewhere(&mut missing);
    let mut all = vec![
        scene.world.plain(right()),
        signed(&Who { key: "reader", token: None }, right()),
        signed(&BEA, right()),
        signed(&asked.who, plain(entry, &strange, key)),
        signed(&asked.who, plain(entry, &missing, "missing")),
        signed(&asked.who, right().with("if-match", "\"999\"")),
        signed(&asked.who, Ask { method: "TRACE".to_owned(), ..right() }),
    ];
    if entry.about.changes() {
        all.push(signed(&asked.who, right().bytes("{")));
        all.push(signed(&asked.who, right().without("content-type")));
        all.push(signed(&asked.who, right().without("idempotency-key")));
    }
    all
}

#[tokio::test]
async fn every_answer_is_as_it_is_described() {
    let mut described = Described::new();
    for entry in table() {
        let scene = Scene::new(Memory::fresh).await;
        let asked = example(&scene, entry);
        for ask in refused(&scene, entry, &asked) {
            let answer = scene.world.ask(&ask).await;
            described.check(entry, &answer);
        }
        // Granted, repeated, and asked again for what is so by now.
        for key in ["first", "first", "second"] {
            let ask = scene.signed(&asked.who, plain(entry, &asked.arguments, key));
            let answer = scene.world.ask(&ask).await;
            described.check(entry, &answer);
        }
    }
    for status in SEEN {
        assert!(described.seen.contains(&status), "no answer had the status {status}");
    }
}

#[tokio::test]
async fn what_is_granted_is_offered_and_what_is_offered_is_checked() {
    let mut described = Described::new();
    let scene = Scene::new(Memory::fresh).await;
    for entry in table().into_iter().filter(|entry| entry.about.changes()) {
        let schema =
            described.operation(entry)["requestBody"]["content"]["application/json"]["schema"]
                .clone();
        let mut body = example(&scene, entry).arguments;
        for name in entry.about.placeholders() {
            body.as_object_mut().expect("an object").remove(name);
        }
        let name = entry.about.name();
        let faults = described.faults(&name, &schema, &body);
        assert!(faults.is_empty(), "{name}: {faults:?}");
        body["nonsense"] = json!("x");
        assert!(!described.faults(&name, &schema, &body).is_empty(), "{name} takes anything");
    }
}

#[tokio::test]
async fn a_claim_token_is_described_wherever_it_may_be_shown() {
    let described = Described::new();
    for entry in table() {
        let parameters = described.operation(entry)["parameters"].to_string();
        let offered = parameters.contains("#/components/parameters/ClaimToken");
        let scene_needed = entry.about.takes_token();
        assert_eq!(offered, scene_needed, "{}", title(entry));
    }
    // Who shows one where only persons speak is told so.
    let scene = Scene::new(Memory::fresh).await;
    let inside = Who { token: Some("held"), ..ADA };
    for entry in table().into_iter().filter(|entry| !entry.about.takes_token()) {
        let ask = plain(entry, &example(&scene, entry).arguments, "inside");
        let answer = scene.world.ask(&scene.signed(&inside, ask)).await;
        assert_eq!(answer.code(), "not_for_you", "{}", title(entry));
    }
}
