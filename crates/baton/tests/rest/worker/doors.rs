//! Who is let in as a worker, and until when: A4 and A20.

use std::time::Duration;

use baton::websocket::Refused;
use baton_domain::key::Kind;
use tokio::time::timeout;

use super::{Scripted, busy, hello};
use crate::caller::Ask;
use crate::serving::{folder, start};
use crate::world::World;

fn upgrade(world: &World, key: &str) -> Ask {
    world
        .plain(Ask::get("/v1/worker"))
        .with("authorization", &format!("Bearer {key}"))
        .with("connection", "keep-alive, Upgrade")
        .with("upgrade", "WebSocket")
        .with("sec-websocket-version", "13")
        .with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

#[tokio::test]
async fn a_handshake_is_answered_as_its_standard_asks() {
    let (world, key) = busy().await;
    let mut caller = world.connect().await;
    caller.send(&upgrade(&world, &key)).await;
    let (status, headers) = caller.head().await.expect("it is answered");
    assert_eq!(status, 101);
    assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[tokio::test]
async fn what_is_no_handshake_is_refused() {
    let (world, key) = busy().await;
    let whole = || upgrade(&world, &key);
    let cases = [
        (whole().without("upgrade"), 400),
        (whole().without("connection"), 400),
        (whole().without("sec-websocket-version").with("sec-websocket-version", "8"), 400),
        (whole().without("sec-websocket-key"), 400),
        (whole().without("sec-websocket-key").with("sec-websocket-key", "short"), 400),
        (whole().without("authorization"), 401),
        (whole().bytes("x").with("content-length", "1"), 400),
    ];
    for (ask, status) in cases {
        let refused = world.ask(&ask).await;
        assert_eq!(refused.status, status, "{ask:?} {refused:?}");
    }
    let mut post = whole();
    post.method = "POST".to_owned();
    assert_eq!(world.ask(&post).await.status, 405);
}

/// A4.
#[tokio::test]
async fn a_page_is_never_a_worker_wherever_it_is_from() {
    let (world, key) = busy().await;
    let own = format!("http://{}", world.address);
    for origin in ["https://evil.example", "null", &own] {
        let refused = world.ask(&upgrade(&world, &key).with("origin", origin)).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{origin}");
    }
    for site in ["cross-site", "same-site"] {
        let refused = world.ask(&upgrade(&world, &key).with("sec-fetch-site", site)).await;
        assert_eq!(refused.status, 403, "{site}");
    }
}

#[tokio::test]
async fn only_a_worker_with_its_scope_is_a_worker() {
    let (world, _) = busy().await;
    for (name, kind, scopes, status) in [
        ("ann", Kind::Person, "all", 403),
        ("bea", Kind::Agent, "agent", 403),
        ("bot", Kind::Bot, "all", 403),
        ("weak", Kind::Worker, "run:work", 403),
    ] {
        let (_, key) = world.make_key(name, kind, scopes).await;
        let refused = world.ask(&upgrade(&world, &key)).await;
        assert_eq!(refused.status, status, "{name}: {refused:?}");
    }
    let forged = Scripted::knock(&world.place(), "batonk_nobody").await.err();
    assert!(matches!(forged, Some(Refused::Answered { status: 401, .. })), "{forged:?}");
}

/// A20.
#[tokio::test]
async fn a_worker_whose_key_is_revoked_is_cut_within_a_second() {
    let (world, _) = busy().await;
    let (id, key) = world.make_key("walter", Kind::Worker, "worker").await;
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    world.until_listening(1).await;
    world.revoke(&id).await;
    let last = timeout(Duration::from_secs(1), worker.farewell()).await;
    assert_eq!(last.expect("within a second"), "unauthenticated");
    let refused = Scripted::knock(&world.place(), &key).await.err();
    assert!(matches!(refused, Some(Refused::Answered { status: 401, .. })));
}

/// On its own machine a worker needs no key: the socket says who it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_of_the_server_is_a_worker_over_its_socket() {
    use baton::websocket::WebSocket;
    use hyper::header::HeaderMap;
    let folder = folder();
    let serving = start(&folder.path().join("data"));
    let socket = tokio::net::UnixStream::connect(serving.text("socket")).await;
    let socket = socket.expect("it listens");
    let asking = WebSocket::asking(socket, "localhost", "/v1/worker", HeaderMap::new()).await;
    let mut socket = asking.expect("it is let in");
    let greeting = baton::protocol::write(&baton::protocol::Up::from(hello("box", vec![])));
    socket.say(greeting.expect("a frame")).await.expect("it listens");
    let heard = socket.hear().await;
    assert!(matches!(&heard, baton::websocket::Heard::Text(text) if text.contains("welcome")));
}
