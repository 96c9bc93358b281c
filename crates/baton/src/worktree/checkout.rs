//! Clean checkouts of a commit, for whoever checks it: nothing of any worktree is in them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::create::{fill, remove};
use super::record::clear;
use super::{Depot, Error, Oid};

/// Bytes of the names of everything that differs between two commits.
const NAMES_BYTES_MAX: usize = 16 << 20;

impl Depot {
    /// Puts a commit into a folder that is not there yet, as a repository of its own that borrows the objects
    /// here. Its head is the commit, and nothing else of the history has a name.
    ///
    /// # Errors
    /// If the commit is not here, or the folder is there or cannot be made.
    pub fn check_out(&self, commit: &Oid, tree: &Path) -> Result<(), Error> {
        if !self.has(commit)? {
            return Err(Error::NoCommit(commit.to_string()));
        }
        let beside = tree.parent().unwrap_or(Path::new("/"));
        fs::create_dir(tree).map_err(Error::file(tree))?;
        fill(self, commit, tree, beside)?;
        let own = tree.join(".git");
        // A tree cannot hold a file of this name: git refuses to write it.
        self.linked(commit, &own).map_err(Error::file(&own))?;
        let index = own.join("index");
        remove(&index)?;
        let call = self.call("read-tree").tree(tree).index(&index).long();
        call.args(["--reset", commit.as_str()]).run()?;
        // It answers by failing that some files differ.
        let call = self.call("update-index").tree(tree).index(&index).long();
        call.args(["-q", "--refresh"]).ends()?;
        Ok(())
    }

    fn linked(&self, commit: &Oid, own: &Path) -> io::Result<()> {
        for name in ["objects/info", "objects/pack", "refs/heads", "info"] {
            fs::create_dir_all(own.join(name))?;
        }
        let alternates = [self.objects().as_os_str().as_bytes(), b"\n"].concat();
        fs::write(own.join("objects/info/alternates"), alternates)?;
        let (version, format) = match commit.format() {
            "sha1" => (0, String::new()),
            other => (1, format!("[extensions]\n\tobjectFormat = {other}\n")),
        };
        let settings = format!(
            "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n{format}"
        );
        fs::write(own.join("config"), settings)?;
        fs::write(own.join("HEAD"), format!("{commit}\n"))
    }

    /// Every path that is not the same in two commits; of what was moved, both.
    ///
    /// # Errors
    /// If one of them is not here.
    pub fn changed_between(&self, base: &Oid, commit: &Oid) -> Result<Vec<String>, Error> {
        let call = self.call("diff-tree").args(["-r", "-z", "--name-only", "--no-renames"]);
        let call = call.at_most(NAMES_BYTES_MAX).long();
        let said = call.args([base.as_str(), commit.as_str()]).run()?;
        let names = said.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }
}

/// Takes a checkout away, also what was made unwritable in it.
///
/// # Errors
/// If something of it stays.
pub fn take_away(folder: &Path) -> Result<(), Error> {
    clear(folder)
}
