//! Everything that the writer writes. Statements are prepared once; nothing here decides.

use baton_domain::history::Past;
use baton_domain::ids::{Nonce, PrincipalId, ProjectId, TaskId};
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::scene::Lease;
use baton_domain::task::{Brief, Flow};
use baton_domain::time::{Millis, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Chance;
use crate::chain::{self, Hash, Linked, Rows, Seal};
use crate::order::Actor;
use crate::read::About;
use crate::rows::{Salts, kept_since, stage_word};
pub(super) use crate::rows::{int, json, nat};

type Sql<T> = rusqlite::Result<T>;

/// The writer's connection.
pub(super) struct Pen {
    pub(super) conn: Connection,
    salts: Salts,
    open: bool,
    /// Rows written since the last commit.
    pub(super) rows: usize,
}

/// An entry to be written.
pub(super) struct NewEntry<'a> {
    pub(super) tenant: (i64, &'a str),
    pub(super) position: u64,
    pub(super) about: About,
    pub(super) at: Timestamp,
    pub(super) actor: &'a Actor,
}

/// What a text holds; a text that does not parse is a damaged row.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Sql<T> {
    serde_json::from_str(text).map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(error))
    })
}

impl Pen {
    pub(super) fn new(conn: Connection, chance: Chance) -> Self {
        conn.set_prepared_statement_cache_capacity(64);
        Self { conn, salts: Salts::new(chance), open: false, rows: 0 }
    }

    /// Runs one statement, inside the batch's transaction.
    pub(super) fn run(&mut self, sql: &str, params: impl rusqlite::Params) -> Sql<()> {
        if !self.open {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.open = true;
        }
        self.rows += 1;
        self.conn.prepare_cached(sql)?.execute(params).map(drop)
    }

    /// Makes everything since the last commit durable; tells whether there was anything.
    pub(super) fn commit(&mut self) -> Sql<bool> {
        if !self.open {
            return Ok(false);
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        self.open = false;
        self.rows = 0;
        Ok(true)
    }

    /// Forgets everything since the last commit.
    pub(super) fn roll_back(&mut self) -> Sql<()> {
        self.open = false;
        self.rows = 0;
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK")
    }

    pub(super) fn tenant(&mut self, key: i64, name: &str) -> Sql<()> {
        let sql = "INSERT INTO tenants (id, name, records_head) VALUES (?1, ?2, ?3)";
        self.run(sql, params![key, name, chain::ROOT])
    }

    pub(super) fn meta(&mut self, name: &str, value: i64) -> Sql<()> {
        self.run(
            "INSERT INTO meta (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![name, value],
        )
    }

    /// Writes an entry and returns its link, the new head of its chain.
    pub(super) fn entry(
        &mut self,
        entry: &NewEntry<'_>,
        before: &Hash,
        events: &impl Serialize,
        rows: Option<&Rows>,
    ) -> Sql<Hash> {
        let (salt, payload, actor) = (self.salts.next(), json(events), json(entry.actor));
        let wrote = rows.map(|rows| chain::wrote(&salt, rows)).unwrap_or_default();
        let (key, tenant) = entry.tenant;
        let link = chain::link(
            before,
            &Linked {
                tenant,
                position: entry.position,
                about: entry.about,
                at: entry.at.0,
                actor: actor.as_bytes(),
                payload: &chain::payload_digest(&salt, payload.as_bytes()),
                wrote: &wrote,
            },
        );
        let (task, version) = match entry.about {
            About::Task(task, version) => (int(task.0), version),
            About::Records(version) => (0, version),
        };
        self.run(
            "INSERT INTO events
             (tenant, position, task, version, at, principal, actor, salt, payload, wrote, link)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                key,
                int(entry.position),
                task,
                int(version),
                entry.at.0,
                entry.actor.principal.as_str(),
                actor,
                salt,
                payload,
                wrote,
                link
            ],
        )?;
        Ok(link)
    }

    pub(super) fn brief(&mut self, tenant: i64, flow: &Flow, body: &str) -> Sql<()> {
        let parent = flow.parent().map(|parent| int(parent.0));
        self.run(
            "INSERT INTO briefs (tenant, task, project, parent, version, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (tenant, task) DO UPDATE
             SET version = excluded.version, body = excluded.body",
            params![tenant, int(flow.id.0), flow.project.as_str(), parent, int(flow.version), body],
        )
    }

    pub(super) fn new_flow(
        &mut self,
        tenant: i64,
        flow: &Flow,
        (head, body): (&Hash, &str),
    ) -> Sql<()> {
        self.run(
            "INSERT INTO flows (tenant, task, stage, head, body) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![tenant, int(flow.id.0), stage_word(&flow.stage), head, body],
        )
    }

