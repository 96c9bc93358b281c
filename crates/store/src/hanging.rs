//! What hangs on a chain besides its links: the rows that came with an entry, and what no link
//! covers. The same for every database.

use crate::chain::{Rows, wrote};
use crate::order::Actor;

/// What is said of checkpoints, attempts and runs that are not as they came.
pub(crate) const HISTORY_CHANGED: &str = "the history of the task was changed";

/// An entry, and what is needed to check what hangs on it.
pub(crate) struct Hanging<'a> {
    pub(crate) task: u64,
    /// Gone once the payload is erased.
    pub(crate) salt: Option<&'a [u8]>,
    pub(crate) wrote: &'a [u8],
    /// Whether the row of the task, or of the tenant's records, ends at this entry.
    pub(crate) is_head: bool,
    /// Whether a later entry of the same chain is kept.
    pub(crate) goes_on: bool,
}

impl Hanging<'_> {
    /// Every chain ends at the head of a row, and whatever came with an entry is as it came. Rows
    /// that are no longer as they came with this entry are left out.
    pub(crate) fn holds(&self, rows: &Rows) -> Option<&'static str> {
        if !self.is_head && !self.goes_on {
            return Some("a row and the end of its chain differ");
        }
        let salt = self.salt.filter(|_| self.task != 0)?;
        let (now, then) = (wrote(salt, rows), self.wrote);
        let differs = |part: usize, is_there: bool| {
            let of = |all: &[u8]| all.chunks(32).nth(part).map(<[u8]>::to_vec);
            is_there && of(&now) != of(then)
        };
        if differs(0, !rows.flow.is_empty()) {
            Some("the row of the task was changed")
        } else if differs(1, rows.brief.is_some()) {
            Some("the brief was changed")
        } else if differs(2, !rows.records.is_empty() || then.len() > 64) {
            Some(HISTORY_CHANGED)
        } else {
            None
        }
    }
}

/// What no link covers, because it only repeats or stands in for what a link does cover.
pub(crate) fn misfit(
    actor: &[u8],
    principal: &str,
    kept: bool,
    erased: bool,
) -> Option<&'static str> {
    if kept == erased {
        return Some("an entry has either a payload or the digest of an erased one");
    }
    match serde_json::from_slice::<Actor>(actor) {
        Ok(actor) if actor.principal.as_str() == principal => None,
        Ok(_) | Err(_) => Some("the principal is not the actor's"),
    }
}
