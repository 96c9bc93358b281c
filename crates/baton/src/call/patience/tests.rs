use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::operation::Entry;
use crate::operations;
use crate::server::Limits;

fn entry(noun: &str, verb: &str) -> &'static Entry {
    let same = |entry: &&Entry| (entry.about.noun, entry.about.verb) == (noun, verb);
    operations::all().iter().find(same).expect("it is in the table")
}

/// What becomes of an answer that never comes, and after how long.
async fn check(noun: &str, verb: &str, after: Duration, code: &str) {
    let patience = Limits::default().patience();
    let mut answer =
        pin!(patience.within(entry(noun, verb).patience(), (pending(), pending()), pending()));
    let early = timeout(after - Duration::from_millis(10), answer.as_mut()).await;
    assert!(early.is_err(), "{noun} {verb}: it is given up too early");
    let told = timeout(Duration::from_millis(20), answer).await.expect("by then it is given up");
    assert_eq!(told.expect_err("it never comes").code(), code, "{noun} {verb}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_given_up_after_thirty_seconds() {
    let bound = Duration::from_secs(30);
    check("task", "list", bound, "overloaded").await;
    // Nobody knows whether it happened.
    check("task", "create", bound, "unknown").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_to_wait_is_given_the_longest_wait_and_a_little_more() {
    let bound = Duration::from_secs(65);
    check("run", "claim", bound, "unknown").await;
    check("run", "wait", bound, "unknown").await;
}
