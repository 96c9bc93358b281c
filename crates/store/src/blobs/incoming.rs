//! Bytes on their way in.
//!
//! They are hashed while they are copied into a file of their own, which gets the blob's name only
//! when it is complete and durable. A crash before that leaves a file that the next opening
//! removes; a crash after it leaves the blob.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

use super::directory::DirectoryBlobs;
use super::folder::Entry;
use super::{Digest, Error, Put, Stored, Tenant, Urgency, Usage};

/// How many names are tried for a file, should others of the same directory have taken them.
const NAMES_TRIED_MAX: usize = 1_000;

/// What marks a file of ours among those that are on their way.
const SUFFIX: &str = ".part";

/// A put that is being received.
pub(super) struct Receiving<'a> {
    store: &'a DirectoryBlobs,
    tenant: Tenant<'a>,
    put: &'a Put,
    hasher: Sha256,
    size: u64,
    /// The copy, or why there is no room for one: then the bytes are only hashed, because they may
    /// be stored already, and repeating a put must not fail for want of room.
    copy: Result<Incoming<'a>, Error>,
}

impl<'a> Receiving<'a> {
    pub(super) fn begin(
        store: &'a DirectoryBlobs,
        tenant: Tenant<'a>,
        put: &'a Put,
    ) -> Result<Self, Error> {
        let copy = match Incoming::begin(store, tenant, put) {
            Ok(incoming) => Ok(incoming),
            Err(refusal) => Err(bearable(store, tenant, put, refusal)?),
        };
        Ok(Self { store, tenant, put, hasher: Sha256::new(), size: 0, copy })
    }

