//! What a worker tells, and what it is told.

use std::time::Duration;

use baton::protocol::{
    Checkpoint, Conversation, Credit, Down, Gates, Heartbeat, Lifecycle, Limit, Lost, Phase,
    Question, Released, Standing, Usage, Verdict,
};
use baton_domain::ids::Digest;
use baton_domain::run::Cap;
use baton_domain::time::Millis;
use serde_json::json;
use tokio::time::timeout;

use super::{Scripted, alive, busy, hello, said, seen, state, stopped};
use crate::more::until;

/// What has to be pushed has to be pushed within this.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_run_goes_from_dispatch_to_its_end() {
    let (world, key) = busy().await;
    let task = world.task("Let readers follow").await;
    let (mut worker, run) = world.at_work(&key).await;
    assert_eq!(run.attempt.to_string(), task.replace("T-", "A-") + ".1");
    assert_eq!((run.stage.as_str(), run.lease_ms), ("coding", 300_000));
    assert_eq!(run.deadlines.first_event, 90_000);
    let caps = run.caps.as_ref().expect("it says what may be used");
    assert_eq!((caps.turns, caps.tool_calls, caps.tokens), (200, 2_000, 20_000_000));
    assert_eq!(run.account.as_ref().map(ToString::to_string).as_deref(), Some("provider/main"));
    assert!(run.session.is_none());
    assert!(run.packet.0.text.contains("Let readers follow"), "{}", run.packet.0.text);
    for (seq, phase) in (2..).zip([
        Phase::ProcessStarted,
        Phase::PromptWritten,
        Phase::FirstEvent,
        Phase::FirstVisibleEvent,
        Phase::ToolStarted,
        Phase::ToolFinished,
    ]) {
        assert_eq!(worker.told(seen(run.attempt, seq, phase)).await.len(), 0);
    }
    assert_eq!(state(&world, &task).await, "working");
    // The agent speaks for itself, with its own token.
    let complete = world.post("/v1/runs/mine/complete").json(&json!({}));
    let token = run.agent_token.reveal();
    let done = world.ask(&complete.with("baton-claim-token", token)).await;
    assert_eq!(done.json()["state"], "stopping", "{done:?}");
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    assert!(matches!(told, Some(Down::Cancel(cancel)) if cancel.why == Verdict::Completed));
    assert_eq!(worker.told(stopped(run.attempt, 8)).await.len(), 0);
    assert_eq!(state(&world, &task).await, "completed");
    let attempt = world.shown(&format!("attempts/{}", run.attempt)).await;
    assert_eq!(attempt["death"], "pid_namespace", "{attempt}");
}

#[tokio::test]
async fn the_secret_of_a_worker_is_not_the_secret_of_its_agent() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (_worker, run) = world.at_work(&key).await;
    assert_ne!(run.token, run.agent_token);
    let heartbeat = world.post("/v1/runs/mine/heartbeat").json(&json!({}));
    let as_agent = heartbeat.with("baton-claim-token", run.agent_token.reveal());
    assert_eq!(world.ask(&as_agent).await.code(), "not_for_you");
}

#[tokio::test]
async fn a_frame_that_comes_twice_counts_once() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    let before = |events: serde_json::Value| events["items"].as_array().map_or(0, Vec::len);
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    let count = before(world.shown(&format!("events?task={task}&limit=500")).await);
    for _ in 0..3 {
        worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
        // What comes late out of order was overtaken, and is answered with how far it is.
        worker.say(seen(run.attempt, 1, Phase::PromptWritten)).await;
        assert!(matches!(worker.hear().await, Some(Down::Ack(ack)) if ack.seq == 2));
    }
    assert_eq!(before(world.shown(&format!("events?task={task}&limit=500")).await), count);
}

