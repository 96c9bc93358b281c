//! Real agent programs at the table, without a network: each connects by MCP, works, gets stuck and
//! asks for help; another one, of another maker, goes on from the packet and completes it.
//!
//! They are no part of `cargo test`, because they must be installed first: `./check soak` does both.

mod house;

use baton_testkit::agents::{AGENTS, Agent, Ended};
use baton_testkit::model::{Model, Turn, always};
use baton_testkit::rounds;
use serde_json::{Value, json};

use house::House;

/// What one agent notes, and the next one must have read.
fn note(agent: Agent) -> String {
    format!("{} has painted its quarter of the fence", agent.name())
}

fn call(tool: &'static str, arguments: Value) -> Turn {
    Turn::Call { tool, arguments: always(arguments) }
}

fn beginning(project: &str) -> Turn {
    call("run_start", json!({ "project": project, "title": "Paint the fence" }))
}

fn going_on(project: &str) -> Turn {
    call("run_claim", json!({ "project": project }))
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

/// Plays a script to an agent; everything that the model was told comes back.
fn play(house: &House, agent: Agent, turns: Vec<Turn>) -> (Ended, String) {
    let model = Model::start(turns).expect("there is a port");
    let ended = house.run(agent, &model.url(), "Work on the fence with the tools of baton.");
    assert!(!ended.too_long, "{}: {}\n{}", agent.name(), ended.out, ended.err);
    assert_eq!(model.missing(), [] as [&str; 0], "{}: {}", agent.name(), ended.err);
    assert_eq!(ended.code, Some(0), "{}: {}\n{}", agent.name(), ended.out, ended.err);
    let heard: String = model.recorded().iter().map(|one| one.body.to_string()).collect();
    (ended, heard)
}

/// One goes as far as it can and asks; once it is answered, the next one goes on, and so forth.
fn hand_on(chain: &[Agent]) {
    let house = House::new();
    house.done(&["project", "add", "fence"]);
    let (last, first) = chain.split_last().expect("there is somebody");
    for (number, agent) in first.iter().enumerate() {
        let begin = if number == 0 { beginning("fence") } else { going_on("fence") };
        let (_, heard) = play(&house, *agent, stuck(*agent, begin));
        assert_eq!(house.task()["badge"], "needs_you", "{}: {}", agent.name(), house.task());
        read_before(&first[..number], &heard);
        house.done(&["answer", "T-1", "green"]);
    }
    let (_, heard) = play(&house, *last, finishing(going_on("fence")));
    read_before(first, &heard);
    assert!(heard.contains("green"), "the answer came along");
    let task = house.task();
    assert_eq!(task["badge"], "done_unverified", "{task}");
    let attempts = house.asked(&["attempt", "list", "T-1"]);
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

#[test]
fn four_agent_programs_hand_one_run_on_and_the_last_completes_it() {
    hand_on(&AGENTS);
}

#[test]
fn any_agent_program_goes_on_where_any_other_one_stopped() {
    if rounds(1) == 1 {
        // The chain above has one pair of each; all of them are for the soak.
        return;
    }
    for first in AGENTS {
        for second in AGENTS.into_iter().filter(|second| *second != first) {
            hand_on(&[first, second]);
        }
    }
}

#[test]
fn an_agent_program_whose_model_refuses_leaves_its_work_to_others() {
    let house = House::new();
    house.done(&["project", "add", "fence"]);
    let turns = vec![
        beginning("fence"),
        Turn::Status { code: 401, retry_after: None },
        Turn::Status { code: 401, retry_after: None },
    ];
    let model = Model::start(turns).expect("there is a port");
    let ended = house.run(Agent::Claude, &model.url(), "Work on the fence.");
    assert!(!ended.too_long, "{}", ended.err);
    // Its client is gone, so nobody waits for the lease to run out.
    assert_eq!(house.task()["badge"], "queued", "{}", house.task());
}
