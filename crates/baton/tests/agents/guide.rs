//! What the guide tells people to write is written here, and works: over HTTP, with the key of an
//! agent. (Over stdio it is what `baton init` writes, which a test of it compares.)

use baton_testkit::agents::Agent;
use baton_testkit::model::{Arguments, Turn};
use serde_json::{Value, json};

use crate::house::{House, Settings};
use crate::{beginning, play};

const GUIDE: &str = include_str!("../../../../docs/guides/mcp.md");

/// Where the guide believes the server to be.
const USUAL: &str = "http://127.0.0.1:7117";

/// The block that the guide has for this program and this file, in its part about HTTP.
fn block(title: &str, path: &str) -> String {
    let (_, part) = GUIDE.split_once("\n### Over HTTP\n").expect("the guide has such a part");
    let before = format!("\n{title}, in `{path}`:\n\n```");
    let (_, block) = part.split_once(&before).expect("the part has such a block");
    let (_, block) = block.split_once('\n').expect("a block has lines");
    block.split_once("\n```").expect("a block has an end").0.to_owned()
}

/// A request of the modern era has no connection that would remember its attempt.
fn named(more: Value) -> Arguments {
    Box::new(move |results| {
        let mut arguments = more.clone();
        arguments["attempt"] = results[0]["attempt"].clone();
        arguments
    })
}

fn works(agent: Agent, title: &str, path: &'static str) {
    let house = House::new();
    let text = block(title, path);
    assert!(text.contains(USUAL), "{text}");
    let settings = Settings::File(path, text.replace(USUAL, house.url()));
    let note = json!({ "summary": "Half of it is painted." });
    let turns = vec![
        beginning(),
        Turn::Call { tool: "run_checkpoint", arguments: named(note) },
        Turn::Call { tool: "run_complete", arguments: named(json!({})) },
        Turn::Text("It is done.".to_owned()),
    ];
    play(&house, agent, &settings, turns);
    let task = house.person.task();
    assert_eq!(task["badge"], "done_unverified", "{task}");
}

#[test]
fn claude_code_works_over_http_as_the_guide_says() {
    works(Agent::Claude, "Claude Code", ".mcp.json");
}

#[test]
fn codex_works_over_http_as_the_guide_says() {
    works(Agent::Codex, "Codex", ".codex/config.toml");
}

#[test]
fn gemini_cli_works_over_http_as_the_guide_says() {
    works(Agent::Gemini, "Gemini CLI", ".gemini/settings.json");
}

#[test]
fn opencode_works_over_http_as_the_guide_says() {
    works(Agent::Opencode, "opencode", "opencode.json");
}
