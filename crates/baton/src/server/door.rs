//! Who is at the door.

use std::sync::Arc;

use crate::identity::{Caller, Denied, Identity};
use crate::problem::Problem;

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

    /// Waits until its key is good no longer.
    pub async fn over(&self) -> Problem {
        self.identity.watch(&self.caller).await;
        not_valid()
    }
}

fn not_valid() -> Problem {
    Problem::new("unauthenticated", Denied::Unauthenticated.to_string())
}
