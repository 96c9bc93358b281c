//! Keeps secrets out of what is written down or sent around: text goes through here before it
//! reaches the writer's queue, a log or a stream, and comes out with the secrets masked and counted.
//!
//! Two kinds are found. *Known* secrets are those that this process holds; they are found in every
//! encoding in which they usually leak. *Shapes* are what others hand out, told by how they begin.
//! Everything is decided from left to right with a bounded look ahead that never crosses the end of
//! a line, so a stream in chunks gives the same bytes as the whole text, and lines need not wait.
//!
//! What was transformed in any other way is not found: it cannot be told from any other text.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};

use scan::{Finding, Scan};
use shapes::SHAPES;

pub use arguments::clean;
pub use stream::Stream;

mod arguments;
mod encodings;
mod scan;
mod shapes;
mod stream;

/// What stands where a secret was.
pub const MASK: &str = "[redacted]";

/// Bytes of the shortest secret that is looked for: a shorter one is found by chance everywhere.
pub const KNOWN_BYTES_MIN: usize = 8;
/// Bytes of the longest one: a credential file with its certificates.
pub const KNOWN_BYTES_MAX: usize = 16 * 1024;
/// How many are looked for: some for each agent of a large worker, and some megabytes of automaton.
pub const KNOWN_MAX: usize = 512;

/// How much was masked: counts, never values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Secrets that this process holds.
    pub known: u64,
    /// What looks like a secret of somebody else.
    pub shapes: u64,
    /// Claim tokens of Baton.
    pub claim_tokens: u64,
    /// Keys of Baton.
    pub keys: u64,
}

/// Why a secret is not looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It would be found in any text.
    #[error("a secret of fewer than {KNOWN_BYTES_MIN} bytes cannot be told from other text")]
    TooShort,
    /// It is no secret, but a file.
    #[error("a secret has at most {KNOWN_BYTES_MAX} bytes")]
    TooLong,
    /// There are enough.
    #[error("at most {KNOWN_MAX} secrets are looked for")]
    TooMany,
}

/// Finds secrets and masks them.
pub struct Redactor {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    secrets: Vec<Vec<u8>>,
    automaton: Option<Arc<AhoCorasick>>,
}

impl Redactor {
    /// One that knows shapes alone.
    #[must_use]
    pub fn new() -> Self {
        Self { known: RwLock::default() }
    }

    /// Looks for this secret, too, from now on.
    pub fn know(&self, secret: &[u8]) -> Result<(), Error> {
        if secret.len() < KNOWN_BYTES_MIN {
            return Err(Error::TooShort);
        }
        if secret.len() > KNOWN_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.secrets.iter().any(|own| own == secret) {
            return Ok(());
        }
        if known.secrets.len() >= KNOWN_MAX {
            return Err(Error::TooMany);
        }
        known.secrets.push(secret.to_vec());
        let patterns: Vec<_> =
            known.secrets.iter().flat_map(|secret| encodings::all(secret)).collect();
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns);
        known.automaton = Some(Arc::new(automaton.expect("the bounds above keep it small")));
        Ok(())
    }

    /// The text without its secrets, and how many there were; nothing if there was none.
    #[must_use]
    pub fn text(&self, text: &str) -> Option<(String, Tally)> {
        let (bytes, tally) = self.whole(text.as_bytes());
        if tally.is_empty() {
            return None;
        }
        // A known secret that is no text may have been cut out of the middle of a character.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some((text, tally))
    }

    /// The bytes without their secrets.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.whole(bytes) {
            (_, tally) if tally.is_empty() => Cow::Borrowed(bytes),
            (cleaned, _) => Cow::Owned(cleaned),
        }
    }

    /// A stream that is cleaned chunk by chunk; secrets that become known later are not looked for
    /// in it.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(Scan::new(&SHAPES, self.automaton()))
    }

    fn whole(&self, bytes: &[u8]) -> (Vec<u8>, Tally) {
        let mut scan = Scan::new(&SHAPES, self.automaton());
        let mut out = Vec::with_capacity(bytes.len());
        scan.go(bytes, 0, true, &mut out);
        (out, scan.tally())
    }

    fn automaton(&self) -> Option<Arc<AhoCorasick>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).automaton.clone()
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(…)")
    }
}

impl Tally {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.known + self.shapes + self.claim_tokens + self.keys
    }

    /// Whether nothing was masked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    fn count(&mut self, finding: Finding) {
        match finding {
            Finding::Known => self.known += 1,
            Finding::Shape => self.shapes += 1,
            Finding::ClaimToken => self.claim_tokens += 1,
            Finding::Key => self.keys += 1,
        }
    }
}

#[cfg(test)]
mod tests;
