//! What a failed statement means for the orders that wait for it.

use tokio_postgres::error::SqlState;

use crate::Error;

/// Why a conversation with the database ended early.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// Two transactions stood in each other's way and this one was undone: the same again may work.
    Again(String),
    /// Somebody else did meanwhile what a unique row stands for: the same again finds it done.
    Raced(String),
    /// There is no room.
    Full,
    /// A lock or a statement took too long, or there are too many connections; nothing happened.
    Busy(String),
    /// The connection is gone.
    Lost(String),
    /// What was prepared on this connection no longer fits: the same on another one may work.
    Stale(String),
    /// The database's clock was set. What that means must be settled before anything is judged.
    ClockSet,
    /// One of the orders cannot be carried out.
    Broken(String),
}

impl Trouble {
    /// What an order is told that was not carried out because of it.
    pub(super) fn told(&self) -> Error {
        match self {
            Self::Full => Error::DiskFull,
            Self::Again(why) | Self::Busy(why) | Self::Stale(why) => {
                tracing::warn!(why, "the database is too busy");
                Error::Overloaded
            }
            Self::ClockSet => Error::Overloaded,
            Self::Lost(why) => Error::Stopped(format!("the database cannot be reached: {why}")),
            Self::Raced(why) | Self::Broken(why) => Error::Internal(why.clone()),
        }
    }

    /// What a reader is told.
    pub(super) fn read(self) -> Error {
        match self {
            Self::Busy(_) | Self::ClockSet => Error::Overloaded,
            Self::Full => Error::Read("the disk of the database is full".into()),
            Self::Again(why)
            | Self::Raced(why)
            | Self::Lost(why)
            | Self::Stale(why)
            | Self::Broken(why) => Error::Read(why),
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return if error.is_closed() || error.code().is_none() {
                Self::Lost(deepest(&error))
            } else {
                Self::Broken(deepest(&error))
            };
        };
        let why = format!("{} ({})", db.message(), db.code().code());
        let code = db.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        {
            Self::Again(why)
        } else if *code == SqlState::UNIQUE_VIOLATION {
            Self::Raced(why)
        } else if is_stale(code) {
            Self::Stale(why)
        } else if *code == SqlState::DISK_FULL {
            Self::Full
        } else if is_busy(code) {
            Self::Busy(why)
        } else if is_lost(code) {
            Self::Lost(why)
        } else {
            Self::Broken(why)
        }
    }
}

/// Plans are made once for a connection; somebody may change the tables meanwhile.
fn is_stale(code: &SqlState) -> bool {
    [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME].contains(code)
}

fn is_busy(code: &SqlState) -> bool {
    [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::OUT_OF_MEMORY,
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
    ]
    .contains(code)
}

/// A server that goes away, or that no longer takes writes, is not the one to talk to.
fn is_lost(code: &SqlState) -> bool {
    let class = code.code();
    class.starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code)
}

/// The innermost cause, which is the one that tells something.
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
