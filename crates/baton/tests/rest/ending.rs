//! Nothing waits for ever: keys that end, readers and callers that are too slow.

use std::time::Duration;

use baton::server::Limits;
use baton_domain::key::Kind;
use baton_domain::limits::KEY_LIFETIME_MAX;
use baton_domain::time::Millis;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::caller::{Ask, Caller, PATIENCE};
use crate::world::World;

/// What a key that ended has to be told within.
const SECOND: Duration = Duration::from_secs(1);

/// A stream and a waiting claim of one key.
async fn waiting(world: &World, key: &str) -> (Caller, Caller) {
    let bearer = format!("Bearer {key}");
    let stream = world.plain(Ask::get("/v1/events")).with("accept", "text/event-stream");
    let mut following = world.connect().await;
    following.send(&stream.with("authorization", &bearer)).await;
    assert_eq!(following.head().await.expect("it begins").0, 200);
    let claim = Ask::change("POST", "/v1/runs/claim", "claim", &json!({ "wait": "50s" }));
    let mut claiming = world.connect().await;
    claiming.send(&world.plain(claim).with("authorization", &bearer)).await;
    world.until_waiting(1).await;
    (following, claiming)
}

async fn both_are_told(mut following: Caller, mut claiming: Caller) {
    let told = timeout(SECOND, async {
        let mut last = None;
        while let Some(event) = following.event().await {
            last = Some(event);
        }
        (last.expect("it is told"), claiming.hear().await.expect("it is answered"))
    });
    let (event, answer) = told.await.expect("within a second");
    assert_eq!((event.kind.as_str(), &event.data["code"]), ("resync", &json!("unauthenticated")));
    assert_eq!((answer.status, answer.code().as_str()), (503, "unknown"));
}

#[tokio::test]
async fn streams_and_waiting_claims_of_a_revoked_key_end_within_a_second() {
    let world = World::new().await;
    let (id, key) = world.make_key("bea", Kind::Agent, "agent").await;
    let (following, claiming) = waiting(&world, &key).await;
    world.revoke(&id).await;
    both_are_told(following, claiming).await;
}

#[tokio::test]
async fn streams_and_waiting_claims_of_an_expired_key_end_within_a_second() {
    let world = World::new().await;
    let (_, key) = world.make_key("bea", Kind::Agent, "agent").await;
    let (following, claiming) = waiting(&world, &key).await;
    world.clock.advance(Millis(KEY_LIFETIME_MAX.0));
    both_are_told(following, claiming).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_told_to_begin_again_after_the_last_event_it_was_told() {
    let slow = Duration::from_millis(200);
    let world = World::with(Limits { slow, farewell: PATIENCE, ..Limits::default() }).await;
    world.project().await;
    let mut stalled = world.connect().await;
    stalled.send(&world.get("/v1/events").with("accept", "text/event-stream")).await;
    assert_eq!(stalled.head().await.expect("it begins").0, 200);
    world.until_listening(1).await;
    let body = "x".repeat(60_000);
    let mut made = 0;
    while world.engine.changes().len() == 1 {
        let text = json!({ "project": "shop", "title": "large", "body": body });
        assert_eq!(world.ask(&world.post("/v1/tasks").json(&text)).await.status, 201);
        made += 1;
        assert!(made < 2_000, "nobody minds");
    }
    // It reads on, a little too late.
    let (mut last, mut told) = (String::new(), None);
    while let Some(event) = stalled.event().await {
        if event.kind == "resync" {
            told = Some(event.data);
        } else {
            assert!(told.is_none(), "the word to begin again is the last one");
            last = event.id;
        }
    }
    let told = told.expect("it is told");
    assert_eq!((&told["code"], &told["after"]), (&json!("too_slow"), &Value::from(last.clone())));
    // Whoever begins again there misses nothing.
    let rest = world.ask(&world.get(&format!("/v1/events?limit=1&after={last}"))).await.json();
    let number = |cursor: &Value| -> u64 {
        let cursor = cursor.as_str().unwrap_or_default();
        let digits = cursor.rsplit(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).expect("a cursor ends with its place")
    };
    assert_eq!(number(&rest["items"][0]["cursor"]), number(&Value::from(last)) + 1);
}

#[tokio::test]
async fn whoever_asks_and_does_not_read_the_answers_is_cut() {
    let write = Duration::from_millis(100);
    let world = World::with(Limits { write, ..Limits::default() }).await;
    let mut caller = world.connect().await;
    let ask = world.get("/v1/openapi.json");
    let cut = timeout(PATIENCE, async {
        let lines: String =
            ask.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let words = format!("GET {} HTTP/1.1\r\n{lines}\r\n", ask.target);
        while caller.still_takes(words.as_bytes()).await {}
    });
    cut.await.expect("it is cut");
}

#[tokio::test]
async fn a_wait_that_is_too_long_for_the_server_is_told_as_unknown() {
    let waiting = Duration::from_millis(100);
    let world = World::with(Limits { waiting, ..Limits::default() }).await;
    world.project().await;
    let answer = world.ask(&world.claim("claim", &json!({ "wait": "50s" }))).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "unknown"));
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn whoever_forces_too_often_is_told_when_to_come_back() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("held").await;
    let path = format!("/v1/runs/{task}/force-release");
    let force = |key: String| {
        let why = json!({ "reason": "again" });
        world.signed(Ask::change("POST", &path, &key, &why))
    };
    for number in 0..3 {
        let claimed = world.ask(&world.claim(&format!("claim-{number}"), &json!({}))).await;
        assert_eq!(claimed.status, 201, "{claimed:?}");
        let first = world.ask(&force(format!("force-{number}"))).await;
        assert_eq!(first.status, 200, "{first:?}");
        // A repeated one is the same one, however often.
        for _ in 0..3 {
            let again = world.ask(&force(format!("force-{number}"))).await;
            assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        }
        world.clock.advance(Millis::seconds(5));
    }
    let refused = world.ask(&force("force-3".into())).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"));
    assert_eq!(refused.header("retry-after"), "45");
    let again = world.ask(&force("force-2".into())).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
}
