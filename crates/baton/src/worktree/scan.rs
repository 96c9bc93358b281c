//! The files of a worktree as a tree of git: what is tracked and what is neither tracked nor ignored. Git
//! tells the names; contents are read by us, through descriptors, because an agent may be at work.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{FileType, fstat};
use sha2::{Digest as _, Sha256};

use super::beneath::Root;
use super::create::remove;
use super::include::exclude_from;
use super::stats::{Listing, Mark, Moment, Stats, listed};
use super::{Depot, Error, Oid, Worktree};

/// Bytes of a file that is kept: larger ones are data, models or builds.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes that one snapshot reads: what is beyond is left out, and told.
const ALL_BYTES_MAX: u64 = 1 << 30;
/// Files of a worktree.
const FILES_MAX: usize = 500_000;
/// Bytes of an agent's index.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// How many of the files that are left out are named; the others are counted.
const LEFT_MAX: usize = 100;

/// The tree of the last look, and what it was made from.
pub(super) const LAST_TREE: &str = "tree.last";

/// Why something is not in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is larger than what is kept.
    TooLarge,
    /// Other files have used up what a snapshot may hold.
    NoRoom,
    /// It is a repository of its own, or a submodule that is checked out.
    Repository,
    /// It is a pipe, a socket or a device.
    Special,
    /// Git does not take such a name.
    Name,
    /// It cannot be read.
    Unreadable,
}

/// What is not in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub files: Vec<(String, Left)>,
    /// How many more there are.
    pub more: usize,
    /// Commits that are named by branches or stash and cannot be had.
    pub commits: usize,
}

impl LeftOut {
    fn add(&mut self, path: &[u8], why: Left) {
        if self.files.len() < LEFT_MAX {
            self.files.push((String::from_utf8_lossy(path).into_owned(), why));
        } else {
            self.more += 1;
        }
    }

    /// Whether a snapshot holds everything that it should.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.more == 0 && self.commits == 0
    }
}

/// A file that must be read.
struct Fresh {
    path: Vec<u8>,
    link: bool,
    /// What was read: how it looked, and its mode.
    found: Option<(Mark, &'static str)>,
}

struct Scan<'a> {
    depot: &'a Depot,
    root: &'a Root,
    folder: &'a Path,
    stats: Stats,
    head: &'a Oid,
    listing: Option<Listing>,
    entries: Vec<(String, Oid, Vec<u8>)>,
    fresh: Vec<Fresh>,
    /// Folders on the way to files, and whether they are folders and no links.
    folders: BTreeMap<Vec<u8>, bool>,
    room: u64,
    since: Moment,
    left: LeftOut,
}

/// The tree of what is there now. Without trust every file is read, whatever was known of it.
pub(super) fn scan(
    worktree: &Worktree,
    depot: &Depot,
    root: &Root,
    head: &Oid,
    trust: bool,
) -> Result<(Oid, LeftOut), Error> {
    let folder = worktree.folder.as_path();
    let since = Moment::now(folder)?;
    let names = names(worktree, depot, root, head)?;
    if names.len() > FILES_MAX {
        let error = io::Error::other(format!("there are more than {FILES_MAX} files"));
        return Err(Error::File { path: worktree.path(), error });
    }
    let mut scan = Scan {
        depot,
        root,
        folder,
        stats: if trust { Stats::read(folder) } else { Stats::default() },
        head,
        listing: None,
        entries: vec![],
        fresh: vec![],
        folders: BTreeMap::new(),
        room: ALL_BYTES_MAX,
        since,
        left: LeftOut::default(),
    };
    for (path, kind) in names {
        scan.look(path, kind)?;
    }
    scan.read_fresh()?;
    let tree = scan.tree()?;
    scan.stats.write(folder)?;
    Ok((tree, scan.left))
}

/// What git says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    /// It is tracked, and its owner does not want to have it in the folder.
    Skipped,
    /// Another repository.
    Repository,
}

/// Every name that belongs into a snapshot. What is tracked is what the agent's index says; if that cannot
/// be read, what its last commit says.
fn names(
    worktree: &Worktree,
    depot: &Depot,
    root: &Root,
    head: &Oid,
) -> Result<BTreeMap<Vec<u8>, Kind>, Error> {
    let seen = worktree.folder.join("seen.index");
    remove(&seen)?;
    let tracked = || depot.call("ls-files").tree(&worktree.path()).index(&seen);
    let copied = root.read(Path::new(".git/index"), INDEX_BYTES_MAX);
    let copied = copied.and_then(|bytes| fs::write(&seen, bytes)).is_ok();
    let own = if copied { tracked().args(["-z", "-t", "-s"]).ends().ok() } else { None };
    let said = match own.filter(|ended| ended.code == Some(0)) {
        Some(ended) => ended.out,
        None => {
            remove(&seen)?;
            depot.call("read-tree").index(&seen).arg(head.as_str()).run()?;
            tracked().args(["-z", "-t", "-s"]).run()?
        }
    };
    let mut names = BTreeMap::new();
    for line in said.split(|byte| *byte == 0) {
        let Some(at) = line.iter().position(|byte| *byte == b'\t') else { continue };
        let kind = match (line.starts_with(b"S "), line[..at].get(2..8) == Some(b"160000")) {
            (true, _) => Kind::Skipped,
            (false, true) => Kind::Repository,
            (false, false) => Kind::File,
        };
        names.insert(line[at + 1..].to_vec(), kind);
    }
    let exclude = worktree.folder.join("exclude");
    let call = tracked().args(["-z", "--others", "--exclude-standard"]);
    let said = call.args(exclude.is_file().then(|| exclude_from(&exclude))).run()?;
    for name in said.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match name.strip_suffix(b"/") {
            Some(folder) => names.insert(folder.to_vec(), Kind::Repository),
            None => names.insert(name.to_vec(), Kind::File),
        };
    }
    remove(&seen)?;
    Ok(names)
}

