//! Runs, and the history of a task.

use baton_domain::history::{AttemptRecord, CheckpointRecord, Past, RunRecord};
use baton_domain::ids::{ProjectId, RunId, TaskId, TenantId};
use baton_domain::task::Flow;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde::de::DeserializeOwned;

use super::lists::{beginning, lease_row, merge};
use super::pen::{int, nat, parse};
use super::reads::tenant;
use crate::Error;
use crate::read::{HistoryKey, List, PastId, RunFilter, RunFull, RunNow, RunRow, SHOWN_MAX, Told};

const FINISHED: &str = "SELECT r.task, b.project, r.body FROM runs r
     JOIN briefs b ON b.tenant = r.tenant AND b.task = r.task WHERE r.tenant = :tenant";
const LIVE: &str = "SELECT f.body, l.attempt, l.holder, l.expires_at FROM flows f
     JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
     LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task WHERE f.tenant = :tenant";

fn finished_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let project: String = row.get(1)?;
    let run: RunRecord = parse(row.get_ref(2)?.as_str()?)?;
    Ok(RunRow {
        id: RunId { task: TaskId(nat(row.get(0)?)), number: run.number },
        project: ProjectId::new(&project).map_err(|_| rusqlite::Error::InvalidQuery)?,
        run: RunNow::Finished(Box::new(run)),
    })
}

/// The live run of a task; most tasks in the backlog have none.
fn live_row(row: &Row<'_>) -> rusqlite::Result<Option<RunRow>> {
    let flow: Flow = parse(row.get_ref(0)?.as_str()?)?;
    let Some(run) = flow.run else { return Ok(None) };
    let id = RunId { task: flow.id, number: run.number };
    let run = RunNow::Live(Box::new(run), lease_row(row, 1)?);
    Ok(Some(RunRow { id, project: flow.project, run }))
}

pub(super) fn runs(
    conn: &Connection,
    tenant_name: &TenantId,
    filter: &RunFilter,
) -> Result<List<RunRow, RunId>, Error> {
    let own = tenant(conn, tenant_name)?;
    let (after, order) = if filter.newest_first { ("<=", "DESC") } else { (">=", "ASC") };
    let among = |task: &str| {
        format!(
            " AND {task} {after} :after AND (:task IS NULL OR {task} = :task)
              AND (:project IS NULL OR b.project = :project) ORDER BY {task} {order}"
        )
    };
    let params = named_params! {
        ":tenant": own.key,
        ":after": filter.after.map_or(beginning(filter.newest_first), |run| int(run.task.0)),
        ":task": filter.task.map(|task| int(task.0)),
        ":project": filter.project.as_ref().map(ProjectId::as_str),
    };
    let sql = format!("{FINISHED}{}, r.number {order}", among("r.task"));
    let mut finished = conn.prepare_cached(&sql)?;
    let mut live = conn.prepare_cached(&format!("{LIVE}{}", among("f.task")))?;
    let finished = (filter.live != Some(true))
        .then(|| finished.query_map(params, finished_row))
        .transpose()?;
    let live =
        (filter.live != Some(false)).then(|| live.query_map(params, live_row)).transpose()?;
    let rows = merge(
        finished.into_iter().flatten(),
        live.into_iter().flatten().filter_map(Result::transpose),
        |row| row.id,
        filter.newest_first,
    )
    // A task may have runs on both sides of where the last page ended.
    .filter(|row| row.as_ref().map_or(true, |row| filter.finds(row)));
    Ok(List::fill(rows, |row| row.id, |row| filter.wants(row), filter.count_max, own.head)?)
}

pub(super) fn run(
    conn: &Connection,
    tenant_name: &TenantId,
    id: RunId,
) -> Result<Told<Option<RunFull>>, Error> {
    let own = tenant(conn, tenant_name)?;
    let sql = format!("{FINISHED} AND r.task = :task AND r.number = :number");
    let params =
        named_params! { ":tenant": own.key, ":task": int(id.task.0), ":number": id.number };
    let finished = conn.prepare_cached(&sql)?.query_row(params, finished_row).optional()?;
    let sql = format!("{LIVE} AND f.task = :task");
    let params = named_params! { ":tenant": own.key, ":task": int(id.task.0) };
    let live = conn.prepare_cached(&sql)?.query_row(params, live_row).optional()?.flatten();
    let Some(row) = finished.or(live.filter(|row| row.id == id)) else {
        return Ok(Told { what: None, as_of: own.head });
    };
    let (attempts, attempts_dropped) = last::<AttemptRecord>(conn, own.key, id, "attempts")?;
    let (checkpoints, checkpoints_dropped) =
        last::<CheckpointRecord>(conn, own.key, id, "checkpoints")?;
    let full = RunFull { row, attempts, attempts_dropped, checkpoints, checkpoints_dropped };
    Ok(Told { what: Some(full), as_of: own.head })
}

