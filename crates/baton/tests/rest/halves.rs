//! Callers that close their side once they have said everything, and callers that are gone.

use std::time::Duration;

use baton::server::Limits;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::caller::{Ask, Caller};
use crate::world::World;

impl Caller {
    /// Says that nothing more will come.
    async fn closes_its_side(&mut self) {
        self.socket.shutdown().await.expect("the socket is open");
    }
}

#[tokio::test]
async fn whoever_closes_its_side_after_a_request_is_answered() {
    let world = World::new().await;
    world.project().await;
    let create = json!({ "project": "shop", "title": "one", "body": "x".repeat(60_000) });
    let asks = [
        (world.get("/v1/projects"), 200),
        (world.post("/v1/tasks").json(&create), 201),
        (world.claim("now", &json!({})), 409),
        (world.plain(Ask::get("/health")), 200),
    ];
    for (ask, status) in asks {
        let mut caller = world.connect().await;
        caller.send(&ask).await;
        caller.closes_its_side().await;
        let answer = caller.hear().await.expect("it is answered");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(caller.is_ended().await);
    }
    let mut both = world.connect().await;
    both.send(&world.get("/v1/projects")).await;
    both.send(&world.get("/v1/tasks")).await;
    both.closes_its_side().await;
    for _ in 0..2 {
        assert_eq!(both.hear().await.expect("it is answered").status, 200);
    }
    assert!(both.is_ended().await);
}

#[tokio::test]
async fn a_body_that_ends_too_early_is_told_at_once() {
    let world = World::new().await;
    let mut caller = world.connect().await;
    let ask = world.post("/v1/tasks").with("content-type", "application/json");
    caller.send(&ask.with("content-length", "100").bytes("{\"title\":")).await;
    caller.closes_its_side().await;
    let answer = caller.hear().await.expect("it is answered");
    assert_eq!((answer.status, answer.code().as_str()), (400, "malformed"));
}

#[tokio::test]
async fn a_claim_whose_caller_is_gone_waits_for_nothing() {
    let world = World::new().await;
    world.project().await;
    for hangs_up in [true, false] {
        let mut caller = world.connect().await;
        let key = format!("claim-{hangs_up}");
        caller.send(&world.claim(&key, &json!({ "wait": "50s" }))).await;
        world.until_waiting(1).await;
        if hangs_up {
            drop(caller);
        } else {
            caller.closes_its_side().await;
            let answer = caller.hear().await.expect("it is told");
            assert_eq!((answer.status, answer.code().as_str()), (503, "unknown"));
        }
        crate::more::until(|| world.engine.waiters().is_empty()).await;
    }
    // What comes now is for whoever is there.
    let task = world.task("Something to do").await;
    let claimed = world.ask(&world.claim("mine", &json!({}))).await;
    assert_eq!(claimed.json()["task"]["id"], task.as_str(), "{claimed:?}");
}

#[tokio::test]
async fn a_wait_for_a_run_whose_caller_is_gone_waits_for_nothing() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("Something to do").await;
    for hangs_up in [true, false] {
        let mut caller = world.connect().await;
        // It waits also if nobody says how long.
        let ask = world.post(&format!("/v1/runs/{task}/wait"));
        caller.send(&ask.json(&json!({}))).await;
        world.until_listening(1).await;
        if hangs_up {
            drop(caller);
        } else {
            caller.closes_its_side().await;
            let answer = caller.hear().await.expect("it is told");
            assert_eq!((answer.status, answer.code().as_str()), (503, "unknown"));
        }
        world.until_listening(0).await;
    }
}

#[tokio::test]
async fn whoever_closes_its_side_still_gets_what_is_there_at_once() {
    let limits = Limits { hung_up: Duration::from_secs(10), ..Limits::default() };
    let world = World::with(limits).await;
    world.project().await;
    let task = world.task("Something to do").await;
    let mut caller = world.connect().await;
    caller.send(&world.claim("claim", &json!({ "wait": "50s" }))).await;
    caller.closes_its_side().await;
    let claimed = caller.hear().await.expect("it is answered");
    assert_eq!(claimed.json()["task"]["id"], task.as_str(), "{claimed:?}");
}

#[tokio::test]
async fn what_cannot_be_read_as_a_request_is_a_problem_too() {
    let world = World::new().await;
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let long = "y".repeat(100_000);
    let heads = [
        ("NONSENSE\r\n\r\n".to_owned(), 400, "malformed"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400, "malformed"),
        ("GET /\u{1} HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400, "malformed"),
        ("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_owned(), 400, "malformed"),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431, "headers_too_large"),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), 431, "headers_too_large"),
    ];
    for (head, status, code) in heads {
        let mut caller = world.connect().await;
        caller.still_takes(head.as_bytes()).await;
        let answer = caller.hear().await.expect("it is answered");
        let about = &head[..head.len().min(60)];
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{about}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.json()["certainty"], "did_not_happen");
        assert!(caller.is_ended().await);
    }
}
