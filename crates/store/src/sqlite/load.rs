//! Reads the books from the database: at the start, and after any doubt.

use std::sync::Arc;

use baton_domain::ids::{DeploymentId, TaskId, TenantId};
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::Project;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;
use rusqlite::Connection;

use super::books::Books;
use super::pen::{lease_of, nat, parse};
use crate::chain::Hash;

/// Everything that lives, as it stands in the database.
pub(super) fn books(conn: &Connection, swept_at: Timestamp) -> rusqlite::Result<Books> {
    let amnesty = meta(conn, "amnesty")?.unwrap_or(0);
    let mut books = Books::empty(Timestamp(amnesty), swept_at);
    tenants(conn, &mut books)?;
    for tenant in 0..books.tenants.len() {
        projects(conn, &mut books, tenant)?;
        flows(conn, &mut books, tenant)?;
        edges(conn, &mut books, tenant)?;
        pools(conn, &mut books, tenant)?;
    }
    reactions(conn, &mut books)?;
    Ok(books)
}

/// A number that the database keeps about itself.
pub(super) fn meta(conn: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    use rusqlite::OptionalExtension;
    let sql = "SELECT value FROM meta WHERE name = ?1";
    conn.query_row(sql, [name], |row| row.get(0)).optional()
}

/// Which life of the database this is, and which installation it belongs to.
pub(super) fn names(conn: &Connection) -> rusqlite::Result<(u64, DeploymentId)> {
    let missing = || rusqlite::Error::QueryReturnedNoRows;
    let incarnation = meta(conn, "incarnation")?.ok_or_else(missing)?;
    let sql = "SELECT value FROM meta WHERE name = 'deployment'";
    let deployment: String = conn.query_row(sql, [], |row| row.get(0))?;
    let deployment = DeploymentId::new(&deployment).map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok((nat(incarnation), deployment))
}

fn tenants(conn: &Connection, books: &mut Books) -> rusqlite::Result<()> {
    let mut found = conn.prepare(
        "SELECT id, name, records_version, records_head,
                coalesce((SELECT max(position) FROM events WHERE tenant = t.id), floor),
                coalesce((SELECT max(task) FROM briefs WHERE tenant = t.id), 0)
         FROM tenants t ORDER BY id",
    )?;
    let mut rows = found.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        let name = TenantId::new(&name).map_err(|_| rusqlite::Error::InvalidQuery)?;
        let ledger = books.add_tenant(row.get(0)?, name);
        ledger.records_version = nat(row.get(2)?);
        ledger.records_head = row.get(3)?;
        ledger.position = nat(row.get(4)?);
        ledger.next_task = nat(row.get(5)?) + 1;
    }
    Ok(())
}

fn projects(conn: &Connection, books: &mut Books, tenant: usize) -> rusqlite::Result<()> {
    let ledger = &mut books.tenants[tenant];
    let mut found = conn.prepare("SELECT body FROM projects WHERE tenant = ?1")?;
    let mut rows = found.query([ledger.key])?;
    while let Some(row) = rows.next()? {
        let project: Project = parse(row.get_ref(0)?.as_str()?)?;
        ledger.projects.insert(project.id.clone(), Arc::new(project));
    }
    Ok(())
}

fn flows(conn: &Connection, books: &mut Books, tenant: usize) -> rusqlite::Result<()> {
    let key = books.tenants[tenant].key;
    let mut found = conn.prepare(
        "SELECT f.body, f.head, l.attempt, l.holder, l.nonce, l.expires_at, l.length, l.heard
         FROM flows f LEFT JOIN leases l ON l.tenant = f.tenant AND l.task = f.task
         WHERE f.tenant = ?1",
    )?;
    let mut rows = found.query([key])?;
    while let Some(row) = rows.next()? {
        let flow: Flow = parse(row.get_ref(0)?.as_str()?)?;
        let head: Hash = row.get(1)?;
        books.put(tenant, Arc::new(flow), lease_of(row, 2)?, head);
    }
    Ok(())
}

fn edges(conn: &Connection, books: &mut Books, tenant: usize) -> rusqlite::Result<()> {
    let ledger = &mut books.tenants[tenant];
    let mut found = conn.prepare(
        "SELECT e.task, e.on_task FROM edges e
         JOIN flows f ON f.tenant = e.tenant AND f.task = e.task WHERE e.tenant = ?1",
    )?;
    let mut rows = found.query([ledger.key])?;
    while let Some(row) = rows.next()? {
        ledger.set_edge(TaskId(nat(row.get(0)?)), TaskId(nat(row.get(1)?)), true);
    }
    Ok(())
}

fn pools(conn: &Connection, books: &mut Books, tenant: usize) -> rusqlite::Result<()> {
    let ledger = &mut books.tenants[tenant];
    let mut found = conn.prepare("SELECT name, body FROM pools WHERE tenant = ?1")?;
    let mut rows = found.query([ledger.key])?;
    while let Some(row) = rows.next()? {
        let name: PoolName = parse(row.get_ref(0)?.as_str()?)?;
        let pool: Pool = parse(row.get_ref(1)?.as_str()?)?;
        ledger.pools.insert(name, pool);
    }
    Ok(())
}

fn reactions(conn: &Connection, books: &mut Books) -> rusqlite::Result<()> {
    let mut found = conn.prepare("SELECT id, tenant, body FROM reactions ORDER BY id")?;
    let mut rows = found.query([])?;
    while let Some(row) = rows.next()? {
        let (id, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let tenant = books.tenants.iter().position(|ledger| ledger.key == key);
        let reaction = parse(row.get_ref(2)?.as_str()?)?;
        if let Some(tenant) = tenant {
            books.tenants[tenant].reactions.push_back((id, reaction));
        }
        books.next_reaction = id + 1;
    }
    Ok(())
}
