//! What a store tells of keys. What opens a key is told with the key itself, and never in a list.

use baton_domain::ids::TenantId;
use baton_domain::key::{Credential, Key};
use baton_domain::time::Timestamp;

/// The most keys whose use is noted at once; more are noted the next time they are used.
pub const USES_MAX: usize = 1_024;

/// A key as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The key.
    pub key: Key,
    /// When it was last used, to the minute; no history is kept of it.
    pub used_at: Option<Timestamp>,
}

/// A key that was found by its public id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFound {
    /// Whose it is.
    pub tenant: TenantId,
    /// The key, and what opens it.
    pub credential: Credential,
    /// When it was last used, to the minute.
    pub used_at: Option<Timestamp>,
}

impl KeyFound {
    /// The part that may be shown.
    #[must_use]
    pub fn row(&self) -> KeyRow {
        KeyRow { key: self.credential.key.clone(), used_at: self.used_at }
    }
}
