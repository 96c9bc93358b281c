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

#[test]
fn every_command_is_in_the_list_of_the_surface() {
    let mut listed: Vec<String> = vec![];
    for command in super::super::tree::tree().get_subcommands().filter(|one| !one.is_hide_set()) {
        let name = command.get_name();
        let known = crate::aliases::find(name).is_some()
            || crate::operations::all().iter().any(|entry| entry.about.noun == name);
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        let by_hand =
            |verb: &&clap::Command| crate::operations::find(name, verb.get_name()).is_none();
        let inner: Vec<_> = command.get_subcommands().filter(by_hand).collect();
        if inner.is_empty() && !known {
            listed.push(format!("{name}: {}", about(command).unwrap_or_default()));
        }
        for verb in inner {
            listed.push(format!("{name} {}: {}", verb.get_name(), about(verb).unwrap_or_default()));
        }
    }
    let mut said: Vec<_> = crate::surface::COMMANDS
        .iter()
        .map(|(typed, summary)| format!("{typed}: {summary}"))
        .collect();
    listed.sort();
    said.sort();
    assert_eq!(listed, said, "surface::COMMANDS lists what is written by hand");
}

#[tokio::test]
async fn a_token_that_is_none_is_a_mistake_of_whoever_set_it() {
    let mut machine = Machine::silent();
    machine.around.claim_token = Some(crate::surroundings::Hidden::new("batonc_x\ny"));
    let printed = machine.types(&["checkpoint", "half"]).await;
    assert_eq!(printed.exit, 2, "{printed:?}");
    assert!(printed.err.contains("BATON_CLAIM_TOKEN"), "{printed:?}");
}

#[tokio::test]
async fn what_is_as_usual_is_shown_only_if_all_is_asked_for() {
    let task = json!({
        "id": "T-1", "badge": "queued", "stage": "coding", "title": "one",
        "policy": { "attempts_max": 3, "lease": "10m" },
    });
    for (flags, shown) in [(&["show", "T-1"][..], false), (&["show", "T-1", "--all"], true)] {
        let machine = Machine::serving(vec![Says::Answer(200, task.clone(), None)]);
        let printed = machine.types(flags).await;
        assert!(printed.out.contains("policy.lease"), "{printed:?}");
        assert_eq!(printed.out.contains("policy.attempts_max"), shown, "{printed:?}");
    }
}
