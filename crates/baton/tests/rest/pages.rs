//! The dashboard over HTTP: who may look, what looking cannot do, and what a page never says.

use serde_json::{Value, json};

use crate::caller::{Answer, Ask, Caller};
use crate::world::World;

/// A browser that is signed in: its cookie, and the key that its script keeps.
struct Browser {
    cookie: String,
    key: String,
}

async fn ticket(world: &World) -> String {
    let answer = world.ask(&world.signed(Ask::new("POST", "/v1/tickets").json(&json!({})))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let url = answer.json()["url"].as_str().expect("a URL").to_owned();
    let (place, ticket) = url.split_once("/sign-in#").expect("a page and a ticket");
    assert_eq!(place, format!("http://{}", world.address));
    ticket.to_owned()
}

async fn enter(world: &World, secret: &str) -> Answer {
    let ask = Ask::new("POST", "/sign-in").json(&json!({ "secret": secret }));
    world.ask(&world.plain(ask)).await
}

async fn sign_in(world: &World) -> Browser {
    let answer = enter(world, &ticket(world).await).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a name and a value").to_owned();
    Browser { cookie, key: answer.json()["key"].as_str().expect("a key").to_owned() }
}

async fn look(world: &World, browser: &Browser, target: &str) -> Answer {
    world.ask(&world.plain(Ask::get(target)).with("cookie", &browser.cookie)).await
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.clone()).expect("pages are text")
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_shown_the_way_in_and_nothing_else() {
    let world = World::new().await;
    for target in ["/", "/inbox", "/board", "/runs", "/agents", "/tasks/T-1", "/runs/R-1.1"] {
        let answer = world.ask(&world.plain(Ask::get(target))).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/sign-in"), "{target}");
        assert_eq!(answer.body, b"");
        let live = world.ask(&world.plain(Ask::get(&format!("/live{target}")))).await;
        assert_eq!(live.status, 401, "{target}");
    }
    // A key in a header is for programs: a page is shown to browsers alone.
    let answer = world.ask(&world.signed(Ask::get("/board"))).await;
    assert_eq!(answer.status, 303);
    let page = world.ask(&world.plain(Ask::get("/sign-in"))).await;
    assert_eq!(page.status, 200);
    assert!(text(&page).contains("baton open"));
}

#[tokio::test]
async fn a_ticket_opens_once_and_not_for_long() {
    let world = World::new().await;
    let used = ticket(&world).await;
    assert_eq!(enter(&world, &used).await.status, 200);
    assert_eq!(enter(&world, &used).await.status, 401);
    let late = ticket(&world).await;
    world.clock.advance(baton_domain::time::Millis::seconds(30));
    assert_eq!(enter(&world, &late).await.status, 401);
    assert_eq!(enter(&world, "").await.status, 422);
    assert_eq!(enter(&world, &world.key).await.status, 200, "a key of a person opens, too");
}

#[tokio::test]
async fn agents_and_workers_have_no_dashboard() {
    let world = World::new().await;
    for kind in [baton_domain::key::Kind::Agent, baton_domain::key::Kind::Worker] {
        let (_, key) = world.make_key(&format!("{kind:?}").to_lowercase(), kind, "read").await;
        assert_eq!(enter(&world, &key).await.json()["code"], "not_for_you");
        let ask = world.plain(Ask::new("POST", "/v1/tickets").json(&json!({})));
        let ask = ask.with("authorization", &format!("Bearer {key}"));
        assert_eq!(world.ask(&ask).await.json()["code"], "not_for_you");
    }
}

#[tokio::test]
async fn the_cookie_of_a_browser_can_only_look() {
    let world = World::new().await;
    world.project().await;
    let browser = sign_in(&world).await;
    // As a cookie it opens nothing of the table.
    let ask = world.plain(Ask::get("/v1/tasks")).with("cookie", &browser.cookie);
    assert_eq!(world.ask(&ask).await.status, 401);
    // And whoever takes the key out of it, as a server at another port could, can only read.
    let stolen = browser.cookie.split_once('=').expect("a value").1;
    let body = json!({ "project": "shop", "title": "by a thief" });
    let ask = world.plain(Ask::change("POST", "/v1/tasks", "k", &body));
    let thief = ask.clone().with("authorization", &format!("Bearer {stolen}"));
    assert_eq!(world.ask(&thief).await.json()["code"], "forbidden");
    let own = ask.with("authorization", &format!("Bearer {}", browser.key));
    assert_eq!(world.ask(&own).await.status, 201);
}

#[tokio::test]
async fn whoever_signs_out_of_a_browser_is_out_of_its_pages() {
    let world = World::new().await;
    let browser = sign_in(&world).await;
    assert_eq!(look(&world, &browser, "/board").await.status, 200);
    let body = json!({ "reason": "signed out" });
    let ask = world.plain(Ask::change("POST", "/v1/keys/self/revoke", "out", &body));
    let ask = ask.with("authorization", &format!("Bearer {}", browser.key));
    assert_eq!(world.ask(&ask).await.status, 200);
    assert_eq!(look(&world, &browser, "/board").await.status, 303);
}

#[tokio::test]
async fn the_oldest_of_too_many_browsers_is_signed_out() {
    let world = World::new().await;
    let first = sign_in(&world).await;
    for _ in 0..9 {
        world.clock.advance(baton_domain::time::Millis::seconds(1));
        sign_in(&world).await;
    }
    assert_eq!(look(&world, &first, "/inbox").await.status, 200);
    world.clock.advance(baton_domain::time::Millis::seconds(1));
    let last = sign_in(&world).await;
    assert_eq!(look(&world, &first, "/inbox").await.status, 303);
    assert_eq!(look(&world, &last, "/inbox").await.status, 200);
}

#[tokio::test]
async fn every_page_says_what_may_run_in_it() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("one").await;
    let browser = sign_in(&world).await;
    for target in
        ["/", "/inbox", "/board", "/runs?q=is:queued", "/agents", &format!("/tasks/{task}")]
    {
        let answer = look(&world, &browser, target).await;
        assert_eq!(answer.status, 200, "{target}: {}", text(&answer));
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
        let page = text(&answer);
        assert!(!page.contains("style=\"") && !page.contains("onclick"), "{target}");
    }
    let nobody = look(&world, &browser, "/tasks/T-999").await;
    assert_eq!(nobody.status, 404);
    assert!(text(&nobody).contains("<h1>"), "people are told in words");
}

