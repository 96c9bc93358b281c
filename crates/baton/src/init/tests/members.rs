//! Members in JSON as people write it.

use serde_json::json;

use super::super::Why;
use super::super::json::insertion;

/// The file with a member `baton` in the object `servers`.
fn put(text: &str) -> Result<String, Why> {
    let (at, piece) = insertion(text, &["servers"], Some("baton"), &json!({ "a": 1 }))?;
    Ok(format!("{}{piece}{}", &text[..at], &text[at..]))
}

fn check(text: &str, expected: &str) {
    assert_eq!(put(text).as_deref(), Ok(expected));
}

#[test]
fn a_member_comes_first_and_everything_else_stays() {
    check("{}\n", "{\n  \"servers\": {\n    \"baton\": {\n      \"a\": 1\n    }\n  }\n}\n");
    check(
        "{\n\t\"x\": [1, {\"servers\": 2}]\n}",
        "{\n\t\"servers\": {\n\t\t\"baton\": {\n\t\t\t\"a\": 1\n\t\t}\n\t},\n\t\"x\": [1, {\"servers\": 2}]\n}",
    );
    check(
        "{ \"servers\": { \"o\": {} } } // end",
        "{ \"servers\": {\n    \"baton\": {\n      \"a\": 1\n    }, \"o\": {} } } // end",
    );
    check(
        "/* {\"servers\": {}} */ { \"k\\\"}\": \"{\", \"servers\" : {} }",
        "/* {\"servers\": {}} */ { \"k\\\"}\": \"{\", \"servers\" : {\n    \"baton\": {\n      \"a\": 1\n    }\n  } }",
    );
}

#[test]
fn what_comes_out_is_json_wherever_it_was_put() {
    for text in
        ["{}", "{ }", "{\"a\":{}}", "{\"servers\":{}}", "{\"servers\":{\"x\":[]},\"y\":null}"]
    {
        let whole = put(text).expect("it is an object");
        let read: serde_json::Value = serde_json::from_str(&whole).expect("it is JSON");
        assert_eq!(read["servers"]["baton"], json!({ "a": 1 }), "{whole}");
    }
}

#[test]
fn what_is_no_object_is_left_alone() {
    for text in [
        "",
        "[]",
        "{",
        "{\"servers\": []}",
        "{\"servers\": 1}",
        "{} {}",
        "{\"servers\"}",
        "nonsense",
    ] {
        assert_eq!(put(text), Err(Why::Unreadable), "{text}");
    }
    assert_eq!(put("{\"servers\": {\"baton\": 1}}"), Err(Why::Foreign));
}

#[test]
fn a_list_gets_a_new_first_entry() {
    let put = |text: &str| {
        let (at, piece) = insertion(text, &["hooks", "Start"], None, &json!("x")).expect("it can");
        format!("{}{piece}{}", &text[..at], &text[at..])
    };
    for (text, expected) in [
        ("{}", json!({ "hooks": { "Start": ["x"] } })),
        ("{\"hooks\":{}}", json!({ "hooks": { "Start": ["x"] } })),
        ("{\"hooks\":{\"Start\":[]}}", json!({ "hooks": { "Start": ["x"] } })),
        (
            "{\"hooks\":{\"Start\":[\"y\"]},\"z\":1}",
            json!({ "hooks": { "Start": ["x", "y"] }, "z": 1 }),
        ),
    ] {
        let whole = put(text);
        let read: serde_json::Value = serde_json::from_str(&whole).expect("it is JSON");
        assert_eq!(read, expected, "{whole}");
    }
}
