//! What a hand-written queue does in a second: the yardstick of `baton bench --store postgres`. Its own
//! two tables, the usual claim by `SKIP LOCKED`, one entry per change, and nothing else: no rules, no
//! leases that end, no chain, no positions without gaps. `pgbench` runs it.

use std::fmt::Display;

use baton_domain::ids::TenantId;
use tokio_postgres::Client;

use super::address::Address;

/// One claim and one completion, each a transaction of its own and one round trip.
pub const ONE_BY_ONE: &str = "\
WITH next AS (SELECT id FROM yardstick.tasks WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED), \
claimed AS (UPDATE yardstick.tasks t SET state = 1, holder = :client_id, \
expires_at = now() + interval '5 minutes' FROM next WHERE t.id = next.id RETURNING t.id) \
INSERT INTO yardstick.events (task, at, body) SELECT id, now(), convert_to(repeat('x', 300), 'UTF8') \
FROM claimed RETURNING task \\gset
WITH done AS (UPDATE yardstick.tasks SET state = 2, holder = NULL, expires_at = NULL \
WHERE id = :task AND state = 1 RETURNING id) \
INSERT INTO yardstick.events (task, at, body) SELECT id, now(), convert_to(repeat('x', 300), 'UTF8') \
FROM done;
";

/// The same ten at a time.
pub const IN_TENS: &str = "\
WITH next AS (SELECT id FROM yardstick.tasks WHERE state = 0 ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED), \
claimed AS (UPDATE yardstick.tasks t SET state = 1, holder = :client_id, \
expires_at = now() + interval '5 minutes' FROM next WHERE t.id = next.id RETURNING t.id), \
told AS (INSERT INTO yardstick.events (task, at, body) \
SELECT id, now(), convert_to(repeat('x', 300), 'UTF8') FROM claimed RETURNING task) \
SELECT array_agg(task)::text AS tasks FROM told \\gset
WITH done AS (UPDATE yardstick.tasks SET state = 2, holder = NULL, expires_at = NULL \
WHERE id = ANY (:tasks::bigint[]) AND state = 1 RETURNING id) \
INSERT INTO yardstick.events (task, at, body) SELECT id, now(), convert_to(repeat('x', 300), 'UTF8') \
FROM done;
";

/// Bodies are as long as Baton's own.
const LAY_OUT: &str = "DROP SCHEMA IF EXISTS yardstick CASCADE;
    CREATE SCHEMA yardstick;
    CREATE TABLE yardstick.tasks (
        id         bigint PRIMARY KEY,
        state      smallint NOT NULL DEFAULT 0,
        holder     int,
        expires_at timestamptz,
        body       bytea NOT NULL
    ) WITH (fillfactor = 80);
    CREATE INDEX ON yardstick.tasks (id) WHERE state = 0;
    CREATE TABLE yardstick.events (
        id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        task bigint NOT NULL,
        at   timestamptz NOT NULL,
        body bytea NOT NULL
    );";
const FILL: &str = "INSERT INTO yardstick.tasks (id, body)
    SELECT g, convert_to(repeat('x', 560), 'UTF8') FROM generate_series(1, $1::int8) g";
const SETTLE: &str = "VACUUM (ANALYZE)";
const CLEAR: &str = "DROP SCHEMA IF EXISTS yardstick CASCADE";
const ABOUT: &str = "SELECT 'Postgres ' || current_setting('server_version') || ', fsync='
    || current_setting('fsync') || ', synchronous_commit=' || current_setting('synchronous_commit')";
const TABLES: &str = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
const WRITE: &str = "INSERT INTO yardstick.events (task, at, body) VALUES (0, now(), '')";

/// A finished task to copy, how far the tenant is, and how many entries the task has.
const MODEL: &str = "SELECT t.id, b.last, t.position, m.task,
        (SELECT count(*) FROM events e WHERE e.tenant = t.id AND e.task = m.task)
    FROM tenants t JOIN births b ON b.tenant = t.id
    CROSS JOIN LATERAL (SELECT task FROM flows f WHERE f.tenant = t.id AND NOT f.live
        ORDER BY task LIMIT 1) m
    WHERE t.name = $1";
