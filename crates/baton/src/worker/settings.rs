//! What a worker is told by the file `worker.toml` in its data folder, and what it finds by itself where
//! nothing is said.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use baton_domain::ids::{Account, Capability, ProjectId};
use baton_domain::lane::AGENT_PREFIX;
use serde::Deserialize;

use crate::adapters::{Consent, PROGRAMS, Program};
use crate::protocol::{AGENTS_MAX, Offered, SLOTS_MAX};
use crate::shape::Span;
use crate::shim::Want;

use super::prepare::open_plain;

pub use found::{Found, find};

mod found;

/// What the file is called.
pub const FILE: &str = "worker.toml";
/// Bytes of it: hundreds of agents.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Runs at once if nobody says: as many agents as a laptop has room for.
pub const SLOTS_USUAL: u16 = 4;
/// Memory that must be free for one more agent if nobody says.
const MEMORY_FLOOR_USUAL: u64 = 512 << 20;
/// Room on the disk of the data folder that must be left for one more agent if nobody says: a checkout and
/// what is built in it.
const DISK_FLOOR_USUAL: u64 = 1 << 30;
/// How often work is copied if nobody says.
const SNAPSHOT_EVERY_USUAL: Duration = Duration::from_secs(60);
/// The shortest time between two copies: each one reads all files.
const SNAPSHOT_EVERY_MIN: Duration = Duration::from_secs(5);
/// The longest: what is older than this is lost with a disk.
const SNAPSHOT_EVERY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Projects of one worker that are elsewhere on its machine.
const PROJECTS_MAX: usize = 256;
/// Variables, files, words of one agent.
const ITEMS_MAX: usize = 64;
/// What is passed on of the worker's own variables if nobody says.
const ENV_USUAL: [&str; 8] =
    ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR"];
/// Variables that tell an agent who it is: nobody else sets them.
const OWN_PREFIX: &str = "BATON_";

/// What a worker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Runs at once; those that are being prepared count.
    pub slots: u16,
    /// Bytes of memory that must be free for one more agent.
    pub memory_floor: u64,
    /// Bytes that must be left on the disk of the data folder for one more agent.
    pub disk_floor: u64,
    /// How often work is copied.
    pub snapshot_every: Duration,
    /// Which of the worker's own variables agents get.
    pub env: Vec<String>,
    /// How much agents are kept apart.
    pub isolation: Want,
    /// Where projects are on this machine, if not where the server says.
    pub projects: BTreeMap<ProjectId, PathBuf>,
    /// The agents, by their names.
    pub agents: BTreeMap<String, Agent>,
    /// Which of them is meant where a task does not say.
    pub default_agent: Option<String>,
}

/// An agent that a worker can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub program: Program,
    /// How it is started, before the words of its protocol.
    pub command: Vec<String>,
    /// What is added to its arguments.
    pub arguments: Vec<String>,
    pub model: Option<String>,
    /// Whose rate limits it uses.
    pub account: Option<Account>,
    pub capabilities: BTreeSet<Capability>,
    /// What it may do without asking.
    pub consent: Consent,
    pub env: BTreeMap<String, String>,
    /// Files that are put into its home: where to, and where from.
    pub files: BTreeMap<String, PathBuf>,
}