    pub(super) fn take(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let length = bytes(chunk);
        self.size = self.size.saturating_add(length);
        if self.size > self.put.size_max {
            return Err(Error::TooLarge { size_max: self.put.size_max });
        }
        self.hasher.update(chunk);
        if let Ok(incoming) = &mut self.copy
            && let Err(refusal) = incoming.write(chunk)
        {
            self.copy = Err(bearable(self.store, self.tenant, self.put, refusal)?);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Stored, Error> {
        let digest = Digest::finish(self.hasher);
        if let Some(expected) = self.put.expected
            && expected != digest
        {
            return Err(Error::DigestMismatch { expected, found: digest });
        }
        let refusal = match self.copy {
            Ok(incoming) => return incoming.place(digest, self.size, self.put.now),
            Err(refusal) => refusal,
        };
        let stored = self
            .store
            .verified(self.tenant, &digest)
            .and_then(|_| self.store.make_young(self.tenant, &digest, self.put.now));
        match stored {
            Ok(stat) => Ok(Stored { digest, size: stat.size, new: false }),
            Err(Error::NotFound { .. } | Error::Corrupt { .. }) => Err(refusal),
            Err(error) => Err(error),
        }
    }
}

/// Lets a refusal wait until the digest is known, if it may then turn out not to matter.
///
/// A caller who announces bytes that are not stored is refused at once, before sending them all.
fn bearable(
    store: &DirectoryBlobs,
    tenant: Tenant<'_>,
    put: &Put,
    refusal: Error,
) -> Result<Error, Error> {
    let may_be_stored = match &put.expected {
        Some(digest) => store.blob(tenant, digest).is_ok(),
        None => true,
    };
    if refusal.is_want_of_room() && may_be_stored { Ok(refusal) } else { Err(refusal) }
}

/// A file that is being written. Dropped before it is placed, it leaves nothing.
struct Incoming<'a> {
    store: &'a DirectoryBlobs,
    tenant: Tenant<'a>,
    urgency: Urgency,
    name: String,
    file: File,
    reserved: Usage,
    placed: bool,
}

impl<'a> Incoming<'a> {
    fn begin(store: &'a DirectoryBlobs, tenant: Tenant<'a>, put: &Put) -> Result<Self, Error> {
        store.admit(put.urgency, 0)?;
        let floor = store.floor(put.urgency);
        let (name, file) = {
            // Under the lock, so that the collector never sees the file without its entry.
            let mut state = store.lock();
            let mut names = (0..NAMES_TRIED_MAX).map(|_| name(put.now, state.number()));
            let made = names.find_map(|name| match store.incoming().create(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|file| (name, file))),
            });
            let made = made.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()));
            let made = made.map_err(Error::writing("making a file for the bytes", floor))?;
            // Others who open the directory leave alone what is locked.
            made.1.lock().map_err(Error::io("locking the file for the bytes"))?;
            state.arriving.insert(made.0.clone());
            made
        };
        let mut incoming = Self {
            store,
            tenant,
            urgency: put.urgency,
            name,
            file,
            reserved: Usage::default(),
            placed: false,
        };
        incoming.reserve(Usage::blob(0))?;
        Ok(incoming)
    }

    fn reserve(&mut self, room: Usage) -> Result<(), Error> {
        self.store.lock().ledger.reserve(self.tenant, room)?;
        self.reserved = self.reserved.plus(room);
        Ok(())
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let length = bytes(chunk);
        self.reserve(Usage { blobs: 0, bytes: length })?;
        self.store.admit(self.urgency, length)?;
        let floor = self.store.floor(self.urgency);
        self.file.write_all(chunk).map_err(Error::writing("writing the bytes", floor))
    }

    fn place(mut self, digest: Digest, size: u64, now: SystemTime) -> Result<Stored, Error> {
        let floor = self.store.floor(self.urgency);
        self.file.set_modified(now).map_err(Error::io("dating the blob"))?;
        self.file.sync_all().map_err(Error::writing("making the bytes durable", floor))?;

        let name = digest.to_string();
        let (place, old_size, redated) = {
            // Under the lock, so that the collector removes the old blob before this or sees the
            // new one, which is young.
            let mut state = self.store.lock();
            let place = self.store.place_or_make(self.tenant, &digest)?;
            let old = place.shard.entry(&name).map_err(Error::io("looking for the blob"))?;
            let (old_size, redated) = match old {
                Entry::File(_, old) => {
                    let dated = old.modified().map_err(Error::io("reading the blob's age"))?;
                    // Never older than before: a refresh at a later time keeps its grace.
                    if dated > now {
                        self.file.set_modified(dated).map_err(Error::io("dating the blob"))?;
                    }
                    (Some(old.len()), dated > now)
                }
                Entry::Missing | Entry::Strange => (None, false),
            };
            let renamed = self.store.incoming().rename(&self.name, &place.shard, &name);
            renamed.map_err(Error::writing("naming the blob", floor))?;
            self.placed = true;
            if let Some(old_size) = old_size {
                state.ledger.remove(self.tenant, Usage::blob(old_size));
            }
            state.ledger.add(self.tenant, Usage::blob(size));
            // At once, or the same bytes would count twice until this put returns.
            state.ledger.release(self.tenant, mem::take(&mut self.reserved));
            (place, old_size, redated)
        };
        if redated {
            self.file.sync_all().map_err(Error::io("making the blob's age durable"))?;
        }
        place.sync(self.store)?;
        Ok(Stored { digest, size, new: old_size.is_none() })
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = self.store.incoming().remove_file(&self.name)
        {
            // The collector will find it.
            tracing::warn!(file = self.name, %error, "the bytes of a refused blob remain");
        }
        let mut state = self.store.lock();
        state.arriving.remove(&self.name);
        state.ledger.release(self.tenant, self.reserved);
    }
}

/// Names a file so that its age is known however the file system dates it.
fn name(now: SystemTime, number: u64) -> String {
    let millis = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("{millis}-{number}{SUFFIX}")
}

/// Reads from a file's name when its put began. Names that are not ours have no such time.
pub(super) fn began_at(name: &str) -> Option<SystemTime> {
    let (millis, number) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let _: u64 = number.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))
}

fn bytes(chunk: &[u8]) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(u64::MAX)
}
