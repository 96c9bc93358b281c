//! Why blobs are refused, in words that a caller can act on.

use std::io;
use std::path::PathBuf;

use super::Digest;

/// Why a call on blobs was refused or failed.
///
/// Every call is safe to repeat: a put that failed left nothing, or the complete blob.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument breaks its rule; nothing was looked up.
    #[error("{field} {rule}")]
    Invalid {
        /// Which argument.
        field: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// More bytes came than the caller allowed.
    #[error("the bytes must not be more than {size_max}")]
    TooLarge {
        /// The bound that was passed.
        size_max: u64,
    },
    /// The bytes are not those that the caller announced.
    #[error("the bytes must have the digest {expected}, they have {found}")]
    DigestMismatch {
        /// The announced digest.
        expected: Digest,
        /// The digest of the bytes that came.
        found: Digest,
    },
    /// The tenant has no such blob; another tenant's blob looks the same.
    #[error("the tenant has no blob {digest}")]
    NotFound {
        /// The digest asked for.
        digest: Digest,
    },
    /// The stored bytes are no longer those that were put.
    #[error("the stored bytes of blob {digest} are not what was put")]
    Corrupt {
        /// The digest asked for.
        digest: Digest,
    },
    /// Storing the bytes would pass a quota.
    #[error("{scope} must not keep more than {max} {measure}")]
    QuotaExceeded {
        /// Whose quota.
        scope: Scope,
        /// What is counted.
        measure: Measure,
        /// The quota.
        max: u64,
    },
    /// Storing the bytes would leave too little free disk.
    #[error("the disk must keep {floor_bytes} bytes free, it has {free_bytes}")]
    DiskFull {
        /// How much is free; zero if the disk itself refused.
        free_bytes: u64,
        /// The watermark for a put of this urgency.
        floor_bytes: u64,
    },
    /// A directory that must be ours alone is not.
    #[error("{} {rule}", path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// What it must be.
        rule: &'static str,
    },
    /// Another process, or another part of this one, has the directory open.
    #[error("{} must be opened by one server only", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The bytes could not be read from the caller, who may have gone away.
    #[error("the bytes stopped coming")]
    SourceFailed(#[source] io::Error),
    /// The file system failed.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// How it failed.
        #[source]
        source: io::Error,
    },
}

/// Whose quota a put would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The tenant's own.
    Tenant,
    /// That of all tenants together.
    Total,
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Blobs, because even an empty one costs an inode.
    Blobs,
    /// Bytes of blobs.
    Bytes,
}

impl Error {
    /// The stable name by which programs know the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::TooLarge { .. } => "too_large",
            Self::DigestMismatch { .. } => "digest_mismatch",
            Self::NotFound { .. } => "not_found",
            Self::Corrupt { .. } => "corrupt",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::DiskFull { .. } => "disk_full",
            Self::Untrusted { .. } => "untrusted_directory",
            Self::InUse { .. } => "in_use",
            Self::SourceFailed(_) => "source_failed",
            Self::Io { .. } => "io",
        }
    }

    /// The argument or setting that the error is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Invalid { field, .. } => field,
            Self::TooLarge { .. } | Self::SourceFailed(_) => "bytes",
            Self::DigestMismatch { .. } => "expected",
            Self::NotFound { .. } | Self::Corrupt { .. } => "digest",
            Self::QuotaExceeded { scope: Scope::Tenant, .. } => "tenant",
            Self::QuotaExceeded { scope: Scope::Total, .. } | Self::DiskFull { .. } => "disk",
            Self::Untrusted { .. } | Self::InUse { .. } | Self::Io { .. } => "directory",
        }
    }

    /// What the reader of the error can do next.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "correct it and send the request again",
            Self::TooLarge { .. } => "send a smaller blob, or split it",
            Self::DigestMismatch { .. } => "hash the bytes again and send them with that digest",
            Self::NotFound { .. } => "put the bytes first",
            Self::Corrupt { .. } => "put the same bytes again, which replaces the damaged ones",
            Self::QuotaExceeded { scope: Scope::Tenant, .. } => "raise the quota of tenants",
            Self::QuotaExceeded { scope: Scope::Total, .. } => {
                "raise the quota of tenants, which that of the server follows"
            }
            Self::DiskFull { .. } => "free disk space; puts are accepted again without a restart",
            Self::Untrusted { .. } => {
                "name a real directory that belongs to the server's own user and has mode 0700"
            }
            Self::InUse { .. } => "stop the other server, or give this one its own directory",
            Self::SourceFailed(_) => "send the bytes again",
            Self::Io { .. } => "look at the server's log and disk, then try again",
        }
    }

    /// Whether the bytes would be welcome if there were more room.
    pub(super) fn is_want_of_room(&self) -> bool {
        matches!(self, Self::QuotaExceeded { .. } | Self::DiskFull { .. })
    }

    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Says `disk_full` where the disk itself ran out, whatever the watermark thought.
    pub(super) fn writing(doing: &'static str, floor_bytes: u64) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
            if full.contains(&source.kind()) {
                Self::DiskFull { free_bytes: 0, floor_bytes }
            } else {
                Self::Io { doing, source }
            }
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tenant => "the tenant",
            Self::Total => "the server",
        })
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Blobs => "blobs",
            Self::Bytes => "bytes",
        })
    }
}
