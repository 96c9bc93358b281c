//! Real agent programs, as their makers publish them, started against a scripted [`model`] with an
//! empty home, by a user without rights, in a folder whose settings name the tools that they have.
//!
//! [`model`]: crate::model

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::{Value, json};

/// Who runs agent programs where the tests are run by root: some of them refuse to be root's.
const NOBODY: u32 = 65_534;

/// How long the server of an agent program's tools may take to start, where others build.
const TOOLS_START: Duration = Duration::from_secs(120);

/// An agent program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

/// All of them.
pub const AGENTS: [Agent; 4] = [Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Opencode];

/// Where an agent program works.
#[derive(Clone, Debug)]
pub struct Desk<'a> {
    /// Where the agent programs are installed.
    pub installed: &'a Path,
    /// A folder of its own, made for it: its home is in `home`, and what it works on in `work`, where
    /// the settings of a project are, as its people would have put them there.
    pub place: &'a Path,
    /// Where the model listens.
    pub model: &'a str,
    /// Where it finds the programs that those settings name.
    pub programs: &'a Path,
    /// What is in its environment besides.
    pub environment: Vec<(String, String)>,
}

/// How an agent program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it printed.
    pub out: String,
    /// What it complained about.
    pub err: String,
    /// Its exit code, unless it was killed.
    pub code: Option<i32>,
    /// Whether it had to be killed because it took too long.
    pub too_long: bool,
}

impl Agent {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Its package and the version that these tests were made for; `check` installs the same.
    #[must_use]
    pub fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("@anthropic-ai/claude-code", "2.1.325"),
            Self::Codex => ("@openai/codex", "0.166.0"),
            Self::Gemini => ("@google/gemini-cli", "0.61.0"),
            Self::Opencode => ("opencode-ai", "1.18.33"),
        }
    }

    /// Whether this version of it is installed there.
    #[must_use]
    pub fn is_installed(self, installed: &Path) -> bool {
        let (package, version) = self.package();
        let about = installed.join("node_modules").join(package).join("package.json");
        let about = fs::read(about).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        about.is_some_and(|about: Value| about["version"] == version)
    }

    /// The command that has it do what the prompt says, and end.
    pub fn command(self, desk: &Desk<'_>, prompt: &str) -> io::Result<Command> {
        let (home, work) = (desk.place.join("home"), desk.place.join("work"));
        for folder in [&home, &work, &home.join("tmp"), &home.join(".codex")] {
            fs::create_dir_all(folder)?;
        }
        let mut command = Command::new(desk.installed.join("node_modules/.bin").join(self.name()));
        command.env_clear().current_dir(&work).env("HOME", &home).env("TMPDIR", home.join("tmp"));
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", desk.programs.display());
        command.env("PATH", path).env("NO_COLOR", "1");
        command.envs(desk.environment.iter().map(|(name, value)| (name, value)));
        match self {
            Self::Claude => claude(&mut command, desk, prompt),
            Self::Codex => codex(&mut command, desk, (&home, &work), prompt)?,
            Self::Gemini => gemini(&mut command, desk, (&home, &work), prompt)?,
            Self::Opencode => opencode(&mut command, desk, &home, prompt)?,
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        if geteuid().is_root() {
            give_away(desk.place)?;
            command.uid(NOBODY).gid(NOBODY);
        }
        Ok(command)
    }
}

fn write(path: &Path, content: &Value) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, content.to_string())
}

fn claude(command: &mut Command, desk: &Desk<'_>, prompt: &str) {
    command.env("ANTHROPIC_BASE_URL", desk.model).env("ANTHROPIC_API_KEY", "scripted");
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    command.env("MCP_TIMEOUT", TOOLS_START.as_millis().to_string());
    command.args(["-p", prompt, "--output-format", "stream-json", "--verbose"]);
    command.args(["--allowedTools", "mcp__baton", "--max-turns", "20"]);
}

