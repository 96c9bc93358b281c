//! What `serve` was asked for, whether that is safe, and what it exits with if it cannot be.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_store::sqlite::OpenError;
use baton_store::{blobs, postgres};

use crate::notices::Range;
use crate::surroundings::Database;
use crate::{home, tokens};

use super::{Rates, socket, tls};

/// Something went wrong that has no number of its own.
const FAILED: u8 = 1;
/// What was asked for cannot be done so.
const USAGE: u8 = 2;
/// The data are not to be used by this binary.
const DATA: u8 = 65;
/// The disk failed: a start anew recovers.
pub const DISK: u8 = 74;
/// Somebody else has it.
const BUSY: u8 = 75;

/// What `serve` was asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The data folder.
    pub folder: PathBuf,
    /// A database elsewhere; in the data folder if none is named.
    pub database: Option<Database>,
    /// Where programs are looked for: git, which says what a run changed.
    pub programs: Vec<PathBuf>,
    /// Where blobs are; in the data folder if nobody says.
    pub blobs: Option<PathBuf>,
    /// How many GiB of them each tenant may keep.
    pub blobs_max_gib: u64,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to listen on this machine; in the data folder if nobody says.
    pub socket: Option<PathBuf>,
    /// Whether somebody in front encrypts.
    pub behind_proxy: bool,
    /// The files of certificate and key, if it encrypts itself.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How often somebody may ask.
    pub rates: Rates,
    /// Addresses inside that webhooks may go to.
    pub webhook_allow: Vec<Range>,
    /// Whether to stop when standard input ends.
    pub with_stdin: bool,
    /// Names under which it is asked for besides those of this machine.
    pub hosts: Vec<String>,
    /// Whether to say in JSON that it is ready.
    pub json: bool,
    /// Whether to serve what the conformance suite of MCP asks for, too.
    pub fixtures: bool,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody says where the data are.
    #[error("neither --data nor BATON_HOME nor HOME says where the data folder is")]
    NoFolder,
    /// Anybody on the network could listen in.
    #[error("{0} can be reached from other machines, and keys would cross the network unencrypted")]
    Exposed(SocketAddr),
    /// Nobody can tell which requests are meant for it.
    #[error("{0} can be reached from other machines, and no --host names what it is asked for by")]
    Nameless(SocketAddr),
    /// A name that is none.
    #[error("--host takes a name as it stands in a URL, with its port if it has one, not `{0}`")]
    NotAHost(String),
    /// Two ways to be encrypted.
    #[error("--behind-proxy says that a proxy encrypts, and --tls-cert that the server does")]
    Twice,
    /// Certificate or key are not to be used.
    #[error("no TLS: {0}")]
    Tls(#[from] tls::Error),
    /// The folder is not to be used.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The socket is not to be had.
    #[error(transparent)]
    Socket(#[from] socket::Error),
    /// The address is not to be had.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// Somebody else has the address.
    #[error("somebody listens at {0} already")]
    Taken(SocketAddr),
    /// The key of the local user is not to be had.
    #[error("the key file {0}: {1}")]
    KeyFile(PathBuf, String),
    /// The place of blobs is not to be used.
    #[error("the blobs in {}: {}", .0.display(), told_of(.1))]
    Blobs(PathBuf, blobs::Error),
    /// Signals are not to be had.
    #[error("signals cannot be waited for: {0}")]
    Signals(io::Error),
}

impl Wish {
    /// Refuses what would show keys or data to others.
    pub fn check(&self) -> Result<(), Error> {
        for host in &self.hosts {
            let plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
            if host.is_empty() || !host.chars().all(plain) {
                return Err(Error::NotAHost(host.clone()));
            }
        }
        if self.behind_proxy && self.tls.is_some() {
            return Err(Error::Twice);
        }
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        if !self.behind_proxy && self.tls.is_none() {
            return Err(Error::Exposed(self.listen));
        }
        if self.hosts.is_empty() {
            return Err(Error::Nameless(self.listen));
        }
        Ok(())
    }
}

impl Error {
    /// Why an address is not to be had.
    pub fn listen(address: SocketAddr, error: io::Error) -> Self {
        let taken = error.kind() == io::ErrorKind::AddrInUse;
        if taken { Self::Taken(address) } else { Self::Listen(address, error) }
    }

    /// What, why and what next, as everything that is refused is told.
    #[must_use]
    pub fn told(&self) -> String {
        let next = self.next().join("\n        ");
        format!("error: The server did not start\n  why: {self}\n  next: {next}\n")
    }

    /// What helps.
    fn next(&self) -> &'static [&'static str] {
        match self {
            Self::NoFolder => &["baton serve --data DIR"],
            Self::Exposed(_) => &[
                "baton serve --tls-cert FILE --tls-key FILE",
                "baton serve --behind-proxy, with a proxy in front that speaks TLS",
                "baton serve --listen 127.0.0.1:7117",
            ],
            Self::Nameless(_) | Self::NotAHost(_) => &["baton serve --host NAME"],
            Self::Twice => {
                &["baton serve --behind-proxy", "baton serve --tls-cert FILE --tls-key FILE"]
            }
            Self::Tls(_) => &["baton serve --tls-cert FILE --tls-key FILE"],
            Self::Socket(_) => &["baton doctor", "baton serve --socket PATH"],
            Self::Blobs(..) => &["baton doctor", "baton serve --blobs DIR"],
            Self::Listen(..) | Self::Taken(_) => {
                &["baton doctor", "baton serve --listen 127.0.0.1:0"]
            }
            Self::Home(_) | Self::KeyFile(..) | Self::Signals(_) => &["baton doctor"],
        }
    }

    /// What the program exits with.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::NoFolder
            | Self::Exposed(_)
            | Self::Nameless(_)
            | Self::NotAHost(_)
            | Self::Twice
            | Self::Tls(_) => USAGE,
            Self::Home(home::Error::Store(error)) => match error {
                OpenError::InUse(_) => BUSY,
                OpenError::NotOurs(_)
                | OpenError::Network(..)
                | OpenError::Newer { .. }
                | OpenError::NotBaton
                | OpenError::Damaged(_)
                | OpenError::WrongPepper
                | OpenError::Migration(..) => DATA,
                OpenError::Backup(..) | OpenError::Io(..) => DISK,
            },
            Self::Home(home::Error::Database(error)) => match error {
                postgres::OpenError::Address(_)
                | postgres::OpenError::Tls(_)
                | postgres::OpenError::Password
                | postgres::OpenError::NoDatabase
                | postgres::OpenError::NoRole { .. } => USAGE,
                postgres::OpenError::Unreachable(_) | postgres::OpenError::Standby => BUSY,
                postgres::OpenError::TooOld(_)
                | postgres::OpenError::Careless(_)
                | postgres::OpenError::Encoding(_)
                | postgres::OpenError::NotBaton
                | postgres::OpenError::Unfinished(_)
                | postgres::OpenError::Newer { .. }
                | postgres::OpenError::WrongPepper
                | postgres::OpenError::Damaged(_)
                | postgres::OpenError::Migration(..) => DATA,
            },
            Self::Home(home::Error::Secrets(error)) => match error {
                tokens::Error::TooOpen { .. }
                | tokens::Error::Malformed { .. }
                | tokens::Error::Missing { .. } => DATA,
                tokens::Error::Unusable { .. } => DISK,
            },
            Self::Socket(error) => match error {
                socket::Error::InUse(_) => BUSY,
                socket::Error::NotOurs(_)
                | socket::Error::NoSocket(_)
                | socket::Error::TooLong(_) => USAGE,
                socket::Error::Io(..) => DISK,
            },
            Self::Blobs(_, error) => exit_of_blobs(error),
            Self::Taken(_) => BUSY,
            Self::KeyFile(..) => DATA,
            Self::Listen(..) | Self::Signals(_) => FAILED,
        }
    }
}

/// What is wrong with a place of blobs, with what the file system said, where it did.
fn told_of(error: &blobs::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn exit_of_blobs(error: &blobs::Error) -> u8 {
    match error {
        blobs::Error::InUse { .. } => BUSY,
        blobs::Error::Untrusted { .. } => DATA,
        blobs::Error::Io { .. } | blobs::Error::DiskFull { .. } => DISK,
        blobs::Error::Invalid { .. }
        | blobs::Error::TooLarge { .. }
        | blobs::Error::DigestMismatch { .. }
        | blobs::Error::NotFound { .. }
        | blobs::Error::Corrupt { .. }
        | blobs::Error::QuotaExceeded { .. }
        | blobs::Error::SourceFailed(_) => FAILED,
    }
}
