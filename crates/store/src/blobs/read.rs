//! Reading in bulk, and reading with the digest as witness.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::{Digest as _, Sha256};

use super::{Digest, Error};

/// Large enough that a system call costs nothing beside the copying, small enough that a hundred
/// puts at once do not matter.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

/// Reads until the buffer is full or the reader has ended.
pub(super) fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Hashes a file and leaves it at its beginning.
pub(super) fn digest_of(file: &mut File) -> io::Result<Digest> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut hasher = Sha256::new();
    loop {
        let count = fill(file, &mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    file.rewind()?;
    Ok(Digest::finish(hasher))
}

/// A reader that ends only if what it gave has the right digest.
pub(super) struct Verified<R> {
    bytes: R,
    digest: Digest,
    verdict: Verdict,
}

enum Verdict {
    Open(Sha256),
    Right,
    Wrong,
}

impl<R: Read> Verified<R> {
    pub(super) fn new(bytes: R, digest: Digest) -> Self {
        Self { bytes, digest, verdict: Verdict::Open(Sha256::new()) }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Verdict::Open(hasher) = &mut self.verdict {
            let count = self.bytes.read(buffer)?;
            hasher.update(&buffer[..count]);
            // A read into no room says nothing about the end.
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let right = Digest::finish(hasher.clone()) == self.digest;
            self.verdict = if right { Verdict::Right } else { Verdict::Wrong };
        }
        match &self.verdict {
            Verdict::Open(_) | Verdict::Right => Ok(0),
            Verdict::Wrong => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                Error::Corrupt { digest: self.digest },
            )),
        }
    }
}
