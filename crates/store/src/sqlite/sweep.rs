//! How time passes for everybody: what is due, what tasks owe one another, and the amnesty after a
//! silence.

use baton_domain::command::{Command, Time};
use baton_domain::decide::due_at;
use baton_domain::ids::TaskId;
use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::time::{Millis, Timestamp};

use super::orders::{Desk, Fail};
use crate::order::{Actor, Committed, Swept};

/// How long a request key is remembered.
const REQUESTS_KEPT: Millis = Millis::hours(72);
/// Request keys that one sweep forgets.
const REQUESTS_AT_ONCE: usize = 500;

impl Desk {
    /// Grants the amnesty if nobody swept for too long.
    pub(super) fn end_silence(&mut self, now: Timestamp) -> rusqlite::Result<()> {
        if self.hold_leases(now) {
            self.pen.meta("amnesty", self.books.amnesty.0)?;
        }
        self.books.swept_at = now;
        Ok(())
    }

    /// The same in memory alone, as long as nothing can be written.
    pub(super) fn hold_leases(&mut self, now: Timestamp) -> bool {
        let silent = now.since(self.books.swept_at) > SILENCE_MAX && self.books.has_leases();
        if silent {
            self.books.grant_amnesty(now + AMNESTY);
        }
        silent
    }

    /// Lets time pass for whatever is due, then carries out what tasks owe one another.
    pub(super) fn sweep(&mut self, count_max: usize, now: Timestamp) -> Result<Committed, Fail> {
        self.end_silence(now)?;
        let mut swept = Swept::default();
        for (tenant, id) in self.due(now, count_max)? {
            if !self.let_pass(tenant, id, Time::Pass, now)? {
                self.put_off(tenant, id, now)?;
            }
            swept.due += 1;
        }
        while swept.due + swept.reactions < count_max {
            let Some((row, tenant, reaction)) = self.books.reactions.pop_front() else { break };
            self.let_pass(tenant, reaction.to, Time::React(reaction), now)?;
            self.pen.drop_reaction(row)?;
            swept.reactions += 1;
        }
        swept.more = !self.books.reactions.is_empty()
            || self.books.due.first().is_some_and(|(at, _, _)| *at <= now);
        self.pen.forget_requests(now - REQUESTS_KEPT, REQUESTS_AT_ONCE)?;
        let (position, task, lease) = (None, None, None);
        Ok(Committed { at: now, position, task, lease, replayed: false, swept })
    }

    /// Tells whether anything happened. Time asks for nothing, so a refusal means that it did not.
    fn let_pass(
        &mut self,
        tenant: usize,
        id: TaskId,
        time: Time,
        now: Timestamp,
    ) -> Result<bool, Fail> {
        match self.on_task(tenant, id, &[Command::Time(time)], &Actor::clockwork(), now) {
            Ok(committed) => Ok(committed.position.is_some()),
            Err(Fail::Answer(_)) => Ok(false),
            Err(fail @ Fail::Sql(_)) => Err(fail),
        }
    }

    /// An ended task that was not put away when it was due: its project is gone, or wants it
    /// later. It must not stand in the way of the others for ever.
    fn put_off(&mut self, tenant: usize, id: TaskId, now: Timestamp) -> Result<(), Fail> {
        let Some(found) = self.find(tenant, id)?.filter(|found| !found.live) else { return Ok(()) };
        let ledger = &self.books.tenants[tenant];
        let project = ledger.projects.get(&found.flow.project);
        let at = project.and_then(|project| due_at(&found.flow, None, project, Timestamp(0)));
        self.pen.ended(ledger.key, &found.flow, at.filter(|at| *at > now), &found.head)?;
        Ok(())
    }

    /// What is due by now, live tasks first.
    fn due(&self, now: Timestamp, count_max: usize) -> Result<Vec<(usize, TaskId)>, Fail> {
        let live = self.books.due.iter().take_while(|(at, _, _)| *at <= now);
        let mut due: Vec<_> = live.take(count_max).map(|(_, tenant, id)| (*tenant, *id)).collect();
        let rest = count_max.saturating_sub(due.len());
        for (key, id) in self.pen.to_archive(now, rest)? {
            let tenant = self.books.tenants.iter().position(|ledger| ledger.key == key);
            due.extend(tenant.map(|tenant| (tenant, id)));
        }
        Ok(due)
    }
}
