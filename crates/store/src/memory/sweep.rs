//! How time passes for everybody.

use std::collections::BTreeMap;

use baton_domain::command::{Command, Time};
use baton_domain::decide::due_at;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::limits::{AMNESTY, SILENCE_MAX};
use baton_domain::pool::Pool;
use baton_domain::reaction::Reaction;
use baton_domain::time::Timestamp;

use super::State;
use super::turn::Turn;
use crate::Freed;
use crate::order::{Actor, Swept};
use crate::turns::{Due, in_turns, share_of_due};

impl Turn<'_> {
    /// First whatever is due, each task once; then what tasks owe one another, oldest first, what
    /// this very sweep gave rise to included. Tenants take turns.
    pub(super) fn sweep(&mut self, count_max: usize) -> Swept {
        self.ring_for_opened_pools();
        self.state.watched_at = self.now;
        let mut swept = Swept::default();
        let share = share_of_due(count_max, self.state.owed.len());
        for due in in_turns(self.state.due(self.now), share) {
            self.let_pass(&due.tenant, due.id, Time::Pass);
            swept.due += 1;
        }
        let mut told = BTreeMap::new();
        while swept.due + swept.reactions < count_max
            && let Some((tenant, reaction)) = self.state.next_owed(&told)
        {
            *told.entry(tenant.clone()).or_default() += 1;
            self.let_pass(&tenant, reaction.to, Time::React(reaction));
            swept.reactions += 1;
        }
        self.state.swept_at = self.now;
        swept.more = !self.state.owed.is_empty() || !self.state.due(self.now).is_empty();
        swept
    }

    /// Before anything is judged: if nobody watched the time for too long, every lease lives on
    /// for a while, so that a holder that was not heard still holds.
    pub(super) fn end_silence(&mut self) {
        if self.now.since(self.state.watched_at) > SILENCE_MAX {
            self.state.watched_at = self.now;
            if self.state.has_leases() {
                self.state.amnesty = self.now + AMNESTY;
            }
        }
    }

    fn let_pass(&mut self, tenant: &TenantId, id: TaskId, time: Time) {
        // Time asks for nothing, so a refusal only means that there is nothing to do.
        if let Ok(ruling) = self.rule_on(tenant, id, &[Command::Time(time)]) {
            self.write(tenant, &Actor::clockwork(), ruling);
        }
    }

    /// A pause that ended since the last sweep was nobody's order.
    fn ring_for_opened_pools(&mut self) {
        let ended = |pool: &Pool| pool.has_opened(self.state.swept_at, self.now);
        for (tenant, own) in &self.state.tenants {
            if own.pools.values().any(ended) {
                self.freed.push(Freed::Pools(tenant.clone()));
            }
        }
    }
}

impl State {
    fn has_leases(&self) -> bool {
        self.tenants.values().any(|own| own.tasks.values().any(|kept| kept.lease.is_some()))
    }

    /// The oldest reaction of the tenant that was told least.
    fn next_owed(&mut self, told: &BTreeMap<TenantId, usize>) -> Option<(TenantId, Reaction)> {
        let told = |tenant: &TenantId| told.get(tenant).copied().unwrap_or(0);
        let owed = self.owed.iter().enumerate();
        let (first, _) = owed.min_by_key(|(at, (tenant, _))| (told(tenant), *at))?;
        self.owed.remove(first)
    }

    /// Everything that is due.
    fn due(&self, now: Timestamp) -> Vec<Due> {
        let mut due = vec![];
        for (tenant, own) in &self.tenants {
            for (id, kept) in &own.tasks {
                let project = own.project_of(&kept.flow);
                let at = due_at(&kept.flow, kept.lease.as_ref(), &project, self.amnesty);
                let ends_at = kept.lease.as_ref().map(|lease| lease.ends_at(self.amnesty));
                let lease = ends_at.is_some_and(|ends_at| ends_at <= now);
                let at = if lease { ends_at } else { at.filter(|at| *at <= now) };
                due.extend(at.map(|at| Due { lease, at, tenant: tenant.clone(), id: *id }));
            }
        }
        due
    }
}
