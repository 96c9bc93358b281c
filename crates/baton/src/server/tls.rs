//! TLS at the port: certificate and key from files, read at the start and again when told to.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The most that is read of a certificate or key file: a long chain has some ten kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What everybody on the machine may do with the key: nothing. A group may be let in, as
/// distributions do it for the keys of services.
const EVERYBODY: u32 = 0o007;
/// What is spoken inside.
const PROTOCOL: &[u8] = b"http/1.1";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not to be had.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// Anybody could have copied it.
    #[error("{0} may be read by everybody (mode {1:o}): chmod 600 {0}, and have the key replaced")]
    TooOpen(PathBuf, u32),
    /// It is something else.
    #[error("{0} holds no {1} in PEM form")]
    Not(PathBuf, &'static str),
    /// They do not belong together.
    #[error("{key} is not the key of the first certificate in {cert}")]
    Mismatched {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The library does not take them.
    #[error("{0} and {1} cannot be used: {2}")]
    Unusable(PathBuf, PathBuf, rustls::Error),
}

/// A certificate and its key, and where they came from.
#[derive(Debug)]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads both files.
    pub fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let current = RwLock::new(config(cert, key)?);
        Ok(Self { cert: cert.into(), key: key.into(), current })
    }

    /// Reads them again. What cannot be used changes nothing: the last good ones stay.
    pub fn read_again(&self) -> Result<(), Error> {
        let fresh = config(&self.cert, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Whoever shakes hands with the next caller.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }
}

fn config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert, false)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| Error::Not(cert.into(), "certificate"))?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key, true)?);
    let secret = secret.map_err(|_| Error::Not(key.into(), "private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error| {
        let (cert, key) = (cert.into(), key.into());
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            return Error::Mismatched { cert, key };
        }
        Error::Unusable(cert, key, error)
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(unusable)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// The bytes of a file; of a secret one only if it is one.
fn read(path: &Path, secret: bool) -> Result<Vec<u8>, Error> {
    let broken = |error| Error::Unreadable(path.into(), error);
    let file = File::open(path).map_err(broken)?;
    let mode = file.metadata().map_err(broken)?.mode() & 0o777;
    if secret && mode & EVERYBODY != 0 {
        return Err(Error::TooOpen(path.into(), mode));
    }
    let mut bytes = vec![];
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
