//! A bare repository per project that is Baton's own: nobody else writes its settings. It keeps the
//! commits that tasks begin from and every snapshot.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::git::Call;
use super::{Error, Git, Oid};

/// Packs with at most so many objects are taken apart: thousands of small packs would slow every look.
const LOOSE_OBJECTS_MAX: u32 = 1_000;
/// Bytes of what may be taken in at once. A history that is larger should be cloned by hand.
pub(super) const PACK_BYTES_MAX: u64 = 8 << 30;

/// Attributes that overrule those of a tree: bytes stay the bytes that they are, no filter and no driver is asked.
pub(super) const ATTRIBUTES: &str =
    "* -text -eol -ident -filter -working-tree-encoding -diff merge\n";

/// A repository of Baton's own.
#[derive(Clone, Debug)]
pub struct Depot {
    git: Git,
    folder: PathBuf,
}

impl Depot {
    /// Opens it, or makes it for objects that are named like this one.
    pub(super) fn open(git: &Git, folder: &Path, like: &Oid) -> Result<Self, Error> {
        let depot = Self { git: git.clone(), folder: folder.to_path_buf() };
        if !folder.join("HEAD").exists() {
            depot.make(like)?;
        }
        Ok(depot)
    }

    /// The one that is there.
    pub(super) fn existing(git: &Git, folder: &Path) -> Option<Self> {
        let depot = Self { git: git.clone(), folder: folder.to_path_buf() };
        folder.join("HEAD").exists().then_some(depot)
    }

    /// It is there whole or not at all: it is made beside its place and moved.
    fn make(&self, like: &Oid) -> Result<(), Error> {
        let failed = Error::file(&self.folder);
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        let made = || -> std::io::Result<tempfile::TempDir> {
            fs::create_dir_all(parent)?;
            tempfile::Builder::new().prefix(".making-").tempdir_in(parent)
        };
        let draft = made().map_err(failed)?;
        let format = format!("--object-format={}", like.format());
        let call = self.git.call(draft.path(), "init");
        call.args(["--bare", "--quiet", "--template=", &format]).run()?;
        let placed = || -> std::io::Result<()> {
            fs::create_dir_all(draft.path().join("info"))?;
            fs::write(draft.path().join("info/attributes"), ATTRIBUTES)?;
            match fs::rename(draft.path(), &self.folder) {
                // Somebody else was faster, with the same.
                Err(_) if self.folder.join("HEAD").exists() => Ok(()),
                done => done,
            }
        };
        placed().map_err(Error::file(&self.folder))
    }

    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    /// Calls git under our settings.
    pub(super) fn call<'a>(&self, what: &str) -> Call<'a> {
        self.git.call(&self.folder, what)
    }

    /// Where its objects are; a worktree borrows them, so an agent must be able to read them.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Whether this is a commit that is here.
    pub(super) fn has(&self, commit: &Oid) -> Result<bool, Error> {
        Ok(self.missing(std::slice::from_ref(commit))?.is_empty())
    }

    /// Which of these are no commits that are here.
    pub(super) fn missing(&self, commits: &[Oid]) -> Result<Vec<Oid>, Error> {
        let lines: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
        let call = self.call("cat-file").arg("--batch-check=%(objecttype)");
        let said = call.reads(lines.into_bytes()).run()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let both = commits.iter().zip(said.lines());
        Ok(both.filter(|(_, kind)| *kind != "commit").map(|(oid, _)| oid.clone()).collect())
    }

    /// Packs what lies about. While somebody borrows from it, nothing goes, also if no ref holds it: what
    /// an agent adds is not written again where we have it already.
    pub(super) fn tidy(&self, borrowed: bool) -> Result<(), Error> {
        let call = match borrowed {
            true => self.call("repack").args(["-d", "-l", "-q"]),
            false => self.call("gc").args(["--quiet", "--prune=2.weeks.ago"]),
        };
        call.long().run()?;
        Ok(())
    }

    /// Takes commits in from other objects, with everything that they need and that is not here.
    /// `known` are commits that are here already.
    pub(super) fn take(&self, objects: &Path, wants: &[Oid], known: &[Oid]) -> Result<(), Error> {
        let pack = self.packed(Some(objects), wants, known)?;
        self.unpack(pack, &self.objects())
    }

