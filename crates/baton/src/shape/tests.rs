//! Shapes as the four readers see them.

use serde_json::json;

use super::{Position, RunRef, Shaped, Span, When, check, inline};

super::record! {
    /// For these tests.
    pub struct Sample {
        /// A text.
        name: String,
        /// A number.
        count: Option<u16>,
        /// Times.
        at: Option<Vec<When>>,
    }
}

#[test]
fn every_broken_rule_is_told_with_its_field() {
    let value = json!({ "name": " ", "count": -1, "at": ["x", 3], "other": true });
    let found: Vec<_> = check(&value, &Sample::shape())
        .into_iter()
        .map(|one| format!("{}: {}", one.field, one.rule))
        .collect();
    assert_eq!(
        found,
        [
            "other: is unknown; known are name, count, at",
            "name: must not be blank",
            "count: must be a whole number from 0 to 65535",
            "at[1]: must be a text",
        ]
    );
}

#[test]
fn null_is_no_way_to_leave_something_out() {
    let found = check(&json!({ "name": "a", "count": null }), &Sample::shape());
    assert_eq!(found[0].rule, "must not be null: leave it out instead");
}

#[test]
fn a_schema_has_no_null_and_no_integer_format() {
    let text = inline(&Sample::shape()).to_string();
    assert!(!text.contains("null") && !text.contains("format"), "{text}");
}

#[test]
fn times_and_lengths_are_read_as_they_are_written() {
    for text in ["90s", "5m", "1h 30m", "0s", "36h", "1500ms"] {
        let span: Span = text.parse().expect("it is a length");
        let again: Span = span.to_string().parse().expect("what is written can be read");
        assert_eq!(span, again, "{text}");
    }
    assert_eq!("2d".parse::<Span>().expect("days are hours").to_string(), "48h");
    let when: When = "2026-11-15T09:30:00Z".parse().expect("it is a time");
    assert_eq!(when.to_string(), "2026-11-15T09:30:00.000Z");
    for text in ["2026-11-15T09:30:00+25:00", "2026-11-15T09:30:00-01:60", "2026-11-15T09:30:00"] {
        assert!(text.parse::<When>().is_err(), "{text}");
    }
    let east: When = "2026-11-15T10:30:00+01:00".parse().expect("it has a zone");
    assert_eq!(east, when);
    assert!("yesterday".parse::<When>().is_err() && "5 apples".parse::<Span>().is_err());
}

#[test]
fn a_cursor_has_one_spelling() {
    assert!("5f-12".parse::<Position>().is_ok());
    for text in ["05f-12", "5F-12", "5f-012", "5f", "-1", "5f-+1"] {
        assert!(text.parse::<Position>().is_err(), "{text}");
    }
}

#[test]
fn a_run_is_named_by_itself_its_task_or_a_token() {
    for text in ["R-128.2", "T-128", "mine"] {
        assert_eq!(text.parse::<RunRef>().expect("it names a run").to_string(), text);
    }
    assert!("r-1".parse::<RunRef>().is_err());
}

#[test]
fn bounds_defaults_and_lines_are_told_and_kept() {
    let shape = <Vec<String> as Shaped>::shape().at_most(2);
    assert_eq!(check(&json!(["a", "b", "c"]), &shape)[0].rule, "must have at most 2 entries");
    assert_eq!(inline(&shape)["maxItems"], 2);
    let span = Span::shape().at_most(60_000).usually(5_000);
    let schema = inline(&span);
    assert_eq!((&schema["x-maximum"], &schema["default"]), (&json!("1m"), &json!("5s")));
    let title = String::shape().in_one_line(true);
    let rule = "must be one line: no newline and no tab";
    assert_eq!(check(&json!("two\nlines"), &title)[0].rule, rule);
    assert!(check(&json!("one line"), &title).is_empty());
}
