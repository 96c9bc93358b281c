use baton_domain::time::Millis;
use baton_store::Error;

use world::World;

mod claiming;
mod waiting;
pub(crate) mod world;

fn code(error: &Error) -> &'static str {
    let Error::Refused(refusal) = error else { panic!("not refused, but {error}") };
    refusal.code()
}

#[tokio::test]
async fn every_order_is_counted_by_aim_and_outcome() {
    let world = World::new().await;
    world.create("one").await;
    world.claim("ann").await.expect("there is one");
    world.claim("bob").await.expect_err("there is no other");
    world.engine.sweep(10).await.expect("time passes");
    let figures = world.engine.metrics().render();
    for line in [
        r#"baton_orders_total{aim="record",outcome="ok"} 1"#,
        r#"baton_orders_total{aim="birth",outcome="ok"} 1"#,
        r#"baton_orders_total{aim="next",outcome="ok"} 1"#,
        r#"baton_orders_total{aim="next",outcome="nothing_claimable"} 1"#,
        r#"baton_order_seconds_count{aim="next"} 2"#,
        r#"baton_sweeps_total{outcome="ok"} 1"#,
        "baton_waiters 0",
        "baton_fired_total 0",
        "baton_reactions_total 0",
    ] {
        assert!(figures.contains(line), "{line} is not in\n{figures}");
    }
}

#[tokio::test]
async fn what_a_sweep_did_is_counted() {
    let world = World::new().await;
    world.create("one").await;
    let claimed = world.claim("ann").await.expect("there is one");
    world.clock.advance(claimed.lease);
    world.sweep_until_amnesty_ends().await;
    let figures = world.engine.metrics().render();
    assert!(figures.contains("baton_fired_total 1"), "{figures}");
}

#[tokio::test]
async fn two_engines_share_no_figures() {
    let (one, other) = (World::new().await, World::new().await);
    one.claim("ann").await.expect_err("there is nothing");
    assert!(one.engine.metrics().render().contains("nothing_claimable"));
    assert!(!other.engine.metrics().render().contains("nothing_claimable"));
}

#[tokio::test]
async fn an_engine_that_never_sweeps_is_red_after_five_seconds() {
    let world = World::new().await;
    assert!(world.engine.health().await.green);
    world.clock.advance(Millis(5_001));
    let health = world.engine.health().await;
    assert!(!health.green);
    assert_eq!(health.sweep_age, Millis(5_001));
    world.engine.sweep(10).await.expect("time passes");
    assert!(world.engine.health().await.green);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_say_how_it_is_is_red() {
    let world = World::new().await;
    world.flaws.hang(true);
    let health = world.engine.health().await;
    assert!(!health.green);
    let told = serde_json::to_string(&health.reasons).expect("it is plain data");
    assert!(told.contains("unreadable"), "{told}");
}

#[tokio::test]
async fn only_what_changed_is_sealed_and_once_a_minute_at_most() {
    let world = World::new().await;
    let seal = || async { world.engine.seal_if_due().await.expect("it can be sealed") };
    assert!(!seal().await, "the first minute is not over");
    world.clock.advance(Millis::minutes(1));
    assert!(seal().await, "the project was put");
    world.clock.advance(Millis::minutes(5));
    assert!(!seal().await, "nothing has changed");
    world.create("one").await;
    assert!(seal().await);
    world.create("two").await;
    assert!(!seal().await);
    world.clock.advance(Millis::minutes(1));
    assert!(seal().await);
    assert_eq!(world.engine.audit().await.expect("it can be walked").seals, 3);
}

#[tokio::test]
async fn a_seal_that_failed_is_tried_again() {
    let world = World::new().await;
    world.clock.advance(Millis::minutes(1));
    world.flaws.refuse(1);
    world.engine.seal_if_due().await.expect_err("the store refuses");
    assert!(world.engine.seal_if_due().await.expect("it can be sealed"));
    assert!(world.engine.metrics().render().contains(r#"baton_seals_total{outcome="failed"} 1"#));
}

#[tokio::test]
async fn a_drained_engine_hands_out_nothing_but_takes_what_comes_back() {
    let world = World::new().await;
    world.create("one").await;
    world.create("two").await;
    let claimed = world.claim("ann").await.expect("there is one");
    world.engine.drain();
    let refused = world.claim("bob").await.expect_err("it is drained");
    assert!(matches!(refused, Error::Stopped(_)));
    world.complete(&claimed).await.expect("work may still end");
    world.create("three").await;
}

#[tokio::test]
async fn a_late_holder_changes_nothing() {
    let world = World::new().await;
    world.create("one").await;
    let late = world.claim("ann").await.expect("there is one");
    world.clock.advance(late.lease);
    world.sweep_until_amnesty_ends().await;
    let next = world.claim("bob").await.expect("it is free again");
    assert_eq!(next.attempt.number, late.attempt.number + 1);
    let refused = world.complete(&late).await.expect_err("it is late");
    assert_eq!(code(&refused), "lease_lost");
    world.complete(&next).await.expect("it holds the run");
}
