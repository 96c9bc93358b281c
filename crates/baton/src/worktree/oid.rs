//! Names of git objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Digits of a name under SHA-1 and under SHA-256.
const DIGITS: [usize; 2] = [40, 64];

/// The name of an object: nothing but lower-case hexadecimal digits, so that it can stand on a command
/// line, in a path and in a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// A text that names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 40 or 64 lower-case hexadecimal digits")]
pub struct NotAnOid;

impl Oid {
    /// As git takes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How git calls the hash that it is made with.
    pub(super) fn format(&self) -> &'static str {
        if self.0.len() == DIGITS[0] { "sha1" } else { "sha256" }
    }

    /// What stands for no object beside this one.
    pub(super) fn nothing(&self) -> String {
        "0".repeat(self.0.len())
    }

    /// What git printed, with its line end.
    pub(super) fn said(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.trim_end_matches('\n').parse().ok()
    }
}

impl FromStr for Oid {
    type Err = NotAnOid;

    fn from_str(text: &str) -> Result<Self, NotAnOid> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if plain && DIGITS.contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAnOid)
        }
    }
}

impl TryFrom<String> for Oid {
    type Error = NotAnOid;

    fn try_from(text: String) -> Result<Self, NotAnOid> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