#[tokio::test]
async fn what_others_wrote_stands_on_a_page_as_text() {
    let world = World::new().await;
    world.project().await;
    let evil = "<img src=x onerror=alert(1)> \" ' </title><script>1</script>";
    let body = json!({ "project": "shop", "title": evil, "body": evil, "stage": "coding" });
    let ask = world.signed(Ask::change("POST", "/v1/tasks", "evil", &body));
    let task = world.ask(&ask).await.json()["id"].as_str().expect("an id").to_owned();
    let browser = sign_in(&world).await;
    for target in ["/board", "/runs", "/runs?q=<script>", &format!("/tasks/{task}")] {
        let page =
            text(&look(&world, &browser, &target.replace('<', "%3C").replace('>', "%3E")).await);
        assert!(!page.contains("<img") && !page.contains("<script>"), "{target}: {page}");
    }
    assert!(text(&look(&world, &browser, "/board").await).contains("&lt;img src=x"));
}

#[tokio::test]
async fn one_tenant_sees_no_page_of_another() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("ours").await;
    let answer = enter(&world, &world.foreign_key().await).await;
    let cookie = answer.header("set-cookie").split(';').next().expect("a value").to_owned();
    let key = answer.json()["key"].as_str().expect("a key").to_owned();
    let browser = Browser { cookie, key };
    assert_eq!(look(&world, &browser, &format!("/tasks/{task}")).await.status, 404);
    for target in ["/board", "/runs", "/inbox"] {
        assert!(!text(&look(&world, &browser, target).await).contains("ours"), "{target}");
    }
}

#[tokio::test]
async fn no_page_is_asked_for_by_anything_but_a_get_and_no_get_acts() {
    let world = World::new().await;
    let browser = sign_in(&world).await;
    for target in ["/", "/board", "/tasks/T-1", "/live/board"] {
        let ask = Ask::new("POST", target).json(&json!({}));
        let ask = world.plain(ask).with("cookie", &browser.cookie);
        assert_eq!(world.ask(&ask).await.status, 405, "{target}");
    }
    for target in ["/sign-out", "/v1/tickets"] {
        let ask = world.signed(Ask::get(target)).with("cookie", &browser.cookie);
        assert_eq!(world.ask(&ask).await.status, 405, "{target}");
    }
    // A link from a chat leads to the page; a form or an image of another site to nothing.
    let from_elsewhere = |mode: &str, aim: &str| {
        let ask = world.plain(Ask::get("/board")).with("cookie", &browser.cookie);
        let ask = ask.with("sec-fetch-site", "cross-site").with("sec-fetch-mode", mode);
        ask.with("sec-fetch-dest", aim)
    };
    assert_eq!(world.ask(&from_elsewhere("navigate", "document")).await.status, 200);
    assert_eq!(world.ask(&from_elsewhere("no-cors", "image")).await.status, 403);
    assert_eq!(world.ask(&from_elsewhere("navigate", "iframe")).await.status, 403);
}

async fn patches(caller: &mut Caller) -> Value {
    let event = caller.event().await.expect("something changed");
    assert_eq!(event.kind, "morph");
    event.data
}

#[tokio::test]
async fn an_open_page_is_sent_what_changes_and_only_that() {
    let world = World::new().await;
    world.project().await;
    let task = world.task("first").await;
    let browser = sign_in(&world).await;
    let mut caller = world.connect().await;
    let ask = world.plain(Ask::get("/live/board")).with("cookie", &browser.cookie);
    caller.send(&ask).await;
    let (status, headers) = caller.head().await.expect("there is an answer");
    assert_eq!((status, headers["content-type"].as_str()), (200, "text/event-stream"));
    let whole = patches(&mut caller).await;
    assert_eq!(whole[0]["id"], "main");
    // A card that changes in its place is sent alone.
    let body = json!({ "title": "renamed" });
    let edit = world.signed(Ask::change("PATCH", &format!("/v1/tasks/{task}"), "edit", &body));
    assert_eq!(world.ask(&edit).await.status, 200);
    let one = patches(&mut caller).await;
    assert_eq!(one.as_array().map(Vec::len), Some(1), "{one}");
    assert_eq!(one[0]["id"], Value::from(task.clone()));
    assert!(one[0]["html"].as_str().is_some_and(|html| html.contains("renamed")), "{one}");
    // One that moves takes the board with it.
    let body = json!({ "stage": "backlog" });
    let edit = world.signed(Ask::change("POST", &format!("/v1/tasks/{task}/move"), "m", &body));
    assert_eq!(world.ask(&edit).await.status, 200);
    assert_eq!(patches(&mut caller).await[0]["id"], "main");
}
