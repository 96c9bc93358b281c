//! The repository that a project has on this machine. It is its owner's: it is asked for names, its objects
//! are read as data, and nothing of it is changed besides the branches that Baton calls its own.

use std::path::{Path, PathBuf};

use super::beneath::Root;
use super::git::Call;
use super::{Error, Git, Oid};

/// Bytes of the file that leads from a linked checkout to its repository.
const POINTER_BYTES_MAX: u64 = 16 << 10;

/// A repository of somebody.
#[derive(Clone, Debug)]
pub struct Repository {
    git: Git,
    root: PathBuf,
    git_dir: PathBuf,
    common: PathBuf,
}

impl Repository {
    /// The repository of this folder. Nobody's settings say where it is: a repository that sits in a
    /// subfolder of another is found where it is named, or not at all.
    ///
    /// # Errors
    /// If there is none, or if its history is cut.
    pub fn at(git: &Git, root: &Path) -> Result<Self, Error> {
        let none = || Error::NotARepository(root.to_path_buf());
        let root = root.canonicalize().map_err(|_| none())?;
        let git_dir = git_dir(&root).ok_or_else(none)?;
        let call = git.call(&git_dir, "rev-parse");
        let ended = call.args(["--is-shallow-repository", "--git-common-dir"]).ends()?;
        let said = String::from_utf8_lossy(&ended.out).into_owned();
        let mut lines = said.lines();
        let (shallow, common) = (lines.next(), lines.next());
        let common = common.filter(|_| ended.code == Some(0)).ok_or_else(none)?;
        if shallow == Some("true") {
            return Err(Error::Shallow(root));
        }
        let common = git_dir.join(common);
        Ok(Self { git: git.clone(), root, git_dir, common })
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    pub(super) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    pub(super) fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }

    /// What its owner does not want to see in lists, besides what the tree says.
    pub(super) fn exclude(&self) -> PathBuf {
        self.common.join("info/exclude")
    }

    /// The commit that a name stands for: `HEAD`, a branch, a tag.
    ///
    /// # Errors
    /// If it stands for none.
    pub fn resolve(&self, name: &str) -> Result<Oid, Error> {
        let none = || Error::NoCommit(name.to_owned());
        if name.starts_with('-') {
            return Err(none());
        }
        let call = self.call("rev-parse").args(["--verify", "--quiet"]);
        let ended = call.arg(format!("{name}^{{commit}}")).ends()?;
        Oid::said(&ended.out).filter(|_| ended.code == Some(0)).ok_or_else(none)
    }

    /// What the branch that is checked out is called; none if no branch is.
    ///
    /// # Errors
    /// If git does not say.
    pub fn branch(&self) -> Result<Option<String>, Error> {
        let ended = self.call("symbolic-ref").args(["--quiet", "--short", "HEAD"]).ends()?;
        let name = String::from_utf8(ended.out).ok().map(|name| name.trim_end().to_owned());
        Ok(name.filter(|name| ended.code == Some(0) && !name.is_empty()))
    }

    /// Where a ref stands, if it is there.
    pub(super) fn find(&self, name: &str) -> Result<Option<Oid>, Error> {
        let said =
            self.call("for-each-ref").args(["--format=%(objectname) %(refname)", name]).run()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut all = said.lines().filter_map(|line| line.split_once(' '));
        Ok(all.find(|(_, own)| *own == name).and_then(|(oid, _)| oid.parse().ok()))
    }

    /// Which folder has a branch checked out.
    pub(super) fn checked_out(&self, branch: &str) -> Result<Option<PathBuf>, Error> {
        let said = self.call("worktree").args(["list", "--porcelain"]).run()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut place = PathBuf::new();
        for line in said.lines() {
            if let Some(path) = line.strip_prefix("worktree ") {
                place = path.into();
            }
            if line.strip_prefix("branch ") == Some(branch) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Calls git for names alone: nothing that looks at files or objects goes through here.
    pub(super) fn call<'a>(&self, what: &str) -> Call<'a> {
        self.git.call(&self.git_dir, what)
    }
}

/// Where the repository of a folder is.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let own = root.join(".git");
    if own.is_dir() {
        return Some(own);
    }
    if own.is_file() {
        let bytes = Root::open(root).ok()?.read(Path::new(".git"), POINTER_BYTES_MAX).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        return Some(root.join(text.strip_prefix("gitdir: ")?.trim_end_matches('\n')));
    }
    let bare = ["HEAD", "objects", "refs"].iter().all(|name| root.join(name).exists());
    bare.then(|| root.to_path_buf())
}
