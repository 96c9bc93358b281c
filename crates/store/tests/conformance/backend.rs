//! The stores under test.

use std::sync::Arc;

use baton_domain::decide;
use baton_store::memory::MemoryStore;
use baton_store::{Bell, Clock, Store};

/// A place where one store can be; every case gets a fresh one.
pub trait Backend: Send + Sync + 'static {
    /// Opens the store at this place.
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store>;

    /// Closes the store and opens it again, as after a restart.
    fn reopen(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        drop(store);
        self.open(clock, bell)
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
