//! What it costs to look for secrets in texts.

use std::io;

use crate::clock::Stopwatch;
use crate::redaction::Redactor;

use super::table::{Table, per_second};

/// Bytes of a text: the longest summary that there may be.
const TEXT_BYTES: usize = 8 * 1024;
/// Texts per measurement: half a second or less where a text takes some dozens of microseconds.
const TEXTS: u64 = 4_000;

/// What agents write, what they paste, and what has the most beginnings of secrets and none of them.
const KINDS: [(&str, &str); 3] = [
    ("prose", "The parser is written and tested; left is the printer, see docs/printer.md. "),
    (
        "a log",
        "2026-11-16T04:00:00Z INFO https://example.com/a?b=c 200 sha256:9f86d081884c7d65 12ms\n",
    ),
    ("beginnings of secrets", "sk- ghp_ token: bearer eyJ :// AKIA -----BEGIN xoxb- "),
];

pub(super) fn run(watch: &dyn Stopwatch, table: &mut Table<'_>) -> io::Result<()> {
    let redactor = Redactor::new();
    let known = redactor.know(b"a secret that this process holds");
    known.expect("it is long enough, and the first");
    for (name, line) in KINDS {
        let mut text = line.repeat(TEXT_BYTES / line.len() + 1);
        text.truncate(TEXT_BYTES);
        let began = watch.micros();
        let found = (0..TEXTS).filter(|_| redactor.text(&text).is_some()).count();
        let rate = per_second(TEXTS, watch.micros() - began);
        assert_eq!(found, 0, "there is no secret in it");
        table.rate(&format!("redaction, 8 KiB of {name}"), rate, None, None)?;
        let megabytes = megabytes(rate);
        table.line("  the same", &format!("{megabytes:>10.0} MB/s"))?;
    }
    Ok(())
}

/// Millions of bytes in a second, at so many texts.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn megabytes(texts: f64) -> f64 {
    texts * TEXT_BYTES as f64 / 1e6
}
