//! One connection of the link, from the hello to its end.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use baton_domain::ids::AttemptId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};

use crate::clock::boot_ms;
use crate::points::{self, Point};
use crate::protocol::{Down, Hello, Up, Welcome, read, write};
use crate::websocket::{Gone, Heard, WebSocket, Why};

use super::{News, Shared};

/// How long a server may take to welcome a worker.
const WELCOME_MAX: Duration = Duration::from_secs(10);
/// How long nothing at all may come: the server asks every 20 s whether we are here.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long a server may take to take something in.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// Frames that are sent at once before anything is read.
const BATCH_MAX: usize = 32;

/// Why a connection ended.
pub(super) enum Ended {
    /// The server is not there, or wants us not.
    Gone(String),
    /// Nobody hears our news any more.
    Deaf,
}

/// One connection.
pub(super) struct Conversation<S> {
    socket: WebSocket<S>,
    shared: Arc<Shared>,
    news: mpsc::Sender<News>,
    /// The last number of each attempt that was sent over this connection.
    sent: BTreeMap<AttemptId, u64>,
    /// Ends when nothing was heard for too long.
    silence: Pin<Box<Sleep>>,
}

type Spoken<T> = Result<T, Ended>;

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) fn new(socket: WebSocket<S>, shared: Arc<Shared>, news: mpsc::Sender<News>) -> Self {
        let silence = Box::pin(sleep(SILENCE_MAX));
        Self { socket, shared, news, sent: BTreeMap::new(), silence }
    }

    /// Speaks until the server goes.
    pub(super) async fn speak(&mut self, hello: Hello, asides: &mut mpsc::Receiver<Up>) -> Ended {
        match self.try_speak(hello, asides).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn try_speak(
        &mut self,
        hello: Hello,
        asides: &mut mpsc::Receiver<Up>,
    ) -> Spoken<std::convert::Infallible> {
        let asked = boot_ms();
        self.say(&hello.into()).await?;
        let welcome = match timeout(WELCOME_MAX, self.welcome()).await {
            Ok(welcome) => welcome?,
            Err(_) => return Err(gone("it does not say welcome")),
        };
        self.resume(&welcome)?;
        self.tell(News::Welcome(Box::new(welcome), asked)).await?;
        let shared = Arc::clone(&self.shared);
        loop {
            // Whoever listens before it looks misses nothing in between.
            let told = shared.told.notified();
            let more = self.send_waiting().await?;
            tokio::select! {
                heard = self.hear() => {
                    let heard = heard?;
                    self.take_in(heard).await?;
                }
                Some(aside) = asides.recv() => self.say_aside(&aside).await?,
                () = told, if !more => {}
                () = std::future::ready(()), if more => {}
            }
        }
    }

    /// Waits for the welcome; a server that has none says why.
    async fn welcome(&mut self) -> Spoken<Welcome> {
        loop {
            let Some(text) = self.hear().await? else { continue };
            match read::<Down>(&text) {
                Ok(Down::Welcome(welcome)) => return Ok(*welcome),
                Ok(Down::Trouble(trouble)) => return Err(gone(trouble.detail.as_str())),
                Ok(_) => return Err(gone("it does not begin with a welcome")),
                Err(error) => return Err(gone(&format!("its welcome is not understood: {error}"))),
            }
        }
    }

    /// Brings the outboxes to where the server is.
    fn resume(&mut self, welcome: &Welcome) -> Spoken<()> {
        let mut known = self.shared.deployment.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(welcome.deployment.clone());
        drop(known);
        let mut outboxes = self.shared.lock();
        for resume in &welcome.resume {
            let kept = match &resume.fenced {
                None => outboxes.acked(resume.attempt, resume.applied_seq),
                Some(_) => outboxes.fenced(resume.attempt),
            };
            kept.map_err(|error| gone(&format!("an outbox cannot be written: {error}")))?;
        }
        Ok(())
    }

    /// Sends what waits and was not sent over this connection; whether there is more.
    async fn send_waiting(&mut self) -> Spoken<bool> {
        let unsent = self.shared.lock().unsent(&self.sent, BATCH_MAX);
        let more = unsent.len() >= BATCH_MAX;
        for (attempt, seq, text) in unsent {
            self.say_text(text).await?;
            self.sent.insert(attempt, seq);
            points::pass(Point::ReportSent);
        }
        Ok(more)
    }

    async fn take_in(&mut self, heard: Option<String>) -> Spoken<()> {
        let Some(text) = heard else { return Ok(()) };
        let down = match read::<Down>(&text) {
            Ok(down) => down,
            Err(error) => {
                // A newer server may say more than we understand; what it must be told it tells again.
                tracing::warn!(%error, "a frame of the server was not understood");
                return Ok(());
            }
        };
        self.note(&down).map_err(|error| gone(&format!("an outbox cannot be written: {error}")))?;
        if let Down::Trouble(trouble) = &down
            && trouble.about.is_none()
        {
            return Err(gone(trouble.detail.as_str()));
        }
        if let Down::Ack(_) = down {
            return Ok(());
        }
        self.tell(News::Said(down)).await
    }

    /// What the server says of frames and attempts is noted before anybody hears it.
    fn note(&mut self, down: &Down) -> std::io::Result<()> {
        let mut outboxes = self.shared.lock();
        match down {
            Down::Ack(ack) => {
                points::pass(Point::AckHeard);
                outboxes.acked(ack.attempt, ack.seq)?;
                points::pass(Point::AckKept);
                Ok(())
            }
            Down::Dispatch(run) => {
                points::pass(Point::RunHeard);
                outboxes.begin(run.attempt, run.token.clone())?;
                points::pass(Point::OutboxBegun);
                Ok(())
            }
            Down::Fenced(fenced) => outboxes.fenced(fenced.attempt),
            Down::Trouble(trouble) => match &trouble.about {
                Some(about) => match (about.attempt, about.seq) {
                    (Some(attempt), Some(seq)) => outboxes.settled(attempt, seq),
                    (Some(_) | None, _) => Ok(()),
                },
                None => Ok(()),
            },
            Down::Welcome(_)
            | Down::Renewed(_)
            | Down::Answer(_)
            | Down::Cancel(_)
            | Down::Stands(_)
            | Down::Bound(_)
            | Down::Checkpointed(_)
            | Down::Listen(_)
            | Down::Drain(_) => Ok(()),
        }
    }

    /// The next text; nothing for a sign of life. Nothing is lost if it is dropped half-way.
    async fn hear(&mut self) -> Spoken<Option<String>> {
        let heard = tokio::select! {
            heard = self.socket.hear() => heard,
            () = &mut self.silence => return Err(gone("nothing is heard of it")),
        };
        self.silence.set(sleep(SILENCE_MAX));
        match heard {
            Heard::Text(text) => Ok(Some(text)),
            Heard::Alive => Ok(None),
            Heard::Gone => Err(gone("the connection was lost")),
            Heard::Wrong(why) => Err(gone(why)),
        }
    }

    async fn tell(&mut self, news: News) -> Spoken<()> {
        self.news.send(news).await.map_err(|_| Ended::Deaf)
    }

    async fn say_aside(&mut self, aside: &Up) -> Spoken<()> {
        self.say(aside).await?;
        if let Up::Bye(_) = aside {
            self.socket.close(Why::Done).await;
            return Err(gone("the worker has said good-bye"));
        }
        Ok(())
    }

    async fn say(&mut self, frame: &Up) -> Spoken<()> {
        let text = write(frame).map_err(|error| gone(&error.to_string()))?;
        self.say_text(text).await
    }

    async fn say_text(&mut self, text: String) -> Spoken<()> {
        match timeout(WRITE_MAX, self.socket.say(text)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Gone)) => Err(gone("the connection was lost")),
            Err(_) => Err(gone("it takes nothing in")),
        }
    }
}

fn gone(why: &str) -> Ended {
    Ended::Gone(why.to_owned())
}
