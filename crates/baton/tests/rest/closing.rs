//! The way out: everybody is answered, nobody is taken in.

use std::sync::Arc;
use std::time::Duration;

use baton::server::Limits;
use serde_json::json;

use crate::caller::Ask;
use crate::world::World;

#[tokio::test]
async fn whoever_waits_is_answered_and_whoever_follows_is_told() {
    let limits = Limits {
        linger: Duration::from_millis(50),
        drain: Duration::from_secs(10),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    world.project().await;
    let mut waiting = world.connect().await;
    waiting.send(&world.claim("claim", &json!({ "wait": "50s" }))).await;
    let mut following = world.connect().await;
    following.send(&world.get("/v1/events").with("accept", "text/event-stream")).await;
    assert_eq!(following.head().await.expect("it begins").0, 200);
    let mut idle = world.connect().await;
    assert_eq!(idle.ask(&world.get("/v1/tasks")).await.status, 200);
    world.until_waiting(1).await;

    let server = Arc::clone(&world.server);
    let draining = tokio::spawn(async move { server.drain().await });

    let answer = waiting.hear().await.expect("it is answered");
    assert_eq!((answer.status, answer.code().as_str()), (503, "stopped"));
    assert_eq!(answer.header("retry-after"), "1");
    let mut last = None;
    while let Some(event) = following.event().await {
        last = Some(event);
    }
    let last = last.expect("it is told");
    assert_eq!((last.kind.as_str(), last.data["code"].as_str()), ("resync", Some("stopped")));
    assert!(idle.is_ended().await);
    assert!(draining.await.expect("it drains"), "everybody was answered");
    let refused = tokio::net::TcpStream::connect(world.address).await;
    assert!(refused.is_err(), "nobody is taken in any more");
}

#[tokio::test]
async fn a_server_on_its_way_out_is_not_ready_and_hands_out_no_work() {
    let limits = Limits { linger: Duration::from_secs(10), ..Limits::default() };
    let world = World::with(limits).await;
    world.project().await;
    let task = world.task("Something to do").await;
    let server = Arc::clone(&world.server);
    let draining = tokio::spawn(async move { server.drain().await });
    crate::more::until(|| world.engine.waiters().is_closed()).await;
    let health = world.ask(&world.plain(Ask::get("/health"))).await;
    assert_eq!((health.status, health.body.as_slice()), (503, b"red".as_slice()));
    let refused = world.ask(&world.claim("claim", &json!({}))).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "stopped"));
    // Everything else is still done.
    let close = json!({ "reason": "not needed" });
    let path = format!("/v1/tasks/{task}/close");
    let closed = world.ask(&world.post(&path).json(&close)).await;
    assert_ne!(closed.status, 503, "{closed:?}");
    draining.abort();
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_up_the_way_out() {
    let limits = Limits {
        linger: Duration::from_millis(10),
        drain: Duration::from_millis(100),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    let mut endless = world.connect().await;
    let ask = world.post("/v1/tasks").with("content-type", "application/json");
    endless.send(&ask.with("content-length", "10").bytes("{")).await;
    assert!(!world.server.drain().await, "somebody was not answered");
}
