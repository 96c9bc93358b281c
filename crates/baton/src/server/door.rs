//! Who is at the door.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::identity::Caller;
use crate::problem::Problem;

/// Somebody who was let in, as long as its key is good.
#[derive(Clone, Debug)]
pub struct Session {
    pub caller: Caller,
    pub key: Option<String>,
}

impl Session {
    /// Waits until the key is good no longer.
    pub async fn over(&self) -> Problem {
        std::future::pending().await
    }
}

/// Lets in who proves itself.
#[derive(Debug, Default)]
pub struct Door {
    pub keys: Mutex<BTreeMap<String, Caller>>,
    pub owner: Option<Caller>,
}

impl Door {
    pub async fn open(&self, bearer: &str) -> Result<Session, Problem> {
        let keys = self.keys.lock().expect("x");
        let caller = keys
            .get(bearer)
            .cloned()
            .ok_or_else(|| Problem::new("unauthenticated", "the key is not known"))?;
        Ok(Session { caller, key: Some(bearer.into()) })
    }
    pub fn owner(&self) -> Session {
        Session { caller: self.owner.clone().expect("x"), key: None }
    }
}
