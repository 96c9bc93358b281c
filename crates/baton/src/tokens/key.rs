//! Keys as text: `batonk_<id>_<secret>_<checksum>`, shown once. The id finds the key, the secret
//! opens it, and the checksum lets a scanner tell a key from noise without asking anybody.

use std::fmt;

use baton_domain::ids::{PrincipalId, TenantId};
use baton_domain::key::{KEY_ID_DIGITS, KeyId, Verifier};
use baton_domain::text::KEY_PREFIX;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Keyring, base62};
use crate::chance::Chance;

/// Digits of a secret: as many as hold 256 bits of chance.
const SECRET_DIGITS: usize = 43;

/// Characters of a key as text.
pub const KEY_LENGTH: usize =
    KEY_PREFIX.len() + KEY_ID_DIGITS + 1 + SECRET_DIGITS + 1 + base62::CHECK_DIGITS;

/// What secret scanners look for.
pub const KEY_PATTERN: &str = "batonk_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}";

/// A key as its owner holds it. It has no `Display`, and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyToken(String);

/// A key as somebody showed it: nothing is proved yet.
pub(crate) struct Shown<'a> {
    pub(crate) id: KeyId,
    secret: &'a str,
}

impl KeyToken {
    /// A fresh secret for a key.
    pub(crate) fn mint(id: &KeyId, chance: &dyn Chance) -> Self {
        let secret = base62::random(SECRET_DIGITS, chance);
        let mut text = format!("{KEY_PREFIX}{id}_{secret}");
        let check = base62::checksum(&text);
        text.push('_');
        base62::push(&mut text, u64::from(check), base62::CHECK_DIGITS);
        Self(text)
    }

    /// The key itself, to be handed to its owner once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<'a> Shown<'a> {
    /// Reads a well-formed key; whether it is one of ours is another question.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        if text.len() != KEY_LENGTH || !text.is_ascii() {
            return None;
        }
        let (rest, check) = text.rsplit_once('_')?;
        if base62::read(check)? != u64::from(base62::checksum(rest)) {
            return None;
        }
        let (id, secret) = rest.strip_prefix(KEY_PREFIX)?.split_once('_')?;
        let plain = secret.len() == SECRET_DIGITS && base62::is_digits(secret);
        Some(Self { id: KeyId::new(id).ok().filter(|_| plain)?, secret })
    }
}

impl Keyring {
    /// What the secret of a key is recognised by. It belongs to the key: exchanged between two rows it
    /// opens neither.
    pub(crate) fn verifier(&self, shown: &Shown<'_>) -> Verifier {
        let mut mac = self.of_keys(b"baton-key-1");
        mac.update(shown.id.as_str().as_bytes());
        mac.update(shown.secret.as_bytes());
        Verifier(mac.finalize().into_bytes().into())
    }

    /// The id of the key that a request makes: whoever repeats the request finds the same key.
    pub(crate) fn key_id(&self, tenant: &TenantId, by: &PrincipalId, request: &str) -> KeyId {
        let mut mac = self.of_keys(b"baton-key-id-1");
        for part in [tenant.as_str(), by.as_str(), request] {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            mac.update(&length.to_be_bytes());
            mac.update(part.as_bytes());
        }
        let bytes: [u8; 32] = mac.finalize().into_bytes().into();
        let (pairs, _) = bytes.as_chunks::<2>();
        let mut text = String::with_capacity(KEY_ID_DIGITS);
        for pair in &pairs[..KEY_ID_DIGITS] {
            base62::push(&mut text, u64::from(u16::from_be_bytes(*pair)), 1);
        }
        KeyId::new(&text).expect("twelve digits are an id")
    }

    fn of_keys(&self, purpose: &[u8]) -> Hmac<Sha256> {
        #[cfg(test)]
        DIGESTS.set(DIGESTS.get() + 1);
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secrets.pepper())
            .expect("an HMAC takes a key of any length");
        mac.update(purpose);
        mac
    }
}

#[cfg(test)]
std::thread_local! {
    /// Digests that this thread has made: a test counts them.
    pub(crate) static DIGESTS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Mints the id of a key.
pub(crate) fn mint_id(chance: &dyn Chance) -> KeyId {
    KeyId::new(&base62::random(KEY_ID_DIGITS, chance)).expect("twelve digits are an id")
}

impl fmt::Debug for KeyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyToken(…)")
    }
}
