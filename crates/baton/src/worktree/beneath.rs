//! Files of somebody else, reached from a descriptor of their root: no link is followed, no way leads out,
//! no other file system is entered, and nothing that is not a plain file is opened.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, linkat, mkdirat, openat,
    openat2, readlinkat, statat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How often a look is repeated that raced with a rename.
const TRIES_MAX: usize = 8;

/// Which folder it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// A folder, held open.
#[derive(Debug)]
pub(crate) struct Root(OwnedFd);

impl Root {
    /// Opens a folder of ours by its name.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    pub(super) fn identity(&self) -> io::Result<Identity> {
        let about = fstat(&self.0)?;
        Ok(Identity { device: about.st_dev, inode: about.st_ino })
    }

    /// A folder inside.
    pub(crate) fn folder(&self, path: &Path) -> io::Result<Self> {
        self.reach(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map(Self)
    }

    /// A plain file inside, to read.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        let file = self.whatever(path)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"))
    }

    /// Whatever is inside under that name and is no link, to ask what it is.
    pub(crate) fn whatever(&self, path: &Path) -> io::Result<File> {
        // Opening must not wait for whoever writes a pipe.
        self.reach(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map(File::from)
    }

    /// What a plain file holds, if it is not more than that.
    pub(super) fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        self.file(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
        }
        Ok(bytes)
    }

    /// Where a link inside leads to.
    pub(super) fn link(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let text = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => readlinkat(&self.folder(parent)?.0, name, vec![])?,
            None => readlinkat(&self.0, name, vec![])?,
        };
        Ok(text.into_bytes())
    }

    /// What stands there; a link is told as a link.
    pub(crate) fn look(&self, path: &Path) -> io::Result<Stat> {
        Ok(statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives what is there a second name elsewhere; a link is not followed.
    pub(super) fn also(&self, name: &Path, elsewhere: &Path) -> io::Result<()> {
        Ok(linkat(&self.0, name, CWD, elsewhere, AtFlags::empty())?)
    }

    /// The names inside, at most so many.
    pub(crate) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let mut names = vec![];
        for entry in Dir::read_from(self.0.as_fd())? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name.as_bytes() == b"." || name.as_bytes() == b".." {
                continue;
            }
            if names.len() == most {
                return Err(io::Error::other("there is too much in it"));
            }
            names.push(name);
        }
        names.sort();
        Ok(names)
    }

    /// Makes a file that was not there, and the folders on the way to it.
    pub(super) fn make(&self, path: &Path, mode: u32) -> io::Result<File> {
        let mut way = std::path::PathBuf::new();
        let parent = path.parent().unwrap_or(Path::new(""));
        for part in parent.components() {
            way.push(part);
            match mkdirat(&self.0, &way, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // What was there may be a link: the next step must not go through it.
            self.folder(&way)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.reach(path, flags, Mode::from_raw_mode(mode & 0o777)).map(File::from)
    }

    fn reach(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.as_os_str().is_empty() || !path.components().all(plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it leads out of the folder"));
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        for _ in 0..TRIES_MAX {
            match openat2(&self.0, path, flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // An old kernel, or a filter around us that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return self.step_by_step(path, flags, mode),
                Ok(file) => return Ok(file),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The same, part by part.
    pub(crate) fn step_by_step(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<OwnedFd> {
        let device = fstat(&self.0)?.st_dev;
        let between = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = self.0.try_clone()?;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            at = openat(&at, part.as_os_str(), if last { flags } else { between }, mode)?;
            if fstat(&at)?.st_dev != device {
                return Err(Errno::XDEV.into());
            }
        }
        Ok(at)
    }
}
