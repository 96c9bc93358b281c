//! How time passes for everybody: what is due, what tasks owe one another, and the amnesty after a
//! silence.

use baton_domain::command::{Command, Time};
use baton_domain::ids::TaskId;
use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::pool::Pool;
use baton_domain::time::{Millis, Timestamp};

use super::orders::{Desk, Fail};
use crate::Freed;
use crate::order::{Actor, Committed, Swept};

/// How long a request key is remembered.
const REQUESTS_KEPT: Millis = Millis::hours(72);
/// Request keys that one sweep forgets.
const REQUESTS_AT_ONCE: usize = 500;

impl Desk {
    /// Before anything is judged: if nobody watched the time for too long, every lease lives on
    /// for a while, so that a holder that was not heard still holds. Nothing is written where
    /// nothing fits; it is enough to remember.
    pub(super) fn end_silence(&mut self, now: Timestamp, full: bool) -> rusqlite::Result<()> {
        if now.since(self.books.watched_at) <= SILENCE_MAX {
            return Ok(());
        }
        self.books.watched_at = now;
        if self.books.has_leases() {
            self.books.grant_amnesty(now + AMNESTY);
            if !full {
                self.pen.meta("amnesty", self.books.amnesty.0)?;
            }
        }
        Ok(())
    }

    /// Lets time pass for whatever is due, then carries out what tasks owe one another.
    pub(super) fn sweep(&mut self, count_max: usize, now: Timestamp) -> Result<Committed, Fail> {
        self.ring_for_opened_pools(now);
        self.books.swept_at = now;
        self.books.watched_at = now;
        let mut swept = Swept::default();
        for (tenant, id) in self.due(now, count_max)? {
            self.let_pass(tenant, id, Time::Pass, now)?;
            swept.due += 1;
        }
        while swept.due + swept.reactions < count_max {
            let Some((row, tenant, reaction)) = self.books.reactions.pop_front() else { break };
            self.let_pass(tenant, reaction.to, Time::React(reaction), now)?;
            self.pen.drop_reaction(row)?;
            swept.reactions += 1;
        }
        swept.more = !self.books.reactions.is_empty() || !self.due(now, 1)?.is_empty();
        self.pen.forget_requests(now - REQUESTS_KEPT, REQUESTS_AT_ONCE)?;
        let (position, task, lease) = (None, None, None);
        Ok(Committed { at: now, position, task, lease, replayed: false, swept })
    }

    /// Time asks for nothing, so a refusal only means that there is nothing to do.
    fn let_pass(
        &mut self,
        tenant: usize,
        id: TaskId,
        time: Time,
        now: Timestamp,
    ) -> Result<(), Fail> {
        match self.on_task(tenant, id, &[Command::Time(time)], &Actor::clockwork(), now) {
            Ok(_) | Err(Fail::Answer(_)) => Ok(()),
            Err(fail @ Fail::Sql(_)) => Err(fail),
        }
    }

    /// A pause that ended since the last sweep was nobody's order.
    fn ring_for_opened_pools(&mut self, now: Timestamp) {
        let last = self.books.swept_at;
        let ended = |pool: &Pool| {
            let until = pool.shut.as_ref().and_then(|shut| shut.until);
            until.is_some_and(|until| last < until && until <= now)
        };
        for ledger in &self.books.tenants {
            if ledger.pools.values().any(ended) {
                self.freed.push(Freed::Pools(ledger.id.clone()));
            }
        }
    }

    /// What is due by now, the oldest first.
    fn due(&self, now: Timestamp, count_max: usize) -> Result<Vec<(usize, TaskId)>, Fail> {
        let live = self.books.due.iter().take_while(|(at, _, _)| *at <= now);
        let mut due: Vec<_> = live.take(count_max).copied().collect();
        for (tenant, ledger) in self.books.tenants.iter().enumerate() {
            for project in ledger.projects.values() {
                let Some(kept) = project.archive_after else { continue };
                let old = self.pen.to_archive(ledger.key, &project.id, now - kept, count_max)?;
                due.extend(old.into_iter().map(|(ended_at, id)| (ended_at + kept, tenant, id)));
            }
        }
        due.sort();
        due.truncate(count_max);
        Ok(due.into_iter().map(|(_, tenant, id)| (tenant, id)).collect())
    }
}
