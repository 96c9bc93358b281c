//! `baton mcp` as an agent program starts it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::speaking::{message, refusal};
use crate::serving::{folder, start};

/// An agent program with its server at the other end.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.arg("mcp").env_clear().env("BATON_HOME", home);
        Self::of(command, Stdio::null())
    }

    fn of(mut command: Command, stderr: impl Into<Stdio>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("it starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut program = Self { child, stdin, stdout };
        let client = json!({ "name": "test", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let told = program.ask(&message("initialize", hello));
        assert_eq!(told["result"]["serverInfo"]["name"], "baton", "{told}");
        program.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        program
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("it listens");
        writeln!(stdin, "{message}").expect("it listens");
    }

    /// Every line of stdout is a message of the protocol, and nothing else.
    fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        let answer: Value = serde_json::from_str(&line).expect("nothing but the protocol");
        assert_eq!(answer["jsonrpc"], "2.0");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask(&message("tools/call", json!({ "name": tool, "arguments": arguments })))
    }

    /// Closes stdin, as a program does that is done.
    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// What the command line says.
fn baton(home: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    let output = command.args(arguments).arg("--json").env_clear().env("BATON_HOME", home).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn when_stdin_ends_its_runs_end_without_a_result_and_its_key_with_them() {
    let home = folder();
    let _server = start(home.path());
    baton(home.path(), &["project", "add", "shop"]);
    let mut program = Program::start(home.path());
    let started = program.call("run_start", &json!({ "title": "Half a thing" }));
    let run = &started["result"]["structuredContent"]["run"];
    let holder = run["holder"].as_str().expect("somebody holds it").to_owned();
    assert!(holder.starts_with("mcp-"), "{holder}");
    let noted = program.call("run_checkpoint", &json!({ "summary": "half of it" }));
    assert_eq!(noted["result"]["isError"], false, "{noted}");
    program.end();
    let attempts = baton(home.path(), &["attempt", "list", "T-1"]);
    assert_eq!(attempts["items"][0]["outcome"], "ended_without_result", "{attempts}");
    let events = baton(home.path(), &["event", "list"]);
    let events = events["items"].as_array().expect("a list").iter();
    let own = events.filter(|event| event["actor"]["principal"] == json!(holder));
    let ways: Vec<_> = own.map(|event| event["actor"]["origin"].clone()).collect();
    assert!(ways.len() >= 3 && ways.iter().all(|way| way == "mcp"), "{ways:?}");
    let keys = baton(home.path(), &["key", "list"]);
    let keys = keys["items"].as_array().expect("a list");
    let own = keys.iter().find(|key| key["principal"] == json!(holder)).expect("it was minted");
    assert!(own["revoked_at"].is_string(), "{own}");
}

#[test]
fn two_programs_of_one_user_never_share_a_run() {
    let home = folder();
    let _server = start(home.path());
    baton(home.path(), &["project", "add", "shop"]);
    let (mut one, mut other) = (Program::start(home.path()), Program::start(home.path()));
    let started = one.call("run_start", &json!({ "title": "Mine" }));
    let attempt = started["result"]["structuredContent"]["attempt"].clone();
    let stolen = other.call("run_checkpoint", &json!({ "attempt": attempt, "summary": "ours?" }));
    assert_eq!(refusal(&stolen), "lease_lost");
    let bare = other.call("run_checkpoint", &json!({ "summary": "which?" }));
    assert_eq!(refusal(&bare), "invalid");
    let person = other.call("run_answer", &json!({ "run": "R-1.1", "answer": "yes" }));
    assert_eq!(refusal(&person), "-32602", "what people say is no tool of a run");
    other.end();
    let done = one.call("run_complete", &json!({}));
    assert_eq!(done["result"]["structuredContent"]["state"], "completed", "{done}");
    one.end();
}

#[test]
fn no_key_and_no_token_is_in_anything_that_an_agent_is_told() {
    let home = folder();
    let server = start(home.path());
    baton(home.path(), &["project", "add", "shop"]);
    let key = std::fs::read_to_string(server.text("key_file")).expect("it is written");
    let log = home.path().join("stderr");
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(["mcp", "--toolset", "all"]).env_clear().env("BATON_URL", server.text("url"));
    command.env("BATON_KEY", key.trim());
    let mut program = Program::of(command, std::fs::File::create(&log).expect("there is room"));
    let mut told = String::new();
    for (tool, arguments) in [
        ("run_start", json!({ "title": "Mine" })),
        ("run_show", json!({})),
        ("run_list", json!({})),
        ("event_list", json!({})),
        ("run_checkpoint", json!({ "summary": format!("The key is {}", key.trim()) })),
        ("run_checkpoint", json!({ "summary": 7 })),
        ("key_list", json!({})),
        ("run_complete", json!({})),
        ("run_heartbeat", json!({})),
    ] {
        told.push_str(&program.call(tool, &arguments).to_string());
    }
    let list = program.ask(&message("tools/list", json!({})));
    program.end();
    told.push_str(&list.to_string());
    told.push_str(&std::fs::read_to_string(&log).expect("it is there"));
    assert!(told.contains("R-1.1") && told.contains("must not contain a key"), "{told}");
    for secret in [key.trim(), "batonk_", "batonc_"] {
        assert!(!told.contains(secret), "{secret} was told");
    }
}

#[test]
fn without_a_server_it_says_so_and_leaves_stdout_alone() {
    let home = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("mcp").env_clear().env("BATON_HOME", home.path()).stdin(Stdio::null());
    let output = command.output().expect("it ends");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(6), b"".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("baton serve"));
}
