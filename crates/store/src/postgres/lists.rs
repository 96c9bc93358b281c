//! Lists of tasks, projects, pools and tenants, and what is counted over tasks. What is wanted is
//! told by the filter, the same for every store; here rows are only found, in order.

use std::sync::Arc;

use baton_domain::ids::{PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;
use tokio_postgres::Row;

use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::params;
use crate::Error;
use crate::read::{
    COUNTED_MAX, Column, Filter, LeaseRow, List, PoolRow, SCAN_MAX, Stats, TaskRow, Tenants, Told,
    page_size,
};
use crate::rows::{int, nat, parse};

/// Rows that are fetched at once while a page is filled.
const FETCHED_AT_ONCE: usize = 256;

const TASK: &str = "SELECT f.body, b.body, l.attempt, l.holder, l.expires_at FROM flows f
    JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
    LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task
    WHERE f.tenant = $1 AND f.task = $2";

/// What a list of tasks looks for, as far as the database can tell.
macro_rules! tasks_sql {
    ($after:literal, $order:literal, $among:literal) => {
        concat!(
            "SELECT f.body, b.body, l.attempt, l.holder, l.expires_at FROM flows f
             JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
             LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task
             WHERE f.tenant = $1 AND f.task ",
            $after,
            " $2 AND (($3 AND f.live) OR ($4 AND NOT f.live))
              AND ($5::text IS NULL OR NOT f.live OR f.stage = $5)
              AND ($6::text IS NULL OR f.project = $6) AND ",
            $among,
            " ORDER BY f.task ",
            $order,
            " LIMIT $8"
        )
    };
}
const IN_TREE: (&str, &str) = (
    tasks_sql!(
        ">",
        "ASC",
        "f.task IN (WITH RECURSIVE tree (task) AS (VALUES ($7::int8) UNION ALL
            SELECT c.task FROM briefs c JOIN tree t ON c.parent = t.task WHERE c.tenant = $1)
            SELECT task FROM tree)"
    ),
    tasks_sql!(
        "<",
        "DESC",
        "f.task IN (WITH RECURSIVE tree (task) AS (VALUES ($7::int8) UNION ALL
            SELECT c.task FROM briefs c JOIN tree t ON c.parent = t.task WHERE c.tenant = $1)
            SELECT task FROM tree)"
    ),
);
const BELOW: (&str, &str) =
    (tasks_sql!(">", "ASC", "b.parent = $7::int8"), tasks_sql!("<", "DESC", "b.parent = $7::int8"));
const ANYWHERE: (&str, &str) =
    (tasks_sql!(">", "ASC", "$7::int8 IS NULL"), tasks_sql!("<", "DESC", "$7::int8 IS NULL"));

const PROJECTS: &str = "SELECT body FROM projects WHERE tenant = $1
    AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3";
const POOLS: &str = "SELECT name, body FROM pools WHERE tenant = $1";
const TENANTS: &str = "SELECT name FROM tenants WHERE $1::text IS NULL OR name > $1
    ORDER BY name LIMIT $2";
const LIVE: &str = "SELECT body FROM flows WHERE tenant = $1 AND live
    AND ($2::text IS NULL OR project = $2) ORDER BY task LIMIT $3";
const ENDED: &str = "SELECT count(*) FROM (SELECT 1 FROM flows WHERE tenant = $1 AND NOT live
    AND ($2::text IS NULL OR project = $2) LIMIT $3) e";

fn task_row(row: &Row) -> Result<TaskRow, Trouble> {
    let flow: Flow = parse(row.get(0))?;
    Ok(TaskRow { flow: Arc::new(flow), brief: parse(row.get(1))?, lease: lease_row(row, 2)? })
}

/// A lease without its nonce, from three columns.
pub(super) fn lease_row(row: &Row, from: usize) -> Result<Option<LeaseRow>, Trouble> {
    let Some(attempt) = row.get::<_, Option<i64>>(from) else { return Ok(None) };
    let holder = PrincipalId::new(row.get::<_, &str>(from + 1))
        .map_err(|_| Trouble::Broken("a holder has no name".into()))?;
    let attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
    Ok(Some(LeaseRow { attempt, holder, expires_at: Timestamp(row.get(from + 2)) }))
}

pub(super) async fn task(
    reading: &mut Reading<'_>,
    id: TaskId,
) -> Result<Told<Option<TaskRow>>, Error> {
    let rows = reading.query(TASK, params![reading.tenant, int(id.0)]).await?;
    let what = rows.first().map(task_row).transpose().map_err(Trouble::read)?;
    Ok(Told { what, as_of: reading.head })
}