impl Scan<'_> {
    /// What stands at a path in the last commit. Few files ask, so the list is read when one does.
    fn before(&mut self, path: &[u8]) -> Result<Option<(String, Oid)>, Error> {
        if self.listing.is_none() {
            self.listing = Some(listed(self.depot, self.head)?);
        }
        Ok(self.listing.as_ref().and_then(|listing| listing.get(path).cloned()))
    }

    fn look(&mut self, path: Vec<u8>, kind: Kind) -> Result<(), Error> {
        let own = Path::new(OsStr::from_bytes(&path));
        let found = self.root.look(own).ok().filter(|_| self.is_inside(own));
        let Some(stat) = found else {
            // It is gone, unless it was never meant to be there.
            if kind == Kind::Skipped
                && let Some((mode, oid)) = self.before(&path)?
            {
                self.entries.push((mode, oid, path));
            }
            return Ok(());
        };
        let what = FileType::from_raw_mode(stat.st_mode);
        let (folder, link) = (what == FileType::Directory, what == FileType::Symlink);
        if folder {
            let checked_out = kind == Kind::Repository && self.root.look(&own.join(".git")).is_ok();
            if checked_out {
                self.left.add(&path, Left::Repository);
            }
            // A submodule stays at the commit that the last commit says.
            let before = self.before(&path)?;
            if let Some((mode, oid)) = before.filter(|(mode, _)| mode == "160000") {
                self.entries.push((mode, oid, path));
            }
            return Ok(());
        }
        if !link && what != FileType::RegularFile {
            self.left.add(&path, Left::Special);
            return Ok(());
        }
        if is_refused(&path, link) {
            self.left.add(&path, Left::Name);
            return Ok(());
        }
        if let Some((mode, oid)) = self.stats.get(&path, &Mark::of(&stat)) {
            let (mode, oid) = (mode.to_owned(), oid.clone());
            self.entries.push((mode, oid, path));
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > FILE_BYTES_MAX {
            return self.large(path);
        }
        match self.room.checked_sub(size) {
            Some(room) => {
                self.room = room;
                self.fresh.push(Fresh { path, link, found: None });
            }
            None => {
                let before = self.before(&path)?;
                self.without(path, before, Left::NoRoom);
            }
        }
        Ok(())
    }

    /// Whether no link is on the way: behind one is another place, and what was here is gone.
    fn is_inside(&mut self, path: &Path) -> bool {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return true;
        };
        let key = parent.as_os_str().as_bytes();
        if let Some(known) = self.folders.get(key) {
            return *known;
        }
        let found = self.root.folder(parent).is_ok();
        self.folders.insert(key.to_vec(), found);
        found
    }

    /// A file that is not kept stands in the tree as it was committed, if it was.
    fn without(&mut self, path: Vec<u8>, before: Option<(String, Oid)>, why: Left) {
        self.left.add(&path, why);
        self.entries.extend(before.map(|(mode, oid)| (mode, oid, path)));
    }

    /// A large file is hashed, and kept if it is the one that was committed.
    fn large(&mut self, path: Vec<u8>) -> Result<(), Error> {
        let Some((mode, oid)) = self.before(&path)? else {
            self.left.add(&path, Left::TooLarge);
            return Ok(());
        };
        let opened = self.root.file(Path::new(OsStr::from_bytes(&path)));
        let opened = opened.and_then(|file| Ok((Mark::of(&fstat(&file)?), file)));
        let same = match opened {
            Ok((mark, file)) => {
                let call = self.depot.call("hash-object").args(["--stdin", "--no-filters"]);
                let same = Oid::said(&call.long().reads_file(file).run()?).as_ref() == Some(&oid);
                same.then_some(mark)
            }
            Err(_) => None,
        };
        match same {
            Some(mark) => {
                self.stats.put(&path, mark, self.since, &mode, &oid);
                self.entries.push((mode, oid, path));
            }
            None => self.without(path, Some((mode, oid)), Left::TooLarge),
        }
        Ok(())
    }

    /// Reads what is new, and has git keep it.
    fn read_fresh(&mut self) -> Result<(), Error> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let marks = self.folder.join("marks");
        remove(&marks)?;
        let mut option = std::ffi::OsString::from("--export-marks=");
        option.push(&marks);
        let (root, left, fresh) = (self.root, &mut self.left, &mut self.fresh);
        let call = self.depot.call("fast-import").arg("--quiet").arg(option).long();
        call.feeds(move |to| feed(root, fresh, left, to)).run()?;
        let said = fs::read_to_string(&marks).map_err(Error::file(&marks))?;
        remove(&marks)?;
        for line in said.lines() {
            let Some((mark, oid)) = line.split_once(' ') else { continue };
            let number = mark.strip_prefix(':').and_then(|number| number.parse::<usize>().ok());
            let fresh = number.and_then(|number| self.fresh.get_mut(number.checked_sub(1)?));
            let (Some(fresh), Ok(oid)) = (fresh, oid.parse::<Oid>()) else { continue };
            let Some((look, mode)) = fresh.found.take() else { continue };
            self.stats.put(&fresh.path, look, self.since, mode, &oid);
            self.entries.push((mode.to_owned(), oid, fresh.path.clone()));
        }
        Ok(())
    }

    /// The tree of everything that was found; if that is what was found the last time, the same.
    fn tree(&mut self) -> Result<Oid, Error> {
        self.entries.sort_by(|a, b| a.2.cmp(&b.2));
        let mut lines = vec![];
        for (mode, oid, path) in &self.entries {
            lines.extend_from_slice(format!("{mode} {oid}\t").as_bytes());
            lines.extend_from_slice(path);
            lines.push(0);
        }
        let digest: [u8; 32] = Sha256::digest(&lines).into();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(tree) = last_tree(self.folder, &digest) {
            return Ok(tree);
        }
        let index = self.folder.join("tree.index");
        remove(&index)?;
        let call = self.depot.call("update-index").index(&index).long();
        call.args(["-z", "--index-info"]).reads(lines).run()?;
        let said = self.depot.call("write-tree").index(&index).long().run()?;
        remove(&index)?;
        let none = || Error::NoCommit(String::from_utf8_lossy(&said).into_owned());
        let tree = Oid::said(&said).ok_or_else(none)?;
        let path = self.folder.join(LAST_TREE);
        fs::write(&path, format!("{digest} {tree}\n")).map_err(Error::file(&path))?;
        Ok(tree)
    }
}

