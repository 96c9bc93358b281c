use std::future::Future as _;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::Account;
use baton_domain::pool::{PoolName, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::time::Millis;
use baton_store::{Aim, Error};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::code;
use super::world::{World, name, text, wish};
use crate::engine::Claimed;
use crate::metrics::Wake;
use crate::waiters::Waiters;

/// Long enough for any machine; reached only if a wake-up was lost.
const PATIENCE: Duration = Duration::from_secs(120);
const WAIT: Option<Millis> = Some(Millis::seconds(60));

type Waiting = JoinHandle<Result<Claimed, Error>>;

fn wait(world: &World, holder: &str) -> Waiting {
    let (engine, wish) = (Arc::clone(&world.engine), wish(holder, WAIT));
    tokio::spawn(async move { engine.claim(wish).await })
}

/// Lets everybody run until so many wait, and each of them has looked.
async fn until_waiting(world: &World, count: usize) {
    while world.engine.waiters().len() != count {
        tokio::task::yield_now().await;
    }
    for _ in 0..4 * count {
        tokio::task::yield_now().await;
    }
}

async fn limit(world: &World, pool: PoolName, limit: Option<u64>) {
    let limit = RecordCommand::LimitPool { pool, limit };
    world.order(Aim::Record(limit, None)).await.expect("a person may limit it");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_gets_what_comes() {
    let world = World::new().await;
    let waiting = wait(&world, "bob");
    until_waiting(&world, 1).await;
    let task = world.create("one").await;
    let claimed = waiting.await.expect("it does not panic").expect("there is one now");
    assert_eq!(claimed.attempt.task, task);
    assert_eq!(world.engine.waiters().wakes().count(Wake::Lane), 1);
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 0);
    assert!(world.engine.waiters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_long_enough_is_told_that_there_is_nothing() {
    let world = World::new().await;
    let refused = world.engine.claim(wish("bob", Some(Millis(200)))).await;
    assert_eq!(code(&refused.expect_err("there is nothing")), "nothing_claimable");
    assert!(world.engine.waiters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_a_minute() {
    let world = World::new().await;
    let long = world.engine.claim(wish("bob", Some(Millis::hours(24))));
    let refused = timeout(Duration::from_secs(61), long).await.expect("a minute is the most");
    refused.expect_err("there is nothing");
}

#[tokio::test(start_paused = true)]
async fn if_the_bell_is_lost_the_poll_finds_the_work() {
    let world = World::new().await;
    let waiting = wait(&world, "bob");
    until_waiting(&world, 1).await;
    world.flaws.mute(true);
    world.create("one").await;
    let found = timeout(Duration::from_millis(1_001), waiting).await;
    found.expect("within a second").expect("it does not panic").expect("there is one now");
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 1);
    assert_eq!(world.engine.waiters().wakes().count(Wake::Lane), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_paused_scheduler_goes_on_when_it_opens() {
    let world = World::new().await;
    let shut =
        |shut| Aim::Record(RecordCommand::ShutPool { pool: PoolName::Scheduler, shut }, None);
    let pause = Shut { reason: text("lunch"), since: world.engine.now(), until: None };
    world.order(shut(Some(pause))).await.expect("a person may pause it");
    world.create("one").await;
    let waiting = wait(&world, "bob");
    until_waiting(&world, 1).await;
    world.order(shut(None)).await.expect("a person may resume it");
    waiting.await.expect("it does not panic").expect("it is open again");
    assert_eq!(world.engine.waiters().wakes().count(Wake::Pools), 1);
}

#[tokio::test(start_paused = true)]
async fn a_holder_without_a_free_slot_leaves_the_work_to_the_next() {
    let world = World::new().await;
    limit(&world, PoolName::Holder(name("busy")), Some(1)).await;
    world.create("one").await;
    let held = world.claim("busy").await.expect("there is one");
    let busy = wait(&world, "busy");
    until_waiting(&world, 1).await;
    let free = wait(&world, "free");
    until_waiting(&world, 2).await;
    world.create("two").await;
    free.await.expect("it does not panic").expect("the busy one left it");
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 0);
    world.create("three").await;
    until_waiting(&world, 1).await;
    world.complete(&held).await.expect("it holds the run");
    busy.await.expect("it does not panic").expect("it has a free slot");
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claimer_whose_account_is_full_leaves_the_work_to_the_next() {
    let world = World::new().await;
    let acme = Account::new("acme").expect("a plain word is a name");
    limit(&world, PoolName::Account(acme.clone()), Some(1)).await;
    let by_account = |holder: &str| {
        let mut wish = wish(holder, WAIT);
        wish.claimant.account = Some(acme.clone());
        let engine = Arc::clone(&world.engine);
        tokio::spawn(async move { engine.claim(wish).await })
    };
    world.create("one").await;
    let held = by_account("first").await.expect("it does not panic").expect("there is one");
    let busy = by_account("second");
    until_waiting(&world, 1).await;
    let free = wait(&world, "free");
    until_waiting(&world, 2).await;
    world.create("two").await;
    free.await.expect("it does not panic").expect("the full account left it");
    world.create("three").await;
    until_waiting(&world, 1).await;
    world.complete(&held).await.expect("it holds the run");
    busy.await.expect("it does not panic").expect("its account has room");
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 0);
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_refused_at_once() {
    let world = World::with(Waiters::at_most(1)).await;
    let first = wait(&world, "first");
    until_waiting(&world, 1).await;
    let refused = world.engine.claim(wish("second", WAIT)).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    first.abort();
    assert!(first.await.expect_err("it was told to end").is_cancelled());
    until_waiting(&world, 0).await;
    wait(&world, "third");
    until_waiting(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn draining_answers_everybody_who_waits() {
    let world = World::new().await;
    let waiting = [wait(&world, "first"), wait(&world, "second")];
    until_waiting(&world, 2).await;
    world.engine.drain();
    for waiting in waiting {
        let told = waiting.await.expect("it does not panic");
        assert!(matches!(told, Err(Error::Stopped(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_fails_hands_its_wake_up_on() {
    let world = World::new().await;
    let first = wait(&world, "first");
    until_waiting(&world, 1).await;
    let second = wait(&world, "second");
    until_waiting(&world, 2).await;
    world.create("one").await;
    // The next look of the first one fails; nothing has run since the bell.
    world.flaws.refuse(1);
    let failed = first.await.expect("it does not panic");
    assert!(matches!(failed, Err(Error::Overloaded)));
    second.await.expect("it does not panic").expect("it was told");
    assert_eq!(world.engine.waiters().wakes().count(Wake::HandedOn), 1);
    assert_eq!(world.engine.waiters().wakes().count(Wake::Poll), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_claimers_share_many_tasks_and_no_two_hold_the_same() {
    const CLAIMERS: usize = 64;
    let world = World::new().await;
    let mut claims = JoinSet::new();
    for number in 0..CLAIMERS {
        let (engine, wish) = (Arc::clone(&world.engine), wish(&format!("agent-{number}"), WAIT));
        claims.spawn(async move { engine.claim(wish).await });
    }
    while world.flaws.orders() <= CLAIMERS {
        tokio::task::yield_now().await;
    }
    let mut held = std::collections::BTreeSet::new();
    for _ in 0..CLAIMERS {
        let task = world.create("one").await;
        let claimed = timeout(PATIENCE, claims.join_next()).await.expect("no wake-up is lost");
        let claimed = claimed.expect("somebody waits").expect("it does not panic");
        assert_eq!(claimed.expect("there is one").attempt.task, task);
        assert!(held.insert(task));
    }
    let woken = world.engine.waiters().wakes().count(Wake::Lane);
    assert_eq!(woken, u64::try_from(CLAIMERS).expect("it is small"), "one wake-up for each task");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claimers_that_give_up_at_any_moment_lose_nothing_for_the_others() {
    const TASKS: usize = 200;
    let world = Arc::new(World::new().await);
    let mut steady = JoinSet::new();
    for number in 0..TASKS {
        let (engine, wish) = (Arc::clone(&world.engine), wish(&format!("agent-{number}"), WAIT));
        steady.spawn(async move { engine.claim(wish).await });
        // One in four gives up as soon as it has begun to wait, or a little later.
        if number % 4 == 0 {
            let fickle = wait(&world, &format!("fickle-{number}"));
            for _ in 0..number % 7 {
                tokio::task::yield_now().await;
            }
            fickle.abort();
        }
    }
    for _ in 0..TASKS {
        world.create("one").await;
    }
    let mut claimed = 0;
    while claimed < TASKS {
        let next = timeout(PATIENCE, steady.join_next()).await.expect("no wake-up is lost");
        let next = next.expect("somebody waits").expect("it does not panic");
        next.expect("there is one for each");
        claimed += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_heard_of_although_its_caller_went_away() {
    let world = World::new().await;
    let mut listener = world.engine.changes().listen(&super::world::tenant()).expect("it may");
    let before = world.engine.changes().rings();
    {
        let mut asked = std::pin::pin!(world.create("one"));
        // Asked once and never again: the order is with the store, and nobody waits for it.
        std::future::poll_fn(|context| {
            let _ = asked.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    listener.heard().await.expect("it is open");
    assert!(world.engine.changes().rings() > before, "the bell rang, not the clock");
}
