//! A worker at the door: the handshake, and the socket as long as it is there.
//!
//! What is said is none of this module's business. It keeps the bounds: who says nothing, takes
//! nothing, has lost its key or has been here for a day, goes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderMap};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::problem::Problem;
use crate::protocol::write;
use crate::relay::{Ear, Guest, Relay, farewell};
use crate::websocket::{self, Gone, Heard, WebSocket, Why};

use super::crowd::Seat;
use super::door::Session;
use super::guard::once;
use super::limits::Limits;
use super::{Server, answer};

/// Characters of the key of a handshake: sixteen bytes.
const KEY_LENGTH: usize = 24;

/// Whether somebody wants to go on as a worker does; answers with what proves that we understood. A
/// page says where it is from, and no worker is a page, whatever else it shows.
pub fn shake_hands(headers: &HeaderMap) -> Result<String, Problem> {
    if once(headers, &header::ORIGIN)?.is_some() {
        return Err(Problem::new("forbidden", "workers are programs, and pages are none"));
    }
    let says = |name| -> Result<String, Problem> {
        Ok(once(headers, &name)?.unwrap_or_default().to_ascii_lowercase())
    };
    let connection = says(header::CONNECTION)?;
    let upgrades = connection.split(',').any(|word| word.trim() == "upgrade");
    if !upgrades || says(header::UPGRADE)? != "websocket" {
        return Err(Problem::new(
            "malformed",
            "workers come by WebSocket: see the worker protocol",
        ));
    }
    if says(header::SEC_WEBSOCKET_VERSION)? != websocket::VERSION {
        let detail = "Sec-WebSocket-Version must be 13";
        return Err(Problem::new("malformed", detail));
    }
    let key = once(headers, &header::SEC_WEBSOCKET_KEY)?.unwrap_or_default();
    let digits = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if key.len() != KEY_LENGTH || !key.bytes().all(digits) {
        return Err(Problem::new("malformed", "Sec-WebSocket-Key must be 16 bytes in base64"));
    }
    Ok(websocket::accept(key))
}

/// A worker that was let in.
pub struct Visit {
    relay: Arc<Relay>,
    session: Session,
    seat: Option<Seat>,
    guest: Guest,
    accept: String,
    limits: Limits,
    closing: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why a visit ends.
enum Ended {
    /// The worker is not there any more.
    Gone,
    /// It has said that it goes.
    Left,
    /// It must go, for this reason.
    Sent(Problem, Why),
}

impl Visit {
    /// Takes everything that a visit needs.
    #[must_use]
    pub fn new(
        server: &Server,
        session: Session,
        seat: Option<Seat>,
        guest: Guest,
        accept: String,
    ) -> Self {
        let (relay, limits) = (Arc::clone(server.relay()), *server.limits());
        let closing = Box::pin(server.closing());
        Self { relay, session, seat, guest, accept, limits, closing }
    }

    /// Speaks with the worker until there is a reason to stop.
    pub async fn serve<S>(self, mut socket: S, read: Vec<u8>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { relay, session, seat, guest, accept, limits, closing } = self;
        let head = answer::switching(&accept);
        let greeting = async {
            socket.write_all(head.as_bytes()).await?;
            socket.flush().await
        };
        if !matches!(timeout(limits.slow, greeting).await, Ok(Ok(()))) {
            return;
        }
        let mut socket = WebSocket::serving(socket, read).await;
        let (visitor, hears, ear) = guest.converse();
        let mut line = Line { socket: &mut socket, limits, ear };
        let mut attending = Box::pin(relay.attend(visitor, limits.hello));
        let ended = tokio::select! {
            biased;
            problem = session.over() => Ended::Sent(problem, Why::Rules),
            () = closing => {
                let detail = "the server is closing: come again";
                Ended::Sent(Problem::new("stopped", detail), Why::Away)
            }
            () = sleep(limits.life) => {
                let detail = "the connection is a day old: come again";
                Ended::Sent(Problem::new("stopped", detail), Why::Done)
            }
            ended = line.carry(&hears) => ended,
            ended = &mut attending => match ended {
                Some(problem) => Ended::Sent(problem, Why::Rules),
                None => Ended::Left,
            },
        };
        drop(hears);
        let last = match ended {
            Ended::Gone => {
                // What was said before it went is still carried out.
                tokio::select! {
                    _ = session.over() => {}
                    _ = timeout(limits.farewell, attending) => {}
                }
                return;
            }
            Ended::Left => None,
            Ended::Sent(problem, why) => Some((problem, why)),
        };
        drop((attending, session));
        let left = line.left();
        let parting = async {
            for text in left {
                socket.say(text).await?;
            }
            if let Some((problem, _)) = &last {
                socket.say(write(&farewell(problem)).unwrap_or_default()).await?;
            }
            socket.close(last.map_or(Why::Done, |(_, why)| why)).await;
            Ok::<_, Gone>(())
        };
        // One that does not take even this is cut.
        drop(timeout(limits.farewell, parting).await);
        drop(seat);
    }
}

/// A socket, with what waits to be said.
struct Line<'a, S> {
    socket: &'a mut WebSocket<S>,
    limits: Limits,
    ear: Ear,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<'_, S> {
    /// Carries texts in both directions until the worker has gone or must go.
    async fn carry(&mut self, hears: &mpsc::Sender<String>) -> Ended {
        let mut quiet = pin!(sleep(self.limits.ping));
        let mut asked = false;
        loop {
            let heard = tokio::select! {
                heard = self.socket.hear() => heard,
                said = self.ear.next() => {
                    let Some(frame) = said else { return Ended::Gone };
                    let Ok(text) = write(&frame) else { continue };
                    if !within(self.limits.slow, self.socket.say(text)).await {
                        return Ended::Gone;
                    }
                    continue;
                }
                () = &mut quiet => {
                    if asked || !within(self.limits.slow, self.socket.ping()).await {
                        return Ended::Gone;
                    }
                    asked = true;
                    quiet.set(sleep(self.limits.pong));
                    continue;
                }
            };
            match heard {
                Heard::Alive => {}
                Heard::Gone => return Ended::Gone,
                // Whoever says more than can be carried out waits, and holds nobody else up.
                Heard::Text(text) => {
                    if hears.send(text).await.is_err() {
                        return Ended::Gone;
                    }
                }
                Heard::Wrong(detail) => {
                    return Ended::Sent(Problem::new("malformed", detail), Why::NoText);
                }
            }
            asked = false;
            quiet.set(sleep(self.limits.ping));
        }
    }

    /// What is still to be said, now that nothing more is added.
    fn left(self) -> Vec<String> {
        self.ear.rest().iter().filter_map(|frame| write(frame).ok()).collect()
    }
}

async fn within(longest: Duration, what: impl Future<Output = Result<(), Gone>>) -> bool {
    matches!(timeout(longest, what).await, Ok(Ok(())))
}
