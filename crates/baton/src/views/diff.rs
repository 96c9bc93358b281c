//! What an attempt changed, as callers see it.

use baton_domain::ids::{AttemptId, RunId};
use baton_domain::text::Text;

use crate::shape::record;

/// Files that one answer lists.
pub const DIFF_FILES_MAX: usize = 500;
/// Bytes of the patches of one answer.
pub const PATCH_BYTES_MAX: usize = 1 << 20;

record! {
    /// A file that has changed.
    pub struct FileChange {
        /// What it is called now.
        path: String,
        /// What it was called before, if it was called otherwise.
        from: Option<String>,
        /// Lines that are new; none if it is no text.
        added: Option<u64>,
        /// Lines that are gone; none if it is no text.
        removed: Option<u64>,
    }

    /// What the work on a run changed over what it began from, as far as the server has it.
    pub struct DiffView {
        /// Of which run.
        run: RunId,
        /// Of which attempt; none if no work was brought to the server.
        attempt: Option<AttemptId>,
        /// The commit that it began from.
        base: Option<Text<64>>,
        /// The commit that holds the work.
        snapshot: Option<Text<64>>,
        /// The files, by their names.
        #[at_most(DIFF_FILES_MAX)]
        items: Vec<FileChange>,
        /// Files beyond those.
        dropped: u64,
        /// Lines that are new, in all files.
        added: u64,
        /// Lines that are gone, in all files.
        removed: u64,
        /// The patch, as `git apply` reads it; absent where it was not asked for, or does not fit.
        #[at_most(PATCH_BYTES_MAX)]
        patch: Option<String>,
        /// Files whose patches do not fit: ask for each with `path`.
        unshown: u64,
    }
}
