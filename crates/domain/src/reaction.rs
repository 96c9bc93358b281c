//! Because this happened there, do that here: written with the cause, deleted with the effect.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;

/// What one task owes another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reaction {
    pub to: TaskId,
    pub from: TaskId,
    pub cause: Cause,
}

/// What happened there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A dependency ended.
    DependencySettled { met: bool },
    /// A child ended.
    ChildSettled,
    /// A child was added after all others had ended.
    ChildAdded,
    /// A task that this one's agent made is finished or stuck.
    Wake {
        /// Whether it ended; otherwise it needs somebody.
        ended: bool,
    },
}
