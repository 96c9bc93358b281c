//! The folder of a store: ours alone, on a local disk, used by one process at a time.

use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use baton_domain::time::Timestamp;

use super::OpenError;

/// Room that is given back when the disk is full, so that work can at least be ended.
const BALLAST_BYTES: usize = 32 << 20;

/// The folder of a store, checked and locked. A store on a made-up disk, for tests, has none.
pub struct Place {
    folder: Option<PathBuf>,
    /// Held as long as the store is open; its time of change is when the time was last watched.
    lock: Option<File>,
    noted: Timestamp,
}

impl Place {
    /// No folder: whoever brings a file layer of their own looks after it.
    pub(super) fn nowhere() -> Self {
        Self { folder: None, lock: None, noted: Timestamp(0) }
    }

    /// Makes the folder or checks that it is ours, and locks it: from then on nobody else makes or
    /// changes anything in it.
    pub fn enter(folder: &Path) -> Result<Self, OpenError> {
        let io = |error: std::io::Error| OpenError::Io(folder.into(), error.to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
        let about = fs::symlink_metadata(folder).map_err(io)?;
        let ours = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
        if !ours || about.mode() & 0o077 != 0 {
            return Err(OpenError::NotOurs(folder.into()));
        }
        refuse_network(folder)?;
        let path = folder.join("baton.lock");
        let lock = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            // In a new folder nobody has watched the time yet.
            Ok(lock) => lock.set_modified(SystemTime::UNIX_EPOCH).map(|()| lock),
            Err(_) => OpenOptions::new().write(true).open(&path),
        }
        .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(folder.into())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        super::backup::finish(folder).map_err(io)?;
        write_log_again(&folder.join("baton.db-wal")).map_err(io)?;
        Ok(Self { folder: Some(folder.into()), lock: Some(lock), noted: Timestamp(0) })
    }

    /// When somebody last watched the time, by the last process that was here.
    pub(super) fn watched_at(&self) -> Timestamp {
        let changed = self.lock.as_ref().and_then(|lock| lock.metadata().ok()?.modified().ok());
        let age = changed.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        Timestamp(age.and_then(|age| i64::try_from(age.as_millis()).ok()).unwrap_or(0))
    }

    /// Notes when somebody last watched the time; not in the database, for a converged store
    /// writes nothing.
    pub(super) fn remember_watch(&mut self, at: Timestamp) {
        if at == self.noted {
            return;
        }
        self.noted = at;
        let since_epoch = Duration::from_millis(u64::try_from(at.0).unwrap_or(0));
        let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since_epoch);
        if let Some(Err(error)) = self.lock.as_ref().map(|lock| lock.set_times(times)) {
            tracing::warn!(%error, "cannot note that the time was watched");
        }
    }

    /// Gives the reserved room back.
    pub(super) fn release_ballast(&self) {
        if let Some(folder) = &self.folder {
            drop(fs::remove_file(folder.join("baton.ballast")));
        }
    }

    /// Reserves room again; fails only for want of room. Where nothing can be reserved there is no
    /// ballast, which must not keep a store from leaving a full disk behind.
    pub(super) fn restore_ballast(&mut self) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join("baton.ballast");
        if fs::metadata(&path).is_ok_and(|about| about.len() >= BALLAST_BYTES as u64) {
            return Ok(());
        }
        match reserve(&path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                drop(fs::remove_file(&path));
                Err(error)
            }
            Err(error) => {
                tracing::warn!(%error, "no room can be reserved here");
                drop(fs::remove_file(&path));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

fn reserve(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    let whole = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(&file, whole, 0, BALLAST_BYTES as u64)?)
}

/// After a failed sync the last process may have left pages that are in memory but not on disk,
/// and that no later sync would write. Writing the log once more with its own bytes makes what
/// recovery is about to trust durable.
fn write_log_again(wal: &Path) -> std::io::Result<()> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(wal) else { return Ok(()) };
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let length = file.read_at(&mut piece, at)?;
        if length == 0 {
            return file.sync_all();
        }
        file.write_all_at(&piece[..length], at)?;
        at += length as u64;
    }
}

/// Locks and shared memory do not work over a network, and a database without them is lost.
fn refuse_network(folder: &Path) -> Result<(), OpenError> {
    match network_of(folder) {
        Ok(Some(name)) => Err(OpenError::Network(folder.into(), name)),
        Ok(None) => Ok(()),
        Err(error) => Err(OpenError::Io(folder.into(), error.to_string())),
    }
}

/// The name of the network file system that a folder is on, if it is on one.
pub(super) fn network_of(folder: &Path) -> std::io::Result<Option<&'static str>> {
    let about = rustix::fs::statfs(folder)?;
    Ok(network(u64::try_from(about.f_type).unwrap_or(0)))
}

/// The name of a file system that a store must not be on, by its magic number.
fn network(magic: u64) -> Option<&'static str> {
    let known = NETWORK.iter().find(|(known, _)| *known == magic & 0xffff_ffff);
    known.map(|(_, name)| *name)
}

/// File systems that are not on this machine, or not known to keep their promises.
const NETWORK: [(u64, &str); 16] = [
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x517b, "smb"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x786f_4256, "vboxsf"),
    (0x7375_7245, "coda"),
    (0x6b41_4653, "afs"),
    (0x0bd0_0bd0, "lustre"),
];

/// Bytes free where a store is.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(test)]
mod tests;
