//! Why a task does not go on: every cause that can be brought about is, the right one is named first, and the
//! command that is named with it is typed as it stands.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::fs::Mode;
use serde_json::Value;

use crate::house::{House, until};

/// What the first cause of a task is.
fn first(house: &House, task: &str) -> Value {
    house.types(&["explain", task])["causes"][0].clone()
}

fn code(house: &House, task: &str) -> String {
    first(house, task)["code"].as_str().unwrap_or("none").to_owned()
}

/// Words of a command line as a shell would read them: the dots stand for what a person says.
fn words(command: &str, said: &str) -> Vec<String> {
    let mut words = vec![];
    let mut rest = command;
    while let Some(next) = rest.trim_start().chars().next() {
        rest = rest.trim_start();
        let (word, after) = match next {
            '"' | '\'' => rest[1..].split_once(next).expect("a quote ends"),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.replace('…', said));
        rest = after;
    }
    words
}

/// Types the command that is named with the first cause, and what it answers.
fn cure(house: &House, task: &str, said: &str) -> Value {
    let command = first(house, task)["command"].as_str().unwrap_or_default().to_owned();
    let words =
        words(command.strip_prefix("baton ").unwrap_or_else(|| panic!("{task}: {command}")), said);
    house.types(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn add(house: &House, more: &[&str]) -> String {
    let words: Vec<_> = ["add", "Greet", "-P", "shop"].iter().chain(more).copied().collect();
    house.types(&words)["id"].as_str().expect("an id").to_owned()
}

/// A task that could be begun at once.
fn ready(house: &House) -> String {
    add(house, &["--stage", "coding"])
}

/// Brings a cause about for a new task, and sees that its command leads to the next one.
fn check(
    house: &House,
    cause: &str,
    said: &str,
    after: &str,
    bring: impl Fn(&House) -> String,
) -> String {
    let task = bring(house);
    assert_eq!(code(house, &task), cause, "{}", house.types(&["explain", &task]));
    cure(house, &task, said);
    assert_eq!(code(house, &task), after, "after {cause}: {}", house.types(&["explain", &task]));
    task
}

/// Claims a task as an agent without a worker; its token is what it says.
fn claim(house: &House, task: &str) -> String {
    let claimed = house.types(&["run", "claim", "--task", task]);
    claimed["claim_token"].as_str().expect("a token").to_owned()
}

/// When a run that was just claimed ends at the latest: after this test, and sooner than anything may be
/// put off.
fn tomorrow(house: &House, task: &str) -> String {
    let run = house.types(&["run", "show", task]);
    run["ends_at"].as_str().unwrap_or_else(|| panic!("it ends: {run}")).to_owned()
}

fn says(house: &House, token: &str, words: &[&str]) {
    let mut command = house.command(words);
    let output = command.env("BATON_CLAIM_TOKEN", token).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn house() -> House {
    let mut house = House::empty("say I begin.\ncomplete Done\n");
    house.serve();
    house.types(&["project", "add", "shop"]);
    house
}

#[test]
fn what_keeps_a_task_from_being_begun_is_lifted_by_its_command() {
    let house = house();
    let next = "no_worker";
    // A draft has no stage: what is published waits in the backlog, and its command begins it.
    let task = check(&house, "draft", "", "backlog", |h| add(h, &["--draft"]));
    cure(&house, &task, "");
    assert_eq!(code(&house, &task), next);
    check(&house, "awaiting_approval", "", next, |h| {
        add(h, &["--stage", "coding", "--needs-approval"])
    });
    check(&house, "backlog", "", next, |h| add(h, &[]));
    check(&house, "frozen", "Go on", next, |h| {
        let task = ready(h);
        h.types(&["task", "freeze", &task, "--reason", "Too early"]);
        let cause = first(h, &task);
        assert_eq!(cause["words"], "Too early", "{cause}");
        assert!(cause["since"].is_string() && cause["by"].is_string(), "{cause}");
        task
    });
    check(&house, "review_hold", "Go on", next, |h| {
        let task = ready(h);
        h.types(&["task", "hold", &task, "--reason", "Let me see"]);
        task
    });
    check(&house, "delayed", "Now", next, |h| {
        let other = ready(h);
        claim(h, &other);
        add(h, &["--stage", "coding", "--start-at", &tomorrow(h, &other)])
    });
    check(&house, "assignee_absent", "", next, |h| {
        add(h, &["--stage", "coding", "--assignee", "bob"])
    });
    check(&house, "dependency_failed", "", next, |h| {
        let first = ready(h);
        let task = add(h, &["--stage", "coding", "--depends-on", &first]);
        assert_eq!(code(h, &task), "dependency_open");
        assert!(cure(h, &task, "")["causes"].is_array(), "it leads to the other one");
        h.types(&["task", "close", &first, "--reason", "No"]);
        until("the end is told", || code(h, &task) != "dependency_open");
        task
    });
}

#[test]
fn what_is_shut_or_full_is_opened_by_its_command() {
    let house = house();
    let next = "no_worker";
    for part in [&["-P", "shop"][..], &["-P", "shop", "--stage", "coding"], &[]] {
        check(&house, "paused", "", next, |h| {
            let words = ["scheduler", "pause", "--reason", "The disk is changed"];
            h.types(&words.iter().chain(part).copied().collect::<Vec<_>>());
            let task = ready(h);
            assert_eq!(first(h, &task)["words"], "The disk is changed");
            task
        });
    }
    check(&house, "paused", "", next, |h| {
        let task = ready(h);
        h.types(&["scheduler", "pause", "--task", &task, "--reason", "Not this one"]);
        task
    });
    check(&house, "pool_full", "5", next, |h| {
        h.types(&["pool", "set", "stage shop coding", "--limit", "0"]);
        ready(h)
    });
    check(&house, "pool_full", "5", next, |h| {
        h.types(&["pool", "set", "key shop db", "--limit", "0"]);
        add(h, &["--stage", "coding", "--key", "db"])
    });
    check(&house, "pool_full", "5", next, |h| {
        let task = ready(h);
        h.types(&["pool", "set", &format!("budget {task}"), "--money", "0"]);
        task
    });
}

#[test]
fn what_parked_or_ended_a_run_is_put_right_by_its_command() {
    let house = house();
    let next = "no_worker";
    check(&house, "blocked", "The second", next, |h| {
        let task = ready(h);
        says(h, &claim(h, &task), &["block", "needs_input", "Which of the two?"]);
        let cause = first(h, &task);
        assert_eq!(cause["words"], "Which of the two?", "{cause}");
        assert!(cause["by"].is_string(), "{cause}");
        task
    });
    check(&house, "blocked", "It is back", next, |h| {
        let task = ready(h);
        let token = claim(h, &task);
        let until = tomorrow(h, &task);
        says(h, &token, &["block", "transient", "The registry is down", "--until", &until]);
        task
    });
    check(&house, "blocked", "", "held", |h| {
        let task = ready(h);
        says(h, &claim(h, &task), &["block", "capability", "It needs one", "--capability", "gpu"]);
        task
    });
    check(&house, "waiting_for_input", "The second", "held", |h| {
        let task = ready(h);
        says(h, &claim(h, &task), &["ask", "Which of the two?"]);
        task
    });
    check(&house, "failed", "Again", next, |h| {
        let task = add(h, &["--stage", "coding", "--policy", r#"{"attempts_max":1}"#]);
        says(h, &claim(h, &task), &["fail", "stuck", "I cannot"]);
        task
    });
    check(&house, "cancelled", "Again", next, |h| {
        let task = ready(h);
        h.types(&["cancel", &task, "Not now"]);
        task
    });
}

#[test]
fn a_claimer_that_cannot_do_it_is_told_from_none_at_all() {
    let house = house();
    let task = add(&house, &["--stage", "coding", "--capabilities", "gpu"]);
    assert_eq!(code(&house, &task), "no_worker");
    // A person can do everything; an agent only what it says.
    let key = ["key", "create", "--name", "fox", "--principal", "fox", "--scopes", "agent"];
    let made = house.types(&key);
    let path = house.path("fox.key");
    fs::write(&path, made["key"].as_str().expect("it is shown once")).expect("there is room");
    rustix::fs::chmod(&path, Mode::RUSR | Mode::WUSR).expect("it is ours");
    let words = ["run", "claim", "--capabilities", "rust", "--wait", "60s"];
    let mut waits = house.command(&words);
    let waits = waits.env("BATON_KEY_FILE", &path).stdout(Stdio::null());
    let mut waits = waits.spawn().expect("it starts");
    until("somebody waits", || code(&house, &task) == "capability_missing");
    let claimed = cure(&house, &task, "");
    assert_eq!(
        claimed["run"]["task"].as_str().or(claimed["task"].as_str()),
        Some(&*task),
        "{claimed}"
    );
    assert_eq!(code(&house, &task), "held");
    waits.kill().expect("it is ours");
    waits.wait().expect("it is ours");
}

#[test]
fn the_command_against_no_worker_starts_the_task() {
    let house = house();
    let task = ready(&house);
    let cause = first(&house, &task);
    assert_eq!(cause["code"], "no_worker", "{cause}");
    let command = cause["command"].as_str().expect("a command").to_owned();
    let words = words(command.strip_prefix("baton ").expect("a command of ours"), "");
    let mut up = house.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut up = up.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(up.stdout.take().expect("it is piped")).read_line(&mut line).expect("text");
    assert!(up.wait().expect("it is ours").success(), "{line} {}", house.logs());
    let waited = house.tries(&["wait", &task, "--timeout", "90s"]);
    assert_eq!(waited.status.code(), Some(0), "{}", house.logs());
    assert_eq!(code(&house, &task), "ended");
}

#[test]
fn a_stage_of_people_and_a_spent_task_say_so() {
    let house = house();
    house.types(&[
        "project",
        "add",
        "desk",
        "--stages",
        r#"{"name":"writing","worked_by":"person"}"#,
    ]);
    let task = house.types(&["add", "Write", "-P", "desk", "--stage", "writing"]);
    let task = task["id"].as_str().expect("an id").to_owned();
    assert_eq!(code(&house, &task), "person_stage");
    cure(&house, &task, "");
    assert_eq!(code(&house, &task), "held");
    let parent = add(&house, &["--kind", "epic"]);
    add(&house, &["--parent", &parent]);
    assert_eq!(code(&house, &parent), "children_open");
}
