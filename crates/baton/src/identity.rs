//! Who calls.

use std::collections::BTreeSet;

use baton_domain::ids::{PrincipalId, TenantId};
use baton_store::order::Kind;

/// Who calls, as the server knows it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose data.
    pub tenant: TenantId,
    /// Who.
    pub principal: PrincipalId,
    /// What sort of caller.
    pub kind: Kind,
    /// What the key allows.
    pub scopes: BTreeSet<String>,
}

impl Caller {
    /// Whether the key allows this.
    #[must_use]
    pub fn may(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }
}
