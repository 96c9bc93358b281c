//! Where a database is, and how it is spoken to: read from a URL as libpq reads it, except that
//! nothing crosses a network in plain text unless the address says so.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Socket};

use super::OpenError;
use super::tls::{Sealed, Tls};

/// What a server is told who connects.
pub(super) const NAME: &str = "baton";
/// An idle connection is heard of this often, so that nobody in between forgets it.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
/// A database that went away without a word is noticed, not waited for.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// What begins an address.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Where a list of authorities means those of the machine.
const SYSTEM: &str = "system";

/// Where a database is.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    /// Whether a pooler is between that lends a connection for one transaction at a time. It is not
    /// guessed: statements that two servers prepared under the same name would be mixed up.
    pub(super) pooled: bool,
    tls: Tls,
    way: Way,
}

/// How far the other side is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not asked who it is, and spoken to in plain text.
    Plain,
    /// Encrypted, to whoever it is.
    Encrypted,
    /// Its certificate is of one of these authorities.
    OfAuthority(Authorities),
    /// And for the name that it is asked by.
    Named(Authorities),
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Authorities {
    /// Those that this machine trusts.
    Machine,
    /// Those in a file.
    File(PathBuf),
}

impl Address {
    /// Reads an address. Nothing of it is ever repeated, for it may hold a password.
    pub(super) fn read(url: &str) -> Result<Self, OpenError> {
        let unreadable = || {
            let form = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with % before odd signs";
            OpenError::Address(form.into())
        };
        if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(unreadable());
        }
        let (url, wishes) = Wishes::of(url)?;
        let mut config: Config = url.parse().map_err(|_| unreadable())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unreadable());
        }
        let way = wishes.way(Distance::of(&config))?;
        config.ssl_mode(if way == Way::Plain { SslMode::Disable } else { SslMode::Require });
        config.application_name(NAME);
        config.keepalives_idle(KEEPALIVE_EVERY);
        config.tcp_user_timeout(SILENT_MAX);
        let tls = Tls::of(&way).map_err(OpenError::Tls)?;
        Ok(Self { config, pooled: wishes.pooled, tls, way })
    }

    /// Connects.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, Sealed>), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// The same place for programs that read it from their environment, where no list of processes
    /// shows it.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let config = &self.config;
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => OsString::from(name),
            Host::Unix(path) => path.as_os_str().to_owned(),
        });
        let addresses = config.get_hostaddrs().iter().map(|at| OsString::from(at.to_string()));
        let ports = config.get_ports().iter().map(|port| OsString::from(port.to_string()));
        let mut told: Vec<(&'static str, OsString)> = vec![];
        told.extend(listed(hosts).map(|hosts| ("PGHOST", hosts)));
        told.extend(listed(addresses).map(|addresses| ("PGHOSTADDR", addresses)));
        told.extend(listed(ports).map(|ports| ("PGPORT", ports)));
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
            told.push(("PGTARGETSESSIONATTRS", "read-write".into()));
        }
        told.extend(config.get_user().map(|user| ("PGUSER", user.into())));
        told.extend(config.get_dbname().map(|name| ("PGDATABASE", name.into())));
        told.extend(config.get_options().map(|options| ("PGOPTIONS", options.into())));
        let password = config.get_password().map(String::from_utf8_lossy);
        told.extend(password.map(|password| ("PGPASSWORD", password.into_owned().into())));
        // Without this a file in somebody's home would be asked for a password; this one is never
        // there.
        told.push(("PGPASSFILE", "/dev/null/none".into()));
        let (mode, authorities) = match &self.way {
            Way::Plain => ("disable", None),
            Way::Encrypted => ("require", None),
            Way::OfAuthority(authorities) => ("verify-ca", Some(authorities)),
            Way::Named(authorities) => ("verify-full", Some(authorities)),
        };
        told.push(("PGSSLMODE", mode.into()));
        told.extend(authorities.map(|authorities| match authorities {
            Authorities::Machine => ("PGSSLROOTCERT", SYSTEM.into()),
            Authorities::File(path) => ("PGSSLROOTCERT", path.clone().into_os_string()),
        }));
        told
    }
}

