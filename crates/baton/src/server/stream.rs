//! A list that is followed: what a GET would answer now, and then what it would answer next.
//!
//! A feeder, a task of its own, performs the same operation again after each change and hands what
//! it found to the connection, one batch at a time. So a reader holds one batch at most, however
//! slow it is; and the feeder's deadline runs whatever the reader's socket does.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::time::{sleep, timeout};

use crate::changes::Listener;
use crate::operation::Reply;
use crate::problem::Problem;
use crate::shape::Shape;

use super::connection::Connection;
use super::door::Session;
use super::limits::{Limits, STREAM_BYTES_MAX, STREAM_EVENTS_MAX};
use super::request::Asking;

/// Keeps proxies and readers from thinking that nobody is there.
const COMMENT: &[u8] = b":\n\n";

/// The end that the connection reads from.
pub struct Following {
    batches: mpsc::Receiver<Bytes>,
    /// The last thing to be told instead of what waits; set by the feeder, once.
    farewell: Arc<OnceLock<Bytes>>,
    over: bool,
}

impl Following {
    /// The next piece of the stream.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(farewell) = self.farewell.get() {
            self.over = true;
            return Poll::Ready(Some(farewell.clone()));
        }
        let next = self.batches.poll_recv(cx);
        match (&next, self.farewell.get()) {
            // The feeder went while this was looking.
            (Poll::Ready(None), Some(farewell)) => {
                self.over = true;
                Poll::Ready(Some(farewell.clone()))
            }
            (Poll::Ready(_) | Poll::Pending, _) => next,
        }
    }
}

/// Begins to follow: what is wrong with the request is told before the stream begins.
pub async fn follow(
    asking: Asking,
    mut arguments: Value,
    last_seen: Option<&str>,
    (session, connection): (Session, Arc<Connection>),
    limits: Limits,
) -> Result<Following, Problem> {
    if let Some(last_seen) = last_seen {
        arguments["after"] = last_seen.into();
    }
    if let Some(Shape::Number { max, .. }) = asking.argument("limit") {
        let events_max = u64::try_from(STREAM_EVENTS_MAX).unwrap_or(u64::MAX);
        arguments["limit"] = events_max.min(*max).into();
    }
    // Whoever listens before it looks misses nothing in between.
    let listener = asking.listen()?;
    let first = asking.perform(arguments.clone()).await?;
    let (sender, batches) = mpsc::channel(1);
    let farewell = Arc::new(OnceLock::new());
    let feeder = Feeder {
        asking,
        arguments,
        session,
        connection,
        limits,
        sender,
        farewell: Arc::clone(&farewell),
    };
    tokio::spawn(feeder.run(first, listener));
    Ok(Following { batches, farewell, over: false })
}

struct Feeder {
    asking: Asking,
    arguments: Value,
    session: Session,
    connection: Arc<Connection>,
    limits: Limits,
    sender: mpsc::Sender<Bytes>,
    farewell: Arc<OnceLock<Bytes>>,
}

impl Feeder {
    async fn run(mut self, first: Reply, listener: Listener) {
        let (limits, session) = (self.limits, self.session.clone());
        let ended = tokio::select! {
            ended = self.feed(first, listener) => ended,
            problem = session.over() => Some(problem),
        };
        // Without a problem the reader has gone by itself.
        let Some(problem) = ended else { return };
        let Self { asking, arguments, session: same, connection, sender, farewell, .. } = self;
        // While it waits for a reader to go, it holds nothing that others wait for.
        drop((asking, session, same));
        let body = json!({
            "code": problem.code(), "detail": problem.detail(), "after": arguments["after"],
        });
        drop(farewell.set(format!("event: resync\ndata: {body}\n\n").into()));
        let gone = async {
            // A batch that nobody took makes way for the farewell; an empty one wakes a reader.
            drop(sender.try_send(Bytes::new()));
            sender.closed().await;
        };
        if timeout(limits.farewell, gone).await.is_err() {
            connection.cut();
        }
    }

    /// Feeds until there is a reason to stop; none if the reader has gone.
    async fn feed(&mut self, first: Reply, mut listener: Listener) -> Option<Problem> {
        let mut comment = pin!(sleep(self.limits.comment));
        let mut reply = first;
        loop {
            let (batch, more) = self.batch(&reply);
            if !batch.is_empty() {
                if let Err(ended) = self.send(batch.into()).await {
                    return ended;
                }
                comment.set(sleep(self.limits.comment));
            }
            if !more && let Err(ended) = self.wait(&mut listener, comment.as_mut()).await {
                return ended;
            }
            reply = match self.asking.perform(self.arguments.clone()).await {
                Ok(reply) => reply,
                Err(problem) => return Some(problem),
            };
        }
    }

    /// Waits for a reason to look again, and says meanwhile that somebody is here.
    async fn wait(
        &self,
        listener: &mut Listener,
        mut comment: Pin<&mut tokio::time::Sleep>,
    ) -> Result<(), Option<Problem>> {
        loop {
            tokio::select! {
                biased;
                () = self.sender.closed() => return Err(None),
                heard = listener.heard() => {
                    heard.map_err(|error| Some(error.into()))?;
                    // More may come at once: one look for all of it.
                    sleep(self.limits.gather).await;
                    return Ok(());
                }
                () = &mut comment => {
                    self.send(Bytes::from_static(COMMENT)).await?;
                    comment.set(sleep(self.limits.comment));
                }
            }
        }
    }

    async fn send(&self, batch: Bytes) -> Result<(), Option<Problem>> {
        let slow: Duration = self.limits.slow;
        match self.sender.send_timeout(batch, slow).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(None),
            Err(SendTimeoutError::Timeout(_)) => {
                let detail = "the stream was read too slowly: begin again after the last event";
                Err(Some(Problem::new("too_slow", detail)))
            }
        }
    }

    /// What the stream says of an answer, and whether there is more to ask for at once. The place
    /// from which to go on moves with what was written.
    fn batch(&mut self, reply: &Reply) -> (String, bool) {
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
            self.arguments["after"] = cursor.into();
        }
        if items.is_empty()
            && let Some(as_of) = reply.body["as_of"].as_str()
        {
            self.arguments["after"] = as_of.into();
        }
        (batch, reply.body.get("next").is_some())
    }
}
