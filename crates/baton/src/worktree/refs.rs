//! What an agent committed: its branches, its stash and the objects they need. Its repository is read as
//! files, never by a git that would heed its settings.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::beneath::Root;
use super::depot::PACK_BYTES_MAX;
use super::{Depot, Error, Oid};

/// Bytes of a file that holds one name.
const REF_BYTES_MAX: u64 = 4 << 10;
/// Bytes of a file that holds many.
const REFS_BYTES_MAX: u64 = 4 << 20;
/// Branches of a worktree that are kept: more are a mirror of something, not work on a task.
pub(super) const BRANCHES_MAX: usize = 64;
/// Entries of a stash that are kept, the newest first.
pub(super) const STASHES_MAX: usize = 16;
/// How deep names of branches may be.
const DEEP_MAX: usize = 8;
/// Files of objects that are looked at.
const OBJECT_FILES_MAX: usize = 200_000;

/// Where the head of a worktree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Detached(Oid),
    /// On a branch, which may have no commit yet.
    Branch(String),
    Unreadable,
}

/// What a worktree's repository names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tips {
    pub(super) head: Head,
    pub(super) branches: Vec<(String, Oid)>,
    pub(super) stash: Vec<Oid>,
    /// Branches that are not kept, because there are too many.
    pub(super) more: usize,
}

impl Tips {
    /// Reads them.
    pub(super) fn read(tree: &Root) -> Self {
        let Ok(own) = tree.folder(Path::new(".git")) else {
            return Self { head: Head::Unreadable, branches: vec![], stash: vec![], more: 0 };
        };
        let mut branches = packed(&own);
        loose(&own, "refs/heads", DEEP_MAX, &mut branches);
        let mut branches: Vec<_> = branches.into_iter().collect();
        let more = branches.len().saturating_sub(BRANCHES_MAX);
        branches.truncate(BRANCHES_MAX);
        Self { head: head(&own), branches, stash: stash(&own), more }
    }

    /// The commit of the head, if it has one.
    pub(super) fn at(&self) -> Option<&Oid> {
        match &self.head {
            Head::Detached(oid) => Some(oid),
            Head::Branch(name) => {
                self.branches.iter().find(|(own, _)| own == name).map(|(_, oid)| oid)
            }
            Head::Unreadable => None,
        }
    }

    /// Has the commits in the depot; those that cannot be had are forgotten, and how many is told.
    pub(super) fn bring(
        &mut self,
        tree: &Root,
        depot: &Depot,
        known: &[Oid],
        scratch: &Path,
    ) -> Result<usize, Error> {
        let missing = depot.missing(&self.all())?;
        if !missing.is_empty() {
            let gathered = gather(tree, scratch)?;
            // One that is broken must not take the others with it; the head is tried first.
            if depot.take(gathered.path(), &missing, known).is_err() {
                for one in &missing {
                    drop(depot.take(gathered.path(), std::slice::from_ref(one), known));
                }
            }
        }
        let lost = if missing.is_empty() { missing } else { depot.missing(&missing)? };
        if self.at().is_some_and(|oid| lost.contains(oid)) {
            self.head = Head::Unreadable;
        }
        self.branches.retain(|(_, oid)| !lost.contains(oid));
        self.stash.retain(|oid| !lost.contains(oid));
        Ok(lost.len())
    }

    /// Every commit that is named, once; the head first.
    fn all(&self) -> Vec<Oid> {
        let branches = self.branches.iter().map(|(_, oid)| oid);
        let mut all = vec![];
        for oid in self.at().into_iter().chain(branches).chain(&self.stash) {
            if !all.contains(oid) {
                all.push(oid.clone());
            }
        }
        all
    }
}

/// Whether this is a name of a branch that git takes, and that means nothing to a path.
pub(super) fn is_branch(name: &str) -> bool {
    let bad = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    let rest = name.strip_prefix("refs/heads/");
    rest.is_some_and(|rest| rest.split('/').all(part) && !rest.starts_with('-'))
        && !name.contains(bad)
        && !name.contains("..")
        && !name.contains("@{")
}

fn text(own: &Root, path: &str, bytes_max: u64) -> Option<String> {
    String::from_utf8(own.read(Path::new(path), bytes_max).ok()?).ok()
}

