//! The bytes of one file, in pages that copies share until one of them writes.

use std::sync::Arc;

/// The unit in which a power cut tears a write.
pub(super) const SECTOR: usize = 512;

/// The unit of sharing; a database page is most often as large.
const PAGE: usize = 4_096;

type Page = [u8; PAGE];

/// The bytes of a file; a clone costs one pointer per page.
#[derive(Clone, Default)]
pub(super) struct Contents {
    // What lies past `len` in the last page is zero, so that growing never shows old bytes.
    pages: Vec<Arc<Page>>,
    len: usize,
}

impl Contents {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills `into` from `offset` on and says how many bytes the file had there; the rest is zero.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let there = self.len.saturating_sub(offset).min(into.len());
        let (found, missing) = into.split_at_mut(there);
        missing.fill(0);
        for (page, within, part) in pieces(offset, there, PAGE) {
            let size = part.len();
            found[part].copy_from_slice(&self.pages[page][within..within + size]);
        }
        there
    }

    /// Writes `data` at `offset`; a gap between the old end and `offset` reads as zero.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.grow(offset + data.len());
        for (page, within, part) in pieces(offset, data.len(), PAGE) {
            let size = part.len();
            Arc::make_mut(&mut self.pages[page])[within..within + size]
                .copy_from_slice(&data[part]);
        }
    }

    /// Makes the file `len` bytes long, cutting it or adding zeros.
    pub(super) fn set_len(&mut self, len: usize) {
        if len < self.len {
            self.pages.truncate(len.div_ceil(PAGE));
            if let Some(last) = self.pages.last_mut().filter(|_| !len.is_multiple_of(PAGE)) {
                Arc::make_mut(last)[len % PAGE..].fill(0);
            }
            self.len = len;
        } else {
            self.grow(len);
        }
    }

    /// Gives all bytes in one piece.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    fn grow(&mut self, len: usize) {
        if len > self.len {
            self.pages.resize_with(len.div_ceil(PAGE), || Arc::new([0; PAGE]));
            self.len = len;
        }
    }
}

/// Cuts `len` bytes at `offset` where blocks of `size` meet: block, place in it, part of the bytes.
pub(super) fn pieces(
    offset: usize,
    len: usize,
    size: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (block, within) = ((offset + at) / size, (offset + at) % size);
        let part = at..len.min(at + size - within);
        at = part.end;
        (!part.is_empty()).then_some((block, within, part))
    })
}
