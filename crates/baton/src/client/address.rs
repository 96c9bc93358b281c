//! Where a server is.

use std::fmt;
use std::path::PathBuf;

use hyper::Uri;

use crate::problem::Problem;

use super::Failure;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// On this machine.
    Socket(PathBuf),
    /// At this host and port.
    Tcp {
        /// As it is written in a URL.
        host: String,
        /// Which port.
        port: u16,
    },
}

impl Address {
    /// Reads a URL. There is no TLS in here: beyond this machine a tunnel or a proxy must bring it.
    pub fn of_url(url: &str) -> Result<Self, Failure> {
        let refuse = |rule: &str| -> Failure {
            let detail = format!("the server's address {rule}, like http://127.0.0.1:7117");
            Problem::new("malformed", detail).into()
        };
        let uri: Uri = url.parse().map_err(|_| refuse("must be a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(refuse(
                "must begin with http:// (TLS is for a tunnel or a proxy to bring)",
            ));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(refuse("must end after the port"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("must name a host"))?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(refuse("must name a host and no user"));
        }
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self::Tcp { host: authority.host().to_owned(), port })
    }

    /// Whether it is on this machine, so that the key of this machine may go there.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Tcp { host, .. } => {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                let address: Result<std::net::IpAddr, _> = bare.parse();
                bare == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// What stands in the `Host` header.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Socket(_) => "localhost".to_owned(),
            Self::Tcp { host, port } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp { host, port } => write!(f, "http://{host}:{port}"),
        }
    }
}
