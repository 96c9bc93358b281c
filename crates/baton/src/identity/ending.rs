//! The end of all keys at once, for a database from the past: nobody knows which of them were
//! revoked since.

use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::ids::TenantId;
use baton_domain::key::{KeyCommand, KeyId};
use baton_domain::text::Reason;
use baton_store::Error;

use super::{How, Identity, order};

/// Rows that are read at once.
const PAGE: usize = 100;

impl Identity {
    /// Revokes every live key of every tenant; says how many were.
    pub async fn revoke_all(self: &Arc<Self>, how: &How, reason: &Reason) -> Result<usize, Error> {
        let mut revoked = 0;
        let mut after: Option<TenantId> = None;
        loop {
            let tenants = self.engine.tenants(after.take(), PAGE).await?;
            for tenant in &tenants.rows {
                revoked += self.revoke_all_of(tenant, how, reason).await?;
            }
            after = tenants.rows.last().filter(|_| tenants.more).cloned();
            if after.is_none() {
                return Ok(revoked);
            }
        }
    }

    async fn revoke_all_of(
        self: &Arc<Self>,
        tenant: &TenantId,
        how: &How,
        reason: &Reason,
    ) -> Result<usize, Error> {
        let (mut revoked, operator) = (0, self.local_owner());
        let mut after: Option<KeyId> = None;
        loop {
            let page = self.engine.keys(tenant, after.take(), PAGE).await?;
            let now = self.engine.now();
            for row in page.rows.iter().filter(|row| row.key.is_live(now)) {
                let (key, reason) = (row.key.id.clone(), reason.clone());
                let revoke = KeyCommand::Revoke { key, by: None, reason };
                revoked += 1;
                match self.change(order(tenant, &operator, how.clone(), revoke)).await {
                    // It has gone with the one that made it.
                    Ok(_) | Err(Error::Refused(Refusal::KeyEnded)) => {}
                    Err(error) => return Err(error),
                }
            }
            after = page.rows.last().filter(|_| page.more).map(|row| row.key.id.clone());
            if after.is_none() {
                return Ok(revoked);
            }
        }
    }
}
