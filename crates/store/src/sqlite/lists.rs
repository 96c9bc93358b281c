//! Lists of tasks, projects and pools. What is wanted is told by the filter, the same for every
//! store; here rows are only found, in order.

use std::iter::{Peekable, from_fn};
use std::sync::Arc;

use baton_domain::ids::{PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::pen::{int, nat, parse};
use super::reads::tenant;
use crate::Error;
use crate::read::{
    COUNTED_MAX, Column, Filter, LeaseRow, List, PoolRow, Stats, TaskRow, Tenants, Told, page_size,
};

const TASK_COLUMNS: &str = "f.body, b.body, l.attempt, l.holder, l.expires_at";
const TASK_JOINS: &str = "JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
     LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task";

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    let flow: Flow = parse(row.get_ref(0)?.as_str()?)?;
    let lease = lease_row(row, 2)?;
    Ok(TaskRow { flow: Arc::new(flow), brief: parse(row.get_ref(1)?.as_str()?)?, lease })
}

/// A lease without its nonce, from three columns.
pub(super) fn lease_row(row: &Row<'_>, from: usize) -> rusqlite::Result<Option<LeaseRow>> {
    let Some(attempt) = row.get::<_, Option<u32>>(from)? else { return Ok(None) };
    let holder: String = row.get(from + 1)?;
    let holder = PrincipalId::new(&holder).map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok(Some(LeaseRow { attempt, holder, expires_at: Timestamp(row.get(from + 2)?) }))
}

pub(super) fn task(
    conn: &Connection,
    tenant_name: &TenantId,
    id: TaskId,
) -> Result<Told<Option<TaskRow>>, Error> {
    let own = tenant(conn, tenant_name)?;
    for table in ["flows", "ended"] {
        let sql = format!(
            "SELECT {TASK_COLUMNS} FROM {table} f {TASK_JOINS} WHERE f.tenant = ?1 AND f.task = ?2"
        );
        let mut found = conn.prepare_cached(&sql)?;
        let row = found.query_row(params![own.key, int(id.0)], task_row).optional()?;
        if row.is_some() {
            return Ok(Told { what: row, as_of: own.head });
        }
    }
    Ok(Told { what: None, as_of: own.head })
}

/// Live and ended tasks are in tables of their own, and each is read in order.
fn tasks_sql(table: &str, filter: &Filter) -> String {
    let (after, order) = if filter.newest_first { ("<", "DESC") } else { (">", "ASC") };
    let in_column = match table {
        "flows" => "(:stage IS NULL OR f.stage = :stage)",
        _ => ":stage IS NULL",
    };
    let among = match (filter.parent, filter.tree) {
        (Some(_), _) => {
            "AND f.task IN (SELECT task FROM briefs WHERE tenant = :tenant AND parent = :parent)"
        }
        (None, Some(_)) => {
            "AND f.task IN (WITH RECURSIVE tree (task) AS (VALUES (:tree) UNION ALL
               SELECT c.task FROM briefs c JOIN tree t ON c.parent = t.task
               WHERE c.tenant = :tenant) SELECT task FROM tree)"
        }
        (None, None) => "",
    };
    format!(
        "SELECT {TASK_COLUMNS} FROM {table} f {TASK_JOINS}
         WHERE f.tenant = :tenant AND f.task {after} :after AND {in_column}
           AND (:project IS NULL OR b.project = :project)
           AND (:parent IS NULL OR b.parent = :parent)
           AND (:tree IS NULL OR f.task >= :tree) {among}
         ORDER BY f.task {order}"
    )
}

pub(super) fn tasks(
    conn: &Connection,
    tenant_name: &TenantId,
    filter: &Filter,
    now: Timestamp,
) -> Result<List<TaskRow, TaskId>, Error> {
    let own = tenant(conn, tenant_name)?;
    let (live, ended) = filter.looks_at();
    let stage = match &filter.stage {
        Some(Column::Working(name)) => Some(name.as_str()),
        Some(Column::Backlog) => Some("backlog"),
        Some(Column::Done | Column::Closed | Column::Archived) | None => None,
    };
    let params = named_params! {
        ":tenant": own.key,
        ":after": filter.after.map_or(beginning(filter.newest_first), |task| int(task.0)),
        ":project": filter.project.as_ref().map(ProjectId::as_str),
        ":stage": stage,
        ":parent": filter.parent.map(|parent| int(parent.0)),
        ":tree": filter.tree.map(|root| int(root.0)),
    };
    let mut of_live = conn.prepare_cached(&tasks_sql("flows", filter))?;
    let mut of_ended = conn.prepare_cached(&tasks_sql("ended", filter))?;
    let of_live = live.then(|| of_live.query_map(params, task_row)).transpose()?;
    let of_ended = ended.then(|| of_ended.query_map(params, task_row)).transpose()?;
    let rows = merge(
        of_live.into_iter().flatten(),
        of_ended.into_iter().flatten(),
        |row| row.flow.id,
        filter.newest_first,
    )
    // A task that is both asked for by its parent and by a tree must be in both.
    .filter(|row| row.as_ref().map_or(true, |row| filter.finds(&row.flow)));
    let wants = |row: &TaskRow| filter.wants(row, now);
    Ok(List::fill(rows, |row| row.flow.id, wants, filter.count_max, own.head)?)
}

