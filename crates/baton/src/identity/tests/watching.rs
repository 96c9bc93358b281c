use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use baton_domain::time::Millis;
use tokio::time::timeout;

use super::{Caller, KeyWish, Server, how, id, token, wish};

/// What a stream has to end within.
const SECOND: Duration = Duration::from_secs(1);

async fn ends_within_a_second(watch: impl Future<Output = ()>) {
    timeout(SECOND + Duration::from_millis(1), watch).await.expect("the caller is told");
}

async fn goes_on(server: &Server, caller: &Caller) {
    let watch = server.identity.watch(caller);
    timeout(60 * SECOND, watch).await.expect_err("nothing has happened to the caller");
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_a_revoked_key_is_told_at_once() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let parent = server.key("ann", &["all"]).await;
    let ann = server.who(&parent).await;
    let child = token(&server.make(&ann, wish("bob", &["task:read"])).await.expect("it may"));
    let (bob, eve) =
        (server.who(&child).await, server.who(&server.key("eve", &["all"]).await).await);
    goes_on(&server, &ann).await;
    let watches = [&ann, &bob].map(|caller| tokio::spawn(server.identity.watch(caller)));
    // The watchers look once and wait before anything happens.
    tokio::task::yield_now().await;
    server.revoke(&owner, &parent).await.expect("the operator may");
    for watch in watches {
        let told = timeout(Duration::ZERO, watch);
        told.await.expect("without any waiting").expect("nobody panics");
    }
    ends_within_a_second(server.identity.watch(&ann)).await;
    goes_on(&server, &eve).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_an_expiring_key_is_told_within_a_second() {
    let server = Server::new().await;
    let brief = KeyWish { lifetime: Some(Millis::minutes(5)), ..wish("ann", &["all"]) };
    let made = server.make(&server.identity.local_owner(), brief).await;
    let ann = server.who(&token(&made.expect("the operator may"))).await;
    server.world.clock.advance(Millis(Millis::minutes(5).0 - 1));
    goes_on(&server, &ann).await;
    let watch = tokio::spawn(server.identity.watch(&ann));
    tokio::task::yield_now().await;
    server.world.clock.advance(Millis(1));
    ends_within_a_second(async { watch.await.expect("nobody panics") }).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_an_exchanged_secret_is_told_when_it_opens_nothing_any_more() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let old = server.key("ann", &["all"]).await;
    let with_old = server.who(&old).await;
    let turned = server.identity.rotate(&owner, how(), &id(&old), Some(Millis::hours(1))).await;
    let with_new = server.who(&token(&turned.expect("the operator may"))).await;
    goes_on(&server, &with_old).await;
    server.world.clock.advance(Millis::hours(1));
    ends_within_a_second(server.identity.watch(&with_old)).await;
    goes_on(&server, &with_new).await;
    let turned = server.identity.rotate(&owner, how(), &id(&old), Some(Millis(0))).await;
    turned.expect("the operator may");
    ends_within_a_second(server.identity.watch(&with_new)).await;
}

#[tokio::test(start_paused = true)]
async fn another_server_tells_its_callers_within_thirty_seconds() {
    let server = Server::new().await;
    let elsewhere = Server::beside(&server.world, 6);
    let key = server.key("ann", &["all"]).await;
    let ann = elsewhere.authenticate(&key).await.expect("it is valid");
    server.revoke(&server.identity.local_owner(), &key).await.expect("the operator may");
    server.world.clock.advance(Millis::seconds(30));
    ends_within_a_second(elsewhere.watch(&ann)).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_ends_no_stream() {
    let server = Server::new().await;
    let ann = server.who(&server.key("ann", &["all"]).await).await;
    server.world.clock.advance(Millis::seconds(30));
    server.world.flaws.refuse(usize::MAX);
    goes_on(&server, &ann).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_key_is_never_told() {
    let server = Server::new().await;
    goes_on(&server, &server.identity.local_owner()).await;
}

#[tokio::test(start_paused = true)]
async fn a_revocation_counts_even_if_whoever_asked_for_it_goes_away() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let key = server.key("ann", &["all"]).await;
    let watch = server.identity.watch(&server.who(&key).await);
    {
        let mut revoke = pin!(server.revoke(&owner, &key));
        assert!(revoke.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    ends_within_a_second(watch).await;
    assert!(!server.is_known(&key).await);
}