fn head(own: &Root) -> Head {
    let Some(text) = text(own, "HEAD", REF_BYTES_MAX) else { return Head::Unreadable };
    let line = text.trim_end_matches('\n');
    match line.strip_prefix("ref: ") {
        Some(name) if is_branch(name) => Head::Branch(name.to_owned()),
        Some(_) => Head::Unreadable,
        None => line.parse().map_or(Head::Unreadable, Head::Detached),
    }
}

type Branches = std::collections::BTreeMap<String, Oid>;

fn packed(own: &Root) -> Branches {
    let text = text(own, "packed-refs", REFS_BYTES_MAX).unwrap_or_default();
    let read = |line: &str| {
        let (oid, name) = line.split_once(' ')?;
        Some((name.to_owned(), oid.parse().ok()?)).filter(|(name, _)| is_branch(name))
    };
    text.lines().filter_map(read).collect()
}

fn loose(own: &Root, inside: &str, deep_max: usize, found: &mut Branches) {
    let Ok(folder) = own.folder(Path::new(inside)) else { return };
    for name in folder.names(OBJECT_FILES_MAX).unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        let path = format!("{inside}/{name}");
        let oid = text(own, &path, REF_BYTES_MAX).and_then(|text| Oid::said(text.as_bytes()));
        match oid {
            Some(oid) if is_branch(&path) => {
                found.insert(path, oid);
            }
            Some(_) => {}
            None if deep_max > 0 => loose(own, &path, deep_max - 1, found),
            None => {}
        }
    }
}

/// The entries of the stash, the newest first: they are in its log alone.
fn stash(own: &Root) -> Vec<Oid> {
    let log = text(own, "logs/refs/stash", REFS_BYTES_MAX).unwrap_or_default();
    let entry = |line: &str| line.split(' ').nth(1).and_then(|oid| oid.parse().ok());
    log.lines().rev().take(STASHES_MAX).filter_map(entry).collect()
}

/// Brings the files of an agent's objects together where nothing else is: no list of other places to look
/// for objects comes along, with which an agent could have us read what it may not.
fn gather(tree: &Root, scratch: &Path) -> Result<tempfile::TempDir, Error> {
    let made = tempfile::Builder::new().prefix("objects-").tempdir_in(scratch);
    let gathered = made.map_err(Error::file(scratch))?;
    let path = Path::new(".git/objects");
    let taken = || -> io::Result<()> {
        let objects = tree.folder(path)?;
        let (mut files, mut bytes) = (OBJECT_FILES_MAX, PACK_BYTES_MAX);
        for name in objects.names(OBJECT_FILES_MAX)? {
            let is_hex = |name: &OsStr| name.as_bytes().iter().all(u8::is_ascii_hexdigit);
            let loose = name.len() == 2 && is_hex(&name);
            if !loose && name != "pack" {
                continue;
            }
            let Ok(inner) = objects.folder(Path::new(&name)) else { continue };
            fs::create_dir(gathered.path().join(&name))?;
            for file in inner.names(files)? {
                let pack = file.to_str().is_some_and(|file| {
                    file.starts_with("pack-") && (file.ends_with(".pack") || file.ends_with(".idx"))
                });
                if if loose { is_hex(&file) } else { pack } {
                    let to = gathered.path().join(&name).join(&file);
                    bytes = bytes.saturating_sub(share(&inner, &file, to)?);
                    files = files.saturating_sub(1);
                }
                if bytes == 0 || files == 0 {
                    return Err(io::Error::other("there are too many objects in it"));
                }
            }
        }
        Ok(())
    };
    taken().map_err(Error::file(path))?;
    Ok(gathered)
}

/// One file under a second name, if it is a plain one; how large it is.
fn share(from: &Root, name: &OsStr, to: PathBuf) -> io::Result<u64> {
    match from.also(Path::new(name), &to) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) => {
            io::copy(&mut from.file(Path::new(name))?, &mut fs::File::create(&to)?)?;
        }
        // Packing may take files away while we look.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    }
    // Under its second name nobody swaps it for something else.
    let about = to.symlink_metadata()?;
    if !about.is_file() {
        fs::remove_file(&to)?;
        return Ok(0);
    }
    Ok(about.len())
}
