//! Because this happened there, do that here: written with the cause, deleted with the effect.

use serde::{Deserialize, Serialize};

use crate::ids::{PrincipalId, TaskId};

/// What one task owes another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reaction {
    pub to: TaskId,
    pub from: TaskId,
    pub cause: Cause,
}

/// What happened there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A dependency ended.
    DependencySettled { met: bool },
    /// A child ended.
    ChildSettled,
    /// A child was added after all others had ended.
    ChildAdded,
    /// A budget that had parked this very task has more money; `from` and `to` are the same.
    BudgetRaised,
    /// A task that this one's agent made is finished or stuck.
    Wake {
        /// Whether it ended; otherwise it needs somebody.
        ended: bool,
        /// The holder by whose own word it came to that: nobody is woken by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<PrincipalId>,
    },
}
