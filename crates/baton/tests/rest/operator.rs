//! Tenants and keys: what the operator sees, and what others do not.

use baton_domain::key::Kind;
use serde_json::{Value, json};

use crate::caller::Ask;
use crate::world::World;

fn by(world: &World, key: &str, ask: Ask) -> Ask {
    world.plain(ask).with("authorization", &format!("Bearer {key}"))
}

fn create(key: &str, tenant: &str) -> Ask {
    Ask::change("POST", "/v1/tenants", key, &json!({ "tenant": tenant }))
}

#[tokio::test]
async fn a_person_of_the_local_tenant_lets_tenants_in_and_lists_them_with_a_key() {
    let world = World::new().await;
    for tenant in ["zoo", "acme"] {
        let made = world.ask(&world.signed(create(tenant, tenant))).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let names = |page: &Value| page["items"].as_array().cloned().unwrap_or_default();
    let all = world.ask(&world.get("/v1/tenants")).await.json();
    assert_eq!(
        names(&all),
        [json!({ "id": "acme" }), json!({ "id": "local" }), json!({ "id": "zoo" })]
    );
    let first = world.ask(&world.get("/v1/tenants?limit=2")).await.json();
    assert_eq!((names(&first).len(), &first["next"]), (2, &json!("local")));
    let rest = world.ask(&world.get("/v1/tenants?limit=2&after=local")).await.json();
    assert_eq!((names(&rest), rest.get("next")), (vec![json!({ "id": "zoo" })], None));
}

#[tokio::test]
async fn nobody_else_sees_or_makes_tenants() {
    let world = World::new().await;
    let foreign = world.foreign_key().await;
    let (_, bot) = world.make_key("bot", Kind::Bot, "all").await;
    let (_, reader) = world.make_key("eve", Kind::Person, "read").await;
    for key in [foreign, bot, reader] {
        for ask in [Ask::get("/v1/tenants"), create("new", "new")] {
            let refused = world.ask(&by(&world, &key, ask)).await;
            assert_eq!(refused.status, 403, "{refused:?}");
        }
    }
    let all = world.ask(&world.get("/v1/tenants")).await.json();
    assert_eq!(all["items"], json!([{ "id": "local" }, { "id": "other" }]));
}

#[tokio::test]
async fn what_happened_to_keys_is_seen_by_those_who_may_read_keys() {
    let world = World::new().await;
    let (_, bot) = world.make_key("bot", Kind::Agent, "agent").await;
    world.project().await;
    let owner = world.ask(&world.get("/v1/events")).await.json();
    let other = world.ask(&by(&world, &bot, Ask::get("/v1/events"))).await.json();
    let column = |page: &Value, name: &str| -> Vec<Value> {
        let items = page["items"].as_array().expect("a list");
        items.iter().map(|item| item[name].clone()).collect()
    };
    assert_eq!(column(&owner, "cursor"), column(&other, "cursor"), "no place is missing");
    assert!(owner.to_string().contains("key_created"));
    assert!(!other.to_string().contains("key_created"), "{other}");
    assert_eq!(column(&other, "events")[..2], [json!([]), json!([])]);
    assert_eq!(column(&owner, "events").last(), column(&other, "events").last());
    // A stream tells the same.
    let stream = Ask::get("/v1/events").with("accept", "text/event-stream");
    let mut caller = world.connect().await;
    caller.send(&by(&world, &bot, stream)).await;
    assert_eq!(caller.head().await.expect("it begins").0, 200);
    let events: Vec<Value> = other["items"].as_array().expect("a list").clone();
    for expected in events {
        assert_eq!(caller.event().await.expect("it is told").data, expected);
    }
}

#[tokio::test]
async fn a_leaked_key_can_end_itself_whatever_it_allows() {
    let world = World::new().await;
    let (id, key) = world.make_key("bot", Kind::Agent, "run:work").await;
    let leaked = json!({ "reason": "it stood in a log" });
    let ask = |ask: Ask| by(&world, &key, ask);
    let ended = world.ask(&ask(Ask::change("POST", "/v1/keys/self/revoke", "end", &leaked))).await;
    assert_eq!((ended.status, &ended.json()["id"]), (200, &json!(id.as_str())), "{ended:?}");
    let claim = Ask::change("POST", "/v1/runs/claim", "claim", &json!({}));
    assert_eq!(world.ask(&ask(claim)).await.status, 401);
    let page = world.ask(&world.get("/v1/keys")).await.json();
    let rows = page["items"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["id"] == id.as_str()).expect("it is kept");
    assert_eq!(row["revoked_reason"], "it stood in a log");
}

#[tokio::test]
async fn a_start_without_a_project_is_repeated_whatever_projects_came_since() {
    let world = World::new().await;
    world.project().await;
    let start = || {
        world.signed(Ask::change("POST", "/v1/runs/start", "start", &json!({ "title": "mine" })))
    };
    let first = world.ask(&start()).await;
    assert_eq!(first.status, 201, "{first:?}");
    let put = Ask::change("PUT", "/v1/projects/another", "put", &json!({}));
    assert_eq!(world.ask(&world.signed(put)).await.status, 200);
    let again = world.ask(&start()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"), "{again:?}");
    assert_eq!(again.json()["task"], first.json()["task"]);
    let other = Ask::change("POST", "/v1/runs/start", "other", &json!({ "title": "mine" }));
    assert_eq!(world.ask(&world.signed(other)).await.status, 422, "now it must be named");
}
