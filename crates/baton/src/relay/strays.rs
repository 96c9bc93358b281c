//! Runs that were claimed for a worker and never came to it.

use baton_domain::event::Event;
use baton_domain::ids::AttemptId;
use baton_store::Error;
use baton_store::read::{Entry, Happened, LeaseRow, RunFilter, RunNow, RunWord};

use crate::protocol::{Alive, SLOTS_MAX};

use super::post::Post;

/// Entries of a task that are looked through for its claim: a run that was claimed and not begun has no more.
const ENTRIES_MAX: usize = 32;

impl Post {
    /// Attempts that were claimed for this machine, and that it does not know, although it knows of everything
    /// that it ever had in its hands: whoever claimed them was killed before they were handed over. A machine of
    /// the same principal may be about to begin others, so each is looked for by the machine that it was claimed for.
    /// What is beyond the bound is settled by the end of its lease.
    pub(super) async fn strays(&self, alive: &[Alive]) -> Result<Vec<AttemptId>, Error> {
        let filter = RunFilter {
            state: Some(RunWord::Leased),
            holder: Some(self.caller.principal.clone()),
            live: Some(true),
            count_max: SLOTS_MAX,
            ..RunFilter::default()
        };
        let engine = self.relay.engine();
        let mut strays = vec![];
        for row in engine.runs(&self.caller.tenant, filter).await?.rows {
            let RunNow::Live(_, Some(LeaseRow { attempt: number, .. })) = row.run else { continue };
            let attempt = AttemptId { task: row.id.task, number };
            if alive.iter().any(|one| one.attempt == attempt) {
                continue;
            }
            let Some(task) = engine.task(&self.caller.tenant, attempt.task).await?.what else {
                continue;
            };
            let from = task.flow.version.saturating_sub(ENTRIES_MAX as u64 - 1);
            let entries =
                engine.entries_of(&self.caller.tenant, attempt.task, from, ENTRIES_MAX).await?;
            if entries.rows.iter().any(|entry| self.is_claim(entry, number)) {
                strays.push(attempt);
            }
        }
        Ok(strays)
    }

    /// Whether an entry tells that this attempt was claimed for this machine.
    fn is_claim(&self, entry: &Entry, number: u32) -> bool {
        let Happened::ToTask(events) = &entry.happened else { return false };
        let claimed =
            |event: &Event| matches!(event, Event::Claimed { attempt, .. } if *attempt == number);
        entry.actor.origin == self.actor.origin && events.iter().any(claimed)
    }
}
