//! The role that readers act as: one for each database, which sees columns without secrets, and of
//! those the rows of one tenant.

use std::collections::BTreeSet;

use tokio_postgres::error::SqlState;

use super::OpenError;
use super::migrate::{BOUNDS, LOCK};
use super::trouble::Trouble;
use super::wire::{Conn, params};

/// What it may see. Nothing that opens anything is here: no nonce of a lease, no verifier of a key,
/// no salt of an entry.
pub(super) const READABLE: [(&str, &[&str]); 13] = [
    ("tenants", &["id", "name", "floor", "position", "last_at", "records_version", "records_head"]),
    ("projects", &["tenant", "name", "body"]),
    ("briefs", &["tenant", "task", "project", "parent", "version", "body"]),
    (
        "flows",
        &[
            "tenant", "task", "project", "stage", "version", "live", "lane", "probe", "ready_at",
            "due_at", "held", "epic", "ended_at", "head", "body",
        ],
    ),
    ("leases", &["tenant", "task", "attempt", "holder", "expires_at", "length", "heard"]),
    ("runs", &["tenant", "task", "number", "version", "body"]),
    ("attempts", &["tenant", "task", "number", "run", "version", "principal", "body"]),
    ("checkpoints", &["tenant", "task", "number", "run", "version", "body"]),
    ("edges", &["tenant", "task", "on_task"]),
    ("pools", &["tenant", "name", "shut_until", "body"]),
    ("keys", &["tenant", "id", "body", "used_at"]),
    (
        "events",
        &["tenant", "position", "task", "version", "at", "principal", "actor", "payload", "link"],
    ),
    (
        "requests",
        &[
            "tenant",
            "principal",
            "key",
            "fingerprint",
            "at",
            "task",
            "entry_task",
            "entry",
            "attempt",
            "run",
        ],
    ),
];

/// How often the role is asked for: clusters know it by name, and two servers may make it at once.
const TRIES_MAX: usize = 5;

/// A name that administrators can tell before the first start. Names of databases are unique in a
/// cluster, and so are those of roles; too long a one is told by its digest.
const NAME: &str = "SELECT name, quote_ident(name) FROM (SELECT CASE
    WHEN octet_length(current_database()) <= 56 THEN current_database() || '_reader'
    ELSE 'reader_' || md5(current_database()) END AS name) n";
/// Whether the role is there, and whether we may act as it: from 16 on, whoever made a role is a
/// member of it without that.
const STATE: &str = "SELECT CASE WHEN current_setting('server_version_num')::int4 >= 160000
        THEN pg_has_role(current_user, r.oid, 'SET') ELSE pg_has_role(current_user, r.oid, 'MEMBER') END
    FROM pg_roles r WHERE r.rolname = $1";
const SEEN: &str = "SELECT c.relname::text, a.attname::text FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND pg_has_role(current_user, c.relowner, 'USAGE')
        AND has_column_privilege($1, c.oid, a.attnum, 'SELECT')";
const ENTERS: &str = "SELECT has_schema_privilege($1, current_schema(), 'USAGE'),
    quote_ident(current_schema())";

/// The role of a database.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) name: String,
    /// The name as it stands in a statement.
    quoted: String,
}

/// How what it sees differs from what it may see, as `table.column`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) missing: BTreeSet<String>,
    pub(super) excess: BTreeSet<String>,
    /// The schema that it cannot enter.
    shut: Option<String>,
}

impl Difference {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn damaged(trouble: impl Into<Trouble>) -> OpenError {
    OpenError::Damaged(trouble.into().told().to_string())
}

impl Reader {
    /// What it is called here.
    pub(super) async fn of(conn: &mut Conn) -> Result<Self, OpenError> {
        let rows = conn.query(NAME, vec![]).await.map_err(damaged)?;
        let row = rows.first().ok_or(OpenError::NotBaton)?;
        Ok(Self { name: row.get(0), quoted: row.get(1) })
    }

