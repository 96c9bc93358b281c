//! The database's clock, and what it probably says between two questions.
//!
//! Somebody may set that clock. If it falls back, leases and deadlines would stand still until it has
//! caught up; so how far it is behind is noted in the database, where every server reads it together
//! with the clock, and time goes on from where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use baton_domain::time::{Millis, Timestamp};
use tokio_postgres::Row;

use super::load::{BEGIN, BOUNDS, OWN_RECORDS};
use super::manner::Manner;
use super::pen::COMMIT;
use super::trouble::Trouble;
use super::wire::{Conn, Flush, params};
use super::{Shared, batch};
use crate::Clock;
use crate::clock::boot_millis;
use crate::rows::nat;

/// The advisory lock under which one of all servers notes that the clock was set.
const CLOCK_LOCK: i32 = 0x4261_7405;
/// A step of the clock that is no longer taken for waiting, drifting or being slow to listen.
const STEP_MAX: i64 = 5_000;
/// No clock has been heard yet.
const UNHEARD: i64 = i64::MIN;

/// The first two columns of whatever tells the time: the clock, and how far it is behind.
macro_rules! told {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::int8,
        coalesce((SELECT number FROM meta WHERE name = 'clock_behind'), 0)"
    };
}
pub(super) use told;

/// The time, and the latest that anybody has noted.
const FLOOR: &str = concat!(
    "SELECT ",
    told!(),
    ", greatest((SELECT max(last_at) FROM tenants), (SELECT max(at) FROM watched), 0)"
);
const BEHIND: &str = "INSERT INTO meta (name, number) VALUES ('clock_behind', $1)
    ON CONFLICT (name) DO UPDATE SET number = excluded.number";

/// Tells the database's time. It was told with every batch; in between this machine's own clock
/// counts on.
pub(super) struct DatabaseTime {
    given: Option<Arc<dyn Clock>>,
    /// How far the database's time is ahead of our count.
    ahead: AtomicI64,
    /// How far the database's clock is behind its time.
    behind: AtomicI64,
    last: AtomicI64,
}

impl DatabaseTime {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        let (ahead, behind) = (AtomicI64::new(UNHEARD), AtomicI64::new(0));
        Self { given, ahead, behind, last: AtomicI64::new(0) }
    }

    /// The time of a batch, by what the database said just now. A clock that was set must be looked
    /// at more closely first.
    pub(super) fn heard(&self, row: &Row) -> Result<Timestamp, Trouble> {
        if let Some(given) = &self.given {
            return Ok(given.now());
        }
        let (clock, behind): (i64, i64) = (row.get(0), row.get(1));
        let (now, boot) = (clock.saturating_add(behind), boot_millis());
        let ahead = self.ahead.load(Ordering::Relaxed);
        let off = now.saturating_sub(ahead.saturating_add(boot));
        if ahead != UNHEARD && (off < -STEP_MAX || is_set_right(behind, off)) {
            return Err(Trouble::ClockSet);
        }
        self.note(now.saturating_sub(boot), behind);
        Ok(Timestamp(now))
    }

    /// Never before anything that was told earlier.
    pub(super) fn at_least(&self, now: Timestamp) -> Timestamp {
        Timestamp(self.last.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }

    /// How far the database's clock was set back, as far as it still is.
    pub(super) fn behind(&self) -> Millis {
        Millis(nat(self.behind.load(Ordering::Relaxed)))
    }

    fn note(&self, ahead: i64, behind: i64) {
        self.ahead.store(ahead, Ordering::Relaxed);
        self.behind.store(behind, Ordering::Relaxed);
    }
}

/// Whether a clock that was behind has leapt forward by a good part of that.
fn is_set_right(behind: i64, off: i64) -> bool {
    behind > 0 && off > STEP_MAX && off >= behind / 2
}

impl Clock for DatabaseTime {
    fn now(&self) -> Timestamp {
        let now = match &self.given {
            Some(given) => given.now(),
            None => Timestamp(boot_millis().saturating_add(self.ahead.load(Ordering::Relaxed))),
        };
        now.max(Timestamp(self.last.load(Ordering::Relaxed)))
    }
}

/// What is known when it is asked how far the clock is behind.
struct Seen {
    /// How far the time was ahead of our own count, if anybody here had heard it.
    ahead: Option<i64>,
    /// Our own count before the clock was asked, and after it answered.
    asked: i64,
    answered: i64,
    clock: i64,
    behind: i64,
    /// The latest that anybody has noted.
    floor: i64,
}

impl Seen {
    /// How far the clock is behind. The count from before the question is what the time was at least:
    /// an answer that took long must not look like a clock that fell back.
    fn behind(&self) -> i64 {
        let now = self.clock.saturating_add(self.behind);
        let counted = self.ahead.map(|ahead| ahead.saturating_add(self.asked));
        let earliest = counted.map_or(self.floor, |counted| counted.max(self.floor));
        if now.saturating_add(STEP_MAX) < earliest {
            return earliest.saturating_sub(self.clock);
        }
        let Some(ahead) = self.ahead else {
            // A clock that is past everything that was ever noted needs no help any more.
            return if self.clock >= self.floor { 0 } else { self.behind };
        };
        let off = now.saturating_sub(ahead.saturating_add(self.answered));
        if is_set_right(self.behind, off) {
            return earliest.saturating_sub(self.clock).max(0);
        }
        self.behind
    }
}

/// Finds out whether the clock was set, and notes for all servers how far it is behind.
pub(super) async fn settle(conn: &mut Conn, time: &DatabaseTime) -> Result<(), Trouble> {
    if time.given.is_some() {
        return Ok(());
    }
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(BOUNDS, Manner::Alone.bounds());
    flush.add(OWN_RECORDS, params![CLOCK_LOCK, 0_i32]);
    conn.send(flush).await?;
    let asked = boot_millis();
    let rows = conn.query(FLOOR, vec![]).await?;
    let row = rows.first().ok_or_else(|| "the database has no time".to_owned())?;
    let ahead = time.ahead.load(Ordering::Relaxed);
    let seen = Seen {
        ahead: (ahead != UNHEARD).then_some(ahead),
        asked,
        answered: boot_millis(),
        clock: row.get(0),
        behind: row.get(1),
        floor: row.get(2),
    };
    let behind = seen.behind();
    let mut flush = Flush::default();
    if behind != seen.behind {
        let was = seen.behind;
        tracing::warn!(behind, was, "the clock of the database was set: time goes on as it was");
        flush.add(BEHIND, params![behind]);
    }
    flush.add(COMMIT, vec![]);
    conn.send(flush).await?;
    let now = seen.clock.saturating_add(behind);
    time.note(now.saturating_sub(seen.answered), behind);
    Ok(())
}

/// The same for a batch that heard of it.
pub(super) async fn settle_for(shared: &Shared, manner: Manner<'_>) -> Result<(), Trouble> {
    let mut lent = manner.connections(shared).get().await?;
    lent.begun();
    match settle(&mut lent, &shared.time).await {
        Ok(()) => {
            lent.done();
            Ok(())
        }
        Err(trouble) => {
            batch::undo(&mut lent, &trouble).await;
            Err(trouble)
        }
    }
}

#[cfg(test)]
mod tests;
