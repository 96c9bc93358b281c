//! The way back of a copy, and another life for a database that came back by other means. From the
//! first change to the last the database is marked, so that no server opens half of it; whoever was
//! interrupted does it again.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use baton_domain::scene::Lease;

use super::address::{Address, NAME};
use super::backup::{Error, walk_whole};
use super::connections::Connections;
use super::migrate::{self, BOUNDS, LOCK};
use super::pen::COMMIT;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Conn, Flush, params};
use super::{Chance, OpenError, Unfinished, open, tools};
use crate::chain::Audit;
use crate::rows::{int, nat};

/// Held by whoever restores, for as long as the connection lives: nobody clears the tables that
/// somebody else is filling.
const ALONE: &str = "SELECT pg_try_advisory_lock(1113683968, 7)";
/// How often it is looked whether servers are at work, and how long between: a second in all.
const LOOKS: usize = 11;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

const BEGIN: &str = "BEGIN";
const MARK: &str = "CREATE TABLE IF NOT EXISTS unfinished (what text NOT NULL)";
const SAY_WHAT: &str = "INSERT INTO unfinished (what)
    SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM unfinished)";
const UNMARK: &str = "DROP TABLE unfinished";
const SERVERS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()";
const INCARNATION: &str = "SELECT number FROM meta WHERE name = 'incarnation'";
const LIFE: &str = "UPDATE meta SET number = $1 WHERE name = 'incarnation'";
const FORFEIT: &str = "UPDATE leases SET expires_at = $1";
const UNWATCHED: &str = "DELETE FROM watched";
/// Tables that every copy of ours lists.
const IN_EVERY_COPY: [&str; 3] = ["meta", "flows", "seal_keys"];

/// A database that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Which life of it this is; claim tokens and cursors of others are dead.
    pub incarnation: u64,
    /// What was walked.
    pub audit: Audit,
}

/// A database that is about to come back: it has another life, is walked, and is still marked. It may
/// be opened by whoever says that it knows, to change what is in it.
pub struct Restoring {
    conn: Conn,
    what: Unfinished,
    restored: Restored,
}

impl Restoring {
    /// Brings a copy into a database without anything in it. If that fails, there is nothing in it
    /// again; if it is interrupted, the next one clears what is there.
    pub async fn begin(
        file: &Path,
        url: &str,
        chance: &mut Chance,
        trusted: Option<&[u8; 32]>,
    ) -> Result<Self, Error> {
        File::open(file).map_err(|error| Error::Io(file.into(), error))?;
        let (address, mut conn) = reach(url).await?;
        is_copy(file, &address).await?;
        alone(&mut conn).await?;
        mark(&mut conn, Unfinished::Copy).await?;
        match fill(&mut conn, &address, file, chance, trusted).await {
            Ok(restored) => Ok(Self { conn, what: Unfinished::Copy, restored }),
            Err(error) => {
                clear(&mut conn).await?;
                Err(error)
            }
        }
    }

    /// Gives a database another life that was brought back by other means, or copied.
    pub async fn begin_here(
        url: &str,
        chance: &mut Chance,
        trusted: Option<&[u8; 32]>,
    ) -> Result<Self, Error> {
        let (address, mut conn) = reach(url).await?;
        alone(&mut conn).await?;
        let again = mark(&mut conn, Unfinished::Life).await?;
        match look_at(&mut conn, &address, trusted).await {
            Ok(audit) => {
                let incarnation = renew(&mut conn, chance).await?;
                let restored = Restored { incarnation, audit };
                Ok(Self { conn, what: Unfinished::Life, restored })
            }
            Err(error) => {
                // Nothing was changed, unless by one before that was interrupted.
                if !again {
                    conn.query(UNMARK, vec![]).await?;
                }
                Err(error)
            }
        }
    }

    /// Takes the mark away: from here on servers may open it.
    pub async fn finish(mut self) -> Result<Restored, Error> {
        self.conn.query(UNMARK, vec![]).await?;
        Ok(self.restored)
    }

    /// Clears what came back of a copy; another life stays marked, to be given again.
    pub async fn give_up(mut self) -> Result<(), Error> {
        match self.what {
            Unfinished::Copy => clear(&mut self.conn).await,
            Unfinished::Life => Ok(()),
        }
    }
}

/// A connection that stays ours: what it holds would be lent on by a pooler, and never let go.
async fn reach(url: &str) -> Result<(Address, Conn), Error> {
    let address = Address::read(url)?;
    if address.pooled {
        return Err(Error::Pooled);
    }
    let conn = open::reach(&address, false).await?;
    Ok((address, conn))
}

async fn alone(conn: &mut Conn) -> Result<(), Error> {
    let rows = conn.query(ALONE, vec![]).await?;
    if rows.first().is_some_and(|row| row.get(0)) { Ok(()) } else { Err(Error::Busy) }
}

