//! TLS to a database: who is believed, and why not.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError as Wrong, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::address::{Authorities, Way};

/// What is spoken inside; newer servers ask for it.
const PROTOCOL: &[u8] = b"postgresql";

/// Whoever shakes hands with a database; nobody, where nothing is encrypted.
#[derive(Clone)]
pub(super) struct Tls {
    config: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads what the way needs. The text says what is wrong with it.
    pub(super) fn of(way: &Way) -> Result<Self, String> {
        let (roots, named) = match way {
            Way::Plain => return Ok(Self { config: None }),
            Way::Encrypted => (None, false),
            Way::OfAuthority(authorities) => (Some(Roots::of(authorities)?), false),
            Way::Named(authorities) => (Some(Roots::of(authorities)?), true),
        };
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Verifier { roots, named, algorithms });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { config: Some(Arc::new(config)) })
    }
}

/// Authorities, and certificates that are believed by themselves: one that a server made for itself
/// is of no authority.
#[derive(Debug)]
struct Roots {
    authorities: RootCertStore,
    pinned: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn of(authorities: &Authorities) -> Result<Self, String> {
        match authorities {
            Authorities::Machine => Self::of_machine(),
            Authorities::File(path) => Self::of_file(path),
        }
    }

    fn of_machine() -> Result<Self, String> {
        let mut authorities = RootCertStore::empty();
        // Some of many may be of a kind that nobody uses any more.
        let found = rustls_native_certs::load_native_certs().certs;
        authorities.add_parsable_certificates(found);
        if authorities.is_empty() {
            return Err("this machine trusts no authority: name one by sslrootcert=FILE".into());
        }
        Ok(Self { authorities, pinned: vec![] })
    }

    fn of_file(path: &Path) -> Result<Self, String> {
        let wrong = |why: &str| format!("sslrootcert={} cannot be used: {why}", path.display());
        let found = CertificateDer::pem_file_iter(path).and_then(|found| found.collect());
        let found: Vec<_> = found.map_err(|error| wrong(&error.to_string()))?;
        if found.is_empty() {
            return Err(wrong("it holds no certificate in PEM form"));
        }
        let mut authorities = RootCertStore::empty();
        authorities.add_parsable_certificates(found.iter().cloned());
        Ok(Self { authorities, pinned: found })
    }
}

/// Asks as much of a certificate as the address wants.
#[derive(Debug)]
struct Verifier {
    /// Nobody is asked where there are none.
    roots: Option<Roots>,
    named: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let cert = ParsedCertificate::try_from(end_entity)?;
        if !roots.pinned.iter().any(|pinned| pinned == end_entity) {
            let (anchors, algorithms) = (&roots.authorities, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(
                &cert,
                anchors,
                intermediates,
                now,
                algorithms,
            )?;
        }
        if self.named {
            verify_server_name(&cert, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Sealed;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, io::Error> {
        // A name that is none fits no certificate, and is asked for only where a name is.
        let name = ServerName::try_from(domain.to_owned())
            .unwrap_or_else(|_| ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()));
        Ok(Handshake(self.config.clone().map(|config| (TlsConnector::from(config), name))))
    }
}

/// One handshake that is to be.
pub(super) struct Handshake(Option<(TlsConnector, ServerName<'static>)>);

impl TlsConnect<Socket> for Handshake {
    type Stream = Sealed;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Sealed>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let Some((connector, name)) = self.0 else {
                return Err(io::Error::other("nothing is encrypted on this way"));
            };
            connector.connect(name, stream).await.map(Sealed)
        })
    }
}

/// A connection that nobody reads along with.
pub(super) struct Sealed(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Sealed {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Sealed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Sealed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Why no handshake came about, for whoever can do something about it; none if it was not for TLS.
pub(super) fn why(error: &tokio_postgres::Error) -> Option<String> {
    let source = error.source()?;
    if source.to_string() == "server does not support TLS" {
        let told = "the server speaks no TLS: switch ssl on there, or say sslmode=disable where the \
            network itself is trusted";
        return Some(told.into());
    }
    let inner = source.downcast_ref::<io::Error>()?.get_ref()?;
    let failed = inner.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(wrong) = failed else {
        return Some(format!("the handshake failed: {failed}"));
    };
    // One that was made anew under the same name has another key.
    let told = if matches!(wrong, Wrong::UnknownIssuer | Wrong::BadSignature) {
        "its certificate is of nobody that is trusted here: name its authority by sslrootcert=FILE"
    } else if matches!(wrong, Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) {
        "its certificate is for another name: ask by that one, or say sslmode=verify-ca"
    } else if matches!(wrong, Wrong::Expired | Wrong::ExpiredContext { .. }) {
        "its certificate has expired"
    } else if matches!(wrong, Wrong::NotValidYet | Wrong::NotValidYetContext { .. }) {
        "its certificate is not valid yet: one of the two clocks is wrong"
    } else {
        return Some(format!("its certificate is not good: {wrong}"));
    };
    Some(told.to_owned())
}