/// It reads the settings of a project that its user trusts, and runs hooks that its user has looked
/// at, which nobody can do here.
fn codex(
    command: &mut Command,
    desk: &Desk<'_>,
    (home, work): (&Path, &Path),
    prompt: &str,
) -> io::Result<()> {
    let (model, work) = (desk.model, work.canonicalize()?);
    let settings = format!(
        "model_provider = \"scripted\"\nmodel = \"gpt-5.1-codex\"\n\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}/v1\"\n\
         env_key = \"SCRIPTED_KEY\"\nwire_api = \"responses\"\n\n\
         [projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        work.display()
    );
    fs::write(home.join(".codex/config.toml"), settings)?;
    command.env("CODEX_HOME", home.join(".codex")).env("SCRIPTED_KEY", "scripted");
    command.args(["exec", "--json", "--skip-git-repo-check", "-s", "read-only"]);
    command.arg("--dangerously-bypass-hook-trust").arg("-c");
    command.arg(format!("mcp_servers.baton.startup_timeout_sec={}", TOOLS_START.as_secs()));
    command.arg(prompt);
    Ok(())
}

/// It reads the settings of a folder that its user trusts.
fn gemini(
    command: &mut Command,
    desk: &Desk<'_>,
    (home, work): (&Path, &Path),
    prompt: &str,
) -> io::Result<()> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
    });
    write(&home.join(".gemini/settings.json"), &settings)?;
    let work = work.canonicalize()?.to_string_lossy().into_owned();
    write(&home.join(".gemini/trustedFolders.json"), &json!({ work: "TRUST_FOLDER" }))?;
    command.env("GOOGLE_GEMINI_BASE_URL", desk.model).env("GEMINI_API_KEY", "scripted");
    // A model that is named need not be chosen by asking another one.
    command.args(["-m", "gemini-2.5-flash", "-p", prompt, "-o", "stream-json"]);
    command.args(["--approval-mode", "yolo"]);
    Ok(())
}

fn opencode(command: &mut Command, desk: &Desk<'_>, home: &Path, prompt: &str) -> io::Result<()> {
    let settings = json!({
        "provider": { "scripted": {
            "npm": "@ai-sdk/anthropic", "name": "scripted",
            "options": { "baseURL": format!("{}/v1", desk.model), "apiKey": "scripted" },
            "models": { "scripted": { "name": "scripted", "tool_call": true } },
        } },
        "model": "scripted/scripted", "small_model": "scripted/scripted", "autoupdate": false,
        // Nothing is changed here that could be taken back.
        "snapshot": false,
        "experimental": { "mcp_timeout": TOOLS_START.as_secs() * 1_000 },
    });
    write(&home.join(".config/opencode/opencode.json"), &settings)?;
    for less in ["AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"] {
        command.env(format!("OPENCODE_DISABLE_{less}"), "1");
    }
    command.args(["run", "--format", "json", "--auto", "-m", "scripted/scripted", prompt]);
    Ok(())
}

/// Gives a folder and all in it to nobody, so that it can write there.
fn give_away(path: &Path) -> io::Result<()> {
    chown(path, Some(NOBODY), Some(NOBODY))?;
    if path.is_dir() {
        for one in fs::read_dir(path)? {
            let path = one?.path();
            if !path.is_symlink() {
                give_away(&path)?;
            }
        }
    }
    Ok(())
}

/// Runs it to its end, or kills it with all that it started.
pub fn run(mut command: Command, limit: Duration) -> io::Result<Ended> {
    let mut child = command.spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ended) = channel();
    let mut pipes: Vec<Box<dyn Read + Send>> = vec![];
    pipes.extend(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    pipes.extend(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let count = pipes.len();
    for (number, mut pipe) in pipes.into_iter().enumerate() {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut text = vec![];
            drop(pipe.read_to_end(&mut text));
            drop(sender.send((number, String::from_utf8_lossy(&text).into_owned())));
        });
    }
    let (mut texts, mut too_long) = (vec![String::new(); count], false);
    for _ in 0..count {
        let heard = ended.recv_timeout(limit).or_else(|_| {
            too_long = true;
            if let Some(group) = group {
                let killed = kill_process_group(group, Signal::KILL);
                too_long = killed.is_ok() || too_long;
            }
            ended.recv_timeout(limit)
        });
        if let Ok((number, text)) = heard {
            texts[number] = text;
        }
    }
    let code = child.wait()?.code();
    let mut texts = texts.into_iter();
    let (out, err) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    Ok(Ended { out, err, code, too_long })
}
