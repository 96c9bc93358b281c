//! Whether a database can be trusted with anything, and everything that is done before the first
//! order: none of it is done to a database that cannot.

use std::net::IpAddr;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};

use super::OpenError;
use super::connections::connect;
use super::trouble::{Trouble, deepest};
use super::wire::Conn;

/// The oldest version that this is tested with and that is still looked after.
const VERSION_MIN: i32 = 140_000;

const ABOUT: &str = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(),
    current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('server_encoding'),
    current_setting('transaction_read_only')";

/// What a server is told who connects, directly or through a pooler.
const DIRECT: &str = "baton";
const POOLED: &str = "baton, through a pooler";
/// What an address says if a pooler is between that lends a connection for one transaction at a time.
/// It is not guessed: statements that two servers prepared under the same name would be mixed up.
const POOLER: &str = "pooler=transaction";

/// Whether what is committed under this setting is on disk before it is answered.
pub(super) fn is_durable(synchronous_commit: &str) -> bool {
    matches!(synchronous_commit, "on" | "remote_apply")
}

/// Reads an address. Nothing of it is ever repeated, for it may hold a password.
pub(super) fn config(url: &str) -> Result<Config, OpenError> {
    let unreadable = || {
        let form = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with % before odd signs";
        OpenError::Address(form.into())
    };
    let (url, pooled) = without_pooler(url);
    let mut config: Config = url.parse().map_err(|_| unreadable())?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(unreadable());
    }
    refuse_plain_text(&config)?;
    config.application_name(if pooled { POOLED } else { DIRECT });
    config.keepalives_idle(std::time::Duration::from_secs(30));
    // A database that went away without a word is noticed, not waited for.
    config.tcp_user_timeout(std::time::Duration::from_secs(20));
    Ok(config)
}

/// The address as others understand it, and whether a pooler is between.
fn without_pooler(url: &str) -> (String, bool) {
    let Some((place, query)) = url.split_once('?') else { return (url.to_owned(), false) };
    let rest: Vec<_> = query.split('&').filter(|word| *word != POOLER).collect();
    let pooled = rest.len() < query.split('&').count();
    (if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) }, pooled)
}

/// Whether connections go through a pooler, as their address said.
pub(super) fn is_pooled(config: &Config) -> bool {
    config.get_application_name() == Some(POOLED)
}

/// A password must not cross a network in plain text unless somebody said so.
fn refuse_plain_text(config: &Config) -> Result<(), OpenError> {
    let is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let ip: Option<IpAddr> = name.parse().ok();
            name == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
        }
    };
    let near = config.get_hosts().iter().all(is_local)
        && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
    let mode = config.get_ssl_mode();
    let said_so = mode == SslMode::Disable || (near && mode == SslMode::Prefer);
    if said_so { Ok(()) } else { Err(OpenError::NoTls) }
}

/// Connects, and refuses a database that would lose what it says it kept.
pub(super) async fn reach(config: &Config, careless: bool) -> Result<Conn, OpenError> {
    let mut conn = match connect(config).await {
        Ok(conn) => conn,
        Err(trouble) => return Err(refused(config, &trouble).await),
    };
    let broken = |trouble: Trouble| OpenError::Unreachable(format!("{trouble:?}"));
    let about = conn.query(ABOUT, vec![]).await.map_err(broken)?;
    let Some(row) = about.first() else {
        return Err(OpenError::Unreachable("it says nothing of itself".into()));
    };
    if row.get::<_, i32>(0) < VERSION_MIN {
        let major = row.get::<_, i32>(0) / 10_000;
        return Err(OpenError::TooOld(major));
    }
    if row.get::<_, bool>(1) || row.get::<_, &str>(6) == "on" {
        return Err(OpenError::Standby);
    }
    if !is_durable(row.get(2)) {
        return Err(OpenError::Careless(format!("synchronous_commit = {}", row.get::<_, &str>(2))));
    }
    for (at, name) in [(3, "fsync"), (4, "full_page_writes")] {
        if !careless && row.get::<_, &str>(at) != "on" {
            return Err(OpenError::Careless(format!("{name} = {}", row.get::<_, &str>(at))));
        }
    }
    if row.get::<_, &str>(5) != "UTF8" {
        return Err(OpenError::Encoding(row.get(5)));
    }
    Ok(conn)
}

/// Why nobody was let in, told apart as far as the server tells.
async fn refused(config: &Config, trouble: &Trouble) -> OpenError {
    let why = match config.connect(NoTls).await {
        Ok(_) => return OpenError::Unreachable(format!("{trouble:?}")),
        Err(error) => error,
    };
    match why.code().map(tokio_postgres::error::SqlState::code) {
        Some("28P01" | "28000") => OpenError::Password,
        Some("3D000") => OpenError::NoDatabase,
        Some(_) | None => OpenError::Unreachable(deepest(&why)),
    }
}

/// Says whether anybody answers, and as whom.
const ASK: &str = "psql \"$BATON_DATABASE_URL\" -c 'SELECT version()'";

impl OpenError {
    /// A command that helps, or that tells more.
    #[must_use]
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Address(_) | Self::NoTls => "unset BATON_DATABASE_URL",
            Self::Unreachable(_) => "pg_isready -d \"$BATON_DATABASE_URL\"",
            Self::Password | Self::TooOld(_) | Self::Damaged(_) => ASK,
            Self::NoDatabase => "createdb --maintenance-db=\"$BATON_DATABASE_URL\" baton",
            Self::Standby => {
                "psql \"$BATON_DATABASE_URL\" -c 'SELECT sender_host FROM pg_stat_wal_receiver'"
            }
            Self::Careless(_) => {
                "psql \"$BATON_DATABASE_URL\" -c 'ALTER SYSTEM RESET synchronous_commit' \
                 -c 'ALTER SYSTEM RESET fsync' -c 'SELECT pg_reload_conf()'"
            }
            Self::Encoding(_) => "createdb --encoding=UTF8 --template=template0 baton",
            Self::NotBaton => "psql \"$BATON_DATABASE_URL\" -c '\\dt'",
            Self::Newer { .. } => "which -a baton",
            Self::WrongPepper => "find / -name pepper -size -2k 2>/dev/null",
            Self::NoRole => "psql \"$BATON_DATABASE_URL\" -c 'CREATE ROLE baton_reader NOLOGIN'",
            Self::Migration(..) => "baton serve",
        }
    }
}
