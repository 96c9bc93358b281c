//! Taking connections in, at the port and at the socket.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use crate::problem::Problem;

use super::connection::Taker;
use super::tls::Tls;
use super::{Peer, Server, Stage, answer, socket};

/// How long to wait when no connection can be taken in, for want of descriptors or memory.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The first byte of every TLS connection: a record of the kind handshake.
const HANDSHAKE: u8 = 22;
/// What is read of what somebody says to whom nobody listens any more.
const HEARD_BYTES_MAX: u64 = 64 << 10;

impl Server {
    /// Takes in connections over TCP until the server closes.
    pub async fn accept_tcp(self: Arc<Self>, listener: TcpListener) {
        self.accept_at(listener, None).await;
    }

    /// The same with TLS.
    pub async fn accept_tls(self: Arc<Self>, listener: TcpListener, tls: Arc<Tls>) {
        self.accept_at(listener, Some(tls)).await;
    }

    async fn accept_at(self: Arc<Self>, listener: TcpListener, tls: Option<Arc<Tls>>) {
        let mut trouble = Trouble::default();
        while let Some(accepted) = self.unless_closing(listener.accept()).await {
            let (socket, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    trouble.wait(&error).await;
                    continue;
                }
            };
            trouble.end();
            // Answers are small and whole: they should not wait for company.
            drop(socket.set_nodelay(true));
            let peer = Peer::Tcp(from.ip());
            match (slot(&self.slots), &tls) {
                (Some(slot), None) => self.spawn(socket, peer, slot),
                (Some(slot), Some(tls)) => self.spawn_tls(socket, peer, slot, tls),
                (None, None) => turn_away(|bytes| TcpStream::try_write(&socket, bytes)),
                // Before the handshake nothing can be said that would be understood.
                (None, Some(_)) => {}
            }
        }
    }

    /// The same over a unix socket.
    pub async fn accept_unix(self: Arc<Self>, listener: UnixListener) {
        let mut trouble = Trouble::default();
        while let Some(accepted) = self.unless_closing(listener.accept()).await {
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    trouble.wait(&error).await;
                    continue;
                }
            };
            trouble.end();
            match slot(&self.socket_slots) {
                Some(slot) => {
                    let peer = socket::peer(&socket);
                    self.spawn(socket, peer, slot);
                }
                None => turn_away(|bytes| UnixStream::try_write(&socket, bytes)),
            }
        }
    }

    async fn unless_closing<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let mut stage = self.stage.subscribe();
        tokio::select! {
            biased;
            _ = stage.wait_for(|stage| *stage == Stage::Closing) => None,
            done = wait => Some(done),
        }
    }

    fn spawn<S>(self: &Arc<Self>, socket: S, peer: Peer, slot: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        tokio::spawn(Arc::clone(self).attend(socket, peer, slot));
    }

    /// The same once both have shaken hands, for which there is as much time as for a head.
    fn spawn_tls(
        self: &Arc<Self>,
        socket: TcpStream,
        peer: Peer,
        slot: OwnedSemaphorePermit,
        tls: &Arc<Tls>,
    ) {
        let (server, tls) = (Arc::clone(self), Arc::clone(tls));
        tokio::spawn(async move {
            let shaking = timeout(server.limits.head, server.shake_hands(socket, &tls));
            if let Some(Ok(Some(socket))) = server.unless_closing(shaking).await {
                server.attend(socket, peer, slot).await;
            }
        });
    }

    async fn shake_hands(&self, mut socket: TcpStream, tls: &Tls) -> Option<TlsStream<TcpStream>> {
        let mut first = [0];
        if socket.peek(&mut first).await.ok()? == 1 && first[0] != HANDSHAKE {
            let detail = "this port speaks TLS: ask by https://";
            let answer = answer::bare(&Problem::new("malformed", detail));
            let farewell = async {
                socket.write_all(answer.as_bytes()).await?;
                socket.shutdown().await?;
                // A socket that is closed with something unread takes its last words back.
                let mut heard = vec![];
                socket.take(HEARD_BYTES_MAX).read_to_end(&mut heard).await
            };
            drop(timeout(self.limits.farewell, farewell).await);
            return None;
        }
        match tls.acceptor().accept(socket).await {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::debug!(%error, "a handshake failed");
                None
            }
        }
    }

    async fn attend<S>(self: Arc<Self>, socket: S, peer: Peer, slot: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Some((taker, socket, read)) = self.serve(socket, peer).await {
            // A task of its own, so that what the parser held is given back.
            tokio::spawn(async move {
                match taker {
                    Taker::Reader(reader) => reader.serve(socket).await,
                    Taker::Worker(visit) => visit.serve(socket, read).await,
                    Taker::Watcher(watcher) => watcher.serve(socket).await,
                }
                drop(slot);
            });
        }
    }
}

/// Connections that cannot be taken in. It is told when it begins and when it ends: whoever tries
/// again and again would fill the log.
#[derive(Default)]
struct Trouble {
    refused: u64,
}

impl Trouble {
    async fn wait(&mut self, error: &std::io::Error) {
        if self.refused == 0 {
            tracing::warn!(%error, "connections cannot be taken in");
        }
        self.refused += 1;
        sleep(ACCEPT_AGAIN).await;
    }

    fn end(&mut self) {
        if self.refused > 0 {
            tracing::warn!(tries = self.refused, "connections are taken in again");
            self.refused = 0;
        }
    }
}

fn slot(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(slots).try_acquire_owned().ok()
}

/// Says that there is no room, if the socket takes it at once; nobody waits for that.
fn turn_away(write: impl FnOnce(&[u8]) -> std::io::Result<usize>) {
    let problem = Problem::new("overloaded", "too many connections are open");
    drop(write(answer::bare(&problem).as_bytes()));
}
