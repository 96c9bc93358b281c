//! A server and a worker that has one agent program, whose model says what a script tells it to.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use baton_testkit::agents::Agent;
use baton_testkit::model::{Model, Turn, always};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::processes;
use crate::stage::{NOBODY, give_away, installed};

const BATON: &str = env!("CARGO_BIN_EXE_baton");
/// How long a program may take to get somewhere: they start slowly where others build.
const PATIENCE: Timespec = Timespec { tv_sec: 180, tv_nsec: 0 };
/// The same for whoever waits for a task.
const WAITS: &str = "180s";

/// A program that a worker can have, and how it is told about in its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hired {
    /// As settings call it.
    pub word: &'static str,
    pub agent: Agent,
    /// Whether it can ask a person before it does something.
    pub asks: bool,
    /// Whether it says that its provider limits it, before its time is up.
    pub tells_limits: bool,
    /// Whether its provider's limits say when they end.
    pub knows_resets: bool,
    /// Its tool that runs commands, and the argument that is the command.
    shell: (&'static str, &'static str),
}

pub const HIRED: [Hired; 6] = [
    Hired {
        word: "claude",
        agent: Agent::Claude,
        asks: true,
        tells_limits: true,
        knows_resets: true,
        shell: ("Bash", "command"),
    },
    Hired {
        word: "codex",
        agent: Agent::Codex,
        asks: true,
        tells_limits: true,
        knows_resets: true,
        shell: ("exec_command", "cmd"),
    },
    Hired {
        word: "codex-exec",
        agent: Agent::Codex,
        asks: false,
        tells_limits: true,
        knows_resets: false,
        shell: ("exec_command", "cmd"),
    },
    Hired {
        word: "gemini",
        agent: Agent::Gemini,
        asks: false,
        tells_limits: true,
        knows_resets: false,
        shell: ("run_shell_command", "command"),
    },
    Hired {
        word: "opencode",
        agent: Agent::Opencode,
        asks: false,
        tells_limits: true,
        knows_resets: false,
        shell: ("bash", "command"),
    },
    Hired {
        word: "acp",
        agent: Agent::Opencode,
        asks: true,
        tells_limits: false,
        knows_resets: false,
        shell: ("bash", "command"),
    },
];

impl Hired {
    /// The model wants a command run.
    pub fn runs(self, command: &str) -> Turn {
        let (tool, argument) = self.shell;
        let arguments = json!({ argument: command, "description": "Do it" });
        Turn::Call { tool, arguments: always(arguments) }
    }
}

/// The model says that the run is done.
pub fn completes() -> Turn {
    let arguments = always(json!({ "summary": "It is written." }));
    Turn::Call { tool: "run_complete", arguments }
}

pub struct Firm {
    place: TempDir,
    hired: Hired,
    pub model: Model,
    server: Child,
    worker: Option<Child>,
    bell: File,
}

