//! Bytes by digest: artifacts, gate logs, transcripts, git bundles.
//!
//! A blob is named by the SHA-256 of its bytes and belongs to one tenant: two tenants that put the
//! same bytes have two blobs, so that nobody learns from a put what another tenant has. Every call
//! blocks; callers that must not block use a thread that may.
//!
//! **How long they stay.** No store can say at a bounded cost who refers to a blob, so no server runs
//! the collector: what bounds the blobs is their quota.
//!
//! **Blobs and the records that refer to them.** Put (or [`Blobs::refresh`]) first, then commit the
//! record. The collector never removes a blob that was put or refreshed less than its grace ago, so
//! whoever commits within the grace refers to a blob that stays.

use std::fmt;
use std::io::Read;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

mod collect;
mod copy;
mod digest;
mod directory;
mod error;
mod folder;
mod incoming;
mod ledger;
mod read;
#[cfg(test)]
mod tests;

pub use copy::{Copied, copy};
pub use digest::Digest;
pub use directory::{DirectoryBlobs, FreeSpace, Opened, Settings};
pub use error::{Error, Measure, Scope};
pub use ledger::{Quota, Usage};

/// The largest blob that is handed over in one piece, by whoever sends and whoever receives it.
pub const BYTES_MAX: u64 = 256 << 20;

/// Where blobs are kept.
pub trait Blobs: Send + Sync {
    /// Stores all bytes of a reader, durably, or nothing.
    ///
    /// Putting what is stored already is no error, even where there is no room for more: it makes
    /// the blob young again and repairs it if it was damaged.
    fn put(&self, tenant: &str, bytes: &mut dyn Read, put: &Put) -> Result<Stored, Error>;

    /// Opens a blob as it lies on the disk.
    fn get(&self, tenant: &str, digest: &Digest) -> Result<Blob, Error>;

    /// Opens a blob after hashing it again, and goes on hashing while it is read.
    ///
    /// Damage that is there already is [`Error::Corrupt`]. Damage that happens during the reading
    /// is an error of kind [`std::io::ErrorKind::InvalidData`] in the place of the reader's end.
    fn get_verified(&self, tenant: &str, digest: &Digest) -> Result<Blob, Error>;

    /// Says how large a blob is and since when it is unrefreshed.
    fn stat(&self, tenant: &str, digest: &Digest) -> Result<Stat, Error>;

    /// Makes a blob young again, for a record that is about to refer to it without a put.
    fn refresh(&self, tenant: &str, digest: &Digest, now: SystemTime) -> Result<Stat, Error>;

    /// What a tenant keeps, without what is still on its way.
    fn usage(&self, tenant: &str) -> Result<Usage, Error>;

    /// Looks at the next few blobs of a tenant and removes those that are old and not live.
    ///
    /// Call again while [`Collected::more`]: the collector remembers where it stopped, and begins
    /// anew after the last blob. `is_live` may take its time and may itself put and get.
    fn collect(
        &self,
        tenant: &str,
        is_live: &dyn Fn(&Digest) -> bool,
        collect: &Collect,
    ) -> Result<Collected, Error>;
}

/// How to take in a blob.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The digest that the bytes must have, if it is known beforehand.
    pub expected: Option<Digest>,
    /// How many bytes are accepted.
    pub size_max: u64,
    /// How low the disk may get for it.
    pub urgency: Urgency,
    /// When the blob begins to age.
    pub now: SystemTime,
}

/// What the bytes are for, which decides the watermark of free disk that holds for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// New work, refused first.
    Ordinary,
    /// The end of work that was accepted: its last snapshot, artifacts, gate logs.
    Ending,
}

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The digest of the bytes.
    pub digest: Digest,
    /// How many there were.
    pub size: u64,
    /// Whether the tenant did not have them before.
    pub new: bool,
}

/// What is known of a blob without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// How many bytes it has.
    pub size: u64,
    /// When it was last put or refreshed.
    pub refreshed_at: SystemTime,
}

/// An open blob. It can be read to its end even if it is collected meanwhile.
pub struct Blob {
    /// How many bytes it has.
    pub size: u64,
    /// The bytes.
    pub bytes: Box<dyn Read + Send>,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob").field("size", &self.size).finish_non_exhaustive()
    }
}

/// How to collect.
#[derive(Clone, Copy, Debug)]
pub struct Collect {
    /// The grace: what was put or refreshed less than this ago stays, live or not.
    pub older_than: Duration,
    /// The time at which ages are measured.
    pub now: SystemTime,
    /// How many blobs one call may look at.
    pub budget: NonZeroU32,
}

/// What one call of the collector did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Blobs that were looked at and stay: young, live, or refreshed at the last moment.
    pub kept: u64,
    /// Blobs that were removed.
    pub removed: u64,
    /// The bytes that those had.
    pub freed_bytes: u64,
    /// Blobs that should have been removed, or looked at, and could not; the log says why.
    pub failed: u64,
    /// Abandoned puts whose bytes were removed.
    pub leftovers_removed: u64,
    /// Whether blobs remain that this pass has not looked at.
    pub more: bool,
}

/// A tenant's name that was checked, and so is safe as the name of a folder.
#[derive(Clone, Copy, Debug)]
struct Tenant<'a>(&'a str);

impl<'a> Tenant<'a> {
    /// Longer than any name a person types, shorter than any file system's limit.
    const LENGTH_MAX: usize = 64;

    fn parse(name: &'a str) -> Result<Self, Error> {
        let fits = (1..=Self::LENGTH_MAX).contains(&name.len());
        let plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if fits && name.bytes().all(plain) {
            Ok(Self(name))
        } else {
            Err(Error::Invalid { field: "tenant", rule: "must match [a-z0-9_-]{1,64}" })
        }
    }
}
