//! What goes in and out of an agent: three pipes and the spool.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use super::birth::Ours;
use super::control::WRITE_BYTES_MAX;
use super::spec::{STDIN_BYTES_MAX, Spec};
use super::spool::{RECORD_BYTES_MAX, Stream, Writer};
use super::told::Note;

/// How many pieces are taken out of a pipe at the end: it never holds more than 1 MiB.
const DRAIN_ROUNDS: usize = 2 * (1 << 20) / RECORD_BYTES_MAX;

/// The agent's pipes and its spool.
#[derive(Debug)]
pub(super) struct Voice {
    spool: Writer,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// What the agent has not read yet.
    pending: VecDeque<u8>,
    close_after: bool,
    /// What was read and the disk has not taken: nothing more is read before it has.
    held: Option<(Stream, u64, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl Voice {
    pub(super) fn new(spec: &Spec, spool: Writer, ends: Ours) -> io::Result<Self> {
        for end in [&ends.stdin, &ends.stdout, &ends.stderr] {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            spool,
            stdin: Some(ends.stdin),
            stdout: Some(ends.stdout),
            stderr: Some(ends.stderr),
            pending: spec.stdin.iter().copied().collect(),
            close_after: spec.close_stdin,
            held: None,
            buffer: vec![0; RECORD_BYTES_MAX],
        })
    }

    /// How far the spool is.
    pub(super) fn end(&self) -> u64 {
        self.spool.end()
    }

    /// Whether the disk takes nothing.
    pub(super) fn is_held_up(&self) -> bool {
        self.held.is_some()
    }

    /// What is to be read from.
    pub(super) fn heard(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let both = [&self.stdout, &self.stderr];
        both.into_iter().flatten().filter(|_| self.held.is_none()).map(|one| one.as_fd())
    }

    /// What is to be written to.
    pub(super) fn spoken(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.stdin.iter().filter(|_| !self.pending.is_empty()).map(|one| one.as_fd())
    }

    /// Takes in what the agent said, a piece of each stream, so that nobody else waits for a babbler.
    pub(super) fn listen(&mut self, at: u64) -> bool {
        if let Some((stream, at, bytes)) = self.held.take() {
            self.keep(stream, at, bytes);
        }
        let out = self.hear(Stream::Out, at);
        let err = self.hear(Stream::Err, at);
        out || err
    }

    /// Takes in everything that was said so far. Somebody who never stops has more to say later.
    pub(super) fn drain(&mut self, at: u64) {
        for _ in 0..DRAIN_ROUNDS {
            if !self.listen(at) {
                return;
            }
        }
    }

    fn hear(&mut self, stream: Stream, at: u64) -> bool {
        if self.held.is_some() {
            return false;
        }
        let end = match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
            Stream::In | Stream::Note => return false,
        };
        let Some(open) = end else { return false };
        match read(&*open, &mut self.buffer[..]) {
            Ok(0) => {
                *end = None;
                false
            }
            Ok(length) => {
                let written = self.spool.append(stream, at, &self.buffer[..length]);
                if written.is_err() {
                    self.held = Some((stream, at, self.buffer[..length].to_vec()));
                }
                written.is_ok()
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                *end = None;
                false
            }
        }
    }

    fn keep(&mut self, stream: Stream, at: u64, bytes: Vec<u8>) {
        if self.spool.append(stream, at, &bytes).is_err() {
            self.held = Some((stream, at, bytes));
        }
    }

    /// Gives the agent what it has to read, as far as it reads.
    pub(super) fn speak(&mut self, at: u64) {
        while let Some(open) = self.stdin.as_ref().filter(|_| !self.pending.is_empty()) {
            let (piece, _) = self.pending.as_slices();
            let piece = &piece[..piece.len().min(RECORD_BYTES_MAX)];
            match write(open, piece) {
                Ok(length) => {
                    let written: Vec<u8> = self.pending.drain(..length).collect();
                    // What it was given is history; if the disk is full, it was given all the same.
                    drop(self.spool.append(Stream::In, at, &written));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // It reads no more.
                Err(_) => {
                    self.stdin = None;
                    self.pending = VecDeque::new();
                }
            }
        }
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
            if self.close_after {
                self.stdin = None;
            }
        }
    }

    /// Puts something into the agent's input.
    pub(super) fn give(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.stdin.is_none() || self.close_after {
            return Err("the agent's input is closed".into());
        }
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(format!("a write must be at most {WRITE_BYTES_MAX} bytes"));
        }
        if self.pending.len() + bytes.len() > STDIN_BYTES_MAX {
            return Err("the agent has not read what it was given before: try later".into());
        }
        self.pending.extend(bytes);
        Ok(())
    }

    /// Ends the agent's input, after what it has been given.
    pub(super) fn close(&mut self) {
        self.close_after = true;
    }

    /// Writes down a fact of the shim's own.
    pub(super) fn note(&mut self, at: u64, note: &Note) {
        // The same is in the status, which is written apart.
        drop(self.spool.append(Stream::Note, at, &note.json()));
    }

    pub(super) fn sync(&self) {
        // Whoever lost power lost the machine's processes with it.
        drop(self.spool.sync());
    }
}
