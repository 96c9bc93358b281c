//! Completions.

use serde_json::json;

use super::Machine;
use crate::client::tests::Says;

async fn words(machine: &Machine, line: &[&str]) -> Vec<String> {
    let at = (line.len() - 1).to_string();
    let asked: Vec<&str> =
        ["complete-words", "--at", &at, "--"].into_iter().chain(line.iter().copied()).collect();
    let printed = machine.types(&asked).await;
    assert_eq!((printed.exit, printed.err.as_str()), (0, ""));
    printed.out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn commands_flags_and_choices_are_completed_without_a_server() {
    let machine = Machine::silent();
    assert_eq!(words(&machine, &["baton", "chec"]).await, ["checkpoint"]);
    assert_eq!(words(&machine, &["baton", "task", "unf"]).await, ["unfreeze"]);
    assert_eq!(words(&machine, &["baton", "add", "x", "--prio"]).await, ["--priority"]);
    let found = words(&machine, &["baton", "add", "x", "--priority", ""]).await;
    assert_eq!(found, ["high", "low", "normal", "urgent"]);
    assert_eq!(words(&machine, &["baton", "--color", "a"]).await, ["always", "auto"]);
    assert_eq!(words(&machine, &["baton", "completions", ""]).await, ["bash", "fish", "zsh"]);
    assert!(words(&machine, &["baton", "complete-w"]).await.is_empty());
    assert!(words(&machine, &["baton", "show", "T-"]).await.is_empty());
}

#[tokio::test]
async fn tasks_projects_and_stages_come_from_the_server() {
    let tasks = json!({ "items": [{ "id": "T-1" }, { "id": "T-12" }] });
    let machine = Machine::serving(vec![Says::Answer(200, tasks, None)]);
    assert_eq!(words(&machine, &["baton", "show", "T-"]).await, ["T-1", "T-12"]);
    assert_eq!(words(&machine, &["baton", "run", "cancel", "T-12"]).await, ["T-12"]);
    let stage = |name: &str| json!({ "name": name });
    let projects = json!({ "items": [{ "id": "shop", "stages": [stage("coding"), stage("qa")] }] });
    let machine = Machine::serving(vec![Says::Answer(200, projects, None)]);
    assert_eq!(words(&machine, &["baton", "-P", "s"]).await, ["shop"]);
    assert_eq!(words(&machine, &["baton", "add", "x", "--stage", ""]).await, ["coding", "qa"]);
}

#[tokio::test]
async fn the_scripts_call_back() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = Machine::silent().types(&["completions", shell]).await;
        assert!(printed.out.contains("baton complete-words --at "), "{shell}");
    }
}
