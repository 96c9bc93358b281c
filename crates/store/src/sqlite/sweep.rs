//! How time passes for everybody: what is due, what tasks owe one another, and the amnesty after a
//! silence.

use baton_domain::command::{Command, Time};
use baton_domain::ids::TaskId;
use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::pool::Pool;
use baton_domain::reaction::Reaction;
use baton_domain::time::{Millis, Timestamp};

use super::books::Ledger;
use super::orders::{Desk, Fail};
use crate::order::{Actor, Committed, Swept};
use crate::turns::{Due, in_turns, share_of_due};
use crate::{Error, Freed};

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
        for (tenant, id) in self.due(now, share_of_due(count_max, self.owed()))? {
            swept.due += usize::from(self.let_pass(tenant, id, Time::Pass, now)?);
        }
        let mut told = vec![0; self.books.tenants.len()];
        while swept.due + swept.reactions < count_max {
            let Some((row, tenant, reaction)) = self.next_owed(&told) else { break };
            told[tenant] += 1;
            if self.let_pass(tenant, reaction.to, Time::React(reaction), now)? {
                self.pen.drop_reaction(row)?;
                swept.reactions += 1;
            }
        }
        swept.more = self.owed() > 0 || !self.due(now, 1)?.is_empty();
        self.pen.forget_requests(now - REQUESTS_KEPT, REQUESTS_AT_ONCE)?;
        Ok(Committed { swept, ..Committed::of_no_task(now, None) })
    }

    /// Time asks for nothing, so a refusal only means that there is nothing to do. Tells whether
    /// time has passed; a task for which it cannot is set aside.
    fn let_pass(
        &mut self,
        tenant: usize,
        id: TaskId,
        time: Time,
        now: Timestamp,
    ) -> Result<bool, Fail> {
        let aside = (self.books.tenants[tenant].id.clone(), id);
        if self.set_aside.contains(&aside) {
            return Ok(false);
        }
        let done = self.on_task(tenant, id, &[Command::Time(time)], &Actor::clockwork(), now);
        let (why, answer) = match done {
            Err(Fail::Answer(Error::Internal(why))) => (why, Ok(false)),
            Err(Fail::Broken(why)) => (why.clone(), Err(Fail::Broken(why))),
            Err(fail @ Fail::Sql(_)) => return Err(fail),
            Ok(_) | Err(Fail::Answer(_)) => return Ok(true),
        };
        tracing::error!(tenant = %aside.0, task = %id, why, "time cannot pass: set aside");
        self.set_aside.insert(aside);
        answer
    }

    /// How many reactions are owed.
    fn owed(&self) -> usize {
        self.books.tenants.iter().map(|ledger| ledger.reactions.len()).sum()
    }

    /// The oldest reaction of the tenant that was told least.
    fn next_owed(&mut self, told: &[usize]) -> Option<(i64, usize, Reaction)> {
        let place = |(tenant, ledger): (usize, &Ledger)| {
            ledger.reactions.front().map(|(row, _)| (told[tenant], *row, tenant))
        };
        let (_, _, tenant) = self.books.tenants.iter().enumerate().filter_map(place).min()?;
        let (row, reaction) = self.books.tenants[tenant].reactions.pop_front()?;
        Some((row, tenant, reaction))
    }

    /// A pause or a day that ended since the last sweep was nobody's order.
    fn ring_for_opened_pools(&mut self, now: Timestamp) {
        let last = self.books.swept_at;
        let ended = |pool: &Pool| pool.has_opened(last, now);
        for ledger in &self.books.tenants {
            if ledger.pools.values().any(ended) {
                self.freed.push(Freed::Pools(ledger.id.clone()));
            }
        }
    }

    /// What is due by now: ended leases first, and tenants take turns.
    fn due(&self, now: Timestamp, count_max: usize) -> Result<Vec<(usize, TaskId)>, Fail> {
        let mut due = vec![];
        for ledger in &self.books.tenants {
            let due_now = |(at, _): &&(Timestamp, TaskId)| *at <= now;
            let passes = |(_, id): &&(Timestamp, TaskId)| {
                self.set_aside.is_empty() || !self.set_aside.contains(&(ledger.id.clone(), *id))
            };
            let of = |lease: bool, (at, id): (Timestamp, TaskId)| Due {
                lease,
                at,
                tenant: ledger.id.clone(),
                id,
            };
            let ended = ledger.expiring.iter().take_while(due_now).filter(passes);
            let ended: Vec<_> = ended.take(count_max).copied().collect();
            let rest = ledger.due.iter().take_while(due_now).filter(passes);
            // Whatever has no lease that ended: those come anyway, and each task comes once.
            let rest = rest.filter(|(_, id)| !ledger.has_ended_lease(*id, now));
            let rest: Vec<_> = rest.take(count_max).copied().collect();
            due.extend(rest.into_iter().map(|it| of(false, it)));
            due.extend(ended.into_iter().map(|it| of(true, it)));
            for project in ledger.projects.values() {
                let Some(kept) = project.archive_after else { continue };
                let old = self.pen.to_archive(ledger.key, &project.id, now - kept, count_max)?;
                let old = old.into_iter().map(|(ended_at, id)| (ended_at + kept, id));
                due.extend(old.filter(|it| passes(&it)).map(|it| of(false, it)));
            }
        }
        let due = in_turns(due, count_max).into_iter();
        Ok(due.filter_map(|due| Some((*self.books.by_name.get(&due.tenant)?, due.id))).collect())
    }
}
