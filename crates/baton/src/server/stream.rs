//! A list that is followed: what a GET would answer now, and then what it would answer next.
//!
//! A reader has the socket for itself from the head on: the parser and its buffers are gone, so
//! one that hears nothing holds next to nothing. It performs the same operation again after each
//! change and writes what it found, one batch at a time; so it holds one batch at most, however
//! slowly it is taken.

use std::pin::{Pin, pin};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::changes::Listener;
use crate::operation::Reply;
use crate::problem::Problem;
use crate::shape::{Shape, Violation};

use super::answer;
use super::crowd::Seat;
use super::door::Session;
use super::limits::{Limits, STREAM_BYTES_MAX, STREAM_EVENTS_MAX};
use super::request::Asking;

/// Keeps proxies and readers from thinking that nobody is there.
const COMMENT: &str = ":\n\n";
/// What ends an event.
const END: &[u8] = b"\n\n";
/// What is read at once of what a reader says, which nobody listens to.
const HEARD_BYTES: usize = 16;

/// Begins to follow: what is wrong with the request is told before the stream begins.
pub async fn follow(
    asking: Asking,
    mut arguments: Value,
    last_seen: Option<&str>,
    (session, seat): (Session, Option<Seat>),
    limits: Limits,
) -> Result<Reader, Problem> {
    if arguments["newest"] == true {
        let rule = "must not be given: a stream goes on from what is told last".to_owned();
        return Err(Problem::invalid(vec![Violation { field: "newest".to_owned(), rule }]));
    }
    if let Some(last_seen) = last_seen {
        arguments["after"] = last_seen.into();
    }
    if let Some(limit) = limit_of(asking.argument("limit")) {
        arguments["limit"] = limit.into();
    }
    // Whoever listens before it looks misses nothing in between.
    let listener = asking.listen()?;
    let first = asking.perform(arguments.clone()).await?;
    let feeder = Feeder { asking, told: arguments["after"].clone(), arguments, limits };
    Ok(Reader { feeder, session, seat, first, listener })
}

/// Somebody who follows.
pub struct Reader {
    feeder: Feeder,
    session: Session,
    seat: Option<Seat>,
    first: Reply,
    listener: Listener,
}

impl Reader {
    /// Writes head and events to the socket until there is a reason to stop.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, mut socket: S) {
        let Self { mut feeder, session, seat, first, listener } = self;
        let mut written = Written::of(answer::stream_head(feeder.asking.now()));
        let ended = tokio::select! {
            ended = feeder.feed(&mut socket, &mut written, first, listener) => ended,
            problem = session.over() => Some(problem),
        };
        // Without a problem the reader has gone by itself.
        let Some(problem) = ended else { return };
        let Feeder { asking, told, limits, .. } = feeder;
        // While it waits for a reader to go, it holds nothing that others wait for.
        drop((asking, session));
        let (mut last, after) = written.rest_of_event();
        let after = after.map_or(told, Value::from);
        let body = json!({ "code": problem.code(), "detail": problem.detail(), "after": after });
        last.extend_from_slice(format!("event: resync\ndata: {body}\n\n").as_bytes());
        let farewell = async {
            socket.write_all(&last).await?;
            socket.shutdown().await
        };
        // One that does not take even this is cut.
        drop(timeout(limits.farewell, farewell).await);
        drop(seat);
    }
}

/// What is being written, and how far it is: whoever is interrupted goes on from there.
#[derive(Default)]
struct Written {
    batch: Vec<u8>,
    count: usize,
}

impl Written {
    fn of(batch: impl Into<Vec<u8>>) -> Self {
        Self { batch: batch.into(), count: 0 }
    }

    /// Writes what is left; false if the reader has gone.
    async fn go_on(&mut self, socket: &mut (impl AsyncWrite + Unpin)) -> bool {
        while self.count < self.batch.len() {
            match socket.write(&self.batch[self.count..]).await {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.count += count,
            }
        }
        // What TLS has taken in need not be on its way yet.
        if socket.flush().await.is_err() {
            return false;
        }
        *self = Self::default();
        true
    }

    /// What is left of an event that was begun, and the place of the last one that will have been
    /// told with it. A head is told whole; it ends like an event.
    fn rest_of_event(&self) -> (Vec<u8>, Option<String>) {
        let is_head = self.batch.starts_with(b"HTTP/");
        if self.count == 0 && !is_head {
            return (vec![], None);
        }
        let end = if is_head { self.batch.len() } else { self.end_of_event() };
        let told = String::from_utf8_lossy(&self.batch[..end]);
        let after = told.lines().rev().find_map(|line| line.strip_prefix("id: "));
        (self.batch[self.count..end].to_vec(), after.map(str::to_owned))
    }

