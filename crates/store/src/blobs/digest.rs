//! The name of a blob: the SHA-256 of its bytes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::Error;

/// The SHA-256 of a blob's bytes, which is also its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes that are already in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// The raw bytes, as a database column keeps them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The two bytes that choose the folders in which the blob lies.
    pub(super) fn shard(&self) -> (u8, u8) {
        (self.0[0], self.0[1])
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = Error::Invalid {
            field: "digest",
            rule: "must be the 64 lower-case hexadecimal digits of a SHA-256",
        };
        let pairs = text.as_bytes().chunks_exact(2);
        if text.len() != 64 {
            return Err(refused);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            match hex_pair(pair) {
                Some(value) => *byte = value,
                None => return Err(refused),
            }
        }
        Ok(Self(bytes))
    }
}

/// Reads two lower-case hexadecimal digits.
///
/// Capitals are refused, so that one blob has one spelling in paths, URLs and logs.
pub(super) fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}
