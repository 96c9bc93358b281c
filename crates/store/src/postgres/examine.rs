//! What can be wrong with a database besides what keeps a server from starting. Looking changes
//! nothing.

use std::time::Duration;

use baton_domain::time::Timestamp;

use super::address::{Address, NAME};
use super::backup::{Edition, Error, edition};
use super::connections::connect;
use super::readers::{Difference, Reader};
use super::trouble::Trouble;
use super::wire::{Conn, params};
use super::{CONNECTIONS_MAX, Chance, open};

/// How long a second connection may be waited for: a pooler that lends its only one gives none.
const SECOND_WITHIN: Duration = Duration::from_secs(3);

const STATE: &str = "SELECT current_setting('server_version'),
    (extract(epoch FROM clock_timestamp()) * 1000)::int8,
    current_setting('synchronous_standby_names') <> '', quote_ident(current_user)";
/// What the cluster, the database and the user may still open. Rows of others are seen without
/// saying what they are; those that belong to a database are connections.
const LEFT: &str = "SELECT least(
        current_setting('max_connections')::int8
            - current_setting('superuser_reserved_connections')::int8
            - coalesce(current_setting('reserved_connections', true), '0')::int8
            - (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL),
        (SELECT nullif(datconnlimit, -1) - (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid)
            FROM pg_database d WHERE d.datname = current_database()),
        (SELECT nullif(rolconnlimit, -1) - (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid)
            FROM pg_roles r WHERE r.rolname = current_user))::int8,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = $1 AND pid <> pg_backend_pid())";
/// What follows this server, how many of those are waited for, and how far the last one is behind;
/// whoever may not look at others sees that they are there.
const STANDBYS: &str = "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
    count(*) FILTER (WHERE sync_state IS NULL),
    (extract(epoch FROM max(replay_lag)) * 1000)::int8 FROM pg_stat_replication";
const SAY: &str = "SELECT set_config('baton.probe', $1, false)";
const HEAR: &str = "SELECT coalesce(current_setting('baton.probe', true), '')";
const BEGIN: &str = "BEGIN";
const ROLLBACK: &str = "ROLLBACK";

/// Commands of an administrator, for a shell: no commit waits for a standby any more.
pub const WAIT_FOR_NOBODY: &str = "sudo -u postgres psql \
    -c 'ALTER SYSTEM RESET synchronous_standby_names' -c 'SELECT pg_reload_conf()'";
/// Every commit waits for a standby.
pub const WAIT_FOR_ONE: &str = "sudo -u postgres psql \
    -c \"ALTER SYSTEM SET synchronous_standby_names = '*'\" -c 'SELECT pg_reload_conf()'";
/// Who follows, who of them is waited for, and how far they are behind.
pub const SHOW_STANDBYS: &str = "sudo -u postgres psql \
    -c 'SELECT application_name, sync_state, replay_lag FROM pg_stat_replication'";
/// More connections may be opened.
pub const MORE_CONNECTIONS: &str = "sudo -u postgres psql \
    -c 'ALTER SYSTEM SET max_connections = 200' && sudo systemctl restart postgresql";

/// What a database is like.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is known of its tables.
    pub edition: Edition,
    /// The version of the server.
    pub server: String,
    /// Who we are there, as it stands in a statement.
    pub user: String,
    /// What its clock says.
    pub now: Timestamp,
    /// Connections that may still be opened.
    pub connections_left: i64,
    /// Connections that servers of ours have open, or whoever else calls itself so.
    pub connections_ours: i64,
    /// Connections that one server opens at most.
    pub connections_max: i64,
    /// Who reads.
    pub readers: Readers,
    /// Who follows.
    pub standbys: Standbys,
    /// Whether a pooler lends connections for one transaction at a time, and nobody said so.
    pub pooled_unsaid: bool,
}

/// The role of readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readers {
    /// What it is called.
    pub name: String,
    /// Whether it is there, and may be acted as.
    pub is_usable: bool,
    /// Columns that it should see and does not.
    pub missing: Vec<String>,
    /// Columns that it sees and should not.
    pub excess: Vec<String>,
}

