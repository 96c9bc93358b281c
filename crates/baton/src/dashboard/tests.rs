//! What pages are made of, without a server.

use baton_domain::time::{Millis, Timestamp};
use maud::html;
use serde_json::json;

use super::paths::Screen;
use super::sheet::Sheet;
use super::timeline::Scale;
use super::words;
use crate::filter::Filter;

#[test]
fn a_filter_is_read_as_it_is_written() {
    for text in ["", "is:blocked", "stage:qa label:api the login", "a:b is: c"] {
        assert_eq!(Filter::read(text).to_string(), text);
    }
}

#[test]
fn a_filter_asks_for_what_it_names() {
    let asked = |text: &str| serde_json::Value::Object(Filter::read(text).arguments());
    assert_eq!(asked("is:Needs-You in:T-3"), json!({ "badge": "needs_you", "parent": "T-3" }));
    assert_eq!(asked("old login agent:claude"), json!({ "holder": "claude", "text": "old login" }));
    assert_eq!(asked("http://x"), json!({ "text": "http://x" }), "an unknown name is a word");
}

#[test]
fn every_screen_is_a_url_that_leads_back_to_it() {
    let query = |text: &str| -> Vec<(String, String)> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.into(), value.replace("%20", " "))).collect()
    };
    for url in [
        "/inbox",
        "/inbox?task=T-4",
        "/board?project=shop&q=is:blocked%20x",
        "/runs?after=T-9",
        "/tasks/T-1",
        "/runs/R-1.2",
        "/runs/R-1.2?tab=diff",
        "/tasks/T-1?tab=handoff",
        "/agents",
    ] {
        let (path, rest) = url.split_once('?').unwrap_or((url, ""));
        let screen = Screen::of(path, &query(rest)).expect("there is such a page");
        assert_eq!(screen.url(), url);
    }
    for path in ["/tasks/", "/tasks/x", "/runs/T-1", "/boards", "/inbox/"] {
        assert_eq!(Screen::of(path, &[]), None, "{path}");
    }
}

fn cards(first: &str, second: &str) -> Sheet {
    Sheet::of_pieces("Board", |pieces| {
        html! { ul { (pieces.put("T-1".into(), html! { li { (first) } })) (pieces.put("T-2".into(), html! { li { (second) } })) } }
    })
}

#[test]
fn one_changed_piece_is_one_patch_and_another_order_is_everything() {
    let before = cards("a", "b");
    assert_eq!(before.main().0, "<ul><li>a</li><li>b</li></ul>");
    assert_eq!(before.since(&cards("a", "b")), vec![]);
    let ids = |sheet: &Sheet| sheet.since(&before).into_iter().map(|p| p.id).collect::<Vec<_>>();
    assert_eq!(ids(&cards("a", "c")), ["T-2"]);
    assert_eq!(ids(&Sheet::whole("Board", &html! { p { "none" } })), ["main"]);
}

#[test]
fn no_text_can_stand_for_a_piece() {
    let sheet = cards("\u{1}", "b");
    assert_eq!(sheet.main().0, "<ul><li></li><li>b</li></ul>");
}

#[test]
fn long_waits_are_folded_and_everything_keeps_its_order() {
    let minute = |count: i64| Timestamp(count * 60_000);
    let spans = [(minute(0), minute(10)), (minute(12), minute(20)), (minute(500), minute(510))];
    let scale = Scale::of(&spans);
    let places: Vec<u64> =
        [0, 10, 12, 20, 500, 510].into_iter().map(|at| scale.place(minute(at))).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!((places[0], places[5] > 980), (0, true), "{places:?}");
    assert!(places[4] - places[3] <= 60, "eight hours of nothing are a narrow band: {places:?}");
}

#[test]
fn an_attempt_that_takes_no_time_can_be_drawn() {
    let scale = Scale::of(&[(Timestamp(5), Timestamp(5))]);
    assert_eq!(scale.place(Timestamp(5)), 0);
    assert_eq!(Scale::of(&[]).place(Timestamp(5)), 0);
}

#[test]
fn what_stands_between_backticks_is_code_and_nothing_is_markup() {
    let drawn = |text: &str| words::prose(text).0;
    assert_eq!(drawn("name `sid` it"), "name <code>sid</code> it");
    assert_eq!(drawn("a ` alone"), "a ` alone");
    assert_eq!(drawn("`<b>` & <i>"), "<code>&lt;b&gt;</code> &amp; &lt;i&gt;");
    assert_eq!((drawn("``` x"), drawn("a `` b")), ("``` x".into(), "a `` b".into()));
}

#[test]
fn a_page_that_shows_a_lease_is_drawn_again_although_nothing_happened() {
    assert!(!cards("a", "b").is_timed());
    let timed = Sheet::whole("Board", &html! { circle data-lease="1" {} });
    assert!(timed.is_timed());
}

#[test]
fn lengths_are_said_in_their_largest_unit() {
    let said = [0, 59, 60, 3_599, 3_600, 86_400, 864_000]
        .map(|seconds| words::short(Millis::seconds(seconds)));
    assert_eq!(said, ["0s", "59s", "1m", "59m", "1h", "1d", "10d"]);
    assert_eq!(words::money(1_230_001), "$1.24");
}
