//! Texts that would steer a terminal or hide something from whoever reads them, in everything that
//! somebody can say, and then everything that people and agents read.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::caller::{Answer, Ask};
use crate::serving::{Serving, folder, start};

/// What such a text holds. Most are refused where they come in; the others must not get out.
const CORPUS: [&str; 20] = [
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}]0;a new title\u{1b}\\",
    "\u{1b}]8;;http://evil.example\u{7}a link\u{1b}]8;;\u{7}",
    "\u{1b}[2J\u{1b}[H\u{1b}[31mall is well",
    "\u{9b}2J\u{9d}0;title\u{9c}",
    "\u{1b}P+q544e\u{1b}\\",
    "over\rwritten",
    "rubbed out\u{8}\u{8}\u{7f}",
    "a bell\u{7}",
    "right\u{202e}to left",
    "an isolate\u{2066}of text\u{2069}",
    "an Arabic mark\u{61c}",
    "without\u{200b}width\u{feff}",
    "a line\u{2028}of its own",
    "a soft\u{ad}hyphen",
    "tags\u{e0041}\u{e0042}",
    "a selector\u{e0100}",
    "fillers\u{3164}\u{115f}\u{ffa0}",
    "annotated\u{fff9}a\u{fffa}b\u{fffb}",
    "a vowel\u{180e}mark and a joiner\u{34f}",
];

fn is_hidden(c: char) -> bool {
    c != '\n' && baton::shape::is_hidden(c)
}

/// Says everything that can be said about a task, with this text in it, and tells which task it is
/// and how many of the texts were taken.
async fn story(server: &Serving, number: usize, poison: &str) -> (String, u64) {
    let mut taken = 0;
    let said = format!("say {poison} no more");
    let title = json!({ "title": said, "body": said, "project": "shop" });
    let started = ask(server, "/v1/runs/start", &format!("a-{number}"), None, &title).await;
    let started = if started.status == 422 {
        let plain = json!({ "title": "Something to do", "project": "shop" });
        ask(server, "/v1/runs/start", &format!("b-{number}"), None, &plain).await
    } else {
        taken += 1;
        started
    };
    assert_eq!(started.status, 201, "{:?}", started.json());
    let token = started.json()["claim_token"].as_str().expect("it is shown once").to_owned();
    let run = started.json()["run"]["id"].as_str().expect("it has a number").to_owned();
    let task = started.json()["task"]["id"].as_str().expect("it has a number").to_owned();
    let failed = json!([{ "item": said, "reason": said }]);
    let evidence = json!([{ "kind": "file", "reference": said, "summary": said }]);
    let note =
        json!({ "summary": said, "cursor": said, "evidence": evidence, "git": { "head": said } });
    for (verb, holder, body) in [
        ("progress", true, json!({ "done": [said], "failed": failed })),
        ("checkpoints", true, note),
        ("ask", true, json!({ "question": said })),
        ("ask", true, json!({ "question": "Which of the two?" })),
        ("answer", false, json!({ "answer": said })),
        ("answer", false, json!({ "answer": "The left one" })),
        ("block", true, json!({ "kind": "needs_input", "reason": said })),
        ("block", true, json!({ "kind": "needs_input", "reason": "I am stuck" })),
    ] {
        let path = format!("/v1/runs/{run}/{verb}");
        let key = format!("{verb}-{number}-{}", body.to_string().len());
        let answer = ask(server, &path, &key, holder.then_some(token.as_str()), &body).await;
        let fine = answer.status < 300 || [409, 422].contains(&answer.status);
        assert!(fine, "{verb}: {:?}", answer.json());
        taken += u64::from(answer.status < 300 && body.to_string().contains("no more"));
    }
    (task, taken)
}

async fn ask(server: &Serving, path: &str, key: &str, token: Option<&str>, body: &Value) -> Answer {
    let mut request = Ask::change("POST", path, key, body);
    request.headers.extend(server.get("/").headers);
    if let Some(token) = token {
        request = request.with("baton-claim-token", token);
    }
    server.connect().await.ask(&request).await
}

fn baton(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(words).args(["--color", "never"]).env_clear().env("BATON_HOME", home);
    command.current_dir(home).output().expect("it ends")
}

/// What is printed, if nothing hidden is in it.
fn clean(home: &Path, words: &[&str]) -> String {
    let output = baton(home, words);
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let printed = texts.concat();
    let hidden: Vec<_> = printed.chars().filter(|c| is_hidden(*c)).collect();
    assert!(hidden.is_empty(), "baton {words:?} prints {hidden:?}: {printed:?}");
    printed
}

#[tokio::test]
async fn nothing_that_steers_a_terminal_or_hides_from_a_reader_is_ever_printed() {
    let home = folder();
    let server = start(home.path());
    let home = home.path();
    clean(home, &["project", "add", "shop"]);
    let (mut tasks, mut taken) = (vec![], 0);
    for (number, poison) in CORPUS.iter().enumerate() {
        assert!(poison.chars().any(is_hidden), "{poison:?} is harmless");
        let (task, texts) = story(&server, number, poison).await;
        tasks.push(task);
        taken += texts;
        // What is refused is not repeated as it was.
        clean(home, &["add", poison, "--project", "shop"]);
    }
    assert!(taken > 0, "something of it is kept, or nothing is tried here");
    clean(home, &[]);
    for list in ["ls", "inbox", "events", "prime"] {
        clean(home, &[list]);
        clean(home, &[list, "--json"]);
    }
    for task in &tasks {
        for words in [
            &["show"][..],
            &["explain"],
            &["run", "show"],
            &["run", "handoff"],
            &["attempt", "list"],
            &["checkpoint", "list"],
        ] {
            let words: Vec<_> = words.iter().copied().chain([task.as_str()]).collect();
            clean(home, &words);
        }
        let packet = clean(home, &["run", "handoff", task, "--json"]);
        let packet: Value = serde_json::from_str(&packet).expect("it is JSON");
        let text =
            packet["text"].as_str().unwrap_or_else(|| panic!("{task} has no text: {packet}"));
        assert!(text.contains("> ") && !text.chars().any(is_hidden), "{text:?}");
    }
}
