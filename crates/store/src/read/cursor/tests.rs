use super::{Cursor, begin};
use crate::Error;

const LIFE: u64 = 7;

fn check(incarnation: u64, position: u64, kept: (u64, u64), expected: Option<u64>) {
    let answer = begin(Cursor { incarnation, position }, LIFE, kept);
    match (answer, expected) {
        (Ok(after), Some(expected)) => assert_eq!(after, expected),
        (Err(Error::CursorExpired { floor }), None) => assert_eq!(floor, kept.0),
        (answer, expected) => panic!("{answer:?} instead of {expected:?}"),
    }
}

#[test]
fn the_start_is_before_everything_that_is_kept_and_never_expires() {
    check(0, 0, (0, 0), Some(0));
    check(0, 0, (0, 9), Some(0));
    check(0, 0, (5, 9), Some(5));
}

#[test]
fn whoever_saw_an_empty_tenant_misses_what_was_dropped_since() {
    check(LIFE, 0, (0, 9), Some(0));
    check(LIFE, 0, (5, 9), None);
}

#[test]
fn a_cursor_is_good_from_the_floor_to_the_head() {
    for (position, good) in [(4, false), (5, true), (9, true), (10, false)] {
        check(LIFE, position, (5, 9), good.then_some(position));
        check(0, position, (5, 9), good.then_some(position));
    }
}

#[test]
fn a_cursor_of_another_life_is_good_for_nothing() {
    for position in [0, 5, 9] {
        check(8, position, (5, 9), None);
        check(8, position, (0, 9), None);
    }
}
