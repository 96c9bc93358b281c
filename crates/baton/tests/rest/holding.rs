//! What a server holds on to: nothing of whoever has come and gone.

use serde_json::json;

use crate::caller::{Ask, Caller};
use crate::serving::{Serving, command, folder, ready};

/// Streams at once: two rounds of them are fewer than one key may have.
const READERS: usize = 30;
/// Requests of every sort in one round.
const REQUESTS: usize = 20;
/// Rounds until everything that is kept for good is there, and after that.
const ROUNDS_BEFORE: usize = 3;
const ROUNDS_AFTER: usize = 8;
/// What all rounds after the first ones may add: buffers that lie elsewhere than before. A single
/// body of each round that were kept would be more.
const GROWN_KILOBYTES_MAX: u64 = 6 << 10;

/// What it has in memory.
fn resident_kilobytes(serving: &Serving) -> u64 {
    let status = format!("/proc/{}/status", serving.child.id());
    let status = std::fs::read_to_string(status).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has some");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Requests of every sort that there are: granted, refused, too large, too deep, and never ended.
fn asks(serving: &Serving) -> Vec<Ask> {
    let task = json!({ "project": "nowhere", "title": "a goal", "body": "x".repeat(60_000) });
    let post = || {
        let ask = Ask { method: "POST".into(), ..serving.get("/v1/tasks") };
        ask.with("idempotency-key", "the-same")
    };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let long = json!({ "title": "x".repeat(900_000) }).to_string();
    vec![
        serving.get("/v1/tasks"),
        serving.get("/v1/events?limit=500"),
        serving.get("/v1/nothing"),
        serving.get(&format!("/v1/tasks?text={}", "x".repeat(7_000))),
        post().json(&task),
        post().with("content-type", "application/json").bytes(deep),
        post().with("content-type", "application/json").bytes(long),
        serving.get("/v1/tasks").without("authorization"),
    ]
}

async fn come_and_go(serving: &Serving) {
    let mut readers: Vec<Caller> = vec![];
    for _ in 0..READERS {
        let mut reader = serving.connect().await;
        reader.send(&serving.get("/v1/events").with("accept", "text/event-stream")).await;
        let (status, _) = reader.head().await.expect("it begins");
        assert_eq!(status, 200);
        readers.push(reader);
    }
    let asks = asks(serving);
    let mut caller = serving.connect().await;
    for ask in asks.iter().cycle().take(REQUESTS * asks.len()) {
        let answer = caller.ask(ask).await;
        assert!(answer.status < 500, "{answer:?}");
        // What is refused by its head alone ends the connection.
        if answer.header("connection") == "close" {
            caller = serving.connect().await;
        }
    }
    for _ in 0..READERS {
        let mut half = serving.connect().await;
        half.say(b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\nx: ")
            .await;
        readers.push(half);
    }
}

#[tokio::test]
async fn whoever_comes_and_goes_leaves_the_server_as_large_as_it_was() {
    let folder = folder();
    let free = ["--listen", "127.0.0.1:0", "--key-rate", "0", "--address-rate", "0"];
    let serving = ready(command(&folder.path().join("data"), &free));
    for _ in 0..ROUNDS_BEFORE {
        come_and_go(&serving).await;
    }
    let before = resident_kilobytes(&serving);
    for _ in 0..ROUNDS_AFTER {
        come_and_go(&serving).await;
    }
    let grown = resident_kilobytes(&serving).saturating_sub(before);
    assert!(grown <= GROWN_KILOBYTES_MAX, "from {before} kB it grew by {grown} kB");
}
