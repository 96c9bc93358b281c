//! A bounded number of connections. One that was left in the middle of something is thrown away:
//! the database undoes what it was at.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Connection};

use super::READ_WITHIN;
use super::address::Address;
use super::trouble::{Trouble, deepest};
use super::wire::{Conn, Driver};

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Callers that may wait for a connection; beyond this they are told to come back.
const WAITING_MAX: usize = 1_024;

/// Connections that are lent out one by one.
pub(super) struct Connections {
    address: Address,
    /// Where connections are driven: whoever asks may be on another runtime, and gone sooner.
    home: Handle,
    idle: Mutex<Vec<Conn>>,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// How long a flush may take.
    within: Duration,
}

/// A connection for as long as it is needed.
pub(super) struct Lent<'a> {
    from: &'a Connections,
    conn: Option<Conn>,
    /// Whether it may be lent again: not in the middle of a transaction.
    clean: bool,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(address: Address, count_max: usize) -> Self {
        let (permits, home) = (Arc::new(Semaphore::new(count_max)), Handle::current());
        let (idle, waiting) = (Mutex::default(), AtomicUsize::new(0));
        Self { address, home, idle, permits, waiting, within: READ_WITHIN }
    }

    /// The same with another bound for each flush.
    pub(super) fn bounded(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Lends a connection, a new one if none is idle.
    pub(super) async fn get(&self) -> Result<Lent<'_>, Trouble> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Trouble::Busy("too many wait for a connection".into()));
        }
        let waits = Waits(&self.waiting);
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        drop(waits);
        let permit = permit.map_err(|_| Trouble::Lost("the store is closed".into()))?;
        let conn = loop {
            let idle = self.lock().pop();
            match idle {
                Some(conn) if conn.client.is_closed() => {}
                Some(conn) => break conn,
                None => break self.connect().await?.bounded(self.within),
            }
        };
        Ok(Lent { from: self, conn: Some(conn), clean: true, _permit: permit })
    }

    async fn connect(&self) -> Result<Conn, Trouble> {
        let address = self.address.clone();
        let connecting = self.home.spawn(async move { connect(&address).await });
        connecting.await.unwrap_or_else(|_| Err(Trouble::Lost("the store is closed".into())))
    }

    /// Lends nothing more.
    pub(super) fn close(&self) {
        self.permits.close();
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for a connection, and may give up.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lent<'_> {
    /// From here on it is in the middle of something.
    pub(super) fn begun(&mut self) {
        self.clean = false;
    }

    /// It is not any more.
    pub(super) fn done(&mut self) {
        self.clean = true;
    }
}

impl Deref for Lent<'_> {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.conn.as_ref().expect("it is given back only at the end")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("it is given back only at the end")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let conn = self.conn.take().filter(|conn| self.clean && !conn.client.is_closed());
        if let Some(conn) = conn
            && !self.from.permits.is_closed()
        {
            self.from.lock().push(conn);
        }
    }
}

/// Makes a connection and drives it for as long as it lives.
pub(super) async fn connect(address: &Address) -> Result<Conn, Trouble> {
    let connecting = tokio::time::timeout(CONNECT_WITHIN, address.connect());
    let Ok(connected) = connecting.await else {
        return Err(Trouble::Lost("no answer within five seconds".into()));
    };
    let (client, connection) = connected?;
    Ok(Conn::new(client, address.pooled, drive(connection)))
}

/// Carries bytes for a connection until it ends, and listens for warnings. The one that matters is
/// that a commit no longer waits for a standby: what was committed is then on one disk alone.
fn drive<S, T>(mut connection: Connection<S, T>) -> Driver
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let warned = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&warned);
    let driven = tokio::spawn(async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                Ok(AsyncMessage::Notice(notice)) if *notice.code() == SqlState::WARNING => {
                    tracing::warn!(warning = notice.message(), "the database warns");
                    flag.store(true, Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error = deepest(&error), "a connection to the database ended");
                    return;
                }
            }
        }
    });
    Driver { task: driven.abort_handle(), warned }
}
