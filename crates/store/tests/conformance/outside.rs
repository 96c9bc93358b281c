//! What others do to a database: a terminal that holds a row, a clock that is set, a network that
//! swallows, a standby that is away. None of it stops more than it touches.

mod clocks;
mod locks;
mod wires;

use std::sync::Arc;
use std::time::Duration;

use baton_store::{Bell, Clock, Store};
use baton_testkit::postgres::Database;

use crate::backend::{Backend, Postgres, open};
use crate::world::World;

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store that is reached by an address of its own, or that has a clock of its own.
struct Other {
    place: Postgres,
    url: String,
    clock: Option<Arc<dyn Clock>>,
    /// Whether it goes by the database's clock, whatever the world says.
    real_time: bool,
}

impl Other {
    fn at(place: Postgres) -> Self {
        let url = place.database().url();
        Self { place, url, clock: None, real_time: false }
    }
}

impl Backend for Other {
    fn is_in_order_of_time(&self) -> bool {
        self.place.is_in_order_of_time()
    }

    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        let clock = Some(self.clock.clone().unwrap_or(clock)).filter(|_| !self.real_time);
        Arc::new(open(&self.url, clock, bell, 0))
    }
}

/// Runs a case on one server, with the database at hand.
fn run(case: impl AsyncFnOnce(&World, &Database)) {
    let place = Postgres::fresh();
    let database = place.database();
    crate::run(place, async |world: &World| case(world, &database).await);
}

/// Waits for something that must come.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, coming).await.unwrap_or_else(|_| panic!("{what}: never"))
}
