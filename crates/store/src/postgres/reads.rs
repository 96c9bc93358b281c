//! Reading: one transaction that sees one moment, under a role that sees one tenant. Everything
//! that it needs is said inside the transaction, so that it works through any pooler.

use baton_domain::ids::{LineId, PrincipalId, TaskId, TenantId};
use baton_domain::time::Timestamp;
use tokio_postgres::Row;

use super::Shared;
use super::connections::{Connections, Lent};
use super::load::hash;
use super::pen::COMMIT;
use super::records::find_tenant;
use super::trouble::Trouble;
use super::wire::{Flush, Param, params};
use crate::Error;
use crate::read::{
    About, Cursor, Entry, Happened, List, Page, SCAN_MAX, Told, begin, mark_of, page_size, versions,
};
use crate::rows::{int, nat, parse};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Whoever reads for a tenant sees nobody else's rows, whatever is asked.
const AS_TENANT: &str = "SELECT set_config('role', $2, true),
    set_config('baton.tenant', $1, true), set_config('statement_timeout', '30s', true),
    set_config('idle_in_transaction_session_timeout', '30s', true)";
/// What belongs to nobody in particular: tenants, keys by their ids, figures.
const AS_STORE: &str = "SELECT set_config('statement_timeout', '30s', true),
    set_config('idle_in_transaction_session_timeout', '30s', true)";
const TENANT: &str = "SELECT floor, position FROM tenants WHERE id = $1";
const ENTRIES: &str = "SELECT position, task, version, at, actor, payload FROM events
    WHERE tenant = $1 AND position > $2 ORDER BY position LIMIT $3";
const ENTRIES_OF: &str = "SELECT position, task, version, at, actor, payload FROM events
    WHERE tenant = $1 AND task = $2 AND version >= $3 ORDER BY version LIMIT $4";
const ENTRIES_AT: &str = "SELECT position, task, version, at, actor, payload FROM events
    WHERE tenant = $1 AND task = $2 AND version = ANY($3::int8[]) ORDER BY version";
const RECEIPTS: &str = "SELECT position, task, version, at, actor, payload FROM events
    WHERE tenant = $1 AND task = $2 AND version < $3 AND position($4::bytea IN payload) > 0
    ORDER BY version DESC LIMIT $5";
const ASKED: &str = "SELECT fingerprint, current_setting('synchronous_standby_names') <> ''
    FROM requests
    WHERE tenant = $1 AND principal = $2 AND key = $3";

/// Entries with the mark of a line that are fetched at once; the first of them is the right one, as far
/// as marks go.
const RECEIPTS_AT_ONCE: i64 = 4;

/// One moment of the store.
pub(super) struct Reading<'a> {
    lent: Lent<'a>,
    /// Whose rows are seen; nobody's, of a tenant that nobody knows.
    pub(super) tenant: i64,
    pub(super) floor: u64,
    /// The last position.
    pub(super) head: u64,
}

impl Shared {
    /// Begins to read for a tenant. A connection that died while nobody used it is replaced.
    pub(super) async fn read_for(&self, name: &TenantId) -> Result<Reading<'_>, Error> {
        let tenant = match self.known_tenant(name) {
            Some(tenant) => tenant,
            None => self.look_up(name).await?.unwrap_or(0),
        };
        let mut flush = Flush::default();
        flush.add(BEGIN, vec![]);
        flush.add(AS_TENANT, params![tenant.to_string(), self.reader.name.clone()]);
        let at = flush.add(TENANT, params![tenant]);
        let (lent, rows) = self.begin_reading(flush, at).await?;
        let place = rows.first().map(|row| (nat(row.get(0)), nat(row.get(1))));
        let (floor, head) = place.unwrap_or_default();
        Ok(Reading { lent, tenant, floor, head })
    }

    /// Begins to read what belongs to nobody in particular.
    pub(super) async fn read(&self) -> Result<Reading<'_>, Error> {
        let mut flush = Flush::default();
        flush.add(BEGIN, vec![]);
        let at = flush.add(AS_STORE, vec![]);
        let (lent, _) = self.begin_reading(flush, at).await?;
        Ok(Reading { lent, tenant: 0, floor: 0, head: 0 })
    }

    async fn begin_reading(&self, flush: Flush, at: usize) -> Result<(Lent<'_>, Vec<Row>), Error> {
        let mut lent = self.readers.get().await.map_err(Trouble::read)?;
        lent.begun();
        match lent.send_kept(&flush).await {
            Ok(mut answers) => Ok((lent, answers.rows(at))),
            Err(Trouble::Lost(_)) => {
                drop(lent);
                let mut lent = self.readers.get().await.map_err(Trouble::read)?;
                lent.begun();
                let mut answers = lent.send_kept(&flush).await.map_err(Trouble::read)?;
                Ok((lent, answers.rows(at)))
            }
            Err(trouble) => Err(trouble.read()),
        }
    }

    async fn look_up(&self, name: &TenantId) -> Result<Option<i64>, Error> {
        let mut lent = self.readers.get().await.map_err(Trouble::read)?;
        let found = match find_tenant(&mut lent, name).await {
            Err(Trouble::Lost(_)) => {
                drop(lent);
                let mut lent = self.readers.get().await.map_err(Trouble::read)?;
                find_tenant(&mut lent, name).await
            }
            found => found,
        };
        let found = found.map_err(Trouble::read)?;
        if let Some(tenant) = found {
            self.know_tenant(name, tenant);
        }
        Ok(found)
    }
}

