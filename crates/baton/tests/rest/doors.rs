//! Who is let in, and what becomes of whoever is not.

use baton_domain::key::Kind;
use serde_json::json;

use crate::caller::{Ask, Caller};
use crate::world::World;

#[tokio::test]
async fn over_tcp_every_request_shows_a_key() {
    let world = World::new().await;
    let bare = world.plain(Ask::get("/v1/tasks"));
    let refused = world.ask(&bare).await;
    assert_eq!((refused.status, refused.code().as_str()), (401, "unauthenticated"));
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    let broken = format!("{}x", &world.key[..world.key.len() - 1]);
    for given in ["Bearer", "Bearer ", "Bearer x", "Basic abc", &format!("Bearer {broken}")] {
        let answer = world.ask(&bare.clone().with("authorization", given)).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{given}");
    }
    let twice = world.get("/v1/tasks").with("authorization", "Bearer x");
    assert_eq!(world.ask(&twice).await.status, 400);
    // Without a key nothing is read, however large it says it is.
    let large = world.plain(Ask::new("POST", "/v1/tasks")).with("content-length", "999999999");
    assert_eq!(world.ask(&large).await.status, 401);
}

#[tokio::test]
async fn health_is_one_word_for_everybody_and_figures_need_a_scope() {
    let world = World::new().await;
    world.engine.sweep(1).await.expect("time passes");
    let health = world.ask(&world.plain(Ask::get("/health"))).await;
    assert_eq!((health.status, health.body.as_slice()), (200, b"green".as_slice()));
    assert_eq!(world.ask(&world.plain(Ask::get("/metrics"))).await.status, 401);
    assert_eq!(world.ask(&world.plain(Ask::get("/v1/openapi.json"))).await.status, 401);
    let figures = world.ask(&world.get("/metrics")).await;
    assert!(String::from_utf8_lossy(&figures.body).contains("baton_orders_total"));
    let (_, blind) = world.make_key("blind", Kind::Bot, "task:read").await;
    let ask = world.plain(Ask::get("/metrics")).with("authorization", &format!("Bearer {blind}"));
    assert_eq!(world.ask(&ask).await.code(), "forbidden");
    let described = world.ask(&world.get("/v1/openapi.json")).await.json();
    assert!(described["paths"]["/v1/tasks"]["post"].is_object());
}

#[tokio::test]
async fn a_foreign_id_looks_like_a_missing_one_to_the_last_byte() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("Something to do").await;
    let foreign = world.foreign_key().await;
    let as_foreign = |target: &str| {
        world.plain(Ask::get(target)).with("authorization", &format!("Bearer {foreign}"))
    };
    let theirs = world.ask(&as_foreign(&format!("/v1/tasks/{task}"))).await;
    let missing = world.ask(&as_foreign("/v1/tasks/T-999999")).await;
    assert_eq!(theirs.status, 404);
    let without_date = |mut answer: crate::caller::Answer| {
        answer.headers.remove("date");
        answer
    };
    assert_eq!(without_date(theirs), without_date(missing));
}

#[tokio::test]
async fn a_claim_token_travels_in_its_header_and_a_bad_one_is_a_lost_lease() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("Something to do").await;
    let claimed = world.ask(&world.claim("claim", &json!({}))).await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let token = claimed.json()["claim_token"].as_str().expect("it is shown once").to_owned();
    let note = json!({ "summary": "half of it" });
    let path = format!("/v1/runs/{task}/checkpoints");
    let good = world.post(&path).json(&note).with("baton-claim-token", &token);
    assert_eq!(world.ask(&good).await.status, 201);
    let forged = format!("{}x", &token[..token.len() - 1]);
    for token in [forged.as_str(), "x", ""] {
        let bad = world.post(&path).json(&note).with("baton-claim-token", token);
        let refused = world.ask(&bad).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "lease_lost"), "{token}");
    }
}

#[tokio::test]
async fn a_revoked_key_ends_its_waiting_claim_and_its_stream_and_nobody_elses() {
    let world = World::new().await;
    world.project().await;
    let (id, leaked) = world.make_key("leaky", Kind::Person, "all").await;
    let bearer = format!("Bearer {leaked}");
    let stream = |ask: Ask| ask.with("accept", "text/event-stream");
    let mut theirs = world.connect().await;
    theirs.send(&stream(world.plain(Ask::get("/v1/events")).with("authorization", &bearer))).await;
    assert_eq!(theirs.head().await.expect("it begins").0, 200);
    let mut ours = world.connect().await;
    ours.send(&stream(world.get("/v1/events"))).await;
    assert_eq!(ours.head().await.expect("it begins").0, 200);
    let wish = json!({ "wait": "50s" });
    let claim = Ask::change("POST", "/v1/runs/claim", "leaky-claim", &wish);
    let mut waiting = world.connect().await;
    waiting.send(&world.plain(claim).with("authorization", &bearer)).await;
    world.until_waiting(1).await;

    world.revoke(&id).await;

    let ended = waiting.hear().await.expect("it is told");
    assert_eq!((ended.status, ended.json()["certainty"].as_str()), (503, Some("unknown")));
    assert_eq!(last_event(&mut theirs).await, ("resync".into(), "unauthenticated".into()));
    let title = world.task("Something to do").await;
    while let Some(event) = ours.event().await {
        if event.data["task"] == title.as_str() {
            return;
        }
    }
    panic!("the other stream ended");
}

/// The kind and the code of the last event of a stream.
async fn last_event(caller: &mut Caller) -> (String, String) {
    let mut last = None;
    while let Some(event) = caller.event().await {
        last = Some(event);
    }
    let last = last.expect("there is an event");
    (last.kind, last.data["code"].as_str().unwrap_or_default().to_owned())
}
