//! Copies the write-ahead log back into the database, on a thread of its own. SQLite's automatic
//! checkpoint would do it inside a commit and swallow its errors; here they end the store. A full
//! disk does not: what could not be copied stays in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};

use crate::Clock;
use crate::gauges::Gauges;

/// Rows written between two checkpoints, unless told otherwise.
pub(super) const ROWS_BETWEEN: usize = 20_000;
/// Pages of the log beyond which the writer itself copies the rest, so that the log starts over.
const PAGES_MAX: i64 = 16_384;

/// The writer's side of the checkpoint thread.
pub(super) struct Checkpointer {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    rows: usize,
    rows_between: usize,
}

/// What the thread tells.
pub(super) struct Shared {
    pub(super) at: AtomicI64,
    log_pages: AtomicI64,
    failed: AtomicBool,
    /// There was no room to copy into; the log keeps everything until there is.
    full: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let at = AtomicI64::new(clock.now().0);
        let (log_pages, failed) = (AtomicI64::new(0), AtomicBool::new(false));
        Arc::new(Self { at, log_pages, failed, full: AtomicBool::new(false), clock })
    }
}

impl Checkpointer {
    /// Starts the thread with a connection of its own.
    pub(super) fn start(
        conn: Connection,
        shared: Arc<Shared>,
        gauges: Arc<Gauges>,
        rows_between: usize,
    ) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel::<()>(1);
        let told = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("baton-checkpoint".into()).spawn(move || {
                while woken.recv().is_ok() {
                    if let Err(error) = copy(&conn, "PASSIVE", &told) {
                        tracing::error!(%error, "the checkpoint failed");
                        gauges.stop(&format!("the checkpoint failed: {error}"));
                        told.failed.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            })?;
        Ok(Self { wake: Some(wake), thread: Some(thread), shared, rows: 0, rows_between })
    }

    /// After a commit: wakes the thread now and then, and copies the rest if the log grew long.
    pub(super) fn written(
        &mut self,
        rows: usize,
        conn: &Connection,
        gauges: &Gauges,
    ) -> Result<(), String> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(gauges.stopped().unwrap_or_default());
        }
        self.rows += rows;
        if self.rows < self.rows_between {
            return Ok(());
        }
        self.rows = 0;
        if let Some(wake) = &self.wake {
            match wake.try_send(()) {
                Ok(()) | Err(TrySendError::Full(())) => {}
                Err(TrySendError::Disconnected(())) => return Err("no checkpoint thread".into()),
            }
        }
        if self.shared.log_pages.swap(0, Ordering::Relaxed) > PAGES_MAX {
            return copy(conn, "PASSIVE", &self.shared).map_err(|error| error.to_string());
        }
        Ok(())
    }

    /// Whether a checkpoint met a full disk since this was last asked.
    pub(super) fn met_full_disk(&self) -> bool {
        self.shared.full.swap(false, Ordering::Relaxed)
    }

    /// At a clean end: no log is left behind.
    pub(super) fn finish(&mut self, conn: &Connection, gauges: &Gauges) {
        self.stop();
        if let Err(error) = copy(conn, "TRUNCATE", &self.shared) {
            gauges.stop(&format!("the last checkpoint failed: {error}"));
        }
    }
}

impl Checkpointer {
    fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Checkpointer {
    /// A store that fails to open must leave no connection behind that closes later, beside the next.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Copies what the log holds back into the database.
pub(super) fn copy(conn: &Connection, mode: &str, shared: &Shared) -> rusqlite::Result<()> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let pages: i64 = match conn.query_row(&sql, [], |row| row.get(1)) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            shared.full.store(true, Ordering::Relaxed);
            return Ok(());
        }
        answer => answer?,
    };
    shared.log_pages.store(pages, Ordering::Relaxed);
    shared.at.store(shared.clock.now().0, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests;
