//! Removing what nobody refers to any more.

use std::ops::ControlFlow;
use std::time::SystemTime;

use super::digest::hex_pair;
use super::directory::{DirectoryBlobs, stat_of};
use super::folder::Folder;
use super::incoming::began_at;
use super::{Collect, Collected, Digest, Error, Tenant, Usage};

/// What a walk comes upon.
pub(super) enum Found {
    Blob(Digest),
    /// Something that we did not make.
    Stranger,
}

/// What became of a blob that was looked at.
enum Fate {
    Kept,
    Removed {
        size: u64,
    },
    /// Another call was faster.
    Gone,
}

/// Visits a tenant's blobs after a digest, in order, until the visitor breaks off.
pub(super) fn walk(
    tenant: &Folder,
    after: Option<&Digest>,
    visit: &mut dyn FnMut(&Folder, Found) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let start = after.map(Digest::shard);
    for first_name in tenant.names()? {
        let Some(first) = hex_pair(first_name.as_bytes()) else {
            if visit(tenant, Found::Stranger).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            continue;
        };
        if start.is_some_and(|start| first < start.0) {
            continue;
        }
        let Some(folder) = tenant.child(&first_name)? else { continue };
        for second_name in folder.names()? {
            let Some(second) = hex_pair(second_name.as_bytes()) else {
                if visit(&folder, Found::Stranger).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            };
            if start.is_some_and(|start| (first, second) < start) {
                continue;
            }
            let Some(shard) = folder.child(&second_name)? else { continue };
            if walk_shard(&shard, (first, second), after, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn walk_shard(
    shard: &Folder,
    home: (u8, u8),
    after: Option<&Digest>,
    visit: &mut dyn FnMut(&Folder, Found) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    for name in shard.names()? {
        let found = match name.parse::<Digest>() {
            Ok(digest) if digest.shard() == home => {
                if after.is_some_and(|after| digest <= *after) {
                    continue;
                }
                Found::Blob(digest)
            }
            Ok(_) | Err(_) => Found::Stranger,
        };
        if visit(shard, found).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl DirectoryBlobs {
    pub(super) fn collect_some(
        &self,
        tenant: Tenant<'_>,
        is_live: &dyn Fn(&Digest) -> bool,
        collect: &Collect,
    ) -> Result<Collected, Error> {
        let mut collected = Collected::default();
        let after = self.lock().cursors.get(tenant.0).copied();
        if after.is_none() {
            collected.leftovers_removed = self.remove_leftovers(collect)?;
        }
        let (digests, more) = self.page(tenant, after.as_ref(), collect.budget.get())?;
        for digest in &digests {
            match self.collect_one(tenant, digest, is_live, collect) {
                Ok(Fate::Kept) => collected.kept += 1,
                Ok(Fate::Removed { size }) => {
                    collected.removed += 1;
                    collected.freed_bytes += size;
                }
                Ok(Fate::Gone) => {}
                Err(error) => {
                    // One bad file must not keep all those after it from being collected.
                    tracing::warn!(tenant = tenant.0, %digest, %error, "a blob is not collectable");
                    collected.failed += 1;
                }
            }
        }
        collected.more = more;
        let mut state = self.lock();
        match digests.last() {
            Some(last) if more => state.cursors.insert(tenant.0.to_owned(), *last),
            Some(_) | None => state.cursors.remove(tenant.0),
        };
        Ok(collected)
    }

    /// The next digests, and whether others follow.
    fn page(
        &self,
        tenant: Tenant<'_>,
        after: Option<&Digest>,
        budget: u32,
    ) -> Result<(Vec<Digest>, bool), Error> {
        let mut digests = Vec::new();
        let Some(folder) = self.tenants().child(tenant.0)? else { return Ok((digests, false)) };
        let mut left = budget;
        let flow = walk(&folder, after, &mut |_, found| match found {
            Found::Blob(_) if left == 0 => ControlFlow::Break(()),
            Found::Blob(digest) => {
                left -= 1;
                digests.push(digest);
                ControlFlow::Continue(())
            }
            Found::Stranger => ControlFlow::Continue(()),
        })?;
        Ok((digests, flow.is_break()))
    }

    fn collect_one(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
        is_live: &dyn Fn(&Digest) -> bool,
        collect: &Collect,
    ) -> Result<Fate, Error> {
        let refreshed_at = match self.blob(tenant, digest) {
            Ok((_, metadata, _)) => stat_of(&metadata)?.refreshed_at,
            Err(Error::NotFound { .. }) => return Ok(Fate::Gone),
            Err(error) => return Err(error),
        };
        if is_from_the_future(refreshed_at, collect) {
            return self.age_from_now(tenant, digest, collect);
        }
        if !is_old(refreshed_at, collect) || is_live(digest) {
            return Ok(Fate::Kept);
        }
        self.remove_if_old(tenant, digest, collect)
    }

    /// Removes a blob unless it was refreshed since it was judged.
    fn remove_if_old(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
        collect: &Collect,
    ) -> Result<Fate, Error> {
        // Under the lock, so that nobody can refresh the blob between the look and the removal.
        let mut state = self.lock();
        let (_, metadata, place) = match self.blob(tenant, digest) {
            Ok(blob) => blob,
            Err(Error::NotFound { .. }) => return Ok(Fate::Gone),
            Err(error) => return Err(error),
        };
        let stat = stat_of(&metadata)?;
        if !is_old(stat.refreshed_at, collect) {
            return Ok(Fate::Kept);
        }
        let removed = place.shard.remove_file(&digest.to_string());
        removed.map_err(Error::io("removing a blob"))?;
        state.ledger.remove(tenant, Usage::blob(stat.size));
        // The removal is not made durable: after a crash the blob is back, is counted by the next
        // opening and goes with the next collection.
        if let Err(error) = place.tidy(self, tenant, digest) {
            tracing::warn!(tenant = tenant.0, %digest, %error, "an empty folder remains");
        }
        Ok(Fate::Removed { size: stat.size })
    }

    /// Gives a blob that a wrong clock dated into the future its grace from now; it would otherwise
    /// stay until then.
    fn age_from_now(
        &self,
        tenant: Tenant<'_>,
        digest: &Digest,
        collect: &Collect,
    ) -> Result<Fate, Error> {
        let _state = self.lock();
        let (file, metadata, _) = self.blob(tenant, digest)?;
        if is_from_the_future(stat_of(&metadata)?.refreshed_at, collect) {
            file.set_modified(collect.now).map_err(Error::io("dating the blob"))?;
        }
        Ok(Fate::Kept)
    }

    /// Removes the bytes of puts that ended without removing them.
    fn remove_leftovers(&self, collect: &Collect) -> Result<u64, Error> {
        let mut removed = 0;
        for name in self.incoming().names()? {
            let old = began_at(&name).is_some_and(|began_at| is_old(began_at, collect));
            let state = self.lock();
            if old && !state.arriving.contains(&name) && self.is_abandoned(&name) {
                match self.incoming().remove_file(&name) {
                    Ok(()) => removed += 1,
                    Err(error) => tracing::warn!(file = name, %error, "a leftover remains"),
                }
            }
        }
        Ok(removed)
    }
}

/// Whether the grace is over. What is not yet born, by a clock that went back, is young.
fn is_old(refreshed_at: SystemTime, collect: &Collect) -> bool {
    collect.now.duration_since(refreshed_at).is_ok_and(|age| age >= collect.older_than)
}

/// Whether a date is further ahead than the clocks of calls that overlap can be.
fn is_from_the_future(refreshed_at: SystemTime, collect: &Collect) -> bool {
    refreshed_at.duration_since(collect.now).is_ok_and(|ahead| ahead > collect.older_than)
}
