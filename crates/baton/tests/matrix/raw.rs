//! Bodies that no argument could be: too deep, twice the same name, cut off, of another type.

use baton::server::limits::JSON_DEPTH_MAX;

use crate::caller::Ask;
use crate::examples::{example, table};
use crate::ground::Fresh;
use crate::scene::{Scene, title};
use crate::surfaces::plain;

crate::on_every_ground![
    a_body_that_is_not_one_object_is_refused_by_every_operation,
    what_a_page_can_send_is_refused_by_every_operation,
];

/// Bodies, and what is said to each.
pub fn bodies(good: &str) -> Vec<(Vec<u8>, u16, &'static str)> {
    let inner = &good[1..good.len() - 1];
    let more = if inner.is_empty() { String::new() } else { format!(",{inner}") };
    let (open, close) = ("[".repeat(JSON_DEPTH_MAX), "]".repeat(JSON_DEPTH_MAX));
    let mut broken = good.as_bytes().to_vec();
    broken.splice(1..1, *b"\"\xff\":1,");
    vec![
        (format!("{{\"deep\":{open}{close}{more}}}").into_bytes(), 413, "too_large"),
        (format!("{{\"a\":1,\"a\":1{more}}}").into_bytes(), 400, "malformed"),
        (format!("{{\"a\":1,\"\\u0061\":1{more}}}").into_bytes(), 400, "malformed"),
        (format!("{good}x").into_bytes(), 400, "malformed"),
        (format!("[{good}]").into_bytes(), 400, "malformed"),
        (good.as_bytes()[..good.len() - 1].to_vec(), 400, "malformed"),
        (format!("\u{feff}{good}").into_bytes(), 400, "malformed"),
        (b"null".to_vec(), 400, "malformed"),
        (b"{\"a\":\"\\ud800\"}".to_vec(), 400, "malformed"),
        (broken, 400, "malformed"),
    ]
}

async fn a_body_that_is_not_one_object_is_refused_by_every_operation(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let mut caller = scene.world.connect().await;
    for entry in table().into_iter().filter(|entry| entry.about.changes()) {
        let asked = example(&scene, entry);
        let request = scene.signed(&asked.who, plain(entry, &asked.arguments, "raw"));
        let good = String::from_utf8(request.body.clone()).expect("it is JSON");
        for (body, status, code) in bodies(&good) {
            let told = format!("{} {}", title(entry), String::from_utf8_lossy(&body));
            let answer = caller.ask(&request.clone().bytes(body)).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{told}");
        }
        let large = request.clone().bytes(vec![b' '; 2 << 20]);
        let answer = scene.world.ask(&large).await;
        assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    }
    assert_eq!(scene.dump().await, before);
}

async fn what_a_page_can_send_is_refused_by_every_operation(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    for entry in table() {
        let asked = example(&scene, entry);
        let request = scene.signed(&asked.who, plain(entry, &asked.arguments, "page"));
        let title = title(entry);
        if entry.about.changes() {
            for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
                let form = request.clone().without("content-type").with("content-type", kind);
                assert_eq!(scene.world.ask(&form).await.status, 415, "{title} {kind}");
            }
            let image = Ask { method: "GET".into(), body: vec![], ..request.clone() };
            let seen = scene.world.ask(&image.without("content-type")).await;
            assert!([200, 404, 405, 422].contains(&seen.status), "{title}: {seen:?}");
        }
        let away = request.clone().with("origin", "http://evil.example");
        assert_eq!(scene.world.ask(&away).await.status, 403, "{title}");
        let away = request.clone().with("sec-fetch-site", "cross-site");
        assert_eq!(scene.world.ask(&away).await.status, 403, "{title}");
        let port = scene.world.address.port();
        for host in ["evil.example".to_owned(), format!("evil.example:{port}"), "localhost".into()]
        {
            let rebound = request.clone().without("host").with("host", &host);
            let answer = scene.world.ask(&rebound).await;
            assert_eq!((answer.status, answer.code().as_str()), (421, "wrong_place"), "{title}");
        }
        let mark = if request.target.contains('?') { '&' } else { '?' };
        for secret in ["token=abc", "key=abc", "access_token=abc"] {
            let target = format!("{}{mark}{secret}", request.target);
            let answer = scene.world.ask(&Ask { target, ..request.clone() }).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "malformed"), "{title}");
        }
    }
    assert_eq!(scene.dump().await, before);
}
