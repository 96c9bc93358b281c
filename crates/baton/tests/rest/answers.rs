//! What answers look like, and how arguments come together.

use serde_json::json;

use crate::caller::Ask;
use crate::world::World;

#[tokio::test]
async fn an_answer_is_json_that_nobody_keeps_or_guesses_at() {
    let world = World::new().await;
    world.project().await;
    let body = json!({ "project": "shop", "title": "Something to do" });
    let ask = world.post("/v1/tasks").json(&body);
    let made = world.ask(&ask).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("content-type"), "application/json");
    assert_eq!(made.header("cache-control"), "no-store");
    assert_eq!(made.header("x-content-type-options"), "nosniff");
    assert_eq!(made.header("etag"), "\"1\"");
    assert_eq!(made.header("idempotent-replayed"), "");
    let again = world.ask(&ask).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
    assert_eq!(again.json()["id"], made.json()["id"]);
}

#[tokio::test]
async fn a_problem_says_so_in_its_type() {
    let world = World::new().await;
    let missing = world.ask(&world.get("/v1/tasks/T-9")).await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("content-type"), "application/problem+json");
    assert_eq!(missing.header("cache-control"), "no-store");
    assert_eq!(missing.json()["type"], "urn:baton:problem:not_found");
    let nothing = world.ask(&world.claim("claim", &json!({}))).await;
    assert_eq!((nothing.status, nothing.code().as_str()), (409, "nothing_claimable"));
    assert_eq!(nothing.header("retry-after"), "1");
}

#[tokio::test]
async fn whoever_shows_a_dead_token_is_told_to_put_it_away_and_what_became_of_the_request() {
    let world = World::new().await;
    world.project().await;
    world.task("Something to do").await;
    let claimed = world.ask(&world.claim("claim", &json!({}))).await.json();
    let note = |key: &str, token: &str| {
        let path =
            format!("/v1/runs/{}/checkpoints", claimed["run"]["id"].as_str().expect("an id"));
        let ask = Ask::change("POST", &path, key, &json!({ "summary": "half of it" }));
        world.signed(ask).with("baton-claim-token", token)
    };
    let token = claimed["claim_token"].as_str().expect("it is shown once");
    assert_eq!(world.ask(&note("first", token)).await.status, 201);
    for (key, certainty) in [("first", "happened"), ("second", "did_not_happen")] {
        let refused = world.ask(&note(key, "batonc_dead")).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "lease_lost"), "{refused:?}");
        assert_eq!(refused.json()["certainty"], certainty);
        assert_eq!(refused.json()["next"], json!(["unset BATON_CLAIM_TOKEN"]));
    }
    let look = world.get("/v1/tasks").with("baton-claim-token", "batonc_dead");
    assert_eq!(world.ask(&look).await.code(), "lease_lost", "nothing is done for it");
}

#[tokio::test]
async fn a_change_of_a_version_that_is_past_is_refused() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("Something to do").await;
    let edit = |key: &str, version: &str| {
        let ask = Ask::change("PATCH", &format!("/v1/tasks/{task}"), key, &json!({ "title": key }));
        world.signed(ask).with("if-match", version)
    };
    let now = world.ask(&world.get(&format!("/v1/tasks/{task}"))).await.header("etag").to_owned();
    let done = world.ask(&edit("first", &now)).await;
    assert_eq!(done.status, 200, "{done:?}");
    let late = world.ask(&edit("second", &now)).await;
    assert_eq!((late.status, late.code().as_str()), (412, "version_changed"));
    for version in ["7", "*", "W/\"7\"", "\"x\"", "\"-1\""] {
        assert_eq!(world.ask(&edit("third", version)).await.status, 422, "{version}");
    }
}

#[tokio::test]
async fn arguments_come_from_path_query_and_body_and_never_disagree() {
    let world = World::new().await;
    world.project().await;
    for title in ["one", "two", "three"] {
        world.task(title).await;
    }
    let listed = world.ask(&world.get("/v1/tasks?project=shop&limit=2")).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
    let refused = |answer: crate::caller::Answer| (answer.status, answer.code());
    let wrong = (422, "invalid".to_owned());
    for query in ["limit=two", "limit=1&limit=2", "nothing=1", "limit=-1", "project="] {
        let answer = world.ask(&world.get(&format!("/v1/tasks?{query}"))).await;
        assert_eq!(refused(answer), wrong, "{query}");
    }
    let put = |body| {
        let ask = Ask::change("PUT", "/v1/projects/shop", "again", &body);
        world.signed(ask)
    };
    let other = world.ask(&put(json!({ "project": "toys" }))).await;
    assert_eq!(refused(other), wrong, "the path says something else");
    assert_eq!(world.ask(&put(json!({ "project": "shop" }))).await.status, 200);
    // A name with a slash is one part of the path if it is written as one.
    let slashed = Ask::change("PUT", "/v1/projects/team%2Fshop", "slash", &json!({}));
    assert_eq!(world.ask(&world.signed(slashed)).await.json()["id"], "team/shop");
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let world = World::new().await;
    let mut caller = world.connect().await;
    for _ in 0..3 {
        assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
        assert_eq!(caller.ask(&world.get("/v1/tasks/T-9")).await.status, 404);
    }
    // Two at once, one after the other.
    caller.send(&world.get("/v1/tasks")).await;
    caller.send(&world.get("/v1/tasks/T-9")).await;
    assert_eq!(caller.hear().await.map(|answer| answer.status), Some(200));
    assert_eq!(caller.hear().await.map(|answer| answer.status), Some(404));
}

#[tokio::test]
async fn a_trace_of_the_caller_is_kept_with_what_happened() {
    let world = World::new().await;
    world.project().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let body = json!({ "project": "shop", "title": "Something to do" });
    let ask = world.post("/v1/tasks").json(&body);
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    assert_eq!(world.ask(&ask.with("traceparent", &parent)).await.status, 201);
    let unreadable = world.post("/v1/tasks").json(&body).with("traceparent", "00-x-y-01");
    assert_eq!(world.ask(&unreadable).await.status, 201);
    let events = world.ask(&world.get("/v1/events")).await.json();
    let traces: Vec<_> = events["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|event| event["actor"]["trace"].as_str())
        .collect();
    assert_eq!(traces, [trace]);
}
