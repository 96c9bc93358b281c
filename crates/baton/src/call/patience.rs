//! How long somebody waits for an answer, and on whose behalf.

use std::time::Duration;

use baton_store::Error;
use tokio::time::timeout;

use crate::answered::Reply;
use crate::declaration::Declaration;
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
    /// Waits for an answer, longer where the caller may ask to wait, but not for ever, and not on behalf of a key that is good no longer.
    pub async fn within(
        &self,
        (about, waits): (&Declaration, bool),
        (over, hung_up): (impl Future<Output = Problem>, impl Future<Output = ()>),
        answer: impl Future<Output = Result<Reply, Problem>>,
    ) -> Result<Reply, Problem> {
        let bound = if waits { self.waiting } else { self.total };
        let gave_up = |why: &str| {
            if about.changes() {
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
            () = hung_up => Err(gave_up("the caller closed its side while it waited")),
            problem = over => Err(if about.changes() {
                gave_up("the key was revoked or has expired meanwhile")
            } else {
                problem
            }),
        }
    }
}

#[cfg(test)]
mod tests;
