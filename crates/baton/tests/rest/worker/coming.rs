//! Workers that come, are cut, and come again.

use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{Credit, Down, Phase, Verdict};
use baton::server::Limits;
use baton_domain::time::Millis;
use serde_json::json;

use super::{Scripted, alive, busy, hello, seen, state, stopped};
use crate::world::World;

#[tokio::test]
async fn whoever_is_back_within_its_lease_goes_on_where_it_was() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    worker.told(seen(run.attempt, 3, Phase::PromptWritten)).await;
    drop(worker);
    let before = world.shown(&format!("tasks/{task}")).await;
    world.clock.advance(Millis::minutes(4));
    assert_eq!(world.shown(&format!("tasks/{task}")).await["version"], before["version"]);
    // What it had sent and not heard of is sent again.
    let (mut worker, welcome) =
        Scripted::come(&world.place(), &key, hello("box", vec![alive(&run, 5)])).await;
    let stands = &welcome.resume[0];
    assert_eq!((stands.attempt, stands.applied_seq), (run.attempt, 3));
    assert_eq!(
        (stands.lease_ms, stands.stop, stands.fenced.is_none()),
        (Some(300_000), None, true)
    );
    for seq in 3..=5 {
        worker.told(seen(run.attempt, seq, Phase::FirstEvent)).await;
    }
    worker.told(stopped(run.attempt, 6)).await;
    assert_eq!(state(&world, &task).await, "queued", "it ended without a word, and is tried again");
}

#[tokio::test]
async fn whoever_is_back_too_late_is_fenced_and_may_still_prove_death() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    drop(worker);
    for _ in 0..70 {
        world.clock.advance(Millis::seconds(5));
        world.engine.sweep(10).await.expect("it sweeps");
    }
    let (mut worker, welcome) =
        Scripted::come(&world.place(), &key, hello("box", vec![alive(&run, 3)])).await;
    let code = welcome.resume[0].fenced.as_ref().map(|code| code.as_str().to_owned());
    assert_eq!((code.as_deref(), welcome.resume[0].applied_seq), (Some("lease_lost"), 0));
    worker.told(stopped(run.attempt, 3)).await;
    let page = world.shown(&format!("events?task={task}&limit=500")).await.to_string();
    assert!(page.contains("death_proved"), "{page}");
}

#[tokio::test]
async fn whoever_comes_back_hears_that_its_run_was_called_off_meanwhile() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    drop(worker);
    let reason = json!({ "reason": "not needed" });
    world.person(&format!("/v1/runs/{}/cancel", run.run), &reason).await;
    let (_worker, welcome) =
        Scripted::come(&world.place(), &key, hello("box", vec![alive(&run, 2)])).await;
    assert_eq!(welcome.resume[0].stop, Some(Verdict::Cancelled));
}

#[tokio::test]
async fn a_run_that_never_reached_its_worker_is_given_back_when_the_worker_comes_without_it() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    worker.dispatched().await;
    drop(worker);
    // Another machine with the same key has nothing to do with it.
    let (_other, _) = Scripted::come(&world.place(), &key, hello("elsewhere", vec![])).await;
    assert_eq!(state(&world, &task).await, "leased");
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    assert_eq!(state(&world, &task).await, "queued");
    assert_eq!(worker.dispatched().await.attempt.number, 2);
}

#[tokio::test]
async fn a_worker_that_comes_twice_is_one_worker() {
    let (world, key) = busy().await;
    let (mut first, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    first.say(Credit { n: 4, checks: None, merges: None }).await;
    world.until_waiting(1).await;
    let (mut second, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    assert_eq!(first.farewell().await, "stopped");
    world.task("One").await;
    assert_eq!(second.dispatched().await.attempt.number, 1, "nobody claims for the first");
}

#[tokio::test]
async fn the_first_word_is_hello_in_a_protocol_that_both_speak() {
    let limits = Limits { hello: Duration::from_millis(100), ..Limits::default() };
    let world = World::with(limits).await;
    let key = world.worker_key("wendy").await;
    let mut silent = Scripted::knock(&world.place(), &key).await.expect("it is let in");
    assert_eq!(silent.farewell().await, "too_slow");
    let mut rude = Scripted::knock(&world.place(), &key).await.expect("it is let in");
    rude.say(Credit { n: 1, checks: None, merges: None }).await;
    assert_eq!(rude.farewell().await, "malformed");
    let mut late = Scripted::knock(&world.place(), &key).await.expect("it is let in");
    let mut greeting = hello("box", vec![]);
    greeting.protocol = 2;
    late.say(greeting).await;
    assert_eq!(late.farewell().await, "invalid");
    let mut lost = Scripted::knock(&world.place(), &key).await.expect("it is let in");
    let mut greeting = hello("box", vec![]);
    greeting.deployment = Some("d-elsewhere".parse().expect("a name"));
    lost.say(greeting).await;
    assert_eq!(lost.farewell().await, "wrong_place");
}

#[tokio::test]
async fn a_server_that_drains_says_so_and_takes_reports_to_the_end() {
    let limits = Limits {
        linger: Duration::from_secs(2),
        drain: Duration::from_secs(10),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    world.project().await;
    let key = world.worker_key("wendy").await;
    world.task("One").await;
    world.task("Two").await;
    let (mut worker, run) = world.at_work(&key).await;
    let server = Arc::clone(&world.server);
    let draining = tokio::spawn(async move { server.drain().await });
    assert!(matches!(worker.hear().await, Some(Down::Drain(_))));
    worker.say(Credit { n: 1, checks: None, merges: None }).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    assert_eq!(worker.farewell().await, "stopped");
    assert!(draining.await.expect("it drains"), "everybody has gone");
}

#[tokio::test]
async fn a_connection_that_answers_lives_no_longer_than_a_day() {
    let limits = Limits {
        ping: Duration::from_millis(50),
        pong: Duration::from_secs(5),
        life: Duration::from_millis(400),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    let key = world.worker_key("wendy").await;
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    // It answers by itself while it listens.
    assert_eq!(worker.farewell().await, "stopped");
}
