//! Words that must never get as far as a lease, a row or a log, whichever way they come.

use baton::operation::Entry;
use serde_json::{Value, json};

use crate::examples::{example, example_with, table};
use crate::ground::Fresh;
use crate::program::{Program, ROADS, Road};
use crate::scene::{ADA, Scene, Who, entry, holding, title};
use crate::stolen::holders;
use crate::surfaces::{Said, Stand, WAYS};

crate::on_every_ground![
    embedded:
    a_blank_reason_is_refused_before_any_lease_is_looked_for,
    a_secret_in_a_reason_is_refused_and_not_repeated,
    a_path_that_could_leave_its_root_is_refused,
    a_file_under_two_names_is_refused,
];

/// Paths that could lead out of a folder, or to one file under two names.
const WAYS_OUT: [&str; 17] = [
    "..",
    "../a",
    "a/../b",
    "/a",
    "a//b",
    "a/./b",
    "./a",
    "a/",
    "a\\b",
    "a/..",
    "a\u{1}b",
    "C:\\a",
    "a.",
    "a/b. /c",
    "a ",
    "e\u{301}",
    "\u{1112}\u{1161}",
];

/// Operations that take a reason.
fn reasoned() -> Vec<&'static Entry> {
    let all: Vec<_> =
        table().into_iter().filter(|entry| entry.arguments.field("reason").is_some()).collect();
    assert!(all.len() > 12, "more than {} have a reason", all.len());
    all
}

/// The one who asks, with a token that is good no longer.
fn late(who: Who) -> Who {
    Who { token: who.token.map(|_| "blocked"), ..who }
}

fn names_the_reason(said: &Said, told: &str) {
    assert_eq!((said.granted, &said.body["code"]), (false, &json!("invalid")), "{told}");
    assert_eq!(said.body["errors"][0]["field"], "reason", "{told}: {}", said.body);
}

/// A request with another reason, for something that is not there.
fn with_reason(arguments: &Value, reason: &str) -> Value {
    let mut arguments = arguments.clone();
    arguments["reason"] = json!(reason);
    for (name, missing) in [("run", "R-999.1"), ("task", "T-999")] {
        if arguments[name].is_string() {
            arguments[name] = json!(missing);
        }
    }
    arguments
}

async fn a_blank_reason_is_refused_before_any_lease_is_looked_for(fresh: Fresh) {
    let stand = Stand::of(Scene::new(fresh).await);
    let before = stand.scene.dump().await;
    for entry in reasoned() {
        let asked = example(&stand.scene, entry);
        for way in WAYS {
            let arguments = with_reason(&asked.arguments, " \t\n ");
            let said = stand.ask(way, &late(asked.who), entry, &arguments, "blank").await;
            names_the_reason(&said, &format!("{} {way:?}", title(entry)));
        }
    }
    assert_eq!(stand.scene.dump().await, before);
}

async fn a_secret_in_a_reason_is_refused_and_not_repeated(fresh: Fresh) {
    let stand = Stand::of(Scene::new(fresh).await);
    let before = stand.scene.dump().await;
    let secrets = [stand.scene.tokens["held"].clone(), stand.scene.keys["bea"].clone()];
    for entry in reasoned() {
        let asked = example(&stand.scene, entry);
        for (secret, way) in secrets.iter().flat_map(|one| WAYS.map(|way| (one, way))) {
            let mut arguments = asked.arguments.clone();
            arguments["reason"] = json!(format!("it said {secret}."));
            let said = stand.ask(way, &asked.who, entry, &arguments, "secret").await;
            names_the_reason(&said, &format!("{} {way:?}", title(entry)));
            assert!(!said.body.to_string().contains(&secret[7..]), "{}", said.body);
        }
    }
    assert_eq!(stand.scene.dump().await, before);
}

async fn a_file_under_two_names_is_refused(fresh: Fresh) {
    let stand = Stand::of(Scene::new(fresh).await);
    let before = stand.scene.dump().await;
    let (one, other) = ("a/Report.md", "A/report.md");
    let line = |id: &str, path: &str| json!({ "id": id, "kind": "artifact", "path": path });
    let lines = json!([line("one", one), line("other", other)]);
    let task = json!({ "project": "shop", "title": "twins", "contract": lines });
    let given = |path: &str| json!({ "path": path, "digest": "a".repeat(64), "bytes": 1 });
    let done = json!({ "run": "R-4.1", "artifacts": [given(one), given(other)] });
    for way in WAYS {
        for (who, what, arguments) in
            [(ADA, "task create", &task), (holding("held"), "run complete", &done)]
        {
            let said = stand.ask(way, &who, entry(what), arguments, "twins").await;
            let told = format!("{what} {way:?}: {}", said.body);
            assert_eq!((said.granted, &said.body["code"]), (false, &json!("invalid")), "{told}");
            assert!(said.body["detail"].as_str().is_some_and(|it| it.contains(other)), "{told}");
        }
    }
    assert_eq!(stand.scene.dump().await, before);
}

async fn a_path_that_could_leave_its_root_is_refused(fresh: Fresh) {
    let stand = Stand::of(Scene::new(fresh).await);
    let before = stand.scene.dump().await;
    let long = "a/".repeat(600) + "b";
    for path in WAYS_OUT.into_iter().chain([long.as_str(), "a\u{0}b", " "]) {
        let line = json!([{ "id": "report", "kind": "artifact", "path": path }]);
        let task = json!({ "project": "shop", "title": "a way out", "contract": line });
        let given = json!([{ "path": path, "digest": "a".repeat(64), "bytes": 1 }]);
        let done = json!({ "run": "R-4.1", "summary": "done", "artifacts": given });
        for way in WAYS {
            for (who, what, arguments) in
                [(ADA, "task create", &task), (holding("held"), "run complete", &done)]
            {
                let said = stand.ask(way, &who, entry(what), arguments, "way-out").await;
                let told = format!("{what} {path:?} {way:?}: {}", said.body);
                assert_eq!(
                    (said.granted, &said.body["code"]),
                    (false, &json!("invalid")),
                    "{told}"
                );
            }
        }
    }
    assert_eq!(stand.scene.dump().await, before);
}

#[tokio::test]
async fn the_program_refuses_blank_reasons_and_secrets_in_them_and_keeps_neither() {
    let program = Program::start_logging("json,trace");
    let house = program.house().await;
    let before = program.dump();
    let (token, key) = (house.tokens["held"].clone(), house.keys["bea"].clone());
    for entry in reasoned() {
        let asked = example_with(&house.spare, entry);
        for road in ROADS.into_iter().chain([Road::Mcp]) {
            let told = format!("{} {road:?}", title(entry));
            let blank = with_reason(&asked.arguments, "  ");
            names_the_reason(&house.ask(road, &late(asked.who), entry, &blank).await, &told);
            let mut telling = asked.arguments.clone();
            telling["reason"] = json!(format!("with {token} and {key}"));
            let said = house.ask(road, &asked.who, entry, &telling).await;
            names_the_reason(&said, &told);
            assert!(!said.body.to_string().contains(&token[7..]), "{told}: {}", said.body);
        }
    }
    assert_eq!(program.dump(), before, "a refusal left a trace");
    let folder = program.close();
    let secrets = [&token[7..], &key[20..]];
    assert_eq!(holders(folder.path(), &secrets), [] as [&str; 0], "files and log");
}
