//! Copies of all blobs of a directory, which may be in use, into another one.
//!
//! Every blob is hashed before it is copied. Where both directories are on one file system a copy is
//! another name for the same bytes, which nobody ever writes again; elsewhere the bytes are copied.

use std::ops::ControlFlow;
use std::path::Path;

use super::collect::{Found, walk};
use super::directory::{DirectoryBlobs, Settings, stat_of};
use super::folder::{Entry, Folder};
use super::read::digest_of;
use super::{Blobs as _, Digest, Error, Put, Quota, Tenant, Urgency};

/// What was copied is what was kept before, whatever the quotas are by now.
const NO_QUOTA: Quota = Quota { blobs_max: u64::MAX, bytes_max: u64::MAX };

/// What a copy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Blobs that the copy has now.
    pub blobs: u64,
    /// The bytes that those have.
    pub bytes: u64,
    /// Blobs that were damaged, and were left out; the log says which.
    pub damaged: u64,
}

/// Copies what a directory has into another one, which nobody has open and which is made if its
/// parent exists. What is there already stays as it is. A directory that is not there has no blobs.
pub fn copy(from: &Path, to: &Path) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let Some(source) = Folder::existing(from)? else { return Ok(copied) };
    let settings =
        Settings { tenant_quota: NO_QUOTA, total_quota: NO_QUOTA, ..Settings::default() };
    let (target, _) = DirectoryBlobs::open(to, settings, DirectoryBlobs::free_space_of(to))?;
    let Some(tenants) = source.child("tenants")? else { return Ok(copied) };
    for name in tenants.names()? {
        let Ok(tenant) = Tenant::parse(&name) else { continue };
        let Some(folder) = tenants.child(&name)? else { continue };
        let mut failed = None;
        let _: ControlFlow<()> = walk(&folder, None, &mut |shard, found| {
            let Found::Blob(digest) = found else { return ControlFlow::Continue(()) };
            match copy_one(&target, tenant, shard, &digest, &mut copied) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    target.tenants().sync_file_system()?;
    Ok(copied)
}

fn copy_one(
    target: &DirectoryBlobs,
    tenant: Tenant<'_>,
    shard: &Folder,
    digest: &Digest,
    copied: &mut Copied,
) -> Result<(), Error> {
    let name = digest.to_string();
    let (mut file, size, now) = match shard.entry(&name).map_err(Error::io("opening a blob"))? {
        Entry::File(file, metadata) => (file, metadata.len(), stat_of(&metadata)?.refreshed_at),
        Entry::Missing | Entry::Strange => return Ok(()),
    };
    if digest_of(&mut file).map_err(Error::io("reading a blob"))? != *digest {
        tracing::error!(tenant = tenant.0, %digest, "a blob is corrupt, and was not copied");
        copied.damaged += 1;
        return Ok(());
    }
    let place = target.place_or_make(tenant, digest)?;
    let there = place.shard.entry(&name).map_err(Error::io("looking for the blob"))?;
    let there = matches!(there, Entry::File(..));
    if !there && !shard.link(&name, &place.shard).map_err(Error::io("naming the blob"))? {
        let (expected, urgency) = (Some(*digest), Urgency::Ending);
        let put = Put { expected, size_max: u64::MAX, urgency, now };
        target.put(tenant.0, &mut file, &put)?;
    }
    copied.blobs += 1;
    copied.bytes = copied.bytes.saturating_add(size);
    Ok(())
}
