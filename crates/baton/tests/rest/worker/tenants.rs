//! A worker of one tenant knows nothing of another.

use baton::protocol::{Down, Heartbeat, Phase, Side as _, ups};
use serde_json::Value;

use super::{Scripted, alive, busy, hello, seen};

/// Every frame about an attempt that is answered. What a worker says of a log is not: nobody hears it
/// if it is not of an attempt whose token it has.
const ABOUT_ATTEMPTS: [&str; 14] = [
    "lifecycle",
    "usage",
    "limit",
    "permission",
    "question",
    "bind",
    "gates",
    "checkpoint",
    "exited",
    "stopped",
    "lost",
    "released",
    "probed",
    "merged",
];

/// What the server answers to every frame there is about an attempt, as bytes.
async fn answers(worker: &mut Scripted, attempt: &str) -> Vec<String> {
    let mut heard = vec![];
    let mut seq = 0;
    for frame in ups() {
        if frame.concerns().is_none() {
            continue;
        }
        seq += 1;
        let text = baton::protocol::write(&frame.numbered(seq)).expect("a frame");
        worker.say_text(text.replace("A-128.3", attempt)).await;
        loop {
            let text = worker.hear_text().await.expect("it is answered");
            let down: Value = serde_json::from_str(&text).expect("JSON");
            let last = ["fenced", "problem"].contains(&down["frame"].as_str().unwrap_or_default());
            heard.push(text.replace(attempt, "A-X"));
            if last {
                break;
            }
        }
    }
    worker.say(Heartbeat { attempts: vec![attempt.parse().expect("an attempt")] }).await;
    loop {
        let text = worker.hear_text().await.expect("it is answered");
        let last = text.contains("\"renewed\"");
        heard.push(text.replace(attempt, "A-X"));
        if last {
            return heard;
        }
    }
}

#[tokio::test]
async fn a_foreign_attempt_looks_like_none_to_the_last_byte() {
    let (world, key) = busy().await;
    world.task("Theirs").await;
    let (mut owner, run) = world.at_work(&key).await;
    owner.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    let foreign = world.foreign_worker().await;
    let before = world.shown(&format!("tasks/{}", run.attempt.task)).await;
    // Also with the token of the attempt, should it have leaked.
    let stolen = alive(&run, 2);
    let mut unknown = stolen.clone();
    unknown.attempt = "A-999.1".parse().expect("an attempt");
    let (mut thief, welcome) =
        Scripted::come(&world.place(), &foreign, hello("box", vec![stolen, unknown])).await;
    let told: Vec<_> = welcome
        .resume
        .iter()
        .map(|one| serde_json::to_string(one).expect("JSON").replace(&one.attempt.to_string(), "X"))
        .collect();
    assert_eq!(told[0], told[1]);
    let real = answers(&mut thief, &run.attempt.to_string()).await;
    let none = answers(&mut thief, "A-999.1").await;
    assert_eq!(real, none);
    let after = world.shown(&format!("tasks/{}", run.attempt.task)).await;
    assert_eq!(before, after, "nothing happened to the task");
    owner.told(seen(run.attempt, 3, Phase::PromptWritten)).await;
}

#[tokio::test]
async fn a_worker_is_handed_work_of_its_own_tenant_alone() {
    let (world, key) = busy().await;
    let foreign = world.foreign_worker().await;
    let (mut other, _) = Scripted::come(&world.place(), &foreign, hello("box", vec![])).await;
    other.say(baton::protocol::Credit { n: 4, checks: None, merges: None }).await;
    world.until_waiting(1).await;
    world.task("Ours").await;
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    worker.dispatched().await;
    other.say(Heartbeat { attempts: vec![] }).await;
    assert!(matches!(other.hear().await, Some(Down::Renewed(_))), "and nothing before it");
}

#[test]
fn every_frame_about_an_attempt_is_tried() {
    let words: Vec<_> =
        ups().iter().filter(|up| up.concerns().is_some()).map(|up| up.word()).collect();
    assert_eq!(words, ABOUT_ATTEMPTS);
}
