//! Tells whoever started the server how it is: ready, stopping, and, as long as time passes in it,
//! alive. The protocol is that of systemd: lines in datagrams to a socket named by the environment.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::surroundings::Surroundings;

/// How long a word may take: whoever does not listen must not hold up the server.
const SEND_MAX: Duration = Duration::from_secs(1);

/// Who started the server, if it wants to be told.
#[derive(Debug, Default)]
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How long it waits for a sign of life.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads what the environment says. A socket that is none is told, and then left alone: a
    /// server that works is better than one that will not start for want of a listener.
    #[must_use]
    pub fn of(around: &Surroundings) -> Self {
        let Some(name) = &around.notify_socket else { return Self::default() };
        match open(name) {
            Ok(to) => Self { to: Some(to), watchdog: around.watchdog(std::process::id()) },
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used");
                Self::default()
            }
        }
    }

    /// Requests are accepted.
    pub fn ready(&self, url: &str) {
        self.say(&format!("READY=1\nSTATUS=serves at {url}"));
    }

    /// It is on its way out.
    pub fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=drains");
    }

    /// Says that it lives twice as often as is asked for, and each time only after time has passed
    /// once more: a runtime that still runs beside a writer that hangs is not alive.
    pub async fn live(&self, mut turns: watch::Receiver<u64>) {
        let Some(watchdog) = self.watchdog else { return };
        while turns.changed().await.is_ok() {
            self.say("WATCHDOG=1");
            sleep(watchdog / 2).await;
        }
    }

    fn say(&self, words: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(words.as_bytes(), to) {
            tracing::warn!(%error, words, "whoever started the server was not told");
        }
    }
}

/// A name that begins with `@` is one without a file.
fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            let rule = "it must be an absolute path, or a name that begins with `@`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, rule));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_MAX))?;
    Ok((socket, to))
}

#[cfg(test)]
mod tests;
