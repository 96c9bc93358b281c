//! Readers: a few threads with connections of their own. They see what is committed and never
//! wait for the writer.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use baton_domain::ids::{LineId, TaskId, TenantId};
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::oneshot;

use super::pen::{int, nat, parse};
use crate::read::{
    About, Cursor, Entry, Happened, List, Page, Told, begin, mark_of, page_size, versions,
};
use crate::{Answer, Error};

/// Reads that may wait for a reader.
const WAITING_MAX: usize = 1_024;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The threads that read.
pub(super) struct Readers {
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts one thread for each connection.
    pub(super) fn start(connections: Vec<Connection>) -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let thread = |(at, conn): (usize, Connection)| {
            let waiting = Arc::clone(&waiting);
            let named = std::thread::Builder::new().name(format!("baton-read-{at}"));
            named.spawn(move || {
                while let Some(job) = next(&waiting) {
                    job(&conn)
                }
            })
        };
        let threads: std::io::Result<_> = connections.into_iter().enumerate().map(thread).collect();
        Ok(Self { jobs: Some(jobs), threads: threads? })
    }

    /// Has one of the threads read something, from one moment of the database.
    pub(super) fn read<'a, T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'a, T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |conn| {
            let read = at_one_moment(conn, query);
            drop(reply.send(read));
        });
        let sent = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        Box::pin(async move {
            match sent {
                Some(Ok(())) => {}
                Some(Err(TrySendError::Full(_))) => return Err(Error::Overloaded),
                Some(Err(TrySendError::Disconnected(_))) | None => {
                    return Err(Error::Stopped("the readers are gone".into()));
                }
            }
            answer.await.unwrap_or_else(|_| Err(Error::Stopped("the reader is gone".into())))
        })
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn next(waiting: &Mutex<Receiver<Job>>) -> Option<Job> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn at_one_moment<T>(
    conn: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let snapshot = conn.unchecked_transaction()?;
    let read = query(&snapshot);
    snapshot.finish()?;
    read
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(error.to_string())
    }
}

/// A tenant as readers find it; one that nobody knows has no rows.
#[derive(Default)]
pub(super) struct Tenancy {
    pub(super) key: i64,
    /// Positions up to here are no longer kept.
    pub(super) floor: u64,
    /// The last position.
    pub(super) head: u64,
}

/// The tenant of this name.
pub(super) fn tenant(conn: &Connection, name: &TenantId) -> rusqlite::Result<Tenancy> {
    let sql = "SELECT id, floor,
                      coalesce((SELECT max(position) FROM events WHERE tenant = t.id), floor)
               FROM tenants t WHERE name = ?1";
    let found = conn
        .prepare_cached(sql)?
        .query_row([name.as_str()], |row| {
            Ok(Tenancy { key: row.get(0)?, floor: nat(row.get(1)?), head: nat(row.get(2)?) })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

const ENTRY_COLUMNS: &str = "position, task, version, at, actor, payload";

fn entry_row(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let (task, version) = (nat(row.get(1)?), nat(row.get(2)?));
    let payload: Option<String> = row.get(5)?;
    let happened = match &payload {
        None => Happened::Erased,
        Some(text) if task == 0 => serde_json::from_str(text)
            .map_or_else(|_| Happened::Unknown(text.clone()), Happened::ToRecord),
        Some(text) => serde_json::from_str(text)
            .map_or_else(|_| Happened::Unknown(text.clone()), Happened::ToTask),
    };
    let about =
        if task == 0 { About::Records(version) } else { About::Task(TaskId(task), version) };
    Ok(Entry {
        position: nat(row.get(0)?),
        at: Timestamp(row.get(3)?),
        actor: parse(row.get_ref(4)?.as_str()?)?,
        about,
        happened,
    })
}

pub(super) fn entries(
    conn: &Connection,
    tenant_name: &TenantId,
    after: Cursor,
    count_max: usize,
    incarnation: u64,
) -> Result<Page<Entry>, Error> {
    let own = tenant(conn, tenant_name)?;
    let after = begin(after, incarnation, (own.floor, own.head))?;
    let count_max = page_size(count_max);
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events WHERE tenant = ?1 AND position > ?2
         ORDER BY position LIMIT ?3"
    );
    let mut found = conn.prepare_cached(&sql)?;
    let rows =
        found.query_map(params![own.key, int(after), int(count_max as u64 + 1)], entry_row)?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    let last = rows.last().filter(|_| more).map(|last| last.position);
    Ok(Page { rows, more, as_of: last.unwrap_or(own.head) })
}

pub(super) fn entries_of(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    from_version: u64,
    count_max: usize,
) -> Result<List<Entry, u64>, Error> {
    let own = tenant(conn, tenant_name)?;
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events WHERE tenant = ?1 AND task = ?2 AND version >= ?3
         ORDER BY version"
    );
    let mut found = conn.prepare_cached(&sql)?;
    let rows = found.query_map(params![own.key, int(id.0), int(from_version)], entry_row)?;
    let next = |entry: &Entry| match entry.about {
        About::Task(_, version) | About::Records(version) => version + 1,
    };
    // Task 0 stands for the records, which are no task.
    let rows = rows.filter(|_| id.0 != 0);
    Ok(List::fill(rows, next, |_| true, count_max, own.head)?)
}

pub(super) fn entries_at(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    wanted: Vec<u64>,
) -> Result<Told<Vec<Entry>>, Error> {
    let own = tenant(conn, tenant_name)?;
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events WHERE tenant = ?1 AND task = ?2 AND version = ?3"
    );
    let mut found = conn.prepare_cached(&sql)?;
    let mut rows = vec![];
    for version in versions(wanted).into_iter().filter(|_| id.0 != 0) {
        let key = params![own.key, int(id.0), int(version)];
        rows.extend(found.query_row(key, entry_row).optional()?);
    }
    Ok(Told { what: rows, as_of: own.head })
}

pub(super) fn receipt(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    line: &LineId,
) -> Result<Told<Option<Entry>>, Error> {
    let own = tenant(conn, tenant_name)?;
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events
         WHERE tenant = ?1 AND task = ?2 AND instr(payload, ?3) > 0 ORDER BY version DESC"
    );
    let mut found = conn.prepare_cached(&sql)?;
    let mut rows = found.query_map(params![own.key, int(id.0), mark_of(line)], entry_row)?;
    let is_meant =
        |row: &rusqlite::Result<Entry>| row.as_ref().map_or(true, |row| row.checks(line));
    // Task 0 stands for the records, which are no task.
    let what = rows.find(is_meant).filter(|_| id.0 != 0).transpose()?;
    Ok(Told { what, as_of: own.head })
}
