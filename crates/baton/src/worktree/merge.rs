//! Work brought together by objects alone: nothing is checked out, and nobody's settings are heard.

use std::path::Path;

use baton_domain::time::Timestamp;

use super::snapshot::Kept;
use super::{AtLeast, Depot, Error, Oid, Repository};

/// The first git that merges without a checkout.
const MERGES: AtLeast = AtLeast(2, 38);
/// Files of a conflict that are named; the others are counted.
const FILES_MAX: usize = 20;
/// Bytes of a conflict that are quoted: a screen or two.
const HUNKS_BYTES_MAX: usize = 1_200;
/// Bytes of one file that are looked at for a conflict.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Who signs what Baton commits.
const BATON: (&str, &str) = ("Baton", "baton@localhost");

/// What came of bringing two commits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// One tree.
    Tree(Oid),
    /// Both change the same.
    Clash(Clash),
}

/// Where two commits do not go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clash {
    /// The first files of it.
    pub files: Vec<String>,
    /// How many there are besides.
    pub more: usize,
    /// The beginning of what contradicts itself, as git marks it.
    pub hunks: String,
}

impl Depot {
    /// Has the tip of a branch of the project's repository here, and says where it is.
    ///
    /// # Errors
    /// If there is no such branch, or if it cannot be read.
    pub fn tip(&self, own: &Repository, branch: &str) -> Result<Oid, Error> {
        let tip = own.find(branch)?.ok_or_else(|| Error::NoCommit(branch.to_owned()))?;
        self.take_commit(own, &tip)?;
        Ok(tip)
    }

    /// Brings a commit together with another, without a checkout.
    ///
    /// # Errors
    /// If git is too old for that, or breaks.
    pub fn join(&self, onto: &Oid, with: &Oid) -> Result<Joined, Error> {
        self.git().is_at_least(MERGES)?;
        self.heeds_no_driver()?;
        let call = self.call("merge-tree").args(["--write-tree", "-z", "--name-only"]).long();
        let ended = call.args([onto.as_str(), with.as_str()]).ends()?;
        let mut parts = ended.out.split(|byte| *byte == 0);
        let tree = parts.next().and_then(Oid::said);
        match (ended.code, tree) {
            (Some(0), Some(tree)) => Ok(Joined::Tree(tree)),
            (Some(1), Some(tree)) => {
                let files = parts.take_while(|name| !name.is_empty());
                let files: Vec<_> =
                    files.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                self.clash(&tree, files).map(Joined::Clash)
            }
            (code, _) => {
                let what = "merge-tree".to_owned();
                Err(Error::Git { what, code, said: ended.said })
            }
        }
    }

    fn clash(&self, tree: &Oid, mut files: Vec<String>) -> Result<Clash, Error> {
        let more = files.len().saturating_sub(FILES_MAX);
        files.truncate(FILES_MAX);
        let mut hunks = String::new();
        for file in &files {
            let call = self.call("cat-file").args(["blob", &format!("{tree}:{file}")]);
            let Ok(ended) = call.at_most(FILE_BYTES_MAX).ends() else { continue };
            let text = String::from_utf8_lossy(&ended.out).into_owned();
            let inside = marked(&text);
            if !inside.is_empty() && hunks.len() < HUNKS_BYTES_MAX {
                hunks.push_str(&format!("{file}:\n{inside}"));
            }
        }
        hunks.truncate(hunks.floor_char_boundary(HUNKS_BYTES_MAX));
        Ok(Clash { files, more, hunks })
    }

