//! Whether a database can be trusted with anything, and everything that is done before the first
//! order: none of it is done to a database that cannot.

use super::address::Address;
use super::connections::connect;
use super::trouble::{Trouble, deepest};
use super::wire::Conn;
use super::{OpenError, Unfinished, tls};

/// The oldest version that this is tested with and that is still looked after.
const VERSION_MIN: i32 = 140_000;

const ABOUT: &str = "SELECT current_setting('server_version_num')::int4, pg_is_in_recovery(),
    current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('server_encoding'),
    current_setting('transaction_read_only')";

/// Whether what is committed under this setting is on disk before it is answered.
pub(super) fn is_durable(synchronous_commit: &str) -> bool {
    matches!(synchronous_commit, "on" | "remote_apply")
}

/// Connects, and refuses a database that would lose what it says it kept.
pub(super) async fn reach(address: &Address, careless: bool) -> Result<Conn, OpenError> {
    let mut conn = match connect(address).await {
        Ok(conn) => conn,
        Err(trouble) => return Err(refused(address, &trouble).await),
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
async fn refused(address: &Address, trouble: &Trouble) -> OpenError {
    let why = match address.connect().await {
        Ok(_) => return OpenError::Unreachable(format!("{trouble:?}")),
        Err(error) => error,
    };
    if let Some(why) = tls::why(&why) {
        return OpenError::Tls(why);
    }
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
            Self::Address(_) => "unset BATON_DATABASE_URL",
            Self::Unreachable(_) => "pg_isready -d \"$BATON_DATABASE_URL\"",
            Self::Password | Self::TooOld(_) | Self::Damaged(_) | Self::Tls(_) => ASK,
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
            Self::NoRole { .. } => "sudo -u postgres createuser --no-login baton_reader",
            Self::Unfinished(Unfinished::Copy) => "baton restore FILE",
            Self::Unfinished(Unfinished::Life) => "baton restore --here",
            Self::Migration(..) => "baton serve",
        }
    }
}
