//! Webhooks as <https://www.standardwebhooks.com> describes them: an id that is the same however
//! often it is sent, a time, and a signature over both and the body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_domain::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Place, Range, choose};

/// How long one try may take, from the first look for the address to the answer.
const TRY_MAX: Duration = Duration::from_secs(10);
/// Addresses of one name that are looked at: more than anybody has.
const ADDRESSES_MAX: usize = 32;
/// How much of an answer is taken in before it is left: nobody reads it.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// How secrets begin, so that people and scanners know them.
const PREFIX: &str = "whsec_";

/// What is sent.
pub struct Message {
    /// The same for the same thing, however often it is sent.
    pub id: String,
    /// When it is sent.
    pub at: Timestamp,
    /// JSON.
    pub body: String,
}

/// A secret as its owner writes it down.
#[must_use]
pub fn written(secret: &[u8; 32]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret))
}

/// The signature of a message.
#[must_use]
pub fn sign(secret: &[u8; 32], message: &Message) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("an HMAC takes any key");
    mac.update(format!("{}.{}.{}", message.id, seconds(message.at), message.body).as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}

/// Sends a message, once. It is delivered if it was answered by a 2xx.
pub async fn send(
    url: &str,
    secret: &[u8; 32],
    message: &Message,
    allowed: &[Range],
) -> Result<(), String> {
    let place = Place::read(url)?;
    let sending = async {
        let found = lookup_host((place.host.as_str(), place.port)).await;
        let found = found.map_err(|_| format!("{} is not known here", place.host))?;
        let found: Vec<_> = found.take(ADDRESSES_MAX).collect();
        let address = choose(&place, &found, allowed)?;
        go(&place, address, secret, message).await
    };
    timeout(TRY_MAX, sending).await.map_err(|_| format!("{} took too long", place.host))?
}

/// Connects to the address that was checked, and to no other.
async fn go(
    place: &Place,
    address: SocketAddr,
    secret: &[u8; 32],
    message: &Message,
) -> Result<(), String> {
    let away = |error: std::io::Error| format!("{} cannot be reached: {error}", place.host);
    let socket = TcpStream::connect(address).await.map_err(away)?;
    if !place.tls {
        return ask(place, socket, secret, message).await;
    }
    let name = ServerName::try_from(place.host.clone())
        .map_err(|_| "no certificate is for such a name".to_owned())?;
    let socket = TlsConnector::from(trust()?).connect(name, socket).await;
    ask(place, socket.map_err(away)?, secret, message).await
}

/// Those whom this machine trusts.
fn trust() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

async fn ask<S>(
    place: &Place,
    socket: S,
    secret: &[u8; 32],
    message: &Message,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("{} broke off: {error}", place.host);
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(Method::POST)
        .uri(&place.path)
        .header(header::HOST, &place.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("baton/", env!("CARGO_PKG_VERSION")))
        .header("webhook-id", &message.id)
        .header("webhook-timestamp", seconds(message.at))
        .header("webhook-signature", sign(secret, message))
        .body(Full::new(Bytes::from(message.body.clone())))
        .map_err(|error| error.to_string())?;
    let answered = async {
        let mut answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        // So that the other side is done with it; what it says is nobody's business.
        let mut taken = 0;
        while let Some(Ok(frame)) = answer.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len);
            if taken > ANSWER_BYTES_MAX {
                break;
            }
        }
        judge(place, status)
    };
    let answered = answered.await;
    connection.abort();
    answered
}

fn judge(place: &Place, status: StatusCode) -> Result<(), String> {
    if status.is_success() {
        return Ok(());
    }
    let (host, code) = (&place.host, status.as_u16());
    if status.is_redirection() {
        return Err(format!("{host} answered {code}, and redirects are not followed"));
    }
    Err(format!("{host} answered {code}"))
}

#[cfg(test)]
mod tests;
