//! Secret files: made once, readable by their owner alone, never printed. The pepper is one, the
//! key that seals are signed with another.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::chance::Chance;
use crate::redaction::Redactor;

const PEPPER_BYTES: usize = 32;

/// The permissions that nobody but the owner of a secret may have.
const WIDER: u32 = 0o077;

/// What tokens are made with.
#[derive(Clone)]
pub struct Secrets {
    pepper: [u8; PEPPER_BYTES],
}

/// Why there are no secrets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or made.
    #[error("the secret file {path} cannot be used")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read the file, so its content is no secret.
    #[error("the secret file {path} may be read by others (mode {mode:o}): chmod 600 it")]
    TooOpen {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is gone, and what it was for is still there.
    #[error("the secret file {path} is missing: put it back, for nothing else opens this database")]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The file holds something else.
    #[error("the secret file {path} must hold 64 hex digits and nothing else")]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
}

impl Secrets {
    /// Takes a pepper as it is.
    #[must_use]
    pub fn new(pepper: [u8; PEPPER_BYTES]) -> Self {
        Self { pepper }
    }

    /// Reads the pepper from its file.
    pub fn open(path: &Path, chance: &dyn Chance) -> Result<Self, Error> {
        secret_file(path, chance).map(Self::new)
    }

    /// A digest by which a store knows the pepper again, and which tells nothing about it.
    #[must_use]
    pub fn verifier(&self) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.pepper)
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-pepper-verifier-1");
        mac.finalize().into_bytes().into()
    }

    /// What seals are signed with where several servers share one pepper: they must all sign alike.
    #[must_use]
    pub fn sealing(&self) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.pepper)
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-sealing-key-1");
        mac.finalize().into_bytes().into()
    }

    /// What receipts are signed with. It lives as long as the pepper, and is the same on all servers that
    /// share one: a receipt outlives every life of the store.
    #[must_use]
    pub fn proving(&self) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.pepper)
            .expect("an HMAC takes a key of any length");
        mac.update(b"baton-receipt-key-1");
        mac.finalize().into_bytes().into()
    }

    /// Has them masked wherever they appear. Nothing prints the pepper, but its file can be read.
    pub fn tell(&self, redactor: &Redactor) {
        // The file holds hex digits, which are encoded in turn.
        let told =
            redactor.know(&self.pepper).and_then(|()| redactor.know(hex(&self.pepper).as_bytes()));
        told.expect("a pepper has thirty-two bytes, and it is among the first");
    }

    pub(super) fn pepper(&self) -> &[u8] {
        &self.pepper
    }
}

/// Reads a secret file; on the first start it is made from chance.
///
/// Several servers may start at once: one of them makes the file, all of them read it.
pub fn secret_file(path: &Path, chance: &dyn Chance) -> Result<[u8; PEPPER_BYTES], Error> {
    let unusable = |source| Error::Unusable { path: path.into(), source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path, chance).map_err(unusable)?;
            File::open(path).map_err(unusable)?
        }
        other => other.map_err(unusable)?,
    };
    let metadata = file.metadata().map_err(unusable)?;
    let mode = metadata.mode() & 0o7777;
    if mode & WIDER != 0 {
        return Err(Error::TooOpen { path: path.into(), mode });
    }
    let mut text = String::new();
    // One byte more than there may be shows a file that is too long without reading it all.
    let bytes_max = u64::try_from(2 * PEPPER_BYTES + 2).unwrap_or(u64::MAX);
    let read = file.take(bytes_max).read_to_string(&mut text);
    let secret = read.ok().and_then(|_| unhex(text.strip_suffix('\n').unwrap_or(&text)));
    secret.ok_or_else(|| Error::Malformed { path: path.into() })
}

/// Makes the file whole or not at all; somebody else's, made meanwhile, is left as it is.
fn create(path: &Path, chance: &dyn Chance) -> io::Result<()> {
    let mut pepper = [0; PEPPER_BYTES];
    chance.fill(&mut pepper);
    let mut suffix = [0; 8];
    chance.fill(&mut suffix);
    let mut draft = OsString::from(path);
    draft.push(format!(".{}", hex(&suffix)));
    let draft = PathBuf::from(draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let made = writeln!(file, "{}", hex(&pepper))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&draft, path));
    fs::remove_file(&draft)?;
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes what is written to it");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; PEPPER_BYTES]> {
    let plain = text.len() == 2 * PEPPER_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit());
    let mut bytes = [0; PEPPER_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| plain) {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    plain.then_some(bytes)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}