impl Drop for Firm {
    fn drop(&mut self) {
        for child in self.worker.iter_mut().chain([&mut self.server]) {
            drop(child.kill());
            drop(child.wait());
        }
        for (pid, _) in processes::of(&self.path("")) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Firm {
    /// A server with one task, and the settings of a worker.
    pub fn new(hired: Hired, consent: &str, turns: impl FnOnce(&str) -> Vec<Turn>) -> Self {
        let place = tempfile::tempdir().expect("there is room");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).expect("it is ours");
        let (data, bell) = (place.path().join("data"), place.path().join("bell"));
        fs::create_dir(&data).expect("there is room");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("it is ours");
        mknodat(CWD, &bell, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("there is room");
        let model = Model::start(turns(bell.to_str().expect("a plain name"))).expect("a port");
        let settings = settings(hired, consent, &model.url(), place.path());
        fs::write(data.join("worker.toml"), settings).expect("there is room");
        // Whoever opens both ends waits for nobody.
        let mut both = OpenOptions::new();
        let quietly = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
        both.read(true).write(true).custom_flags(quietly);
        let bell = both.open(bell).expect("it is there");
        if geteuid().is_root() {
            give_away(place.path());
        }
        let server = serve(&place);
        let firm = Self { place, hired, model, server, worker: None, bell };
        firm.types(&["project", "add", "shop"]);
        firm.types(&["add", "Write the file", "--project", "shop", "--stage", "coding"]);
        firm
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Where its program works.
    pub fn work_folder(&self) -> PathBuf {
        let worker = fs::read_dir(self.path("data/worker")).expect("it has worked");
        let homes = worker.filter_map(Result::ok).map(|entry| entry.path().join("homes"));
        let homes = homes.into_iter().find(|homes| homes.is_dir()).expect("it has worked");
        homes.join("local.T-1/work")
    }

    /// What was written into the file that scripts write to.
    pub fn made(&self) -> String {
        fs::read_to_string(self.work_folder().join("made.txt")).unwrap_or_default()
    }

    pub fn work(&mut self, more: &[&str]) {
        let words: Vec<_> = ["work", "--json"].into_iter().chain(more.iter().copied()).collect();
        let (mut words, log) = command(&self.place, &words);
        words.stdout(Stdio::null()).stderr(log);
        self.worker = Some(words.spawn().expect("it starts"));
    }

    /// Waits until the worker has ended by itself.
    pub fn worker_ends(&mut self) {
        let status = self.worker.take().expect("it runs").wait().expect("it is ours");
        assert!(status.success(), "{}", self.told());
    }

    fn tries(&self, words: &[&str]) -> Output {
        let (mut words, _) = command(&self.place, words);
        words.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it ends")
    }

    pub fn types(&self, words: &[&str]) -> Value {
        let output = self.tries(words);
        let told = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}{complaint}");
        serde_json::from_str(&told).expect("it answers JSON")
    }

    /// Waits until the task comes to something, and says what `wait` exits with.
    pub fn waits(&self) -> i32 {
        let code = self.tries(&["wait", "T-1", "--timeout", WAITS]).status.code();
        code.unwrap_or_else(|| panic!("it was killed: {}", self.told()))
    }

    /// Waits until a command of the program rings.
    pub fn rings(&mut self) {
        let mut ready = [PollFd::new(&self.bell, PollFlags::IN)];
        let rung = poll(&mut ready, Some(&PATIENCE)).expect("it waits");
        assert_eq!(rung, 1, "nobody rings: {}", self.told());
        let heard = self.bell.read(&mut [0; 256]).expect("it was rung");
        assert!(heard > 0);
    }

    /// Kills the program, as a machine that runs out of memory does.
    pub fn kill_program(&self) {
        let all = processes::of(&self.path(""));
        let own: Vec<_> = all.iter().filter(|(_, line)| line.contains("node_modules")).collect();
        assert!(!own.is_empty(), "it does not run: {all:?}");
        for (pid, _) in own {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }

    /// Outcome and proof of every attempt.
    pub fn attempts(&self) -> Vec<(String, String)> {
        let page = self.types(&["attempt", "list", "T-1"]);
        let ids = page["items"].as_array().expect("a list").iter();
        let ids: Vec<_> = ids.filter_map(|item| item["id"].as_str().map(str::to_owned)).collect();
        let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let shown = ids.iter().map(|id| self.types(&["attempt", "show", id]));
        shown.map(|attempt| (word(&attempt["outcome"]), word(&attempt["death"]))).collect()
    }

    /// Everybody but the server is gone.
    pub fn is_deserted(&self) -> bool {
        let server = i32::try_from(self.server.id()).expect("a number");
        processes::of(&self.path("")).iter().all(|(pid, _)| pid.as_raw_nonzero().get() == server)
    }

    /// Everything that is known, for whoever must find out.
    pub fn told(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let task = self.tries(&["task", "show", "T-1"]).stdout;
        let task = String::from_utf8_lossy(&task).into_owned();
        let said: String = self.spools().into_iter().map(|path| said_in(&path)).collect();
        let (word, missing) = (self.hired.word, self.model.missing());
        format!("{word}: {task}\nmissing: {missing:?}\n{said}\n{log}")
    }

    fn spools(&self) -> Vec<PathBuf> {
        let within = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let attempts = within(self.path("data/worker/attempts")).into_iter();
        attempts.flat_map(|attempt| within(attempt.join("spool"))).collect()
    }
}

/// The program as whoever runs it; and where it writes its log.
fn command(place: &TempDir, words: &[&str]) -> (Command, File) {
    let log = OpenOptions::new().create(true).append(true).open(place.path().join("log"));
    let mut command = Command::new(BATON);
    command.args(words).env_clear().env("BATON_HOME", place.path().join("data"));
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("BATON_OUTPUT", "json");
    command.env("BATON_LOG", "plain,info").current_dir(place.path()).stdin(Stdio::null());
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    (command, log.expect("there is room"))
}

fn serve(place: &TempDir) -> Child {
    let (mut words, log) = command(place, &["serve", "--json", "--listen", "127.0.0.1:0"]);
    let mut server = words.stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says something");
    assert!(line.contains("\"url\""), "{line}");
    server
}

fn settings(hired: Hired, consent: &str, model: &str, place: &std::path::Path) -> String {
    let program = installed(hired.agent).display().to_string();
    let provider = format!(
        "model_providers.scripted={{name=\"scripted\",base_url=\"{model}/v1\",env_key=\"SCRIPTED_KEY\",\
         wire_api=\"responses\",request_max_retries=1,stream_max_retries=1}}"
    );
    let (command, more) = match hired.agent {
        Agent::Claude => (
            format!("['{program}']"),
            format!(
                "env = {{ ANTHROPIC_BASE_URL = '{model}', CLAUDE_CODE_OAUTH_TOKEN = 'sk-ant-oat01-scripted', \
                 MCP_TIMEOUT = '120000' }}"
            ),
        ),
        Agent::Codex => (
            format!("['{program}']"),
            format!(
                "model = 'gpt-5.1-codex'\nenv = {{ SCRIPTED_KEY = 'scripted' }}\n\
                 arguments = ['-c', 'model_provider=scripted', '-c', '{provider}']"
            ),
        ),
        Agent::Gemini => {
            let file = json!({
                "security": { "auth": { "selectedType": "gemini-api-key" } },
                "privacy": { "usageStatisticsEnabled": false },
                "general": { "enableAutoUpdate": false, "maxAttempts": 2 },
            });
            (
                format!("['{program}']"),
                with_file(place, ".gemini/settings.json", &file)
                    + &format!(
                        "model = 'gemini-2.5-flash'\nenv = {{ GOOGLE_GEMINI_BASE_URL = '{model}', GEMINI_API_KEY = 'scripted' }}"
                    ),
            )
        }
        Agent::Opencode => {
            let options = json!({ "baseURL": format!("{model}/v1"), "apiKey": "scripted" });
            let models = json!({ "scripted": { "name": "scripted", "tool_call": true } });
            let asked = json!({ "bash": "ask", "edit": "ask" });
            let provider = json!({ "npm": "@ai-sdk/anthropic", "name": "scripted", "options": options, "models": models });
            let mut file = json!({
                "provider": { "scripted": provider }, "small_model": "scripted/scripted",
                "model": "scripted/scripted", "autoupdate": false,
                "experimental": { "mcp_timeout": 120_000 },
            });
            let words = if hired.word == "acp" {
                file["permission"] = asked;
                format!("['{program}', 'acp']")
            } else {
                format!("['{program}']")
            };
            let model = if hired.word == "acp" { "" } else { "model = 'scripted/scripted'\n" };
            let quiet = ["AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"]
                .map(|less| format!("OPENCODE_DISABLE_{less} = '1'"));
            (
                words,
                with_file(place, ".config/opencode/opencode.json", &file)
                    + &format!("{model}env = {{ {} }}", quiet.join(", ")),
            )
        }
    };
    let word = hired.word;
    format!(
        "slots = 1\nmemory_floor = '0'\n[agents.it]\nprogram = '{word}'\ncommand = {command}\n\
         account = 'scripted/main'\nconsent = '{consent}'\n{more}\n"
    )
}

/// A file that the worker puts into the home of its agent.
fn with_file(place: &std::path::Path, target: &str, content: &Value) -> String {
    let source = place.join("settings.json");
    fs::write(&source, content.to_string()).expect("there is room");
    format!("files = {{ '~/{target}' = '{}' }}\n", source.display())
}

/// What can be read of a part of a spool: its end, where it says why it ended.
fn said_in(path: &std::path::Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text: String =
        String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect();
    let from = text.ceil_char_boundary(text.len().saturating_sub(4_000));
    format!("{}: {}\n", path.display(), &text[from..])
}
