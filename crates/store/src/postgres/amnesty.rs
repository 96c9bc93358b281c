//! After a silence of all servers every lease lives on for a while, so that a holder that was not
//! heard still holds.

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
/// Whoever sweeps has watched the time, and whoever ended a silence too.
pub(super) const WATCHED: &str = "INSERT INTO watched (at) VALUES ($1)
    ON CONFLICT (one) DO UPDATE SET at = excluded.at WHERE watched.at < excluded.at";

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
    let watched_at = Timestamp(row.get::<_, Option<i64>>(2).unwrap_or(0));
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
        Ok(()) => lent.done(),
        Err(trouble) => batch::undo(&mut lent, trouble).await,
    }
    ended
}
