//! Postgres: a few batches in flight, each of which locks, judges in memory and commits in three
//! flushes. Any number of servers may share one database; what one answered is on its disk.

mod seam;

use std::sync::Arc;

use ed25519_dalek::SigningKey;

use crate::ruling::Judge;
use crate::{Bell, Clock, Verifier};

pub use crate::rows::Chance;

/// How a store is opened.
pub struct Options {
    /// Who decides.
    pub judge: Judge,
    /// What time it is; the database's own clock if none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where chance comes from.
    pub chance: Chance,
    /// Who is told what became claimable.
    pub bell: Bell,
    /// What seals are signed with; without it nothing is sealed.
    pub signing: Option<SigningKey>,
    /// By which a wrong pepper is known; without it any pepper will do.
    pub pepper: Option<Verifier>,
    careless: bool,
}

impl Options {
    /// The usual way.
    #[must_use]
    pub fn new(judge: Judge, chance: Chance) -> Self {
        Self {
            judge,
            clock: None,
            chance,
            bell: Arc::new(|_| {}),
            signing: None,
            pepper: None,
            careless: false,
        }
    }

    /// Accepts a cluster that does not sync what it commits, for tests whose clusters are thrown
    /// away. No setting of the program leads here.
    #[doc(hidden)]
    #[must_use]
    pub fn careless(self) -> Self {
        Self { careless: true, ..self }
    }
}

/// Why a store was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be understood. It may hold a password, so it is not repeated.
    #[error("the database address cannot be read: {0}")]
    Address(String),
    /// Nobody answers there.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
}

/// A store in a Postgres database.
pub struct PostgresStore {}

impl PostgresStore {
    /// Opens the store in a database, or makes one there.
    pub async fn open(_url: &str, _options: Options) -> Result<Self, OpenError> {
        Err(OpenError::Unreachable("the second store is being built".into()))
    }

    /// Why the store stopped by itself, if it did.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        None
    }
}
