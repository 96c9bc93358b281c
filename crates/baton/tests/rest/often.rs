//! How often somebody may ask.

use baton::server::{Limits, Rates};
use baton_domain::time::Millis;

use crate::caller::{Answer, Ask};
use crate::world::World;

fn behind_proxy(rates: Rates) -> Limits {
    Limits { rates, behind_proxy: true, ..Limits::default() }
}

fn from(ask: Ask, address: &str) -> Ask {
    ask.with("x-forwarded-for", address)
}

fn too_often(answer: &Answer) -> bool {
    let told = answer.status == 429 && answer.code() == "rate_limited";
    told && answer.header("retry-after") == "1" && answer.json()["certainty"] == "did_not_happen"
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_come_back_and_others_go_on() {
    let rates = Rates { key: 1, ..Rates::default() };
    let world = World::with(Limits { rates, ..Limits::default() }).await;
    let other = format!("Bearer {}", world.other_key().await);
    let mut caller = world.connect().await;
    for _ in 0..10 {
        assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
    }
    let refused = caller.ask(&world.get("/v1/tasks")).await;
    assert!(too_often(&refused), "{refused:?}");
    let ask = world.plain(Ask::get("/v1/tasks")).with("authorization", &other);
    assert_eq!(caller.ask(&ask).await.status, 200);
    world.clock.advance(Millis::seconds(1));
    assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
}

#[tokio::test]
async fn an_address_is_counted_for_all_its_callers_as_the_proxy_tells_it() {
    let world = World::with(behind_proxy(Rates { address: 1, ..Rates::default() })).await;
    let mut caller = world.connect().await;
    let health = || world.plain(Ask::get("/v1/openapi.json"));
    for _ in 0..10 {
        assert_eq!(caller.ask(&from(health(), "203.0.113.7")).await.status, 401);
    }
    assert!(too_often(&caller.ask(&from(health(), "203.0.113.7")).await));
    let made_up = from(health(), "198.51.100.1, 203.0.113.7");
    assert!(too_often(&caller.ask(&made_up).await), "the proxy's own word is the last");
    assert_eq!(caller.ask(&from(health(), "203.0.113.7, 198.51.100.1")).await.status, 401);
    assert_eq!(caller.ask(&health()).await.status, 401, "nobody says where from");
    world.clock.advance(Millis::seconds(1));
    assert_eq!(caller.ask(&from(health(), "203.0.113.7")).await.status, 401);
}

#[tokio::test]
async fn an_address_whose_keys_fail_is_kept_from_trying_and_its_neighbours_are_not() {
    let world = World::with(behind_proxy(Rates { failure: 1, ..Rates::default() })).await;
    let mut caller = world.connect().await;
    let here = "203.0.113.7";
    assert_eq!(caller.ask(&from(world.get("/v1/tasks"), here)).await.status, 200);
    let stale = world.other_key().await;
    let bad = format!("{}x", &stale[..stale.len() - 1]);
    let guess = || from(world.plain(Ask::get("/v1/tasks")), here);
    for _ in 0..10 {
        let ask = guess().with("authorization", &format!("Bearer {bad}"));
        assert_eq!(caller.ask(&ask).await.status, 401);
    }
    let ask = guess().with("authorization", &format!("Bearer {bad}"));
    assert!(too_often(&caller.ask(&ask).await));
    let ask = guess().with("authorization", &format!("Bearer {stale}"));
    assert!(too_often(&caller.ask(&ask).await), "a good one that nobody has seen waits, too");
    assert_eq!(caller.ask(&from(world.get("/v1/tasks"), here)).await.status, 200);
    world.clock.advance(Millis::seconds(1));
    assert_eq!(caller.ask(&ask).await.status, 200);
}

#[tokio::test]
async fn callers_of_this_machine_are_bounded_by_their_keys_alone() {
    let rates = Rates { key: 0, address: 1, failure: 1 };
    let world = World::with(Limits { rates, ..Limits::default() }).await;
    let mut caller = world.connect().await;
    for _ in 0..50 {
        assert_eq!(caller.ask(&world.get("/v1/tasks")).await.status, 200);
        let bad = world.plain(Ask::get("/v1/tasks")).with("authorization", "Bearer x");
        assert_eq!(caller.ask(&bad).await.status, 401);
    }
}