pub(super) async fn tasks(
    reading: &mut Reading<'_>,
    filter: &Filter,
    now: Timestamp,
) -> Result<List<TaskRow, TaskId>, Error> {
    let (live, ended) = filter.looks_at();
    let stage = match &filter.stage {
        Some(Column::Working(name)) => Some(name.as_str().to_owned()),
        Some(Column::Backlog) => Some("backlog".to_owned()),
        Some(Column::Done | Column::Closed | Column::Archived) | None => None,
    };
    let (sql, among) = match (filter.parent, filter.tree) {
        (Some(parent), _) => (BELOW, Some(parent)),
        (None, Some(root)) => (IN_TREE, Some(root)),
        (None, None) => (ANYWHERE, None),
    };
    let sql = if filter.newest_first { sql.1 } else { sql.0 };
    let project = filter.project.as_ref().map(|project| project.as_str().to_owned());
    let mut place = filter.after.map_or(beginning(filter.newest_first), |task| int(task.0));
    let mut found: Vec<TaskRow> = vec![];
    let (mut wanted, page) = (0, page_size(filter.count_max));
    // A page is rarely much longer than what is wanted, and never longer than what may be looked at.
    while wanted <= page && found.len() <= SCAN_MAX {
        let params = params![
            reading.tenant,
            place,
            live,
            ended,
            stage.clone(),
            project.clone(),
            among.map(|task| int(task.0)),
            int(FETCHED_AT_ONCE as u64)
        ];
        let rows = reading.query(sql, params).await?;
        let rows_count = rows.len();
        for row in &rows {
            let row = task_row(row).map_err(Trouble::read)?;
            place = int(row.flow.id.0);
            // A task that is both asked for by its parent and by a tree must be in both.
            if filter.finds(&row.flow) {
                wanted += usize::from(filter.wants(&row, now));
                found.push(row);
            }
        }
        if rows_count < FETCHED_AT_ONCE {
            break;
        }
    }
    let wants = |row: &TaskRow| filter.wants(row, now);
    let found = found.into_iter().map(Ok);
    List::fill(found, |row| row.flow.id, wants, filter.count_max, reading.head)
}

/// Before the first number, in the order of a list.
pub(super) fn beginning(newest_first: bool) -> i64 {
    if newest_first { i64::MAX } else { 0 }
}

pub(super) async fn projects(
    reading: &mut Reading<'_>,
    after: Option<&ProjectId>,
    count_max: usize,
) -> Result<List<Arc<Project>, ProjectId>, Error> {
    let after = after.map(|project| project.as_str().to_owned());
    let bound = int(page_size(count_max) as u64 + 1);
    let rows = reading.query(PROJECTS, params![reading.tenant, after, bound]).await?;
    let rows = rows.iter().map(|row| Ok(Arc::new(parse::<Project>(row.get(0))?)));
    List::fill(rows, |project| project.id.clone(), |_| true, count_max, reading.head)
        .map_err(Trouble::read)
}

pub(super) async fn tenants(
    reading: &mut Reading<'_>,
    after: Option<&TenantId>,
    count_max: usize,
) -> Result<Tenants, Error> {
    let count_max = page_size(count_max);
    let after = after.map(|tenant| tenant.as_str().to_owned());
    let rows = reading.query(TENANTS, params![after, int(count_max as u64 + 1)]).await?;
    let named = |row: &Row| TenantId::new(row.get::<_, &str>(0));
    let rows: Result<Vec<_>, _> = rows.iter().map(named).collect();
    let mut rows = rows.map_err(|_| Error::Read("a tenant has no name".into()))?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    Ok(Tenants { rows, more })
}

/// Names of pools are ordered as the domain orders them, which is not the order of their texts.
pub(super) async fn pools(
    reading: &mut Reading<'_>,
    after: Option<&PoolName>,
    count_max: usize,
) -> Result<List<PoolRow, PoolName>, Error> {
    let rows = reading.query(POOLS, params![reading.tenant]).await?;
    let row = |row: &Row| -> Result<PoolRow, Trouble> {
        Ok(PoolRow { name: parse(row.get::<_, &str>(0).as_bytes())?, pool: parse(row.get(1))? })
    };
    let rows: Result<Vec<_>, _> = rows.iter().map(row).collect();
    let mut rows = rows.map_err(Trouble::read)?;
    rows.retain(|row| after.is_none_or(|after| row.name > *after));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = rows.into_iter().map(Ok);
    List::fill(rows, |row| row.name.clone(), |_| true, count_max, reading.head)
}

pub(super) async fn stats(
    reading: &mut Reading<'_>,
    project: Option<&ProjectId>,
    now: Timestamp,
) -> Result<Told<Stats>, Error> {
    let project = project.map(|project| project.as_str().to_owned());
    let bound = int(COUNTED_MAX as u64 + 1);
    let mut stats = Stats::default();
    let live = reading.query(LIVE, params![reading.tenant, project.clone(), bound]).await?;
    stats.more = live.len() > COUNTED_MAX;
    for row in live.iter().take(COUNTED_MAX) {
        stats.add(&parse(row.get(0)).map_err(Error::Read)?, now);
    }
    let ended = reading.query(ENDED, params![reading.tenant, project, bound]).await?;
    let ended = ended.first().map_or(0, |row| nat(row.get(0)));
    stats.ended = ended.min(COUNTED_MAX as u64);
    stats.more |= ended > stats.ended;
    Ok(Told { what: stats, as_of: reading.head })
}
