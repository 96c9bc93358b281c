use std::sync::LazyLock;

use super::{Error, KNOWN_MAX, MASK, Redactor, Tally};

mod canaries;
mod splits;
mod survivors;

/// What the tests hold as a secret: every alphabet that escapes differ in.
pub(super) const HELD: &str = "p@ss/wörd \"with\" 100% <odd> \\ bytes+";

pub(super) fn redactor() -> &'static Redactor {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
        let redactor = Redactor::new();
        redactor.know(HELD.as_bytes()).expect("it is long enough");
        redactor
    });
    &REDACTOR
}

/// The text as it comes out, and how much was masked.
pub(super) fn cleaned(text: &str) -> (String, Tally) {
    redactor().text(text).unwrap_or_else(|| (text.to_owned(), Tally::default()))
}

#[test]
fn what_cannot_be_told_from_text_is_not_taken_for_a_secret() {
    let redactor = Redactor::new();
    assert_eq!(redactor.know(b"hunter2"), Err(Error::TooShort));
    assert_eq!(redactor.know(&[b'x'; 20_000]), Err(Error::TooLong));
    assert_eq!(redactor.text("hunter2 is here"), None);
}

#[test]
fn there_is_room_for_the_secrets_of_a_worker_and_an_end_to_it() {
    let redactor = Redactor::new();
    // Adding one by one builds the automaton each time, so all but the last share one.
    redactor.known.write().expect("nobody panicked").secrets =
        (0..KNOWN_MAX - 1).map(|number| format!("secret-{number:08}").into_bytes()).collect();
    redactor.know(b"the last secret").expect("there is room for one");
    redactor.know(b"the last secret").expect("it is known");
    assert_eq!(redactor.know(b"one too many"), Err(Error::TooMany));
    let (text, tally) = redactor.text("a secret-00000007 b the last secret c").expect("both");
    assert_eq!((text.as_str(), tally.known), ("a [redacted] b [redacted] c", 2));
}

#[test]
fn what_was_cleaned_is_clean() {
    let text = format!("{HELD} token=AbCdEf0123456789xyzW postgres://u:{}@h {MASK}", "pw");
    let (once, tally) = cleaned(&text);
    assert_eq!(tally.total(), 3, "{once}");
    assert_eq!(cleaned(&once), (once.clone(), Tally::default()));
}

#[test]
fn a_shape_that_overlaps_a_held_secret_leaves_nothing_of_it() {
    let redactor = Redactor::new();
    redactor.know(b"AbCdEf0123456789xyzW!rest of it").expect("it is long enough");
    redactor.know(b"user-9:half").expect("it is long enough");
    let check = |text: &str, expected: &str| {
        assert_eq!(redactor.text(text).expect("there is one").0, expected);
    };
    check("token=AbCdEf0123456789xyzW!rest of it.", "token=[redacted].");
    check("x://user-9:half-and-half@host", "x[redacted]@host");
}

#[test]
fn a_text_full_of_beginnings_takes_no_longer_than_any_other() {
    // Every anchor is looked at in a bounded window: this ends, and soon.
    let redactor = redactor();
    for piece in ["://", "eyJ", "token=", "sk-", "bearer ", "-----BEGIN", "AKIA0123456789ABCDEF "] {
        let text = piece.repeat(65_536 / piece.len());
        drop(redactor.text(&text));
    }
}

#[test]
fn a_secret_of_several_lines_is_found_in_each_of_them_and_in_one() {
    let redactor = Redactor::new();
    let secret = "first line of it\nsecond line of it\r\nthird line of it";
    redactor.know(secret.as_bytes()).expect("it is long enough");
    let check = |text: &str, expected: &str| {
        assert_eq!(redactor.text(text).expect("there is one").0, expected);
    };
    check("a second line of it b", "a [redacted] b");
    check(secret, "[redacted]\n[redacted]\r\n[redacted]");
    let escaped = serde_json::Value::from(secret).to_string();
    assert_eq!(redactor.text(&escaped).expect("there is one").0, "\"[redacted]\"");
}

#[test]
fn a_long_secret_is_found_in_every_encoding() {
    let secret: Vec<u8> =
        (0..1_500_u32).map(|at| b'!' + u8::try_from(at * 7 % 90).expect("small")).collect();
    let redactor = Redactor::new();
    redactor.know(&secret).expect("it is short enough");
    for encoded in super::encodings::all(&secret) {
        let text = String::from_utf8(encoded).expect("all of it is plain");
        let (cleaned, _) = redactor.text(&text).expect("it is found");
        assert_eq!(cleaned.replace(MASK, ""), "");
    }
    let whole = String::from_utf8(super::encodings::hex(&secret)).expect("digits");
    let (cleaned, _) = redactor.text(&whole).expect("it is found");
    assert_eq!(cleaned.replace(MASK, ""), "");
}
