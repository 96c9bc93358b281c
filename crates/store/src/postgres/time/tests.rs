use super::{STEP_MAX, Seen};

const HOUR: i64 = 3_600_000;

/// A clock that says what was expected: two hours after the boot clock, asked at one, answered at
/// once.
fn expected() -> Seen {
    Seen {
        ahead: Some(2 * HOUR),
        asked: HOUR,
        answered: HOUR,
        clock: 3 * HOUR,
        behind: 0,
        floor: 2 * HOUR,
    }
}

#[test]
fn a_clock_that_goes_on_is_not_behind() {
    assert_eq!(expected().behind(), 0);
    assert_eq!(Seen { clock: 3 * HOUR - STEP_MAX, ..expected() }.behind(), 0);
    assert_eq!(Seen { clock: 5 * HOUR, ..expected() }.behind(), 0, "a leap is a silence");
}

#[test]
fn a_clock_that_was_set_back_is_behind_by_what_it_was_set_back() {
    assert_eq!(Seen { clock: 2 * HOUR, ..expected() }.behind(), HOUR);
    let further = Seen { clock: HOUR, behind: HOUR, ..expected() };
    assert_eq!(further.behind(), 2 * HOUR);
    let known = Seen { clock: 2 * HOUR, behind: HOUR, ..expected() };
    assert_eq!(known.behind(), HOUR, "the others see that it is noted");
}

#[test]
fn an_answer_that_took_long_is_no_step_of_the_clock() {
    let late = Seen { answered: 2 * HOUR, ..expected() };
    assert_eq!(late.behind(), 0);
    let behind = Seen { answered: 2 * HOUR, clock: 2 * HOUR, behind: HOUR, ..expected() };
    assert_eq!(behind.behind(), HOUR);
}

#[test]
fn a_clock_that_was_set_right_is_not_behind_any_more() {
    let right = Seen { clock: 3 * HOUR, behind: HOUR, ..expected() };
    assert_eq!(right.behind(), 0);
    let nearly = Seen { clock: 3 * HOUR - 60_000, behind: HOUR, ..expected() };
    assert_eq!(nearly.behind(), 60_000);
}

#[test]
fn whoever_never_heard_the_clock_goes_by_what_was_noted() {
    let fresh = |clock, behind| Seen { ahead: None, clock, behind, ..expected() }.behind();
    assert_eq!(fresh(HOUR, 0), HOUR, "it goes on from the last entry");
    assert_eq!(fresh(HOUR, 3 * HOUR), 3 * HOUR, "what others noted stands");
    assert_eq!(fresh(2 * HOUR, HOUR), 0, "unless the clock is past everything");
}
