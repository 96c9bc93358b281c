//! Tokens: what a holder shows to prove that it is the attempt, and (in `key`) what a caller shows
//! to prove who it is.
//!
//! A claim token is shown once and never stored. It names task, attempt, nonce and speaker, and carries
//! an HMAC over them, the tenant and the incarnation of the store, so that it can be recomputed
//! for a replayed claim and is dead as soon as the lease forgets its nonce.

use std::fmt;

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, Proof, Supervisor, Verdict};
use baton_domain::ids::{Nonce, TaskId, TenantId};
use baton_domain::text::CLAIM_TOKEN_PREFIX;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use base62::{CHECK_DIGITS, WORD_DIGITS};

pub use key::{KEY_LENGTH, KEY_PATTERN, KeyToken};
pub use secrets::{Error, Secrets, secret_file};

mod base62;
pub(crate) mod key;
mod secrets;

/// The first byte of every token, so that a later form can be told from this one.
const KIND: u8 = 1;

/// Four words that say whose token it is, four that prove it.
const WORDS: usize = 8;

/// Characters of a token.
pub const TOKEN_LENGTH: usize = CLAIM_TOKEN_PREFIX.len() + WORDS * WORD_DIGITS + CHECK_DIGITS;

/// In whose name a holder speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The agent of a supervised attempt.
    Agent,
    /// Its supervisor.
    Supervisor,
    /// An agent without a supervisor: both.
    Solo,
}

/// Who shows it acts as the attempt. It has no `Display`, and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// What a valid token proves.
#[derive(Clone, PartialEq, Eq)]
pub struct Pass {
    /// The task whose run is held.
    pub task: TaskId,
    /// In whose name its bearer may speak.
    pub speaker: Speaker,
    attempt: u32,
    nonce: Nonce,
}

/// The token is not valid here. There is one such answer, whatever is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim token is not valid")]
pub struct Forged;

/// Mints and checks the tokens of one incarnation of a store.
#[derive(Debug)]
pub struct Keyring {
    secrets: Secrets,
    incarnation: u64,
}

impl Keyring {
    /// Tokens of other incarnations are dead.
    #[must_use]
    pub fn new(secrets: Secrets, incarnation: u64) -> Self {
        Self { secrets, incarnation }
    }

    /// Which life of the store the tokens are of.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The token of a lease for one speaker; the same lease always gives the same one.
    #[must_use]
    pub fn mint(
        &self,
        tenant: &TenantId,
        task: TaskId,
        attempt: u32,
        nonce: Nonce,
        speaker: Speaker,
    ) -> Token {
        let claims = Pass { task, speaker, attempt, nonce }.words();
        let tag: [u8; 32] = self.seal(tenant, &claims).finalize().into_bytes().into();
        let mut text = String::with_capacity(TOKEN_LENGTH);
        text.push_str(CLAIM_TOKEN_PREFIX);
        let (proof, _) = tag.as_chunks::<8>();
        for word in claims.into_iter().chain(proof.iter().copied().map(u64::from_be_bytes)) {
            base62::push(&mut text, word, WORD_DIGITS);
        }
        let check = base62::checksum(&text);
        base62::push(&mut text, u64::from(check), CHECK_DIGITS);
        Token(text)
    }

    /// A key for something else, which tells nothing about the pepper and dies with this life of the
    /// store.
    #[must_use]
    pub fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secrets.pepper())
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-derived-1");
        mac.update(&self.incarnation.to_be_bytes());
        mac.update(purpose);
        mac.finalize().into_bytes().into()
    }

    /// The same for what must outlive a restore: others keep what was made with it.
    #[must_use]
    pub fn lasting(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secrets.pepper())
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-lasting-1");
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// What receipts are signed with.
    #[must_use]
    pub fn proving(&self) -> [u8; 32] {
        self.secrets.proving()
    }

    /// A digest of some parts that tells nothing of them to whoever has not the pepper.
    #[must_use]
    pub fn fingerprint(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secrets.pepper())
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-request-1");
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// What the token proves to this tenant, if it is one of ours.
    pub fn verify(&self, token: &str, tenant: &TenantId) -> Result<Pass, Forged> {
        let words = read(token).ok_or(Forged)?;
        let (claims, proof) = words.split_at(WORDS / 2);
        let claims: [u64; 4] = claims.try_into().map_err(|_| Forged)?;
        let tag: Vec<u8> = proof.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.seal(tenant, &claims).verify_slice(&tag).map_err(|_| Forged)?;
        Pass::of(claims).ok_or(Forged)
    }

    fn seal(&self, tenant: &TenantId, claims: &[u64; 4]) -> Hmac<Sha256> {
        let name = tenant.as_str().as_bytes();
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secrets.pepper())
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-claim-1");
        mac.update(&self.incarnation.to_be_bytes());
        mac.update(&length.to_be_bytes());
        mac.update(name);
        for word in claims {
            mac.update(&word.to_be_bytes());
        }
        mac
    }
}

