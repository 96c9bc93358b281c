//! Who keeps how much, and whether there may be more.

use std::collections::HashMap;

use super::{Error, Measure, Scope, Tenant};

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many blobs.
    pub blobs_max: u64,
    /// How many bytes in all of them.
    pub bytes_max: u64,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes in all of them.
    pub bytes: u64,
}

/// What all tenants keep and what is on its way to them.
///
/// Bytes on their way count against the quota from the moment they are written: otherwise many puts
/// at once could together pass it.
#[derive(Debug)]
pub(super) struct Ledger {
    tenant_quota: Quota,
    total_quota: Quota,
    tenants: HashMap<String, Account>,
    total: Account,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    stored: Usage,
    incoming: Usage,
}

impl Ledger {
    pub(super) fn new(tenant_quota: Quota, total_quota: Quota) -> Self {
        Self { tenant_quota, total_quota, tenants: HashMap::new(), total: Account::default() }
    }

    /// Sets room aside for what is about to be written.
    pub(super) fn reserve(&mut self, tenant: Tenant<'_>, room: Usage) -> Result<(), Error> {
        let account = self.tenants.get(tenant.0).copied().unwrap_or_default();
        account.admit(room, self.tenant_quota, Scope::Tenant)?;
        self.total.admit(room, self.total_quota, Scope::Total)?;
        self.change(tenant, |account| account.incoming = account.incoming.plus(room));
        Ok(())
    }

    /// Gives back room that was set aside.
    pub(super) fn release(&mut self, tenant: Tenant<'_>, room: Usage) {
        self.change(tenant, |account| account.incoming = account.incoming.minus(room));
    }

    /// Counts what was stored or found.
    pub(super) fn add(&mut self, tenant: Tenant<'_>, kept: Usage) {
        self.change(tenant, |account| account.stored = account.stored.plus(kept));
    }

    /// Counts what was removed or replaced.
    pub(super) fn remove(&mut self, tenant: Tenant<'_>, gone: Usage) {
        self.change(tenant, |account| account.stored = account.stored.minus(gone));
    }

    pub(super) fn stored(&self, tenant: Tenant<'_>) -> Usage {
        self.tenants.get(tenant.0).copied().unwrap_or_default().stored
    }

    pub(super) fn stored_in_total(&self) -> Usage {
        self.total.stored
    }

    fn change(&mut self, tenant: Tenant<'_>, change: impl Fn(&mut Account)) {
        change(&mut self.total);
        let mut account = self.tenants.remove(tenant.0).unwrap_or_default();
        change(&mut account);
        // A tenant that keeps nothing costs no memory, however many names were tried.
        if account != Account::default() {
            self.tenants.insert(tenant.0.to_owned(), account);
        }
    }
}

impl Account {
    fn admit(&self, room: Usage, quota: Quota, scope: Scope) -> Result<(), Error> {
        let wanted = self.stored.plus(self.incoming).plus(room);
        let refuse = |measure, max| Err(Error::QuotaExceeded { scope, measure, max });
        if wanted.blobs > quota.blobs_max {
            refuse(Measure::Blobs, quota.blobs_max)
        } else if wanted.bytes > quota.bytes_max {
            refuse(Measure::Bytes, quota.bytes_max)
        } else {
            Ok(())
        }
    }
}

impl Usage {
    pub(super) fn blob(bytes: u64) -> Self {
        Self { blobs: 1, bytes }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            blobs: self.blobs.saturating_add(other.blobs),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Stops at zero, because a walk that was cut short may not have counted what is now removed.
    fn minus(self, other: Self) -> Self {
        Self {
            blobs: self.blobs.saturating_sub(other.blobs),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}