    /// Whether a commit holds another, or is it.
    ///
    /// # Errors
    /// If git does not say.
    pub fn holds(&self, tip: &Oid, commit: &Oid) -> Result<bool, Error> {
        let call = self.call("merge-base").args(["--is-ancestor", commit.as_str(), tip.as_str()]);
        let ended = call.ends()?;
        match ended.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            code => Err(Error::Git { what: "merge-base".to_owned(), code, said: ended.said }),
        }
    }

    /// The files of a commit.
    ///
    /// # Errors
    /// If it is not here.
    pub fn files_of(&self, commit: &Oid) -> Result<Oid, Error> {
        Ok(self.commit(commit)?.tree)
    }

    /// The commit with which a branch came to hold another: the last on its own line that does.
    ///
    /// # Errors
    /// If git does not say.
    pub fn landed_with(&self, tip: &Oid, commit: &Oid) -> Result<Oid, Error> {
        let line = format!("{commit}..{tip}");
        let call = self.call("rev-list").args(["--first-parent", "--ancestry-path", "--reverse"]);
        let said = call.arg(line).long().run()?;
        let first = String::from_utf8_lossy(&said).lines().next().and_then(|oid| oid.parse().ok());
        Ok(first.unwrap_or_else(|| tip.clone()))
    }

    /// Commits files over others, in Baton's name.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn seal(
        &self,
        tree: &Oid,
        parents: &[&Oid],
        says: &str,
        at: Timestamp,
    ) -> Result<Oid, Error> {
        let at = format!("@{} +0000", at.0.max(0) / 1_000);
        let mut call = self.call("commit-tree").arg(tree.as_str());
        for parent in parents {
            call = call.args(["-p", parent.as_str()]);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            call = call
                .env(&format!("GIT_{who}_NAME"), BATON.0)
                .env(&format!("GIT_{who}_EMAIL"), BATON.1)
                .env(&format!("GIT_{who}_DATE"), &at);
        }
        let said = call.reads(says.as_bytes().to_vec()).run()?;
        let none = || Error::NoCommit(String::from_utf8_lossy(&said).into_owned());
        Oid::said(&said).ok_or_else(none)
    }

    /// What lands of a snapshot: the agent's last commit, or, if it left something uncommitted, that as one commit
    /// over it. Its time is that of the commit before, so that the same work is always the same commit.
    ///
    /// # Errors
    /// If it is not here.
    pub fn work_of(&self, snapshot: &Oid, says: &str) -> Result<Work, Error> {
        let kept = match Kept::read(self, snapshot) {
            Ok(kept) => kept,
            // Somebody committed it in so many words.
            Err(Error::NoSnapshot(_)) => return self.plain(snapshot),
            Err(error) => return Err(error),
        };
        let (head, base) = (kept.head().clone(), kept.began_from().clone());
        let files = self.files_of(snapshot)?;
        let before = self.commit(&head)?;
        if before.tree == files {
            return Ok(Work { head, base });
        }
        let at = Timestamp(i64::try_from(before.at).unwrap_or(0).saturating_mul(1_000));
        Ok(Work { head: self.seal(&files, &[&head], says, at)?, base })
    }

    /// A commit that is no snapshot, over its first parent.
    fn plain(&self, head: &Oid) -> Result<Work, Error> {
        let base = self.commit(head)?.parents.into_iter().next();
        Ok(Work { head: head.clone(), base: base.unwrap_or_else(|| head.clone()) })
    }

    /// Attributes of a tree can name a driver; ours say that git merges by itself.
    fn heeds_no_driver(&self) -> Result<(), Error> {
        let path = self.objects().with_file_name("info").join("attributes");
        let same = std::fs::read(&path).is_ok_and(|own| own == super::depot::ATTRIBUTES.as_bytes());
        if same {
            return Ok(());
        }
        write(&path)
    }
}

fn write(path: &Path) -> Result<(), Error> {
    crate::files::replace(path, super::depot::ATTRIBUTES.as_bytes()).map_err(Error::file(path))
}

/// What lands of a task, and what it began from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub head: Oid,
    pub base: Oid,
}

/// What stands between the marks of a conflict, with them.
fn marked(text: &str) -> String {
    let mut inside = false;
    let mut found = String::new();
    for line in text.lines() {
        inside |= line.starts_with("<<<<<<< ");
        if inside {
            found.push_str(line);
            found.push('\n');
        }
        inside &= !line.starts_with(">>>>>>> ");
    }
    found
}
