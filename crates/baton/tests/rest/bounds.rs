//! Every bound: what is just within it is answered, what is just beyond gets the right problem.

use std::time::Duration;

use baton::server::Limits;
use baton::server::limits::{
    BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX, JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_LIST_MAX,
    JSON_TEXT_BYTES_MAX, REQUEST_KEY_MAX, URL_BYTES_MAX,
};
use serde_json::json;

use crate::caller::{Answer, Ask};
use crate::world::World;

/// A body that is read to its end and then refused by the check of the arguments, not by a bound.
const READ: &str = "invalid";

async fn send(world: &World, body: impl Into<Vec<u8>>) -> String {
    let ask = world.post("/v1/tasks").with("content-type", "application/json").bytes(body);
    world.ask(&ask).await.code()
}

async fn check(world: &World, body: impl Fn(usize) -> String, bound: usize) {
    assert_eq!(send(world, body(bound - 1)).await, READ, "one less than {bound}");
    assert_eq!(send(world, body(bound)).await, READ, "{bound}");
    assert_eq!(send(world, body(bound + 1)).await, "too_large", "one more than {bound}");
}

#[tokio::test]
async fn json_is_read_up_to_its_bounds_and_no_further() {
    let world = World::new().await;
    let nested = |depth: usize| {
        // The outermost object is the first level.
        format!("{{\"a\":{}1{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
    };
    check(&world, nested, JSON_DEPTH_MAX).await;
    let keys = |count: usize| {
        let keys: Vec<_> = (0..count).map(|at| format!("\"k{at}\":1")).collect();
        format!("{{{}}}", keys.join(","))
    };
    check(&world, keys, JSON_KEYS_MAX).await;
    let text = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length));
    check(&world, text, JSON_TEXT_BYTES_MAX).await;
    let key = |length: usize| format!("{{\"{}\":1}}", "x".repeat(length));
    check(&world, key, JSON_TEXT_BYTES_MAX).await;
    let list = |count: usize| format!("{{\"a\":[{}]}}", vec!["1"; count].join(","));
    check(&world, list, JSON_LIST_MAX).await;
}

#[tokio::test]
async fn a_body_has_a_size() {
    let world = World::new().await;
    let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    check(&world, padded, BODY_BYTES_MAX).await;
    let chunked = |length: usize| {
        let body = format!("{length:x}\r\n{}\r\n0\r\n\r\n", padded(length));
        let ask = world.post("/v1/tasks").with("content-type", "application/json");
        ask.with("transfer-encoding", "chunked").bytes(body)
    };
    assert_eq!(world.ask(&chunked(BODY_BYTES_MAX)).await.code(), READ);
    assert_eq!(world.ask(&chunked(BODY_BYTES_MAX + 1)).await.code(), "too_large");
}

#[tokio::test]
async fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    let world = World::new().await;
    for body in
        ["{\"a\":1,\"a\":1}", "{\"a\":{\"b\":1,\"b\":2}}", "{\"a\":[{\"b\":1,\"\\u0062\":1}]}"]
    {
        assert_eq!(send(&world, body).await, "malformed", "{body}");
    }
}

#[tokio::test]
async fn what_is_not_an_object_of_json_is_refused() {
    let world = World::new().await;
    let bodies: [&[u8]; 11] = [
        b"[]",
        b"1",
        b"null",
        b"\"a\"",
        b"{",
        b"{\"a\":1}x",
        b"{\"a\":1e999}",
        b"{'a':1}",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\\ud800\"}",
        b"{\"a\":1,}",
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(body).into_owned();
        assert_eq!(send(&world, body).await, "malformed", "{shown}");
    }
}