/// Servers that follow this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standbys {
    /// Whether commits wait for any.
    pub are_named: bool,
    /// Those that are there.
    pub count: i64,
    /// Those that commits wait for.
    pub synchronous: i64,
    /// Those of which nothing may be seen.
    pub hidden: i64,
    /// How far the last one is behind, if that may be seen.
    pub behind_ms: Option<i64>,
}

impl Condition {
    /// The command by which an administrator makes the role of readers, and lets us act as it.
    #[must_use]
    pub fn make_readers(&self) -> String {
        let (name, user) = (&self.readers.name, &self.user);
        format!(
            "sudo -u postgres psql -c 'CREATE ROLE \"{name}\" NOLOGIN' -c 'GRANT \"{name}\" TO {user}'"
        )
    }
}

/// Looks at a database, which may be in use.
pub async fn examine(url: &str, chance: &mut Chance) -> Result<Condition, Error> {
    let address = Address::read(url)?;
    let mut conn = open::reach(&address, false).await?;
    let edition = edition(&mut conn).await?;
    let rows = conn.query(STATE, vec![]).await?;
    let row = rows.first().ok_or(Error::Damaged("it says nothing of itself".into()))?;
    let (server, now, are_named) = (row.get(0), Timestamp(row.get(1)), row.get(2));
    let user = row.get(3);
    let rows = conn.query(LEFT, params![NAME.to_owned()]).await?;
    let row = rows.first().ok_or(Error::Damaged("it says nothing of itself".into()))?;
    let (connections_left, connections_ours) = (row.get(0), row.get(1));
    let readers = readers(&mut conn, edition.version > 0).await?;
    let standbys = standbys(&mut conn, are_named).await?;
    let pooled_unsaid = !address.pooled && is_pooled(&mut conn, &address, chance).await?;
    Ok(Condition {
        edition,
        server,
        user,
        now,
        connections_left,
        connections_ours,
        connections_max: i64::try_from(CONNECTIONS_MAX).unwrap_or(i64::MAX),
        readers,
        standbys,
        pooled_unsaid,
    })
}

async fn readers(conn: &mut Conn, has_tables: bool) -> Result<Readers, Error> {
    let reader = Reader::of(conn).await?;
    let state = reader.state(conn).await?;
    // Nobody can tell what a role sees that is not there.
    let difference = match state {
        Some(_) if has_tables => reader.difference(conn).await?,
        Some(_) | None => Difference::default(),
    };
    Ok(Readers {
        name: reader.name,
        // Before the first start it may still be made.
        is_usable: state == Some(true) || !has_tables,
        missing: difference.missing.into_iter().collect(),
        excess: difference.excess.into_iter().collect(),
    })
}

async fn standbys(conn: &mut Conn, are_named: bool) -> Result<Standbys, Error> {
    let rows = conn.query(STANDBYS, vec![]).await?;
    Ok(rows.first().map_or_else(Standbys::default, |row| Standbys {
        are_named,
        count: row.get(0),
        synchronous: row.get(1),
        hidden: row.get(2),
        behind_ms: row.get(3),
    }))
}

/// Whether what one connection says is heard by another, or not by itself: then both are lent from
/// the same few, for one transaction at a time.
async fn is_pooled(conn: &mut Conn, address: &Address, chance: &mut Chance) -> Result<bool, Error> {
    let mut bytes = [0; 16];
    chance(&mut bytes);
    let word = format!("{:032x}", u128::from_be_bytes(bytes));
    conn.client.query(SAY, &[&word]).await.map_err(broken)?;
    let second = async {
        let other = connect(address).await?;
        other.client.batch_execute(BEGIN).await?;
        let heard: String = other.client.query_one(HEAR, &[]).await?.get(0);
        // The other one keeps what it was lent, so that we get something else if we are lent it.
        let own: String = conn.client.query_one(HEAR, &[]).await?.get(0);
        other.client.batch_execute(ROLLBACK).await?;
        Ok::<_, Trouble>((heard, own))
    };
    match tokio::time::timeout(SECOND_WITHIN, second).await {
        Ok(Ok((heard, own))) => Ok(heard == word || own != word),
        // Too few connections are another finding.
        Ok(Err(_)) => Ok(false),
        Err(_) => Ok(true),
    }
}

fn broken(error: tokio_postgres::Error) -> Error {
    Trouble::from(error).into()
}
