//! A place for a program to run in, and somebody who does for it what a worker does.

use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use baton::adapters::{
    Consent, Exit, Follower, Heard, Plan, Program, Reply, Seen, Session, Tools, Turn,
};
use baton_testkit::agents::Agent;
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::json;
use tempfile::TempDir;

/// Who runs agent programs where the tests are run by root: some of them refuse to be root's.
pub const NOBODY: u32 = 65_534;
/// How long a program may say nothing: they start slowly where others build.
const PATIENCE: Duration = Duration::from_secs(180);
/// The session of programs that take one.
const SESSION: &str = "0b8f1d0a-6f0e-4c57-9a51-3f6a7f0c2d11";

/// Programs that are driven here.
pub const DRIVEN: [Program; 5] =
    [Program::Claude, Program::Codex, Program::CodexExec, Program::Gemini, Program::Opencode];

pub struct Stage {
    program: Program,
    place: TempDir,
}

/// What was seen of a program.
pub struct Run {
    pub seen: Vec<Seen>,
}

impl Run {
    pub fn told(&self) -> String {
        self.seen.iter().map(|seen| format!("{seen}\n")).collect()
    }
}

enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
    End,
}

fn agent(program: Program) -> Agent {
    match program {
        Program::Claude => Agent::Claude,
        Program::Codex | Program::CodexExec => Agent::Codex,
        Program::Gemini => Agent::Gemini,
        Program::Opencode => Agent::Opencode,
        Program::Command | Program::Acp | Program::Script => unreachable!("they are not driven"),
    }
}

/// Where `./check` installs agent programs.
pub fn installed(agent: Agent) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target");
    let installed = target.join("tools/agents");
    let (package, version) = agent.package();
    assert!(
        agent.is_installed(&installed),
        "{package} {version} is not in {}: run ./check, which installs it",
        installed.display()
    );
    installed.join("node_modules/.bin").join(agent.name())
}

impl Stage {
    pub fn new(program: Program) -> Self {
        let place = tempfile::tempdir().expect("there is room");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).expect("it is ours");
        let stage = Self { program, place };
        for folder in [stage.work(), stage.home().join("tmp")] {
            fs::create_dir_all(folder).expect("there is room");
        }
        stage
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    pub fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Takes away what nobody would start the program beside without having asked.
    pub fn clear(&self) {
        for heeded in self.program.heeds() {
            let path = self.work().join(heeded);
            let cleared =
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            drop(cleared);
        }
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
        fs::write(path, content).expect("there is room");
    }

    /// Has the program take one turn; whatever it asks for is allowed.
    pub fn run(&self, model: &str, prompt: &str) -> Run {
        self.run_with(model, prompt, None)
    }

    /// The same with tools of Baton, whose variables it is started with.
    pub fn run_with(&self, model: &str, prompt: &str, tools: Option<&Tools>) -> Run {
        let (work, home) = (self.work(), self.home());
        let typed = [installed(agent(self.program)).to_string_lossy().into_owned()];
        let arguments = self.arguments(model);
        let turn = Turn {
            program: &typed,
            arguments: &arguments,
            prompt,
            session: Session::New(self.program.takes_session_ids().then_some(SESSION)),
            folder: &work,
            home: &home,
            model: self.model(),
            tools,
            consent: Consent::All,
            turns_max: None,
        };
        let plan = self.program.plan(&turn).expect("it can be started");
        for folder in &plan.folders {
            fs::create_dir_all(home.join(folder)).expect("there is room");
        }
        for file in &plan.files {
            let path = home.join(&file.path);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
            fs::write(path, &file.content).expect("there is room");
        }
        let mut command = self.command(&plan, model);
        for (name, value) in tools.iter().flat_map(|tools| &tools.variables) {
            command.env(name, value.reveal());
        }
        if geteuid().is_root() {
            give_away(self.path());
            command.uid(NOBODY).gid(NOBODY);
        }
        follow(command, &plan, self.program.follow(&turn))
    }