    /// Whether we may act as it; none if nobody has made it.
    pub(super) async fn state(&self, conn: &mut Conn) -> Result<Option<bool>, Trouble> {
        let rows = conn.query(STATE, params![self.name.clone()]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    /// Makes the role, unless it is there; tells whether this call did.
    pub(super) async fn make(&self, conn: &mut Conn) -> Result<bool, OpenError> {
        let mut last = String::new();
        for _ in 0..TRIES_MAX {
            let state = self.state(conn).await.map_err(damaged)?;
            let grant = format!("GRANT {} TO CURRENT_USER", self.quoted);
            let statement = match state {
                Some(true) => return Ok(false),
                Some(false) => grant,
                None => format!("CREATE ROLE {} NOLOGIN; {grant}", self.quoted),
            };
            // Both at once: statements that are sent together are one transaction.
            match conn.client.batch_execute(&statement).await {
                Ok(()) => return Ok(state.is_none()),
                Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                    return Err(OpenError::NoRole { name: self.quoted.clone() });
                }
                Err(error) => last = Trouble::from(error).told().to_string(),
            }
        }
        Err(OpenError::Damaged(last))
    }

    /// Takes away a role that sees nothing any more.
    pub(super) async fn unmake(&self, conn: &mut Conn) -> Result<(), OpenError> {
        conn.client.batch_execute(&format!("DROP ROLE {}", self.quoted)).await.map_err(damaged)
    }

    /// How what it sees differs from what it may see.
    pub(super) async fn difference(&self, conn: &mut Conn) -> Result<Difference, Trouble> {
        let name = || params![self.name.clone()];
        let seen = conn.query(SEEN, name()).await?;
        let seen: BTreeSet<String> = seen
            .iter()
            .map(|row| format!("{}.{}", row.get::<_, &str>(0), row.get::<_, &str>(1)))
            .collect();
        let columns = |(table, columns): &(&str, &[&str])| -> Vec<String> {
            columns.iter().map(|column| format!("{table}.{column}")).collect()
        };
        let may: BTreeSet<String> = READABLE.iter().flat_map(columns).collect();
        let enters = conn.query(ENTERS, name()).await?;
        let shut = enters.first().filter(|row| !row.get::<_, bool>(0)).map(|row| row.get(1));
        Ok(Difference {
            missing: may.difference(&seen).cloned().collect(),
            excess: seen.difference(&may).cloned().collect(),
            shut,
        })
    }

    /// Lets it see what it may, and nothing else. A copy brings no rights back, so that every start
    /// looks; nothing is written where all is right.
    pub(super) async fn grant(&self, conn: &mut Conn) -> Result<(), OpenError> {
        if self.difference(conn).await.map_err(damaged)?.is_none() {
            return Ok(());
        }
        conn.client.batch_execute("BEGIN").await.map_err(damaged)?;
        conn.client.batch_execute(BOUNDS).await.map_err(damaged)?;
        conn.query(LOCK, vec![]).await.map_err(damaged)?;
        let statements = self.grants(&self.difference(conn).await.map_err(damaged)?);
        conn.client.batch_execute(&statements).await.map_err(damaged)?;
        conn.client.batch_execute("COMMIT").await.map_err(damaged)
    }

    fn grants(&self, difference: &Difference) -> String {
        let mut statements = vec![];
        let role = &self.quoted;
        statements.extend(
            difference
                .shut
                .iter()
                .map(|schema| format!("GRANT USAGE ON SCHEMA {schema} TO {role}")),
        );
        let table_of = |column: &String| column.split('.').next().unwrap_or_default().to_owned();
        let tables: BTreeSet<String> = difference.excess.iter().map(table_of).collect();
        statements.extend(tables.iter().map(|table| format!("REVOKE ALL ON {table} FROM {role}")));
        statements.extend(READABLE.iter().map(|(table, columns)| {
            format!("GRANT SELECT ({}) ON {table} TO {role}", columns.join(", "))
        }));
        statements.join(";\n")
    }
}