    fn end_of_event(&self) -> usize {
        let from = self.count.saturating_sub(END.len());
        let end = self.batch[from..].windows(END.len()).position(|two| two == END);
        end.map_or(self.batch.len(), |at| from + at + END.len())
    }
}

struct Feeder {
    asking: Asking,
    arguments: Value,
    /// Up to here everything was written.
    told: Value,
    limits: Limits,
}

impl Feeder {
    /// Feeds until there is a reason to stop; none if the reader has gone.
    async fn feed<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        written: &mut Written,
        first: Reply,
        mut listener: Listener,
    ) -> Option<Problem> {
        if let Err(ended) = self.write(socket, written).await {
            return ended;
        }
        let mut comment = pin!(sleep(self.limits.comment));
        let mut reply = first;
        loop {
            let (batch, more) = batch(&reply, &mut self.arguments["after"]);
            drop(reply);
            if !batch.is_empty() {
                *written = Written::of(batch);
                if let Err(ended) = self.write(socket, written).await {
                    return ended;
                }
                comment.set(sleep(self.limits.comment));
            }
            self.told = self.arguments["after"].clone();
            if !more
                && let Err(ended) =
                    self.wait(socket, written, &mut listener, comment.as_mut()).await
            {
                return ended;
            }
            reply = match self.asking.perform(self.arguments.clone()).await {
                Ok(reply) => reply,
                Err(problem) => return Some(problem),
            };
        }
    }

    /// Waits for a reason to look again. Where nothing happens, it says now and then that somebody
    /// is here, and asks then, too, whether there is more: a ring may be lost, and other servers do
    /// not ring here. All who ask within a second share one look.
    async fn wait<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: &mut S,
        written: &mut Written,
        listener: &mut Listener,
        mut comment: Pin<&mut tokio::time::Sleep>,
    ) -> Result<(), Option<Problem>> {
        loop {
            tokio::select! {
                biased;
                () = is_gone(socket) => return Err(None),
                rung = listener.rung() => {
                    rung.map_err(|error| Some(error.into()))?;
                    // More may come at once: one look for all of it.
                    sleep(self.limits.gather).await;
                    return Ok(());
                }
                () = &mut comment => {
                    *written = Written::of(COMMENT);
                    self.write(socket, written).await?;
                    comment.set(sleep(self.limits.comment));
                }
            }
            if self.asking.has_moved(&self.told).await.map_err(Some)? {
                return Ok(());
            }
        }
    }

    async fn write<S: AsyncWrite + Unpin>(
        &self,
        socket: &mut S,
        written: &mut Written,
    ) -> Result<(), Option<Problem>> {
        match timeout(self.limits.slow, written.go_on(socket)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(_) => {
                let detail = "the stream was read too slowly: begin again after the last event";
                Err(Some(Problem::new("too_slow", detail)))
            }
        }
    }
}

/// The most events that one look brings, if the list can be asked for fewer.
fn limit_of(limit: Option<&Shape>) -> Option<u64> {
    let Some(Shape::Number { max, .. }) = limit else { return None };
    Some((*max).min(STREAM_EVENTS_MAX as u64))
}

/// What the stream says of an answer, and whether there is more to ask for at once. The place
/// from which to go on moves with what was written.
fn batch(reply: &Reply, after: &mut Value) -> (String, bool) {
    let none = vec![];
    let items = reply.body["items"].as_array().unwrap_or(&none);
    let mut batch = String::new();
    for item in items {
        let data = item.to_string();
        if !batch.is_empty() && batch.len() + data.len() > STREAM_BYTES_MAX {
            return (batch, true);
        }
        let cursor = item["cursor"].as_str().unwrap_or_default();
        batch.push_str("id: ");
        batch.push_str(cursor);
        batch.push_str("\ndata: ");
        batch.push_str(&data);
        batch.push_str("\n\n");
        *after = cursor.into();
    }
    if items.is_empty()
        && let Some(as_of) = reply.body["as_of"].as_str()
    {
        *after = as_of.into();
    }
    (batch, reply.body.get("next").is_some())
}

/// Waits until the reader hangs up. What it says meanwhile is not for anybody.
async fn is_gone(socket: &mut (impl AsyncRead + Unpin)) {
    let mut heard = [0; HEARD_BYTES];
    while let Ok(1..) = socket.read(&mut heard).await {}
}

#[cfg(test)]
mod tests;