    fn command(&self, plan: &Plan, model: &str) -> Command {
        let mut command = Command::new(&plan.argv[0]);
        command.args(&plan.argv[1..]).env_clear().current_dir(self.work());
        command.env("HOME", self.home()).env("TMPDIR", self.home().join("tmp"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("NO_COLOR", "1");
        for (name, value) in self.account(model) {
            command.env(name, value);
        }
        for (name, value) in &plan.environment {
            command.env(name, value);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }

    /// What an account brings along: where its provider is, and its key.
    fn account(&self, model: &str) -> Vec<(&'static str, String)> {
        let key = || "scripted".to_owned();
        match agent(self.program) {
            Agent::Claude => {
                vec![("ANTHROPIC_BASE_URL", model.to_owned()), ("ANTHROPIC_API_KEY", key())]
            }
            Agent::Codex => vec![("SCRIPTED_KEY", key())],
            Agent::Gemini => {
                vec![("GOOGLE_GEMINI_BASE_URL", model.to_owned()), ("GEMINI_API_KEY", key())]
            }
            Agent::Opencode => {
                let options = json!({ "baseURL": format!("{model}/v1"), "apiKey": "scripted" });
                let models = json!({ "scripted": { "name": "scripted", "tool_call": true } });
                let provider = json!({ "npm": "@ai-sdk/anthropic", "name": "scripted", "options": options, "models": models });
                let settings = json!({
                    "provider": { "scripted": provider }, "small_model": "scripted/scripted",
                });
                let path = self.home().join(".config/opencode/opencode.json");
                fs::create_dir_all(path.parent().expect("it is in a folder")).expect("room");
                fs::write(path, settings.to_string()).expect("there is room");
                vec![]
            }
        }
    }

    fn arguments(&self, model: &str) -> Vec<String> {
        let provider = format!(
            "model_providers.scripted={{name=\"scripted\",base_url=\"{model}/v1\",env_key=\"SCRIPTED_KEY\",\
             wire_api=\"responses\"}}"
        );
        let own = match agent(self.program) {
            Agent::Codex => vec!["-c", "model_provider=scripted", "-c", &provider],
            Agent::Claude | Agent::Gemini | Agent::Opencode => vec![],
        };
        own.into_iter().map(str::to_owned).collect()
    }

    fn model(&self) -> Option<&'static str> {
        match agent(self.program) {
            Agent::Claude => None,
            Agent::Codex => Some("gpt-5.1-codex"),
            Agent::Gemini => Some("gemini-2.5-flash"),
            Agent::Opencode => Some("scripted/scripted"),
        }
    }
}

pub fn give_away(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).expect("we are root");
    if path.is_dir() && !path.is_symlink() {
        for one in fs::read_dir(path).expect("it is ours") {
            give_away(&one.expect("it is read").path());
        }
    }
}

fn pump(mut pipe: impl Read + Send + 'static, sender: Sender<Piece>, make: fn(Vec<u8>) -> Piece) {
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count) = pipe.read(&mut buffer)
            && count > 0
        {
            drop(sender.send(make(buffer[..count].to_vec())));
        }
        drop(sender.send(Piece::End));
    });
}

/// Writes to the program, and folds that it was written.
fn say(stdin: &mut Option<ChildStdin>, follower: &mut Follower, bytes: &[u8]) -> Vec<Seen> {
    let written = stdin.as_mut().is_some_and(|pipe| pipe.write_all(bytes).is_ok());
    if written { follower.fold(Heard::In(bytes)) } else { vec![] }
}

/// Follows a program to its exit, and does for it what a worker does.
fn follow(mut command: Command, plan: &Plan, mut follower: Follower) -> Run {
    let mut child = command.spawn().expect("it starts");
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it has a number");
    let (sender, pieces) = channel();
    pump(child.stdout.take().expect("it is piped"), sender.clone(), Piece::Out);
    pump(child.stderr.take().expect("it is piped"), sender, Piece::Err);
    let mut stdin = child.stdin.take();
    let mut seen = say(&mut stdin, &mut follower, &plan.stdin);
    stdin = stdin.filter(|_| !plan.closes_stdin);
    let mut open = 2;
    while open > 0 {
        let Ok(piece) = pieces.recv_timeout(PATIENCE) else {
            kill_process_group(group, Signal::KILL).expect("it runs");
            break;
        };
        let mut new = match piece {
            Piece::Out(bytes) => follower.fold(Heard::Out(&bytes)),
            Piece::Err(bytes) => follower.fold(Heard::Err(&bytes)),
            Piece::End => {
                open -= 1;
                vec![]
            }
        };
        for one in new.clone() {
            if let Seen::Permission { id, .. } = &one {
                let allowed = follower.answer(&Reply::Allow { id: id.clone() });
                let allowed = allowed.expect("it waits for an answer");
                new.extend(say(&mut stdin, &mut follower, &allowed));
            }
            // A program that could take another turn is told that there is none.
            stdin = stdin.filter(|_| !matches!(one, Seen::Ended { .. }));
        }
        while let Some(owed) = follower.owed().filter(|_| stdin.is_some()) {
            new.extend(say(&mut stdin, &mut follower, &owed));
        }
        seen.extend(new);
    }
    let status = child.wait().expect("it is ours");
    let signal = || Exit::Signal(status.signal().unwrap_or_default());
    seen.extend(follower.fold(Heard::Exited(status.code().map_or_else(signal, Exit::Code))));
    Run { seen }
}