/// Why the settings are not to be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// It is no TOML, or has what nobody knows.
    #[error("{} is not understood: {why}", path.display())]
    Syntax { path: PathBuf, why: String },
    /// Something in it breaks a rule.
    #[error("{}: `{field}` {rule}", path.display())]
    Invalid { path: PathBuf, field: String, rule: String },
    /// There is nobody to run.
    #[error("no agent is set up, and neither claude nor codex, gemini or opencode is on PATH")]
    NoAgent(PathBuf),
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn next(&self) -> String {
        match self {
            Self::File { path, .. } | Self::Syntax { path, .. } | Self::Invalid { path, .. } => {
                format!(
                    "put {} right; docs/guides/running-agents.md lists everything in it",
                    path.display()
                )
            }
            Self::NoAgent(path) => {
                format!(
                    "install one of them, try `baton up --built-in`, or write [agents.NAME] into {}",
                    path.display()
                )
            }
        }
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    slots: Option<u16>,
    memory_floor: Option<String>,
    disk_floor: Option<String>,
    snapshot_every: Option<String>,
    env: Option<Vec<String>>,
    isolation: Option<String>,
    projects: BTreeMap<String, String>,
    agents: BTreeMap<String, WrittenAgent>,
    default_agent: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAgent {
    program: String,
    command: Option<Vec<String>>,
    #[serde(default)]
    arguments: Vec<String>,
    model: Option<String>,
    account: Option<String>,
    #[serde(default)]
    capabilities: Vec<String>,
    consent: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    files: Option<BTreeMap<String, String>>,
}

impl Settings {
    /// Reads the file of a data folder, fills up what it does not say, and finds agents if it names none.
    ///
    /// # Errors
    /// The first thing that cannot be so.
    pub fn read(folder: &Path, found: &Found) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let text = text_of(&path)?;
        let written: Written = toml::from_str(&text).map_err(|error| Error::Syntax {
            path: path.clone(),
            why: plain(&error.to_string()),
        })?;
        let mut settings = settings(written, found)
            .map_err(|Wrong { field, rule }| Error::Invalid { path: path.clone(), field, rule })?;
        if settings.agents.is_empty() {
            settings.agents.extend(found.agent());
        }
        if settings.agents.is_empty() {
            return Err(Error::NoAgent(path));
        }
        Ok(settings)
    }

    /// What the worker can do: what its agents can, and being each of them.
    #[must_use]
    pub fn capabilities(&self) -> BTreeSet<Capability> {
        let own = self.agents.keys().filter_map(|name| capability_of(name).ok());
        let theirs = self.agents.values().flat_map(|agent| agent.capabilities.iter().cloned());
        own.chain(theirs).collect()
    }

    /// The accounts of its agents, that of the usual one first.
    #[must_use]
    pub fn accounts(&self) -> Vec<Account> {
        let usual = self.usual().and_then(|(_, agent)| agent.account.clone());
        let mut accounts: Vec<Account> = usual.into_iter().collect();
        for account in self.agents.values().filter_map(|agent| agent.account.as_ref()) {
            if !accounts.contains(account) {
                accounts.push(account.clone());
            }
        }
        accounts
    }

    /// Its agents as the server is told of them, the usual one first.
    #[must_use]
    pub fn offered(&self) -> Vec<Offered> {
        let usual = self.usual().map(|(name, _)| name);
        let mut agents: Vec<_> = self.agents.iter().collect();
        agents.sort_by_key(|(name, _)| usual != Some(name.as_str()));
        let offered = |(name, agent): (&String, &Agent)| {
            let (account, capabilities) = (agent.account.clone(), Some(agent.capabilities.clone()));
            Some(Offered { name: Capability::new(name).ok()?, account, capabilities })
        };
        agents.into_iter().filter_map(offered).collect()
    }

    /// The agent for a task that needs these: the one that it names, or one of the account that it was
    /// claimed under, or the usual one.
    #[must_use]
    pub fn agent_for(
        &self,
        needs: &BTreeSet<Capability>,
        account: Option<&Account>,
    ) -> Option<(&str, &Agent)> {
        let named = |need: &Capability| need.as_str().strip_prefix(AGENT_PREFIX).map(str::to_owned);
        if let Some(name) = needs.iter().find_map(named) {
            return self.agents.get_key_value(&name).map(|(name, agent)| (name.as_str(), agent));
        }
        let able = |agent: &&Agent| needs.iter().all(|need| agent.capabilities.contains(need));
        let usual = self.usual().filter(|(_, agent)| able(agent));
        let others = self.agents.iter().map(|(name, agent)| (name.as_str(), agent));
        let mut able = usual.into_iter().chain(others.filter(|(_, agent)| able(agent)));
        let of_account =
            |one: &(&str, &Agent)| account.is_some() && one.1.account.as_ref() == account;
        able.clone().find(of_account).or_else(|| able.next())
    }

    fn usual(&self) -> Option<(&str, &Agent)> {
        let found = match &self.default_agent {
            Some(name) => self.agents.get_key_value(name),
            None => self.agents.iter().next(),
        };
        found.map(|(name, agent)| (name.as_str(), agent))
    }
}

