//! Why a run is parked, and what would unpark it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::SubmissionMark;
use crate::ids::{Capability, TaskId};
use crate::time::Timestamp;

/// Why a run is parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    #[serde(flatten)]
    pub why: Why,
    pub at: Timestamp,
    /// The version of the task whose entry holds the reason.
    pub raised: u64,
    /// It came back too often: only a person may unpark it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// It names a condition that a probe can test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub condition: bool,
    /// What was submitted before it was parked: unparked, the run waits for a verifier again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<SubmissionMark>,
}

impl Block {
    /// A block that is raised now, for the first time as far as it knows.
    #[must_use]
    pub fn new(why: Why, at: Timestamp) -> Self {
        Self { why, at, raised: 0, sticky: false, condition: false, submission: None }
    }
}

/// What would unpark a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Why {
    /// An answer.
    NeedsInput,
    /// A holder that can do something.
    Capability { needs: Capability },
    /// Time.
    Transient { until: Timestamp },
    /// The end of another task.
    Dependency { on: TaskId },
    /// A person, or a higher cap; raised by the rules alone.
    Limit { cap: Cap },
}

impl Why {
    /// The kind by which recurrence is counted.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        match self {
            Self::NeedsInput => BlockKind::NeedsInput,
            Self::Capability { .. } => BlockKind::Capability,
            Self::Transient { .. } => BlockKind::Transient,
            Self::Dependency { .. } => BlockKind::Dependency,
            Self::Limit { .. } => BlockKind::Limit,
        }
    }
}

/// The kind of a block, by which recurrence is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// See [`Why::NeedsInput`].
    NeedsInput,
    /// See [`Why::Capability`].
    Capability,
    /// See [`Why::Transient`].
    Transient,
    /// See [`Why::Dependency`].
    Dependency,
    /// See [`Why::Limit`].
    Limit,
}

/// A cap that ends in a block rather than in a failure, and the knob that raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// `policy.continuations_max`
    Continuations,
    /// `policy.losses_max`
    Losses,
    /// `policy.tries_max`
    Tries,
    /// `policy.stalls_max`
    Stalls,
    /// `policy.turns_max`
    Turns,
    /// `policy.tool_calls_max`
    ToolCalls,
    /// `policy.tokens_max`
    Tokens,
    /// The limit of a budget pool: its own, or one above it.
    Budget,
    /// `policy.setbacks_max`
    Setbacks,
}

impl Cap {
    /// The field that raises the cap.
    #[must_use]
    pub fn knob(self) -> &'static str {
        match self {
            Self::Continuations => "policy.continuations_max",
            Self::Losses => "policy.losses_max",
            Self::Tries => "policy.tries_max",
            Self::Stalls => "policy.stalls_max",
            Self::Turns => "policy.turns_max",
            Self::ToolCalls => "policy.tool_calls_max",
            Self::Tokens => "policy.tokens_max",
            Self::Budget => "pool.limit",
            Self::Setbacks => "policy.setbacks_max",
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeedsInput => "needs_input",
            Self::Capability => "capability",
            Self::Transient => "transient",
            Self::Dependency => "dependency",
            Self::Limit => "limit",
        })
    }
}
