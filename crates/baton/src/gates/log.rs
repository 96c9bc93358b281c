//! What a command said, as it is kept: its end, and how much of the beginning was dropped.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::shim::spool::{Reader, Stream};

/// Bytes that are kept of what one command said: the last ones, where failures are told.
pub const LOG_BYTES_MAX: usize = 1 << 20;

/// What a command said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub path: PathBuf,
    pub bytes: u64,
    /// Bytes before those that were dropped.
    pub dropped: u64,
}

/// Writes the end of what went through a spool into a file; an empty one if there is none.
pub(super) fn keep(spool: &Path, path: &Path) -> io::Result<Log> {
    let mut kept: VecDeque<u8> = VecDeque::new();
    let mut dropped: u64 = 0;
    let reader = match Reader::open(spool, 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        other => Some(other?),
    };
    if let Some(mut reader) = reader {
        for record in reader.by_ref() {
            let record = record?;
            match record.stream {
                Stream::Out | Stream::Err => kept.extend(record.bytes),
                Stream::In | Stream::Note => {}
            }
            let surplus = kept.len().saturating_sub(LOG_BYTES_MAX);
            kept.drain(..surplus);
            dropped += surplus as u64;
        }
        dropped += reader.missed();
    }
    let bytes = kept.len() as u64;
    fs::write(path, kept.make_contiguous())?;
    Ok(Log { path: path.to_owned(), bytes, dropped })
}
