//! What callers saw, and whether what the server kept agrees with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use serde_json::Value;

/// One request that was answered with success, as its caller saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which task.
    pub task: String,
    /// Words that occur in the history once if it happened once.
    pub mark: String,
    /// When the first try was sent, in the order of all sendings and answers.
    pub invoked: u64,
    /// When the answer came.
    pub returned: u64,
    /// How far the history was when it was answered.
    pub as_of: u64,
    /// Which attempt spoke; none for what a person said.
    pub attempt: Option<u64>,
}

/// What a run must have met to prove anything.
#[derive(Debug, Default)]
pub struct Met {
    pub unknown: AtomicU64,
    pub unknown_had_happened: AtomicU64,
    pub unknown_had_not: AtomicU64,
    pub fenced: AtomicU64,
}

/// Everything that all callers saw.
#[derive(Debug, Default)]
pub struct History {
    clock: AtomicU64,
    seen: Mutex<Vec<Seen>>,
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

/// Everything that is wrong.
pub fn faults(seen: &[Seen], kept: &[Kept]) -> Vec<String> {
    let mut faults = dense(kept);
    let mut places = Places::new();
    for one in seen {
        places.entry(&one.mark).or_default();
    }
    for entry in kept {
        for word in entry.text.split('"').filter(|word| word.starts_with("mark-")) {
            if let Some(places) = places.get_mut(word) {
                places.push(entry.position);
            }
        }
    }
    faults.extend(once(seen, &places));
    faults.extend(in_order(seen, &places));
    faults.extend(fenced(seen, kept, &places));
    faults.extend(one_holder(kept));
    faults
}

/// Where the words of each request are kept.
type Places<'a> = BTreeMap<&'a str, Vec<u64>>;

fn place(places: &Places<'_>, one: &Seen) -> u64 {
    places[one.mark.as_str()].first().copied().unwrap_or(0)
}

fn dense(kept: &[Kept]) -> Vec<String> {
    let gap = |pair: &&[Kept]| pair[1].position != pair[0].position + 1;
    kept.windows(2)
        .filter(gap)
        .map(|pair| format!("after {} comes {}", pair[0].position, pair[1].position))
        .collect()
}

/// What was answered is kept once, and was kept when it was answered.
fn once(seen: &[Seen], places: &Places<'_>) -> Vec<String> {
    let good = |one: &Seen| match places[one.mark.as_str()].as_slice() {
        [only] => *only <= one.as_of,
        [] | [_, _, ..] => false,
    };
    seen.iter()
        .filter(|one| !good(one))
        .map(|one| {
            let places = &places[one.mark.as_str()];
            format!("{} was answered as of {} and is kept at {places:?}", one.mark, one.as_of)
        })
        .collect()
}

/// Linearizable per task: what was answered before something was asked comes before it.
fn in_order(seen: &[Seen], places: &Places<'_>) -> Vec<String> {
    let mut of_task: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        of_task.entry(&one.task).or_default().push(one);
    }
    let mut faults = vec![];
    for requests in of_task.values() {
        for (first, second) in pairs(requests) {
            let in_time = first.returned < second.invoked;
            if in_time && place(places, first) >= place(places, second) {
                faults.push(format!("{} came before {}", first.mark, second.mark));
            }
        }
    }
    faults
}

fn pairs<'a>(all: &'a [&'a Seen]) -> impl Iterator<Item = (&'a Seen, &'a Seen)> {
    all.iter().flat_map(move |first| all.iter().map(move |second| (*first, *second)))
}

/// Nothing that an attempt said counts after its end.
fn fenced(seen: &[Seen], kept: &[Kept], places: &Places<'_>) -> Vec<String> {
    let mut ends: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for entry in kept {
        for event in entry.events.iter().filter(|event| event["event"] == "attempt_ended") {
            let attempt = event["attempt"].as_u64().unwrap_or(0);
            ends.insert((&entry.task, attempt), entry.position);
        }
    }
    let late = |one: &&Seen| {
        let end = one.attempt.and_then(|attempt| ends.get(&(one.task.as_str(), attempt)));
        end.is_some_and(|end| place(places, one) > *end)
    };
    seen.iter().filter(late).map(|one| format!("{} came after its end", one.mark)).collect()
}

/// No attempt begins before the one before it has ended.
fn one_holder(kept: &[Kept]) -> Vec<String> {
    let mut holders: BTreeMap<&str, u64> = BTreeMap::new();
    let mut faults = vec![];
    for entry in kept {
        for event in &entry.events {
            let attempt = event["attempt"].as_u64().unwrap_or(0);
            if event["event"] == "claimed"
                && let Some(other) = holders.insert(&entry.task, attempt)
            {
                faults.push(format!("{} had {other} and {attempt} at once", entry.task));
            }
            if event["event"] == "attempt_ended" {
                holders.remove(entry.task.as_str());
            }
        }
    }
    faults
}