    /// A pack of commits and of everything that they need, besides what is known.
    pub(super) fn packed(
        &self,
        also: Option<&Path>,
        wants: &[Oid],
        known: &[Oid],
    ) -> Result<File, Error> {
        let failed = Error::file(&self.folder);
        let pack = tempfile::tempfile_in(&self.folder).map_err(failed)?;
        let copy = pack.try_clone().map_err(Error::file(&self.folder))?;
        let mut lines = String::new();
        for want in wants {
            lines.push_str(&format!("{want}\n"));
        }
        for known in known {
            lines.push_str(&format!("^{known}\n"));
        }
        let mut call = self.call("pack-objects").long().reads(lines.into_bytes()).writes(copy);
        if let Some(also) = also {
            call = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(also));
        }
        call.args(["--revs", "--stdout", "--delta-base-offset", "--quiet"]).run()?;
        Ok(pack)
    }

    /// Puts a pack among objects: these, or those of another repository. Settings of the other are not read.
    pub(super) fn unpack(&self, mut pack: File, objects: &Path) -> Result<(), Error> {
        let failed = Error::file(&self.folder);
        let mut head = [0; 12];
        let mut count = || -> std::io::Result<u32> {
            pack.seek(SeekFrom::Start(0))?;
            pack.read_exact(&mut head)?;
            pack.seek(SeekFrom::Start(0))?;
            Ok(u32::from_be_bytes([head[8], head[9], head[10], head[11]]))
        };
        let count = count().map_err(failed)?;
        if count == 0 {
            return Ok(());
        }
        let call = match count <= LOOSE_OBJECTS_MAX {
            true => self.call("unpack-objects").arg("-q"),
            false => self.call("index-pack").args(["--stdin", "--fix-thin"]),
        };
        call.env("GIT_OBJECT_DIRECTORY", objects).long().reads_file(pack).run()?;
        Ok(())
    }

    /// Every ref under a beginning, with what it names.
    pub(super) fn refs(&self, beginning: &str) -> Result<Vec<(String, Oid)>, Error> {
        let call = self.call("for-each-ref").arg("--format=%(objectname) %(refname)");
        let said = call.arg(beginning).run()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let read = |line: &str| {
            let (oid, name) = line.split_once(' ')?;
            Some((name.to_owned(), oid.parse().ok()?))
        };
        Ok(said.lines().filter_map(read).collect())
    }

    /// Makes a ref that is not there, or leaves one that names the same.
    pub(super) fn pin(&self, name: &str, oid: &Oid) -> Result<(), Error> {
        if self.refs(name)?.iter().any(|(own, at)| own == name && at == oid) {
            return Ok(());
        }
        self.call("update-ref").args([name, oid.as_str()]).run()?;
        Ok(())
    }

    /// Forgets refs that still name what they named.
    pub(super) fn forget(&self, refs: &[(String, Oid)]) -> Result<(), Error> {
        let lines: String = refs.iter().map(|(name, at)| format!("delete {name} {at}\n")).collect();
        if !lines.is_empty() {
            self.call("update-ref").arg("--stdin").reads(lines.into_bytes()).run()?;
        }
        Ok(())
    }

    /// What a commit is: its tree, its parents, its time and what it says.
    pub(super) fn commit(&self, oid: &Oid) -> Result<Commit, Error> {
        let ended = self.call("cat-file").args(["commit", oid.as_str()]).at_most(1 << 20).ends()?;
        let text = String::from_utf8_lossy(&ended.out).into_owned();
        let known = ended.code == Some(0);
        known.then(|| Commit::read(&text)).flatten().ok_or(Error::NoCommit(oid.to_string()))
    }
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) tree: Oid,
    pub(super) parents: Vec<Oid>,
    /// Seconds, as git writes them.
    pub(super) at: u64,
    pub(super) says: String,
}

impl Commit {
    fn read(text: &str) -> Option<Self> {
        let (head, says) = text.split_once("\n\n")?;
        let all = |name: &str| -> Vec<String> {
            let lines = head.lines().filter_map(|line| line.strip_prefix(name));
            lines.map(|rest| rest.trim().to_owned()).collect()
        };
        let committer = all("committer ").into_iter().next()?;
        let mut words = committer.rsplit(' ').skip(1);
        Some(Self {
            tree: all("tree ").first()?.parse().ok()?,
            parents: all("parent ").iter().filter_map(|oid| oid.parse().ok()).collect(),
            at: words.next().and_then(|at| at.parse().ok()).unwrap_or(0),
            says: says.to_owned(),
        })
    }
}

/// A path in a list whose items are parted by colons.
pub(super) fn quoted(path: &Path) -> OsString {
    let mut bytes = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if b"\"\\".contains(byte) {
            bytes.push(b'\\');
        }
        bytes.push(*byte);
    }
    bytes.push(b'"');
    OsString::from_vec(bytes)
}
