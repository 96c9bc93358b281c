//! Places in the entries of a tenant, and when they are no longer good.

use crate::Error;

/// Part of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether there are more.
    pub more: bool,
    /// How far the list went when it was read: everything up to here has been seen.
    pub as_of: u64,
}

/// A place in the entries of a tenant, bound to one incarnation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Which life of the store; a restored one has another. Zero means: whichever it is.
    pub incarnation: u64,
    /// The last position that was seen.
    pub position: u64,
}

impl Cursor {
    /// Before everything that is kept: the one cursor that never expires, for it claims to have
    /// seen nothing.
    #[must_use]
    pub fn start() -> Self {
        Self { incarnation: 0, position: 0 }
    }
}

/// The position after which a reader goes on, given the life of the store, the position up to
/// which nothing is kept, and the last one. The same for every store; a tenant that nobody knows
/// is one without entries.
pub(crate) fn begin(
    after: Cursor,
    incarnation: u64,
    (floor, head): (u64, u64),
) -> Result<u64, Error> {
    if after == Cursor::start() {
        return Ok(floor);
    }
    let foreign = after.incarnation != 0 && after.incarnation != incarnation;
    // Whoever saw an empty tenant has seen up to zero, and misses what was dropped since.
    let lost = after.position < floor || after.position > head;
    if foreign || lost { Err(Error::CursorExpired { floor }) } else { Ok(after.position) }
}

#[cfg(test)]
mod tests;