    pub(super) fn flow(
        &mut self,
        tenant: i64,
        flow: &Flow,
        (head, body): (&Hash, &str),
    ) -> Sql<()> {
        self.run(
            "UPDATE flows SET stage = ?3, head = ?4, body = ?5 WHERE tenant = ?1 AND task = ?2",
            params![tenant, int(flow.id.0), stage_word(&flow.stage), head, body],
        )
    }

    pub(super) fn drop_flow(&mut self, tenant: i64, task: TaskId) -> Sql<()> {
        let sql = "DELETE FROM flows WHERE tenant = ?1 AND task = ?2";
        self.run(sql, params![tenant, int(task.0)])
    }

    pub(super) fn ended(
        &mut self,
        tenant: i64,
        flow: &Flow,
        (head, body): (&Hash, &str),
    ) -> Sql<()> {
        let kept_since = kept_since(flow).map(|at| at.0);
        self.run(
            "INSERT INTO ended (tenant, task, project, ended_at, head, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (tenant, task) DO UPDATE
             SET ended_at = excluded.ended_at, head = excluded.head, body = excluded.body",
            params![tenant, int(flow.id.0), flow.project.as_str(), kept_since, head, body],
        )
    }

    pub(super) fn lease(&mut self, tenant: i64, task: TaskId, lease: &Lease) -> Sql<()> {
        self.run(
            "INSERT INTO leases (tenant, task, attempt, holder, nonce, expires_at, length, heard)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                tenant,
                int(task.0),
                lease.attempt,
                lease.holder.as_str(),
                lease.nonce.0.to_be_bytes(),
                lease.expires_at.0,
                int(lease.length.0),
                int(lease.heard)
            ],
        )
    }

    pub(super) fn renewal(&mut self, tenant: i64, task: TaskId, lease: &Lease) -> Sql<()> {
        self.run(
            "UPDATE leases SET expires_at = ?3, length = ?4, heard = ?5
             WHERE tenant = ?1 AND task = ?2",
            params![tenant, int(task.0), lease.expires_at.0, int(lease.length.0), int(lease.heard)],
        )
    }

    pub(super) fn drop_lease(&mut self, tenant: i64, task: TaskId) -> Sql<()> {
        let sql = "DELETE FROM leases WHERE tenant = ?1 AND task = ?2";
        self.run(sql, params![tenant, int(task.0)])
    }

    pub(super) fn record(
        &mut self,
        tenant: i64,
        flow: &Flow,
        (record, body): (&Past, &str),
    ) -> Sql<()> {
        let (task, version) = (int(flow.id.0), int(flow.version));
        match record {
            Past::Attempt(row) => self.run(
                "INSERT INTO attempts (tenant, task, number, run, version, principal, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![tenant, task, row.number, row.run, version, row.holder.as_str(), body],
            ),
            Past::Run(row) => self.run(
                "INSERT INTO runs (tenant, task, number, version, body)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![tenant, task, row.number, version, body],
            ),
            Past::Checkpoint(row) => self.run(
                "INSERT INTO checkpoints (tenant, task, number, run, version, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![tenant, task, row.number, row.run, version, body],
            ),
        }
    }

    /// Commands of one order may declare the same dependency twice: it is there once.
    pub(super) fn edge(&mut self, tenant: i64, task: TaskId, on: TaskId, add: bool) -> Sql<()> {
        let sql = if add {
            "INSERT OR IGNORE INTO edges (tenant, task, on_task) VALUES (?1, ?2, ?3)"
        } else {
            "DELETE FROM edges WHERE tenant = ?1 AND task = ?2 AND on_task = ?3"
        };
        self.run(sql, params![tenant, int(task.0), int(on.0)])
    }

    /// Writes a pool, or forgets one that says nothing any more.
    pub(super) fn pool(&mut self, tenant: i64, name: &PoolName, pool: &Pool) -> Sql<()> {
        if pool.is_idle() {
            let sql = "DELETE FROM pools WHERE tenant = ?1 AND name = ?2";
            return self.run(sql, params![tenant, json(name)]);
        }
        self.run(
            "INSERT INTO pools (tenant, name, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant, name) DO UPDATE SET body = excluded.body",
            params![tenant, json(name), json(pool)],
        )
    }

    pub(super) fn project(&mut self, tenant: i64, project: &Project) -> Sql<()> {
        self.run(
            "INSERT INTO projects (tenant, name, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant, name) DO UPDATE SET body = excluded.body",
            params![tenant, project.id.as_str(), json(project)],
        )
    }

    pub(super) fn drop_project(&mut self, tenant: i64, project: &ProjectId) -> Sql<()> {
        let sql = "DELETE FROM projects WHERE tenant = ?1 AND name = ?2";
        self.run(sql, params![tenant, project.as_str()])
    }

    pub(super) fn records_head(&mut self, tenant: i64, version: u64, head: &Hash) -> Sql<()> {
        let sql = "UPDATE tenants SET records_version = ?2, records_head = ?3 WHERE id = ?1";
        self.run(sql, params![tenant, int(version), head])
    }

    pub(super) fn reaction(&mut self, id: i64, tenant: i64, reaction: &Reaction) -> Sql<()> {
        let sql = "INSERT INTO reactions (id, tenant, body) VALUES (?1, ?2, ?3)";
        self.run(sql, params![id, tenant, json(reaction)])
    }

    pub(super) fn drop_reaction(&mut self, id: i64) -> Sql<()> {
        self.run("DELETE FROM reactions WHERE id = ?1", params![id])
    }

    /// A task that has ended, with the head of its chain.
    pub(super) fn find_ended(&self, tenant: i64, task: TaskId) -> Sql<Option<(Flow, Hash)>> {
        let sql = "SELECT body, head FROM ended WHERE tenant = ?1 AND task = ?2";
        let row = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![tenant, int(task.0)], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Hash>(1)?))
            })
            .optional()?;
        row.map(|(body, head)| Ok((parse(&body)?, head))).transpose()
    }

    /// Tasks of a project that ended by a time and are not put away yet, the oldest first.
    pub(super) fn to_archive(
        &self,
        tenant: i64,
        project: &ProjectId,
        ended_by: Timestamp,
        count: usize,
    ) -> Sql<Vec<(Timestamp, TaskId)>> {
        let sql =
            "SELECT ended_at, task FROM ended WHERE tenant = ?1 AND project = ?2 AND ended_at <= ?3
                   ORDER BY ended_at, task LIMIT ?4";
        let mut found = self.conn.prepare_cached(sql)?;
        let rows = found
            .query_map(params![tenant, project.as_str(), ended_by.0, int(count as u64)], |row| {
                Ok((Timestamp(row.get(0)?), TaskId(nat(row.get(1)?))))
            })?;
        rows.collect()
    }

    pub(super) fn find_brief(&self, tenant: i64, task: TaskId) -> Sql<Option<Brief>> {
        let sql = "SELECT body FROM briefs WHERE tenant = ?1 AND task = ?2";
        let body: Option<String> = self
            .conn
            .prepare_cached(sql)?
            .query_row(params![tenant, int(task.0)], |row| row.get(0))
            .optional()?;
        body.map(|body| parse(&body)).transpose()
    }

    pub(super) fn children(&self, tenant: i64, parent: TaskId) -> Sql<Vec<TaskId>> {
        let sql = "SELECT task FROM briefs WHERE tenant = ?1 AND parent = ?2";
        let mut found = self.conn.prepare_cached(sql)?;
        let rows =
            found.query_map(params![tenant, int(parent.0)], |row| Ok(TaskId(nat(row.get(0)?))))?;
        rows.collect()
    }

    /// Writes a seal, unless another one came between: it would not follow on that one.
    pub(super) fn seal(&mut self, tenant: i64, seal: &Seal) -> Sql<()> {
        self.run(
            "INSERT INTO seals (tenant, up_to, digest, key, signature)
             SELECT ?1, ?2, ?3, ?4, ?5
             WHERE ?6 = (SELECT coalesce(max(up_to), 0) FROM seals WHERE tenant = ?1)",
            params![
                tenant,
                int(seal.up_to),
                seal.digest,
                seal.key,
                seal.signature,
                int(seal.after)
            ],
        )
    }
}

/// A lease as it is stored.
pub(super) fn lease_of(row: &rusqlite::Row<'_>, from: usize) -> Sql<Option<Lease>> {
    let Some(attempt) = row.get::<_, Option<u32>>(from)? else { return Ok(None) };
    let holder: String = row.get(from + 1)?;
    let nonce: [u8; 16] = row.get(from + 2)?;
    let bad = |_| rusqlite::Error::InvalidQuery;
    Ok(Some(Lease {
        attempt,
        holder: PrincipalId::new(&holder).map_err(bad)?,
        nonce: Nonce(u128::from_be_bytes(nonce)),
        expires_at: Timestamp(row.get(from + 3)?),
        length: Millis(nat(row.get(from + 4)?)),
        heard: nat(row.get(from + 5)?),
    }))
}
