//! Work on its way to the server: a snapshot as git bundles, and the frame that names them, on the disk until the server
//! has both.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_domain::ids::Digest;
use baton_domain::text::Text;
use serde::{Deserialize, Serialize};
use tempfile::TempPath;

use crate::client::digest_of;
use crate::files;
use crate::protocol::{BASE_BUNDLES_MAX, BUNDLES_MAX, Checkpoint, Work};
use crate::worktree::{Error, Oid, Snapshot, Taken, Worktree};

/// What holds the parcels of an attempt in its folder.
const FOLDER: &str = "parcels";
/// What the server has of it.
const HANDED: &str = "handed.json";
/// Parcels that are looked at: one is on its way, one waits, and a crash may leave one more.
const PARCELS_MAX: usize = 16;
/// How the name of a file begins and ends that is part of a parcel, or was to be.
const PART: (&str, &str) = ("part-", ".bundle");
/// Files that are looked at when a worker begins; what is beyond them waits for the next one.
const SWEPT_MAX: usize = 1_024;

/// Where the parcels of an attempt are.
#[derive(Clone, Debug)]
pub struct Shelf(PathBuf);

/// Work that goes to the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// What is told once the server has the blobs.
    pub frame: Checkpoint,
    /// The blobs, in the order in which they are sent.
    pub blobs: Vec<Blob>,
}

/// A file that the server is to have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blob {
    /// What it is called beside the parcel.
    pub file: String,
    pub digest: Digest,
}

/// A snapshot, and what has to be sent so that others have it.
#[derive(Debug)]
pub struct Kept {
    pub taken: Taken,
    /// Nothing if they have it.
    pub packed: Option<(Work, Vec<Blob>)>,
}

impl Shelf {
    /// That of an attempt, by its folder.
    #[must_use]
    pub fn of(attempt: &Path) -> Self {
        Self(attempt.join(FOLDER))
    }

    /// A file on it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A name that no other file on it has. The file goes again unless it becomes part of a parcel.
    fn name(&self) -> io::Result<TempPath> {
        let made = tempfile::Builder::new().prefix(PART.0).suffix(PART.1).tempfile_in(&self.0)?;
        Ok(made.into_temp_path())
    }

    /// Keeps bytes that are to become part of a parcel.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn hold(&self, bytes: &[u8]) -> io::Result<Blob> {
        files::make_folder(&self.0)?;
        let name = self.name()?;
        fs::write(&name, bytes)?;
        let digest = digested(&name).map_err(io::Error::other)?;
        whole((name, digest))
    }

    /// Takes away the files that no parcel names: somebody was killed before the parcel was whole.
    ///
    /// # Errors
    /// If one of them stays.
    pub fn sweep(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(()) };
        let parcels: Vec<_> =
            self.waiting().into_iter().filter_map(|number| self.get(number)).collect();
        let named = |file: &str| parcels.iter().flat_map(|one| &one.blobs).any(|b| b.file == file);
        for entry in entries.flatten().take(SWEPT_MAX) {
            let file = entry.file_name();
            let part = file.to_str().filter(|it| it.starts_with(PART.0) && it.ends_with(PART.1));
            if part.is_some_and(|part| !named(part)) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// What the server has of the attempt's work.
    #[must_use]
    pub fn handed(&self) -> Option<Work> {
        // What cannot be read is made and sent again.
        serde_json::from_slice(&fs::read(self.file(HANDED)).ok()?).ok()
    }

    /// The server has this work, and was told so: nothing of the parcel is needed any more.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn settle(&self, number: u64, parcel: &Parcel) -> io::Result<()> {
        if let Some(work) = &parcel.frame.work {
            files::replace(&self.file(HANDED), &serde_json::to_vec(work)?)?;
        }
        self.drop_one(number, parcel)
    }

    /// The parcels that wait, by their numbers.
    #[must_use]
    pub fn waiting(&self) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(&self.0) else { return vec![] };
        let name = |entry: fs::DirEntry| entry.file_name().to_str().map(str::to_owned);
        let number = |name: String| name.strip_suffix(".parcel")?.parse().ok();
        let mut all: Vec<u64> =
            entries.flatten().filter_map(name).filter_map(number).take(PARCELS_MAX).collect();
        all.sort_unstable();
        all
    }

    /// Puts a parcel on it. Those before it that nobody sends go: it holds what they hold.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, parcel: &Parcel, being_sent: Option<u64>) -> io::Result<()> {
        let before = self.waiting();
        let number = before.last().map_or(1, |last| last + 1);
        let path = self.file(&format!("{number}.parcel"));
        files::replace(&path, &serde_json::to_vec(parcel)?)?;
        for old in before.into_iter().filter(|old| being_sent != Some(*old)) {
            if let Some(parcel) = self.get(old) {
                self.drop_one(old, &parcel)?;
            }
        }
        Ok(())
    }

    /// One of them; none if it is not to be read.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<Parcel> {
        let bytes = fs::read(self.file(&format!("{number}.parcel"))).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Takes one away, with its files.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn drop_one(&self, number: u64, parcel: &Parcel) -> io::Result<()> {
        remove(&self.file(&format!("{number}.parcel")))?;
        for blob in &parcel.blobs {
            remove(&self.file(&blob.file))?;
        }
        Ok(())
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Takes a snapshot, and makes of it what others need to have it. What they have by `before` is not made again.
///
/// # Errors
/// If the work cannot be kept. That it cannot be packed is only said: then it is kept here alone.
pub fn keep(
    worktree: &Worktree,
    attempt: u32,
    before: Option<&Work>,
    shelf: &Shelf,
) -> Result<Kept, Error> {
    let taken = worktree.snapshot(attempt)?;
    let snapshot = taken.snapshot();
    if before.is_some_and(|work| work.snapshot.as_str() == snapshot.commit.as_str()) {
        return Ok(Kept { taken, packed: None });
    }
    let packed = pack(worktree, attempt, snapshot, before, shelf);
    let packed = packed.map_err(|error| {
        tracing::warn!(attempt, %error, "a snapshot cannot be packed: it stays on this machine");
    });
    Ok(Kept { packed: packed.ok(), taken })
}

fn pack(
    worktree: &Worktree,
    attempt: u32,
    snapshot: &Snapshot,
    before: Option<&Work>,
    shelf: &Shelf,
) -> Result<(Work, Vec<Blob>), Error> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::File { path, error }
    };
    files::make_folder(&shelf.0).map_err(wrong(&shelf.0))?;
    let mut parts = vec![];
    let base_bundles = base(worktree, before, shelf, &mut parts)?;
    let own = before.filter(|before| before.base.as_str() == snapshot.base.as_str());
    let over = match own.filter(|own| own.bundles.len() < BUNDLES_MAX) {
        Some(own) => own.snapshot.as_str().parse().ok(),
        None => None,
    };
    let over: Option<Oid> = match over {
        Some(over) if worktree.has(&over)? => Some(over),
        Some(_) | None => None,
    };
    let known: Vec<_> = [snapshot.base.clone()].into_iter().chain(over.clone()).collect();
    let name = shelf.name().map_err(wrong(&shelf.0))?;
    worktree.bundle(snapshot, &known, &name)?;
    let digest = digested(&name)?;
    let chain = own.filter(|_| over.is_some()).map_or(vec![], |own| own.bundles.clone());
    let bundles = chain.into_iter().chain([digest.clone()]).collect();
    parts.push((name, digest));
    // A snapshot of an attempt before it, to which nothing was added, is the first of this one.
    let number = if snapshot.age.0 == attempt { snapshot.age.1 } else { 0 };
    let text = |oid: &Oid| Text::new("commit", oid.as_str()).expect("digits are a text");
    let (commit, base) = (text(&snapshot.commit), text(&snapshot.base));
    let work = Work { attempt, number, snapshot: commit, base, bundles, base_bundles };
    let blobs: io::Result<_> = parts.into_iter().map(whole).collect();
    Ok((work, blobs.map_err(wrong(&shelf.0))?))
}

