//! Real agent programs at the table, without a network: each is set up by `baton init`, connects by
//! MCP, works, gets stuck and asks for help; another one, of another maker, goes on from the packet
//! and completes it.
//!
//! They are no part of `cargo test`, because they must be installed first. `./check` does that and asks
//! for `smoke`, one turn of each; `./check soak` asks for everything.

mod guide;
mod hands;
mod house;
mod smoke;

use baton_testkit::agents::{Agent, Ended};
use baton_testkit::model::{Model, Turn, always};
use serde_json::{Value, json};

use house::{House, PROJECT, Settings};

fn call(tool: &'static str, arguments: Value) -> Turn {
    Turn::Call { tool, arguments: always(arguments) }
}

fn beginning() -> Turn {
    call("run_start", json!({ "project": PROJECT, "title": "Paint the fence" }))
}

/// Plays a script to an agent; everything that the model was told comes back.
fn play(house: &House, agent: Agent, settings: &Settings, turns: Vec<Turn>) -> (Ended, String) {
    let model = Model::start(turns).expect("there is a port");
    let prompt = "Work on the fence with the tools of baton.";
    let ended = house.run(agent, settings, &model.url(), prompt);
    let told = format!("{}: {}\n{}", agent.name(), ended.out, ended.err);
    assert!(!ended.too_long, "it took too long: {told}");
    assert_eq!(model.missing(), [] as [&str; 0], "{told}");
    assert_eq!(ended.code, Some(0), "{told}");
    let heard: String = model.recorded().iter().map(|one| one.body.to_string()).collect();
    // Neither keys nor claim tokens get to a model, nor into what an agent program prints.
    for secret in ["batonk_", "batonc_"] {
        let somewhere = heard.contains(secret) || told.contains(secret);
        assert!(!somewhere, "{} was told a secret", agent.name());
    }
    (ended, heard)
}
