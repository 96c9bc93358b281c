//! The stores under test.

mod postgres;

use std::sync::Arc;

use baton_domain::decide;
use baton_store::chain::SigningKey;
use baton_store::memory::MemoryStore;
use baton_store::sqlite::{Options, SqliteStore};
use baton_store::{Bell, Clock, Store};

pub use postgres::{Postgres, open};

/// A place where one store can be; every case gets a fresh one.
pub trait Backend: Send + Sync + 'static {
    /// Opens the store at this place.
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store>;

    /// Closes the store and opens it again, as after a restart.
    fn reopen(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        drop(store);
        self.open(clock, bell)
    }

    /// Whether all entries of a tenant stand in the order of their times. Where several batches are on
    /// their way at once, only those of one task do.
    fn is_in_order_of_time(&self) -> bool {
        true
    }
}

/// The model.
pub struct Memory;

impl Backend for Memory {
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(decide, clock, bell))
    }

    /// A memory has nothing to come back from: it stays open.
    fn reopen(&self, store: Arc<dyn Store>, _: Arc<dyn Clock>, _: Bell) -> Arc<dyn Store> {
        store
    }
}

/// A folder that vanishes with the case.
pub struct Sqlite(tempfile::TempDir);

impl Sqlite {
    pub fn fresh() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder is to be had"))
    }
}

impl Backend for Sqlite {
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        let folder = self.0.path().join("home");
        // Salts need not be random here, and must not be equal.
        let mut salt = 0_u8;
        let chance = move |bytes: &mut [u8]| {
            for byte in bytes {
                salt = salt.wrapping_add(37);
                *byte = salt;
            }
        };
        let mut options = Options::new(decide, Box::new(chance), &folder);
        options.clock = Some(clock);
        options.bell = bell;
        options.signing = Some(SigningKey::from_bytes(&[7; 32]));
        Arc::new(SqliteStore::open(&folder, options).expect("a fresh folder opens"))
    }
}
