//! Keys: how a principal proves itself, and what it may then do. The rules of a key look at the
//! other keys of its tenant and at nothing else; its secret never comes here, only a digest of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{KeyName, PrincipalId};
use crate::refusal::Refusal;
use crate::scope::Scope;
use crate::text::Reason;
use crate::time::{Millis, Timestamp};

pub use decide::{admit_tenant, decide_key};

mod decide;

/// Characters of the public part of a key.
pub const KEY_ID_DIGITS: usize = 12;

/// The public part of a key: names it, and proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(Arc<str>);

/// What sort of caller a principal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A person.
    Person,
    /// An agent.
    Agent,
    /// A worker.
    Worker,
    /// A program.
    Bot,
    /// Baton itself; it never has a key.
    System,
}

/// Everything about a key that may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub id: KeyId,
    /// What people call it; no two live keys of a tenant have the same.
    pub name: KeyName,
    /// Who calls with it.
    pub principal: PrincipalId,
    pub kind: Kind,
    pub scopes: BTreeSet<Scope>,
    /// The key that it was made with; none if the operator made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<KeyId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// When and why a key was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    pub at: Timestamp,
    pub reason: Reason,
}

/// What a secret is recognised by: an HMAC of it. It has no text form, and its `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verifier(pub [u8; 32]);

/// The secrets that open a key: one, and while it is being exchanged the one before for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifiers {
    pub current: Verifier,
    pub former: Option<(Verifier, Timestamp)>,
}

/// A key with what opens it; a revoked one is opened by nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub key: Key,
    pub verifiers: Option<Verifiers>,
}

/// What may be asked of the keys of a tenant. `by` is the key that the caller showed; none is the
/// operator, whom the local socket or the command line of the server vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCommand {
    /// Make a key.
    Create(Box<NewKey>),
    /// Exchange its secret; the one before opens it for a while yet.
    Rotate { key: KeyId, by: Option<KeyId>, verifier: Verifier, overlap: Millis },
    /// Let it, and all keys that were made with it, open nothing any more.
    Revoke { key: KeyId, by: Option<KeyId>, reason: Reason },
}

/// A key to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    pub id: KeyId,
    pub name: KeyName,
    pub principal: PrincipalId,
    pub kind: Kind,
    pub scopes: BTreeSet<Scope>,
    /// The key that it is made with.
    pub by: Option<KeyId>,
    pub expires_at: Timestamp,
    pub verifier: Verifier,
    /// Only if the tenant has no live key: how the operator lets a tenant in.
    pub first: bool,
}

/// What happened to keys. No secret and no digest of one is ever told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum KeyEvent {
    /// A key was made.
    KeyCreated { key: Key },
    /// Its secret was exchanged.
    KeyRotated {
        key: KeyId,
        /// Until when the one before opens it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        former_until: Option<Timestamp>,
    },
    /// A key was revoked, and with it those that it had made.
    KeyRevoked { keys: Vec<KeyId>, reason: Reason },
}

/// What a key command may look at.
#[derive(Clone, Debug, Default)]
pub struct KeyScene {
    /// Every key of the tenant that is remembered.
    pub keys: BTreeMap<KeyId, Credential>,
    /// Whether another tenant has the id that is asked for.
    pub taken: bool,
}

/// What becomes of the keys of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRuling {
    /// The entry; if empty, nothing changed.
    pub events: Vec<KeyEvent>,
    /// Keys as they will be.
    pub written: Vec<Credential>,
    /// Dead ones that are remembered no longer.
    pub forgotten: Vec<KeyId>,
}

impl KeyId {
    /// Accepts twelve letters and digits.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if plain && text.len() == KEY_ID_DIGITS {
            return Ok(Self(text.into()));
        }
        Err(Refusal::Invalid { field: "key".into(), rule: "must be 12 letters and digits".into() })
    }

    /// The id as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Kind {
    /// Whether one of this kind may make a key for one of the other: nobody rises by it.
    #[must_use]
    pub fn may_make(self, other: Self) -> bool {
        match (self, other) {
            (_, Self::System) | (Self::System, _) => false,
            (Self::Person, _) => true,
            (Self::Bot, Self::Bot | Self::Worker | Self::Agent) => true,
            (Self::Worker, Self::Worker | Self::Agent) => true,
            (Self::Agent, Self::Agent) => true,
            (Self::Bot | Self::Worker | Self::Agent, _) => false,
        }
    }
}

impl Key {
    /// Whether it still opens anything.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && now < self.expires_at
    }
}

impl Credential {
    /// Until when a secret with this verifier opens the key; none if it does not now.
    #[must_use]
    pub fn opened_until(&self, verifier: &Verifier, now: Timestamp) -> Option<Timestamp> {
        let verifiers = self.verifiers.as_ref().filter(|_| self.key.is_live(now))?;
        let ends_at = match verifiers.former {
            Some((former, until)) if former == *verifier => until.min(self.key.expires_at),
            Some(_) | None if verifiers.current == *verifier => self.key.expires_at,
            Some(_) | None => return None,
        };
        (now < ends_at).then_some(ends_at)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Self::new(text)
    }
}

impl TryFrom<String> for KeyId {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::new(&text)
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0.to_string()
    }
}
