//! What an agent program is started for, and how.

use std::path::Path;

use crate::surroundings::Hidden;

use super::Program;
use super::seen::{Reply, Seen, Usage};

/// Bytes of a prompt: a packet with all that may be said around it is half of that.
pub const PROMPT_BYTES_MAX: usize = 128 * 1024;
/// Arguments that an operator may add.
const ARGUMENTS_MAX: usize = 64;
/// Characters of a name that a program gave its session.
const SESSION_CHARS_MAX: usize = 128;

/// What a program is started for.
#[derive(Clone, Debug)]
pub struct Turn<'a> {
    /// The program: a name that is looked for on `PATH`, or a path. Whatever stands before the
    /// arguments of its protocol comes with it.
    pub program: &'a [String],
    /// What the operator adds to its arguments.
    pub arguments: &'a [String],
    /// What it is told.
    pub prompt: &'a str,
    /// In which conversation.
    pub session: Session<'a>,
    /// Where it works.
    pub folder: &'a Path,
    /// Its home, which belongs to the task.
    pub home: &'a Path,
    /// Which model, if not its usual one.
    pub model: Option<&'a str>,
    /// Where it gets Baton's tools from.
    pub tools: Option<&'a Tools>,
    /// What it may do without asking.
    pub consent: Consent,
    /// Steps it may take, where the program counts them itself.
    pub turns_max: Option<u32>,
}

/// A conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session<'a> {
    /// A new one, under this name where Baton may choose it.
    New(Option<&'a str>),
    /// One that was begun by an attempt before.
    Resumed {
        /// What it is called.
        id: &'a str,
        /// What was booked of it: some programs count over all of its processes.
        booked: Usage,
    },
}

/// The server that gives an agent Baton's tools. Wherever a program can pass variables on that it
/// was started with, only their names are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it needs.
    pub variables: Vec<(String, Hidden)>,
}

/// What an agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// Look. Everything else is asked for; where a program cannot ask, it is denied.
    #[default]
    Ask,
    /// Change files in its folder, too.
    Edits,
    /// Whatever it wants: only the fence around it counts.
    All,
}

impl Consent {
    /// What is said to a wish without asking anybody, if that is settled.
    #[must_use]
    pub fn settles(self, wish: &Seen) -> Option<Reply> {
        match (self, wish) {
            (Self::All, Seen::Permission { id, .. }) => Some(Reply::Allow { id: id.clone() }),
            (Self::All | Self::Edits | Self::Ask, _) => None,
        }
    }
}

/// How a program is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The command line. No secret ever stands in it.
    pub argv: Vec<String>,
    /// Variables that are set after everything else, so that nothing of a repository wins over
    /// them.
    pub environment: Vec<(String, String)>,
    /// Folders that must be in its home before it starts.
    pub folders: Vec<&'static str>,
    /// Files that are written into its home first, for its owner alone.
    pub files: Vec<File>,
    /// What is written to it at once.
    pub stdin: Vec<u8>,
    /// Whether nothing more will be written to it, so that it may see the end at once.
    pub closes_stdin: bool,
}

/// A file in the home of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where, from its home on.
    pub path: String,
    /// What is in it.
    pub content: String,
}

/// Why a program cannot be started so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct Misfit {
    /// What is wrong.
    pub field: &'static str,
    /// What it must be.
    pub rule: String,
}

impl Session<'_> {
    /// Its name, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::New(id) => *id,
            Self::Resumed { id, .. } => Some(id),
        }
    }

    /// What was booked of it already.
    #[must_use]
    pub fn booked(&self) -> Usage {
        match self {
            Self::New(_) => Usage::default(),
            Self::Resumed { booked, .. } => *booked,
        }
    }
}

impl Turn<'_> {
    /// Refuses what no program could be started with. A name may not look like a flag: it may come
    /// from what another process printed.
    pub(super) fn check(&self, program: Program) -> Result<(), Misfit> {
        let refuse = |field, rule: &str| Err(Misfit { field, rule: rule.to_owned() });
        if self.program.first().is_none_or(String::is_empty) {
            return refuse("program", "must be named");
        }
        let mut arguments = self.program.iter().chain(self.arguments);
        if self.arguments.len() > ARGUMENTS_MAX || arguments.any(|one| one.contains('\0')) {
            return refuse("arguments", "must be at most 64, without NUL");
        }
        if self.prompt.len() > PROMPT_BYTES_MAX || self.prompt.contains('\0') {
            return refuse("prompt", "must be at most 128 KiB, without NUL");
        }
        if self.prompt.trim().is_empty() && program != Program::Command {
            return refuse("prompt", "must not be blank");
        }
        if self.session.id().is_some_and(|id| !is_name(id)) {
            return refuse("session", "must be a name of letters, digits, `-`, `_` and `.`");
        }
        if self.session == Session::New(None) && program.takes_session_ids() {
            return refuse("session", "must be chosen before the program is started");
        }
        if self.model.is_some_and(|model| model.is_empty() || model.starts_with('-')) {
            return refuse("model", "must be a name");
        }
        Ok(())
    }

    /// The command line: the program, what its protocol needs, what the operator adds.
    pub(super) fn argv(&self, own: &[&str]) -> Vec<String> {
        let own = own.iter().map(|argument| (*argument).to_owned());
        self.program.iter().cloned().chain(own).chain(self.arguments.iter().cloned()).collect()
    }
}

fn is_name(id: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !id.is_empty() && id.len() <= SESSION_CHARS_MAX && !id.starts_with('-') && id.chars().all(known)
}

/// A variable for a plan.
pub(super) fn variable(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}
