//! Blobs beside a copy of the database, in a folder of its name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use baton_store::blobs::{self, Copied};
use clap::{Arg, ArgMatches, value_parser};
use serde_json::{Value, json};

use crate::client::Failure;
use crate::problem::Problem;
use crate::surroundings::blobs_in;

use super::super::Session;

/// What stands at the end of the name of the folder.
const SUFFIX: &str = ".blobs";
/// The same as long as it is not whole.
const PARTIAL: &str = ".blobs.partial";

/// Where blobs are, if the environment does not say.
pub(super) fn place_flag() -> Arg {
    let help = "Where blobs are (BATON_BLOBS_DIR) [default: blobs in the data folder]";
    Arg::new("blobs")
        .long("blobs")
        .value_name("DIR")
        .help(help)
        .value_parser(value_parser!(PathBuf))
}

/// Where blobs are.
pub(super) fn place(session: &Session<'_>, asked: &ArgMatches, folder: &Path) -> PathBuf {
    let said = asked.get_one::<PathBuf>("blobs").or(session.around.blobs.as_ref());
    said.cloned().unwrap_or_else(|| blobs_in(folder))
}

/// The blobs that belong to a copy.
pub(super) struct Beside {
    copy: PathBuf,
    draft: PathBuf,
    place: PathBuf,
}

/// What became of them.
#[derive(Default)]
pub(super) struct Moved {
    folder: PathBuf,
    copied: Option<Copied>,
}

impl Beside {
    /// Those of the copy of this name, and where they are from or go to.
    pub(super) fn new(file: &Path, place: PathBuf) -> Self {
        let beside = |suffix| {
            let mut name = OsString::from(file);
            name.push(suffix);
            PathBuf::from(name)
        };
        Self { copy: beside(SUFFIX), draft: beside(PARTIAL), place }
    }

    /// Refuses to write over those of another copy.
    pub(super) fn is_free(&self) -> Result<(), Failure> {
        if self.copy.symlink_metadata().is_err() {
            return Ok(());
        }
        let detail = format!("{} exists already: choose another name", self.copy.display());
        Err(Problem::new("name_taken", detail).into())
    }

    /// Copies all blobs. The copy gets its name once it is whole; half of one is gone on with.
    pub(super) fn back_up(&self) -> Result<Moved, Failure> {
        if self.place.symlink_metadata().is_err() {
            return Ok(Moved::default());
        }
        let copied = self.copy(&self.place, &self.draft)?;
        let named = fs::rename(&self.draft, &self.copy).and_then(|()| {
            let parent = self.copy.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all())
        });
        named.map_err(|error| failed(&format!("{}: {error}", self.copy.display())))?;
        Ok(Moved { folder: self.copy.clone(), copied: Some(copied) })
    }

    /// Brings them back, if there are any. What is there stays.
    pub(super) fn bring_back(&self) -> Result<Moved, Failure> {
        if self.copy.symlink_metadata().is_err() {
            return Ok(Moved::default());
        }
        let copied = self.copy(&self.copy, &self.place)?;
        Ok(Moved { folder: self.copy.clone(), copied: Some(copied) })
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<Copied, Failure> {
        blobs::copy(from, to).map_err(|error| {
            let because = std::error::Error::source(&error);
            let because = because.map(|source| format!(": {source}")).unwrap_or_default();
            failed(&format!("{error}{because}"))
        })
    }
}

/// The database is copied or still as it was; that its blobs are not must not be overlooked.
fn failed(why: &str) -> Failure {
    let detail = format!("the blobs were not copied: {why}");
    Problem::new("internal", detail).next("baton doctor").into()
}

impl Moved {
    /// For programs.
    pub(super) fn body(&self) -> Value {
        let Some(copied) = self.copied else { return Value::Null };
        json!({
            "folder": self.folder.display().to_string(),
            "count": copied.blobs, "bytes": copied.bytes, "damaged": copied.damaged,
        })
    }

    /// For people: what `became` of them.
    pub(super) fn told(&self, became: &str) -> String {
        let Some(copied) = self.copied else { return "There are no blobs with it.\n".to_owned() };
        let (blobs, mib, folder) = (copied.blobs, copied.bytes >> 20, self.folder.display());
        let mut told = format!("Blobs that {became} {folder}: {blobs}, {mib} MiB.\n");
        if self.is_damaged() {
            let damaged = copied.damaged;
            told.push_str(&format!("Damaged and left out: {damaged}; the log says which.\n"));
        }
        told
    }

    /// Whether some were damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.copied.is_some_and(|copied| copied.damaged > 0)
    }
}
