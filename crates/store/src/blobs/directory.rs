//! Blobs in a directory.
//!
//! ```text
//! lock                          held as long as the directory is open
//! incoming/1767225600000-7.part bytes of a put that has not ended
//! tenants/local/9f/86/9f86d0…   a blob, mode 0400, whose modification time is its last refresh
//! ```
//!
//! One lock in memory orders what gives, renews and takes away names: placing, refreshing and
//! removing. Bytes are copied, hashed and made durable outside it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::collect::{Found, walk};
use super::folder::{Entry, Folder};
use super::incoming::{Receiving, began_at};
use super::ledger::Ledger;
use super::read::{CHUNK_BYTES, Verified, digest_of, fill};
use super::{
    Blob, Blobs, Collect, Collected, Digest, Error, Put, Quota, Stat, Stored, Tenant, Urgency,
    Usage,
};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Says how many bytes of disk are free for blobs.
pub type FreeSpace = Box<dyn Fn() -> io::Result<u64> + Send + Sync>;

/// The limits of a directory of blobs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What each tenant may keep.
    pub tenant_quota: Quota,
    /// What all tenants together may keep.
    pub total_quota: Quota,
    /// How much disk an ordinary put leaves free.
    pub free_bytes_low: u64,
    /// How much disk a put that ends work leaves free.
    pub free_bytes_min: u64,
    /// How many entries opening may count. Beyond it quotas are lenient, and [`Opened`] says so:
    /// a server with too many blobs must still start.
    pub entries_max: u64,
}

/// What all tenants together may keep, in quotas of one.
const TENANTS_WORTH: u64 = 5;

impl Settings {
    /// The usual limits, with as many bytes as this for each tenant.
    #[must_use]
    pub fn keeping(bytes_max: u64) -> Self {
        let usual = Self::default();
        let tenant_quota = Quota { bytes_max, ..usual.tenant_quota };
        let bytes_max = bytes_max.saturating_mul(TENANTS_WORTH);
        Self { tenant_quota, total_quota: Quota { bytes_max, ..usual.total_quota }, ..usual }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tenant_quota: Quota { blobs_max: 1_000_000, bytes_max: 10 * GIB },
            total_quota: Quota { blobs_max: 10_000_000, bytes_max: TENANTS_WORTH * 10 * GIB },
            free_bytes_low: 512 * MIB,
            free_bytes_min: 128 * MIB,
            entries_max: 20_000_000,
        }
    }
}

/// What opening found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// How many tenants have blobs.
    pub tenants: u64,
    /// What they keep.
    pub usage: Usage,
    /// How many abandoned puts were removed.
    pub leftovers_removed: u64,
    /// How many entries are not ours; they were left alone and are not counted as usage.
    pub strangers: u64,
    /// Whether counting ended before [`Settings::entries_max`].
    pub complete: bool,
}

/// Blobs in a directory, of one server alone or of several that share it.
///
/// Those that share it do not know what the others put: each counts against the quotas what it found
/// when it opened the directory and what it put itself. The watermarks of free disk hold for all.
pub struct DirectoryBlobs {
    settings: Settings,
    /// Whether others may have it open, too.
    shared: bool,
    free_space: FreeSpace,
    incoming: Folder,
    tenants: Folder,
    state: Mutex<State>,
    /// Closing it ends the lock.
    _lock: File,
}

/// What the lock in memory guards, beside the names on the disk.
pub(super) struct State {
    pub(super) ledger: Ledger,
    /// The files that are being written, which the collector leaves alone however old they are.
    pub(super) arriving: HashSet<String>,
    /// Where each tenant's collection goes on.
    pub(super) cursors: HashMap<String, Digest>,
    numbered: u64,
}

/// The folders that lead to a blob.
pub(super) struct Folders {
    tenant: Folder,
    first: Folder,
    pub(super) shard: Folder,
}

