//! Who is at the door.

use std::sync::Arc;

use baton_domain::ids::TenantId;

use crate::identity::{self, Caller, Denied, Identity};
use crate::problem::Problem;

/// Tenants that are looked through at once.
const TENANTS_AT_ONCE: usize = 500;
/// How often: more tenants than one server has.
const TENANT_PAGES_MAX: usize = 20;

/// Somebody who was let in, as long as its key is good.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who.
    pub caller: Caller,
    identity: Arc<Identity>,
}

impl Session {
    /// Whoever shows this key.
    pub async fn open(identity: &Arc<Identity>, bearer: &str) -> Result<Self, Problem> {
        match identity.authenticate(bearer).await {
            Ok(caller) => Ok(Self { caller, identity: Arc::clone(identity) }),
            Err(Denied::Unauthenticated) => Err(not_valid()),
            Err(Denied::Unavailable(error)) => Err(error.into()),
        }
    }

    /// Whoever calls as the user that the server runs as.
    #[must_use]
    pub fn owner(identity: &Arc<Identity>) -> Self {
        Self { caller: identity.local_owner(), identity: Arc::clone(identity) }
    }

    /// The agent of the attempt that this token is of. A token does not say whose it is, so every tenant is
    /// asked. One that is nobody's opens nothing; one of an attempt that is over is told so where it is used.
    pub async fn agent(identity: &Arc<Identity>, token: &str) -> Result<Self, Problem> {
        let engine = identity.engine();
        let proves = |tenant: &TenantId| engine.keyring().verify(token, tenant).is_ok();
        let mut found = Some(identity::local()).filter(proves);
        let mut after = None;
        for _ in 0..TENANT_PAGES_MAX {
            if found.is_some() {
                break;
            }
            let page = engine.tenants(after, TENANTS_AT_ONCE).await?;
            found = page.rows.iter().find(|tenant| proves(tenant)).cloned();
            after = page.rows.last().cloned();
            if !page.more {
                break;
            }
        }
        let nobody = || {
            let detail = "the claim token is nobody's: send `Authorization: Bearer` with a key, or \
                          the token of an attempt";
            Problem::new("unauthenticated", detail).next("unset BATON_CLAIM_TOKEN")
        };
        let caller = identity.agent_of(found.ok_or_else(nobody)?);
        Ok(Self { caller, identity: Arc::clone(identity) })
    }

    /// Waits until its key is good no longer.
    pub async fn over(&self) -> Problem {
        self.identity.watch(&self.caller).await;
        not_valid()
    }
}

fn not_valid() -> Problem {
    Problem::new("unauthenticated", Denied::Unauthenticated.to_string())
}
