//! Scopes: what a key lets its owner do. Only their form is known here; which of them exist is told
//! by the list of operations, which every scope is checked against when a key is made.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// Longest noun of a scope.
const NOUN_BYTES_MAX: usize = 24;

/// What may be done with one sort of thing, written as `run:work`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope {
    noun: Cow<'static, str>,
    level: Level,
}

/// How much may be done. The levels are apart: none contains another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Look.
    Read,
    /// Claim, and act as the attempt.
    Work,
    /// Make and change.
    Write,
    /// Do what the rules leave to a person with a reason.
    Force,
    /// Set up and take down.
    Admin,
}

impl Level {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Work => "work",
            Self::Write => "write",
            Self::Force => "force",
            Self::Admin => "admin",
        }
    }
}

impl Scope {
    /// A scope that an operation asks for; a malformed noun does not compile in a constant.
    #[must_use]
    pub const fn of(noun: &'static str, level: Level) -> Self {
        assert!(is_noun(noun), "a noun is 1 to 24 of a-z and _");
        Self { noun: Cow::Borrowed(noun), level }
    }

    /// What it is about.
    #[must_use]
    pub fn noun(&self) -> &str {
        &self.noun
    }

    /// How much of it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }
}

const fn is_noun(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_lowercase() && (bytes[at] != b'_' || at == 0) {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= NOUN_BYTES_MAX
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.noun, self.level.as_str())
    }
}

impl FromStr for Scope {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let levels = [Level::Read, Level::Work, Level::Write, Level::Force, Level::Admin];
        text.split_once(':')
            .filter(|(noun, _)| is_noun(noun))
            .and_then(|(noun, word)| {
                let level = levels.into_iter().find(|level| level.as_str() == word)?;
                Some(Self { noun: Cow::Owned(noun.into()), level })
            })
            .ok_or_else(|| Refusal::Invalid {
                field: "scopes".into(),
                rule: "must look like run:work, with read, work, write, force or admin".into(),
            })
    }
}

impl TryFrom<String> for Scope {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}
