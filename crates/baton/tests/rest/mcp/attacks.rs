//! What somebody who means no good may try.

use baton_domain::key::Kind;
use serde_json::json;

use super::speaking::{message, refusal};
use crate::caller::Ask;
use crate::world::World;

#[tokio::test]
async fn pages_from_elsewhere_are_not_answered_and_nobody_is_without_a_key() {
    let world = World::noon().await;
    let list = world.modern(&world.key, "tools/list", json!({}), &json!({}));
    let other_port = format!("http://127.0.0.1:{}", world.address.port().wrapping_add(1).max(1));
    for origin in ["http://evil.example", "null", &other_port] {
        let answer = world.ask(&list.clone().with("origin", origin)).await;
        assert_eq!(answer.status, 403, "{origin}");
    }
    assert_eq!(world.ask(&list.clone().without("authorization")).await.status, 401);
    let own = format!("http://{}", world.address);
    assert_eq!(world.ask(&list.with("origin", &own)).await.status, 200);
}

#[tokio::test]
async fn a_session_of_another_key_looks_like_one_that_never_was() {
    let world = World::noon().await;
    let (_, bea) = world.make_key("bea", Kind::Agent, "agent").await;
    let (_, cid) = world.make_key("cid", Kind::Agent, "agent").await;
    let session = world.session(&bea).await;
    let list = || Ask::new("POST", "/mcp").json(&message("tools/list", json!({})));
    for ask in [list(), Ask::get("/mcp"), Ask::new("DELETE", "/mcp")] {
        let theirs = world.ask(&world.in_session(&cid, &session, ask.clone())).await;
        let nobodys = world.ask(&world.in_session(&cid, "no-such-session", ask)).await;
        assert_eq!((theirs.status, &theirs.body), (404, &nobodys.body));
    }
    let own = world.call_in(&bea, &session, "run_list", json!({})).await;
    assert_eq!(own["result"]["isError"], false, "its owner goes on as before: {own}");
    let ended = world.ask(&world.in_session(&bea, &session, Ask::new("DELETE", "/mcp"))).await;
    assert!(ended.status < 300);
    assert_eq!(world.ask(&world.in_session(&bea, &session, list())).await.status, 404);
}

#[tokio::test]
async fn what_a_header_says_and_the_body_does_not_is_refused_without_effect() {
    let world = World::noon().await;
    let start = json!({ "name": "run_start", "arguments": { "title": "A lie" } });
    let ask = world.modern(&world.key, "tools/call", start, &json!({}));
    for (name, lie) in [("mcp-method", "tools/list"), ("mcp-name", "run_list")] {
        let answer = world.ask(&ask.clone().without(name).with(name, lie)).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32_020)));
    }
    let listed = world.call(&world.key, "run_list", json!({})).await;
    assert_eq!(listed["result"]["structuredContent"]["items"], json!([]));
}

#[tokio::test]
async fn a_token_for_somebody_else_opens_nothing() {
    let world = World::noon().await;
    let foreign = "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJvdGhlciJ9.c2lnbmF0dXJl";
    let list = world.modern(foreign, "tools/list", json!({}), &json!({}));
    assert_eq!(world.ask(&list).await.status, 401);
}

#[tokio::test]
async fn tenants_scopes_and_shapes_hold_over_mcp() {
    let world = World::noon().await;
    let task = world.queued().await;
    let foreign = world.foreign_key().await;
    let theirs = world.call(&foreign, "run_show", json!({ "run": task })).await;
    let missing = world.call(&foreign, "run_show", json!({ "run": "T-999999" })).await;
    assert_eq!((refusal(&theirs), &theirs), ("not_found".to_owned(), &missing));
    let (_, blind) = world.make_key("blind", Kind::Agent, "task:read").await;
    let refused = world.call(&blind, "run_claim", json!({})).await;
    assert_eq!(refusal(&refused), "forbidden");
    for wrong in [json!({ "task": 7 }), json!({ "nonsense": 1 }), json!({ "task": null })] {
        let refused = world.call(&world.key, "run_claim", wrong).await;
        assert_eq!(refusal(&refused), "invalid");
        assert!(refused["result"]["structuredContent"]["errors"][0]["rule"].is_string());
    }
    assert_eq!(refusal(&world.call(&world.key, "no_such_tool", json!({})).await), "-32602");
    let bytes = world.posted(&world.key, &json!({})).bytes("{\"a\":1,\"a\":2}");
    assert_eq!(world.ask(&bytes).await.json()["error"]["code"], -32_700);
}

#[tokio::test]
async fn a_claim_shows_no_secret_and_a_stale_attempt_says_nothing() {
    let world = World::noon().await;
    world.queued().await;
    let (_, bea) = world.make_key("bea", Kind::Agent, "agent").await;
    let claimed = world.call(&bea, "run_claim", json!({})).await;
    let told = claimed.to_string();
    assert!(!told.contains("claim_token") && !told.contains("baton_claim_"), "{told}");
    let attempt = &claimed["result"]["structuredContent"]["attempt"];
    let note = |attempt| json!({ "attempt": attempt, "summary": "half of it" });
    let noted = world.call(&bea, "run_checkpoint", note(attempt.clone())).await;
    assert_eq!(noted["result"]["isError"], false, "the attempt says which run: {noted}");
    let (_, cid) = world.make_key("cid", Kind::Agent, "agent").await;
    let stolen = world.call(&cid, "run_checkpoint", note(attempt.clone())).await;
    assert_eq!(refusal(&stolen), "lease_lost");
    let nobody = world.call(&bea, "run_checkpoint", json!({ "summary": "whose?" })).await;
    assert_eq!(refusal(&nobody), "invalid", "a request without a connection names its attempt");
}
