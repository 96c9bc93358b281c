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
        /// Whether by TLS.
        tls: bool,
    },
}

impl Address {
    /// Reads a URL.
    pub fn of_url(url: &str) -> Result<Self, Failure> {
        let refuse = |rule: &str| -> Failure {
            let detail = format!("the server's address {rule}, like http://127.0.0.1:7117");
            Problem::new("malformed", detail).into()
        };
        let uri: Uri = url.parse().map_err(|_| refuse("must be a URL"))?;
        let (tls, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            Some(_) | None => return Err(refuse("must begin with http:// or https://")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(refuse("must end after the port"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("must name a host"))?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(refuse("must name a host and no user"));
        }
        let port = authority.port_u16().unwrap_or(usual_port);
        Ok(Self::Tcp { host: authority.host().to_owned(), port, tls })
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

    /// Whether what is sent there could be read on the way.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        let plain = matches!(self, Self::Tcp { tls: false, .. });
        plain && !self.is_local()
    }

    /// What stands in the `Host` header. A URL leaves out the usual port of its scheme, and so do
    /// proxies and the names that an operator gives.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Socket(_) => "localhost".to_owned(),
            Self::Tcp { host, port: 80, tls: false } | Self::Tcp { host, port: 443, tls: true } => {
                host.clone()
            }
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp { host, port, tls: false } => write!(f, "http://{host}:{port}"),
            Self::Tcp { host, port, tls: true } => write!(f, "https://{host}:{port}"),
        }
    }
}