impl DirectoryBlobs {
    /// Opens a directory of blobs, makes it if its parent exists, and counts what is in it.
    pub fn open(
        path: &Path,
        settings: Settings,
        free_space: FreeSpace,
    ) -> Result<(Self, Opened), Error> {
        Self::enter(path, settings, free_space, false)
    }

    /// Opens it beside others that share it. Whoever opens it alone keeps them out, and they it.
    pub fn open_shared(
        path: &Path,
        settings: Settings,
        free_space: FreeSpace,
    ) -> Result<(Self, Opened), Error> {
        Self::enter(path, settings, free_space, true)
    }

    fn enter(
        path: &Path,
        settings: Settings,
        free_space: FreeSpace,
        shared: bool,
    ) -> Result<(Self, Opened), Error> {
        // Without the trailing slash or dot that would make the system follow a symbolic link.
        let root = Folder::open(&path.components().collect::<PathBuf>())?;
        let lock = root.lock_file("lock").map_err(Error::io("opening the lock"))?;
        match if shared { lock.try_lock_shared() } else { lock.try_lock() } {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse { path: root.path().to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(Error::io("locking")(source)),
        }
        let incoming = root.child_or_make("incoming")?;
        let tenants = root.child_or_make("tenants")?;
        root.sync()?;
        let state = State {
            ledger: Ledger::new(settings.tenant_quota, settings.total_quota),
            arriving: HashSet::new(),
            cursors: HashMap::new(),
            numbered: 0,
        };
        let state = Mutex::new(state);
        let blobs = Self { settings, shared, free_space, incoming, tenants, state, _lock: lock };
        let mut opened = Opened { complete: true, ..Opened::default() };
        blobs.remove_abandoned(&mut opened)?;
        blobs.count(&mut opened)?;
        Ok((blobs, opened))
    }

    /// Says how many bytes are free on the file system that holds a path.
    pub fn free_space_of(path: &Path) -> FreeSpace {
        let path = path.to_owned();
        Box::new(move || {
            let status = rustix::fs::statvfs(&path)?;
            Ok(status.f_bavail.saturating_mul(status.f_frsize))
        })
    }

    /// What all tenants keep.
    pub fn usage_in_total(&self) -> Usage {
        self.lock().ledger.stored_in_total()
    }

    /// Removes what puts left that did not end. One that is under way, here or in another process, has
    /// its file locked. Should it be between making the file and locking it, it fails, is told so, and
    /// is repeated.
    fn remove_abandoned(&self, opened: &mut Opened) -> Result<(), Error> {
        for name in self.incoming.names()? {
            if began_at(&name).is_none() {
                opened.strangers += 1;
            } else if self.is_abandoned(&name) {
                self.incoming.remove_file(&name).map_err(Error::io("removing a leftover"))?;
                opened.leftovers_removed += 1;
            }
        }
        Ok(())
    }

    /// Whether nobody writes a file that is on its way any more.
    pub(super) fn is_abandoned(&self, name: &str) -> bool {
        match self.incoming.entry(name) {
            Ok(Entry::File(file, _)) => !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Ok(Entry::Missing) => false,
            Ok(Entry::Strange) | Err(_) => true,
        }
    }

    fn count(&self, opened: &mut Opened) -> Result<(), Error> {
        let mut entries = 0;
        for name in self.tenants.names()? {
            let Ok(tenant) = Tenant::parse(&name) else {
                opened.strangers += 1;
                continue;
            };
            let Some(folder) = self.tenants.child(tenant.0)? else { continue };
            opened.tenants += 1;
            let flow = walk(&folder, None, &mut |shard, found| {
                if entries == self.settings.entries_max {
                    return ControlFlow::Break(());
                }
                entries += 1;
                match found {
                    Found::Blob(digest) => self.count_blob(tenant, shard, &digest, opened),
                    Found::Stranger => opened.strangers += 1,
                }
                ControlFlow::Continue(())
            })?;
            if flow.is_break() {
                opened.complete = false;
                break;
            }
        }
        opened.usage = self.usage_in_total();
        Ok(())
    }

    fn count_blob(&self, tenant: Tenant<'_>, shard: &Folder, digest: &Digest, into: &mut Opened) {
        match shard.entry(&digest.to_string()) {
            Ok(Entry::File(_, metadata)) => {
                self.lock().ledger.add(tenant, Usage::blob(metadata.len()));
            }
            Ok(Entry::Missing) => {}
            Ok(Entry::Strange) => into.strangers += 1,
            Err(error) => {
                // One bad file must not keep the server from starting.
                tracing::warn!(tenant = tenant.0, %digest, %error, "a blob cannot be counted");
                into.strangers += 1;
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever panicked under the lock, the names on the disk are still the truth.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn incoming(&self) -> &Folder {
        &self.incoming
    }

    pub(super) fn tenants(&self) -> &Folder {
        &self.tenants
    }

    /// How much disk must stay free.
    pub(super) fn floor(&self, urgency: Urgency) -> u64 {
        match urgency {
            Urgency::Ordinary => self.settings.free_bytes_low,
            Urgency::Ending => self.settings.free_bytes_min,
        }
    }

    /// Refuses bytes that would take the disk below its watermark.
    pub(super) fn admit(&self, urgency: Urgency, bytes: u64) -> Result<(), Error> {
        let free_bytes = (self.free_space)().map_err(Error::io("asking for free disk"))?;
        let floor_bytes = self.floor(urgency);
        if free_bytes < floor_bytes.saturating_add(bytes) {
            return Err(Error::DiskFull { free_bytes, floor_bytes });
        }
        Ok(())
    }

    pub(super) fn place(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
    ) -> Result<Option<Folders>, Error> {
        let (first, second) = digest.shard();
        let Some(tenant) = self.tenants.child(tenant.0)? else { return Ok(None) };
        let Some(first) = tenant.child(&format!("{first:02x}"))? else { return Ok(None) };
        let Some(shard) = first.child(&format!("{second:02x}"))? else { return Ok(None) };
        Ok(Some(Folders { tenant, first, shard }))
    }

    pub(super) fn place_or_make(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
    ) -> Result<Folders, Error> {
        let (first, second) = digest.shard();
        let tenant = self.tenants.child_or_make(tenant.0)?;
        let first = tenant.child_or_make(&format!("{first:02x}"))?;
        let shard = first.child_or_make(&format!("{second:02x}"))?;
        Ok(Folders { tenant, first, shard })
    }

    /// Opens a blob.
    pub(super) fn blob(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
    ) -> Result<(File, Metadata, Folders), Error> {
        let digest = *digest;
        let place = self.place(tenant, &digest)?.ok_or(Error::NotFound { digest })?;
        let entry = place.shard.entry(&digest.to_string());
        match entry.map_err(Error::io("opening a blob"))? {
            Entry::File(file, metadata) => Ok((file, metadata, place)),
            Entry::Missing => Err(Error::NotFound { digest }),
            Entry::Strange => Err(Error::Corrupt { digest }),
        }
    }

    /// Opens a blob whose bytes are what was put, at this moment.
    pub(super) fn verified(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
    ) -> Result<(File, Metadata), Error> {
        let (mut file, metadata, _) = self.blob(tenant, digest)?;
        let found = digest_of(&mut file).map_err(Error::io("reading a blob"))?;
        if found != *digest {
            tracing::error!(tenant = tenant.0, %digest, %found, "a blob is corrupt");
            return Err(Error::Corrupt { digest: *digest });
        }
        Ok((file, metadata))
    }

    pub(super) fn make_young(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
        now: SystemTime,
    ) -> Result<Stat, Error> {
        let (file, place, stat) = {
            // Under the lock, so that the collector removes the blob before this or sees it young.
            let _state = self.lock();
            let (file, metadata, place) = self.blob(tenant, digest)?;
            let stat = stat_of(&metadata)?;
            let stat = Stat { refreshed_at: stat.refreshed_at.max(now), ..stat };
            file.set_modified(stat.refreshed_at).map_err(Error::io("dating the blob"))?;
            (file, place, stat)
        };
        file.sync_all().map_err(Error::io("making the blob's age durable"))?;
        // Its put may not have got as far, and the caller is about to rely on the blob.
        place.sync(self)?;
        Ok(stat)
    }
}

impl Folders {
    /// Makes the blob's name durable, and the names of all folders that lead to it.
    ///
    /// All of them, always: a folder that is there may have been made a moment ago by another put
    /// that has not made it durable yet. Where nothing changed this costs next to nothing.
    pub(super) fn sync(&self, blobs: &DirectoryBlobs) -> Result<(), Error> {
        self.shard.sync()?;
        self.first.sync()?;
        self.tenant.sync()?;
        blobs.tenants.sync()
    }

    /// Removes the folders that have become empty: an empty folder takes more disk than most blobs.
    pub(super) fn tidy(
        &self,
        blobs: &DirectoryBlobs,
        tenant: Tenant<'_>,
        digest: &Digest,
    ) -> io::Result<()> {
        let (first, second) = digest.shard();
        let _: bool = self.first.remove_if_empty(&format!("{second:02x}"))?
            && self.tenant.remove_if_empty(&format!("{first:02x}"))?
            && blobs.tenants.remove_if_empty(tenant.0)?;
        Ok(())
    }
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }
}

impl Blobs for DirectoryBlobs {
    fn put(&self, tenant: &str, bytes: &mut dyn Read, put: &Put) -> Result<Stored, Error> {
        let mut receiving = Receiving::begin(self, Tenant::parse(tenant)?, put)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let count = fill(bytes, &mut buffer).map_err(Error::SourceFailed)?;
            if count == 0 {
                return receiving.finish();
            }
            receiving.take(&buffer[..count])?;
        }
    }

    fn get(&self, tenant: &str, digest: &Digest) -> Result<Blob, Error> {
        let (file, metadata, _) = self.blob(Tenant::parse(tenant)?, digest)?;
        Ok(Blob { size: metadata.len(), bytes: Box::new(file) })
    }

    fn get_verified(&self, tenant: &str, digest: &Digest) -> Result<Blob, Error> {
        let (file, metadata) = self.verified(Tenant::parse(tenant)?, digest)?;
        Ok(Blob { size: metadata.len(), bytes: Box::new(Verified::new(file, *digest)) })
    }

    fn stat(&self, tenant: &str, digest: &Digest) -> Result<Stat, Error> {
        let (_, metadata, _) = self.blob(Tenant::parse(tenant)?, digest)?;
        stat_of(&metadata)
    }

    fn refresh(&self, tenant: &str, digest: &Digest, now: SystemTime) -> Result<Stat, Error> {
        self.make_young(Tenant::parse(tenant)?, digest, now)
    }

    fn usage(&self, tenant: &str) -> Result<Usage, Error> {
        Ok(self.lock().ledger.stored(Tenant::parse(tenant)?))
    }

    fn collect(
        &self,
        tenant: &str,
        is_live: &dyn Fn(&Digest) -> bool,
        collect: &Collect,
    ) -> Result<Collected, Error> {
        // The lock that orders refreshing and removing is of this process alone.
        if self.shared {
            return Err(Error::InUse { path: self.tenants.path().to_owned() });
        }
        self.collect_some(Tenant::parse(tenant)?, is_live, collect)
    }
}

impl fmt::Debug for DirectoryBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryBlobs").field("tenants", &self.tenants).finish_non_exhaustive()
    }
}

pub(super) fn stat_of(metadata: &Metadata) -> Result<Stat, Error> {
    let refreshed_at = metadata.modified().map_err(Error::io("reading the blob's age"))?;
    Ok(Stat { size: metadata.len(), refreshed_at })
}
