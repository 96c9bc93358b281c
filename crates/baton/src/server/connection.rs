//! One connection: how long it may take over what it is doing, and who has it.
//!
//! A request passes through three phases. While nothing has come, the connection is idle; from the
//! first byte of a head to its last it is reading; then it is busy until the answer is gone.
//! Idle and reading have deadlines of their own, which no dribble of bytes moves.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::limits::Limits;
use super::stream::Reader;

const IDLE: u8 = 0;
const READING: u8 = 1;
const BUSY: u8 = 2;

/// What the parts of a connection know of each other.
#[derive(Default)]
pub struct Connection {
    phase: AtomicU8,
    /// Whether the socket is for a reader of events: what the parser says is dropped.
    taken: AtomicBool,
    reader: Mutex<Option<Box<Reader>>>,
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

    /// Gives the socket to a reader of events, once the parser is done with it.
    pub fn hand_over(&self, reader: Reader) {
        self.taken.store(true, Ordering::Release);
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(reader));
    }

    /// Who the socket was given to, if to anybody.
    pub fn take_reader(&self) -> Option<Box<Reader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.phase.store(IDLE, Ordering::Release);
    }
}

/// A socket whose every wait has an end.
pub struct Paced<S> {
    socket: S,
    connection: Arc<Connection>,
    limits: Limits,
    reading: Deadline,
    writing: Deadline,
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
        let (reading, writing) = (Deadline::default(), Deadline::default());
        Self { socket, connection, limits, reading, writing }
    }

    /// The socket itself.
    pub fn into_inner(self) -> S {
        self.socket
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        match self.connection.phase.load(Ordering::Acquire) {
            BUSY => {
                self.reading.clear();
                false
            }
            READING => self.reading.has_come(READING, self.limits.head, cx),
            _ => self.reading.has_come(IDLE, self.limits.idle, cx),
        }
    }

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
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            let phase = &self.connection.phase;
            // Bytes of a body come while the request is answered, and change nothing.
            let _ = phase.compare_exchange(IDLE, READING, Ordering::AcqRel, Ordering::Acquire);
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
        if self.connection.is_taken() {
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
        if self.connection.is_taken() {
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.wrote(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
