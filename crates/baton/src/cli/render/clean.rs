//! Takes out of a text everything that would steer a terminal or hide something from its reader.

/// Whether a character shows nothing by itself: controls, marks that turn the direction of writing
/// around, and marks without width that can carry a hidden text.
pub(in crate::cli) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

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