/// The tree that was made from the same files. Nothing is taken out of a depot while a worktree borrows
/// from it, so it is still there.
fn last_tree(folder: &Path, digest: &str) -> Option<Oid> {
    let said = fs::read_to_string(folder.join(LAST_TREE)).ok()?;
    said.strip_prefix(digest)?.trim().parse().ok()
}

/// Reads files and writes them as git takes them in.
fn feed(
    root: &Root,
    fresh: &mut [Fresh],
    left: &mut LeftOut,
    to: &mut dyn Write,
) -> io::Result<()> {
    for (number, one) in (1..).zip(fresh) {
        let path = Path::new(OsStr::from_bytes(&one.path));
        let read = if one.link { read_link(root, path) } else { read_file(root, path) };
        match read {
            Ok((bytes, mark, mode)) => {
                write!(to, "blob\nmark :{number}\ndata {}\n", bytes.len())?;
                to.write_all(&bytes)?;
                to.write_all(b"\n")?;
                one.found = Some((mark, mode));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                left.add(&one.path, Left::TooLarge);
            }
            Err(_) => left.add(&one.path, Left::Unreadable),
        }
    }
    Ok(())
}

fn read_file(root: &Root, path: &Path) -> io::Result<(Vec<u8>, Mark, &'static str)> {
    let file = root.file(path)?;
    let stat = fstat(&file)?;
    let mut bytes = vec![];
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mode = if stat.st_mode & 0o100 == 0 { "100644" } else { "100755" };
    Ok((bytes, Mark::of(&stat), mode))
}

fn read_link(root: &Root, path: &Path) -> io::Result<(Vec<u8>, Mark, &'static str)> {
    let stat = root.look(path)?;
    Ok((root.link(path)?, Mark::of(&stat), "120000"))
}

/// Names that git takes for its own on some file system, and therefore on none.
pub(super) fn is_refused(path: &[u8], link: bool) -> bool {
    let own = |part: &[u8]| {
        let part = part.split(|byte| *byte == b':').next().unwrap_or_default();
        let seen = part.iter().filter(|byte| byte.is_ascii()).map(u8::to_ascii_lowercase);
        let seen: Vec<u8> = seen.collect();
        let end = seen.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |at| at + 1);
        let seen = &seen[..end];
        let modules: [&[u8]; 3] = [b".gitmodules", b"gi7eba~", b"gitmod~"];
        seen == b".git"
            || seen.starts_with(b"git~")
            || (link && modules.iter().any(|name| seen.starts_with(name)))
    };
    path.split(|byte| b"/\\".contains(byte)).any(own)
}