/// The last rows of a run in a table of history, oldest first, and how many there are besides.
fn last<T: DeserializeOwned>(
    conn: &Connection,
    tenant: i64,
    id: RunId,
    table: &str,
) -> rusqlite::Result<(Vec<T>, u64)> {
    let of_run = format!("FROM {table} WHERE tenant = ?1 AND task = ?2 AND run = ?3");
    let sql = format!("SELECT count(*) {of_run}");
    let params = params![tenant, int(id.task.0), id.number];
    let all = nat(conn.prepare_cached(&sql)?.query_row(params, |row| row.get(0))?);
    let sql = format!("SELECT body {of_run} ORDER BY number DESC LIMIT {SHOWN_MAX}");
    let mut found = conn.prepare_cached(&sql)?;
    let rows = found.query_map(params, |row| parse(row.get_ref(0)?.as_str()?))?;
    let mut rows: Vec<T> = rows.collect::<rusqlite::Result<_>>()?;
    rows.reverse();
    let dropped = all.saturating_sub(rows.len() as u64);
    Ok((rows, dropped))
}

pub(super) fn history(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    after: Option<HistoryKey>,
    count_max: usize,
) -> Result<List<Past, HistoryKey>, Error> {
    let own = tenant(conn, tenant_name)?;
    let table = |sort: u8, table: &str| {
        format!(
            "SELECT version, {sort} AS sort, number, body FROM {table}
             WHERE tenant = ?1 AND task = ?2 AND (version, {sort}, number) > (?3, ?4, ?5)"
        )
    };
    let sql = format!(
        "{} UNION ALL {} UNION ALL {} ORDER BY version, sort, number",
        table(1, "checkpoints"),
        table(2, "attempts"),
        table(3, "runs")
    );
    let after = after.unwrap_or(HistoryKey { version: 0, sort: 0, number: 0 });
    let mut found = conn.prepare_cached(&sql)?;
    let place = params![own.key, int(id.0), int(after.version), after.sort, after.number];
    let rows = found.query_map(place, |row| {
        let body = row.get_ref(3)?.as_str()?;
        let record = match row.get::<_, u8>(1)? {
            1 => Past::Checkpoint(parse::<CheckpointRecord>(body)?),
            2 => Past::Attempt(parse::<AttemptRecord>(body)?),
            _ => Past::Run(parse::<RunRecord>(body)?),
        };
        Ok((HistoryKey::of(nat(row.get(0)?), &record), record))
    })?;
    let list = List::fill(rows, |(key, _)| *key, |_| true, count_max, own.head)?;
    let rows = list.rows.into_iter().map(|(_, record)| record).collect();
    Ok(List { rows, next: list.next, as_of: list.as_of })
}

pub(super) fn past(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
    which: PastId,
) -> Result<Told<Option<Past>>, Error> {
    let own = tenant(conn, tenant_name)?;
    let (table, number) = match which {
        PastId::Attempt(number) => ("attempts", number),
        PastId::Checkpoint(number) => ("checkpoints", number),
    };
    let sql = format!("SELECT body FROM {table} WHERE tenant = ?1 AND task = ?2 AND number = ?3");
    let mut found = conn.prepare_cached(&sql)?;
    let what = found
        .query_row(params![own.key, int(id.0), number], |row| {
            let body = row.get_ref(0)?.as_str()?;
            Ok(match which {
                PastId::Attempt(_) => Past::Attempt(parse(body)?),
                PastId::Checkpoint(_) => Past::Checkpoint(parse(body)?),
            })
        })
        .optional()?;
    Ok(Told { what, as_of: own.head })
}
