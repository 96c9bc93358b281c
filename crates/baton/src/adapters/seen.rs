//! What goes into a fold and what comes out of it, whichever program it is.

use std::fmt;

use baton_domain::time::Timestamp;

use super::failure::Fault;

/// A piece of what went through the streams of a program, in the order of its spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It printed this.
    Out(&'a [u8]),
    /// It complained.
    Err(&'a [u8]),
    /// This was written to it.
    In(&'a [u8]),
    /// It is gone.
    Exited(Exit),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// One thing that was seen of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// What its conversation is called, for the next attempt to go on with.
    Session(String),
    /// It took up a turn.
    Started,
    /// It showed life.
    Spoke {
        /// Whether a person would see it.
        visible: bool,
    },
    /// A tool began.
    ToolStarted { id: String, name: String },
    /// A tool ended.
    ToolEnded { id: String },
    /// It read this file.
    Read(String),
    /// It wants to do something, and waits for a yes or a no.
    Permission { id: String, what: String },
    /// It wants to know something, and waits.
    Asked { id: String, text: String },
    /// What it waited for is there, or no longer wanted.
    Settled { id: String },
    /// It used this much since the last time.
    Used(Usage),
    /// Its account is limited.
    Limited(Limit),
    /// Its provider refused, and it asks again by itself.
    Retrying { status: Option<u16> },
    /// Its turn is over. Never that its work is done.
    Ended {
        reason: End,
        /// Why, if something went wrong.
        error: Option<Fault>,
    },
}

/// What an agent used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from a cache.
    pub cached: u64,
    /// Millionths of a dollar, where the program says so.
    pub cost_micros: u64,
}

impl Usage {
    /// What this is more than what was known before. Counters only grow: one that fell began anew.
    #[must_use]
    pub fn beyond(self, known: Self) -> Self {
        Self {
            input: self.input.saturating_sub(known.input),
            output: self.output.saturating_sub(known.output),
            cached: self.cached.saturating_sub(known.cached),
            cost_micros: self.cost_micros.saturating_sub(known.cost_micros),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            output: self.output.saturating_add(more.output),
            cached: self.cached.saturating_add(more.cached),
            cost_micros: self.cost_micros.saturating_add(more.cost_micros),
        }
    }

    /// Whether there is anything to book.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A limit of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Which, as the provider calls it.
    pub window: String,
    /// Whether a turn came to its end by it. A notice that was followed by work is none.
    pub hard: bool,
    /// When it is lifted, if that was said.
    pub resets_at: Option<Timestamp>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The agent has nothing more to say.
    Finished,
    /// It was told to stop.
    Interrupted,
    /// It took as many steps as it may.
    Turns,
    /// It spent as much as it may.
    Budget,
    /// Something broke.
    Failed,
    /// The process went away without a word about it.
    Gone,
}

/// What a person, or a policy, says to what an agent waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It may.
    Allow { id: String },
    /// It may not, because.
    Deny { id: String, why: String },
    /// This is the answer.
    Answer { id: String, text: String },
}

impl Reply {
    /// To which request.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Allow { id } | Self::Deny { id, .. } | Self::Answer { id, .. } => id,
        }
    }
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Turns => "turns",
            Self::Budget => "budget",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// As it stands in golden texts: one line each.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "session {id}"),
            Self::Started => write!(f, "started"),
            Self::Spoke { visible: true } => write!(f, "spoke"),
            Self::Spoke { visible: false } => write!(f, "moved"),
            Self::ToolStarted { id, name } => write!(f, "tool {id} {name}"),
            Self::ToolEnded { id } => write!(f, "tool {id} ended"),
            Self::Read(path) => write!(f, "read {path}"),
            Self::Permission { id, what } => write!(f, "permission {id} {what}"),
            Self::Asked { id, text } => write!(f, "asked {id} {text}"),
            Self::Settled { id } => write!(f, "settled {id}"),
            Self::Used(Usage { input, output, cached, cost_micros }) => {
                write!(f, "used input {input} output {output} cached {cached} cost {cost_micros}")
            }
            Self::Limited(Limit { window, hard, resets_at }) => {
                write!(f, "limit {window} {}", if *hard { "hard" } else { "soft" })?;
                resets_at.map_or(Ok(()), |at| write!(f, " until {}", at.0))
            }
            Self::Retrying { status: None } => write!(f, "retrying"),
            Self::Retrying { status: Some(status) } => write!(f, "retrying after {status}"),
            Self::Ended { reason, error } => {
                write!(f, "ended {}", reason.word())?;
                error.as_ref().map_or(Ok(()), |fault| write!(f, " {fault}"))
            }
        }
    }
}