/// What is wrong, and where.
struct Wrong {
    field: String,
    rule: String,
}

fn wrong<T>(field: impl Into<String>, rule: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { field: field.into(), rule: rule.into() })
}

fn settings(written: Written, found: &Found) -> Result<Settings, Wrong> {
    let slots = written.slots.unwrap_or(SLOTS_USUAL);
    if slots == 0 || usize::from(slots) > SLOTS_MAX {
        return wrong("slots", format!("must be 1 to {SLOTS_MAX}"));
    }
    let memory_floor = bytes("memory_floor", written.memory_floor, MEMORY_FLOOR_USUAL)?;
    let disk_floor = bytes("disk_floor", written.disk_floor, DISK_FLOOR_USUAL)?;
    let snapshot_every =
        written.snapshot_every.map_or(Ok(SNAPSHOT_EVERY_USUAL), |text| every(&text))?;
    let env = written.env.unwrap_or_else(|| ENV_USUAL.map(str::to_owned).to_vec());
    if env.len() > ITEMS_MAX || !env.iter().all(|name| is_variable(name)) {
        return wrong(
            "env",
            format!("must be at most {ITEMS_MAX} names of variables, none of them BATON_…"),
        );
    }
    let isolation = match written.isolation.as_deref() {
        None | Some("try") => Want::Try,
        Some("require") => Want::Require,
        Some("skip") => Want::Skip,
        Some(_) => return wrong("isolation", "must be try, require or skip"),
    };
    let projects = projects_of(written.projects, found)?;
    if written.agents.len() > AGENTS_MAX {
        return wrong("agents", format!("must be at most {AGENTS_MAX}"));
    }
    let agents: Result<BTreeMap<_, _>, Wrong> = written
        .agents
        .into_iter()
        .map(|(name, agent)| Ok((name.clone(), agent_of(&name, agent, found)?)))
        .collect();
    let agents = agents?;
    if let Some(name) = &written.default_agent
        && !agents.contains_key(name)
    {
        let known: Vec<_> = agents.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        return wrong("default_agent", format!("must be one of [agents.…]: {known}"));
    }
    if agents.len() > 1 && written.default_agent.is_none() {
        return wrong(
            "default_agent",
            "must say which agent is the usual one, as there are several",
        );
    }
    let default_agent = written.default_agent;
    Ok(Settings {
        slots,
        memory_floor,
        disk_floor,
        snapshot_every,
        env,
        isolation,
        projects,
        agents,
        default_agent,
    })
}

fn projects_of(
    written: BTreeMap<String, String>,
    found: &Found,
) -> Result<BTreeMap<ProjectId, PathBuf>, Wrong> {
    if written.len() > PROJECTS_MAX {
        return wrong("projects", format!("must be at most {PROJECTS_MAX}"));
    }
    let one = |(name, path): (String, String)| {
        let field = format!("projects.{name}");
        let Ok(project) = ProjectId::new(&name) else {
            return wrong(field, "must be the name of a project");
        };
        let path = found.expand(&path);
        match path.is_absolute() {
            true => Ok((project, path)),
            false => wrong(field, "must be an absolute path, or begin with ~/"),
        }
    };
    written.into_iter().map(one).collect()
}

