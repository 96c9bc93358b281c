//! Request keys: what was answered, so that a repeated request gets the same.

use baton_domain::ids::{PrincipalId, TaskId, TenantId};
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::pen::{Pen, int, nat};
use crate::Error;

type Sql<T> = rusqlite::Result<T>;

/// What was answered to a request.
pub(super) struct Earlier {
    pub(super) fingerprint: [u8; 32],
    pub(super) at: Timestamp,
    pub(super) task: Option<TaskId>,
    pub(super) position: Option<u64>,
    /// The attempt whose lease was shown.
    pub(super) attempt: Option<u32>,
    /// The run that it was about.
    pub(super) run: Option<u32>,
}

/// What a request under this key was for.
pub(super) fn asked_before(
    conn: &Connection,
    tenant: &TenantId,
    principal: &PrincipalId,
    key: &str,
) -> Result<Option<[u8; 32]>, Error> {
    let sql = "SELECT r.fingerprint FROM requests r JOIN tenants t ON t.id = r.tenant
               WHERE t.name = ?1 AND r.principal = ?2 AND r.key = ?3";
    let mut found = conn.prepare_cached(sql)?;
    let asked = params![tenant.as_str(), principal.as_str(), key];
    Ok(found.query_row(asked, |row| row.get(0)).optional()?)
}

impl Pen {
    pub(super) fn request(
        &mut self,
        tenant: i64,
        principal: &PrincipalId,
        key: &str,
        row: &Earlier,
    ) -> Sql<()> {
        self.run(
            "INSERT INTO requests
             (tenant, principal, key, fingerprint, at, task, position, attempt, run)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                tenant,
                principal.as_str(),
                key,
                row.fingerprint,
                row.at.0,
                row.task.map(|task| int(task.0)),
                row.position.map(int),
                row.attempt,
                row.run
            ],
        )
    }

    /// What was answered to an earlier request with this key.
    pub(super) fn earlier(
        &self,
        tenant: i64,
        principal: &PrincipalId,
        key: &str,
    ) -> Sql<Option<Earlier>> {
        let sql = "SELECT fingerprint, at, task, position, attempt, run FROM requests
                   WHERE tenant = ?1 AND principal = ?2 AND key = ?3";
        self.conn
            .prepare_cached(sql)?
            .query_row(params![tenant, principal.as_str(), key], |row| {
                let task: Option<i64> = row.get(2)?;
                let position: Option<i64> = row.get(3)?;
                Ok(Earlier {
                    fingerprint: row.get(0)?,
                    at: Timestamp(row.get(1)?),
                    task: task.map(|task| TaskId(nat(task))),
                    position: position.map(nat),
                    attempt: row.get(4)?,
                    run: row.get(5)?,
                })
            })
            .optional()
    }

    /// Forgets request keys that nobody can be waiting on any more.
    pub(super) fn forget_requests(&mut self, before: Timestamp, count_max: usize) -> Sql<()> {
        let sql = "SELECT 1 FROM requests WHERE at < ?1 LIMIT 1";
        if !self.conn.prepare_cached(sql)?.exists(params![before.0])? {
            return Ok(());
        }
        self.run(
            "DELETE FROM requests WHERE (tenant, principal, key) IN
             (SELECT tenant, principal, key FROM requests WHERE at < ?1 LIMIT ?2)",
            params![before.0, int(count_max as u64)],
        )
    }
}
