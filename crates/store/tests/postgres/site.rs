//! Where stores stand in these tests: in databases that are thrown away, with chance that repeats.

use std::sync::OnceLock;

use baton_domain::decide;
use baton_store::order::{Committed, Order};
use baton_store::postgres::{OpenError, Options, PostgresStore};
use baton_store::{Chance, Error, Store};
use tokio::runtime::Runtime;

/// Waits for something on a runtime that belongs to no test.
pub fn wait<T>(begun: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("threads are to be had")
    });
    runtime.block_on(begun)
}

/// Chance that repeats, from a seed.
pub fn chance(seed: u8) -> Chance {
    let mut next = seed;
    Box::new(move |bytes| {
        for byte in bytes {
            next = next.wrapping_mul(37).wrapping_add(11);
            *byte = next;
        }
    })
}

pub fn options(seed: u8) -> Options {
    Options::new(decide, chance(seed))
}

pub fn open(url: &str, options: Options) -> Result<PostgresStore, OpenError> {
    wait(PostgresStore::open(url, options))
}

/// Opens what should open.
pub fn opened(url: &str, seed: u8) -> PostgresStore {
    open(url, options(seed)).unwrap_or_else(|error| panic!("it opens: {error}"))
}

/// Why it does not open.
pub fn refused(url: &str, options: Options) -> OpenError {
    match open(url, options) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

pub fn close(store: PostgresStore) {
    wait(store.close());
}

/// Has an order carried out.
pub fn ask(store: &PostgresStore, order: Order) -> Result<Committed, Error> {
    wait(store.submit(order))
}

/// Has an order carried out that nothing speaks against.
pub fn done(store: &PostgresStore, order: Order) -> Committed {
    let told = format!("{order:?}");
    ask(store, order).unwrap_or_else(|error| panic!("{error:?} for {told}"))
}
