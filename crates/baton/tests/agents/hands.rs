//! From hand to hand: whoever comes next goes on from the packet of whoever was there before.

use baton_testkit::agents::{AGENTS, Agent};
use baton_testkit::model::{Model, Turn};
use serde_json::json;

use crate::house::{House, PROJECT, Settings};
use crate::{beginning, call, play};

/// What one agent notes, and the next one must have read.
fn note(agent: Agent) -> String {
    format!("{} has painted its quarter of the fence", agent.name())
}

fn going_on() -> Turn {
    call("run_claim", json!({ "project": PROJECT }))
}

/// A turn of work: begin or go on, note how far it is, and ask for help.
fn stuck(agent: Agent, first: Turn) -> Vec<Turn> {
    let question = format!("Which colour comes after that of {}?", agent.name());
    vec![
        first,
        call("run_checkpoint", json!({ "summary": note(agent) })),
        call("run_block", json!({ "kind": "needs_input", "reason": question })),
        Turn::Text("I asked for help.".to_owned()),
    ]
}

fn finishing(first: Turn) -> Vec<Turn> {
    vec![
        first,
        call("run_complete", json!({ "summary": "The fence is painted." })),
        Turn::Text("It is done.".to_owned()),
    ]
}

/// One goes as far as it can and asks; once it is answered, the next one goes on, and so forth.
fn hand_on(chain: &[Agent]) {
    let house = House::new();
    let (last, first) = chain.split_last().expect("there is somebody");
    for (number, agent) in first.iter().enumerate() {
        let begin = if number == 0 { beginning() } else { going_on() };
        let (_, heard) = play(&house, *agent, &Settings::Init, stuck(*agent, begin));
        let task = house.person.task();
        assert_eq!(task["badge"], "needs_you", "{}: {task}", agent.name());
        read_before(&first[..number], &heard);
        house.person.asked(&["answer", "T-1", "green"]);
    }
    let (_, heard) = play(&house, *last, &Settings::Init, finishing(going_on()));
    read_before(first, &heard);
    assert!(heard.contains("green"), "the answer came along");
    let task = house.person.task();
    assert_eq!(task["badge"], "done_unverified", "{task}");
    let attempts = house.person.asked(&["attempt", "list", "T-1"]);
    let attempts = attempts["items"].as_array().cloned().unwrap_or_default();
    let holders: Vec<_> = attempts.iter().map(|attempt| attempt["holder"].clone()).collect();
    assert_eq!(holders.len(), chain.len(), "{attempts:?}");
    for (number, holder) in holders.iter().enumerate() {
        assert!(!holders[..number].contains(holder), "each was an agent of its own: {holders:?}");
    }
}

/// Whoever came later was told what those before had noted.
fn read_before(before: &[Agent], heard: &str) {
    for agent in before {
        assert!(heard.contains(&note(*agent)), "what {} noted was not told", agent.name());
    }
}

/// Every other one goes on where this one stopped.
fn hand_on_to_all(first: Agent) {
    for second in AGENTS.into_iter().filter(|second| *second != first) {
        hand_on(&[first, second]);
    }
}

#[test]
fn four_agent_programs_hand_one_run_on_and_the_last_completes_it() {
    hand_on(&AGENTS);
}

#[test]
fn every_other_agent_program_goes_on_where_claude_code_stopped() {
    hand_on_to_all(Agent::Claude);
}

#[test]
fn every_other_agent_program_goes_on_where_codex_stopped() {
    hand_on_to_all(Agent::Codex);
}

#[test]
fn every_other_agent_program_goes_on_where_gemini_cli_stopped() {
    hand_on_to_all(Agent::Gemini);
}

#[test]
fn every_other_agent_program_goes_on_where_opencode_stopped() {
    hand_on_to_all(Agent::Opencode);
}

#[test]
fn an_agent_program_whose_model_refuses_leaves_its_work_to_others() {
    let house = House::new();
    let turns = vec![
        beginning(),
        Turn::Status { code: 401, retry_after: None },
        Turn::Status { code: 401, retry_after: None },
    ];
    let model = Model::start(turns).expect("there is a port");
    let ended = house.run(Agent::Claude, &Settings::Init, &model.url(), "Work on the fence.");
    assert!(!ended.too_long, "{}", ended.err);
    // Its client is gone, so nobody waits for the lease to run out.
    assert_eq!(house.person.task()["badge"], "queued", "{}", house.person.task());
}
