use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::TenantId;
use baton_domain::time::Millis;
use baton_store::Error;
use tokio::time::timeout;

use super::{Changes, Listener};
use crate::engine::tests::world::{World, tenant};

/// Shorter than the pause between two looks.
const SOON: Duration = Duration::from_millis(900);

fn other() -> TenantId {
    TenantId::new("other").expect("a plain word is a name")
}

fn listen(changes: &Arc<Changes>) -> Listener {
    changes.listen(&tenant()).expect("there is room")
}

async fn hears(listener: &mut Listener) -> bool {
    timeout(SOON, listener.heard()).await.is_ok_and(|heard| heard.is_ok())
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_what_changed_since_it_began_to_listen() {
    let changes = Changes::new();
    let (mut one, mut two) = (listen(&changes), listen(&changes));
    changes.ring(&tenant());
    changes.ring(&tenant());
    assert!(hears(&mut one).await && hears(&mut two).await);
    assert!(!hears(&mut one).await, "two rings that nobody looked between are one");
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_nothing_of_other_tenants() {
    let changes = Changes::new();
    let mut listener = listen(&changes);
    changes.ring(&other());
    assert!(!hears(&mut listener).await);
    changes.ring(&tenant());
    assert!(hears(&mut listener).await);
}

#[tokio::test(start_paused = true)]
async fn a_listener_looks_every_second_without_a_ring() {
    let changes = Changes::new();
    let mut listener = listen(&changes);
    let second = Duration::from_millis(1_001);
    timeout(second, listener.heard()).await.expect("a second is over").expect("it is open");
}

#[tokio::test]
async fn who_listens_is_bounded_by_tenant_and_forgotten_when_it_goes() {
    let changes = Changes::at_most(1);
    let first = listen(&changes);
    assert!(matches!(changes.listen(&tenant()), Err(Error::Overloaded)));
    changes.listen(&other()).map(drop).expect("another tenant has its own bound");
    drop(first);
    assert!(changes.is_empty());
    assert!(changes.lock().is_empty(), "a tenant without listeners is forgotten");
    drop(listen(&changes));
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_is_sent_away_when_the_server_closes() {
    let changes = Changes::new();
    let mut listener = listen(&changes);
    changes.close();
    assert!(matches!(listener.heard().await, Err(Error::Stopped(_))));
    assert!(matches!(changes.listen(&tenant()), Err(Error::Stopped(_))));
}

#[tokio::test(start_paused = true)]
async fn the_engine_rings_for_what_it_committed_and_for_nothing_else() {
    let world = World::new().await;
    let mut listener = listen(world.engine.changes());
    world.create("one").await;
    assert!(hears(&mut listener).await, "a task was made");
    world.claim("ann").await.expect("there is one");
    assert!(hears(&mut listener).await, "it was claimed");
    world.claim("bob").await.expect_err("there is no other");
    assert!(!hears(&mut listener).await, "a refusal changes nothing");
    world.engine.sweep(10).await.expect("time passes");
    assert!(!hears(&mut listener).await, "an idle sweep changes nothing");
    world.clock.advance(Millis::minutes(6));
    world.sweep_until_amnesty_ends().await;
    assert!(hears(&mut listener).await, "the lease ran out");
}

#[test]
fn how_far_a_tenant_was_is_known_for_a_second_and_only_of_that_tenant() {
    let changes = Changes::new();
    let now = baton_domain::time::Timestamp(10_000);
    assert_eq!(changes.head_lately(&tenant(), now), None);
    changes.note_head(&tenant(), now, 7);
    assert_eq!(changes.head_lately(&tenant(), now + Millis(999)), Some(7));
    assert_eq!(changes.head_lately(&tenant(), now + Millis::seconds(1)), None);
    assert_eq!(changes.head_lately(&other(), now), None);
}

#[tokio::test]
async fn whoever_has_heard_nothing_learns_of_a_change_a_second_later() {
    let world = World::new().await;
    let before = world.engine.head_lately(&tenant()).await.expect("it can be read");
    world.create("paint the fence").await;
    let lately = world.engine.head_lately(&tenant()).await.expect("it can be read");
    assert_eq!(lately, before, "one look is good for a second");
    world.clock.advance(Millis::seconds(1));
    let now = world.engine.head_lately(&tenant()).await.expect("it can be read");
    assert_eq!(now, world.engine.head(&tenant()).await.expect("it can be read"));
    assert!(now > before);
}
