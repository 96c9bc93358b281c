//! Lines out of pieces that end anywhere, each of a bounded length.

/// Bytes of one line. No event of a known program is near it, and what is longer is none.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Puts the lines of one stream together.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    /// Whether the line that was begun is too long already: the rest of it is passed over.
    too_long: bool,
}

/// What a piece completes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line, without its end.
    Whole(&'a [u8]),
    /// One that was too long, and was dropped.
    TooLong,
}

impl Lines {
    /// Calls `each` with every line that the piece completes.
    pub(super) fn feed(&mut self, piece: &[u8], mut each: impl FnMut(Line<'_>)) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                Some(_) | None => (part, false),
            };
            if self.too_long || self.begun.len() + text.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.begun.clear();
            } else {
                self.begun.extend_from_slice(text);
            }
            if ends {
                self.end(&mut each);
            }
        }
    }

    /// The end of the stream ends a line, too.
    pub(super) fn rest(&mut self, mut each: impl FnMut(Line<'_>)) {
        if self.too_long || !self.begun.is_empty() {
            self.end(&mut each);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(Line<'_>)) {
        if self.too_long {
            each(Line::TooLong);
        } else {
            each(Line::Whole(&self.begun));
        }
        self.too_long = false;
        self.begun.clear();
    }
}
