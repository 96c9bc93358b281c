//! The record of what was put where, in the repository itself, so that whoever has a clone can take it
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::place::Placed;
use super::{Error, write};

/// Where it is.
pub const RECORD: &str = ".baton/installed.json";

/// Everything that was put somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    files: BTreeMap<String, Entry>,
    /// Folders that were made, to be taken away when they are empty.
    pub folders: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    made: bool,
    skeleton: String,
    meaning: String,
    sha256: String,
    /// The first of the texts; most pieces have one.
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<String>,
}

impl Entry {
    fn texts(&self) -> Vec<String> {
        [&self.text].into_iter().chain(&self.more).cloned().collect()
    }

    fn of(placed: &Placed) -> Self {
        let Placed { made, skeleton, texts, meaning, .. } = placed.clone();
        let sha256 = digest(&texts.concat());
        let mut texts = texts.into_iter();
        let text = texts.next().unwrap_or_default();
        Self { made, skeleton, meaning, sha256, text, more: texts.collect() }
    }
}

impl Record {
    pub fn read(root: &Path) -> Result<Self, Error> {
        let path = root.join(RECORD);
        match fs::read(&path) {
            Ok(bytes) => {
                let record: Self = serde_json::from_slice(&bytes).map_err(|_| Error::Record)?;
                let whole = |entry: &Entry| entry.sha256 == digest(&entry.texts().concat());
                if record.files.values().all(whole) { Ok(record) } else { Err(Error::Record) }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::File(path, error)),
        }
    }

    pub fn of(&self, path: &str) -> Option<Placed> {
        let entry = self.files.get(path)?;
        let (texts, whole) = (entry.texts(), String::new());
        let Entry { made, skeleton, meaning, .. } = entry.clone();
        Some(Placed { made, skeleton, texts, meaning, whole })
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, Placed)> {
        self.files.keys().filter_map(|path| Some((path.as_str(), self.of(path)?)))
    }

    pub fn put(&mut self, path: &str, placed: &Placed) {
        self.files.insert(path.to_owned(), Entry::of(placed));
    }

    pub fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// Writes it; an empty one goes, with the folders that were made and are empty by now.
    pub fn write(&self, root: &Path) -> Result<(), Error> {
        let path = root.join(RECORD);
        if !self.files.is_empty() {
            let text = serde_json::to_string_pretty(self).expect("texts and flags are JSON");
            return write::file(&path, &(text + "\n"));
        }
        write::gone(&path)?;
        // The deepest first: a folder in another one sorts behind it.
        for folder in self.folders.iter().rev() {
            // One that somebody else uses meanwhile stays.
            drop(fs::remove_dir(root.join(folder)));
        }
        Ok(())
    }
}

/// The digest of a text, in hex.
pub fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
