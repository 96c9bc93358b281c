//! Requests that are not for us, not from here, or carry what must not be carried there.

use serde_json::json;

use crate::caller::Ask;
use crate::world::World;

#[tokio::test]
async fn only_our_own_names_with_the_port_are_answered() {
    let world = World::new().await;
    let port = world.address.port();
    let get = || world.get("/v1/tasks").without("host");
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let answer = world.ask(&get().with("host", &format!("{host}:{port}"))).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    assert_eq!(world.ask(&get().with("host", "baton.example")).await.status, 200);
    let evil = format!("evil.example:{port}");
    let upper = format!("LOCALHOST:{port}");
    let dotted = format!("localhost.:{port}");
    let other = format!("127.0.0.1:{}", port ^ 1);
    let zero = format!("0.0.0.0:{port}");
    for host in ["evil.example", "localhost", &evil, &upper, &dotted, &other, &zero, ""] {
        let answer = world.ask(&get().with("host", host)).await;
        assert_eq!((answer.status, answer.code().as_str()), (421, "wrong_place"), "{host}");
    }
}

#[tokio::test]
async fn a_request_without_one_host_is_malformed() {
    let world = World::new().await;
    let none = world.get("/v1/tasks").without("host");
    assert_eq!(world.ask(&none).await.status, 400);
    let two = world.get("/v1/tasks").with("host", &world.address.to_string());
    assert_eq!(world.ask(&two).await.status, 400);
    let elsewhere = world.get("http://evil.example/v1/tasks");
    assert_eq!(world.ask(&elsewhere).await.status, 400);
    let here = world.get(&format!("http://{}/v1/tasks", world.address));
    assert_eq!(world.ask(&here).await.status, 200);
}

#[tokio::test]
async fn pages_from_elsewhere_are_not_answered() {
    let world = World::new().await;
    let port = world.address.port();
    let other_port = format!("http://127.0.0.1:{}", port ^ 1);
    let suffix = format!("http://127.0.0.1:{port}.evil.example");
    for origin in ["http://evil.example", "null", &other_port, &suffix, "file://", ""] {
        let answer = world.ask(&world.get("/v1/tasks").with("origin", origin)).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{origin}");
    }
    let own = world.get("/v1/tasks").with("origin", &format!("http://localhost:{port}"));
    assert_eq!(world.ask(&own).await.status, 200);
    for site in ["cross-site", "same-site", "whatever"] {
        let answer = world.ask(&world.get("/health").with("sec-fetch-site", site)).await;
        assert_eq!(answer.status, 403, "{site}");
    }
    for site in ["same-origin", "none"] {
        let answer = world.ask(&world.get("/v1/tasks").with("sec-fetch-site", site)).await;
        assert_eq!(answer.status, 200, "{site}");
    }
}

#[tokio::test]
async fn what_a_page_can_send_without_asking_changes_nothing() {
    let world = World::new().await;
    world.project().await;
    let before = world.ask(&world.get("/v1/events")).await.json()["as_of"].clone();
    let body = json!({ "project": "shop", "title": "Something to do" }).to_string();
    let kinds = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json; charset=utf-16",
        "",
    ];
    for kind in kinds {
        let ask = world.post("/v1/tasks").with("content-type", kind).bytes(body.clone());
        let answer = world.ask(&ask).await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported"), "{kind}");
    }
    let bare = world.post("/v1/tasks").bytes(body.clone());
    assert_eq!(world.ask(&bare).await.status, 415);
    let packed = world.post("/v1/tasks").json(&json!({})).with("content-encoding", "gzip");
    assert_eq!(world.ask(&packed).await.status, 415);
    let twice = world.post("/v1/tasks").json(&json!({})).with("content-type", "text/plain");
    assert_eq!(world.ask(&twice).await.status, 400);
    // A GET has no effect and no body, and every path is asked by its own methods.
    assert_eq!(world.ask(&world.get("/v1/runs/claim")).await.status, 405, "a claim is no read");
    let loaded = world.get("/v1/tasks").json(&json!({})).with("content-length", "2");
    assert_eq!(world.ask(&loaded).await.status, 400);
    assert_eq!(world.ask(&world.get("/v1/events")).await.json()["as_of"], before);
}

#[tokio::test]
async fn a_secret_in_a_url_is_refused_whatever_it_is_called() {
    let world = World::new().await;
    let key = world.key.clone();
    let encoded = key.replace('_', "%5F");
    let targets = [
        "/v1/tasks?token=abc".to_owned(),
        "/v1/tasks?key=abc".to_owned(),
        "/v1/tasks?KEY=abc".to_owned(),
        "/v1/tasks?%6Bey=abc".to_owned(),
        "/v1/tasks?access_token=abc".to_owned(),
        "/health?token".to_owned(),
        format!("/v1/tasks?project={key}"),
        format!("/v1/tasks?project={encoded}"),
        format!("/v1/tasks/{key}"),
        format!("/nowhere/{encoded}"),
        "/v1/tasks?project=batonc_0123".to_owned(),
    ];
    for target in targets {
        let answer = world.ask(&world.get(&target)).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "malformed"), "{target}");
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(body.contains("never stands in a URL"), "{body}");
        assert!(!body.contains(&key) && !body.contains(&encoded), "it is not repeated: {body}");
    }
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_told_which_it_has() {
    let world = World::new().await;
    for method in ["DELETE", "PUT", "OPTIONS", "TRACE", "BREW"] {
        let answer = world.ask(&world.signed(Ask::new(method, "/v1/tasks"))).await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "wrong_method"), "{method}");
        assert_eq!(answer.header("allow"), "POST, GET", "{method}");
    }
    let answer = world.ask(&world.signed(Ask::new("POST", "/health"))).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "GET"));
    for path in ["/v1", "/v1/", "/v1/tasks/", "//v1/tasks", "/v1/nothing", "/v1/tasks/%zz"] {
        let answer = world.ask(&world.get(path)).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
}
