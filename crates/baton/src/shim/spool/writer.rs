//! The one that writes.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::checksum::crc32;
use crate::shim::Note;

use super::{
    HEAD_BYTES, RECORD_BYTES_MAX, Reader, SEGMENTS_USUAL, SPOOL_BYTES_MIN, Stream, TAIL_BYTES,
    segment, segments,
};

/// Appends records; a record is there whole or not at all.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    file: File,
    /// Where the segments begin, the one being written last.
    starts: VecDeque<u64>,
    end: u64,
    segment_bytes_max: u64,
    /// What is being written, kept for its room.
    draft: Vec<u8>,
}

impl Writer {
    /// Opens the spool in a folder, or makes one. A record that was torn by a crash is cut off.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut starts: VecDeque<u64> = segments(folder)?.into();
        let start = starts.back().copied().unwrap_or(0);
        if starts.is_empty() {
            starts.push_back(start);
        }
        let file = open(folder, start)?;
        let mut end = start;
        for record in Reader::open(folder, start)? {
            match record {
                Ok(record) => end = record.next_offset,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => break,
                Err(error) => return Err(error),
            }
        }
        file.set_len(end - start)?;
        let segment_bytes_max = bytes_max.max(SPOOL_BYTES_MIN) / SEGMENTS_USUAL;
        let folder = folder.to_owned();
        Ok(Self { folder, file, starts, end, segment_bytes_max, draft: vec![] })
    }

    /// Where the next record will begin.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Writes what went through a stream at some moment. It may take several records.
    ///
    /// # Errors
    /// If the disk does not take it; whatever is torn then is not part of the spool, and the rest may be
    /// written again.
    pub fn append(&mut self, stream: Stream, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut pieces = bytes.chunks(RECORD_BYTES_MAX);
        // An empty fact is a fact.
        self.record(stream, at, pieces.next().unwrap_or_default())?;
        pieces.try_for_each(|piece| self.record(stream, at, piece))
    }

    /// Waits until what was written would survive a power cut.
    ///
    /// # Errors
    /// If it cannot be known that it would.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn record(&mut self, stream: Stream, at: u64, bytes: &[u8]) -> io::Result<()> {
        let length = u64::try_from(HEAD_BYTES + bytes.len() + TAIL_BYTES).unwrap_or(u64::MAX);
        let own = self.end - self.starts.back().copied().unwrap_or(0);
        if own > 0 && own + length > self.segment_bytes_max {
            self.turn(at)?;
        }
        self.put(stream, at, bytes)
    }

    fn put(&mut self, stream: Stream, at: u64, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.draft.clear();
        self.draft.extend_from_slice(&length.to_le_bytes());
        self.draft.push(stream.code());
        self.draft.extend_from_slice(&at.to_le_bytes());
        self.draft.extend_from_slice(bytes);
        let sum = crc32(&self.draft);
        self.draft.extend_from_slice(&sum.to_le_bytes());
        let start = self.starts.back().copied().unwrap_or(0);
        if let Err(error) = self.file.write_all_at(&self.draft, self.end - start) {
            // Half a record would be taken for a torn tail; it goes now, or is written over.
            drop(self.file.set_len(self.end - start));
            return Err(error);
        }
        self.end += u64::try_from(self.draft.len()).unwrap_or(0);
        Ok(())
    }

    /// Begins the next segment, and drops the oldest one if there are enough of them.
    fn turn(&mut self, at: u64) -> io::Result<()> {
        self.file.sync_data()?;
        self.file = open(&self.folder, self.end)?;
        self.starts.push_back(self.end);
        let enough = usize::try_from(SEGMENTS_USUAL).unwrap_or(usize::MAX);
        while self.starts.len() > enough {
            let Some(oldest) = self.starts.pop_front() else { break };
            fs::remove_file(segment(&self.folder, oldest))?;
            let bytes = self.starts.front().map_or(0, |next| next - oldest);
            self.put(Stream::Note, at, &Note::Dropped { bytes }.json())?;
        }
        Ok(())
    }
}

fn open(folder: &Path, start: u64) -> io::Result<File> {
    let path = segment(folder, start);
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}
