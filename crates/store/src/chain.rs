//! The chain that makes edits visible.
//!
//! Each entry's link is a hash over the link before it of the same task, what the entry is about,
//! and a salted digest of its payload. A payload can thus be erased without breaking the chain.
//! Seals sign, per tenant, all links between two positions and the seal before, so that neither
//! an entry nor a tail up to the last seal can vanish unseen.

pub use ed25519_dalek::SigningKey;
use ed25519_dalek::{Signature, Signer, Verifier, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::read::About;

/// A hash.
pub type Hash = [u8; 32];

/// What the first link of every chain builds on.
pub const ROOT: Hash = [0; 32];

/// Length of the salt of a payload in bytes.
pub const SALT_BYTES: usize = 16;

/// The digest that stands for a payload.
#[must_use]
pub fn payload_digest(salt: &[u8], payload: &[u8]) -> Hash {
    Sha256::new().chain_update(salt).chain_update(payload).finalize().into()
}

/// An entry as the chain sees it.
#[derive(Clone, Copy, Debug)]
pub struct Linked<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Where in the order of commits.
    pub position: u64,
    /// What it tells of.
    pub about: About,
    /// When, in milliseconds.
    pub at: i64,
    /// Who, as stored.
    pub actor: &'a [u8],
    /// See [`payload_digest`].
    pub payload: &'a Hash,
    /// See [`wrote`].
    pub wrote: &'a [u8],
}

/// What a link covers besides the link before it, the position and the time, which come between
/// the two parts: whoever learns those two late can still make the link.
#[must_use]
pub(crate) fn parts(entry: &Linked<'_>) -> (Vec<u8>, Vec<u8>) {
    let (task, version) = match entry.about {
        About::Task(task, version) => (task.0, version),
        About::Records(version) => (0, version),
    };
    // Lengths come before what varies in length, so that no two entries hash the same bytes.
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes();
    let tenant = entry.tenant.as_bytes();
    let about = [task.to_be_bytes(), version.to_be_bytes()].concat();
    let first = [length(tenant).as_slice(), tenant, &about].concat();
    let actor = [length(entry.actor).as_slice(), entry.actor].concat();
    let wrote = [length(entry.wrote).as_slice(), entry.wrote].concat();
    (first, [actor.as_slice(), entry.payload, &wrote].concat())
}

/// The link of an entry, given the one before it in the same chain.
#[must_use]
pub fn link(before: &Hash, entry: &Linked<'_>) -> Hash {
    let (first, second) = parts(entry);
    Sha256::new()
        .chain_update(before)
        .chain_update(first)
        .chain_update(entry.position.to_be_bytes())
        .chain_update(entry.at.to_be_bytes())
        .chain_update(second)
        .finalize()
        .into()
}

/// The rows that come with an entry of a task, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The flow, always.
    pub flow: String,
    /// The brief, if it was written.
    pub brief: Option<String>,
    /// Rows of the history.
    pub records: Vec<String>,
}

/// Digests by which an entry holds on to the rows that came with it: of the flow, and where there
/// are any of the brief and of the history. A row that was edited later is found by them. They are
/// salted like the payload, so that what was erased cannot be guessed from them.
#[must_use]
pub fn wrote(salt: &[u8], rows: &Rows) -> Vec<u8> {
    let digest = |what: &[u8], texts: &[&str]| -> Hash {
        let mut hash = Sha256::new().chain_update(salt).chain_update(what);
        for text in texts {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    };
    let mut digests = digest(b"flow", &[&rows.flow]).to_vec();
    let records: Vec<&str> = rows.records.iter().map(String::as_str).collect();
    if rows.brief.is_some() || !records.is_empty() {
        let brief = rows.brief.as_ref().map_or(ROOT, |brief| digest(b"brief", &[brief]));
        digests.extend_from_slice(&brief);
    }
    if !records.is_empty() {
        digests.extend_from_slice(&digest(b"records", &records));
    }
    digests
}

/// A signature over all links of a tenant between two positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The last position that the seal before covers.
    pub after: u64,
    /// The last position that it covers.
    pub up_to: u64,
    /// Hash over the links and the seal before.
    pub digest: Hash,
    /// Which key signed.
    pub key: [u8; 32],
    /// The signature over tenant, position and digest.
    pub signature: [u8; 64],
}

/// Gathers links until they are sealed.
#[derive(Clone, Debug)]
pub struct Gather(Sha256);

