//! What an attempt was started with, on the disk before its agent runs: whoever comes back knows from it
//! how to follow the agent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use baton_domain::ids::{Account, DeploymentId, TenantId};
use serde::{Deserialize, Serialize};

use crate::adapters::{Consent, Program, Session, Tools, Turn, Usage};
use crate::chance::Chance;
use crate::files::replace;
use crate::protocol::Dispatch;

/// What it is called in the folder of an attempt.
const FILE: &str = "card.json";
/// Bytes of a card: a dispatch, and a prompt that is as long again.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// What an attempt was started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Card {
    pub whose_deployment: DeploymentId,
    pub whose_tenant: TenantId,
    pub dispatch: Dispatch,
    /// Which agent of the settings.
    pub agent: String,
    pub program: String,
    pub command: Vec<String>,
    pub arguments: Vec<String>,
    pub model: Option<String>,
    pub account: Option<Account>,
    pub consent: Allowed,
    pub talk: Talk,
    /// When it came, in milliseconds since the machine was started.
    pub came_boot_ms: u64,
    /// Its place among the agents of the worker.
    pub place: u16,
    /// Which folder of the task it works in; none until that is known.
    #[serde(default)]
    pub generation: Option<u32>,
    /// Whether that is a plain folder, and no worktree.
    #[serde(default)]
    pub plain: bool,
    /// Where it works.
    pub folder: PathBuf,
    pub home: PathBuf,
    pub prompt: String,
}

/// What it may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    Ask,
    Edits,
    All,
}

/// A conversation with a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Talk {
    /// What it is called, if that is known before it begins.
    pub id: Option<String>,
    /// Whether an attempt before has begun it.
    pub resumed: bool,
    /// What was booked of it then.
    pub booked: Booked,
}

/// What was used, as it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub cost_micros: u64,
}

impl Card {
    /// Puts it into the folder of its attempt.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        replace(&folder.join(FILE), &serde_json::to_vec(self)?)
    }

    /// Reads it back; none if the attempt never came so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        let path = folder.join(FILE);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = vec![];
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let card = serde_json::from_slice(&bytes);
        card.map(Some).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
        })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> Program {
        // A card of a newer version may name one that is not known here: then all of it is speech.
        Program::of(&self.program).unwrap_or(Program::Command)
    }

    /// What the program is started for.
    #[must_use]
    pub fn turn<'a>(&'a self, tools: Option<&'a Tools>) -> Turn<'a> {
        let session = match (&self.talk.id, self.talk.resumed) {
            (Some(id), true) => Session::Resumed { id, booked: self.talk.booked.into() },
            (id, _) => Session::New(id.as_deref()),
        };
        Turn {
            program: &self.command,
            arguments: &self.arguments,
            prompt: &self.prompt,
            session,
            folder: &self.folder,
            home: &self.home,
            model: self.model.as_deref(),
            tools,
            consent: self.consent.into(),
            turns_max: None,
        }
    }
}

impl Talk {
    /// The conversation of the attempt before, if it was with the same program and what the program knows of
    /// it is in this home; otherwise a new one, named before it begins where the program lets us.
    #[must_use]
    pub fn choose(dispatch: &Dispatch, home: &Path, program: Program, chance: &dyn Chance) -> Self {
        let before = dispatch.session.as_ref();
        let same = before.filter(|it| it.program.as_str() == program.word() && home.is_dir());
        if let Some(it) = same {
            let booked = Booked {
                input: it.input_tokens,
                output: it.output_tokens,
                cached: it.cached_tokens,
                cost_micros: it.cost_micros,
            };
            return Self { id: Some(it.id.as_str().to_owned()), resumed: true, booked };
        }
        Self::new(program, chance)
    }

    fn new(program: Program, chance: &dyn Chance) -> Self {
        let id = program.takes_session_ids().then(|| uuid(chance));
        Self { id, resumed: false, booked: Booked::default() }
    }

    /// The agent gets this home: a conversation that is not in it begins anew.
    pub fn move_to(&mut self, home: &Path, program: Program, chance: &dyn Chance) {
        if self.resumed && !home.is_dir() {
            *self = Self::new(program, chance);
        }
    }
}

/// A name that no other conversation has, in the form that programs take.
fn uuid(chance: &dyn Chance) -> String {
    let mut bytes = [0; 16];
    chance.fill(&mut bytes);
    // Version 4, variant 1, as the standard writes it.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

impl From<Consent> for Allowed {
    fn from(consent: Consent) -> Self {
        match consent {
            Consent::Ask => Self::Ask,
            Consent::Edits => Self::Edits,
            Consent::All => Self::All,
        }
    }
}

impl From<Allowed> for Consent {
    fn from(allowed: Allowed) -> Self {
        match allowed {
            Allowed::Ask => Self::Ask,
            Allowed::Edits => Self::Edits,
            Allowed::All => Self::All,
        }
    }
}

impl From<Booked> for Usage {
    fn from(booked: Booked) -> Self {
        let Booked { input, output, cached, cost_micros } = booked;
        Self { input, output, cached, cost_micros }
    }
}
