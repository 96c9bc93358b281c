//! A server, and agent programs that work at it.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_testkit::agents::{self, Agent, Desk, Ended, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program.
const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// How long an agent program may take: they start slowly where others build.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct House {
    folder: TempDir,
    server: Child,
    ready: Value,
    desks: AtomicU64,
}

impl Drop for House {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// Where `./check` installs agent programs.
fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target");
    target.join("tools/agents")
}

impl House {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        // Whoever the agents run as must get to their desks, and to nothing else.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).expect("it is ours");
        let mut command = Command::new(BATON);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(folder.path().join("data")).env_clear();
        let log = fs::File::create(folder.path().join("log")).expect("there is room");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut server = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = server.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        let ready = serde_json::from_str(&line).expect("one line of JSON");
        Self { folder, server, ready, desks: AtomicU64::new(0) }
    }

    /// Has an agent program do something, in a home of its own.
    pub fn run(&self, agent: Agent, model: &str, prompt: &str) -> Ended {
        let installed = installed();
        let (package, version) = agent.package();
        assert!(
            agent.is_installed(&installed),
            "{package} {version} is not in {}: run ./check, which installs it",
            installed.display()
        );
        let number = self.desks.fetch_add(1, Ordering::Relaxed);
        let place = self.folder.path().join(format!("{}-{number}", agent.name()));
        fs::create_dir(&place).expect("there is room");
        let url = self.ready["url"].as_str().expect("it is said").to_owned();
        let key = self.make_key(&format!("{}-{number}", agent.name()));
        let environment = vec![("BATON_URL".to_owned(), url), ("BATON_KEY".to_owned(), key)];
        let tools = Tools { program: BATON.into(), arguments: vec!["mcp".to_owned()], environment };
        let desk = Desk { installed: &installed, place: &place, model, tools };
        let command = agent.command(&desk, prompt).expect("its home is made");
        agents::run(command, PATIENCE).expect("it starts")
    }

    /// A key that lets its holder do what agents do, and mint the keys of its own.
    fn make_key(&self, name: &str) -> String {
        let wish = json!({ "name": name, "principal": name, "kind": "bot", "scopes": ["all"] });
        let made = self.asked_with(&["key", "create"], &wish);
        made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    pub fn task(&self) -> Value {
        self.asked(&["task", "show", "T-1"])
    }

    pub fn done(&self, words: &[&str]) {
        self.asked(words);
    }

    /// What the command line answers.
    pub fn asked(&self, words: &[&str]) -> Value {
        let output = self.typed(words).output().expect("it ends");
        read(words, &output)
    }

    fn asked_with(&self, words: &[&str], input: &Value) -> Value {
        let file = self.folder.path().join("input.json");
        fs::write(&file, input.to_string()).expect("there is room");
        let stdin = fs::File::open(&file).expect("it was written");
        let mut command = self.typed(words);
        let output = command.args(["--input", "-"]).stdin(stdin).output().expect("it ends");
        read(words, &output)
    }

    fn typed(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.env_clear().env("BATON_HOME", self.folder.path().join("data"));
        command.args(words).arg("--json").stdin(Stdio::null());
        command
    }
}

fn read(words: &[&str], output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}