/// Edge case 23.
#[tokio::test]
async fn a_frame_of_attempt_1_while_attempt_2_is_active_changes_nothing() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut old, first) = world.at_work(&key).await;
    old.told(seen(first.attempt, 2, Phase::ProcessStarted)).await;
    // Its lease ends, and the pause after a failure passes, too.
    for _ in 0..90 {
        world.clock.advance(Millis::seconds(5));
        world.engine.sweep(10).await.expect("it sweeps");
    }
    let other = world.worker_key("wilma").await;
    let (mut new, second) = world.at_work(&other).await;
    assert_eq!(second.attempt.number, 2);
    new.told(seen(second.attempt, 2, Phase::ProcessStarted)).await;
    let before = world.shown(&format!("tasks/{task}")).await;
    for (seq, frame) in (3..).zip([
        seen(first.attempt, 0, Phase::ToolStarted),
        Lost { attempt: first.attempt, seq: 0, code: said("broken"), reason: said("it broke") }
            .into(),
        Released { attempt: first.attempt, seq: 0, reason: said("no more"), until: None }.into(),
    ]) {
        let frame = frame.numbered(seq);
        let told = old.told(frame).await;
        let fenced =
            |down: &Down| matches!(down, Down::Fenced(fenced) if fenced.attempt == first.attempt);
        assert!(told.iter().all(fenced), "{told:?}");
        assert!(matches!(old.hear().await, Some(Down::Fenced(_))));
    }
    let after = world.shown(&format!("tasks/{task}")).await;
    assert_eq!(before["version"], after["version"], "nothing happened to the task");
    // Proof of death, money and a snapshot still join history.
    let spent = Usage {
        attempt: first.attempt,
        seq: 6,
        total_micros: 5_000,
        input_tokens: None,
        output_tokens: None,
        cached_tokens: None,
    };
    old.told(spent.into()).await;
    let kept = Checkpoint {
        attempt: first.attempt,
        seq: 7,
        summary: Some(said("what there was")),
        git: [("head".parse().expect("a name"), said("4f0c9a1"))].into(),
        session: None,
        work: None,
        log: None,
    };
    old.told(kept.into()).await;
    old.told(stopped(first.attempt, 8)).await;
    let notes = world.shown(&format!("tasks/{task}/checkpoints")).await;
    assert_eq!(notes["items"][0]["attempt"], first.attempt.to_string(), "{notes}");
    let page = world.shown(&format!("events?task={task}&limit=500")).await.to_string();
    assert!(page.contains("death_proved") && page.contains("spent"), "{page}");
    assert_eq!(state(&world, &task).await, "working", "the second attempt goes on");
}

#[tokio::test]
async fn whoever_is_called_off_hears_of_it_within_a_second() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    let reason = json!({ "reason": "not needed" });
    world.person(&format!("/v1/runs/{}/cancel", run.run), &reason).await;
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    assert!(matches!(told, Some(Down::Cancel(cancel)) if cancel.why == Verdict::Cancelled));
    worker.told(stopped(run.attempt, 3)).await;
    assert_eq!(state(&world, &task).await, "cancelled");
}

#[tokio::test]
async fn whoever_loses_its_run_is_fenced_within_a_second() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    // Nothing has started, so the run is free at once.
    let reason = json!({ "reason": "somebody else should" });
    world.person(&format!("/v1/runs/{}/force-release", run.run), &reason).await;
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    let stops = match told {
        Some(Down::Fenced(fenced)) => fenced.attempt == run.attempt,
        Some(Down::Cancel(cancel)) => cancel.attempt == run.attempt,
        other => panic!("{other:?}"),
    };
    assert!(stops);
}

