//! Events as they happen: without gaps, without doubles, and without waiting for the slow.

use std::time::Duration;

use baton::server::Limits;
use serde_json::Value;

use crate::caller::{Ask, Caller};
use crate::world::World;

fn stream(world: &World, target: &str) -> Ask {
    world.get(target).with("accept", "text/event-stream")
}

async fn follow(world: &World, ask: &Ask) -> Caller {
    let mut caller = world.connect().await;
    caller.send(ask).await;
    let (status, headers) = caller.head().await.expect("there is an answer");
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store");
    caller
}

/// Every cursor there is, by lists.
async fn cursors(world: &World) -> Vec<String> {
    let mut found = vec![];
    let mut target = "/v1/events".to_owned();
    loop {
        let page = world.ask(&world.get(&target)).await.json();
        let items = page["items"].as_array().expect("a list");
        found.extend(items.iter().filter_map(|item| item["cursor"].as_str()).map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => target = format!("/v1/events?after={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn whoever_reads_and_then_follows_misses_nothing_and_sees_nothing_twice() {
    let world = World::new().await;
    world.project().await;
    world.task("before").await;
    let as_of = world.ask(&world.get("/v1/tasks")).await.json()["as_of"].clone();
    let as_of = as_of.as_str().expect("every read says how far it went").to_owned();
    let between = world.task("between").await;
    let mut caller = follow(&world, &stream(&world, &format!("/v1/events?after={as_of}"))).await;
    let after = world.task("after").await;
    for task in [between, after] {
        let event = caller.event().await.expect("it happened");
        assert_eq!(event.data["task"], Value::from(task));
        assert_eq!(event.data["cursor"], Value::from(event.id));
    }
}

#[tokio::test]
async fn a_stream_cannot_begin_at_its_end() {
    let world = World::new().await;
    let refused = world.ask(&stream(&world, "/v1/events?newest=true")).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    assert_eq!(refused.json()["errors"][0]["field"], "newest");
    assert!(world.engine.changes().is_empty(), "nobody listens");
    let list = world.ask(&world.get("/v1/events?newest=true")).await;
    assert_eq!(list.status, 200, "a list may");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_again_and_again_has_no_gap_under_concurrent_writes() {
    const TASKS: usize = 120;
    let world = World::new().await;
    world.project().await;
    let first = cursors(&world).await.last().cloned().expect("the project was put");
    let writing = async {
        for number in 0..TASKS {
            world.task(&format!("task {number}")).await;
        }
    };
    let reading = async {
        let (mut seen, mut last) = (vec![], first.clone());
        while seen.len() < TASKS {
            let ask = stream(&world, "/v1/events").with("last-event-id", &last);
            let mut caller = follow(&world, &ask).await;
            // Breaks off after a few, and begins again where it was.
            for _ in 0..7.min(TASKS - seen.len()) {
                let event = caller.event().await.expect("the stream goes on");
                last.clone_from(&event.id);
                seen.push(event.id);
            }
        }
        seen
    };
    let ((), seen) = tokio::join!(writing, reading);
    let all = cursors(&world).await;
    let from = all.iter().position(|cursor| *cursor == first).expect("it is there") + 1;
    assert_eq!(seen, all[from..]);
}

#[tokio::test]
async fn a_cursor_that_has_expired_is_told_before_the_stream_begins() {
    let world = World::new().await;
    world.project().await;
    let good = cursors(&world).await.last().cloned().expect("there is one");
    let foreign = good.replacen('1', "2", 1);
    let mut caller = world.connect().await;
    let refused = caller.ask(&stream(&world, &format!("/v1/events?after={foreign}"))).await;
    assert_eq!((refused.status, refused.code().as_str()), (410, "cursor_expired"), "{foreign}");
    let nonsense = world.ask(&stream(&world, "/v1/events").with("last-event-id", "x")).await;
    assert_eq!(nonsense.status, 422);
    // The connection is as good as before.
    assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
}

#[tokio::test]
async fn where_nothing_happens_a_comment_says_that_somebody_is_there() {
    let limits = Limits { comment: Duration::from_millis(20), ..Limits::default() };
    let world = World::with(limits).await;
    let mut caller = follow(&world, &stream(&world, "/v1/events")).await;
    let mut comments = 0;
    while comments < 3 {
        let line = caller.line().await.expect("the stream goes on");
        comments += usize::from(line == ":");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_is_cut_and_the_others_go_on() {
    let limits = Limits {
        slow: Duration::from_millis(200),
        farewell: Duration::from_millis(100),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    world.project().await;
    let mut stalled = follow(&world, &stream(&world, "/v1/events")).await;
    let mut quick = follow(&world, &stream(&world, "/v1/events")).await;
    world.until_listening(2).await;
    // More than all buffers between here and there hold.
    let body = "x".repeat(60_000);
    let mut made = 0;
    while world.engine.changes().len() == 2 {
        let text = serde_json::json!({ "project": "shop", "title": "large", "body": body });
        let answer = world.ask(&world.post("/v1/tasks").json(&text)).await;
        assert_eq!(answer.status, 201);
        let id = answer.json()["id"].clone();
        // The other one keeps up all the while.
        while quick.event().await.expect("it goes on").data["task"] != id {}
        made += 1;
        assert!(made < 2_000, "nobody cuts it");
    }
    // Whatever had reached it is still there; then it ends, perhaps with the word to begin again.
    let mut seen = 0;
    while let Some(event) = stalled.event().await {
        seen += usize::from(event.kind.is_empty());
    }
    assert!(seen < made, "it was cut before the end");
    let task = world.task("afterwards").await;
    while quick.event().await.expect("it goes on").data["task"] != task.as_str() {}
}

#[tokio::test]
async fn a_reader_that_goes_leaves_nothing_behind() {
    let world = World::new().await;
    let mut readers = vec![];
    for _ in 0..20 {
        readers.push(follow(&world, &stream(&world, "/v1/events")).await);
    }
    world.until_listening(20).await;
    drop(readers);
    world.until_listening(0).await;
}
