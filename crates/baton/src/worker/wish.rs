//! What goes between a worker and whoever started it.

use std::io;

use super::prepare::Premises;
use super::stock::Short;

/// What a worker is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To take nothing more, and to end with its last agent.
    Drain,
    /// To stop its agents, prove it, and end.
    Stop,
    /// To end at once. Agents live on until their fences fall, for the next worker to take over.
    Leave,
}

/// What a worker tells whoever started it.
#[derive(Clone, Debug)]
pub enum Sign {
    /// The server is there; so many agents run.
    Ready { agents: usize },
    /// The server is not there, and why.
    Away(String),
    /// The disk takes no reports: nothing more is begun until it does.
    Full,
    /// There is no room for one more agent, and why; or there is again.
    Short(Option<Short>),
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is one.
    #[error("a worker of this data folder runs already")]
    Taken,
    /// Its folder is not to be used.
    #[error("the worker's folder cannot be used: {0}")]
    Folder(#[from] io::Error),
}

/// How a worker is run.
pub struct Wish {
    pub premises: Premises,
    /// Whether to end after one run.
    pub once: bool,
}
