use std::sync::Arc;

use baton_domain::key::{Credential, Key, KeyId, Kind};
use baton_domain::time::{Millis, Timestamp};
use baton_store::KeyFound;

use super::{Server, how, id, name, tenant, token, wish};
use crate::identity::cache::{Cache, FRESH, KEPT_MAX, Known};

fn known(number: usize) -> (KeyId, Arc<Known>) {
    let id = KeyId::new(&format!("key{number:09}")).expect("it is twelve letters and digits");
    let key = Key {
        id: id.clone(),
        name: wish("x", &[]).name,
        principal: name("ann"),
        kind: Kind::Person,
        scopes: [].into(),
        parent: None,
        created_at: Timestamp(0),
        expires_at: Timestamp(1),
        revoked: None,
    };
    let credential = Credential { key, verifiers: None };
    let found = KeyFound { tenant: tenant(), credential, used_at: None };
    (id, Arc::new(Known { found, scopes: Arc::default() }))
}

#[test]
fn a_cache_is_bounded_and_forgets_what_was_read_first() {
    let mut cache = Cache::default();
    for number in 0..=KEPT_MAX {
        let (id, known) = known(number);
        let at = Timestamp(i64::try_from(number).expect("it is small"));
        assert!(cache.put(&id, Some(&known), (at, 0)));
    }
    let is_kept = |number| cache.get(&known(number).0, Timestamp(0)).0.is_some();
    assert_eq!((0..=KEPT_MAX).filter(|number| is_kept(*number)).count(), KEPT_MAX);
    assert!(!is_kept(0));
}

#[test]
fn an_id_that_nobody_has_is_not_kept() {
    let mut cache = Cache::default();
    let (id, row) = known(1);
    cache.put(&id, Some(&row), (Timestamp(0), 0));
    for number in 2..10 {
        assert!(cache.put(&known(number).0, None, (Timestamp(0), 0)));
    }
    assert!(cache.get(&id, Timestamp(0)).0.is_some());
    cache.put(&id, None, (Timestamp(0), 0));
    assert!(cache.get(&id, Timestamp(0)).0.is_none(), "it is gone from the store");
}

#[test]
fn what_was_read_before_a_change_is_not_kept_after_it() {
    let mut cache = Cache::default();
    let (id, known) = known(1);
    let (_, generation) = cache.get(&id, Timestamp(0));
    cache.forget(&tenant());
    assert!(!cache.put(&id, Some(&known), (Timestamp(0), generation)), "it may be old");
    let (kept, generation) = cache.get(&id, Timestamp(0));
    assert!(kept.is_none());
    assert!(cache.put(&id, Some(&known), (Timestamp(0), generation)));
}

#[tokio::test]
async fn a_revocation_counts_at_once_here_and_within_thirty_seconds_elsewhere() {
    let server = Server::new().await;
    let elsewhere = Server::beside(&server.world, 6);
    let owner = server.identity.local_owner();
    let parent = server.key("ann", &["all"]).await;
    let ann = server.who(&parent).await;
    let child = token(&server.make(&ann, wish("bob", &["task:read"])).await.expect("it may"));
    for key in [&parent, &child] {
        assert!(server.is_known(key).await);
        elsewhere.authenticate(key).await.expect("it is valid");
    }
    server.revoke(&owner, &parent).await.expect("the operator may");
    for key in [&parent, &child] {
        assert!(!server.is_known(key).await, "what a key made dies with it");
        elsewhere.authenticate(key).await.expect("the other server has not looked again");
    }
    server.world.clock.advance(FRESH);
    for key in [&parent, &child] {
        elsewhere.authenticate(key).await.expect_err("it has looked again");
    }
}

#[tokio::test]
async fn an_exchanged_secret_opens_until_the_overlap_ends() {
    let server = Server::new().await;
    let old = server.key("ann", &["key:admin"]).await;
    let ann = server.who(&old).await;
    let turned = server.identity.rotate(&ann, how(), &id(&old), None).await;
    let new = token(&turned.expect("a key may exchange its own secret"));
    assert_eq!(id(&new), id(&old));
    assert!(server.is_known(&old).await && server.is_known(&new).await);
    server.world.clock.advance(Millis(Millis::hours(24).0 - 1));
    assert!(server.is_known(&old).await);
    server.world.clock.advance(Millis(1));
    assert!(!server.is_known(&old).await && server.is_known(&new).await);
}

#[tokio::test]
async fn a_cached_key_expires_on_time() {
    let server = Server::new().await;
    let brief = super::KeyWish { lifetime: Some(Millis(10)), ..wish("ann", &["all"]) };
    let made = server.make(&server.identity.local_owner(), brief).await;
    let key = token(&made.expect("the operator may"));
    assert!(server.is_known(&key).await);
    server.world.clock.advance(Millis(10));
    assert!(!server.is_known(&key).await);
}

#[tokio::test]
async fn a_use_is_noted_once_a_minute_at_most() {
    let server = Server::new().await;
    let key = server.key("ann", &["all"]).await;
    let note = || async { server.identity.note_uses().await.expect("it is noted") };
    let used_at = || async {
        let found = server.world.engine.key(&id(&key)).await.expect("it reads");
        found.expect("it is there").used_at
    };
    assert_eq!((note().await, used_at().await), (0, None), "nobody used it");
    let first = server.world.engine.now();
    for _ in 0..5 {
        server.who(&key).await;
    }
    assert_eq!((note().await, used_at().await), (1, Some(first)));
    for _ in 0..5 {
        server.world.clock.advance(Millis::seconds(11));
        server.who(&key).await;
        assert_eq!(note().await, 0);
    }
    server.world.clock.advance(Millis::seconds(5));
    server.who(&key).await;
    assert_eq!((note().await, used_at().await), (1, Some(first + Millis::minutes(1))));
    server.is_known(&key.replace("batonk", "batonx")).await;
    assert_eq!(note().await, 0, "a refused key is not used");
}
