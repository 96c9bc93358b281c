//! What callers saw, and whether what the server kept agrees with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::Value;

/// One request that was answered with success, as its caller saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which task.
    pub task: String,
    /// What was asked for, and how it is found in the history.
    pub what: What,
    /// When the first try was sent, in the order of all sendings and answers.
    pub invoked: u64,
    /// When the answer came.
    pub returned: u64,
    /// How far the history was when it was answered.
    pub as_of: u64,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub enum What {
    /// A task was made under this title, which is there once if it happened once.
    Made(String),
    /// This attempt was begun.
    Claimed(u64),
    /// This attempt said these words, which are there once if it happened once.
    Said(u64, String),
}

/// An attempt that was told that it is over.
#[derive(Clone, Debug)]
pub struct Fenced {
    pub task: String,
    pub attempt: u64,
    /// When it was told.
    pub returned: u64,
}

/// What a run must have met to prove anything.
#[derive(Debug, Default)]
pub struct Met {
    pub unknown: AtomicU64,
    pub unknown_had_happened: AtomicU64,
    pub unknown_had_not: AtomicU64,
    pub unknown_claims: AtomicU64,
    pub taken_over: AtomicU64,
}

/// Everything that all callers saw.
#[derive(Debug, Default)]
pub struct History {
    clock: AtomicU64,
    seen: Mutex<Vec<Seen>>,
    fenced: Mutex<Vec<Fenced>>,
    grown: Condvar,
    starts: Mutex<u64>,
    started: Condvar,
    pub met: Met,
}

impl History {
    /// The next moment.
    pub fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Puts down what was seen.
    pub fn add(&self, seen: Seen) {
        self.seen.lock().expect("no caller panicked").push(seen);
        self.grown.notify_all();
    }

    /// Puts down that an attempt was refused.
    pub fn add_fenced(&self, fenced: Fenced) {
        self.fenced.lock().expect("no caller panicked").push(fenced);
    }

    /// Every attempt that was refused.
    pub fn fenced(&self) -> Vec<Fenced> {
        self.fenced.lock().expect("no caller panicked").clone()
    }

    /// Waits until so many more answers are there.
    pub fn wait_for_more(&self, count: u64) {
        let seen = self.seen.lock().expect("no caller panicked");
        let enough = seen.len() + usize::try_from(count).expect("a small number");
        drop(self.grown.wait_while(seen, |seen| seen.len() < enough));
    }

    /// How often the server was started.
    pub fn starts(&self) -> u64 {
        *self.starts.lock().expect("nobody panicked")
    }

    /// The server accepts requests again.
    pub fn start(&self) {
        *self.starts.lock().expect("nobody panicked") += 1;
        self.started.notify_all();
    }

    /// Waits until the server was started once more than that.
    pub fn wait_for_start_after(&self, starts: u64) {
        let now = self.starts.lock().expect("nobody panicked");
        drop(self.started.wait_while(now, |now| *now <= starts));
    }

    /// Everything that was seen.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no caller panicked").clone()
    }
}

/// One entry of the server's history.
#[derive(Clone, Debug)]
pub struct Kept {
    pub position: u64,
    pub at_ms: i64,
    pub task: String,
    pub events: Vec<Value>,
    pub text: String,
}
