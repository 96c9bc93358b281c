//! What holds for every frame, walked over the list of examples: a frame without one does not pass.

use std::collections::BTreeSet;

use expect_test::expect_file;
use serde_json::{Value, json};

use super::{
    BOUNDS, Down, MESSAGE_BYTES_MAX, Side, Unreadable, Up, about, document, downs, read, ups, write,
};
use crate::shape::{Field, Shape};

mod bounds;

#[test]
fn the_document_is_what_is_spoken() {
    expect_file!["../../../../docs/worker-protocol.md"].assert_eq(&document());
}

#[test]
fn every_frame_has_an_example_with_every_field() {
    check_examples(&ups());
    check_examples(&downs());
}

fn check_examples<S: Side>(examples: &[S]) {
    let words: Vec<_> = examples.iter().map(Side::word).collect();
    let frames: Vec<_> = S::frames().iter().map(|(word, _)| *word).collect();
    assert_eq!(words, frames, "the examples of a {} are its frames, in order", S::WHO);
    for example in examples {
        let (_, shape) = shape_of(example);
        check_is_whole(example.word(), &value(example), &shape);
    }
}

/// Every field of the shape is there, at every depth.
fn check_is_whole(at: &str, value: &Value, shape: &Shape) {
    for Field { name, shape, .. } in shape.fields() {
        let inner = value.get(name).unwrap_or_else(|| panic!("{at} has an example of {name}"));
        let (mut inner, mut shape) = (inner, shape);
        while let Shape::List { of, .. } = shape {
            inner = inner.get(0).unwrap_or_else(|| panic!("{at}.{name} has an entry"));
            shape = of;
        }
        check_is_whole(&format!("{at}.{name}"), inner, shape);
    }
}

#[test]
fn every_frame_comes_back_as_it_was() {
    check_round_trip(&ups());
    check_round_trip(&downs());
}

fn check_round_trip<S: Side>(examples: &[S]) {
    for example in examples {
        let text = write(example).expect("an example can be written");
        let again: S = read(&text).expect("what was written can be read");
        assert_eq!(write(&again).as_ref(), Ok(&text));
        let told = about(&text).expect("it is a frame");
        assert_eq!(told.frame.as_ref().map(|word| word.as_str()), Some(example.word()));
    }
}

#[test]
fn a_field_that_nobody_knows_is_ignored_at_every_depth() {
    check_unknown(&ups());
    check_unknown(&downs());
}

fn check_unknown<S: Side>(examples: &[S]) {
    for example in examples {
        let mut newer = value(example);
        let (word, shape) = shape_of(example);
        add_unknown(&mut newer, &shape);
        let older: S = read(&newer.to_string())
            .unwrap_or_else(|error| panic!("{word} with more than is known: {error}"));
        assert_eq!(value(&older), value(example), "nothing of it is left in {word}");
    }
}

fn add_unknown(value: &mut Value, shape: &Shape) {
    if let Shape::List { of, .. } = shape {
        value.as_array_mut().into_iter().flatten().for_each(|inner| add_unknown(inner, of));
    }
    if let Shape::Record(record) = shape {
        for field in &record.fields {
            add_unknown(&mut value[field.name], &field.shape);
        }
        value["of_a_later_version"] = json!({ "more": [1, 2] });
    }
}

/// An old peer leaves out what it does not know: any one optional field, and all of them at once.
#[test]
fn a_frame_of_an_old_peer_is_read_and_what_is_absent_stays_absent() {
    check_old_peer(&ups());
    check_old_peer(&downs());
}

fn check_old_peer<S: Side>(examples: &[S]) {
    for example in examples {
        let (word, shape) = shape_of(example);
        let optional: Vec<_> =
            shape.fields().iter().filter(|field| !field.required).map(|field| field.name).collect();
        let each = optional.iter().map(|name| vec![*name]);
        for missing in each.chain([optional.clone()]) {
            let mut older = value(example);
            for name in &missing {
                older.as_object_mut().expect("a frame is an object").remove(*name);
            }
            let back: S = read(&older.to_string())
                .unwrap_or_else(|error| panic!("{word} without {missing:?}: {error}"));
            assert_eq!(value(&back), older, "{word} without {missing:?}");
        }
    }
}

