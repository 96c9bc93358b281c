//! Readers: a few threads with connections of their own. They see what is committed and never
//! wait for the writer.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use baton_domain::history::{AttemptRecord, CheckpointRecord, Past, RunRecord};
use baton_domain::ids::{PrincipalId, TaskId, TenantId};
use baton_domain::project::Project;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::oneshot;

use super::pen::{int, nat, parse};
use crate::read::{
    About, Cursor, Entry, Filter, Happened, LeaseRow, PAGE_MAX, Page, PoolRow, TaskRow,
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

/// The key of a tenant, the floor of its entries, and its last position.
pub(super) fn tenant(
    conn: &Connection,
    name: &TenantId,
) -> rusqlite::Result<Option<(i64, u64, u64)>> {
    let sql = "SELECT id, floor,
                      coalesce((SELECT max(position) FROM events WHERE tenant = t.id), floor)
               FROM tenants t WHERE name = ?1";
    conn.prepare_cached(sql)?
        .query_row([name.as_str()], |row| Ok((row.get(0)?, nat(row.get(1)?), nat(row.get(2)?))))
        .optional()
}

const TASK_COLUMNS: &str = "f.body, b.body, l.attempt, l.holder, l.expires_at";
const TASK_JOINS: &str = "JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
     LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task";

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let flow: Flow = parse(row.get_ref(0)?.as_str()?)?;
    let attempt: Option<u32> = row.get(2)?;
    let lease = match attempt {
        None => None,
        Some(attempt) => {
            let holder: String = row.get(3)?;
            let holder = PrincipalId::new(&holder).map_err(|_| rusqlite::Error::InvalidQuery)?;
            Some(LeaseRow { attempt, holder, expires_at: Timestamp(row.get(4)?) })
        }
    };
    Ok(TaskRow { flow: Arc::new(flow), brief: parse(row.get_ref(1)?.as_str()?)?, lease })
}

pub(super) fn task(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
) -> Result<Option<TaskRow>, Error> {
    let Some((key, _, _)) = tenant(conn, tenant_name)? else { return Ok(None) };
    for table in ["flows", "ended"] {
        let sql = format!(
            "SELECT {TASK_COLUMNS} FROM {table} f {TASK_JOINS} WHERE f.tenant = ?1 AND f.task = ?2"
        );
        let mut found = conn.prepare_cached(&sql)?;
        let row = found.query_row(params![key, int(id.0)], task_row).optional()?;
        if row.is_some() {
            return Ok(row);
        }
    }
    Ok(None)
}

pub(super) fn tasks(
    conn: &Connection,
    tenant_name: &TenantId,
    filter: &Filter,
) -> Result<Page<TaskRow>, Error> {
    let Some((key, _, as_of)) = tenant(conn, tenant_name)? else {
        return Ok(Page { rows: vec![], more: false, as_of: 0 });
    };
    let live = "SELECT tenant, task, stage, body FROM flows";
    let source = if filter.ended {
        format!("({live} UNION ALL SELECT tenant, task, 'ended', body FROM ended)")
    } else {
        "flows".into()
    };
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM {source} f {TASK_JOINS}
         WHERE f.tenant = ?1 AND f.task > ?2
           AND (?3 IS NULL OR b.project = ?3) AND (?4 IS NULL OR f.stage = ?4)
           AND (?5 IS NULL OR b.parent = ?5)
         ORDER BY f.task LIMIT ?6"
    );
    let count_max = filter.count_max.clamp(1, PAGE_MAX);
    let mut found = conn.prepare_cached(&sql)?;
    let rows = found.query_map(
        params![
            key,
            filter.after.map_or(0, |task| int(task.0)),
            filter.project.as_ref().map(|project| project.as_str().to_owned()),
            filter.stage.as_ref().map(|stage| stage.as_str().to_owned()),
            filter.parent.map(|parent| int(parent.0)),
            int(count_max as u64 + 1),
        ],
        task_row,
    )?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    Ok(Page { rows, more, as_of })
}

pub(super) fn history(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
) -> Result<Vec<Past>, Error> {
    let Some((key, _, _)) = tenant(conn, tenant_name)? else { return Ok(vec![]) };
    // What came with one entry came in this order.
    let sql = "SELECT version, 1 AS sort, body FROM checkpoints WHERE tenant = ?1 AND task = ?2
               UNION ALL SELECT version, 2, body FROM attempts WHERE tenant = ?1 AND task = ?2
               UNION ALL SELECT version, 3, body FROM runs WHERE tenant = ?1 AND task = ?2
               ORDER BY version, sort LIMIT ?3";
    let mut found = conn.prepare_cached(sql)?;
    let rows = found.query_map(params![key, int(id.0), int(PAGE_MAX as u64)], |row| {
        let body = row.get_ref(2)?.as_str()?;
        Ok(match row.get::<_, i64>(1)? {
            1 => Past::Checkpoint(parse::<CheckpointRecord>(body)?),
            2 => Past::Attempt(parse::<AttemptRecord>(body)?),
            _ => Past::Run(parse::<RunRecord>(body)?),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
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
    let Some((key, floor, as_of)) = tenant(conn, tenant_name)? else {
        return Ok(Page { rows: vec![], more: false, as_of: 0 });
    };
    let foreign = after.incarnation != 0 && after.incarnation != incarnation;
    let lost = after.position != 0 && after.position < floor;
    if foreign || lost || after.position > as_of {
        return Err(Error::CursorExpired { floor });
    }
    let count_max = count_max.clamp(1, PAGE_MAX);
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events WHERE tenant = ?1 AND position > ?2
         ORDER BY position LIMIT ?3"
    );
    let mut found = conn.prepare_cached(&sql)?;
    let rows =
        found.query_map(params![key, int(after.position), int(count_max as u64 + 1)], entry_row)?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    let seen = rows.last().map_or(as_of, |last| last.position);
    let as_of = if more { seen } else { as_of };
    Ok(Page { rows, more, as_of })
}

pub(super) fn entries_of(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    from_version: u64,
    count_max: usize,
) -> Result<Vec<Entry>, Error> {
    let Some((key, _, _)) = tenant(conn, tenant_name)? else { return Ok(vec![]) };
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM events WHERE tenant = ?1 AND task = ?2 AND version >= ?3
         ORDER BY version LIMIT ?4"
    );
    let count_max = int(count_max.clamp(1, PAGE_MAX) as u64);
    let mut found = conn.prepare_cached(&sql)?;
    let rows = found.query_map(params![key, int(id.0), int(from_version), count_max], entry_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn projects(
    conn: &Connection,
    tenant_name: &TenantId,
) -> Result<Vec<Arc<Project>>, Error> {
    let Some((key, _, _)) = tenant(conn, tenant_name)? else { return Ok(vec![]) };
    let sql = "SELECT body FROM projects WHERE tenant = ?1 ORDER BY name";
    let mut found = conn.prepare_cached(sql)?;
    let rows = found.query_map([key], |row| Ok(Arc::new(parse(row.get_ref(0)?.as_str()?)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn pools(conn: &Connection, tenant_name: &TenantId) -> Result<Vec<PoolRow>, Error> {
    let Some((key, _, _)) = tenant(conn, tenant_name)? else { return Ok(vec![]) };
    let mut found = conn.prepare_cached("SELECT name, body FROM pools WHERE tenant = ?1")?;
    let rows = found.query_map([key], |row| {
        let name = parse(row.get_ref(0)?.as_str()?)?;
        Ok(PoolRow { name, pool: parse(row.get_ref(1)?.as_str()?)? })
    })?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rows)
}
