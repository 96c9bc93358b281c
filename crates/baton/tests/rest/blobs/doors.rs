//! Who may hand in and have bytes, and what becomes of whoever may not.

use baton_domain::key::Kind;
use baton_store::blobs::Digest;

use super::{Yard, content, path};
use crate::caller::Ask;

#[tokio::test]
async fn a_foreign_blob_looks_like_none_to_the_last_byte() {
    let yard = Yard::new().await;
    let digest = yard.keep(b"ours").await;
    let foreign = yard.world.foreign_key().await;
    let theirs = yard.world.ask(&yard.get_as(&foreign, &digest)).await;
    let nobodys = yard.world.ask(&yard.get_as(&foreign, &Digest::of(b"nobody's"))).await;
    assert_eq!((theirs.status, theirs.code().as_str()), (404, "not_found"));
    let but_date = |mut answer: crate::caller::Answer| {
        answer.headers.remove("date");
        answer
    };
    assert_eq!(but_date(theirs), but_date(nobodys));
    let put = yard.world.ask(&yard.put_as(&foreign, &digest, b"ours")).await;
    assert_eq!(put.json()["new"], true, "nobody learns from a put what another tenant has");
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say() {
    let yard = Yard::new().await;
    let digest = yard.keep(b"a bundle").await;
    let cases = [
        ("blob:write", Kind::Person, true, false),
        ("blob:read", Kind::Person, false, true),
        ("task:read", Kind::Person, false, false),
        ("read", Kind::Person, false, true),
        ("agent", Kind::Agent, true, true),
        ("worker", Kind::Worker, true, true),
    ];
    for (scopes, kind, may_put, may_get) in cases {
        let name = scopes.replace(':', ".");
        let (_, key) = yard.world.make_key(&name, kind, scopes).await;
        let asked = [
            (yard.put_as(&key, &digest, b"a bundle"), may_put, "blob:write"),
            (yard.get_as(&key, &digest), may_get, "blob:read"),
        ];
        for (ask, may, scope) in asked {
            let answer = yard.world.ask(&ask).await;
            let expected = if may { 200 } else { 403 };
            assert_eq!(answer.status, expected, "{scopes} {scope}: {answer:?}");
            if !may {
                assert_eq!(answer.code(), "forbidden");
                assert_eq!(answer.json()["scope"], scope);
            }
        }
    }
    for method in ["GET", "PUT"] {
        let bare = yard.world.plain(Ask::new(method, &path(&digest)));
        assert_eq!(yard.world.ask(&bare).await.status, 401);
    }
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_with_what_is_right() {
    let yard = Yard::new().await;
    let digest = yard.keep(b"a bundle").await;
    let (put, get) = (yard.put(&digest, b"a bundle"), yard.world.get(&path(&digest)));
    let upper = path(&digest).to_uppercase().replace("/V1/BLOBS", "/v1/blobs");
    let cases = [
        (put.clone().without("content-type"), 415, "unsupported"),
        (
            put.clone().without("content-type").with("content-type", "text/plain"),
            415,
            "unsupported",
        ),
        (put.clone().with("content-encoding", "gzip"), 415, "unsupported"),
        (put.clone().with("origin", "https://elsewhere.example"), 403, "forbidden"),
        (get.clone().with("sec-fetch-site", "cross-site"), 403, "forbidden"),
        (get.clone().without("host").with("host", "elsewhere.example"), 421, "wrong_place"),
        (get.clone().with("baton-claim-token", "batonc_forged"), 409, "lease_lost"),
        (put.clone().with("baton-claim-token", "batonc_forged"), 409, "lease_lost"),
        (get.clone().with("content-length", "1").bytes("x"), 400, "malformed"),
        (yard.world.get(&format!("{}?a=1", path(&digest))), 400, "malformed"),
        (yard.world.get("/v1/blobs/latest"), 422, "invalid"),
        (yard.world.get("/v1/blobs/"), 422, "invalid"),
        (yard.world.get(&upper), 422, "invalid"),
        (yard.world.get("/v1/blobs"), 404, "not_found"),
        (yard.world.get("/v1/blobs/../blobs/x"), 404, "not_found"),
    ];
    for (ask, status, code) in cases {
        let answer = yard.world.ask(&ask).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{ask:?}");
    }
    for method in ["POST", "DELETE", "PATCH"] {
        let answer = yard.world.ask(&yard.world.signed(Ask::new(method, &path(&digest)))).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, PUT"), "{method}");
    }
    assert_eq!(yard.get(&digest).await.body, b"a bundle", "nothing of this changed anything");
}

#[tokio::test]
async fn whoever_loses_its_key_on_the_way_has_handed_in_nothing() {
    let yard = Yard::new().await;
    let (id, key) = yard.world.make_key("bob", Kind::Person, "all").await;
    let bytes = content(1_000);
    let digest = Digest::of(&bytes);
    let mut caller = yard.world.connect().await;
    let ask = yard.put_as(&key, &digest, &bytes[..500]).with("content-length", "1000");
    caller.send(&ask).await;
    crate::more::until(|| yard.arriving() == 1).await;
    yard.world.revoke(&id).await;
    let refused = caller.hear().await.expect("it is told");
    assert_eq!((refused.status, refused.code().as_str()), (401, "unauthenticated"));
    yard.has_nothing_of(&digest).await;
}
