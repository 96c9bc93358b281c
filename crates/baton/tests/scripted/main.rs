//! The built-in agent at a real server: what it does, what is seen of it, and what Baton knows
//! then.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use baton::adapters::{Consent, Exit, Heard, Program, Session, Turn};
use serde_json::Value;
use tempfile::TempDir;

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// A server with one task, and a folder to work in.
struct House {
    folder: TempDir,
    server: Child,
}

impl Drop for House {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// How an agent ended.
struct Ended {
    seen: Vec<String>,
    exit: Exit,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        fs::create_dir(folder.path().join("work")).expect("there is room");
        let mut command = Command::new(BATON);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(folder.path().join("data")).env_clear();
        let log = fs::File::create(folder.path().join("log")).expect("there is room");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut server = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = server.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        let house = Self { folder, server };
        house.types(&["project", "add", "shop"]);
        house.types(&["add", "Greet", "--project", "shop", "--stage", "coding"]);
        house
    }

    fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.args(words).env_clear().env("BATON_HOME", self.folder.path().join("data"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("BATON_OUTPUT", "json");
        command.current_dir(self.work()).stdin(Stdio::null());
        command
    }

    /// What a person types, and what is answered.
    fn types(&self, words: &[&str]) -> Value {
        let output = self.command(words).output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&told).expect("it answers JSON")
    }

    /// Takes the run, for an agent to be.
    fn claim(&self) -> String {
        let claimed = self.types(&["claim", "--wait", "30s"]);
        claimed["claim_token"].as_str().expect("there is a token").to_owned()
    }

    fn agent(&self, token: &str, steps: &str) -> Command {
        fs::write(self.folder.path().join("steps"), steps).expect("there is room");
        let steps = self.folder.path().join("steps");
        let mut command = self.command(&["agent-script", &steps.to_string_lossy()]);
        command.env("BATON_CLAIM_TOKEN", token);
        command
    }

    fn run(&self, token: &str, steps: &str) -> Ended {
        followed(&self.agent(token, steps).output().expect("it starts"))
    }

    fn state(&self) -> String {
        let run = self.types(&["run", "show", "T-1"]);
        run["state"].as_str().expect("it has a state").to_owned()
    }
}

/// What its adapter sees in what it printed.
fn followed(output: &Output) -> Ended {
    let typed = [BATON.to_owned()];
    let turn = Turn {
        program: &typed,
        arguments: &[],
        prompt: "x",
        session: Session::New(None),
        folder: Path::new("/"),
        home: Path::new("/"),
        model: None,
        tools: None,
        consent: Consent::All,
        turns_max: None,
    };
    let mut follower = Program::Script.follow(&turn);
    let signal = || Exit::Signal(output.status.signal().unwrap_or_default());
    let exit = output.status.code().map_or_else(signal, Exit::Code);
    let mut seen = follower.fold(Heard::Out(&output.stdout));
    seen.extend(follower.fold(Heard::Exited(exit)));
    Ended { seen: seen.iter().map(ToString::to_string).collect(), exit }
}

#[test]
fn it_works_speaks_to_baton_and_completes() {
    let house = House::new();
    let ended = house.run(
        &house.claim(),
        "say I begin.\nedit notes/a.txt Good morning\nrun grep -q morning notes/a.txt\n\
         read notes/a.txt\nuse 10 5 300\ncheckpoint The greeting is there\ncomplete It is written\n",
    );
    let expected = [
        "started",
        "spoke",
        "tool 2 edit",
        "tool 2 ended",
        "tool 3 run",
        "tool 3 ended",
        "read notes/a.txt",
        "used input 10 output 5 cached 0 cost 300",
        "moved",
        "moved",
        "ended finished",
    ];
    assert_eq!(ended.seen, expected);
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(house.state(), "completed");
}

#[test]
fn after_a_crash_the_next_attempt_goes_on_after_the_last_checkpoint() {
    let house = House::new();
    let steps = "edit a.txt one\ncheckpoint One\nrun test ! -e broken || exit 0; touch broken; kill -9 $PPID\n\
                 edit a.txt two\ncomplete Both\n";
    let token = house.claim();
    let ended = house.run(&token, steps);
    assert_eq!(ended.exit, Exit::Signal(9));
    assert_eq!(ended.seen.last().map(String::as_str), Some("ended gone killed (signal 9)"));
    let mut exit = house.command(&["run", "exit"]);
    assert!(exit.env("BATON_CLAIM_TOKEN", &token).status().expect("it starts").success());
    let ended = house.run(&house.claim(), steps);
    assert_eq!(ended.seen.last().map(String::as_str), Some("ended finished"));
    let text = fs::read_to_string(house.work().join("a.txt")).expect("it was written");
    assert_eq!(text, "one\ntwo\n");
    assert_eq!(house.state(), "completed");
}

#[test]
fn a_lie_is_speech_and_changes_nothing_of_the_run() {
    let house = House::new();
    let ended = house.run(&house.claim(), "lie All done.\n");
    assert_eq!(ended.seen, ["started", "spoke", "ended finished"]);
    assert_eq!(ended.exit, Exit::Code(0));
    assert_eq!(house.state(), "working");
}

#[test]
fn it_waits_for_the_answer_of_a_person() {
    let house = House::new();
    let mut agent = house.agent(&house.claim(), "ask Shall it be signed?\ncomplete Signed\n");
    let mut agent = agent.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(agent.stdout.take().expect("it is piped")).lines();
    let asked = lines.any(|line| line.is_ok_and(|line| line.contains("\"ask\"")));
    assert!(asked, "it asks");
    house.types(&["answer", "R-1.1", "Yes"]);
    let told: Vec<_> = lines.map_while(Result::ok).collect();
    assert!(told.iter().any(|line| line.contains("the answer is: Yes")), "{told:?}");
    assert!(agent.wait().expect("it is ours").success());
    assert_eq!(house.state(), "completed");
}

#[test]
fn limits_blocks_and_wrong_steps_are_told_by_their_code() {
    let house = House::new();
    let token = house.claim();
    let wrong = house.run(&token, "say a\nfly away\n");
    assert_eq!(wrong.exit, Exit::Code(1));
    let last = wrong.seen.last().expect("something is seen");
    assert!(last.starts_with("ended failed script_wrong (line 2: `fly` is no step"), "{last}");
    let limited = house.run(&token, "limit 1h\n");
    assert!(limited.seen[1].starts_with("limit script soft until "), "{:?}", limited.seen);
    assert!(limited.seen[2].starts_with("limit script hard until "), "{:?}", limited.seen);
    let crashed = house.run(&token, "crash 3\n");
    assert_eq!(crashed.seen.last().map(String::as_str), Some("ended failed crashed (exit code 3)"));
    house.run(&token, "block Nobody gave me a key\n");
    assert_eq!(house.state(), "blocked");
    let late = house.run(&token, "checkpoint Too late\n");
    assert_eq!(late.exit, Exit::Code(1));
}