fn agent_of(name: &str, written: WrittenAgent, found: &Found) -> Result<Agent, Wrong> {
    let field = |inner: &str| format!("agents.{name}.{inner}");
    if capability_of(name).is_err() {
        return wrong(format!("agents.{name}"), "must be a short name of a-z 0-9 . _ -");
    }
    let Some(program) = Program::of(&written.program) else {
        let words: Vec<_> = PROGRAMS.into_iter().map(Program::word).collect();
        return wrong(field("program"), format!("must be one of {}", words.join(", ")));
    };
    let command = match (written.command, found.command(program)) {
        (Some(command), _) => command,
        (None, Some(usual)) => usual,
        (None, None) => {
            return wrong(field("command"), "must say what is started: a list of words");
        }
    };
    let good = |words: &[String]| {
        words.len() <= ITEMS_MAX && words.iter().all(|word| !word.contains('\0'))
    };
    if command.first().is_none_or(String::is_empty) || !good(&command) {
        return wrong(field("command"), format!("must be a program and at most {ITEMS_MAX} words"));
    }
    if !good(&written.arguments) {
        return wrong(field("arguments"), format!("must be at most {ITEMS_MAX} words"));
    }
    let consent = match written.consent.as_deref() {
        Some("ask") => Consent::Ask,
        // It works in a folder of its own, where everything that it does can be looked at.
        None | Some("edits") => Consent::Edits,
        Some("all") => Consent::All,
        Some(_) => return wrong(field("consent"), "must be ask, edits or all"),
    };
    if written.env.len() > ITEMS_MAX || !written.env.keys().all(|name| is_variable(name)) {
        let rule = format!("must be at most {ITEMS_MAX} variables, none of them BATON_…");
        return wrong(field("env"), rule);
    }
    let account = written.account.map(|text| Account::new(&text)).transpose();
    let account =
        account.map_err(|refusal| Wrong { field: field("account"), rule: refusal.to_string() })?;
    let capabilities: Result<BTreeSet<_>, _> =
        written.capabilities.iter().map(|text| Capability::new(text)).collect();
    let capabilities = capabilities
        .map_err(|refusal| Wrong { field: field("capabilities"), rule: refusal.to_string() })?;
    let files = match written.files {
        Some(files) => {
            files_of(files, found).map_err(|rule| Wrong { field: field("files"), rule })?
        }
        None => found.credentials(program),
    };
    let mut env = found.keys(program);
    env.extend(written.env);
    let (arguments, model) = (written.arguments, written.model);
    Ok(Agent { program, command, arguments, model, account, capabilities, consent, env, files })
}

/// What a task names to want this agent.
fn capability_of(name: &str) -> Result<Capability, baton_domain::Refusal> {
    Capability::new(&format!("{AGENT_PREFIX}{name}"))
}

fn files_of(
    written: BTreeMap<String, String>,
    found: &Found,
) -> Result<BTreeMap<String, PathBuf>, String> {
    if written.len() > ITEMS_MAX {
        return Err(format!("must be at most {ITEMS_MAX} files"));
    }
    let one = |(target, source): (String, String)| {
        let target = target.strip_prefix("~/").unwrap_or(&target).to_owned();
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if target.is_empty() || !Path::new(&target).components().all(plain) {
            return Err(format!("`{target}` must be a path in the agent's home, without .."));
        }
        let source = found.expand(&source);
        if !source.is_absolute() {
            return Err(format!(
                "`{}` must be an absolute path, or begin with ~/",
                source.display()
            ));
        }
        Ok((target, source))
    };
    written.into_iter().map(one).collect()
}

/// Whether it is a variable that may be set for an agent by somebody else than us.
fn is_variable(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() <= 128 && name.chars().all(good) && !name.starts_with(OWN_PREFIX)
}

/// A number of bytes as people write it: `512 MiB`.
fn bytes(field: &str, text: Option<String>, usual: u64) -> Result<u64, Wrong> {
    let Some(text) = text else { return Ok(usual) };
    let rule = "must be a size like 512 MiB or 2 GiB, or 0";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return wrong(field, rule),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.map_or_else(|| wrong(field, rule), Ok)
}

fn every(text: &str) -> Result<Duration, Wrong> {
    let span: Result<Span, _> = text.parse();
    let length = span.ok().map(|span| Duration::from_millis(span.0.0));
    let bounded =
        length.filter(|length| (SNAPSHOT_EVERY_MIN..=SNAPSHOT_EVERY_MAX).contains(length));
    bounded.map_or_else(|| wrong("snapshot_every", "must be a length of time from 5s to 24h"), Ok)
}

fn text_of(path: &Path) -> Result<String, Error> {
    let failed = |error| Error::File { path: path.to_owned(), error };
    let file = match open_plain(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        other => other.map_err(failed)?,
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(failed(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))));
    }
    Ok(text)
}

/// What a parser says, in one line.
fn plain(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with(['|', '^'])).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
