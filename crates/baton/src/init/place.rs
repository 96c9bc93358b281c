//! Where in a file a piece goes, and what the file is then. Everything else in it stays as it is, to
//! the byte.

use super::pieces::{Form, Piece};
use super::record::digest;
use super::{Why, json};

/// Digits of the hash in a mark: enough to notice a change, short enough to read over.
const MARK_DIGITS: usize = 12;

/// A piece in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Whether the file was made for it.
    pub made: bool,
    /// What such a file is without it.
    pub skeleton: String,
    /// Exactly what was put there.
    pub text: String,
    /// A digest of what it says, wherever it stands.
    pub meaning: String,
    /// The file with it.
    pub whole: String,
}

impl Placed {
    /// Whether it is there as it was put.
    pub fn is_in(&self, text: &str) -> bool {
        text.contains(&self.text)
    }

    /// The file without it.
    pub fn out_of(&self, text: &str) -> String {
        text.replacen(&self.text, "", 1)
    }
}

/// Puts a piece into a file that is there, or into one that is made for it.
pub fn place(piece: &Piece, made: bool, file: Option<&str>) -> Result<Placed, Why> {
    let skeleton = match piece.form {
        Form::Whole(_) | Form::Html(_) | Form::Hash(_) => "",
        Form::Member { .. } => "{}\n",
    };
    let before = file.unwrap_or(skeleton);
    let (at, text) = match &piece.form {
        Form::Whole(_) if !before.is_empty() => return Err(Why::Foreign),
        Form::Whole(text) => (0, text.clone()),
        Form::Html(text) => block(before, ["<!-- ", " -->"], text)?,
        Form::Hash(text) => block(before, ["# ", ""], text)?,
        Form::Member { path, key, value } => json::insertion(before, path, *key, value)?,
    };
    let whole = format!("{}{text}{}", &before[..at], &before[at..]);
    let (skeleton, meaning) = (skeleton.to_owned(), piece.meaning());
    Ok(Placed { made, skeleton, text, meaning, whole })
}

/// A block between two marks at the end of a file.
fn block(before: &str, [open, close]: [&str; 2], text: &str) -> Result<(usize, String), Why> {
    if before.contains(&format!("{open}baton:begin")) {
        return Err(Why::Foreign);
    }
    let gap = match before {
        "" => "",
        whole if whole.ends_with("\n\n") => "",
        whole if whole.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let hash = &digest(text)[..MARK_DIGITS];
    let block = format!("{gap}{open}baton:begin {hash}{close}\n{text}{open}baton:end{close}\n");
    Ok((before.len(), block))
}
