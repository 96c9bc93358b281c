//! Where a webhook may go: nowhere that is inside, unless whoever runs the server says so. A name is
//! resolved once, every address of it is checked, and the one that was checked is connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hyper::Uri;

/// Addresses that begin alike: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u8,
}

/// A range that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an address or a range of them, like 10.1.0.0/16")]
pub struct NoRange;

impl FromStr for Range {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        let (first, bits) = text.split_once('/').unwrap_or((text, ""));
        let first: IpAddr = first.parse().map_err(|_| NoRange)?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = if bits.is_empty() { all } else { bits.parse().map_err(|_| NoRange)? };
        if bits > all { Err(NoRange) } else { Ok(Self { first, bits }) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Range {
    fn holds(&self, address: IpAddr) -> bool {
        let beyond = |all: u32| all.saturating_sub(u32::from(self.bits));
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(own)) => {
                (first.to_bits() ^ own.to_bits()).checked_shr(beyond(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(own)) => {
                (first.to_bits() ^ own.to_bits()).checked_shr(beyond(128)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Addresses of the fourth version that are not of the open network: this one, private ones, those of
/// providers' networks, loopback, link-local with the metadata of clouds, those for documents and
/// measurements, relays, and everything from multicast on.
const INSIDE_4: [(u32, u8); 14] = [
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 24),
    (0xc000_0200, 24),
    (0xc058_6300, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
    (0xcb00_7100, 24),
    (0xe000_0000, 3),
];

/// Where a webhook goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether by TLS.
    pub tls: bool,
    /// As the certificate must name it.
    pub host: String,
    /// Which port.
    pub port: u16,
    /// What stands in the `Host` header.
    pub authority: String,
    /// What is asked for there.
    pub path: String,
}

impl Place {
    /// Reads a URL.
    pub fn read(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "must be a URL".to_owned())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err("must begin with https://".to_owned()),
        };
        let authority = uri.authority().ok_or("must name a host")?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err("must name a host and no user".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { tls, host, port, authority: authority.as_str().to_owned(), path })
    }
}

/// Which of a host's addresses to go to: the first, if all of them are good. A name that leads
/// outside and inside at once is not trusted with either.
pub fn choose(
    place: &Place,
    found: &[SocketAddr],
    allowed: &[Range],
) -> Result<SocketAddr, String> {
    let first = *found.first().ok_or_else(|| format!("{} has no address", place.host))?;
    for address in found {
        let ip = address.ip().to_canonical();
        if allowed.iter().any(|range| range.holds(ip)) {
            continue;
        }
        if is_inside(ip) {
            return Err(format!(
                "{} leads to {ip}, which is not of the open network: whoever runs the server may \
                 allow it by baton serve --webhook-allow",
                place.host
            ));
        }
        if !place.tls {
            return Err("what is signed goes by https:// only".to_owned());
        }
    }
    Ok(first)
}

/// Whether an address is not of the open network, however it is written.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(own) => is_inside_4(own),
        IpAddr::V6(own) => is_inside_6(own),
    }
}

fn is_inside_4(address: Ipv4Addr) -> bool {
    let begins = |(first, bits): &(u32, u8)| {
        (first ^ address.to_bits()).checked_shr(32 - u32::from(*bits)).unwrap_or(0) == 0
    };
    INSIDE_4.iter().any(begins)
}

/// Of the sixth version only global unicast is outside, and of that no tunnel that may come out
/// inside, and no address for documents.
fn is_inside_6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let global = a & 0xe000 == 0x2000;
    let tunnel = a == 0x2002 || (a == 0x2001 && b < 0x0200);
    let document = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    !global || tunnel || document
}

#[cfg(test)]
mod tests;