#[tokio::test]
async fn a_question_goes_up_and_its_answer_comes_down_until_it_was_given() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    let question =
        Question { attempt: run.attempt, seq: 2, id: said("q-1"), text: said("Which of the two?") };
    worker.told(question.into()).await;
    assert_eq!(state(&world, &task).await, "waiting_input");
    // Whoever watches the agent has to know that it waits, and that it does no more.
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    assert!(matches!(told, Some(Down::Stands(run)) if run.how == Standing::Waiting));
    let answer = json!({ "answer": "The second one" });
    world.person(&format!("/v1/runs/{}/answer", run.run), &answer).await;
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    assert!(matches!(told, Some(Down::Stands(run)) if run.how == Standing::Working));
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    let Some(Down::Answer(answer)) = told else { panic!("{told:?}") };
    assert_eq!((answer.id.as_str(), answer.text.as_str()), ("q-1", "The second one"));
    // Cut before it was given: whoever comes back is told again.
    drop(worker);
    let mut mine = alive(&run, 2);
    mine.question = Some(said("q-1"));
    let (mut worker, welcome) =
        Scripted::come(&world.place(), &key, hello("box", vec![mine])).await;
    assert_eq!(welcome.resume[0].stands, Some(Standing::Working));
    let told = timeout(SECOND, worker.hear()).await.expect("within a second");
    assert!(matches!(told, Some(Down::Answer(answer)) if answer.id.as_str() == "q-1"));
    worker.told(seen(run.attempt, 3, Phase::InputReceived)).await;
    let shown = world.shown(&format!("runs/{}", run.run)).await;
    assert_eq!(shown["answer"]["mark"], "applied", "{shown}");
}

#[tokio::test]
async fn a_heartbeat_renews_all_that_it_names_and_fences_the_rest() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    world.clock.advance(Millis::minutes(4));
    let never = "A-999.1".parse().expect("an attempt");
    worker.say(Heartbeat { attempts: vec![run.attempt, never] }).await;
    let (mut renewed, mut fenced) = (vec![], vec![]);
    while renewed.is_empty() {
        let down = worker.hear().await.expect("it is answered");
        if let Down::Renewed(frame) = &down {
            renewed.clone_from(&frame.leases);
        } else if let Down::Fenced(frame) = &down {
            fenced.push(frame.attempt);
        } else {
            panic!("{down:?}");
        }
    }
    assert_eq!((renewed[0].attempt, renewed[0].lease_ms), (run.attempt, 300_000));
    assert_eq!(fenced, [never]);
    let shown = world.shown(&format!("runs/{}", run.run)).await;
    assert_eq!(shown["lease"]["expires_at"], "2023-11-14T22:22:20.000Z", "{shown}");
}

/// Edge case 26.
#[tokio::test]
async fn of_two_hard_limits_the_later_reset_counts_and_a_notice_changes_nothing() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    let limit = |seq, hard, resets_at: &str| Limit {
        attempt: run.attempt,
        seq,
        account: "provider/main".parse().expect("a name"),
        hard,
        resets_at: Some(resets_at.parse().expect("a time")),
    };
    worker.told(limit(2, false, "2023-11-14T23:00:00Z").into()).await;
    assert!(world.shown("pools").await["items"].as_array().is_some_and(Vec::is_empty));
    worker.told(limit(3, true, "2023-11-14T23:00:00Z").into()).await;
    worker.told(limit(4, true, "2023-11-15T00:00:00Z").into()).await;
    worker.told(limit(5, true, "2023-11-14T23:30:00Z").into()).await;
    let pools = world.shown("pools").await;
    assert_eq!(pools["items"].as_array().map_or(0, Vec::len), 1, "{pools}");
    assert!(pools.to_string().contains("2023-11-15T00:00:00"), "{pools}");
    let foreign = Limit {
        account: "provider/other".parse().expect("a name"),
        ..limit(6, true, "2023-11-15T00:00:00Z")
    };
    worker.say(foreign).await;
    let Some(Down::Trouble(trouble)) = worker.hear().await else { panic!("it is refused") };
    assert_eq!(trouble.field.as_ref().map(|field| field.as_str()), Some("account"));
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_settled_by_a_problem_and_the_next_frame_goes_on() {
    let (world, key) = busy().await;
    world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    let gates = Gates {
        attempt: run.attempt,
        seq: 2,
        commit: None,
        environment: Digest::new(&"e3".repeat(32)).expect("a digest"),
        results: vec![],
        guarded: None,
    };
    let nameless = Lifecycle {
        attempt: run.attempt,
        seq: 3,
        phase: Phase::TimedOut,
        deadline: None,
        cap: None,
        at: None,
    };
    let capless = Lifecycle { seq: 4, phase: Phase::Exceeded, ..nameless.clone() };
    for (frame, code, seq) in [
        (gates.into(), "wrong_state", 2),
        (nameless.into(), "invalid", 3),
        (capless.into(), "invalid", 4),
    ] {
        let frame: baton::protocol::Up = frame;
        worker.say(frame).await;
        let Some(Down::Trouble(trouble)) = worker.hear().await else { panic!("it is refused") };
        assert_eq!(trouble.code.as_str(), code);
        let about = trouble.about.expect("it is about the frame");
        assert_eq!((about.attempt, about.seq), (Some(run.attempt), Some(seq)));
    }
    worker.say_text(r#"{"frame":"exited","attempt":"A-1.1","seq":"four"}"#.to_owned()).await;
    let Some(Down::Trouble(trouble)) = worker.hear().await else { panic!("it is refused") };
    assert_eq!(trouble.field.as_ref().map(|field| field.as_str()), Some("seq"));
    assert_eq!(worker.told(seen(run.attempt, 5, Phase::ProcessStarted)).await.len(), 0);
}

#[tokio::test]
async fn a_secret_in_what_an_agent_asks_is_not_kept() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    let secret = "AKIAIOSFODNN7EXAMPLQ";
    let text = format!("May I use {secret} for it?");
    let question = Question { attempt: run.attempt, seq: 2, id: said("q"), text: said(&text) };
    worker.told(question.into()).await;
    let page = world.shown(&format!("events?task={task}&limit=500")).await.to_string();
    assert!(page.contains("May I use") && !page.contains(secret), "{page}");
}

