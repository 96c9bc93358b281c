//! Follows one process from its first byte to its exit: lines, their JSON, and what is none.

use std::fmt;

use serde_json::Value;

use super::lines::{Line, Lines};
use super::seen::{Heard, Reply, Seen};
use super::{Adapter, fields};

/// Bytes of the end of its complaints that are kept to explain its exit.
const LAST_WORDS_BYTES_MAX: usize = 2_048;

/// What came by, of what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines that were events, known or not.
    pub events: u64,
    /// Lines that were not: torn, no text, no JSON, or JSON that is no object.
    pub strange: u64,
    /// Lines that were too long to be looked at.
    pub too_long: u64,
}

/// Somebody who follows a process.
pub struct Follower {
    adapter: Box<dyn Adapter>,
    out: Lines,
    err: Lines,
    input: Lines,
    last_words: String,
    tally: Tally,
    is_over: bool,
}

impl Follower {
    pub(super) fn new(adapter: Box<dyn Adapter>) -> Self {
        Self {
            adapter,
            out: Lines::default(),
            err: Lines::default(),
            input: Lines::default(),
            last_words: String::new(),
            tally: Tally::default(),
            is_over: false,
        }
    }

    /// Goes on by one piece, and tells what is to be seen in it. Nothing counts after the exit: a
    /// stream may still be held open by what the process left behind.
    pub fn fold(&mut self, heard: Heard<'_>) -> Vec<Seen> {
        let mut seen = vec![];
        if self.is_over {
            return seen;
        }
        match heard {
            Heard::Out(piece) | Heard::Err(piece) if self.adapter.is_opaque() => {
                let shows = |byte: &u8| !byte.is_ascii_whitespace() && *byte != 0;
                if piece.iter().any(shows) {
                    seen.push(Seen::Spoke { visible: true });
                }
                if matches!(heard, Heard::Err(_)) {
                    self.complain(piece, &mut seen);
                }
            }
            Heard::Out(piece) => {
                let Self { out, adapter, tally, .. } = self;
                out.feed(piece, |line| event(adapter.as_mut(), tally, &line, &mut seen));
            }
            Heard::Err(piece) => self.complain(piece, &mut seen),
            Heard::In(piece) => {
                let Self { input, adapter, .. } = self;
                input.feed(piece, |line| {
                    if let Line::Whole(line) = line
                        && let Some(message) = object(line)
                    {
                        adapter.written(&message, &mut seen);
                    }
                });
            }
            Heard::Exited(exit) => {
                let Self { out, adapter, tally, .. } = self;
                out.rest(|line| event(adapter.as_mut(), tally, &line, &mut seen));
                self.end_complaints(&mut seen);
                self.adapter.exited(exit, self.last_words.trim(), &mut seen);
                self.is_over = true;
            }
        }
        seen
    }

    /// What is to be written now: the program waits for it, and nothing that was written so far
    /// is it. Ask again once that has gone through the fold.
    #[must_use]
    pub fn owed(&self) -> Option<Vec<u8>> {
        self.while_alive(|adapter| adapter.owed())
    }

    /// What to write so that the same process takes another turn, if it can.
    #[must_use]
    pub fn prompt(&self, text: &str) -> Option<Vec<u8>> {
        self.while_alive(|adapter| adapter.prompt(text))
    }

    /// What to write so that it has the answer; none if it does not wait for one under this id.
    #[must_use]
    pub fn answer(&self, reply: &Reply) -> Option<Vec<u8>> {
        self.while_alive(|adapter| adapter.answer(reply))
    }

    /// What to write so that it stops its turn; none if it only listens to signals.
    #[must_use]
    pub fn interrupt(&self) -> Option<Vec<u8>> {
        self.while_alive(|adapter| adapter.interrupt())
    }

    /// What came by so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn while_alive(&self, say: impl Fn(&dyn Adapter) -> Option<Value>) -> Option<Vec<u8>> {
        let message = if self.is_over { None } else { say(self.adapter.as_ref()) };
        message.map(|message| format!("{message}\n").into_bytes())
    }

    fn complain(&mut self, piece: &[u8], seen: &mut Vec<Seen>) {
        let Self { err, adapter, last_words, .. } = self;
        err.feed(piece, |line| remember(adapter.as_mut(), last_words, &line, seen));
    }

    fn end_complaints(&mut self, seen: &mut Vec<Seen>) {
        let Self { err, adapter, last_words, .. } = self;
        err.rest(|line| remember(adapter.as_mut(), last_words, &line, seen));
    }
}

fn object(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok().filter(Value::is_object)
}

fn event(adapter: &mut dyn Adapter, tally: &mut Tally, line: &Line<'_>, seen: &mut Vec<Seen>) {
    let Line::Whole(line) = line else {
        tally.too_long += 1;
        return;
    };
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    match object(line) {
        Some(event) => {
            tally.events += 1;
            adapter.event(&event, seen);
        }
        None => tally.strange += 1,
    }
}

/// Keeps the end of what a program complained about.
fn remember(
    adapter: &mut dyn Adapter,
    last_words: &mut String,
    line: &Line<'_>,
    seen: &mut Vec<Seen>,
) {
    let Line::Whole(line) = line else { return };
    let line = fields::clip(&String::from_utf8_lossy(line));
    adapter.complained(&line, seen);
    last_words.push_str(&line);
    last_words.push('\n');
    let mut cut = last_words.len().saturating_sub(LAST_WORDS_BYTES_MAX);
    while !last_words.is_char_boundary(cut) {
        cut += 1;
    }
    last_words.drain(..cut);
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("tally", &self.tally).finish_non_exhaustive()
    }
}