impl<'a> Reading<'a> {
    /// One moment of a database that no store is open in.
    pub(super) async fn alone(connections: &'a Connections) -> Result<Self, Trouble> {
        let mut lent = connections.get().await?;
        lent.begun();
        lent.query(BEGIN, vec![]).await?;
        Ok(Self { lent, tenant: 0, floor: 0, head: 0 })
    }
}

impl Reading<'_> {
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, Error> {
        self.lent.query(sql, params).await.map_err(Trouble::read)
    }

    /// Ends the moment. What was read stands whether or not this arrives.
    pub(super) async fn end(mut self) {
        if self.lent.query(COMMIT, vec![]).await.is_ok() {
            self.lent.done();
        }
    }
}

fn entry_row(row: &Row) -> Result<Entry, Trouble> {
    let (task, version) = (nat(row.get(1)), nat(row.get(2)));
    let payload: Option<&[u8]> = row.get(5);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let happened = match payload {
        None => Happened::Erased,
        Some(bytes) if task == 0 => serde_json::from_slice(bytes)
            .map_or_else(|_| Happened::Unknown(text(bytes)), Happened::ToRecord),
        Some(bytes) => serde_json::from_slice(bytes)
            .map_or_else(|_| Happened::Unknown(text(bytes)), Happened::ToTask),
    };
    let about =
        if task == 0 { About::Records(version) } else { About::Task(TaskId(task), version) };
    Ok(Entry {
        position: nat(row.get(0)),
        at: Timestamp(row.get(3)),
        actor: parse(row.get(4))?,
        about,
        happened,
    })
}

pub(super) async fn entries(
    reading: &mut Reading<'_>,
    after: Cursor,
    count_max: usize,
    incarnation: u64,
) -> Result<Page<Entry>, Error> {
    let after = begin(after, incarnation, (reading.floor, reading.head))?;
    let count_max = page_size(count_max);
    let wanted = params![reading.tenant, int(after), int(count_max as u64 + 1)];
    let rows = reading.query(ENTRIES, wanted).await?;
    let rows: Result<Vec<_>, _> = rows.iter().map(entry_row).collect();
    let mut rows = rows.map_err(Trouble::read)?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    let last = rows.last().filter(|_| more).map(|last| last.position);
    Ok(Page { rows, more, as_of: last.unwrap_or(reading.head) })
}

pub(super) async fn entries_of(
    reading: &mut Reading<'_>,
    id: TaskId,
    from_version: u64,
    count_max: usize,
) -> Result<List<Entry, u64>, Error> {
    let bound = page_size(count_max).min(SCAN_MAX) + 1;
    let wanted = params![reading.tenant, int(id.0), int(from_version), int(bound as u64)];
    let rows = reading.query(ENTRIES_OF, wanted).await?;
    let next = |entry: &Entry| match entry.about {
        About::Task(_, version) | About::Records(version) => version + 1,
    };
    // Task 0 stands for the records, which are no task.
    let rows = rows.iter().filter(|_| id.0 != 0).map(entry_row);
    List::fill(rows, next, |_| true, count_max, reading.head).map_err(Trouble::read)
}

pub(super) async fn entries_at(
    reading: &mut Reading<'_>,
    id: TaskId,
    wanted: Vec<u64>,
) -> Result<Told<Vec<Entry>>, Error> {
    // Task 0 stands for the records, which are no task.
    let wanted = versions(wanted).into_iter().filter(|_| id.0 != 0).map(int);
    let wanted: Vec<i64> = wanted.collect();
    let rows = reading.query(ENTRIES_AT, params![reading.tenant, int(id.0), wanted]).await?;
    let what: Result<Vec<_>, _> = rows.iter().map(entry_row).collect();
    Ok(Told { what: what.map_err(Trouble::read)?, as_of: reading.head })
}

pub(super) async fn receipt(
    reading: &mut Reading<'_>,
    id: TaskId,
    line: &LineId,
) -> Result<Told<Option<Entry>>, Error> {
    // Task 0 stands for the records, which are no task.
    let mut before = if id.0 == 0 { 0 } else { i64::MAX };
    let (mark, mut what) = (mark_of(line).into_bytes(), None);
    // Each turn goes further back, so there is a last one.
    while before > 0 && what.is_none() {
        let wanted = params![reading.tenant, int(id.0), before, mark.clone(), RECEIPTS_AT_ONCE];
        let rows = reading.query(RECEIPTS, wanted).await?;
        let entries: Result<Vec<_>, _> = rows.iter().map(entry_row).collect();
        what = entries.map_err(Trouble::read)?.into_iter().find(|entry| entry.checks(line));
        before = rows.last().map_or(0, |last| last.get(2));
    }
    Ok(Told { what, as_of: reading.head })
}

/// What a request under this key was for, and whether commits wait for a standby.
pub(super) async fn asked_before(
    reading: &mut Reading<'_>,
    principal: &PrincipalId,
    key: &str,
) -> Result<Option<([u8; 32], bool)>, Error> {
    let wanted = params![reading.tenant, principal.as_str().to_owned(), key.to_owned()];
    let rows = reading.query(ASKED, wanted).await?;
    let found = rows.first().map(|row| Ok((hash(row.get(0))?, row.get(1))));
    found.transpose().map_err(Trouble::read)
}
