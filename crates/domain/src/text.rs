//! Bounded text: whatever is stored was checked when it was built.
//!
//! The rules live in the type, so a blank reason or a claim token inside a summary cannot reach
//! a rule, a row or a log: there is no value of that kind to pass.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// What every claim token begins with; texts that contain one are refused.
pub const CLAIM_TOKEN_PREFIX: &str = "batonc_";

/// What every key begins with; texts that contain one are refused, too.
pub const KEY_PREFIX: &str = "batonk_";

/// Text that is not blank, at most `MAX` bytes, without control characters, claim tokens or keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const MAX: usize>(String);

/// A line that names a task.
pub type Title = Text<256>;
/// What should be achieved, at length.
pub type Body = Text<65_536>;
/// Why something was done.
pub type Reason = Text<2_048>;
/// How far something is.
pub type Summary = Text<8_192>;
/// A question to a person, or the answer.
pub type Message = Text<8_192>;
/// Where to go on.
pub type Cursor = Text<1_024>;
/// One thing done or failed.
pub type Item = Text<512>;
/// A shell command, a path, a reference.
pub type Line = Text<1_024>;
/// What somebody signed, as it was signed, with the signature.
pub type Signed = Text<16_384>;
/// A stable word for why an attempt failed.
pub type Code = Text<32>;

impl<const MAX: usize> Text<MAX> {
    /// Checks a text; `field` names it in the refusal.
    pub fn new(field: &str, text: impl Into<String>) -> Result<Self, Refusal> {
        let text = text.into();
        let refuse = |rule: String| Refusal::Invalid { field: field.into(), rule };
        if text.trim().is_empty() {
            return Err(refuse("must not be blank".into()));
        }
        if text.len() > MAX {
            return Err(refuse(format!("must be at most {MAX} bytes, is {}", text.len())));
        }
        if let Some(bad) = text.chars().find(|c| is_hidden(*c)) {
            let code = u32::from(bad);
            return Err(refuse(format!("must not contain the hidden character U+{code:04X}")));
        }
        if holds_token(&text, CLAIM_TOKEN_PREFIX) {
            return Err(refuse("must not contain a claim token".into()));
        }
        if holds_token(&text, KEY_PREFIX) {
            return Err(refuse("must not contain a key".into()));
        }
        Ok(Self(text))
    }

    /// Its beginning, for where the whole would be too much.
    #[must_use]
    pub fn cut(&self, bytes_max: usize) -> Self {
        let text = self.0.trim_start();
        Self(text[..text.floor_char_boundary(bytes_max)].to_owned())
    }

    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that show nothing and change how the rest is shown, read or searched for.
fn is_hidden(c: char) -> bool {
    let format = matches!(u32::from(c),
        0xAD | 0x200B | 0x200E | 0x200F | 0x2028..=0x202E | 0x2060..=0x2069 | 0xFEFF);
    format || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A prefix followed by a letter or digit is a token, or near enough to one to refuse it.
fn holds_token(text: &str, prefix: &str) -> bool {
    text.match_indices(prefix).any(|(at, prefix)| {
        text[at + prefix.len()..].bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
    })
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> TryFrom<String> for Text<MAX> {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::new("text", text)
    }
}

impl<const MAX: usize> From<Text<MAX>> for String {
    fn from(text: Text<MAX>) -> Self {
        text.0
    }
}
