//! Folders that agents work in, and everything that Baton asks of git.
//!
//! A worktree is a repository of its own, private to one task and one generation: an agent that rewrites
//! its settings, hooks or branches touches nobody else's. What it borrows are the objects of a *depot*, a
//! bare repository per project that Baton makes, whose settings Baton writes, and under whose settings
//! alone git looks at an agent's files. What an agent wrote is read by us, through descriptors, and handed
//! to git as data.
//!
//! A snapshot is a commit of the files as they are, over the commits that the agent made. It is kept in
//! the depot under `refs/baton/<deployment>/<tenant>.<task>/<attempt>/<n>`, and travels as a bundle.
//!
//! Everything here blocks, and nothing here knows the server: a worker calls it beside its runtime.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) mod beneath;
mod branch;
mod bundle;
mod checkout;
mod compare;
mod create;
mod depot;
mod files;
mod git;
mod handed;
mod house;
mod include;
mod keep;
mod landing;
mod merge;
mod names;
mod oid;
mod plain;
mod ports;
mod record;
mod refs;
mod repository;
mod scan;
mod snapshot;
mod stats;

pub use branch::{Moved, task_branch};
pub use checkout::take_away;
pub use compare::{Changed, Compared, Look, Room, compare};
pub use create::{Plan, Prepared, Ran, SETUP_MAX, STEPS, Setup, Source, Step};
pub use depot::Depot;
pub use files::Files;
pub use git::Git;
pub use handed::BASE_BYTES_MAX;
pub use house::{Held, House, UNPROVED, Worktree};
pub use include::Included;
pub use keep::{Fate, Last, Listed, Pruned, Released, Restored};
pub use merge::{Clash, Joined, Work};
pub use names::{Key, of_task, plain};
pub use oid::Oid;
pub use plain::{Plain, of_generation};
pub use ports::{PORTS_FIRST, PORTS_PER_SLOT, Ports, SLOTS_MAX};
pub use record::State;
pub use repository::Repository;
pub use scan::{Left, LeftOut};
pub use snapshot::{Snapshot, Taken};

/// Why something about a worktree could not be done. Nothing of anybody's work was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no git here.
    #[error("git is not on PATH")]
    NoGit,
    /// It is too old.
    #[error("{found} is too old: {}.{} is needed", needed.0, needed.1)]
    OldGit { found: String, needed: AtLeast },
    /// Git refused, or broke.
    #[error("git {what} failed ({code}): {said}", code = code.map_or("killed".to_owned(), |code| code.to_string()))]
    Git { what: String, code: Option<i32>, said: String },
    /// Git did not end.
    #[error("git {what} did not end within {} s and was killed", limit.as_secs())]
    TooSlow { what: String, limit: Duration },
    /// Git said more than anybody should read.
    #[error("git {what} said more than {bytes_max} bytes")]
    TooMuch { what: String, bytes_max: usize },
    /// A file or folder is not to be had.
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// The folder of a project is not under git.
    #[error("{} is not a git repository", .0.display())]
    NotARepository(PathBuf),
    /// History is cut, so that nothing can be built on it elsewhere.
    #[error("{} is a shallow clone", .0.display())]
    Shallow(PathBuf),
    /// A name that leads to no commit.
    #[error("there is no commit `{0}`")]
    NoCommit(String),
    /// A bundle builds on what is not here.
    #[error("the bundle builds on commits that are not here: {0}")]
    MissingBase(String),
    /// A bundle is not what it was said to be.
    #[error("the bundle does not hold {0}")]
    OtherBundle(Oid),
    /// Somebody works there.
    #[error("{} is in use", .0.display())]
    InUse(PathBuf),
    /// The folder may still be written by somebody whose death is not proved.
    #[error("{} is quarantined: {why}", folder.display())]
    Quarantined { folder: PathBuf, why: String },
    /// The folder is not the one that was made.
    #[error("{} is not the folder that was made for the task: workspace_changed", .0.display())]
    WorkspaceChanged(PathBuf),
    /// There is no such worktree.
    #[error("there is no worktree {0}")]
    NoWorktree(String),
    /// There is no such snapshot.
    #[error("there is no snapshot of {0}")]
    NoSnapshot(String),
    /// A command of the project failed while the worktree was made.
    #[error("setup command `{command}` failed ({}): {tail}", code.map_or("killed".to_owned(), |code| code.to_string()))]
    Setup { command: String, code: Option<i32>, tail: String },
    /// More commands than are run.
    #[error("{0} setup commands are too many: at most {max}", max = create::SETUP_MAX)]
    TooManyCommands(usize),
    /// A branch is not where it was believed to be.
    #[error("{branch} is at {}, not at {}", shown(found), shown(expected))]
    BranchMoved { branch: String, expected: Option<Oid>, found: Option<Oid> },
    /// Moving a branch would pull it away under somebody.
    #[error("{branch} is checked out in {}", place.display())]
    CheckedOut { branch: String, place: PathBuf },
    /// Moving a branch would lose what its owner has not committed.
    #[error("{}: {why}", place.display())]
    DirtyCheckout { place: PathBuf, why: String },
    /// What should be made is there.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
}

/// A version that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AtLeast(pub u32, pub u32);

fn shown(oid: &Option<Oid>) -> String {
    oid.as_ref().map_or("nothing".to_owned(), Oid::to_string)
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn next(&self) -> &'static str {
        match self {
            Self::NoGit => "install git 2.34 or newer, and put it on PATH",
            Self::OldGit { .. } => "install a newer git, and put it on PATH",
            Self::Git { .. } | Self::TooMuch { .. } => "baton doctor",
            Self::TooSlow { .. } => "try again when the machine is less busy",
            Self::File { .. } => "look at the rights and the free space of that folder",
            Self::NotARepository(_) => "git init && git add -A && git commit, in that folder",
            Self::Shallow(_) => "git fetch --unshallow, in that folder",
            Self::NoCommit(_) => "name a commit that is there; a new repository needs a first one",
            Self::MissingBase(_) => "send the bundle of the base first, or one without a base",
            Self::OtherBundle(_) => "fetch the bundle again: it is damaged, or another one",
            Self::InUse(_) => "wait until its worker is done, or stop it",
            Self::Quarantined { .. } => "look into the folder, then baton worktree release TASK",
            Self::WorkspaceChanged(_) => "take the next generation from the last snapshot",
            Self::NoWorktree(_) | Self::NoSnapshot(_) => "baton worktree list",
            Self::Setup { .. } => "put the command right in baton.toml, or what it needs",
            Self::TooManyCommands(_) => "put them into a script, and name that in baton.toml",
            Self::BranchMoved { .. } => "look at what moved it, then begin from where it is now",
            Self::CheckedOut { .. } => "git switch --detach, in that checkout",
            Self::DirtyCheckout { .. } => {
                "commit or stash what is changed there, or switch to another branch"
            }
            Self::Exists(_) => "name a folder that is not there yet",
        }
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |error| Self::File { path: path.to_path_buf(), error }
    }
}

#[cfg(test)]
mod tests;
