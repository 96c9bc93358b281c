//! Who and what is meant: numbers for work, short names for everything that people choose.
//!
//! Work is numbered per tenant, so an id of another tenant is simply an id that does not exist
//! here. The attempt number is counted per task, is never reused, and is the fence.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// The highest number that a task may have: a thousand tasks a second for thirty years.
pub const TASK_NUMBER_MAX: u64 = 999_999_999_999;

/// A task of a tenant, shown as `T-128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(pub u64);

/// One pass of a task through one stage, shown as `R-128.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId {
    pub task: TaskId,
    pub number: u32,
}

/// One try of a run by one holder, shown as `A-128.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttemptId {
    pub task: TaskId,
    /// Counted per task from 1, never reused: the fence.
    pub number: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T-{}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R-{}.{}", self.task.0, self.number)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A-{}.{}", self.task.0, self.number)
    }
}

fn malformed(field: &'static str, rule: &'static str) -> Refusal {
    Refusal::Invalid { field: field.into(), rule: rule.into() }
}

/// Reads a positive number written without sign or leading zero, so that an id has one spelling.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

fn task_number(text: &str) -> Option<TaskId> {
    number(text).filter(|number| *number <= TASK_NUMBER_MAX).map(TaskId)
}

fn pair(text: &str, prefix: &str) -> Option<(TaskId, u32)> {
    let (task, own) = text.strip_prefix(prefix)?.split_once('.')?;
    Some((task_number(task)?, number(own)?))
}

impl FromStr for TaskId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        text.strip_prefix("T-")
            .and_then(task_number)
            .ok_or_else(|| malformed("task", "must look like T-128"))
    }
}

impl FromStr for RunId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        pair(text, "R-")
            .map(|(task, number)| Self { task, number })
            .ok_or_else(|| malformed("run", "must look like R-128.2"))
    }
}

impl FromStr for AttemptId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        pair(text, "A-")
            .map(|(task, number)| Self { task, number })
            .ok_or_else(|| malformed("attempt", "must look like A-128.3"))
    }
}

macro_rules! written_as_text {
    ($($id:ty),*) => {$(
        impl TryFrom<String> for $id {
            type Error = Refusal;

            fn try_from(text: String) -> Result<Self, Refusal> {
                text.parse()
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.to_string()
            }
        }
    )*};
}

written_as_text!(TaskId, RunId, AttemptId);

/// Longest name in bytes: long enough for `team/service-name`, short enough for a column.
pub const NAME_BYTES_MAX: usize = 48;
/// Longest name of something that a task may have several of.
pub const SHORT_NAME_BYTES_MAX: usize = 32;

fn check_name(field: &'static str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    let starts = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._:/@-".contains(&b));
    if starts && plain && text.len() <= bytes_max && !text.contains("..") {
        return Ok(());
    }
    let rule = format!(
        "must be 1 to {bytes_max} of a-z 0-9 . _ : / @ -, begin with a letter or digit, and not \
         contain .."
    );
    Err(Refusal::Invalid { field: field.into(), rule })
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $field:literal, $bytes_max:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Accepts a well-formed name.
            pub fn new(text: &str) -> Result<Self, Refusal> {
                check_name($field, text, $bytes_max)?;
                Ok(Self(text.into()))
            }

            /// The name as written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<Self, Refusal> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Refusal;

            fn try_from(text: String) -> Result<Self, Refusal> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.to_string()
            }
        }
    )*};
}

names! {
    /// Whose data it is; a user alone is tenant `local`.
    TenantId = "tenant", NAME_BYTES_MAX;
    /// What people call a key.
    KeyName = "name", NAME_BYTES_MAX;
    /// What people call a channel.
    ChannelName = "channel", SHORT_NAME_BYTES_MAX;
    /// Who calls.
    PrincipalId = "principal", NAME_BYTES_MAX;
    /// A repository root or any folder, under a name.
    ProjectId = "project", NAME_BYTES_MAX;
    /// A working stage of a project's pipeline.
    StageName = "stage", SHORT_NAME_BYTES_MAX;
    /// Something that a holder can do and that some tasks need.
    Capability = "capability", SHORT_NAME_BYTES_MAX;
    /// Tasks with equal keys share a limit.
    ConcurrencyKey = "key", NAME_BYTES_MAX;
    /// A free tag.
    Label = "label", NAME_BYTES_MAX;
    /// A provider account whose rate limit is shared by all tasks.
    Account = "account", NAME_BYTES_MAX;
    /// A line of a contract.
    LineId = "line", NAME_BYTES_MAX;
    /// Which installation made a process, worktree or ref, so that two of them never reap each other.
    DeploymentId = "deployment", NAME_BYTES_MAX;
}

/// The secret-free part of a claim: a lease is parked by forgetting it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub u128);

/// What a token is made from is for no log.
impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(…)")
    }
}

/// SHA-256 of something kept elsewhere, written as 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(Arc<str>);

impl Digest {
    /// Accepts 64 lower-case hex digits.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && text.len() == 64 {
            return Ok(Self(text.into()));
        }
        Err(malformed("digest", "must be 64 lower-case hex digits"))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Digest {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::new(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.to_string()
    }
}

/// A commit of git, written as the 40 or 64 hex digits of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Commit(Arc<str>);

impl Commit {
    /// Accepts the whole name in lower case; a shortened one may mean two.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(text.len(), 40 | 64) {
            return Ok(Self(text.into()));
        }
        Err(malformed("commit", "must be 40 or 64 lower-case hex digits"))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Commit {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Self::new(text)
    }
}

impl TryFrom<String> for Commit {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::new(&text)
    }
}

impl From<Commit> for String {
    fn from(commit: Commit) -> Self {
        commit.0.to_string()
    }
}