/// Marks a database that may be restored so, and tells whether it was marked already. What an
/// interrupted restore left is cleared first.
async fn mark(conn: &mut Conn, what: Unfinished) -> Result<bool, Error> {
    let broken = |error: tokio_postgres::Error| Error::from(Trouble::from(error));
    conn.client.batch_execute(BEGIN).await.map_err(broken)?;
    conn.client.batch_execute(BOUNDS).await.map_err(broken)?;
    conn.client.batch_execute(LOCK).await.map_err(broken)?;
    let before = migrate::unfinished(conn).await?;
    match (what, before) {
        (Unfinished::Copy, Some(Unfinished::Copy)) => migrate::empty(conn).await?,
        (Unfinished::Copy, None) => match migrate::beneath(conn).await {
            Ok(0) => {}
            Ok(_) | Err(OpenError::NotBaton | OpenError::Newer { .. }) => {
                return Err(Error::NotEmpty);
            }
            Err(error) => return Err(error.into()),
        },
        (Unfinished::Life, None | Some(Unfinished::Life)) => {
            if migrate::beneath(conn).await? == 0 {
                return Err(Error::Empty);
            }
        }
        (Unfinished::Copy, Some(other @ Unfinished::Life))
        | (Unfinished::Life, Some(other @ Unfinished::Copy)) => {
            return Err(OpenError::Unfinished(other).into());
        }
    }
    conn.client.batch_execute(MARK).await.map_err(broken)?;
    conn.client.query(SAY_WHAT, &[&what.word()]).await.map_err(broken)?;
    conn.client.batch_execute(COMMIT).await.map_err(broken)?;
    Ok(before.is_some())
}

/// Whether a marked database is in nobody's hands, and whole.
async fn look_at(
    conn: &mut Conn,
    address: &Address,
    trusted: Option<&[u8; 32]>,
) -> Result<Audit, Error> {
    for look in 0..LOOKS {
        let servers = conn.query(SERVERS, params![NAME.to_owned()]).await?;
        if servers.first().is_some_and(|row| row.get::<_, i64>(0) == 0) {
            return walked(address, trusted).await;
        }
        // A server that was just stopped needs a moment to be gone.
        if look + 1 < LOOKS {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    Err(Error::InUse)
}

async fn walked(address: &Address, trusted: Option<&[u8; 32]>) -> Result<Audit, Error> {
    let connections = Connections::new(address.clone(), 1);
    let mut reading = Reading::alone(&connections).await?;
    let audit = walk_whole(&mut reading, trusted).await?;
    reading.end().await;
    Ok(audit)
}

async fn clear(conn: &mut Conn) -> Result<(), Error> {
    Ok(migrate::empty(conn).await?)
}

/// Refuses what no backup of ours has made before anything of it is in the database.
async fn is_copy(file: &Path, address: &Address) -> Result<(), Error> {
    let arguments = ["--list".into(), file.as_os_str().to_owned()];
    let list = match tools::run("pg_restore", address, &arguments).await {
        Ok(list) => list,
        Err(Error::Tool(..)) => return Err(Error::NotACopy(file.into())),
        Err(error) => return Err(error),
    };
    // A line reads `215; 1259 16386 TABLE public meta baton`.
    let is_table = |line: &str, name: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(3) == Some(&"TABLE") && words.get(5) == Some(&name)
    };
    let all = IN_EVERY_COPY.iter().all(|name| list.lines().any(|line| is_table(line, name)));
    if all { Ok(()) } else { Err(Error::NotACopy(file.into())) }
}

async fn fill(
    conn: &mut Conn,
    address: &Address,
    file: &Path,
    chance: &mut Chance,
    trusted: Option<&[u8; 32]>,
) -> Result<Restored, Error> {
    let arguments: [OsString; 7] = [
        "--single-transaction".into(),
        "--exit-on-error".into(),
        "--no-owner".into(),
        "--no-privileges".into(),
        "--dbname".into(),
        address.config.get_dbname().unwrap_or_default().into(),
        file.as_os_str().to_owned(),
    ];
    tools::run("pg_restore", address, &arguments).await?;
    migrate::beneath(conn).await?;
    let incarnation = renew(conn, chance).await?;
    Ok(Restored { incarnation, audit: walked(address, trusted).await? })
}

/// Gives a database another life, so that no claim from before is good in it: tokens and cursors
/// name the life that they are of, and every lease is forfeit, whoever proves to have held it. The
/// first sweep ends their attempts as those of any holder that was lost.
async fn renew(conn: &mut Conn, chance: &mut Chance) -> Result<u64, Error> {
    let rows = conn.query(INCARNATION, vec![]).await?;
    let before = rows.first().map_or(0, |row| nat(row.get::<_, Option<i64>>(0).unwrap_or(0)));
    let mut bytes = [0; 8];
    chance(&mut bytes);
    // Positive, never the one before, and never the one that means no life at all.
    let drawn = u64::from_be_bytes(bytes) >> 1;
    let incarnation = if drawn == before || drawn == 0 { before / 2 + 1 } else { drawn };
    let mut flush = Flush::default();
    flush.add(LIFE, params![int(incarnation)]);
    flush.add(FORFEIT, params![Lease::FORFEIT.0]);
    flush.add(UNWATCHED, vec![]);
    // None of these is in the way of another: the mark keeps everybody out until all are done.
    conn.send(flush).await?;
    Ok(incarnation)
}
