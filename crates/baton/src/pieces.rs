//! Bytes between readers that block and bodies that do not, in either direction: a few pieces at a
//! time, never the whole.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How much is read at once, and by how much whoever sends or takes bytes must get on in time: large
/// enough that a dribble is none, small enough that many at once are nothing.
pub const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait for whoever takes them.
const WAITING_MAX: usize = 2;

/// A body of known length. It ends only after its last byte: whatever interrupts it is an error, and
/// breaks its connection.
#[derive(Debug)]
pub struct Pieces {
    from: Receiver<io::Result<Bytes>>,
    left: u64,
}

/// A body of that many bytes, and what must run for it to be fed. The last piece is held back until
/// the reader has said that it was the last: one that finds at its end that the bytes are wrong is
/// heard in time. Whoever takes no piece for so long gets no more.
pub fn pour(
    reader: Box<dyn Read + Send>,
    size: u64,
    patience: Duration,
) -> (Pieces, impl Future<Output = io::Result<()>> + Send) {
    let (to, from) = mpsc::channel(WAITING_MAX);
    let pouring = async move {
        let (mut reader, mut held) = (reader, Bytes::new());
        loop {
            let (back, read) = spawn_blocking(|| read_piece(reader)).await?;
            reader = back;
            let next = match read {
                Ok(next) => next,
                Err(error) => {
                    give(&to, Err(error.kind().into()), patience).await?;
                    return Err(error);
                }
            };
            if !held.is_empty() {
                give(&to, Ok(held), patience).await?;
            }
            if next.is_empty() {
                return Ok(());
            }
            held = next;
        }
    };
    (Pieces { from, left: size }, pouring)
}

type Back = (Box<dyn Read + Send>, io::Result<Bytes>);

/// Reads until a piece is full or the reader has ended.
fn read_piece(mut reader: Box<dyn Read + Send>) -> Back {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let most = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
    let read = reader.by_ref().take(most).read_to_end(&mut piece);
    (reader, read.map(|_| Bytes::from(piece)))
}

async fn give(
    to: &Sender<io::Result<Bytes>>,
    piece: io::Result<Bytes>,
    patience: Duration,
) -> io::Result<()> {
    match timeout(patience, to.send(piece)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match ready!(self.from.poll_recv(cx)) {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None if self.left == 0 => return Poll::Ready(None),
            None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
        };
        self.left = self.left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A way for bytes that come bit by bit to a reader in a thread that may block.
#[must_use]
pub fn intake() -> (Giver, Taken) {
    let (to, from) = mpsc::channel(WAITING_MAX);
    (Giver(to), Taken { from, piece: Bytes::new(), ended: false })
}

/// Who gives bytes. If it goes without a word, the reader fails: half of the bytes are none.
#[derive(Debug)]
pub struct Giver(Sender<Option<Bytes>>);

/// What became of bytes that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// There was room for them.
    AtOnce,
    /// They had to wait for the reader.
    Later,
    /// Nobody reads any more.
    Refused,
}

impl Giver {
    /// Gives some bytes.
    pub async fn give(&self, piece: Bytes) -> Given {
        match self.0.try_send(Some(piece)) {
            Ok(()) => Given::AtOnce,
            Err(TrySendError::Closed(_)) => Given::Refused,
            Err(TrySendError::Full(piece)) => match self.0.send(piece).await {
                Ok(()) => Given::Later,
                Err(_) => Given::Refused,
            },
        }
    }

    /// Says that these were all.
    pub async fn end(self) {
        // A reader that has gone has said why itself.
        drop(self.0.send(None).await);
    }
}

/// What was given, for a thread that may block.
#[derive(Debug)]
pub struct Taken {
    from: Receiver<Option<Bytes>>,
    piece: Bytes,
    ended: bool,
}

impl Read for Taken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.from.blocking_recv() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.ended = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
