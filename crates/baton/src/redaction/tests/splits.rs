//! Wherever a stream is cut, what comes out is what comes out of the whole.

use proptest::prelude::*;

use super::super::{MASK, Tally};
use super::{HELD, redactor};

const PIECES: [&str; 22] = [
    "plain words ",
    "\n",
    "\\n",
    "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "https://user:pass@host/",
    "://u:p",
    "@",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n",
    "-----END RSA PRIVATE KEY-----",
    "-----END",
    "Bearer 0123456789abcdefXYZ",
    "token=",
    "AbCdEf0123456789xyzW",
    HELD,
    "cEBzcy93w7ZyZCAid2l0aCIgMTAwJSA8b2RkPiBcIGJ5dGVzKw",
    "batonc_AAA",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "AKIA0123456789ABCDEF",
    "%3D",
    "ü",
    "eyJ",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9+/=._-]{0,40}",
        1 => (0_usize..1_500).prop_map(|count| "x".repeat(count)),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn streamed(text: &[u8], cuts: &[usize]) -> (Vec<u8>, Tally) {
    let mut stream = redactor().stream();
    let mut out = vec![];
    let mut rest = text;
    for cut in cuts {
        let (chunk, more) = rest.split_at(*cut.min(&rest.len()));
        out.extend(stream.push(chunk));
        rest = more;
    }
    out.extend(stream.push(rest));
    let (last, tally) = stream.finish();
    out.extend(last);
    (out, tally)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_gives_what_the_whole_gives(
        text in text(),
        cuts in prop::collection::vec(0_usize..400, 0..40),
    ) {
        let whole = redactor().whole(text.as_bytes());
        prop_assert_eq!(streamed(text.as_bytes(), &cuts), whole);
    }

    #[test]
    fn what_was_cleaned_stays_as_it_is(text in text()) {
        let (once, _) = redactor().whole(text.as_bytes());
        let (twice, _) = redactor().whole(&once);
        // Two halves may meet where a secret was cut out, but nothing comes back.
        prop_assert!(twice.len() <= once.len() + MASK.len() * 4);
        prop_assert!(!String::from_utf8_lossy(&twice).contains(HELD));
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        let whole = redactor().whole(&bytes);
        prop_assert_eq!(streamed(&bytes, &[1, 7, 1_024, 3]), whole);
    }
}

#[test]
fn a_secret_that_comes_byte_by_byte_is_found() {
    for secret in PIECES.iter().filter(|piece| piece.len() > 16) {
        let text = format!("before {secret} after\n");
        let cuts = vec![1; text.len()];
        assert_eq!(streamed(text.as_bytes(), &cuts), redactor().whole(text.as_bytes()));
    }
}

#[test]
fn whole_lines_never_wait() {
    let mut stream = redactor().stream();
    assert_eq!(stream.push(b"a line\nand half of "), b"a line\n");
    assert_eq!(stream.push(b"one\n"), b"and half of one\n");
    assert_eq!(stream.push(format!("{HELD}\n").as_bytes()), format!("{MASK}\n").as_bytes());
    assert_eq!(stream.tally().known, 1);
    assert_eq!(stream.finish().0, b"");
}
