//! The folder of a task without git. It is made by generation like a worktree, under the same lock and the
//! same quarantine, but nothing of it is kept elsewhere: the next generation begins with a copy.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use baton_domain::ids::AttemptId;
use rustix::fs::FileType;

use super::beneath::Root;
use super::house::{UNPROVED, hold};
use super::record::clear;
use super::{Error, Held};

/// Files that are copied into the next generation; whoever has more has a repository.
const FILES_MAX: usize = 100_000;
/// Bytes of them: as many as a snapshot reads.
const BYTES_MAX: u64 = 1 << 30;
/// How deep folders are copied.
const DEEP_MAX: usize = 64;
/// Bytes of what a quarantine says.
const WHY_BYTES_MAX: u64 = 4 << 10;

/// A plain folder of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    place: PathBuf,
    generation: u32,
}

/// What may still be copied.
struct Room {
    files: usize,
    bytes: u64,
    /// What was left out.
    dropped: usize,
}

impl Plain {
    /// A folder of a task, of this generation.
    #[must_use]
    pub fn at(place: &Path, generation: u32) -> Self {
        Self { place: place.to_path_buf(), generation }
    }

    /// The last folder of a task and the right to work in it, or the next one if somebody has that, or may
    /// still write in it.
    ///
    /// # Errors
    /// If there were too many, or it cannot be made.
    pub fn prepare(place: &Path, generations_max: u32) -> Result<(Self, Held), Error> {
        let is_there = |generation: &u32| Self::at(place, *generation).path().exists();
        let last = (1..=generations_max).rev().find(is_there).unwrap_or(1);
        for generation in last..=generations_max {
            let one = Self::at(place, generation);
            let own = one.own();
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&own)
                .map_err(Error::file(&own))?;
            match hold(&own) {
                Err(Error::InUse(_)) => continue,
                Ok(_) if one.closed()?.is_some() => continue,
                Ok(held) => {
                    one.make()?;
                    return Ok((one, held));
                }
                Err(error) => return Err(error),
            }
        }
        let why = format!("{}: {generations_max} of them were closed", place.display());
        Err(Error::NoWorktree(why))
    }

    /// Which one it is.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The folder that the agent works in.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.place.join(of_generation("work", self.generation))
    }

    /// What Baton keeps beside it.
    fn own(&self) -> PathBuf {
        self.place.join(of_generation("work", self.generation) + ".own")
    }

    /// Works in it: one does at a time.
    ///
    /// # Errors
    /// If somebody does.
    pub fn hold(&self) -> Result<Held, Error> {
        hold(&self.own())
    }

    /// Why nobody works here again, if nobody does.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn closed(&self) -> Result<Option<String>, Error> {
        let path = self.own().join("closed");
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(Error::file(&path))?,
        };
        let mut why = String::new();
        file.take(WHY_BYTES_MAX).read_to_string(&mut why).map_err(Error::file(&path))?;
        Ok(Some(why))
    }

    /// The attempt that was in it last, if it is closed because the death of that one is not proved.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn unproved(&self) -> Result<Option<AttemptId>, Error> {
        let closed = self.closed()?;
        let (why, attempt) = closed.as_deref().and_then(|text| text.split_once('\n')).unzip();
        Ok(attempt.filter(|_| why == Some(UNPROVED)).and_then(|attempt| attempt.parse().ok()))
    }

    /// Nobody works here again: somebody may still write in it whose death is not proved.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn quarantine(&self, why: &str) -> Result<(), Error> {
        let (own, path) = (self.own(), self.own().join("closed"));
        let written = || -> io::Result<()> {
            let mut draft = tempfile::NamedTempFile::new_in(&own)?;
            draft.write_all(why.as_bytes())?;
            draft.as_file().sync_all()?;
            draft.persist(&path).map_err(|error| error.error)?;
            File::open(&own)?.sync_all()
        };
        written().map_err(Error::file(&path))
    }

    /// Lifts a quarantine whose cause is gone. If the task has gone on in a later folder, it stays as it is.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn release(&self) -> Result<(), Error> {
        if Self::at(&self.place, self.generation + 1).path().exists() {
            return Ok(());
        }
        let (own, path) = (self.own(), self.own().join("closed"));
        match fs::remove_file(&path).and_then(|()| File::open(&own)?.sync_all()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            released => released.map_err(Error::file(&path)),
        }
    }

    /// Makes the folder, whole or not at all, with what the one before holds.
    fn make(&self) -> Result<(), Error> {
        let path = self.path();
        if path.exists() {
            return Ok(());
        }
        let draft = self.own().join("draft");
        clear(&draft)?;
        let folder = || DirBuilder::new().mode(0o700).create(&draft);
        folder().map_err(Error::file(&draft))?;
        let before = Self::at(&self.place, self.generation.saturating_sub(1)).path();
        let mut room = Room { files: FILES_MAX, bytes: BYTES_MAX, dropped: 0 };
        if self.generation > 1
            && let Ok(root) = Root::open(&before)
        {
            copy(&root, &draft, &mut room, DEEP_MAX).map_err(Error::file(&draft))?;
        }
        if room.dropped > 0 {
            let (from, dropped) = (before.display(), room.dropped);
            tracing::warn!(%from, dropped, "some files of a closed folder were not copied");
        }
        fs::rename(&draft, &path).map_err(Error::file(&path))
    }
}

/// A name in the folder of a task, by generation; the first has none.
#[must_use]
pub fn of_generation(name: &str, generation: u32) -> String {
    if generation <= 1 { name.to_owned() } else { format!("{name}-{generation}") }
}

/// Copies what is in a folder in which somebody may be at work: no link is followed, and what cannot be
/// read is left out.
fn copy(from: &Root, to: &Path, room: &mut Room, deep: usize) -> io::Result<()> {
    for name in from.names(FILES_MAX)? {
        let (name, target) = (Path::new(&name), to.join(&name));
        if room.files == 0 || deep == 0 {
            room.dropped += 1;
            continue;
        }
        room.files -= 1;
        let Ok(about) = from.look(name) else { continue };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => {
                let Ok(inside) = from.folder(name) else {
                    room.dropped += 1;
                    continue;
                };
                DirBuilder::new().mode(0o700).create(&target)?;
                copy(&inside, &target, room, deep - 1)?;
            }
            FileType::Symlink => match from.link(name) {
                Ok(text) => symlink(std::ffi::OsStr::from_bytes(&text), &target)?,
                Err(_) => room.dropped += 1,
            },
            FileType::RegularFile => copy_file(from, name, &target, about.st_mode & 0o777, room)?,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => room.dropped += 1,
        }
    }
    Ok(())
}

fn copy_file(
    from: &Root,
    name: &Path,
    target: &Path,
    mode: u32,
    room: &mut Room,
) -> io::Result<()> {
    let Ok(file) = from.file(name) else {
        room.dropped += 1;
        return Ok(());
    };
    let mut copied = File::options().write(true).create_new(true).mode(mode).open(target)?;
    let bytes = io::copy(&mut file.take(room.bytes.saturating_add(1)), &mut copied)?;
    if bytes > room.bytes {
        // Half of a file is worse than none.
        room.dropped += 1;
        return fs::remove_file(target);
    }
    room.bytes -= bytes;
    Ok(())
}
