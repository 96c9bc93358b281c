//! One pass from left to right. What is decided at a place depends on the bytes just behind it and
//! on a bounded window in front of it, never on how the bytes came in.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::shapes::{Class, Shapes};
use super::{MASK, Tally};

/// Bytes that a decision may look ahead: more than the longest pattern of a known secret.
pub const AHEAD: usize = 1_024;
/// Bytes that a decision may look behind.
pub const BEHIND: usize = 3;
/// Bytes of the longest block that is masked as one: twice the largest private key in use.
const BLOCK_MAX: usize = 32 * 1024;
/// How a block ends.
const BLOCK_END: &[u8] = b"-----END";

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A secret that this process holds.
    Known,
    /// What looks like a secret of somebody else.
    Shape,
    /// A claim token of Baton.
    ClaimToken,
    /// A key of Baton.
    Key,
}

/// A secret that begins here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Bytes before it that are none.
    pub keep: usize,
    /// Bytes that are masked.
    pub len: usize,
    /// What else belongs to it.
    pub then: Tail,
    /// What it is.
    pub finding: Finding,
}

/// How far a secret goes on that is longer than what was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Not at all.
    None,
    /// As long as there are bytes of this class.
    Run(Class),
    /// To the end of the block.
    Block,
}

impl Hit {
    /// The same with a known secret that overlaps it: both are masked, to the last byte.
    fn with(self, known: Option<Range<usize>>, start: usize) -> Self {
        let end = start + self.keep + self.len;
        let Some(known) = known.filter(|known| known.start < end) else { return self };
        let keep = if known.start < start + self.keep { 0 } else { self.keep };
        let then = if known.end > end { Tail::None } else { self.then };
        Self { keep, len: known.end.max(end) - start - keep, then, ..self }
    }
}

/// Where the next known secret is, looked up only when what was found is passed.
struct Ahead {
    automaton: Option<Arc<AhoCorasick>>,
    next: Option<Option<Range<usize>>>,
}

impl Ahead {
    fn from(&mut self, bytes: &[u8], from: usize) -> Option<Range<usize>> {
        let passed = |next: &Option<Range<usize>>| next.as_ref().is_some_and(|it| it.start < from);
        if self.next.as_ref().is_none_or(passed) {
            let found = self.automaton.as_ref().and_then(|known| known.find(&bytes[from..]));
            self.next = Some(found.map(|found| from + found.start()..from + found.end()));
        }
        self.next.clone().flatten()
    }
}

enum Mode {
    /// Looking for the next one.
    Looking,
    /// In the middle of one.
    Run(Class),
    /// In the middle of a block, for at most so many bytes more.
    Block(usize),
}

/// A pass over some bytes.
pub struct Scan {
    shapes: &'static Shapes,
    known: Option<Arc<AhoCorasick>>,
    mode: Mode,
    tally: Tally,
}

impl Scan {
    pub fn new(shapes: &'static Shapes, known: Option<Arc<AhoCorasick>>) -> Self {
        Self { shapes, known, mode: Mode::Looking, tally: Tally::default() }
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Goes on from a place as far as can be told; `last` says that nothing follows. Answers where
    /// to go on; what stands before that place is decided, and is only looked behind at.
    pub fn go(&mut self, bytes: &[u8], from: usize, last: bool, out: &mut Vec<u8>) -> usize {
        let sure = if last { bytes.len() } else { horizon(bytes) };
        let mut known = Ahead { automaton: self.known.clone(), next: None };
        let mut at = from;
        loop {
            let next = match self.mode {
                Mode::Looking if at < sure => self.look(bytes, at..sure, &mut known, out),
                Mode::Looking => return at,
                Mode::Run(class) => self.run(class, bytes, at),
                Mode::Block(left) => self.block(left, bytes, at, last),
            };
            if next == at && !matches!(self.mode, Mode::Looking) {
                return at;
            }
            at = next;
        }
    }

    /// Finds the next secret that begins in a range; copies what stands before it.
    fn look(
        &mut self,
        bytes: &[u8],
        range: Range<usize>,
        known: &mut Ahead,
        out: &mut Vec<u8>,
    ) -> usize {
        let Range { start: from, end: sure } = range;
        let known = known.from(bytes, from);
        let mut at = from;
        while at < sure {
            let anchor = self.shapes.automaton.find(&bytes[at..]);
            let start = anchor.map_or(sure, |found| at + found.start()).min(sure);
            if let Some(own) = known.clone().filter(|own| own.start < sure && own.start <= start) {
                let (len, then) = (own.len(), Tail::None);
                let hit = Hit { keep: 0, len, then, finding: Finding::Known };
                return self.take(hit, bytes, from, own.start, out);
            }
            let Some(anchor) = anchor.filter(|_| start < sure) else { break };
            let behind = &bytes[start.saturating_sub(BEHIND)..start];
            let window = window(bytes, start);
            let hit = self.shapes.check(anchor.pattern().as_usize(), behind, window);
            if let Some(hit) = hit {
                let own = known.filter(|own| own.end <= start + window.len());
                return self.take(hit.with(own, start), bytes, from, start, out);
            }
            at = start + 1;
        }
        out.extend_from_slice(&bytes[from..sure]);
        sure
    }

    fn take(
        &mut self,
        hit: Hit,
        bytes: &[u8],
        from: usize,
        start: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        out.extend_from_slice(&bytes[from..start + hit.keep]);
        out.extend_from_slice(MASK.as_bytes());
        self.tally.count(hit.finding);
        self.mode = match hit.then {
            Tail::None => Mode::Looking,
            Tail::Run(class) => Mode::Run(class),
            Tail::Block => Mode::Block(BLOCK_MAX),
        };
        start + hit.keep + hit.len
    }

    fn run(&mut self, class: Class, bytes: &[u8], from: usize) -> usize {
        let more = bytes[from..].iter().take_while(|byte| class.has(**byte)).count();
        if from + more < bytes.len() {
            self.mode = Mode::Looking;
        }
        from + more
    }

    fn block(&mut self, left: usize, bytes: &[u8], from: usize, last: bool) -> usize {
        let ahead = &bytes[from..];
        let within = &ahead[..ahead.len().min(left + BLOCK_END.len())];
        let end = within.windows(BLOCK_END.len()).position(|part| part == BLOCK_END);
        if let Some(end) = end {
            self.mode = Mode::Run(Class::BlockEnd);
            return from + end + BLOCK_END.len();
        }
        if ahead.len() >= left + BLOCK_END.len() {
            self.mode = Mode::Looking;
            return from + left;
        }
        // The end may begin in what came last.
        let over = if last { ahead.len() } else { ahead.len().saturating_sub(BLOCK_END.len() - 1) };
        let over = over.min(left);
        self.mode = if last { Mode::Looking } else { Mode::Block(left - over) };
        from + over
    }
}

/// The place up to which everything can be told: no decision looks past the end of a line.
fn horizon(bytes: &[u8]) -> usize {
    let far = bytes.len().saturating_sub(AHEAD);
    let line = bytes[far..].iter().rposition(|byte| *byte == b'\n');
    line.map_or(far, |at| far + at + 1)
}

/// What a decision may look at.
fn window(bytes: &[u8], start: usize) -> &[u8] {
    let ahead = &bytes[start..bytes.len().min(start + AHEAD)];
    let line = ahead.iter().position(|byte| *byte == b'\n');
    line.map_or(ahead, |end| &ahead[..end])
}
