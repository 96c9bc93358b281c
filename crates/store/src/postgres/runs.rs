//! Runs, and the history of a task.

use baton_domain::history::{AttemptRecord, CheckpointRecord, Past, RunRecord};
use baton_domain::ids::{ProjectId, RunId, TaskId};
use baton_domain::task::Flow;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::lists::{beginning, lease_row};
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::params;
use crate::Error;
use crate::read::{
    HistoryKey, List, PastId, RunFilter, RunFull, RunNow, RunRow, SCAN_MAX, SHOWN_MAX, Told,
    page_size,
};
use crate::rows::{int, nat, parse};

/// Tasks whose runs are fetched at once while a page is filled.
const TASKS_AT_ONCE: i64 = 128;

const FINISHED: &str = "SELECT r.task, b.project, r.body FROM runs r
    JOIN briefs b ON b.tenant = r.tenant AND b.task = r.task
    WHERE r.tenant = $1 AND r.task BETWEEN $2 AND $3 AND ($4::text IS NULL OR b.project = $4)";
const LIVE: &str = "SELECT f.body, l.attempt, l.holder, l.expires_at FROM flows f
    LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task
    WHERE f.tenant = $1 AND f.live AND f.task BETWEEN $2 AND $3
      AND ($4::text IS NULL OR f.project = $4)";
/// Where the next tasks end: a list goes over tasks in their order, so many at a time.
const NEXT_UP: &str = "SELECT max(task) FROM (SELECT task FROM flows
    WHERE tenant = $1 AND task >= $2 ORDER BY task LIMIT $3) n";
const NEXT_DOWN: &str = "SELECT min(task) FROM (SELECT task FROM flows
    WHERE tenant = $1 AND task <= $2 ORDER BY task DESC LIMIT $3) n";
const ATTEMPTS: &str = "SELECT body, count(*) OVER () FROM attempts
    WHERE tenant = $1 AND task = $2 AND run = $3 ORDER BY number DESC LIMIT $4";
const CHECKPOINTS: &str = "SELECT body, count(*) OVER () FROM checkpoints
    WHERE tenant = $1 AND task = $2 AND run = $3 ORDER BY number DESC LIMIT $4";
const ATTEMPT: &str = "SELECT body FROM attempts WHERE tenant = $1 AND task = $2 AND number = $3";
const CHECKPOINT: &str =
    "SELECT body FROM checkpoints WHERE tenant = $1 AND task = $2 AND number = $3";
const HISTORY: &str = "SELECT version, 1::int2 AS sort, number, body FROM checkpoints
    WHERE tenant = $1 AND task = $2 AND (version, 1, number) > ($3, $4::int2, $5)
    UNION ALL SELECT version, 2::int2, number, body FROM attempts
    WHERE tenant = $1 AND task = $2 AND (version, 2, number) > ($3, $4::int2, $5)
    UNION ALL SELECT version, 3::int2, number, body FROM runs
    WHERE tenant = $1 AND task = $2 AND (version, 3, number) > ($3, $4::int2, $5)
    ORDER BY version, sort, number LIMIT $6";

fn finished_row(row: &Row) -> Result<RunRow, Trouble> {
    let run: RunRecord = parse(row.get(2))?;
    let project = ProjectId::new(row.get::<_, &str>(1));
    Ok(RunRow {
        id: RunId { task: TaskId(nat(row.get(0))), number: run.number },
        project: project.map_err(|_| Trouble::Broken("a project has no name".into()))?,
        run: RunNow::Finished(Box::new(run)),
    })
}

/// The live run of a task; most tasks in the backlog have none.
fn live_row(row: &Row) -> Result<Option<RunRow>, Trouble> {
    let flow: Flow = parse(row.get(0))?;
    let Some(run) = flow.run else { return Ok(None) };
    let id = RunId { task: flow.id, number: run.number };
    let run = RunNow::Live(Box::new(run), lease_row(row, 1)?);
    Ok(Some(RunRow { id, project: flow.project, run }))
}

pub(super) async fn runs(
    reading: &mut Reading<'_>,
    filter: &RunFilter,
) -> Result<List<RunRow, RunId>, Error> {
    let start = beginning(filter.newest_first);
    let mut place = match (filter.task, filter.after) {
        (Some(task), _) => int(task.0),
        (None, after) => after.map_or(start, |run| int(run.task.0)),
    };
    let mut found: Vec<RunRow> = vec![];
    let (mut wanted, page) = (0, page_size(filter.count_max));
    while wanted <= page && found.len() <= SCAN_MAX {
        let end = match filter.task {
            Some(_) => Some(place),
            None => next_tasks(reading, place, filter.newest_first).await?,
        };
        let Some(end) = end else { break };
        let mut some = between(reading, filter, place.min(end), place.max(end)).await?;
        if filter.newest_first {
            some.reverse();
        }
        wanted += some.iter().filter(|row| filter.wants(row)).count();
        found.extend(some);
        if filter.task.is_some() {
            break;
        }
        place = if filter.newest_first { end - 1 } else { end + 1 };
    }
    let found = found.into_iter().map(Ok);
    List::fill(found, |row| row.id, |row| filter.wants(row), filter.count_max, reading.head)
}

