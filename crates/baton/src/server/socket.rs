//! The unix socket: in a folder that only we can enter, so that whoever answers there is us and
//! whoever asks there is let in by us.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

use super::Peer;

/// What others may do with the folder of a socket: nothing.
const OTHERS: u32 = 0o077;
/// Bytes of a path to a socket, by the size of the field that takes it.
const PATH_BYTES_MAX: usize = 107;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder is not ours alone.
    #[error(
        "{0} must be a folder of your own with mode 0700, and no link: choose another --socket"
    )]
    NotOurs(PathBuf),
    /// Something else is there.
    #[error("{0} is there already and is no socket: choose another --socket")]
    NoSocket(PathBuf),
    /// Somebody answers there.
    #[error("{0} is in use by another server: stop it first, or choose another --socket")]
    InUse(PathBuf),
    /// The system does not take such a path.
    #[error("{0} is too long for a socket ({PATH_BYTES_MAX} bytes): choose a shorter --socket")]
    TooLong(PathBuf),
    /// The file system failed.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
}

/// A socket that is listened at; its name goes with it.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // If it cannot be removed, the next start removes it.
        drop(fs::remove_file(&self.path));
    }
}

/// Listens at a path. Whoever calls this holds the lock of the store, so a socket that nobody
/// answers at is a leftover.
pub fn bind(path: &Path) -> Result<(UnixListener, Bound), Error> {
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(Error::TooLong(path.into()));
    }
    let failed = |error| Error::Io(path.into(), error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    own(folder)?;
    clear(path)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    let bound = Bound { path: path.into() };
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    Ok((listener, bound))
}

/// Makes the folder, or checks the one that is there. It is looked at itself, not what it links to.
fn own(folder: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::Io(folder.into(), error)),
    }
    let there = fs::symlink_metadata(folder).map_err(|error| Error::Io(folder.into(), error))?;
    let ours = there.is_dir() && there.uid() == geteuid().as_raw() && there.mode() & OTHERS == 0;
    if ours { Ok(()) } else { Err(Error::NotOurs(folder.into())) }
}

fn clear(path: &Path) -> Result<(), Error> {
    let failed = |error| Error::Io(path.into(), error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(there) if !there.file_type().is_socket() => Err(Error::NoSocket(path.into())),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(Error::InUse(path.into())),
            Err(_) => fs::remove_file(path).map_err(failed),
        },
    }
}

/// Who is at the other end. Whoever belongs to the tree of a supervised agent is that agent, though it runs as
/// the same user; and so is whoever is gone before anybody could look.
#[must_use]
pub fn peer(socket: &UnixStream) -> Peer {
    match socket.peer_cred() {
        Ok(there) if there.uid() == geteuid().as_raw() => match there.pid() {
            // Whoever has no number here comes from another room of processes, where nobody can look.
            Some(pid) if pid > 0 && !is_inside(pid) => Peer::Owner,
            Some(_) | None => Peer::Inside,
        },
        Ok(_) | Err(_) => Peer::Stranger,
    }
}

/// Ancestors that are looked at: a tree of processes that is deeper has something to hide.
const ANCESTORS_MAX: usize = 256;

/// Whether a process hangs below a shim. Orphans of an agent's tree come to its shim, so nobody leaves it.
fn is_inside(pid: i32) -> bool {
    let mut pid = pid;
    for _ in 0..ANCESTORS_MAX {
        if pid <= 1 {
            return false;
        }
        match ancestor(pid) {
            Some((true, _)) | None => return true,
            Some((false, parent)) => pid = parent,
        }
    }
    true
}

/// Whether a process is a shim, and its parent; none if it is gone.
fn ancestor(pid: i32) -> Option<(bool, i32)> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0).skip(1);
    let is_shim = words.next() == Some(b"shim");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; what comes after its end does not.
    let rest = &stat[stat.rfind(')')? + 1..];
    Some((is_shim, rest.split_whitespace().nth(1)?.parse().ok()?))
}
