//! Those who read, while it is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::checksum::crc32;

use super::{HEAD_BYTES, RECORD_BYTES_MAX, Record, Stream, TAIL_BYTES, segment, segments};

/// Reads records in order. At the end it gives none, and more once there are more.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    open: Option<(u64, File)>,
    offset: u64,
    missed: u64,
}

impl Reader {
    /// Reads the spool in a folder from an offset on, which is 0 or what a record was followed by.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn open(folder: &Path, offset: u64) -> io::Result<Self> {
        let starts = segments(folder)?;
        let mut reader = Self { folder: folder.to_owned(), open: None, offset, missed: 0 };
        reader.enter(&starts)?;
        Ok(reader)
    }

    /// Where the next record begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that were dropped before they were read.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Opens the segment that the offset is in, or the oldest one that is left.
    fn enter(&mut self, starts: &[u64]) -> io::Result<()> {
        let own = starts.iter().rev().find(|start| **start <= self.offset).or(starts.first());
        let Some(start) = own.copied() else { return Ok(()) };
        if start > self.offset {
            self.missed += start - self.offset;
            self.offset = start;
        }
        self.open = Some((start, File::open(segment(&self.folder, start))?));
        Ok(())
    }

    fn read(&mut self) -> io::Result<Option<Record>> {
        if let Some(record) = self.here()? {
            return Ok(Some(record));
        }
        // The next segment may have been begun meanwhile, or this one was dropped under us.
        let starts = segments(&self.folder)?;
        let current = self.open.as_ref().map(|(start, _)| *start);
        let next = starts.iter().find(|start| current.is_none_or(|current| **start > current));
        let goes_on = next.is_some_and(|next| *next == self.offset);
        let dropped = current.is_none_or(|current| !starts.contains(&current));
        if !goes_on && !dropped {
            return Ok(None);
        }
        self.enter(&starts)?;
        self.here()
    }

    /// The record at the offset, if all of it is there.
    fn here(&mut self) -> io::Result<Option<Record>> {
        let Some((start, file)) = &self.open else { return Ok(None) };
        let at = self.offset - start;
        let mut bytes = vec![0; HEAD_BYTES];
        if !whole(file, &mut bytes, at)? {
            return Ok(None);
        }
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| self.torn("head"))?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > RECORD_BYTES_MAX {
            return Err(self.torn("length"));
        }
        let stream = Stream::of(rest[0]).ok_or_else(|| self.torn("stream"))?;
        let time = rest[1..].first_chunk::<8>().ok_or_else(|| self.torn("head"))?;
        let time = u64::from_le_bytes(*time);
        bytes.resize(HEAD_BYTES + length + TAIL_BYTES, 0);
        if !whole(file, &mut bytes, at)? {
            return Ok(None);
        }
        let sum = bytes.split_off(HEAD_BYTES + length);
        if sum != crc32(&bytes).to_le_bytes() {
            return Err(self.torn("checksum"));
        }
        bytes.drain(..HEAD_BYTES);
        let taken = HEAD_BYTES + length + TAIL_BYTES;
        self.offset += u64::try_from(taken).unwrap_or(u64::MAX);
        Ok(Some(Record { stream, at: time, bytes, next_offset: self.offset }))
    }

    fn torn(&self, what: &str) -> io::Error {
        let text = format!("the spool is damaged at {}: {what}", self.offset);
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

impl Iterator for Reader {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Fills the buffer if the file has that much.
fn whole(file: &File, buffer: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