async fn next_tasks(
    reading: &mut Reading<'_>,
    place: i64,
    newest_first: bool,
) -> Result<Option<i64>, Error> {
    let sql = if newest_first { NEXT_DOWN } else { NEXT_UP };
    let rows = reading.query(sql, params![reading.tenant, place, TASKS_AT_ONCE]).await?;
    Ok(rows.first().and_then(|row| row.get(0)))
}

/// All runs of the tasks between two numbers that a list may show, in their order.
async fn between(
    reading: &mut Reading<'_>,
    filter: &RunFilter,
    from: i64,
    to: i64,
) -> Result<Vec<RunRow>, Error> {
    let project = filter.project.as_ref().map(|project| project.as_str().to_owned());
    let mut rows = vec![];
    if filter.live != Some(true) {
        let params = params![reading.tenant, from, to, project.clone()];
        let found = reading.query(FINISHED, params).await?;
        let found: Result<Vec<_>, _> = found.iter().map(finished_row).collect();
        rows.extend(found.map_err(Trouble::read)?);
    }
    if filter.live != Some(false) {
        let found = reading.query(LIVE, params![reading.tenant, from, to, project]).await?;
        let found: Result<Vec<_>, _> = found.iter().map(live_row).collect();
        rows.extend(found.map_err(Trouble::read)?.into_iter().flatten());
    }
    rows.sort_by_key(|row| row.id);
    // A task may have runs on both sides of where the last page ended.
    rows.retain(|row| filter.finds(row));
    Ok(rows)
}

pub(super) async fn run(
    reading: &mut Reading<'_>,
    id: RunId,
) -> Result<Told<Option<RunFull>>, Error> {
    let filter = RunFilter { task: Some(id.task), ..RunFilter::default() };
    let of_task = between(reading, &filter, int(id.task.0), int(id.task.0)).await?;
    let Some(row) = of_task.into_iter().find(|row| row.id == id) else {
        return Ok(Told { what: None, as_of: reading.head });
    };
    let (attempts, attempts_dropped) = last::<AttemptRecord>(reading, id, ATTEMPTS).await?;
    let (checkpoints, checkpoints_dropped) =
        last::<CheckpointRecord>(reading, id, CHECKPOINTS).await?;
    let full = RunFull { row, attempts, attempts_dropped, checkpoints, checkpoints_dropped };
    Ok(Told { what: Some(full), as_of: reading.head })
}

/// The last rows of a run in a table of history, oldest first, and how many there are besides.
async fn last<T: DeserializeOwned>(
    reading: &mut Reading<'_>,
    id: RunId,
    sql: &'static str,
) -> Result<(Vec<T>, u64), Error> {
    let wanted =
        params![reading.tenant, int(id.task.0), i64::from(id.number), int(SHOWN_MAX as u64)];
    let found = reading.query(sql, wanted).await?;
    let all = found.first().map_or(0, |row| nat(row.get(1)));
    let rows: Result<Vec<T>, _> = found.iter().rev().map(|row| parse(row.get(0))).collect();
    let rows = rows.map_err(Error::Read)?;
    let dropped = all.saturating_sub(rows.len() as u64);
    Ok((rows, dropped))
}

pub(super) async fn history(
    reading: &mut Reading<'_>,
    id: TaskId,
    after: Option<HistoryKey>,
    count_max: usize,
) -> Result<List<Past, HistoryKey>, Error> {
    let after = after.unwrap_or(HistoryKey { version: 0, sort: 0, number: 0 });
    let wanted = params![
        reading.tenant,
        int(id.0),
        int(after.version),
        i16::from(after.sort),
        i64::from(after.number),
        int(page_size(count_max) as u64 + 1)
    ];
    let found = reading.query(HISTORY, wanted).await?;
    let row = |row: &Row| -> Result<(HistoryKey, Past), Trouble> {
        let body: &[u8] = row.get(3);
        let record = match row.get::<_, i16>(1) {
            1 => Past::Checkpoint(parse::<CheckpointRecord>(body)?),
            2 => Past::Attempt(parse::<AttemptRecord>(body)?),
            _ => Past::Run(parse::<RunRecord>(body)?),
        };
        Ok((HistoryKey::of(nat(row.get(0)), &record), record))
    };
    let rows = found.iter().map(row);
    let list = List::fill(rows, |(key, _)| *key, |_| true, count_max, reading.head);
    let list = list.map_err(Trouble::read)?;
    let rows = list.rows.into_iter().map(|(_, record)| record).collect();
    Ok(List { rows, next: list.next, as_of: list.as_of })
}

pub(super) async fn past(
    reading: &mut Reading<'_>,
    id: TaskId,
    which: PastId,
) -> Result<Told<Option<Past>>, Error> {
    let (sql, number) = match which {
        PastId::Attempt(number) => (ATTEMPT, number),
        PastId::Checkpoint(number) => (CHECKPOINT, number),
    };
    let wanted = params![reading.tenant, int(id.0), i64::from(number)];
    let rows = reading.query(sql, wanted).await?;
    let row = |row: &Row| {
        Ok(match which {
            PastId::Attempt(_) => Past::Attempt(parse(row.get(0))?),
            PastId::Checkpoint(_) => Past::Checkpoint(parse(row.get(0))?),
        })
    };
    let what = rows.first().map(row).transpose().map_err(Error::Read)?;
    Ok(Told { what, as_of: reading.head })
}
