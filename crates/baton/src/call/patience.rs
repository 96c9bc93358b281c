//! How long somebody waits for an answer, and on whose behalf.

use std::time::Duration;

use baton_store::Error;
use tokio::time::timeout;

use crate::operation::{Entry, Reply};
use crate::problem::Problem;

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the answer to be found.
    pub total: Duration,
    /// The same where the caller asked to wait.
    pub waiting: Duration,
}

impl Patience {
    /// Waits for an answer, but not for ever, and not on behalf of a key that is good no longer.
    pub async fn within(
        &self,
        entry: &Entry,
        over: impl Future<Output = Problem>,
        answer: impl Future<Output = Result<Reply, Problem>>,
    ) -> Result<Reply, Problem> {
        let waits = entry.arguments.field("wait").is_some();
        let bound = if waits { self.waiting } else { self.total };
        let gave_up = |why: &str| {
            if entry.about.changes() {
                Problem::from(Error::Unknown(why.into()))
            } else {
                Problem::new("overloaded", why)
            }
        };
        tokio::select! {
            biased;
            answer = timeout(bound, answer) => match answer {
                Ok(answer) => answer,
                Err(_) => Err(gave_up("it took too long")),
            },
            problem = over => Err(if entry.about.changes() {
                gave_up("the key was revoked or has expired meanwhile")
            } else {
                problem
            }),
        }
    }
}

#[cfg(test)]
mod tests;
