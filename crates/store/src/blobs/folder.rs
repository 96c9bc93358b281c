//! Folders that are ours alone, reached step by step so that no symbolic link is ever followed.
//!
//! Every name is resolved against an open folder, never against a path: nothing that happens to a
//! path between a check and its use can lead elsewhere.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::Error;

/// An open folder, checked to be ours.
#[derive(Debug)]
pub(super) struct Folder {
    handle: File,
    /// For messages only.
    path: PathBuf,
}

/// What lies under a name.
#[derive(Debug)]
pub(super) enum Entry {
    Missing,
    /// A regular file, open for reading.
    File(File, Metadata),
    /// Anything else, which we did not make.
    Strange,
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Without `NONBLOCK`, a pipe in the place of a blob would stop its reader for ever.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Folder {
    /// Opens a folder by path, and makes it if its parent exists.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) => sync_parent(path).map_err(Error::io("making the directory durable"))?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::io("making the directory")(errno.into())),
        }
        match rustix::fs::openat(CWD, path, FOLDER, Mode::empty()) {
            Ok(handle) => Self::trusted(handle.into(), path.to_owned()),
            Err(errno) => Err(not_a_folder(errno, path.to_owned())),
        }
    }

    /// Opens a folder by path, if it is there.
    pub(super) fn existing(path: &Path) -> Result<Option<Self>, Error> {
        match rustix::fs::openat(CWD, path, FOLDER, Mode::empty()) {
            Ok(handle) => Self::trusted(handle.into(), path.to_owned()).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(not_a_folder(errno, path.to_owned())),
        }
    }

    /// Opens a folder inside this one.
    pub(super) fn child(&self, name: &str) -> Result<Option<Self>, Error> {
        let path = self.path.join(name);
        match rustix::fs::openat(&self.handle, name, FOLDER, Mode::empty()) {
            Ok(handle) => Self::trusted(handle.into(), path).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(not_a_folder(errno, path)),
        }
    }

    /// Opens a folder inside this one, and makes it if it is missing.
    pub(super) fn child_or_make(&self, name: &str) -> Result<Self, Error> {
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::writing("making a folder", 0)(errno.into())),
        }
        self.child(name)?.ok_or_else(|| {
            Error::io("opening a folder just made")(io::Error::from(io::ErrorKind::NotFound))
        })
    }

    fn trusted(handle: File, path: PathBuf) -> Result<Self, Error> {
        let metadata = handle.metadata().map_err(Error::io("looking at a folder"))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::Untrusted { path, rule: "must belong to the server's own user" });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(Error::Untrusted {
                path,
                rule: "must be closed to all others (mode 0700)",
            });
        }
        Ok(Self { handle, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what lies under a name, for reading.
    pub(super) fn entry(&self, name: &str) -> io::Result<Entry> {
        let file = match rustix::fs::openat(&self.handle, name, READ, Mode::empty()) {
            Ok(handle) => File::from(handle),
            Err(Errno::NOENT) => return Ok(Entry::Missing),
            // A symbolic link, or a socket.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Entry::Strange),
            Err(errno) => return Err(errno.into()),
        };
        let metadata = file.metadata()?;
        Ok(if metadata.is_file() { Entry::File(file, metadata) } else { Entry::Strange })
    }

    /// Makes a file that only its maker can write, through the handle it gets here.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        Ok(rustix::fs::openat(&self.handle, name, CREATE, Mode::RUSR)?.into())
    }

    /// Makes or opens the file whose lock says that the folder is in use.
    pub(super) fn lock_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.handle, name, flags, mode)?.into())
    }

    pub(super) fn rename(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, name, &to.handle, new_name)?)
    }

    /// Gives a file of this folder the same name in another one, too; false if the two are not on one
    /// file system that can.
    pub(super) fn link(&self, name: &str, to: &Self) -> io::Result<bool> {
        match rustix::fs::linkat(&self.handle, name, &to.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// Removes a folder if it is empty, and says whether it did.
    pub(super) fn remove_if_empty(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.handle.sync_all().map_err(Error::io("making a folder durable"))
    }

    /// Makes everything on the file system of the folder durable, at once.
    pub(super) fn sync_file_system(&self) -> Result<(), Error> {
        let synced = rustix::fs::syncfs(&self.handle);
        synced.map_err(|errno| Error::io("making the file system durable")(errno.into()))
    }

    /// The names in the folder, sorted. Those that are not UTF-8 are none of ours: they come back
    /// changed, so that they are counted and never opened.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let read = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.handle)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy();
                if name != "." && name != ".." {
                    names.push(name.into_owned());
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        read().map_err(Error::io("listing a folder"))
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

fn not_a_folder(errno: Errno, path: PathBuf) -> Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR => {
            Error::Untrusted { path, rule: "must be a directory and no symbolic link" }
        }
        _ => Error::io("opening a folder")(errno.into()),
    }
}
