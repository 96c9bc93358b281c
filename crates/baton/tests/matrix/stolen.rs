//! What somebody gets who takes the files, and what a restored copy is worth.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::caller::{Answer, Ask};
use crate::serving::{Serving, folder, start};

async fn ask(serving: &Serving, method: &str, target: &str, body: &Value) -> Answer {
    let head = serving.get(target);
    let ask = Ask { method: method.to_owned(), ..head };
    let ask =
        ask.json(body).with("idempotency-key", &format!("{method}{target}").replace(' ', "-"));
    serving.connect().await.ask(&ask).await
}

/// Every file below a folder that contains one of the words.
pub fn holders(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut found = vec![];
    for one in fs::read_dir(folder).expect("it is ours") {
        let path = one.expect("it is there").path();
        if path.is_dir() {
            found.extend(holders(&path, words));
        } else if path.is_file() {
            let bytes = fs::read(&path).expect("it is ours");
            let has = |word: &&&str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
            found.extend(words.iter().find(has).map(|_| path.display().to_string()));
        }
    }
    found
}

fn run(data: &Path, words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.env_clear().env("BATON_HOME", data).args(words);
    let output = command.output().expect("it ends");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Every way to go on after a place: by lists of all sorts, and by a stream.
fn from(serving: &Serving, place: &str) -> Vec<Ask> {
    let get = |more: &str| serving.get(&format!("/v1/events?{more}"));
    let after = format!("after={place}");
    let stream = |ask: Ask| ask.with("accept", "text/event-stream");
    vec![
        get(&after),
        get(&format!("{after}&newest=true")),
        get(&format!("{after}&task=T-1")),
        get(&format!("{after}&kind=created")),
        stream(get(&after)),
        stream(get(&format!("{after}&task=T-1"))),
        stream(serving.get("/v1/events").with("last-event-id", place)),
    ]
}

/// The same as a person types it: what it exits with, and what it prints.
fn typed(serving: &Serving, place: &str) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.env_clear().args(["event", "list", "--json", "--after", place]);
    command.env("BATON_URL", serving.text("url"));
    command.env("BATON_KEY_FILE", serving.text("key_file"));
    let output = command.output().expect("it ends");
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    (output.status.code(), serde_json::from_slice(said).expect("it prints JSON"))
}

/// The cursors of everything that happened.
async fn cursors(serving: &Serving) -> Vec<String> {
    let events = serving.connect().await.ask(&serving.get("/v1/events")).await.json();
    let items = events["items"].as_array().expect("a list");
    items.iter().map(|item| item["cursor"].as_str().expect("a place").to_owned()).collect()
}

#[tokio::test]
async fn a_cursor_of_before_a_restore_has_expired_wherever_it_is_shown() {
    let folder = folder();
    let data = folder.path().join("data");
    let serving = start(&data);
    ask(&serving, "PUT", "/v1/projects/shop", &json!({})).await;
    ask(&serving, "POST", "/v1/tasks", &json!({ "project": "shop", "title": "a goal" })).await;
    ask(&serving, "PUT", "/v1/projects/toys", &json!({})).await;
    let before = cursors(&serving).await;
    let place = &before[before.len() - 2];
    for good in from(&serving, place) {
        let mut caller = serving.connect().await;
        caller.send(&good).await;
        let (status, _) = caller.head().await.expect("it answers");
        assert_eq!(status, 200, "{good:?}");
    }
    assert_eq!(typed(&serving, place).0, Some(0));
    let copy = folder.path().join("copy.db");
    run(&data, &["backup", copy.to_str().expect("a plain path")]);
    drop(serving);
    run(&data, &["restore", copy.to_str().expect("a plain path")]);

    let again = start(&data);
    let after = cursors(&again).await;
    assert!(after.len() >= before.len(), "the place itself is there, in another life");
    for late in from(&again, place) {
        let refused = again.connect().await.ask(&late).await;
        let code = (refused.status, refused.code());
        assert_eq!(code, (410, "cursor_expired".to_owned()), "{late:?}");
    }
    let (exit, said) = typed(&again, place);
    assert_eq!((exit, &said["error"]["code"]), (Some(5), &json!("cursor_expired")), "{said}");
    for good in from(&again, &after[after.len() - 2]).iter().take(4) {
        assert_eq!(again.connect().await.ask(good).await.status, 200, "{good:?}");
    }
}

#[tokio::test]
async fn no_secret_is_on_disk_and_a_restored_copy_knows_no_token_of_before() {
    let folder = folder();
    let data = folder.path().join("data");
    let serving = start(&data);
    ask(&serving, "PUT", "/v1/projects/shop", &json!({})).await;
    let goal = json!({ "title": "a goal", "project": "shop" });
    let started = ask(&serving, "POST", "/v1/runs/start", &goal).await;
    assert_eq!(started.status, 201, "{started:?}");
    let token = started.json()["claim_token"].as_str().expect("it is shown").to_owned();
    let wish = json!({ "name": "canary", "principal": "canary", "scopes": ["all"] });
    let made = ask(&serving, "POST", "/v1/keys", &wish).await.json();
    let key = made["key"].as_str().expect("it is shown").to_owned();
    let copy = folder.path().join("copy.db");
    run(&data, &["backup", copy.to_str().expect("a plain path")]);
    drop(serving);

    let secret = key.split('_').nth(2).expect("a key has parts").to_owned();
    assert!(secret.len() > 40, "{secret}");
    assert_eq!(holders(folder.path(), &[&token, &token[7..], &key, &secret]), [] as [&str; 0]);

    run(&data, &["restore", copy.to_str().expect("a plain path")]);
    let again = start(&data);
    let note = json!({ "summary": "still here" });
    let ask = Ask { method: "POST".into(), ..again.get("/v1/runs/T-1/checkpoints") };
    let ask = ask.json(&note).with("idempotency-key", "late").with("baton-claim-token", &token);
    let late = again.connect().await.ask(&ask).await;
    assert_eq!((late.status, late.code().as_str()), (409, "lease_lost"));
    let task = again.connect().await.ask(&again.get("/v1/tasks/T-1")).await.json();
    assert_eq!(task["title"], "a goal", "what was copied is there");
    drop(again);

    fs::remove_file(data.join("pepper")).expect("it is ours");
    fs::remove_file(data.join("local.key")).expect("it is ours");
    let mut command = crate::serving::command(&data, &["--listen", "127.0.0.1:0"]);
    let output = command.output().expect("it ends");
    assert!(!output.status.success(), "files without their pepper open nothing");
}
