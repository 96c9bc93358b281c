//! A database of batches, each written by one transaction, and the check of what is left of it.

use rusqlite::{Connection, OpenFlags};

use crate::disk::{Cuts, Disk, Image};

/// How many rows one transaction writes.
const ROWS: u32 = 8;

/// How the database is run.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) synchronous: &'static str,
    /// Pages after which SQLite moves its log by itself; zero leaves it to us.
    pub(super) autocheckpoint: u32,
}

/// As Baton runs it.
pub(super) const FULL: Setup = Setup { synchronous: "FULL", autocheckpoint: 0 };

/// What a look at a database found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The batches up to this one, whole, and nothing else.
    Sound(u64),
    /// As many acknowledged batches are missing.
    Lost(u64),
    /// The database is whole for SQLite but not for us.
    Half(String),
    /// SQLite reports damage.
    Corrupt(String),
}

/// How many looks found what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) cuts: u64,
    pub(super) lost: u64,
    pub(super) half: u64,
    pub(super) corrupt: u64,
    pub(super) worst: u64,
}

pub(super) fn connect(disk: &Disk) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(disk.path("work.db"), flags, disk.vfs_name())
}

pub(super) fn start(disk: &Disk, setup: Setup) -> rusqlite::Result<Connection> {
    let db = connect(disk)?;
    // SQLite answers first and changes the mode afterwards, so the statement must run to its end.
    let modes: rusqlite::Result<Vec<String>> =
        db.prepare("PRAGMA journal_mode = WAL")?.query_map([], |row| row.get(0))?.collect();
    if modes? != ["wal"] {
        return Err(rusqlite::Error::InvalidQuery);
    }
    db.execute_batch(&format!(
        "PRAGMA synchronous = {};
         PRAGMA wal_autocheckpoint = {};
         BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, batch INTEGER, body BLOB);
         CREATE INDEX IF NOT EXISTS item_batch ON item (batch);
         CREATE TABLE IF NOT EXISTS last (id INTEGER PRIMARY KEY, batch INTEGER);
         INSERT OR IGNORE INTO last VALUES (1, 0);
         COMMIT",
        setup.synchronous, setup.autocheckpoint
    ))?;
    Ok(db)
}

/// Writes one batch; it also writes over rows of an older one, so that old pages change too.
pub(super) fn commit(db: &mut Connection, batch: u32) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for row in 0..ROWS {
        transaction
            .prepare_cached("INSERT INTO item (batch, body) VALUES (?1, ?2)")?
            .execute((batch, body(batch, row)))?;
    }
    transaction
        .prepare_cached("UPDATE item SET body = ?2 WHERE batch = ?1")?
        .execute((batch.saturating_sub(5), body(batch, 1)))?;
    transaction.prepare_cached("UPDATE last SET batch = ?1")?.execute([batch])?;
    transaction.commit()
}

/// Writes the batches `from..=to`, each acknowledged, and moves the log now and then.
pub(super) fn run(disk: &Disk, db: &mut Connection, from: u32, to: u32) -> rusqlite::Result<()> {
    for batch in from..=to {
        commit(db, batch)?;
        disk.mark(u64::from(batch));
        if batch.is_multiple_of(8) {
            checkpoint(db, if batch.is_multiple_of(24) { "TRUNCATE" } else { "PASSIVE" })?;
        }
    }
    Ok(())
}

pub(super) fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<()> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

/// Looks at a database after a fault: all acknowledged batches must be there, and no part of one.
pub(super) fn inspect(db: rusqlite::Result<Connection>, acked: u64) -> Verdict {
    match db.and_then(|db| found(&db)) {
        Ok(Verdict::Sound(found)) if found < acked => Verdict::Lost(acked - found),
        Ok(verdict) => verdict,
        Err(rusqlite::Error::SqliteFailure(_, Some(why))) if why.starts_with("no such table") => {
            if acked == 0 {
                Verdict::Sound(0)
            } else {
                Verdict::Lost(acked)
            }
        }
        Err(error) => Verdict::Corrupt(error.to_string()),
    }
}

pub(super) fn inspect_image(image: &Image, acked: u64) -> Verdict {
    inspect(image.open(), acked)
}

/// Inspects every cut and counts what was found.
pub(super) fn survey(cuts: Cuts) -> Tally {
    let mut tally = Tally::default();
    for cut in cuts {
        tally.add(&inspect_image(&cut.image, cut.acked));
    }
    tally
}

impl Tally {
    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.cuts += 1;
        match verdict {
            Verdict::Sound(_) => {}
            Verdict::Lost(batches) => {
                self.lost += 1;
                self.worst = self.worst.max(*batches);
            }
            Verdict::Half(_) => self.half += 1,
            Verdict::Corrupt(_) => self.corrupt += 1,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.half += other.half;
        self.corrupt += other.corrupt;
        self.worst = self.worst.max(other.worst);
    }

    pub(super) fn clean(&self) -> bool {
        self.lost + self.half + self.corrupt == 0
    }
}

pub(super) fn found(db: &Connection) -> rusqlite::Result<Verdict> {
    let health: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if health != "ok" {
        return Ok(Verdict::Corrupt(health));
    }
    let last: u32 = db.query_row("SELECT batch FROM last", [], |row| row.get(0))?;
    let mut counts = db.prepare(
        "SELECT batch, count(*), sum(substr(body, 1, 1) <> substr(body, -1, 1))
         FROM item GROUP BY batch ORDER BY batch",
    )?;
    let mut counts = counts.query([])?;
    let mut next = 1;
    while let Some(row) = counts.next()? {
        let (batch, rows, mixed): (u32, u32, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if batch != next || rows != ROWS || mixed > 0 {
            let what = format!("batch {batch} at place {next} has {rows} rows, {mixed} mixed");
            return Ok(Verdict::Half(what));
        }
        next += 1;
    }
    if next != last + 1 {
        return Ok(Verdict::Half(format!("{} batches, but {last} are claimed", next - 1)));
    }
    Ok(Verdict::Sound(u64::from(last)))
}

/// Bytes that are all the same, so that a body that is half old shows.
fn body(batch: u32, row: u32) -> Vec<u8> {
    let byte = u8::try_from((batch * ROWS + row) % 251).expect("it is below 251");
    let length = 40 + usize::try_from(batch * 37 + row * 53).expect("batches are few") % 300;
    vec![byte; length]
}
