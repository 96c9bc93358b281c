//! A connection to a server, wherever it is.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::exchange::Lost;
use super::{Address, Trust};

/// How long a server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Bytes in both directions.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

/// Connects, and shakes hands where there is TLS.
pub(super) async fn dial(address: &Address, trust: &Trust) -> Result<Box<dyn Wire>, Lost> {
    let before = |error: std::io::Error| {
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
            return Lost::Nobody;
        }
        Lost::Before(error.to_string())
    };
    let late = |_| Lost::Before("it does not accept a connection".to_owned());
    let silent = || Lost::Before("it does not shake hands".to_owned());
    match address {
        Address::Socket(path) => {
            let connecting = timeout(CONNECT_MAX, UnixStream::connect(path));
            let stream = connecting.await.map_err(late)?.map_err(before)?;
            let peer = stream.peer_cred().map_err(before)?.uid();
            check_peer(peer, rustix::process::geteuid().as_raw())?;
            Ok(Box::new(stream))
        }
        Address::Tcp { host, port, tls } => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let connecting = timeout(CONNECT_MAX, TcpStream::connect((bare, *port)));
            let stream = connecting.await.map_err(late)?.map_err(before)?;
            // What is sent is small: waiting to fill a packet would only delay it.
            stream.set_nodelay(true).map_err(before)?;
            if !tls {
                return Ok(Box::new(stream));
            }
            let shaking = timeout(CONNECT_MAX, trust.shake_hands(bare, stream));
            let shaken = shaking.await.map_err(|_| silent())?;
            Ok(Box::new(shaken?))
        }
    }
}

/// Whoever listens on the socket gets our key: it must be us, or the machine's owner.
fn check_peer(peer: u32, own: u32) -> Result<(), Lost> {
    if peer == own || peer == 0 {
        return Ok(());
    }
    let why = format!("the socket belongs to another user ({peer}), so nothing was sent");
    Err(Lost::Before(why))
}

#[cfg(test)]
mod tests {
    use super::check_peer;
    use crate::client::exchange::Lost;

    #[test]
    fn a_socket_of_another_user_is_told_nothing() {
        assert!(check_peer(1000, 1000).is_ok() && check_peer(0, 1000).is_ok());
        let refused = check_peer(1001, 1000).expect_err("it is somebody else's");
        assert!(matches!(refused, Lost::Before(why) if why.contains("another user (1001)")));
    }
}
