//! Real agent programs, started as a worker starts them and followed by their adapters, against a
//! scripted model. `./check` installs the programs first, and asks for this by name.

mod firm;
mod hired;
mod hostile;
#[path = "../support/processes.rs"]
mod processes;
mod stage;

use std::fs;

use baton::adapters::{Program, Seen, Tools};
use baton::surroundings::Hidden;
use baton_testkit::model::{Model, Turn, always};
use serde_json::json;

use stage::{DRIVEN, Stage};

/// The model wants one command run, then says so.
fn script(program: Program) -> Vec<Turn> {
    let (tool, argument) = match program {
        Program::Claude => ("Bash", "command"),
        Program::Codex | Program::CodexExec => ("exec_command", "cmd"),
        Program::Gemini => ("run_shell_command", "command"),
        Program::Opencode => ("bash", "command"),
        Program::Command | Program::Acp | Program::Script => unreachable!("they are not driven"),
    };
    let arguments = json!({ argument: "echo made > made.txt", "description": "Write a file" });
    vec![Turn::Call { tool, arguments: always(arguments) }, Turn::Text("It is written.".to_owned())]
}

#[test]
fn smoke_every_program_takes_a_turn_with_a_tool_and_ends_it() {
    for program in DRIVEN {
        let model = Model::start(script(program)).expect("there is a port");
        let stage = Stage::new(program);
        let run = stage.run(&model.url(), "Write the file.");
        let told = run.told();
        assert_eq!(model.missing(), [] as [&str; 0], "{told}");
        assert!(run.seen.iter().any(|seen| matches!(seen, Seen::Session(_))), "{told}");
        assert!(run.seen.iter().any(|seen| matches!(seen, Seen::ToolStarted { .. })), "{told}");
        assert!(told.ends_with("ended finished\n"), "{}:\n{told}", program.word());
        assert!(stage.work().join("made.txt").exists(), "{}:\n{told}", program.word());
    }
}

#[test]
fn every_program_passes_the_claim_token_on_to_the_tools_of_baton() {
    for program in DRIVEN {
        let model = Model::start(vec![Turn::Text("Hello.".to_owned())]).expect("there is a port");
        let stage = Stage::new(program);
        let heard = stage.work().join("heard");
        // No server of the protocol: it notes what it was started with, and goes away.
        let note = format!("printf %s \"$BATON_CLAIM_TOKEN\" > {}", heard.display());
        let tools = Tools {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), note],
            variables: vec![("BATON_CLAIM_TOKEN".to_owned(), Hidden::new("batonc_1_scripted"))],
        };
        let run = stage.run_with(&model.url(), "Say hello.", Some(&tools));
        let heard = fs::read_to_string(heard).unwrap_or_default();
        assert_eq!(heard, "batonc_1_scripted", "{}:\n{}", program.word(), run.told());
    }
}
