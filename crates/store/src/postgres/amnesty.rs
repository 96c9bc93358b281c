//! After a silence of all servers every lease lives on for a while, so that a holder that was not
//! heard still holds.

use std::sync::atomic::Ordering;

use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::time::Timestamp;

use super::load::{BEGIN, BOUNDS, OWN_RECORDS};
use super::manner::Manner;
use super::pen::COMMIT;
use super::time::told;
use super::trouble::Trouble;
use super::wire::{Flush, params};
use super::{Shared, batch};

/// The advisory lock under which the silence is ended by one of all servers.
const SILENCE_LOCK: i32 = 0x4261_7403;

pub(super) const STATE: &str = concat!(
    "SELECT ",
    told!(),
    ", (SELECT at FROM watched), (SELECT number FROM meta WHERE name = 'amnesty'),
    EXISTS (SELECT 1 FROM leases), (SELECT coalesce(max(last_at), 0) FROM tenants)"
);
const AMNESTY_ROW: &str = "INSERT INTO meta (name, number) VALUES ('amnesty', $1)
    ON CONFLICT (name) DO UPDATE SET number = excluded.number";
/// Whoever sweeps has watched the time, and whoever ended a silence too. If somebody holds the row,
/// nothing is noted, and nobody waits: a server remembers by itself what it watched.
pub(super) const WATCHED: &str = "INSERT INTO watched (at) SELECT $1
    WHERE EXISTS (SELECT 1 FROM watched FOR UPDATE SKIP LOCKED)
        OR NOT EXISTS (SELECT 1 FROM watched)
    ON CONFLICT (one) DO UPDATE SET at = excluded.at WHERE watched.at < excluded.at";

impl Shared {
    /// When somebody last watched the time, given what is noted. What this server watched itself
    /// counts where the note is older, for somebody may hold it; where there is none, a crash or a
    /// failover took it away, and nobody has watched since.
    pub(super) fn watched_at(&self, noted: Option<i64>) -> Timestamp {
        let own = self.watched_here.load(Ordering::Relaxed);
        noted.map_or(Timestamp(0), |noted| Timestamp(noted.max(own)))
    }

    /// Remembers that the time was watched from here.
    pub(super) fn note_watched(&self, now: Timestamp) {
        self.watched_here.fetch_max(now.0, Ordering::Relaxed);
    }
}

/// Ends a silence, unless somebody else did.
pub(super) async fn grant(shared: &Shared, manner: Manner<'_>) -> Result<(), Trouble> {
    let mut lent = manner.connections(shared).get().await?;
    lent.begun();
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(BOUNDS, manner.bounds());
    flush.add(OWN_RECORDS, params![SILENCE_LOCK, 0_i32]);
    let state = flush.add(STATE, vec![]);
    let found = lent.send(flush).await.map(|mut answers| answers.rows(state));
    let found = match found {
        Ok(found) => found,
        Err(trouble) => {
            batch::undo(&mut lent, &trouble).await;
            return Err(trouble);
        }
    };
    let row = found.first().ok_or_else(|| "the database has no time".to_owned())?;
    let now = shared.time.heard(row)?;
    let now = shared.time.at_least(now.max(Timestamp(row.get(5))));
    let watched_at = shared.watched_at(row.get(2));
    let mut flush = Flush::default();
    if now.since(watched_at) > SILENCE_MAX {
        if row.get::<_, bool>(4) {
            let until = now + AMNESTY;
            flush.add(AMNESTY_ROW, params![until.0]);
            tracing::warn!(until = until.0, "nobody watched the time: every lease lives on");
        }
        flush.add(WATCHED, params![now.0]);
    }
    flush.add(COMMIT, vec![]);
    let ended = lent.send(flush).await.map(drop);
    match &ended {
        Ok(()) => {
            shared.note_watched(now);
            lent.done();
        }
        Err(trouble) => batch::undo(&mut lent, trouble).await,
    }
    ended
}
