//! TLS of the client: whom it believes, and why not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError as Wrong, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::exchange::Lost;

/// What is spoken inside.
const PROTOCOL: &[u8] = b"http/1.1";

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that this machine trusts.
    #[default]
    Machine,
    /// Those in this file, and those of the authorities in it.
    File(PathBuf),
}

impl Trust {
    fn roots(&self) -> Result<RootCertStore, Lost> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::Machine => {
                let found = rustls_native_certs::load_native_certs();
                // Some of many may be of a kind that nobody uses any more.
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = "this machine trusts no authority: name one by --ca-file FILE";
                    return Err(Lost::Before(why.to_owned()));
                }
            }
            Self::File(path) => {
                for certificate in certificates(path)? {
                    let refused = |error| wrong_file(path, &format!("{error}"));
                    roots.add(certificate).map_err(refused)?;
                }
            }
        }
        Ok(roots)
    }

    /// Shakes hands with the server of this name.
    pub(super) async fn shake_hands(
        &self,
        host: &str,
        socket: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Lost> {
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| Lost::Before("no certificate is for such a name".to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Lost::Before(error.to_string()))?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, socket).await.map_err(|error| Lost::Before(why(&error)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Lost> {
    let found = CertificateDer::pem_file_iter(path).and_then(|found| found.collect());
    let found: Vec<_> = found.map_err(|error| wrong_file(path, &error.to_string()))?;
    if found.is_empty() {
        return Err(wrong_file(path, "it holds no certificate in PEM form"));
    }
    Ok(found)
}

fn wrong_file(path: &Path, why: &str) -> Lost {
    Lost::Before(format!("--ca-file {} cannot be used: {why}", path.display()))
}

/// What the verifier calls a certificate of an authority that a server shows as its own. It is of a
/// crate that we do not name, so it is known by its word.
const OF_AN_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Why a handshake failed, for whoever can do something about it.
fn why(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let wrong = match inner {
        Some(rustls::Error::InvalidMessage(_)) => {
            return "it does not speak TLS: ask by http://".to_owned();
        }
        Some(rustls::Error::InvalidCertificate(wrong)) => wrong,
        Some(_) | None => return format!("the handshake failed: {error}"),
    };
    let told = if matches!(wrong, Wrong::UnknownIssuer) {
        "its certificate is of nobody that is trusted here: if it should be, name the certificate of \
         the authority that signed it, as PEM, by --ca-file FILE or SSL_CERT_FILE"
    } else if matches!(wrong, Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) {
        "its certificate is for another name"
    } else if matches!(wrong, Wrong::Expired | Wrong::ExpiredContext { .. }) {
        "its certificate has expired"
    } else if matches!(wrong, Wrong::NotValidYet | Wrong::NotValidYetContext { .. }) {
        "its certificate is not valid yet: one of the two clocks is wrong"
    } else if matches!(wrong, Wrong::Other(_)) && wrong.to_string().contains(OF_AN_AUTHORITY) {
        "it shows the certificate of an authority (CA:TRUE) as its own: it needs one of its own, \
         signed by that authority, and --ca-file FILE names the authority's"
    } else {
        return format!("its certificate is not good: {wrong}");
    };
    told.to_owned()
}