/// A part that is whole: its file stays.
fn whole((path, digest): (TempPath, Digest)) -> io::Result<Blob> {
    let path = path.keep().map_err(|error| error.error)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let file = name.map(str::to_owned).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Blob { file, digest })
}

/// What the base of a task can be made from, made now if nobody has it.
fn base(
    worktree: &Worktree,
    before: Option<&Work>,
    shelf: &Shelf,
    made: &mut Vec<(TempPath, Digest)>,
) -> Result<Vec<Digest>, Error> {
    let (base, depot) = (worktree.base(), worktree.depot()?);
    if let Some(own) = before.filter(|own| own.base.as_str() == base.as_str()) {
        let parts: Vec<_> = own.base_bundles.iter().map(|one| one.as_str().to_owned()).collect();
        // Other tasks begin there, too.
        depot.note_handed(base, &parts)?;
        return Ok(own.base_bundles.clone());
    }
    let digests = |parts: &[String]| -> Vec<Digest> {
        parts.iter().filter_map(|part| Digest::new(part).ok()).collect()
    };
    let handed = depot.handed();
    if let Some((_, parts)) = handed.iter().find(|(own, _)| own == base) {
        return Ok(digests(parts));
    }
    let short = |parts: &[String]| (1..BASE_BUNDLES_MAX).contains(&parts.len());
    let over = handed.last().filter(|(_, parts)| short(parts));
    let over = match over {
        Some((oid, parts)) if worktree.has(oid)? => Some((oid.clone(), digests(parts))),
        Some(_) | None => None,
    };
    let (known, mut parts) = over.map_or((vec![], vec![]), |(oid, parts)| (vec![oid], parts));
    let name = shelf.name().map_err(|error| Error::File { path: shelf.0.clone(), error })?;
    if worktree.bundle_base(&known, &name)?.is_none() {
        return Ok(vec![]);
    }
    let digest = digested(&name)?;
    parts.push(digest.clone());
    made.push((name, digest));
    Ok(parts)
}

fn digested(file: &Path) -> Result<Digest, Error> {
    let (digest, _) =
        digest_of(file).map_err(|error| Error::File { path: file.to_owned(), error })?;
    Ok(Digest::new(&digest.to_string()).expect("a digest has 64 digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_parcel_names_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let shelf = Shelf::of(folder.path());
        files::make_folder(&shelf.0).expect("a shelf");
        let name = shelf.name().expect("a name");
        let digest = digested(&name).expect("a digest");
        let blob = whole((name, digest)).expect("a file that stays");
        let unfinished = shelf.name().expect("a name").keep().expect("a file that stays");
        let failed = shelf.name().expect("a name").to_path_buf();
        assert!(!failed.exists(), "a part that is not finished goes by itself");
        let attempt = "A-1.1".parse().expect("an attempt");
        let frame = Checkpoint {
            attempt,
            seq: 0,
            summary: None,
            git: std::collections::BTreeMap::new(),
            session: None,
            work: None,
            log: None,
        };
        let parcel = Parcel { frame, blobs: vec![blob.clone()] };
        shelf.put(&parcel, None).expect("a parcel that waits");
        shelf.sweep().expect("everything can be removed");
        assert!(!unfinished.exists());
        assert!(shelf.file(&blob.file).exists());
        assert_eq!(shelf.waiting(), [1]);
    }
}
