//! Lines out of records: an agent's events come one per line, and records end anywhere.

use super::{LINE_BYTES_MAX, Record, Stream};

/// A line, or a piece of one that is too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub stream: Stream,
    /// When its last byte came.
    pub at: u64,
    /// Without the end of the line.
    pub bytes: Vec<u8>,
    /// Whether this is not the end of the line: it was too long, or nothing more came.
    pub cut: bool,
}

/// Puts the lines of an agent's output together; everything else passes as it is.
#[derive(Debug, Default)]
pub struct Lines {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Lines {
    /// The lines that a record completes.
    pub fn feed(&mut self, record: &Record) -> Vec<Line> {
        let begun = match record.stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
            Stream::In | Stream::Note => {
                let bytes = record.bytes.clone();
                return vec![Line { stream: record.stream, at: record.at, bytes, cut: false }];
            }
        };
        let line = |bytes, cut| Line { stream: record.stream, at: record.at, bytes, cut };
        let mut lines = vec![];
        for piece in record.bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                Some(_) | None => (piece, false),
            };
            let mut text = text;
            while begun.len() + text.len() > LINE_BYTES_MAX {
                let (head, rest) = text.split_at(LINE_BYTES_MAX - begun.len());
                begun.extend_from_slice(head);
                lines.push(line(std::mem::take(begun), true));
                text = rest;
            }
            begun.extend_from_slice(text);
            if ends {
                lines.push(line(std::mem::take(begun), false));
            }
        }
        lines
    }

    /// What is left when nothing more will come.
    pub fn rest(&mut self, at: u64) -> Vec<Line> {
        let both = [(Stream::Out, &mut self.out), (Stream::Err, &mut self.err)];
        let begun = both.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        let cut = true;
        begun
            .map(|(stream, bytes)| Line { stream, at, bytes: std::mem::take(bytes), cut })
            .collect()
    }
}
