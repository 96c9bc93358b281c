//! The chain that makes edits visible.
//!
//! Each entry's link is a hash over the link before it of the same task, what the entry is about,
//! and a salted digest of its payload. A payload can thus be erased without breaking the chain.
//! Seals sign, per tenant, all links between two positions and the seal before, so that neither
//! an entry nor a tail up to the last seal can vanish unseen.

use std::collections::HashMap;

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
}

/// The link of an entry, given the one before it in the same chain.
#[must_use]
pub fn link(before: &Hash, entry: &Linked<'_>) -> Hash {
    let (task, version) = match entry.about {
        About::Task(task, version) => (task.0, version),
        About::Records(version) => (0, version),
    };
    // Lengths come before what varies in length, so that no two entries hash the same bytes.
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes();
    Sha256::new()
        .chain_update(before)
        .chain_update(length(entry.tenant.as_bytes()))
        .chain_update(entry.tenant)
        .chain_update(task.to_be_bytes())
        .chain_update(version.to_be_bytes())
        .chain_update(entry.position.to_be_bytes())
        .chain_update(entry.at.to_be_bytes())
        .chain_update(length(entry.actor))
        .chain_update(entry.actor)
        .chain_update(entry.payload)
        .finalize()
        .into()
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

/// What a walk over all chains found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Entries whose links hold.
    pub entries: u64,
    /// Seals that hold.
    pub seals: u64,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
}

/// Something that is wrong with a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose.
    pub tenant: String,
    /// Where in the order of commits.
    pub position: u64,
    /// What.
    pub what: &'static str,
}

/// Walks the entries of one tenant in the order of their positions.
pub struct Walk {
    tenant: String,
    next: u64,
    heads: HashMap<u64, (u64, Hash)>,
    gather: Gather,
}

/// An entry as it is stored.
pub struct Stored<'a> {
    /// As the chain sees it.
    pub linked: Linked<'a>,
    /// Salt and payload; none if erased.
    pub payload: Option<(&'a [u8], &'a [u8])>,
    /// Its link as stored.
    pub link: &'a Hash,
}

impl Walk {
    /// Begins before the first entry that is kept.
    #[must_use]
    pub fn begin(tenant: &str, first: u64) -> Self {
        Self {
            tenant: tenant.into(),
            next: first,
            heads: HashMap::new(),
            gather: Gather::after(&ROOT),
        }
    }

    /// Checks the next entry.
    pub fn entry(&mut self, stored: &Stored<'_>) -> Result<(), Fault> {
        let position = stored.linked.position;
        let fault = |position, what| Err(Fault { tenant: self.tenant.clone(), position, what });
        if position != self.next {
            return fault(self.next, "an entry is missing");
        }
        let (task, version) = match stored.linked.about {
            About::Task(task, version) => (task.0, version),
            About::Records(version) => (0, version),
        };
        let (before, head) = self.heads.get(&task).copied().unwrap_or((0, ROOT));
        if version != before + 1 {
            return fault(position, "a version is missing");
        }
        if let Some((salt, payload)) = stored.payload
            && payload_digest(salt, payload) != *stored.linked.payload
        {
            return fault(position, "the payload was changed");
        }
        if link(&head, &stored.linked) != *stored.link {
            return fault(position, "the link does not hold");
        }
        self.heads.insert(task, (version, *stored.link));
        self.gather.add(stored.link);
        self.next += 1;
        Ok(())
    }

    /// Checks a seal, once every entry that it covers was walked.
    pub fn seal(&mut self, seal: &Seal, trusted: &[u8; 32]) -> Result<(), Fault> {
        let fault = |what| Err(Fault { tenant: self.tenant.clone(), position: seal.up_to, what });
        if seal.up_to + 1 != self.next {
            return fault("the tail that this seal covers is missing");
        }
        if seal.key != *trusted || !seal.holds(&self.tenant) {
            return fault("the seal's signature does not hold");
        }
        if seal.digest != self.gather.digest() {
            return fault("the seal covers other entries");
        }
        self.gather = Gather::after(&seal.digest);
        Ok(())
    }

    /// The head of a chain as walked; zero stands for the records.
    #[must_use]
    pub fn head(&self, task: u64) -> Option<Hash> {
        self.heads.get(&task).map(|(_, head)| *head)
    }
}
