//! Where stores stand in these tests: on a made-up disk or in a folder, with a clock that stands
//! still and chance that repeats.

use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use baton_domain::decide;
use baton_domain::time::Timestamp;
use baton_store::clock::ManualClock;
use baton_store::order::{Committed, Order};
use baton_store::sqlite::{OpenError, Options, SqliteStore};
use baton_store::{Bell, Error, Freed, Store};
use baton_testkit::chance::Chance;
use baton_testkit::disk::Disk;
use ed25519_dalek::SigningKey;

/// Far behind any wall clock that the tests may run under, so that no file looks newer.
pub const START: Timestamp = Timestamp(4_000_000_000_000);

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

pub fn signing() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// The usual options with everything that varies made to repeat.
pub fn options(clock: &Arc<ManualClock>, seed: u64) -> Options {
    let mut chance = Chance::new(seed);
    let fill = move |bytes: &mut [u8]| {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&chance.next_u64().to_be_bytes()[..piece.len()]);
        }
    };
    let mut options = Options::new(decide, Box::new(fill), Path::new("."));
    options.clock = Some(Arc::clone(clock) as Arc<dyn baton_store::Clock>);
    options.signing = Some(signing());
    options.free_bytes = Arc::new(|| Some(u64::MAX));
    options
}

/// The folder of a made-up disk.
pub fn folder(disk: &Disk) -> PathBuf {
    disk.path("baton.db").parent().expect("a file is in a folder").to_owned()
}

pub fn open_on(disk: &Disk, mut options: Options) -> Result<SqliteStore, OpenError> {
    options.vfs = Some(disk.vfs_name().to_owned());
    SqliteStore::open(&folder(disk), options)
}

thread_local! {
    static RUNTIME: RefCell<tokio::runtime::Runtime> = RefCell::new(
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers"),
    );
}

/// Waits for an answer.
pub fn wait<T>(answer: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.borrow().block_on(answer))
}

/// Has an order carried out.
pub fn ask(store: &SqliteStore, order: Order) -> Result<Committed, Error> {
    wait(store.submit(order))
}

/// Has an order carried out that nothing speaks against.
pub fn done(store: &SqliteStore, order: Order) -> Committed {
    let told = format!("{order:?}");
    ask(store, order).unwrap_or_else(|error| panic!("{error:?} for {told}"))
}

/// Holds the writer between two batches, so that what is submitted meanwhile makes one batch.
pub struct Gate {
    shut: Arc<AtomicBool>,
    reached: Receiver<()>,
    open: SyncSender<()>,
}

impl Gate {
    /// A gate and the bell that goes through it.
    pub fn new() -> (Self, Bell) {
        let shut = Arc::new(AtomicBool::new(false));
        let (at_gate, reached) = sync_channel(1);
        let (open, opened) = sync_channel(1);
        let (is_shut, opened) = (Arc::clone(&shut), Mutex::new(opened));
        let bell = move |_: &[Freed]| {
            if is_shut.swap(false, Ordering::Relaxed) {
                at_gate.send(()).expect("the test waits at the gate");
                let opened = opened.lock().expect("one writer");
                opened.recv().expect("the test opens the gate");
            }
        };
        (Self { shut, reached, open }, Arc::new(bell))
    }

    /// Has an order carried out that frees something, and holds the writer right after it.
    pub fn shut_after(&self, store: &SqliteStore, order: Order) {
        self.shut.store(true, Ordering::Relaxed);
        drop(store.submit(order));
        self.reached.recv().expect("the writer rings after a commit that freed something");
    }

    pub fn open(&self) {
        self.open.send(()).expect("the writer waits");
    }
}