#[test]
fn a_field_of_the_wrong_type_is_refused_by_its_name() {
    check_wrong_types(&ups());
    check_wrong_types(&downs());
}

fn check_wrong_types<S: Side>(examples: &[S]) {
    let wrong = [json!([[]]), json!({ "a": {} }), json!("  "), json!(-1), json!(1.5), json!(null)];
    for example in examples {
        let (word, shape) = shape_of(example);
        for field in shape.fields() {
            // An object of which nothing must be there may be any object.
            let open = field.shape.fields().iter().all(|inner| !inner.required)
                && matches!(field.shape, Shape::Record(_));
            for wrong in wrong.iter().filter(|wrong| !(open && wrong.is_object())) {
                let mut frame = value(example);
                frame[field.name] = wrong.clone();
                match read::<S>(&frame.to_string()) {
                    Err(Unreadable::Invalid { field: named, .. }) => {
                        assert!(named.starts_with(field.name), "{word}: {named}");
                    }
                    Err(other) => panic!("{word}.{} as {wrong}: {other}", field.name),
                    Ok(_) => panic!("{word}.{} is not {wrong}", field.name),
                }
            }
        }
    }
}

#[test]
fn a_field_that_must_be_there_is_missed_by_its_name() {
    check_missing(&ups());
    check_missing(&downs());
}

fn check_missing<S: Side>(examples: &[S]) {
    for example in examples {
        let (word, shape) = shape_of(example);
        for field in shape.fields().iter().filter(|field| field.required) {
            let mut frame = value(example);
            frame.as_object_mut().expect("a frame is an object").remove(field.name);
            let error = read::<S>(&frame.to_string()).err();
            let error = error.unwrap_or_else(|| panic!("{word} needs {}", field.name));
            assert_eq!(error.field(), Some(field.name), "{word}: {error}");
        }
    }
}

#[test]
fn what_concerns_an_attempt_says_so_and_is_counted() {
    let free = BTreeSet::from(["hello", "credit", "heartbeat", "log", "bye"]);
    for frame in ups() {
        let (_, shape) = shape_of(&frame);
        let both = shape.field("attempt").is_some() && shape.field("seq").is_some();
        assert_eq!(both, !free.contains(frame.word()), "{}", frame.word());
        assert_eq!(frame.concerns().is_some(), both, "{}", frame.word());
        if both {
            let (_, seq) = frame.clone().numbered(99).concerns().expect("it still is counted");
            assert_eq!(seq, 99, "{}", frame.word());
        }
    }
}

#[test]
fn no_frame_shows_a_token_in_a_log() {
    for text in
        ups().iter().map(|up| format!("{up:?}")).chain(downs().iter().map(|d| format!("{d:?}")))
    {
        assert!(!text.contains("batonc_7") && !text.contains("batonc_9"), "{text}");
    }
}

#[test]
fn a_word_of_the_other_side_is_none_of_ours() {
    let error = read::<Up>(&write(&downs().remove(0)).expect("it can be written"));
    assert_eq!(error.err().as_ref().and_then(Unreadable::field), Some("frame"));
    let error = read::<Down>(r#"{"frame":"credit","n":1}"#);
    assert_eq!(error.err().as_ref().and_then(Unreadable::field), Some("frame"));
}

fn value<S: Side>(frame: &S) -> Value {
    serde_json::from_str(&write(frame).expect("an example can be written")).expect("it is JSON")
}

fn shape_of<S: Side>(frame: &S) -> (&'static str, Shape) {
    let mut frames = S::frames().into_iter();
    frames.find(|(word, _)| *word == frame.word()).expect("a frame is in the list")
}
