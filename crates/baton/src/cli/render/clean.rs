//! Takes out of a text everything that would steer a terminal or hide something from its reader.

pub(in crate::cli) use crate::shape::is_hidden;

/// A text on one line. What is left of an escape sequence stays in sight: whoever wrote it there
/// should be seen doing so.
pub(in crate::cli) fn line(text: &str) -> String {
    let spaced = text.chars().map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c });
    spaced.filter(|c| !is_hidden(*c)).collect()
}

/// A text on as many lines as it has.
pub(in crate::cli) fn lines(text: &str) -> String {
    let spaced = text.chars().map(|c| if c == '\t' { ' ' } else { c });
    spaced.filter(|c| *c == '\n' || !is_hidden(*c)).collect()
}
