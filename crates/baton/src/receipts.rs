//! Receipts as texts that anybody can check without us: what was found of one line for one submission, signed.
//!
//! A text has one spelling. Whoever checks it writes it anew from what it read and compares, so that no byte can be
//! changed, blanks and the order of members included.

use baton_domain::contract::{Finding, Term};
use baton_domain::ids::{Digest, LineId, PrincipalId, RunId, TaskId, TenantId};
use baton_domain::text::{Line, Reason, Signed};
use baton_domain::time::Timestamp;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The first line of every such text, so that a later form can be told from this one.
const HEAD: &str = "baton receipt 1";
/// What is signed begins with it: no signature of ours for something else is one of these.
const PURPOSE: &[u8] = b"baton-receipt-1\n";
/// Bytes of a text: what is longer was not written by us.
pub const BYTES_MAX: u64 = 16 << 10;

/// What was found of one line for one submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    pub tenant: TenantId,
    pub task: TaskId,
    pub run: RunId,
    /// The version of the task whose entry holds the submission.
    pub submission: u64,
    pub line: LineId,
    /// The digest of what the line asks for.
    pub asks: Digest,
    /// The hash of the contract that the submission answers.
    pub contract: Digest,
    /// The tree that was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Line>,
    /// What it was checked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Digest>,
    pub found: Found,
    /// Why it does not hold, or why a person vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The bytes that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Digest>,
    /// Who checked it, or vouches for it.
    pub by: PrincipalId,
    pub at: Timestamp,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// A person vouches for it.
    Waived,
}

/// A public key, by which receipts are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// Signs receipts.
pub struct Signer(SigningKey);

/// Why a text proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    /// It is not written as we write receipts.
    #[error("it is not a receipt, or was changed")]
    NotAReceipt,
    /// It was signed, but by somebody else.
    #[error("it is signed by the key {0}, which is not among those that are trusted")]
    UnknownKey(String),
    /// The signature is not of this text.
    #[error("the signature does not hold")]
    Signature,
}

impl Statement {
    /// What it says of a finding.
    #[must_use]
    pub fn finding(self, finding: &Finding) -> Self {
        let (found, reason, evidence) = match finding {
            Finding::Holds { evidence } => (Found::Holds, None, evidence.clone()),
            Finding::Fails { reason, evidence } => {
                (Found::Fails, Some(reason.clone()), evidence.clone())
            }
            Finding::Waived { reason } => (Found::Waived, Some(reason.clone()), None),
        };
        Self { found, reason, evidence, ..self }
    }

    fn line(&self) -> String {
        serde_json::to_string(self).expect("a statement is plain values under plain names")
    }
}

/// The digest of what a line asks for.
#[must_use]
pub fn asks(term: &Term) -> Digest {
    let text = serde_json::to_string(term).expect("a term is plain values under plain names");
    let digits = hex(&Sha256::digest(text));
    Digest::new(&digits).expect("a hash is 64 hex digits")
}

impl Signer {
    /// Signs with this secret.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(secret))
    }

    /// What its receipts are checked by.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// The statement as a text that anybody can check.
    #[must_use]
    pub fn sign(&self, statement: &Statement) -> Signed {
        let line = statement.line();
        let signature = self.0.sign(&[PURPOSE, line.as_bytes()].concat()).to_bytes();
        let text = written(&line, &self.public(), &signature);
        Signed::new("signed", text).expect("what a statement holds is bounded and was checked")
    }
}

impl PublicKey {
    /// The sixty-four digits that people copy.
    #[must_use]
    pub fn digits(&self) -> String {
        hex(&self.0)
    }

    /// A short name: the beginning of its digest.
    #[must_use]
    pub fn id(&self) -> String {
        hex(&Sha256::digest(self.0)[..8])
    }

    /// Reads the digits.
    #[must_use]
    pub fn read(digits: &str) -> Option<Self> {
        unhex(digits).map(Self)
    }
}

/// What a text says, if one of these keys signed exactly this text.
///
/// # Errors
/// If it proves nothing.
pub fn verify(text: &[u8], trusted: &[PublicKey]) -> Result<(Statement, PublicKey), Forged> {
    let text = std::str::from_utf8(text).map_err(|_| Forged::NotAReceipt)?;
    let (statement, key, signature) = read(text).ok_or(Forged::NotAReceipt)?;
    if written(&statement.line(), &key, &signature) != text {
        return Err(Forged::NotAReceipt);
    }
    if !trusted.contains(&key) {
        return Err(Forged::UnknownKey(key.id()));
    }
    let verifying = VerifyingKey::from_bytes(&key.0).map_err(|_| Forged::Signature)?;
    let signed = [PURPOSE, statement.line().as_bytes()].concat();
    // Strictly: a signature has one spelling, too.
    let holds = verifying.verify_strict(&signed, &Signature::from_bytes(&signature));
    holds.map(|()| (statement, key)).map_err(|_| Forged::Signature)
}

fn written(line: &str, key: &PublicKey, signature: &[u8; 64]) -> String {
    format!("{HEAD}\n{line}\nkey {}\nsignature {}", key.digits(), hex(signature))
}

fn read(text: &str) -> Option<(Statement, PublicKey, [u8; 64])> {
    let mut lines = text.lines();
    let (_, line) = (lines.next().filter(|head| *head == HEAD)?, lines.next()?);
    let key = PublicKey::read(lines.next()?.strip_prefix("key ")?)?;
    let signature = unhex(lines.next()?.strip_prefix("signature ")?)?;
    Some((serde_json::from_str(line).ok()?, key, signature))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
