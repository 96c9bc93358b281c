//! Where in a file a piece goes, and what the file is then. Everything else in it stays as it is, to
//! the byte.

use super::pieces::{Form, Member, Piece};
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
    /// Exactly what was put there, in the order in which it was.
    pub texts: Vec<String>,
    /// A digest of what it says, wherever it stands.
    pub meaning: String,
    /// The file with it.
    pub whole: String,
}

impl Placed {
    /// Whether it is there as it was put.
    pub fn is_in(&self, text: &str) -> bool {
        self.texts.iter().all(|own| text.contains(own))
    }

    /// The file without it.
    pub fn out_of(&self, text: &str) -> String {
        // What came later may lean on what came first.
        self.texts.iter().rev().fold(text.to_owned(), |text, own| text.replacen(own, "", 1))
    }

    /// What was put there, for people.
    pub fn shown(&self) -> String {
        let texts: Vec<_> = self.texts.iter().map(|text| text.trim_matches('\n')).collect();
        texts.join("\n")
    }
}

/// Puts a piece into a file that is there, or into one that is made for it.
pub fn place(piece: &Piece, made: bool, file: Option<&str>) -> Result<Placed, Why> {
    let skeleton = match piece.form {
        Form::Whole(_) | Form::Html(_) | Form::Hash(_) => "",
        Form::Members(_) => "{}\n",
    };
    let mut whole = file.unwrap_or(skeleton).to_owned();
    let mut texts = vec![];
    let mut put = |whole: &mut String, (at, text): (usize, String)| {
        whole.insert_str(at, &text);
        texts.push(text);
    };
    match &piece.form {
        Form::Whole(_) if !whole.is_empty() => return Err(Why::Foreign),
        Form::Whole(text) => put(&mut whole, (0, text.clone())),
        Form::Html(text) => {
            let place = block(&whole, ["<!-- ", " -->"], text)?;
            put(&mut whole, place);
        }
        Form::Hash(text) => {
            if tables(text).any(|name| tables(&whole).any(|own| own == name)) {
                return Err(Why::Foreign);
            }
            let place = block(&whole, ["# ", ""], text)?;
            put(&mut whole, place);
        }
        Form::Members(members) => {
            for Member { path, key, value } in members {
                let place = json::insertion(&whole, path, *key, value)?;
                put(&mut whole, place);
            }
        }
    }
    let (skeleton, meaning) = (skeleton.to_owned(), piece.meaning());
    Ok(Placed { made, skeleton, texts, meaning, whole })
}

/// Tables that a file of TOML has by name: each may stand there once.
fn tables(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| line.starts_with('[') && !line.starts_with("[["))
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
