//! What is asked of every request before anything else: that it is for us, from nowhere else, and
//! of a size that we read.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;

use crate::problem::Problem;

use super::limits::{HEADER_BYTES_MAX, HEADERS_MAX, URL_BYTES_MAX};
use super::url;

/// The names under which this server is asked for, exactly as they stand in `Host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    names: BTreeSet<String>,
    /// Where a browser finds it.
    url: String,
}

/// The ports that a URL need not name, without TLS and with it.
const PLAIN_PORTS: [u16; 2] = [80, 443];

impl Hosts {
    /// The names of a loopback address, and those that the operator gave.
    #[must_use]
    pub fn of(address: Option<SocketAddr>, given: &[String]) -> Self {
        let mut names: BTreeSet<String> = given.iter().cloned().collect();
        if let Some(address) = address.filter(|address| address.ip().is_loopback()) {
            for name in ["localhost", "127.0.0.1", "[::1]"] {
                names.insert(format!("{name}:{}", address.port()));
                if PLAIN_PORTS.contains(&address.port()) {
                    names.insert(name.to_owned());
                }
            }
        }
        let url = address.map(|address| format!("http://{address}")).unwrap_or_default();
        Self { names, url }
    }

    /// The same server, which a browser finds here.
    #[must_use]
    pub fn at(self, url: String) -> Self {
        Self { url, ..self }
    }

    /// Where a browser finds it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether a browser comes by TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Those of a unix socket, where there is no name to be fooled by.
    #[must_use]
    pub fn of_socket() -> Self {
        let names = BTreeSet::from(["localhost".to_owned()]);
        Self { names, url: String::new() }
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn is_origin(&self, origin: &str) -> bool {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| self.has(name))
    }
}

/// Lets a request pass, or says why not.
pub fn pass(head: &Parts, hosts: &Hosts) -> Result<(), Problem> {
    let url_bytes = head.uri.path_and_query().map_or(0, |url| url.as_str().len());
    if url_bytes > URL_BYTES_MAX {
        let detail = format!("path and query have at most {URL_BYTES_MAX} bytes");
        return Err(Problem::new("url_too_long", detail));
    }
    small(&head.headers)?;
    for_us(head, hosts)?;
    from_nowhere_else(head, hosts)?;
    url::refuse_secrets(head.uri.path(), head.uri.query())
}

fn small(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail| Err(Problem::new("headers_too_large", detail));
    if headers.len() > HEADERS_MAX {
        return refused(format!("a request has at most {HEADERS_MAX} header lines"));
    }
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX {
        return refused(format!("the header lines have at most {HEADER_BYTES_MAX} bytes together"));
    }
    Ok(())
}

/// A page elsewhere can make a browser ask us under its own name; the name gives it away.
fn for_us(head: &Parts, hosts: &Hosts) -> Result<(), Problem> {
    let host = once(&head.headers, &header::HOST)?
        .ok_or_else(|| Problem::new("malformed", "a request names its Host, once"))?;
    if head.uri.authority().is_some_and(|authority| authority.as_str() != host) {
        return Err(Problem::new("malformed", "the URL names another host than Host does"));
    }
    if hosts.has(host) {
        return Ok(());
    }
    let detail = "this server does not answer under that Host";
    Err(Problem::new("wrong_place", detail).next("baton serve --host NAME"))
}

fn from_nowhere_else(head: &Parts, hosts: &Hosts) -> Result<(), Problem> {
    let headers = &head.headers;
    let refused = |detail| Err(Problem::new("forbidden", detail));
    if once(headers, &header::ORIGIN)?.is_some_and(|origin| !hosts.is_origin(origin)) {
        return refused("requests of pages from elsewhere are not answered");
    }
    let site = once(headers, &HeaderName::from_static("sec-fetch-site"))?;
    // Somebody who follows a link from elsewhere looks, and does nothing: pages do not act.
    let mode = once(headers, &HeaderName::from_static("sec-fetch-mode"))?;
    let aim = once(headers, &HeaderName::from_static("sec-fetch-dest"))?;
    let follows = (mode, aim) == (Some("navigate"), Some("document")) && head.method == Method::GET;
    if !follows && site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return refused("requests of pages from elsewhere are not answered");
    }
    Ok(())
}

/// The value of a header that may stand there once at most.
pub fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::new("malformed", format!("the header {name} stands there twice")));
    }
    let text = value.to_str();
    let text = text.map_err(|_| {
        Problem::new("malformed", format!("the header {name} has other than plain characters"))
    })?;
    Ok(Some(text))
}
