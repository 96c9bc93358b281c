//! One connection: how long it may take over what it is doing, and who has it.
//!
//! A request passes through three phases. While nothing has come, the connection is idle; from the
//! first byte of a head to its last it is reading; then it is busy until the answer is gone.
//! Idle and reading have deadlines of their own, which no dribble of bytes moves.
//!
//! A caller may close its side once it has said everything. That is no reason not to answer it, so
//! the parser hears of the end only after the answer; but whoever waits on its behalf hears of it at
//! once, because a caller that is gone for good looks the same.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::limits::Limits;
use super::live::Watcher;
use super::misread;
use super::stream::Reader;
use super::worker::Visit;

const IDLE: u8 = 0;
const READING: u8 = 1;
const BUSY: u8 = 2;

/// What the parts of a connection know of each other.
#[derive(Default)]
pub struct Connection {
    phase: AtomicU8,
    /// Whether the socket is for somebody else: what the parser says is dropped.
    taken: AtomicBool,
    taker: Mutex<Option<Taker>>,
    /// Whether the caller has closed its side.
    ended: AtomicBool,
    end: Notify,
    /// The parser, while a request is answered.
    parser: Mutex<Option<Waker>>,
}

/// Who has a socket for itself after the head of its request.
pub enum Taker {
    /// Somebody who follows events.
    Reader(Box<Reader>),
    /// A worker.
    Worker(Box<Visit>),
    /// Somebody who keeps a page open.
    Watcher(Box<Watcher>),
}

/// A request that is being answered; when it is gone, the connection is idle again.
pub struct Busy(Arc<Connection>);

impl Connection {
    /// A request has come in.
    #[must_use]
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.phase.store(BUSY, Ordering::Release);
        Busy(Arc::clone(self))
    }

    /// Gives the socket to somebody, once the parser is done with it.
    pub fn hand_over(&self, taker: Taker) {
        self.taken.store(true, Ordering::Release);
        *lock(&self.taker) = Some(taker);
    }

    /// Who the socket was given to, if to anybody.
    pub fn take_taker(&self) -> Option<Taker> {
        lock(&self.taker).take()
    }

    /// Waits until the caller has closed its side.
    pub async fn ended(&self) {
        // Whoever listens before it looks misses nothing in between.
        let end = self.end.notified();
        if !self.ended.load(Ordering::Acquire) {
            end.await;
        }
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.end.notify_waiters();
    }

    /// The parser looks again once the request is answered: for the end, and to begin to be idle.
    fn note_parser(&self, cx: &Context<'_>) {
        let mut parser = lock(&self.parser);
        if !parser.as_ref().is_some_and(|noted| noted.will_wake(cx.waker())) {
            *parser = Some(cx.waker().clone());
        }
    }

    /// The end, for the parser: once the request is answered.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.note_parser(cx);
        let answering = self.phase.load(Ordering::Acquire) == BUSY;
        if answering { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

/// Whoever panicked while it held one of these locks left a whole value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.phase.store(IDLE, Ordering::Release);
        if let Some(parser) = lock(&self.0.parser).take() {
            parser.wake();
        }
    }
}

/// A socket whose every wait has an end.
pub struct Paced<S> {
    socket: S,
    connection: Arc<Connection>,
    limits: Limits,
    reading: Deadline,
    writing: Deadline,
    flushing: Deadline,
    /// What is said in place of the parser's own words, as far as it is not written yet.
    instead: Vec<u8>,
}

/// A moment after which a wait is over; none until it begins.
#[derive(Default)]
struct Deadline {
    phase: u8,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Whether the moment has come; a new phase begins anew.
    fn has_come(&mut self, phase: u8, after: Duration, cx: &mut Context<'_>) -> bool {
        if self.phase != phase {
            self.sleep = None;
            self.phase = phase;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(after)));
        sleep.as_mut().poll(cx).is_ready()
    }

    fn clear(&mut self) {
        self.sleep = None;
    }
}

impl<S> Paced<S> {
    /// Guards a socket.
    pub fn new(socket: S, connection: Arc<Connection>, limits: Limits) -> Self {
        let (reading, writing, flushing) = Default::default();
        Self { socket, connection, limits, reading, writing, flushing, instead: vec![] }
    }

    /// The socket itself.
    pub fn into_inner(self) -> S {
        self.socket
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        match self.connection.phase.load(Ordering::Acquire) {
            BUSY => {
                self.reading.clear();
                self.connection.note_parser(cx);
                false
            }
            READING => self.reading.has_come(READING, self.limits.head, cx),
            _ => self.reading.has_come(IDLE, self.limits.idle, cx),
        }
    }

    /// What became of a write, unless the socket has taken in nothing for too long.
    fn wrote<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.writing.clear();
        } else if self.writing.has_come(BUSY, self.limits.write, cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        wrote
    }

    /// What the parser is told of bytes that do not go out as they are.
    fn swallowed(&mut self, first: &[u8]) -> bool {
        if self.connection.is_taken() {
            return true;
        }
        let Some(instead) = misread::instead_of(first) else { return false };
        self.instead = instead.into_bytes();
        true
    }
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    /// Writes what stands in place of the parser's words, and sees everything on its way.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let count = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.instead))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.drain(..count);
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.connection.ended.load(Ordering::Acquire) {
            return self.connection.poll_end(cx);
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            let phase = &self.connection.phase;
            // Bytes of a body come while the request is answered, and change nothing.
            let _ = phase.compare_exchange(IDLE, READING, Ordering::AcqRel, Ordering::Acquire);
        } else if buf.remaining() > 0 {
            self.connection.end();
            return self.connection.poll_end(cx);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.swallowed(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.wrote(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.swallowed(parts.first().map_or(&[], |part| part)) {
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.wrote(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (flushed, patience) = (self.flush(cx), self.limits.write);
        if flushed.is_ready() {
            self.flushing.clear();
        } else if self.flushing.has_come(BUSY, patience, cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
