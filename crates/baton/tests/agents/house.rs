//! A server, agent programs that work at it, and a person who looks after them.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_testkit::agents::{self, Agent, Desk, Ended};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program.
const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// How long an agent program may take: they start slowly where others build.
const PATIENCE: Duration = Duration::from_secs(300);

/// The project that there is.
pub const PROJECT: &str = "fence";

pub struct House {
    folder: TempDir,
    server: Child,
    ready: Value,
    desks: AtomicU64,
    pub person: Person,
}

/// Whoever runs the server.
#[derive(Clone)]
pub struct Person {
    data: PathBuf,
}

/// How an agent program comes to its tools.
pub enum Settings {
    /// By what `baton init` writes into a repository.
    Init,
    /// By a file with this text, and with the key of an agent.
    File(&'static str, String),
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
        let data = folder.path().join("data");
        let mut command = Command::new(BATON);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(&data).env_clear();
        let log = fs::File::create(folder.path().join("log")).expect("there is room");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut server = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = server.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        let ready = serde_json::from_str(&line).expect("one line of JSON");
        let person = Person { data };
        let house = Self { folder, server, ready, desks: AtomicU64::new(0), person };
        house.person.asked(&["project", "add", PROJECT]);
        house
    }

    pub fn url(&self) -> &str {
        self.ready["url"].as_str().expect("it is said")
    }

    /// Has an agent program do something, in a home and a folder of its own.
    pub fn run(&self, agent: Agent, settings: &Settings, model: &str, prompt: &str) -> Ended {
        let installed = installed();
        let (package, version) = agent.package();
        assert!(
            agent.is_installed(&installed),
            "{package} {version} is not in {}: run ./check, which installs it",
            installed.display()
        );
        let number = self.desks.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", agent.name());
        let place = self.folder.path().join(&name);
        let work = place.join("work");
        fs::create_dir_all(&work).expect("there is room");
        let kind = match settings {
            Settings::Init => {
                let folder = work.to_str().expect("it is a text");
                let mut command = self.person.types(&["init", "--dir", folder, "--yes"]);
                command.args(["--agent", agent.name(), "--project", PROJECT]);
                read(&["init"], &command.output().expect("it ends"));
                // Somebody who lets `baton mcp` mint a key of its own.
                ("bot", "all")
            }
            Settings::File(path, text) => {
                let path = work.join(path);
                fs::create_dir_all(path.parent().expect("it is in a folder")).expect("room");
                fs::write(path, text).expect("there is room");
                ("agent", "agent")
            }
        };
        let environment = vec![
            ("BATON_URL".to_owned(), self.url().to_owned()),
            ("BATON_KEY".to_owned(), self.person.make_key(&name, kind)),
        ];
        let programs = Path::new(BATON).parent().expect("it is in a folder");
        let (installed, place) = (&installed, &place);
        let desk = Desk { installed, place, model, programs, environment };
        let command = agent.command(&desk, prompt).expect("its home is made");
        agents::run(command, PATIENCE).expect("it starts")
    }
}

impl Person {
    fn make_key(&self, name: &str, (kind, scope): (&str, &str)) -> String {
        let wish = json!({ "name": name, "principal": name, "kind": kind, "scopes": [scope] });
        let file = self.data.join(format!("{name}.json"));
        fs::write(&file, wish.to_string()).expect("there is room");
        let stdin = fs::File::open(&file).expect("it was written");
        let mut command = self.types(&["key", "create", "--input", "-"]);
        let made = read(&["key"], &command.stdin(stdin).output().expect("it ends"));
        made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    pub fn task(&self) -> Value {
        self.asked(&["task", "show", "T-1"])
    }

    /// What the command line answers.
    pub fn asked(&self, words: &[&str]) -> Value {
        read(words, &self.types(words).output().expect("it ends"))
    }

    fn types(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.env_clear().env("BATON_HOME", &self.data);
        command.args(words).arg("--json").stdin(Stdio::null());
        command
    }
}

fn read(words: &[&str], output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}
