//! What `baton init` puts into a repository, so that the agent programs that are found work with
//! Baton: planned whole, shown before it is done, marked, and taken back to the byte.
//!
//! Everything that is put somewhere is text in one file, in one place or in several. The record of it
//! says exactly which text it was, so taking it back is cutting out just that; if it is no longer there as
//! it was written, somebody has changed it, and it is theirs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use place::{Placed, place};
use record::Record;

pub use pieces::{PROJECT_FILE, Piece, pieces, project_name};
pub use record::RECORD;

mod json;
mod pieces;
mod place;
mod record;
mod write;

/// An agent program that can work with Baton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

/// All of them, in the order in which they are told.
pub const AGENTS: [Agent; 4] = [Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Opencode];

/// Bytes of the largest file that is changed: more is no settings of anybody.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which, relative to the root.
    pub path: String,
    /// What it is for, in a few words.
    pub what: &'static str,
    /// What happens.
    pub step: Step,
}

/// What happens to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is made.
    Make(Placed),
    /// Something is put into it.
    Put(Placed),
    /// What was put into it is brought up to date.
    Renew(Placed),
    /// What was put into it is there, as it should be.
    Keep,
    /// What was put into it is taken out.
    Take {
        /// The file as it will be; none if it was made for this alone, and goes.
        rest: Option<String>,
        /// What goes.
        text: String,
    },
    /// It is left alone.
    Leave(Why),
}

/// Why a file is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody has changed what was put there.
    Changed,
    /// Something of the name is there, and it is not ours.
    Foreign,
    /// It cannot be read as what it should be.
    Unreadable,
    /// It is a link, and what it leads to may be anywhere.
    Link,
}

/// What is to happen, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// File by file.
    pub changes: Vec<Change>,
    record: Record,
}

/// Why nothing could be planned or done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not to be had.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// The record says nothing.
    #[error(
        "{RECORD} cannot be read: put it back from git, or delete it and take the rest out by hand"
    )]
    Record,
}

impl Agent {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Those that can be started from these folders.
    #[must_use]
    pub fn found(folders: &[PathBuf]) -> Vec<Self> {
        let is_there =
            |agent: &Self| folders.iter().any(|folder| is_program(&folder.join(agent.name())));
        AGENTS.into_iter().filter(is_there).collect()
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// The folder that a project is about: the repository around, or this folder.
#[must_use]
pub fn root(here: &Path) -> PathBuf {
    let around = here.ancestors().find(|folder| is_repository(folder));
    around.unwrap_or(here).to_path_buf()
}

/// Whether git would say so: a folder that is only called like its own is none.
#[must_use]
pub fn is_repository(folder: &Path) -> bool {
    let git = folder.join(".git");
    git.is_file() || git.join("HEAD").exists()
}

/// What the project around a folder is called, if its file says so.
#[must_use]
pub fn project_of(here: &Path) -> Option<String> {
    match file(&root(here), PROJECT_FILE) {
        Ok(File::Text(text)) => project_name(&text),
        Ok(File::Absent | File::Link) | Err(_) => None,
    }
}

/// How a repository is that was set up: every file that is not as it should be, and why. None if it
/// was never set up.
#[must_use]
pub fn examined(here: &Path, agents: &[Agent]) -> Option<Vec<(String, String)>> {
    let root = root(here);
    if !root.join(RECORD).exists() {
        return None;
    }
    let name = project_of(here).unwrap_or_else(|| usual_name(&root));
    let plan = match plan(&root, &pieces(&name, agents, is_repository(&root))) {
        Ok(plan) => plan,
        Err(error) => return Some(vec![(RECORD.to_owned(), error.to_string())]),
    };
    let wrong = plan.changes.into_iter().filter_map(|change| {
        let why = match change.step {
            Step::Keep => return None,
            Step::Leave(why) => why.to_string(),
            Step::Make(_) | Step::Put(_) | Step::Take { .. } => {
                format!("{} is missing", change.what)
            }
            Step::Renew(_) => "it is of another version of baton".to_owned(),
        };
        Some((change.path, why))
    });
    Some(wrong.collect())
}

/// What a project is called if nobody says: its folder, in letters that a name may have.
#[must_use]
pub fn usual_name(root: &Path) -> String {
    let folder =
        root.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_lowercase());
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = folder.chars().map(plain).take(32).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "project".to_owned() } else { name.to_owned() }
}

