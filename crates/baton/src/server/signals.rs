//! What a server is told from outside while it runs: by signals, and by the end of its input.

use std::future::pending;
use std::io;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::start::{Error, Wish};
use super::tls::Tls;

/// What a server is told while it runs.
enum Word {
    Stop,
    ReadAgain,
}

/// The ways of being told.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    stdin: Option<oneshot::Receiver<()>>,
    reads_again: bool,
}

impl Signals {
    /// Begins to listen.
    pub fn listen(wish: &Wish) -> Result<Self, Error> {
        let one = |kind| signal(kind).map_err(Error::Signals);
        Ok(Self {
            terminate: one(SignalKind::terminate())?,
            interrupt: one(SignalKind::interrupt())?,
            hang_up: one(SignalKind::hangup())?,
            stdin: wish.with_stdin.then(end_of_stdin).transpose().map_err(Error::Signals)?,
            reads_again: wish.tls.is_some(),
        })
    }

    /// The next one. A terminal that goes away means a server in it to stop, in order; but one with
    /// a certificate is told by the same signal that there is a new one.
    async fn next(&mut self) -> Word {
        let stdin = async {
            match &mut self.stdin {
                // Whether it was told or dropped, there is no more to come.
                Some(end) => drop(end.await),
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Word::Stop,
            _ = self.interrupt.recv() => Word::Stop,
            () = stdin => {
                self.stdin = None;
                Word::Stop
            }
            _ = self.hang_up.recv() => if self.reads_again { Word::ReadAgain } else { Word::Stop },
        }
    }

    /// Waits for the word to stop, and reads the certificate again as often as it is told to.
    pub async fn stop(&mut self, tls: Option<&Tls>) {
        while let Word::ReadAgain = self.next().await {
            match tls.map_or(Ok(()), Tls::read_again) {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => {
                    tracing::error!(%error, "the certificate was not read again");
                    eprintln!("baton: {error}; the last certificate is still used");
                }
            }
        }
    }
}

/// Told when standard input ends. A thread of its own reads it: a read that nobody can take back
/// would keep the runtime from ending.
fn end_of_stdin() -> io::Result<oneshot::Receiver<()>> {
    let (tell, end) = oneshot::channel();
    let read = move || {
        drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
        // Whoever listened may be gone: then nobody needs to know.
        let _unheard = tell.send(());
    };
    thread::Builder::new().name("stdin".into()).spawn(read)?;
    Ok(end)
}