#[tokio::test]
async fn credits_bound_what_is_handed_over() {
    let (world, key) = busy().await;
    for number in 0..3 {
        world.task(&format!("Task {number}")).await;
    }
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    let first = worker.dispatched().await;
    let second = worker.dispatched().await;
    assert_ne!(first.attempt, second.attempt);
    until(|| world.engine.waiters().is_empty()).await;
    worker.told(seen(first.attempt, 1, Phase::Accepted)).await;
    let queued = world.shown("runs?state=queued").await;
    assert_eq!(queued["items"].as_array().map_or(0, Vec::len), 1, "{queued}");
}

#[tokio::test]
async fn the_next_attempt_is_handed_the_conversation_and_the_cap_that_was_reached_parks_the_run() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let (mut worker, run) = world.at_work(&key).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    let conversation = Conversation {
        program: said("claude"),
        id: said("5d2e7c1a"),
        input_tokens: 7,
        output_tokens: 5,
        cached_tokens: 3,
        cost_micros: 2,
    };
    let kept = Checkpoint {
        attempt: run.attempt,
        seq: 3,
        summary: None,
        git: [("head".parse().expect("a name"), said("4f0c9a1"))].into(),
        session: Some(conversation.clone()),
        work: None,
        log: None,
    };
    worker.told(kept.into()).await;
    let back = Released { attempt: run.attempt, seq: 4, reason: said("later"), until: None };
    worker.told(back.into()).await;
    worker.told(stopped(run.attempt, 5)).await;
    let again = loop {
        worker.say(Credit { n: 1, checks: None, merges: None }).await;
        let down = worker.hear().await.expect("it is handed the run again");
        if let Down::Dispatch(run) = down {
            break *run;
        }
        let expected = matches!(down, Down::Cancel(_) | Down::Stands(_) | Down::Ack(_));
        assert!(expected, "{down:?}");
    };
    assert_eq!(again.session.map(|session| session.line()), Some(conversation.line()));
    let text = &again.packet.0.text;
    assert!(text.contains("4f0c9a1") && !text.contains("5d2e7c1a"), "{text}");
    let progressed = worker.told(seen(again.attempt, 1, Phase::Progressed)).await;
    assert_eq!(progressed.len(), 0, "{progressed:?}");
    let reached = Lifecycle {
        attempt: again.attempt,
        seq: 2,
        phase: Phase::Exceeded,
        deadline: None,
        cap: Some(Cap::Tokens),
        at: None,
    };
    worker.told(reached.into()).await;
    worker.told(stopped(again.attempt, 3)).await;
    let shown = world.shown(&format!("tasks/{task}")).await.to_string();
    assert!(shown.contains("policy.tokens_max"), "{shown}");
}
