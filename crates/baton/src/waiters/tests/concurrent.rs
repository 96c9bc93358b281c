//! Many threads at once, and no poll to help: what is freed is taken, or the test does not end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_domain::Refusal;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{claimant, held, join, ring};
use crate::metrics::Wake;
use crate::waiters::Waiters;

/// Long enough for any machine; reached only if a wake-up was lost.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Shelf {
    items: Mutex<BTreeMap<&'static str, usize>>,
    taken: AtomicUsize,
    looks: AtomicUsize,
}

impl Shelf {
    fn put(&self, stage: &'static str) {
        *self.items.lock().expect("nobody panics").entry(stage).or_default() += 1;
    }

    fn take(&self, wanted: Option<&str>) -> Option<&'static str> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let mut items = self.items.lock().expect("nobody panics");
        let fits = |stage: &&str| wanted.is_none_or(|wanted| wanted == *stage);
        let (stage, count) = items.iter_mut().find(|(stage, count)| fits(stage) && **count > 0)?;
        *count -= 1;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(stage)
    }
}

/// Waits for one item, as a claim does, without ever polling.
async fn claim(waiters: &Arc<Waiters>, shelf: &Shelf, stage: Option<&'static str>) {
    let mut ticket = join(waiters, "ann", stage);
    loop {
        ticket.look();
        tokio::task::yield_now().await;
        if let Some(found) = shelf.take(stage) {
            return ticket.found(&held(found));
        }
        ticket.found_nothing(&claimant("ann", stage), &Refusal::NothingClaimable);
        ticket.woken().await.expect("nobody closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn items_freed_one_by_one_wake_one_waiter_each() {
    const CLAIMERS: usize = 200;
    let (waiters, shelf) = (Waiters::new(), Arc::new(Shelf::default()));
    let mut claims = JoinSet::new();
    for _ in 0..CLAIMERS {
        let (waiters, shelf) = (Arc::clone(&waiters), Arc::clone(&shelf));
        claims.spawn(async move { claim(&waiters, &shelf, None).await });
    }
    // Everybody has looked once in vain before the first item comes.
    while shelf.looks.load(Ordering::Relaxed) < CLAIMERS {
        tokio::task::yield_now().await;
    }
    for _ in 0..CLAIMERS {
        shelf.put("coding");
        ring(&waiters, "coding");
        let claimed = timeout(PATIENCE, claims.join_next()).await.expect("no wake-up is lost");
        claimed.expect("somebody claimed").expect("nobody panics");
    }
    let items = u64::try_from(CLAIMERS).expect("it is a small number");
    assert_eq!(waiters.wakes().count(Wake::Lane), items);
    assert_eq!(waiters.wakes().count(Wake::HandedOn), 0);
    assert_eq!(shelf.looks.load(Ordering::Relaxed), 2 * CLAIMERS, "one look each after the first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_when_claimers_are_cancelled_at_any_moment() {
    const ITEMS: usize = 2_000;
    let (waiters, shelf) = (Waiters::new(), Arc::new(Shelf::default()));
    let mut steady = JoinSet::new();
    for number in 0..ITEMS / 4 {
        let stage = [None, Some("coding"), None, Some("qa")][number % 4];
        let (waiters, shelf) = (Arc::clone(&waiters), Arc::clone(&shelf));
        // Each claims again and again until it is told that all is taken.
        steady.spawn(async move {
            loop {
                claim(&waiters, &shelf, stage).await;
            }
        });
    }
    let fickle: Vec<_> = (0..4)
        .map(|_| {
            let (waiters, shelf) = (Arc::clone(&waiters), Arc::clone(&shelf));
            tokio::spawn(async move {
                loop {
                    // Given up after a few polls of the executor: before, while or after it looked.
                    tokio::select! {
                        biased;
                        () = claim(&waiters, &shelf, None) => {}
                        () = tokio::task::yield_now() => {}
                    }
                }
            })
        })
        .collect();
    for number in 0..ITEMS {
        let stage = ["coding", "qa"][number % 2];
        shelf.put(stage);
        ring(&waiters, stage);
        if number % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let all_taken = async {
        while shelf.taken.load(Ordering::Relaxed) < ITEMS {
            tokio::task::yield_now().await;
        }
    };
    // The fickle go first: from then on only the steady can find what was handed on.
    for fickle in fickle {
        fickle.abort();
        assert!(fickle.await.expect_err("it never ends by itself").is_cancelled());
    }
    timeout(PATIENCE, all_taken).await.expect("no wake-up is lost");
}