/// The words of a well-formed token.
fn read(token: &str) -> Option<[u64; WORDS]> {
    if token.len() != TOKEN_LENGTH || !token.is_ascii() {
        return None;
    }
    let (text, check) = token.split_at(TOKEN_LENGTH - CHECK_DIGITS);
    if base62::read(check)? != u64::from(base62::checksum(text)) {
        return None;
    }
    let digits = text.strip_prefix(CLAIM_TOKEN_PREFIX)?;
    let mut words = [0; WORDS];
    for (at, word) in words.iter_mut().enumerate() {
        *word = base62::read(&digits[at * WORD_DIGITS..(at + 1) * WORD_DIGITS])?;
    }
    Some(words)
}

impl Pass {
    fn words(&self) -> [u64; 4] {
        let head = (u64::from(KIND) << 56) | (self.speaker.code() << 48) | u64::from(self.attempt);
        let [upper, lower] = halves(self.nonce.0);
        [head, self.task.0, upper, lower]
    }

    fn of([head, task, upper, lower]: [u64; 4]) -> Option<Self> {
        let speaker = Speaker::of((head >> 48) & 0xFF)?;
        let attempt = u32::try_from(head & 0xFFFF_FFFF).ok()?;
        let nonce = Nonce((u128::from(upper) << 64) | u128::from(lower));
        let pass = Self { task: TaskId(task), speaker, attempt, nonce };
        // Whatever else the words might say, we have not written it.
        (pass.words() == [head, task, upper, lower]).then_some(pass)
    }

    /// The proof that a command carries.
    #[must_use]
    pub fn proof(&self) -> Proof {
        Proof::Token { attempt: self.attempt, nonce: self.nonce }
    }

    /// A command of the agent; a supervisor has no words for it.
    pub fn agent(&self, says: Agent) -> Result<Command, Refusal> {
        match self.speaker {
            Speaker::Agent | Speaker::Solo => Ok(Command::Agent(self.proof(), says)),
            Speaker::Supervisor => {
                Err(Refusal::NotForYou { why: "a supervisor does not speak for its agent" })
            }
        }
    }

    /// A command of the supervisor; an agent under one has no words for it.
    pub fn supervisor(&self, says: Supervisor) -> Result<Command, Refusal> {
        match self.speaker {
            Speaker::Supervisor | Speaker::Solo => Ok(Command::Supervisor(self.proof(), says)),
            Speaker::Agent => {
                Err(Refusal::NotForYou { why: "an agent does not speak for its supervisor" })
            }
        }
    }

    /// A verdict on a submission; an agent's word is never a gate.
    pub fn verdict(&self, verdict: Verdict) -> Result<Command, Refusal> {
        match self.speaker {
            Speaker::Supervisor => Ok(Command::Verifier(self.proof(), verdict)),
            Speaker::Agent | Speaker::Solo => {
                Err(Refusal::NotForYou { why: "an agent does not judge its own work" })
            }
        }
    }
}

fn halves(number: u128) -> [u64; 2] {
    let half = |bits: u128| u64::try_from(bits).expect("half of 128 bits fits 64");
    [half(number >> 64), half(number & u128::from(u64::MAX))]
}

impl Speaker {
    fn code(self) -> u64 {
        match self {
            Self::Agent => 1,
            Self::Supervisor => 2,
            Self::Solo => 3,
        }
    }

    fn of(code: u64) -> Option<Self> {
        [Self::Agent, Self::Supervisor, Self::Solo].into_iter().find(|one| one.code() == code)
    }
}

impl Token {
    /// The token itself, to be handed to its bearer once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass({} {} {:?})", self.task, self.attempt, self.speaker)
    }
}

#[cfg(test)]
mod tests;
