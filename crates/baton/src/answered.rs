//! What an operation answers, with what is said around it.

use baton_domain::time::Timestamp;
use baton_store::{Committed, Cursor};
use serde_json::Value;

/// An answer with what is said around it.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    /// The answer itself.
    pub value: T,
    /// Up to where the events are in it: who follows from here misses nothing.
    pub as_of: Option<Cursor>,
    /// When, on the store's clock.
    pub at: Option<Timestamp>,
    /// Whether the same request had been carried out before.
    pub replayed: bool,
    /// Secrets that are shown once: printed by REST and the command line, dropped elsewhere.
    pub secrets: Vec<(&'static str, String)>,
}

impl<T> Answered<T> {
    /// What was read, and how far the events were then.
    #[must_use]
    pub fn read(value: T, as_of: Cursor) -> Self {
        Self { value, as_of: Some(as_of), at: None, replayed: false, secrets: vec![] }
    }

    /// What was carried out.
    #[must_use]
    pub fn done(value: T, committed: &Committed, incarnation: u64) -> Self {
        let as_of = committed.position.map(|position| Cursor { incarnation, position });
        let replayed = committed.replayed;
        Self { value, as_of, at: Some(committed.at), replayed, secrets: vec![] }
    }

    /// The same with another answer.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answered<U> {
        Answered {
            value: change(self.value),
            as_of: self.as_of,
            at: self.at,
            replayed: self.replayed,
            secrets: self.secrets,
        }
    }
}

/// An answer as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Reply {
    /// An object.
    pub body: Value,
    /// See [`Answered::secrets`].
    pub secrets: Vec<(&'static str, String)>,
    /// See [`Answered::replayed`].
    pub replayed: bool,
}