#[tokio::test]
async fn a_url_has_a_length() {
    let world = World::new().await;
    let ask = |length: usize| {
        let start = "/v1/tasks?project=";
        world.get(&format!("{start}{}", "x".repeat(length - start.len())))
    };
    assert_eq!(world.ask(&ask(URL_BYTES_MAX - 1)).await.code(), READ);
    assert_eq!(world.ask(&ask(URL_BYTES_MAX)).await.code(), READ);
    let refused = world.ask(&ask(URL_BYTES_MAX + 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (414, "url_too_long"));
}

#[tokio::test]
async fn headers_have_a_number_and_a_size() {
    let world = World::new().await;
    let lines = |count: usize| {
        let plain = world.get("/v1/tasks");
        let more = count - plain.headers.len();
        (0..more).fold(plain, |ask, at| ask.with(&format!("x-{at}"), "1"))
    };
    assert_eq!(world.ask(&lines(HEADERS_MAX - 1)).await.status, 200);
    assert_eq!(world.ask(&lines(HEADERS_MAX)).await.status, 200);
    let refused = world.ask(&lines(HEADERS_MAX + 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (431, "headers_too_large"));
    let bytes = |count: usize| {
        let plain = world.get("/v1/tasks");
        let there: usize =
            plain.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        plain.with("x", &"y".repeat(count - there - 5))
    };
    assert_eq!(world.ask(&bytes(HEADER_BYTES_MAX - 1)).await.status, 200);
    assert_eq!(world.ask(&bytes(HEADER_BYTES_MAX)).await.status, 200);
    let refused = world.ask(&bytes(HEADER_BYTES_MAX + 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (431, "headers_too_large"));
}

#[tokio::test]
async fn an_idempotency_key_has_a_length_and_visible_characters() {
    let world = World::new().await;
    world.project().await;
    let create = |key: &str| {
        let body = json!({ "project": "shop", "title": "Something to do" });
        world.signed(Ask::change("POST", "/v1/tasks", key, &body))
    };
    for length in [1, REQUEST_KEY_MAX - 1, REQUEST_KEY_MAX] {
        assert_eq!(world.ask(&create(&"k".repeat(length))).await.status, 201, "{length}");
    }
    for key in ["k".repeat(REQUEST_KEY_MAX + 1), String::new(), "a b".to_owned(), "ü".to_owned()] {
        let refused = world.ask(&create(&key)).await;
        assert!([400, 422].contains(&refused.status), "{key}: {refused:?}");
    }
    let keyless = create("x").without("idempotency-key");
    assert_eq!(world.ask(&keyless).await.code(), "malformed");
}

fn short() -> Limits {
    Limits {
        head: Duration::from_millis(300),
        body: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_is_cut_and_nobody_else_waits_for_it() {
    let world = World::with(short()).await;
    let mut slow = world.connect().await;
    slow.say(b"GET /health HTTP/1.1\r\nhost: ").await;
    assert_eq!(world.ask(&world.get("/v1/tasks")).await.status, 200);
    assert!(slow.is_ended().await, "no dribble keeps it open");
}

#[tokio::test]
async fn bytes_that_come_one_by_one_do_not_move_the_deadline_of_a_head() {
    let world = World::with(short()).await;
    let mut slow = world.connect().await;
    slow.say(b"GET /health HTTP/1.1\r\nx: ").await;
    // Each byte waits for an answer to somebody else, so that time passes without a clock here.
    let mut bytes = 0;
    while slow.still_takes(b"y").await {
        bytes += 1;
        assert_eq!(world.ask(&world.get("/v1/tasks")).await.status, 200);
        assert!(bytes < 100_000, "it would go on for ever");
    }
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused() {
    let world = World::with(short()).await;
    let ask = world.post("/v1/tasks").with("content-type", "application/json");
    let mut slow = world.connect().await;
    let refused = slow.ask(&ask.with("content-length", "10").bytes("{")).await;
    assert_eq!((refused.status, refused.code().as_str()), (408, "too_slow"));
    assert_eq!(refused.header("retry-after"), "1");
}

#[tokio::test]
async fn an_idle_connection_is_closed_later_than_a_slow_one() {
    let limits = Limits { idle: Duration::from_millis(600), ..short() };
    let world = World::with(limits).await;
    let mut idle = world.connect().await;
    assert_eq!(idle.ask(&world.get("/v1/tasks")).await.status, 200);
    let mut slow = world.connect().await;
    slow.say(b"GET /health HTTP/1.1\r\n").await;
    tokio::select! {
        biased;
        ended = slow.is_ended() => assert!(ended),
        _ = idle.is_ended() => panic!("the idle one was closed first"),
    }
    assert!(idle.is_ended().await);
}

#[tokio::test]
async fn connections_have_a_number_and_the_next_one_is_told() {
    let world = World::with(Limits { connections_max: 3, ..Limits::default() }).await;
    let mut held = vec![];
    for _ in 0..3 {
        let mut caller = world.connect().await;
        assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
        held.push(caller);
    }
    let refused = world.connect().await.hear().await.expect("it is told");
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    held.pop();
    let mut answer = Answer { status: 0, headers: [].into(), body: vec![] };
    for _ in 0..10_000 {
        // The place is free once the server has seen the connection end.
        answer = world.ask(&world.get("/v1/tasks")).await;
        if answer.status == 200 {
            break;
        }
    }
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn requests_of_one_key_have_a_number_and_other_keys_go_on() {
    let world = World::with(Limits { per_key_max: 2, ..Limits::default() }).await;
    world.project().await;
    let mut waiting = vec![];
    for at in 0..2 {
        let ask = world.claim(&format!("claim-{at}"), &json!({ "wait": "30s" }));
        let mut caller = world.connect().await;
        caller.send(&ask).await;
        waiting.push(caller);
    }
    world.until_waiting(2).await;
    let refused = world.ask(&world.get("/v1/tasks")).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"));
    assert_eq!(refused.header("retry-after"), "1");
    let other = world.other_key().await;
    let ask = world.plain(Ask::get("/v1/tasks")).with("authorization", &format!("Bearer {other}"));
    assert_eq!(world.ask(&ask).await.status, 200);
}
