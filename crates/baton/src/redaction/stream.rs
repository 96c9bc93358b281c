//! A stream that is cleaned as it comes in. A secret that is split over chunks is found, because
//! the end of what came is kept back until it can be told; whole lines never wait.

use super::Tally;
use super::scan::{BEHIND, Scan};

/// A stream on its way through.
pub struct Stream {
    scan: Scan,
    held: Vec<u8>,
    /// Bytes at the beginning of `held` that were passed on and are only looked behind at.
    done: usize,
}

impl Stream {
    pub(super) fn new(scan: Scan) -> Self {
        Self { scan, held: vec![], done: 0 }
    }

    /// Takes a chunk in, and answers what can be passed on.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        self.pass(false)
    }

    /// What was kept back, and how much was masked in all.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Tally) {
        let rest = self.pass(true);
        (rest, self.scan.tally())
    }

    /// How much was masked so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.scan.tally()
    }

    fn pass(&mut self, last: bool) -> Vec<u8> {
        let mut out = vec![];
        let done = self.scan.go(&self.held, self.done, last, &mut out);
        let cut = done.saturating_sub(BEHIND);
        self.held.drain(..cut);
        self.done = done - cut;
        out
    }
}