const COPIES: [&str; 4] = [
    "INSERT INTO briefs (tenant, task, project, parent, version, body)
     SELECT tenant, $3 + g, project, parent, version, body
     FROM briefs, generate_series(1, $4::int8) g WHERE tenant = $1 AND task = $2",
    "INSERT INTO flows (tenant, task, project, stage, version, live, lane, probe, ready_at, due_at,
        held, epic, ended_at, head, body)
     SELECT tenant, $3 + g, project, stage, version, live, lane, probe, ready_at, due_at, held, epic,
        ended_at, head, body
     FROM flows, generate_series(1, $4::int8) g WHERE tenant = $1 AND task = $2",
    "INSERT INTO runs (tenant, task, number, version, body)
     SELECT tenant, $3 + g, number, version, body
     FROM runs, generate_series(1, $4::int8) g WHERE tenant = $1 AND task = $2",
    "INSERT INTO attempts (tenant, task, number, run, version, principal, body)
     SELECT tenant, $3 + g, number, run, version, principal, body
     FROM attempts, generate_series(1, $4::int8) g WHERE tenant = $1 AND task = $2",
];
const COPY_EVENTS: &str = "INSERT INTO events (tenant, position, task, version, at, principal, actor,
        salt, payload, digest, wrote, link)
    SELECT tenant, $5 + (g - 1) * $6 + version, $3 + g, version, at, principal, actor, salt, payload,
        digest, wrote, link
    FROM events, generate_series(1, $4::int8) g WHERE tenant = $1 AND task = $2";
const MOVE_ON: &str = "UPDATE tenants SET position = position + $2 WHERE id = $1";
const MOVE_BIRTHS: &str = "UPDATE births SET last = last + $2 WHERE tenant = $1";

/// Why the yardstick could not be laid.
#[derive(Debug, thiserror::Error)]
#[error("the yardstick: {0}")]
pub struct Failed(String);

/// A database to measure in.
pub struct Bare {
    client: Client,
}

fn failed(error: impl Display) -> Failed {
    Failed(error.to_string())
}

impl Bare {
    /// Connects.
    pub async fn open(url: &str) -> Result<Self, Failed> {
        let address = Address::read(url).map_err(failed)?;
        let (client, connection) = address.connect().await.map_err(failed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the yardstick lost its connection");
            }
        });
        Ok(Self { client })
    }

    /// What is measured: version, and whether what is committed is on disk.
    pub async fn about(&self) -> Result<String, Failed> {
        Ok(self.client.query_one(ABOUT, &[]).await.map_err(failed)?.get(0))
    }

    /// Whether nobody keeps anything here: a bench writes a great deal.
    pub async fn is_empty(&self) -> Result<bool, Failed> {
        let tables: i64 = self.client.query_one(TABLES, &[]).await.map_err(failed)?.get(0);
        Ok(tables == 0)
    }

    /// Makes the hand-written queue anew, with so many tasks waiting.
    pub async fn lay_out(&self, tasks: u64) -> Result<(), Failed> {
        self.client.batch_execute(LAY_OUT).await.map_err(failed)?;
        let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
        self.client.execute(FILL, &[&tasks]).await.map_err(failed)?;
        self.settle().await
    }

    /// One small durable write.
    pub async fn write(&self) -> Result<(), Failed> {
        self.client.execute(WRITE, &[]).await.map(drop).map_err(failed)
    }

    /// Brings statistics and free space up to date, as they are in a database that has been running.
    pub async fn settle(&self) -> Result<(), Failed> {
        self.client.batch_execute(SETTLE).await.map_err(failed)
    }

    /// Takes the hand-written queue away.
    pub async fn clear(&self) -> Result<(), Failed> {
        self.client.batch_execute(CLEAR).await.map_err(failed)
    }

    /// Copies a finished task of a store so many times, with everything that belongs to it: what a
    /// store looks like that has been at work for long, its chains apart.
    pub async fn finish(&self, tenant: &TenantId, count: u64) -> Result<(), Failed> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let row = self.client.query_one(MODEL, &[&tenant.as_str()]).await.map_err(failed)?;
        let numbers: [i64; 5] = [row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)];
        let [tenant, born, position, model, entries] = numbers;
        for copy in COPIES {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&tenant, &model, &born, &count];
            self.client.execute(copy, &params).await.map_err(failed)?;
        }
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&tenant, &model, &born, &count, &position, &entries];
        self.client.execute(COPY_EVENTS, &params).await.map_err(failed)?;
        let added = count * entries;
        self.client.execute(MOVE_ON, &[&tenant, &added]).await.map_err(failed)?;
        self.client.execute(MOVE_BIRTHS, &[&tenant, &count]).await.map_err(failed)?;
        self.settle().await
    }
}
