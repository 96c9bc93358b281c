//! Every bound just below, at and just above it.

use super::{BOUNDS, MESSAGE_BYTES_MAX, Unreadable, Up, read};

fn bye(more: &str) -> String {
    format!(r#"{{"frame":"bye","reason":"it ends"{more}}}"#)
}

fn is_too_large(text: &str) -> bool {
    match read::<Up>(text) {
        Ok(_) => false,
        Err(Unreadable::TooLarge(_)) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_frame_is_at_most_a_quarter_of_a_mebibyte() {
    for (length, refused) in
        [(MESSAGE_BYTES_MAX - 1, false), (MESSAGE_BYTES_MAX, false), (MESSAGE_BYTES_MAX + 1, true)]
    {
        let bare = bye(r#","later":"""#).len();
        let text = bye(&format!(r#","later":"{}""#, "x".repeat(length - bare)));
        assert_eq!(text.len(), length);
        assert_eq!(is_too_large(&text), refused, "{length} bytes");
    }
}

#[test]
fn a_frame_is_at_most_so_deep_even_where_nobody_reads_it() {
    for (depth, refused) in [(31, false), (32, false), (33, true)] {
        // The frame itself is the first level.
        let inner = depth - 1;
        let text = bye(&format!(r#","later":{}1{}"#, "[".repeat(inner), "]".repeat(inner)));
        assert_eq!(is_too_large(&text), refused, "{depth} levels");
    }
    assert_eq!(BOUNDS.depth_max, 32);
}

#[test]
fn an_object_has_at_most_so_many_fields() {
    for (count, refused) in [(255, false), (256, false), (257, true)] {
        let fields: Vec<_> = (0..count).map(|at| format!(r#""f{at}":1"#)).collect();
        let text = bye(&format!(r#","later":{{{}}}"#, fields.join(",")));
        assert_eq!(is_too_large(&text), refused, "{count} fields");
    }
}

#[test]
fn a_list_has_at_most_so_many_entries() {
    for (count, refused) in [(4_095, false), (4_096, false), (4_097, true)] {
        let text = bye(&format!(r#","later":[{}]"#, vec!["1"; count].join(",")));
        assert_eq!(is_too_large(&text), refused, "{count} entries");
    }
}

#[test]
fn a_key_that_stands_twice_is_refused_even_where_nobody_reads_it() {
    let twice = read::<Up>(&bye(r#","reason":"another""#));
    assert!(matches!(twice, Err(Unreadable::Malformed(_))), "{twice:?}");
    let inside = read::<Up>(&bye(r#","later":{"a":1,"a":2}"#));
    assert!(matches!(inside, Err(Unreadable::Malformed(_))), "{inside:?}");
}

#[test]
fn what_is_no_frame_at_all_is_refused() {
    for text in
        ["", "null", "[]", "\"bye\"", "{", "{}", r#"{"frame":7}"#, r#"{"frame":"nonsense"}"#]
    {
        assert!(read::<Up>(text).is_err(), "{text}");
    }
}
