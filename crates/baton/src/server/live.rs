//! A page that stays up to date: what changed of it since it was last sent, whenever something
//! changed.
//!
//! A watcher has the socket for itself, like a reader of events. It draws the page again after a
//! change, and now and then without one, because some things change by the passing of time alone;
//! and sends only what is different.

use std::pin::pin;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::changes::Listener;
use crate::dashboard::{Onlooker, Screen, Sheet};
use crate::problem::Problem;

use super::answer;
use super::crowd::Seat;
use super::door::Session;
use super::limits::Limits;

/// Keeps proxies and browsers from thinking that nobody is there.
const COMMENT: &[u8] = b":\n\n";
/// How often nothing is heard before a page is drawn again all the same: some things change by the passing
/// of time alone, and nobody waits for those with a watch in hand.
const QUIET_MAX: u32 = 4;
/// What is read at once of what a browser says, which nobody listens to.
const HEARD_BYTES: usize = 16;

/// Somebody who keeps a page open.
pub struct Watcher {
    /// Who looks.
    pub onlooker: Onlooker,
    /// At what.
    pub screen: Screen,
    /// As what the page was shown.
    pub sheet: Sheet,
    /// What tells of changes.
    pub listener: Listener,
    /// As long as its key is good.
    pub session: Session,
    /// Its place among the requests of its key.
    pub seat: Option<Seat>,
    /// How long everything may take.
    pub limits: Limits,
}

impl Watcher {
    /// Begins to watch: whoever listens before it looks misses nothing in between.
    pub async fn begin(
        (onlooker, screen): (Onlooker, Screen),
        (session, seat): (Session, Option<Seat>),
        listener: Listener,
        limits: Limits,
    ) -> Result<Self, Problem> {
        let sheet = onlooker.look(&screen).await?;
        Ok(Self { onlooker, screen, sheet, listener, session, seat, limits })
    }

    /// Writes what changes until the browser has gone, or may look no longer.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut self, mut socket: S) {
        let over = self.session.clone();
        let ended = tokio::select! {
            () = self.watch(&mut socket) => None,
            problem = over.over() => Some(problem),
        };
        if let Some(problem) = ended {
            let told = format!("event: over\ndata: {}\n\n", Value::from(problem.code()));
            let farewell = async {
                socket.write_all(told.as_bytes()).await?;
                socket.shutdown().await
            };
            drop(timeout(self.limits.farewell, farewell).await);
        }
        drop(self.seat);
    }

    async fn watch<S: AsyncRead + AsyncWrite + Unpin>(&mut self, socket: &mut S) {
        let head = answer::stream_head(self.onlooker.now());
        // The page was drawn before the stream began: all of it is sent once, so that nothing in
        // between is missed.
        let whole = self.sheet.since(&Sheet::nothing());
        if !self.write(socket, &[head.as_bytes(), &event(&whole)].concat()).await {
            return;
        }
        let (mut head, mut quiet) = (self.onlooker.head().await, 0);
        loop {
            let mut comment = pin!(sleep(self.limits.comment));
            let heard = tokio::select! {
                biased;
                () = is_gone(socket) => return,
                rung = self.listener.rung() => rung.is_ok(),
                () = &mut comment => {
                    if !self.write(socket, COMMENT).await {
                        return;
                    }
                    quiet += 1;
                    let passed = std::mem::replace(&mut head, self.onlooker.head().await) != head;
                    if !passed && quiet < QUIET_MAX && !self.sheet.is_timed() {
                        continue;
                    }
                    true
                }
            };
            if !heard {
                return;
            }
            quiet = 0;
            // More may come at once: one look for all of it.
            sleep(self.limits.glance).await;
            // A page that cannot be drawn now is drawn the next time, or after a reconnection.
            let Ok(sheet) = self.onlooker.look(&self.screen).await else { return };
            let patches = sheet.since(&self.sheet);
            self.sheet = sheet;
            if !patches.is_empty() && !self.write(socket, &event(&patches)).await {
                return;
            }
        }
    }

    /// Whether it was taken in in time.
    async fn write<S: AsyncWrite + Unpin>(&self, socket: &mut S, bytes: &[u8]) -> bool {
        matches!(timeout(self.limits.slow, socket.write_all(bytes)).await, Ok(Ok(())))
    }
}

fn event(patches: &[crate::dashboard::Patch]) -> Vec<u8> {
    let data = serde_json::to_string(patches).expect("patches are texts");
    format!("event: morph\ndata: {data}\n\n").into_bytes()
}

/// Waits until the browser hangs up.
async fn is_gone(socket: &mut (impl AsyncRead + Unpin)) {
    let mut heard = [0; HEARD_BYTES];
    while let Ok(1..) = socket.read(&mut heard).await {}
}