impl Gather {
    /// Begins after a seal, or at the root.
    #[must_use]
    pub fn after(seal: &Hash) -> Self {
        Self(Sha256::new().chain_update(seal))
    }

    /// Takes in the next link.
    pub fn add(&mut self, link: &Hash) {
        self.0.update(link);
    }

    /// The digest so far.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.0.clone().finalize().into()
    }
}

fn sealed_bytes(tenant: &str, up_to: u64, digest: &Hash) -> Vec<u8> {
    [b"baton-seal-1".as_slice(), tenant.as_bytes(), &up_to.to_be_bytes(), digest].concat()
}

impl Seal {
    /// Signs what was gathered.
    #[must_use]
    pub fn sign(key: &SigningKey, tenant: &str, (after, up_to): (u64, u64), digest: Hash) -> Self {
        let signature = key.sign(&sealed_bytes(tenant, up_to, &digest)).to_bytes();
        Self { after, up_to, digest, key: key.verifying_key().to_bytes(), signature }
    }

    /// Whether the signature is this key's, over these bytes.
    #[must_use]
    pub fn holds(&self, tenant: &str) -> bool {
        let bytes = sealed_bytes(tenant, self.up_to, &self.digest);
        VerifyingKey::from_bytes(&self.key)
            .is_ok_and(|key| key.verify(&bytes, &Signature::from_bytes(&self.signature)).is_ok())
    }
}

fn vouched_bytes(key: &[u8; 32]) -> Vec<u8> {
    [b"baton-seal-key-1".as_slice(), key].concat()
}

/// The word of one key for another that signed before it.
pub(crate) fn vouch_for(signing: &SigningKey, key: &[u8; 32]) -> [u8; 64] {
    signing.sign(&vouched_bytes(key)).to_bytes()
}

/// Whether the present key gave its word for another.
pub(crate) fn is_vouched(present: &VerifyingKey, key: &[u8; 32], vouched: &[u8; 64]) -> bool {
    present.verify(&vouched_bytes(key), &Signature::from_bytes(vouched)).is_ok()
}

/// What a walk over chains found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Entries whose links hold.
    pub entries: u64,
    /// Seals that hold.
    pub seals: u64,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
    /// Whether the walk came to its end.
    pub ended: bool,
}

/// Something that is wrong with a chain, or with a row that hangs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose.
    pub tenant: String,
    /// Where in the order of commits.
    pub position: u64,
    /// What.
    pub what: &'static str,
}

/// Walks the entries of one tenant in the order of their positions; may rest anywhere.
#[derive(Clone, Debug)]
pub struct Walk {
    next: u64,
    /// Links since the last seal; none if some of them are no longer kept.
    gather: Option<Gather>,
}

/// An entry as it is stored.
pub struct Stored<'a> {
    /// As the chain sees it.
    pub linked: Linked<'a>,
    /// The link before it in its chain; none if that is no longer kept.
    pub before: Option<Hash>,
    /// Its link as stored.
    pub link: &'a Hash,
}

impl Walk {
    /// Begins after a position, which is the end of the seal with this digest if it is known.
    #[must_use]
    pub fn after(position: u64, seal: Option<&Hash>) -> Self {
        Self { next: position + 1, gather: seal.map(Gather::after) }
    }

    /// The position that comes next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Checks the next entry.
    pub fn entry(&mut self, stored: &Stored<'_>) -> Result<(), (u64, &'static str)> {
        let position = stored.linked.position;
        if position != self.next {
            return Err((self.next, "an entry is missing"));
        }
        if let Some(before) = &stored.before
            && link(before, &stored.linked) != *stored.link
        {
            return Err((position, "the link does not hold"));
        }
        if let Some(gather) = &mut self.gather {
            gather.add(stored.link);
        }
        self.next += 1;
        Ok(())
    }

    /// Checks a seal, once every entry that it covers was walked.
    pub fn seal(
        &mut self,
        tenant: &str,
        seal: &Seal,
        trusted: &[[u8; 32]],
    ) -> Result<(), (u64, &'static str)> {
        if seal.up_to + 1 != self.next {
            return Err((seal.up_to, "the tail that this seal covers is missing"));
        }
        if !trusted.contains(&seal.key) || !seal.holds(tenant) {
            return Err((seal.up_to, "the seal's signature does not hold"));
        }
        if self.gather.as_ref().is_some_and(|gather| gather.digest() != seal.digest) {
            return Err((seal.up_to, "the seal covers other entries"));
        }
        self.gather = Some(Gather::after(&seal.digest));
        Ok(())
    }
}
