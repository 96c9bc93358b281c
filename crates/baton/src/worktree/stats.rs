//! Which files were read already, so that a snapshot reads only what has changed since the last one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::Stat;

use super::beneath::Root;
use super::scan::LAST_TREE;
use super::{Depot, Error, Oid};

/// Bytes of the list: the names of all files of a large repository, and as much again about each.
const STATS_BYTES_MAX: u64 = 256 << 20;
const STATS: &str = "stats";

/// What a file looked like, and when it last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    text: String,
    changed: (i64, i64),
}

/// A moment of the file system's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i64, i64);

#[derive(Clone, Debug)]
struct Known {
    text: String,
    mode: String,
    oid: Oid,
}

/// What is known of files.
#[derive(Debug, Default)]
pub(super) struct Stats(BTreeMap<Vec<u8>, Known>);

impl Mark {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanos = i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX);
        let text = format!(
            "{} {} {} {} {} {} {} {}",
            stat.st_dev,
            stat.st_ino,
            stat.st_mode,
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec
        );
        Self { text, changed: (stat.st_ctime, nanos) }
    }
}

impl Moment {
    /// Now, as the file system around this folder counts.
    pub(super) fn now(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("now");
        let asked = || -> io::Result<Self> {
            let mut file = File::create(&path)?;
            file.write_all(b".")?;
            let stat = rustix::fs::fstat(&file)?;
            let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
            Ok(Self(stat.st_mtime, nanos))
        };
        asked().map_err(Error::file(&path))
    }
}

impl Stats {
    /// Reads them; a list that cannot be read is empty, and everything is read anew.
    pub(super) fn read(folder: &Path) -> Self {
        let mut bytes = vec![];
        let read = File::open(folder.join(STATS))
            .and_then(|file| file.take(STATS_BYTES_MAX).read_to_end(&mut bytes));
        if read.is_err() {
            return Self::default();
        }
        let line = |line: &[u8]| {
            let mut parts = line.splitn(4, |byte| *byte == b'\t');
            let mut text = || std::str::from_utf8(parts.next()?).ok().map(str::to_owned);
            let (text, mode, oid) = (text()?, text()?, text()?.parse().ok()?);
            Some((parts.next()?.to_vec(), Known { text, mode, oid }))
        };
        Self(bytes.split(|byte| *byte == 0).filter_map(line).collect())
    }

    /// What the file was, if it still looks the same.
    pub(super) fn get(&self, path: &[u8], mark: &Mark) -> Option<(&str, &Oid)> {
        let known = self.0.get(path).filter(|known| known.text == mark.text)?;
        Some((&known.mode, &known.oid))
    }

    /// Remembers a file that was looked at after `since`. One that changed in that very moment may
    /// change once more without looking different: it is not remembered.
    pub(super) fn put(&mut self, path: &[u8], mark: Mark, since: Moment, mode: &str, oid: &Oid) {
        if Moment(mark.changed.0, mark.changed.1) < since {
            let known = Known { text: mark.text, mode: mode.to_owned(), oid: oid.clone() };
            self.0.insert(path.to_vec(), known);
        }
    }

    /// Writes them beside the worktree.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(STATS);
        let written = || -> io::Result<()> {
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            let mut bytes = vec![];
            for (path, known) in &self.0 {
                write!(bytes, "{}\t{}\t{}\t", known.text, known.mode, known.oid)?;
                bytes.extend_from_slice(path);
                bytes.push(0);
            }
            draft.write_all(&bytes)?;
            draft.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(Error::file(&path))
    }

    /// Forgets everything.
    pub(super) fn drop_all(folder: &Path) {
        for name in [STATS, LAST_TREE] {
            drop(fs::remove_file(folder.join(name)));
        }
    }

    /// Remembers the files that were just put there from a commit.
    pub(super) fn seed(
        depot: &Depot,
        files: &Oid,
        tree: &Root,
        folder: &Path,
    ) -> Result<(), Error> {
        let since = Moment::now(folder)?;
        let mut stats = Self::default();
        let listed = listed(depot, files)?;
        for (path, (mode, oid)) in &listed {
            if let Ok(stat) = tree.look(Path::new(OsStr::from_bytes(path))) {
                stats.put(path, Mark::of(&stat), since, mode, oid);
            }
        }
        stats.write(folder)
    }
}

/// Paths of a commit, with what stands there.
pub(super) type Listing = BTreeMap<Vec<u8>, (String, Oid)>;

/// Every file of a commit.
pub(super) fn listed(depot: &Depot, files: &Oid) -> Result<Listing, Error> {
    let said = depot.call("ls-tree").args(["-r", "-z", "--full-tree", files.as_str()]).run()?;
    let entry = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'\t')?;
        let about = std::str::from_utf8(&line[..at]).ok()?;
        let mut words = about.split(' ');
        let (mode, oid) = (words.next()?.to_owned(), words.nth(1)?.parse().ok()?);
        Some((line[at + 1..].to_vec(), (mode, oid)))
    };
    Ok(said.split(|byte| *byte == 0).filter_map(entry).collect())
}
