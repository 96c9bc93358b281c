//! What an agent said lately, kept while it is driven: for whoever follows it, and to be brought to the server with its
//! work. Made from the spool alone, so a worker that comes back has the same.

use std::collections::VecDeque;

use baton_domain::time::Timestamp;

use crate::adapters::{Heard, Narrator, Program, Voice};
use crate::protocol::{LOG_LINES_MAX, LogLine, LogVoice};
use crate::redaction::Redactor;
use crate::shape::When;

/// Lines that are kept: what a person scrolls through. The older ones are counted, and stay in the spool.
const LINES_MAX: usize = 2_000;
/// Bytes of them.
const BYTES_MAX: usize = 256 << 10;
/// Bytes of lines that are told at once: a message has room for them, however they are escaped.
const TOLD_BYTES_MAX: usize = 32 << 10;

/// What an agent said lately.
pub struct Log {
    narrator: Narrator,
    redactor: Redactor,
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Lines that there ever were.
    count: u64,
    /// How many of them the server was brought.
    brought: u64,
}

impl Log {
    /// Of a program, none of whose lines may show these secrets.
    #[must_use]
    pub fn new<'a>(program: Program, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let redactor = Redactor::new();
        for secret in secrets {
            // One that is too short is found by chance everywhere, and shapes are looked for anyway.
            redactor.know(secret.as_bytes()).unwrap_or_default();
        }
        let narrator = Narrator::new(program);
        Self { narrator, redactor, lines: VecDeque::new(), bytes: 0, count: 0, brought: 0 }
    }

    /// Goes on by one piece, which was said then.
    pub fn hear(&mut self, heard: Heard<'_>, at: Timestamp) {
        for said in self.narrator.hear(heard) {
            self.count += 1;
            let cleaned = self.redactor.text(&said.text).map(|(text, _)| text);
            let text = cleaned.unwrap_or(said.text);
            self.bytes += text.len();
            let voice = match said.voice {
                Voice::Said => LogVoice::Said,
                Voice::Tool => LogVoice::Tool,
                Voice::Output => LogVoice::Output,
                Voice::Error => LogVoice::Error,
            };
            self.lines.push_back(LogLine { number: self.count, at: When(at), voice, text });
            while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
                let Some(gone) = self.lines.pop_front() else { break };
                self.bytes -= gone.text.len();
            }
        }
    }

    /// The lines after this one, as many as one message takes: the last ones if there are more.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<LogLine> {
        let mut bytes = 0;
        let newest = self.lines.iter().rev().take_while(|line| line.number > number);
        let told = newest.take(LOG_LINES_MAX).take_while(|line| {
            bytes += line.text.len();
            bytes <= TOLD_BYTES_MAX
        });
        let mut told: Vec<_> = told.cloned().collect();
        told.reverse();
        told
    }

    /// Everything that is kept, one line of JSON each, if the server was not brought it.
    #[must_use]
    pub fn unbrought(&self) -> Option<Vec<u8>> {
        if self.brought == self.count {
            return None;
        }
        let mut bytes = vec![];
        for line in &self.lines {
            serde_json::to_writer(&mut bytes, line).ok()?;
            bytes.push(b'\n');
        }
        Some(bytes)
    }

    /// The server is brought everything up to now.
    pub fn is_brought(&mut self) {
        self.brought = self.count;
    }
}

#[cfg(test)]
mod tests;
