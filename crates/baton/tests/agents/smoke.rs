//! One turn of every agent program: it is primed, begins, notes how far it is, asks a person, waits
//! for the answer, and completes.

use baton_testkit::agents::Agent;
use baton_testkit::model::Turn;
use serde_json::{Value, json};

use crate::house::{House, Settings};
use crate::{beginning, call, play};

/// A turn of work, with a person who answers as soon as the question is there.
fn asking(house: &House) -> Vec<Turn> {
    let person = house.person.clone();
    let wait = Turn::Call {
        tool: "run_wait",
        arguments: Box::new(move |_| {
            // The question was put: its answer is what has just been read.
            person.asked(&["answer", "T-1", "green"]);
            json!({ "wait": "50s" })
        }),
    };
    vec![
        beginning(),
        call("run_checkpoint", json!({ "summary": "Half of it is painted." })),
        call("run_ask", json!({ "question": "Which colour for the rest?" })),
        wait,
        call("run_complete", json!({ "summary": "It is painted." })),
        Turn::Text("It is done.".to_owned()),
    ]
}

fn works(agent: Agent, primed_by: &str) {
    let house = House::new();
    let (_, heard) = play(&house, agent, &Settings::Init, asking(&house));
    assert!(heard.contains(primed_by), "{} was not told {primed_by:?}", agent.name());
    // Words of the answer of a tool, which is a text in what the model is told.
    for word in [r#"\"text\":\"green\""#, r#"\"mark\":\"delivered\""#] {
        assert!(heard.contains(word), "{} did not hear the answer: {word}", agent.name());
    }
    let task = house.person.task();
    assert_eq!(task["badge"], "done_unverified", "{task}");
    let events = house.person.asked(&["event", "list"]);
    let events = events["items"].as_array().expect("a list");
    let of_agents = |event: &&Value| {
        event["actor"]["principal"].as_str().is_some_and(|name| name.starts_with("mcp-"))
    };
    let origins: Vec<_> =
        events.iter().filter(of_agents).map(|event| &event["actor"]["origin"]).collect();
    assert!(origins.len() >= 4 && origins.iter().all(|origin| **origin == "mcp"), "{origins:?}");
}

/// What `baton prime` prints, which hooks bring into a conversation.
const HOOK: &str = "Whoever goes on after you sees nothing of this conversation";
/// What `baton init` puts into `AGENTS.md`.
const BLOCK: &str = "Work is tracked by Baton";

#[test]
fn claude_code_is_set_up_by_init_and_asks_a_person() {
    works(Agent::Claude, HOOK);
}

#[test]
fn codex_is_set_up_by_init_and_asks_a_person() {
    works(Agent::Codex, HOOK);
}

#[test]
fn gemini_cli_is_set_up_by_init_and_asks_a_person() {
    works(Agent::Gemini, HOOK);
}

#[test]
fn opencode_is_set_up_by_init_and_asks_a_person() {
    // It has no hooks that run commands.
    works(Agent::Opencode, BLOCK);
}
