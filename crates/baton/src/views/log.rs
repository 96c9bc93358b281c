//! What an agent said, as callers see it.

use baton_domain::ids::{AttemptId, RunId};

use crate::shape::{When, record, words};

/// Lines that one answer may have, and one frame.
pub const LOG_LINES_MAX: usize = 500;
/// Bytes of one line: longer ones were cut when they were read.
pub const LOG_LINE_BYTES_MAX: usize = 8_192;

words! {
    /// Whose line of a log it is.
    pub enum LogVoice {
        /// The agent speaks.
        Said = "said",
        /// It uses a tool.
        Tool = "tool",
        /// What a tool printed.
        Output = "output",
        /// Its program complains, or something went wrong.
        Error = "error",
    }
}

record! {
    /// One line of what an agent said.
    pub struct LogLine {
        /// Its number among all lines of the attempt, from 1.
        number: u64,
        /// When it was said, on the clock of the worker.
        at: When,
        /// Whose line it is.
        voice: LogVoice,
        /// What was said, without its secrets.
        #[at_most(LOG_LINE_BYTES_MAX)]
        text: String,
    }

    /// What the agent of an attempt said, as far as the server has it.
    pub struct LogView {
        /// Of which run.
        run: RunId,
        /// Of which attempt; none if nobody has begun.
        attempt: Option<AttemptId>,
        /// Whether its agent may still say something.
        live: bool,
        /// Whether its worker was asked just now; otherwise these are the lines that it brought last.
        fresh: bool,
        /// The lines, the oldest first.
        #[at_most(LOG_LINES_MAX)]
        items: Vec<LogLine>,
        /// Name it as `after` to go on: the number of the last line that was told, or of the last one there is.
        last: u64,
        /// Lines before these that the answer leaves out, or that nobody has any more.
        dropped: u64,
        /// When the worker brought them, if it was not asked just now.
        brought_at: Option<When>,
    }
}
