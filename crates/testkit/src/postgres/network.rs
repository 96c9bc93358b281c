//! A network before a database that may begin to swallow everything, as one does whose firewall has
//! forgotten a connection: nothing arrives, and nobody is told.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::place::fresh;
use super::{Database, Disk, OWNER, PORT, socket, url};

/// Bytes that are carried at once.
const AT_ONCE: usize = 16 << 10;

/// A way to a database. It goes when this is dropped.
pub struct Network {
    home: PathBuf,
    name: String,
    state: Arc<State>,
    door: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    swallows: AtomicBool,
    ended: AtomicBool,
}

impl Network {
    /// A way that works, for now.
    ///
    /// # Panics
    /// If no socket can be made.
    #[must_use]
    pub fn before(database: &Database) -> Self {
        let home = fresh(Disk::Careless);
        let state = Arc::new(State::default());
        let listener = UnixListener::bind(socket(&home)).expect("a fresh folder is ours");
        let (to, own) = (socket(&database.home), Arc::clone(&state));
        let door = std::thread::spawn(move || {
            for near in listener.incoming() {
                if own.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(near), Ok(far)) = (near, UnixStream::connect(&to)) else { continue };
                carry_both_ways(near, far, &own);
            }
        });
        Self { home, name: database.name.clone(), state, door: Some(door) }
    }

    /// How Baton gets to the database this way.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.home, PORT, OWNER, &self.name)
    }

    /// From now on nothing arrives, either way.
    pub fn swallow(&self) {
        self.state.swallows.store(true, Ordering::SeqCst);
    }

    /// Whoever connects anew gets through again; who lost something has lost it.
    pub fn heal(&self) {
        self.state.swallows.store(false, Ordering::SeqCst);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Whoever waits for the next caller is woken by one.
        drop(UnixStream::connect(socket(&self.home)));
        drop(self.door.take().map(JoinHandle::join));
        drop(fs::remove_dir_all(&self.home));
    }
}

fn carry_both_ways(near: UnixStream, far: UnixStream, state: &Arc<State>) {
    let lost = Arc::new(AtomicBool::new(false));
    let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
    for (from, to) in [(near, far), (far_again, near_again)] {
        let (state, lost) = (Arc::clone(state), Arc::clone(&lost));
        std::thread::spawn(move || carry(from, to, &state, &lost));
    }
}

/// Carries what comes. Once something of a connection was swallowed, so is the rest.
fn carry(mut from: UnixStream, mut to: UnixStream, state: &State, lost: &AtomicBool) {
    let mut bytes = [0; AT_ONCE];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if state.swallows.load(Ordering::SeqCst) {
            lost.store(true, Ordering::SeqCst);
        }
        if !lost.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // An end that one side says is an end for both.
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
