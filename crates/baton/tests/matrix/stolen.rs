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
