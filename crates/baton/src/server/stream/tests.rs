use serde_json::{Value, json};

use super::{Written, batch, limit_of};
use crate::operation::Reply;
use crate::operations;
use crate::server::limits::{STREAM_BYTES_MAX, STREAM_EVENTS_MAX};

fn reply(items: Vec<Value>) -> Reply {
    Reply { body: json!({ "items": items, "as_of": "1-9" }), secrets: vec![], replayed: false }
}

fn event(number: usize, length: usize) -> Value {
    json!({ "cursor": format!("1-{number}"), "words": "x".repeat(length) })
}

#[test]
fn one_look_brings_at_most_so_many_events_of_every_list_that_is_followed() {
    let followed = operations::all().iter().filter(|entry| entry.is_followed());
    let limits = followed.map(|entry| {
        let limit = entry.arguments.field("limit").map(|field| &field.shape);
        limit_of(limit).expect("a list that is followed can be asked for fewer")
    });
    let limits: Vec<_> = limits.collect();
    assert!(!limits.is_empty());
    assert!(limits.iter().all(|limit| *limit <= STREAM_EVENTS_MAX as u64), "{limits:?}");
}

#[test]
fn a_batch_ends_before_its_bytes_are_too_many_and_goes_on_where_it_ended() {
    let mut items: Vec<_> = (1..=5).map(|number| event(number, STREAM_BYTES_MAX / 3)).collect();
    let (mut after, mut batches, mut more) = (Value::Null, 0, true);
    while more {
        let (written, rest) = batch(&reply(items.clone()), &mut after);
        assert!(!written.is_empty() && written.len() <= STREAM_BYTES_MAX);
        let seen = items.iter().position(|item| item["cursor"] == after).expect("one of them");
        items.drain(..=seen);
        (batches, more) = (batches + 1, rest);
    }
    assert_eq!((batches, items.len()), (3, 0));
}

#[test]
fn an_event_that_is_too_large_by_itself_is_told_alone() {
    let mut after = Value::Null;
    let items = vec![event(1, 2 * STREAM_BYTES_MAX), event(2, 1)];
    let (written, more) = batch(&reply(items), &mut after);
    assert!(more && written.starts_with("id: 1-1\n") && !written.contains("id: 1-2\n"));
    assert_eq!(after, "1-1");
}

#[test]
fn where_nothing_happened_the_place_moves_on_all_the_same() {
    let mut after = json!("1-3");
    assert_eq!(batch(&reply(vec![]), &mut after), (String::new(), false));
    assert_eq!(after, "1-9");
}

#[test]
fn whoever_is_interrupted_ends_the_event_that_was_begun_and_no_other() {
    let text = "id: 1-1\ndata: {}\n\nid: 1-2\ndata: {}\n\n";
    let first = text.len() / 2;
    for count in 0..=text.len() {
        let (rest, after) = Written { batch: text.into(), count }.rest_of_event();
        let told = count + rest.len();
        let expected = match count {
            0 => (0, None),
            _ if count <= first => (first, Some("1-1")),
            _ => (text.len(), Some("1-2")),
        };
        assert_eq!((told, after.as_deref()), expected, "after {count} bytes");
    }
    let head = Written::of("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
    assert_eq!(head.rest_of_event(), (head.batch.clone(), None));
}