/// Several values as one, with commas between.
fn listed(values: impl Iterator<Item = OsString>) -> Option<OsString> {
    values.reduce(|mut list, value| {
        list.push(",");
        list.push(value);
        list
    })
}

/// Where a database is, as far as eavesdroppers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// At a socket of this machine, where there is no TLS.
    Socket,
    /// At an address that no packet leaves this machine for.
    Loopback,
    Network,
}

impl Distance {
    fn of(config: &Config) -> Self {
        let of_host = |host: &Host| match host {
            Host::Unix(_) => Self::Socket,
            Host::Tcp(name) if name == "localhost" => Self::Loopback,
            Host::Tcp(name) => match name.parse() {
                Ok(ip) => Self::of_ip(ip),
                Err(_) => Self::Network,
            },
        };
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let found = || {
            let hosts = hosts.iter().map(of_host);
            hosts.chain(addresses.iter().copied().map(Self::of_ip))
        };
        if found().any(|distance| distance == Self::Network) {
            Self::Network
        } else if found().all(|distance| distance == Self::Socket) {
            Self::Socket
        } else {
            Self::Loopback
        }
    }

    fn of_ip(ip: IpAddr) -> Self {
        if ip.is_loopback() { Self::Loopback } else { Self::Network }
    }
}

/// What an address says that is not for the library.
#[derive(Default)]
struct Wishes {
    pooled: bool,
    mode: Option<String>,
    roots: Option<String>,
}

impl Wishes {
    /// Takes them out of an address.
    fn of(url: &str) -> Result<(String, Self), OpenError> {
        let mut wishes = Self::default();
        // A password may hold any sign; what comes after it may not.
        let from = url.find('@').map_or(0, |at| at + 1);
        let Some(mark) = url[from..].find('?').map(|at| from + at) else {
            return Ok((url.to_owned(), wishes));
        };
        let mut rest = vec![];
        for word in url[mark + 1..].split('&') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "sslmode" => wishes.mode = Some(decoded(value)?),
                "sslrootcert" => wishes.roots = Some(decoded(value)?),
                "pooler" => wishes.pooled = is_transaction(value)?,
                _ => rest.push(word),
            }
        }
        let place = &url[..mark];
        let query = rest.join("&");
        let url = if query.is_empty() { place.to_owned() } else { format!("{place}?{query}") };
        Ok((url, wishes))
    }

    fn way(&self, distance: Distance) -> Result<Way, OpenError> {
        let authorities = match self.roots.as_deref() {
            None | Some(SYSTEM) => Authorities::Machine,
            Some(path) => Authorities::File(path.into()),
        };
        let is_named = self.roots.is_some();
        Ok(match (self.mode.as_deref(), distance) {
            (Some("disable"), _) => Way::Plain,
            (None | Some("require" | "verify-ca" | "verify-full"), Distance::Socket) => Way::Plain,
            (None, Distance::Loopback) if !is_named => Way::Plain,
            (None | Some("verify-full"), _) => Way::Named(authorities),
            (Some("verify-ca"), _) => Way::OfAuthority(authorities),
            // Whoever names authorities wants them asked, as libpq has it.
            (Some("require"), _) if is_named => Way::OfAuthority(authorities),
            (Some("require"), _) => Way::Encrypted,
            (Some("allow" | "prefer"), _) => {
                let why = "sslmode=allow and sslmode=prefer fall back to plain text: say \
                    verify-full, verify-ca or require, or disable where the network is trusted";
                return Err(OpenError::Tls(why.into()));
            }
            (Some(_), _) => {
                let why = "sslmode takes disable, require, verify-ca or verify-full";
                return Err(OpenError::Tls(why.into()));
            }
        })
    }
}

fn is_transaction(value: &str) -> Result<bool, OpenError> {
    match value {
        "transaction" => Ok(true),
        "session" => Ok(false),
        _ => Err(OpenError::Address("pooler takes transaction or session".into())),
    }
}

/// A value with its odd signs back in it.
fn decoded(value: &str) -> Result<String, OpenError> {
    let wrong = || OpenError::Address("% stands before two hexadecimal digits".into());
    let mut bytes = vec![];
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