/// Before the first number, in the order of a list.
pub(super) fn beginning(newest_first: bool) -> i64 {
    if newest_first { i64::MAX } else { 0 }
}

/// One ordered stream of two.
pub(super) fn merge<T, K: Ord>(
    one: impl Iterator<Item = rusqlite::Result<T>>,
    other: impl Iterator<Item = rusqlite::Result<T>>,
    key: impl Fn(&T) -> K,
    backwards: bool,
) -> impl Iterator<Item = rusqlite::Result<T>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    from_fn(move || match (peeked(&mut one, &key), peeked(&mut other, &key)) {
        (Some(first), Some(second)) if (first < second) != backwards => one.next(),
        (Some(_), Some(_)) | (None, Some(_)) => other.next(),
        (Some(_), None) => one.next(),
        (None, None) => one.next().or_else(|| other.next()),
    })
}

/// The key of the next row; none at the end, or if it cannot be read.
fn peeked<T, K>(
    rows: &mut Peekable<impl Iterator<Item = rusqlite::Result<T>>>,
    key: impl Fn(&T) -> K,
) -> Option<K> {
    rows.peek()?.as_ref().ok().map(key)
}

pub(super) fn projects(
    conn: &Connection,
    tenant_name: &TenantId,
    after: Option<&ProjectId>,
    count_max: usize,
) -> Result<List<Arc<Project>, ProjectId>, Error> {
    let own = tenant(conn, tenant_name)?;
    let sql = "SELECT body FROM projects WHERE tenant = ?1 AND (?2 IS NULL OR name > ?2)
               ORDER BY name";
    let mut found = conn.prepare_cached(sql)?;
    let rows = found.query_map(params![own.key, after.map(ProjectId::as_str)], |row| {
        Ok(Arc::new(parse::<Project>(row.get_ref(0)?.as_str()?)?))
    })?;
    Ok(List::fill(rows, |project| project.id.clone(), |_| true, count_max, own.head)?)
}

pub(super) fn tenants(
    conn: &Connection,
    after: Option<&TenantId>,
    count_max: usize,
) -> Result<Tenants, Error> {
    let count_max = page_size(count_max);
    let sql = "SELECT name FROM tenants WHERE ?1 IS NULL OR name > ?1 ORDER BY name LIMIT ?2";
    let mut found = conn.prepare_cached(sql)?;
    let wanted = params![after.map(TenantId::as_str), int(count_max as u64 + 1)];
    let rows = found.query_map(wanted, |row| {
        TenantId::new(row.get_ref(0)?.as_str()?).map_err(|_| rusqlite::Error::InvalidQuery)
    })?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    Ok(Tenants { rows, more })
}

/// Names of pools are ordered as the domain orders them, which is not the order of their texts.
pub(super) fn pools(
    conn: &Connection,
    tenant_name: &TenantId,
    after: Option<&PoolName>,
    count_max: usize,
) -> Result<List<PoolRow, PoolName>, Error> {
    let own = tenant(conn, tenant_name)?;
    let mut found = conn.prepare_cached("SELECT name, body FROM pools WHERE tenant = ?1")?;
    let rows = found.query_map([own.key], |row| {
        let name = parse(row.get_ref(0)?.as_str()?)?;
        Ok(PoolRow { name, pool: parse(row.get_ref(1)?.as_str()?)? })
    })?;
    let mut rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    rows.retain(|row| after.is_none_or(|after| row.name > *after));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = rows.into_iter().map(Ok);
    List::fill(rows, |row| row.name.clone(), |_| true, count_max, own.head)
}

pub(super) fn stats(
    conn: &Connection,
    tenant_name: &TenantId,
    project: Option<&ProjectId>,
    now: Timestamp,
) -> Result<Told<Stats>, Error> {
    let own = tenant(conn, tenant_name)?;
    let (project, bound) = (project.map(ProjectId::as_str), int(COUNTED_MAX as u64 + 1));
    let mut stats = Stats::default();
    let sql = "SELECT f.body FROM flows f JOIN briefs b ON b.tenant = f.tenant AND b.task = f.task
               WHERE f.tenant = ?1 AND (?2 IS NULL OR b.project = ?2) ORDER BY f.task LIMIT ?3";
    let mut found = conn.prepare_cached(sql)?;
    let mut rows = found.query(params![own.key, project, bound])?;
    let mut counted = 0;
    while let Some(row) = rows.next()? {
        counted += 1;
        if counted > COUNTED_MAX {
            stats.more = true;
            break;
        }
        stats.add(&parse(&row.get::<_, String>(0)?)?, now);
    }
    let sql = "SELECT count(*) FROM (SELECT 1 FROM ended
               WHERE tenant = ?1 AND (?2 IS NULL OR project = ?2) LIMIT ?3)";
    let mut found = conn.prepare_cached(sql)?;
    let ended = nat(found.query_row(params![own.key, project, bound], |row| row.get(0))?);
    stats.ended = ended.min(COUNTED_MAX as u64);
    stats.more |= ended > stats.ended;
    Ok(Told { what: stats, as_of: own.head })
}
