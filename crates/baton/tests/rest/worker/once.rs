//! What is told late, or twice, or by somebody else of the same name, counts for nothing.

use baton::protocol::{Checkpoint, Down, Hello, Limit, Phase, Question, Up};

use super::{Scripted, World, alive, busy, hello, said, seen, state, stopped};

fn limit(run: &baton::protocol::Dispatch, seq: u64) -> Up {
    let account = "provider/main".parse().expect("a name");
    Limit { attempt: run.attempt, seq, account, hard: true, resets_at: None }.into()
}

async fn shut(world: &World) -> bool {
    world.shown("pools").await.to_string().contains("its provider limits it")
}

#[tokio::test]
async fn a_limit_counts_once_and_not_from_an_attempt_that_is_over() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    // One that was heard under its number says nothing new.
    worker.say(limit(&run, 1)).await;
    assert!(matches!(worker.hear().await, Some(Down::Ack(ack)) if ack.seq == 2));
    assert!(!shut(&world).await, "it was heard before");
    worker.told(stopped(run.attempt, 3)).await;
    worker.told(limit(&run, 4)).await;
    assert!(!shut(&world).await, "it comes too late");
    world.task("Two").await;
    let second = worker.dispatched().await;
    worker.told(limit(&second, 1)).await;
    assert!(shut(&world).await);
}

#[tokio::test]
async fn a_snapshot_that_comes_late_and_twice_is_kept_once() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    worker.told(stopped(run.attempt, 3)).await;
    let kept = |seq: u64, head: &str| -> Up {
        let git = [("head".parse().expect("a name"), said(head))].into();
        Checkpoint {
            attempt: run.attempt,
            seq,
            summary: None,
            git,
            session: None,
            work: None,
            log: None,
        }
        .into()
    };
    worker.told(kept(4, "4f0c9a1")).await;
    worker.told(kept(5, "77aa001")).await;
    drop(worker);
    // It did not hear that both were kept, and tells them again.
    let back = hello("box", vec![alive(&run, 5)]);
    let (mut worker, _) = Scripted::come(&world.place(), &key, back).await;
    worker.told(kept(4, "4f0c9a1")).await;
    worker.told(kept(5, "77aa001")).await;
    let page = world.shown(&format!("tasks/{task}/checkpoints")).await;
    assert_eq!(page["items"].as_array().map_or(0, Vec::len), 2, "{page}");
}

#[tokio::test]
async fn a_question_that_is_withdrawn_waits_for_nobody() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    let question = Question { attempt: run.attempt, seq: 3, id: said("q"), text: said("May I?") };
    worker.told(question.into()).await;
    assert_eq!(state(&world, &task).await, "waiting_input");
    worker.told(seen(run.attempt, 4, Phase::InputWithdrawn)).await;
    assert_eq!(state(&world, &task).await, "working");
}

#[tokio::test]
async fn another_process_of_the_same_name_is_turned_away_until_the_first_has_gone() {
    let (world, key) = busy().await;
    let of = |process: &str| Hello { process: Some(said(process)), ..hello("box", vec![]) };
    let (first, _) = Scripted::come(&world.place(), &key, of("one")).await;
    let mut second = Scripted::knock(&world.place(), &key).await.expect("it is let in");
    second.say(of("two")).await;
    assert_eq!(second.farewell().await, "name_taken");
    // The same process comes again: its connection before is dead, whatever the server thinks.
    let (again, _) = Scripted::come(&world.place(), &key, of("one")).await;
    drop((first, again));
    let third = async {
        loop {
            let mut third = Scripted::knock(&world.place(), &key).await.expect("it is let in");
            third.say(of("three")).await;
            if let Some(Down::Welcome(_)) = third.hear().await {
                return;
            }
        }
    };
    tokio::time::timeout(super::PATIENCE, third).await.expect("its place is free");
}
