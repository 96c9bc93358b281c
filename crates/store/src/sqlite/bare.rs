//! What the same rows cost without any of the rest: the yardstick of `baton bench`. The same
//! tables, the same bodies, no judge, no chain, no callers; batches of a fixed size.

use std::path::Path;

use rusqlite::{Connection, params};

use super::pen::{int, nat};
use super::{OpenError, Options, connect, migrate};
use crate::chain::ROOT;

/// How the bare loop finds the next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finds {
    /// By a query over live tasks that nobody holds.
    ByQuery,
    /// Not at all: it is told. What remains is the price of the rows.
    ByNumber,
}

/// A database with the store's own tables and nothing else.
pub struct Bare {
    conn: Connection,
    next: u64,
    bodies: Bodies,
}

/// Bodies as long as the real ones.
struct Bodies {
    flow: String,
    event: String,
    record: String,
}

impl Bare {
    /// Makes one in an empty folder.
    pub fn open(folder: &Path, mut options: Options) -> Result<Self, OpenError> {
        let mut conn = connect(&folder.join("bare.db"), &options, false)?;
        migrate::migrate(&mut conn, None, &mut options.chance)?;
        let damaged = |error: rusqlite::Error| OpenError::Damaged(error.to_string());
        let sql = "INSERT INTO tenants (id, name, records_head) VALUES (1, 'local', ?1)";
        conn.execute(sql, [ROOT]).map_err(damaged)?;
        let text = |length: usize| format!("{{\"x\":\"{}\"}}", "x".repeat(length));
        let bodies = Bodies { flow: text(560), event: text(300), record: text(250) };
        Ok(Self { conn, next: 1, bodies })
    }

    /// Makes live tasks, in batches.
    pub fn create(&mut self, count: u64, batch: u64) -> rusqlite::Result<()> {
        for from in (0..count).step_by(usize::try_from(batch).unwrap_or(1)) {
            let step = self.conn.unchecked_transaction()?;
            for _ in from..count.min(from + batch) {
                let task = int(self.next);
                self.next += 1;
                step.prepare_cached(
                    "INSERT INTO briefs (tenant, task, project, version, body)
                     VALUES (1, ?1, 'bench', 1, ?2)",
                )?
                .execute(params![task, self.bodies.record])?;
                step.prepare_cached(
                    "INSERT INTO flows (tenant, task, stage, head, body)
                     VALUES (1, ?1, 'coding', ?2, ?3)",
                )?
                .execute(params![task, ROOT, self.bodies.flow])?;
            }
            step.commit()?;
        }
        Ok(())
    }

    /// Claims and completes that many tasks, in batches of so many claims and then as many
    /// completions, each batch one commit.
    pub fn cycle(&mut self, count: u64, batch: u64, finds: Finds) -> rusqlite::Result<()> {
        let mut position = 1_000_000_000;
        let mut told = self.next - count;
        for from in (0..count).step_by(usize::try_from(batch).unwrap_or(1)) {
            let step = self.conn.unchecked_transaction()?;
            let mut held = vec![];
            for _ in from..count.min(from + batch) {
                let task = match finds {
                    Finds::ByNumber => told,
                    Finds::ByQuery => find(&step)?,
                };
                told += 1;
                position += 1;
                self.claim(&step, task, position)?;
                held.push(task);
            }
            step.commit()?;
            let step = self.conn.unchecked_transaction()?;
            for task in held {
                position += 1;
                self.complete(&step, task, position)?;
            }
            step.commit()?;
        }
        Ok(())
    }

    fn claim(&self, conn: &Connection, task: u64, position: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE flows SET stage = ?3, head = ?4, body = ?5
                   WHERE tenant = ?1 AND task = ?2";
        let row = params![1, int(task), "coding", ROOT, self.bodies.flow];
        conn.prepare_cached(sql)?.execute(row)?;
        let sql = "INSERT INTO leases (tenant, task, attempt, holder, nonce, expires_at, length)
                   VALUES (1, ?1, 1, 'holder', ?2, ?3, 300000)";
        conn.prepare_cached(sql)?.execute(params![int(task), [7_u8; 16], position])?;
        self.event(conn, task, 2, position)
    }

    fn complete(&self, conn: &Connection, task: u64, position: i64) -> rusqlite::Result<()> {
        let task_key = int(task);
        let sql = "DELETE FROM leases WHERE tenant = 1 AND task = ?1";
        conn.prepare_cached(sql)?.execute([task_key])?;
        self.event(conn, task, 3, position)?;
        let sql = "INSERT INTO ended (tenant, task, project, ended_at, head, body)
                   VALUES (1, ?1, 'bench', ?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![task_key, ROOT, self.bodies.flow])?;
        let sql = "DELETE FROM flows WHERE tenant = 1 AND task = ?1";
        conn.prepare_cached(sql)?.execute([task_key])?;
        let sql = "INSERT INTO attempts (tenant, task, number, run, version, principal, body)
                   VALUES (1, ?1, 1, 1, 3, 'holder', ?2)";
        conn.prepare_cached(sql)?.execute(params![task_key, self.bodies.record])?;
        let sql = "INSERT INTO runs (tenant, task, number, version, body) VALUES (1, ?1, 1, 3, ?2)";
        conn.prepare_cached(sql)?.execute(params![task_key, self.bodies.record]).map(drop)
    }

    fn event(
        &self,
        conn: &Connection,
        task: u64,
        version: i64,
        position: i64,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO events
                   (tenant, position, task, version, at, principal, actor, salt, payload, wrote, link)
                   VALUES (1, ?1, ?2, ?3, 0, 'holder', ?4, ?5, ?6, ?7, ?7)";
        let actor = r#"{"principal":"holder","kind":"agent","origin":"bench"}"#;
        let (salt, body) = ([7_u8; 16], &self.bodies.event);
        let row = params![position, int(task), version, actor, salt, body, ROOT];
        conn.prepare_cached(sql)?.execute(row).map(drop)
    }
}

fn find(conn: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT f.task, f.body FROM flows f
               WHERE f.tenant = 1 AND f.stage = 'coding' AND NOT EXISTS
                 (SELECT 1 FROM leases l WHERE l.tenant = f.tenant AND l.task = f.task)
               ORDER BY f.task LIMIT 1";
    conn.prepare_cached(sql)?.query_row([], |row| Ok(nat(row.get(0)?)))
}
