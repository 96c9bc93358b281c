//! Agent programs: how each is started, what is said to it, and what can be seen of it.
//!
//! A program is followed by a pure fold over what went through its streams, as the spool of its
//! attempt has it: its output, its complaints, what was written to it, and its exit. Folding the
//! same spool again sees the same, however it was cut into pieces, so a worker that comes back
//! knows everything that the one before it knew, also what it had said already.
//!
//! Whatever a program prints is data. Only lines of its documented format mean anything, and
//! none of them means that the work is done: the end of a turn is the end of a turn.

use serde_json::Value;

pub mod failure;
mod fields;
mod follow;
mod lines;
mod rpc;
mod said;
mod seen;
mod turn;

mod acp;
mod claude;
mod codex;
mod command;
mod exec;
mod gemini;
mod opencode;
pub mod script;

pub use failure::{Class, FAILURES, Failure, Fault};
pub use follow::{Follower, Tally};
pub use lines::LINE_BYTES_MAX;
pub use said::{Narrator, Said, Voice};
pub use seen::{End, Exit, Heard, Limit, Reply, Seen, Usage};
pub use turn::{Consent, File, Misfit, Plan, Session, Tools, Turn};

/// An agent program that Baton knows how to drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Any command line: what it prints is speech, and it ends by its exit.
    Command,
    /// Claude Code, by its stream of JSON in both directions.
    Claude,
    /// Codex, by its app server.
    Codex,
    /// Codex, by `exec`: it cannot ask, and says nothing of its limits.
    CodexExec,
    /// Gemini CLI, by its stream.
    Gemini,
    /// opencode, by its stream.
    Opencode,
    /// Any program that speaks the Agent Client Protocol.
    Acp,
    /// The built-in agent that does what a file of steps says.
    Script,
}

/// Every program, in the order in which they are told.
pub const PROGRAMS: [Program; 8] = [
    Program::Command,
    Program::Claude,
    Program::Codex,
    Program::CodexExec,
    Program::Gemini,
    Program::Opencode,
    Program::Acp,
    Program::Script,
];

impl Program {
    /// What it is called in settings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::CodexExec => "codex-exec",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Acp => "acp",
            Self::Script => "script",
        }
    }

    /// The one that is called so.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        PROGRAMS.into_iter().find(|program| program.word() == word)
    }

    /// What Baton names its sessions with: a UUID of its own, or the name that the program gives.
    /// Where Baton chooses, the name is written down before the program is started.
    #[must_use]
    pub fn takes_session_ids(self) -> bool {
        match self {
            Self::Claude | Self::Gemini => true,
            Self::Command
            | Self::Codex
            | Self::CodexExec
            | Self::Opencode
            | Self::Acp
            | Self::Script => false,
        }
    }

    /// What of a repository it heeds although it is told not to: whoever starts it looks there first,
    /// and starts nothing beside what an agent has changed. Of the other programs nothing is known that
    /// could not be told off.
    #[must_use]
    pub fn heeds(self) -> &'static [&'static str] {
        match self {
            // Plugins are code that runs in the program itself.
            Self::Opencode => &[".opencode", "opencode.json", "opencode.jsonc"],
            Self::Command
            | Self::Claude
            | Self::Codex
            | Self::CodexExec
            | Self::Gemini
            | Self::Acp
            | Self::Script => &[],
        }
    }

    /// How it is started for a turn.
    pub fn plan(self, turn: &Turn<'_>) -> Result<Plan, Misfit> {
        turn.check(self)?;
        match self {
            Self::Command => command::plan(turn),
            Self::Claude => claude::plan(turn),
            Self::Codex => codex::plan(turn),
            Self::CodexExec => exec::plan(turn),
            Self::Gemini => gemini::plan(turn),
            Self::Opencode => opencode::plan(turn),
            Self::Acp => acp::plan(turn),
            Self::Script => script::plan(turn),
        }
    }

    /// Somebody who follows it from its first byte on.
    #[must_use]
    pub fn follow(self, turn: &Turn<'_>) -> Follower {
        let adapter: Box<dyn Adapter> = match self {
            Self::Command => Box::new(command::Opaque),
            Self::Claude => Box::new(claude::Claude::default()),
            Self::Codex => Box::new(codex::Codex::new(turn)),
            Self::CodexExec => Box::new(exec::Exec::new(turn)),
            Self::Gemini => Box::new(gemini::Gemini::default()),
            Self::Opencode => Box::new(opencode::Opencode::default()),
            Self::Acp => Box::new(acp::Acp::new(turn)),
            Self::Script => Box::new(script::Script::default()),
        };
        Follower::new(adapter)
    }
}

/// What is particular about a program. The [`Follower`] puts lines together, bounds them, reads
/// their JSON and counts what is none; an adapter knows what they mean.
trait Adapter: Send {
    /// Whether its output has no format that could be known.
    fn is_opaque(&self) -> bool {
        false
    }

    /// It printed this.
    fn event(&mut self, event: &Value, seen: &mut Vec<Seen>);

    /// This was written to it.
    fn written(&mut self, _message: &Value, _seen: &mut Vec<Seen>) {}

    /// It complained.
    fn complained(&mut self, _line: &str, _seen: &mut Vec<Seen>) {}

    /// It is gone: what is still to be said of the turn that it was in.
    fn exited(&mut self, exit: Exit, last_words: &str, seen: &mut Vec<Seen>);

    /// What it waits for and was not given yet, by its protocol.
    fn owed(&self) -> Option<Value> {
        None
    }

    /// What to write so that it takes another turn, if it can.
    fn prompt(&self, _text: &str) -> Option<Value> {
        None
    }

    /// What to write so that it has the answer to what it asked.
    fn answer(&self, _reply: &Reply) -> Option<Value> {
        None
    }

    /// What to write so that it stops its turn, if it can be told so.
    fn interrupt(&self) -> Option<Value> {
        None
    }
}
