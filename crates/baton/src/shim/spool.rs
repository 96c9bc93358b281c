//! What an agent said and what it was told, in order, in a folder of its attempt.
//!
//! One process writes: the shim. Anybody may read, from any record on, while it is written. A record is
//! `[u32 length][u8 stream][u64 milliseconds since boot][bytes][u32 CRC-32 of all before it]`, numbers
//! in little-endian. Records stand in segments, files that are named after the offset at which
//! they begin; an offset counts the bytes of all records since the first, so that it stays good when the
//! oldest segments are dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

mod lines;
mod reader;
mod writer;

pub use lines::{Line, Lines};
pub use reader::Reader;
pub use writer::Writer;

/// How much of an agent is kept if nobody says otherwise: days of talk, and no disk is full of it.
pub const SPOOL_BYTES_USUAL: u64 = 256 << 20;
/// The least that a spool may be bounded by: one segment being written and seven that are complete.
pub const SPOOL_BYTES_MIN: u64 = SEGMENTS_USUAL * SEGMENT_BYTES_MIN;
/// Bytes of one record: what a pipe gives at once is never more.
pub const RECORD_BYTES_MAX: usize = 64 << 10;
/// Bytes of one line; what is longer comes in pieces. No event of a known agent program is near it.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// How many segments a full spool has: when the oldest goes, an eighth goes.
const SEGMENTS_USUAL: u64 = 8;
/// A segment holds some of the largest records.
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// Length, stream and time.
const HEAD_BYTES: usize = 4 + 1 + 8;
/// The checksum.
const TAIL_BYTES: usize = 4;
/// Digits of the name of a segment: those of the highest offset.
const NAME_DIGITS: usize = 20;

/// Where the bytes of a record went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The agent's standard output.
    Out,
    /// Its standard error.
    Err,
    /// What was written to its standard input.
    In,
    /// What the shim itself has to say: a fact in JSON, see [`super::Note`].
    Note,
}

/// One piece of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub stream: Stream,
    /// Milliseconds since boot.
    pub at: u64,
    pub bytes: Vec<u8>,
    /// Where the next record begins: what a reader acknowledges, and opens with the next time.
    pub next_offset: u64,
}

impl Stream {
    fn code(self) -> u8 {
        match self {
            Self::Out => 1,
            Self::Err => 2,
            Self::In => 3,
            Self::Note => 4,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::Out, Self::Err, Self::In, Self::Note].into_iter().find(|one| one.code() == code)
    }
}

/// Where the segments of a folder begin, in order.
fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let mut starts = vec![];
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_str().filter(|name| name.len() == NAME_DIGITS);
        starts.extend(name.and_then(|name| name.parse::<u64>().ok()));
    }
    starts.sort_unstable();
    Ok(starts)
}

fn segment(folder: &Path, start: u64) -> PathBuf {
    folder.join(format!("{start:0NAME_DIGITS$}"))
}

#[cfg(test)]
mod tests;