/// Plans to put these pieces where they belong.
pub fn plan(root: &Path, pieces: &[Piece]) -> Result<Plan, Error> {
    let before = Record::read(root)?;
    let mut record = before.clone();
    let mut changes = vec![];
    for piece in pieces {
        let step = match (file(root, piece.path)?, before.of(piece.path)) {
            (File::Link, _) => Step::Leave(Why::Link),
            (File::Text(text), Some(placed)) if placed.is_in(&text) => {
                let rest = placed.out_of(&text);
                match place(piece, placed.made, Some(&rest)) {
                    Ok(again) if again.meaning == placed.meaning => Step::Keep,
                    Ok(again) => Step::Renew(again),
                    Err(why) => Step::Leave(why),
                }
            }
            (File::Text(_), Some(_)) => Step::Leave(Why::Changed),
            (File::Text(text), None) => {
                place(piece, false, Some(&text)).map_or_else(Step::Leave, Step::Put)
            }
            (File::Absent, _) => place(piece, true, None).map_or_else(Step::Leave, Step::Make),
        };
        if let Step::Make(placed) | Step::Put(placed) | Step::Renew(placed) = &step {
            record.put(piece.path, placed);
        }
        changes.push(Change { path: piece.path.to_owned(), what: piece.what, step });
    }
    Ok(Plan { changes, record })
}

/// Plans to take back everything that the record knows of.
pub fn plan_back(root: &Path) -> Result<Plan, Error> {
    let before = Record::read(root)?;
    let mut record = before.clone();
    let mut changes = vec![];
    for (path, placed) in before.all() {
        let step = match file(root, path)? {
            File::Link => Step::Leave(Why::Link),
            File::Absent => {
                record.forget(path);
                continue;
            }
            File::Text(text) if placed.is_in(&text) => {
                let rest = placed.out_of(&text);
                record.forget(path);
                let gone = placed.made && rest == placed.skeleton;
                Step::Take { rest: (!gone).then_some(rest), text: placed.shown() }
            }
            File::Text(_) => Step::Leave(Why::Changed),
        };
        changes.push(Change { path: path.to_owned(), what: "what baton init put there", step });
    }
    Ok(Plan { changes, record })
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let still = |change: &Change| matches!(change.step, Step::Keep | Step::Leave(_));
        self.changes.iter().all(still)
    }

    /// Whether something is left as it is although it is not as it should be.
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.step, Step::Leave(_)))
    }

    /// Does it. What was done before a failure is in the record, and can be taken back.
    pub fn carry_out(mut self, root: &Path) -> Result<(), Error> {
        let mut folders = self.record.folders.clone();
        for change in &self.changes {
            let path = root.join(&change.path);
            match &change.step {
                Step::Make(placed) | Step::Put(placed) | Step::Renew(placed) => {
                    folders.extend(write::folders(root, &path)?);
                    write::file(&path, &placed.whole)?;
                }
                Step::Take { rest: Some(rest), .. } => write::file(&path, rest)?,
                Step::Take { rest: None, .. } => write::gone(&path)?,
                Step::Keep | Step::Leave(_) => {}
            }
        }
        folders.extend(write::folders(root, &root.join(RECORD))?);
        self.record.folders = folders;
        self.record.write(root)
    }
}

enum File {
    Absent,
    Link,
    Text(String),
}

fn file(root: &Path, path: &str) -> Result<File, Error> {
    let path = root.join(path);
    let failed = |error| Error::File(path.clone(), error);
    match path.symlink_metadata() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(File::Absent)
        }
        Err(error) => Err(failed(error)),
        Ok(about) if about.is_symlink() => Ok(File::Link),
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            Err(failed(io::Error::other("it is too large")))
        }
        Ok(_) => std::fs::read_to_string(&path).map(File::Text).map_err(failed),
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "somebody has changed what baton put there",
            Self::Foreign => "something called baton is there, and baton did not put it there",
            Self::Unreadable => "it cannot be read as what it should be",
            Self::Link => "it is a link",
        })
    }
}

#[cfg(test)]
mod tests;
