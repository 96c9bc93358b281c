//! From a ruling to rows, and then to the books.

use std::sync::Arc;

use baton_domain::pool::{Pools, is_eased};
use baton_domain::reaction::Reaction;
use baton_domain::scene::Lease;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;

use super::orders::{Desk, Fail, Found};
use super::pen::NewEntry;
use crate::Freed;
use crate::chain::{Hash, ROOT, Rows};
use crate::order::{Actor, Committed};
use crate::read::About;
use crate::rows::rows_of;
use crate::ruling::Ruling;

impl Desk {
    /// Writes everything that was decided, then brings the books up to date.
    pub(super) fn write(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        ruling: Ruling,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let flow = Arc::new(ruling.task.flow.clone());
        let mut committed = Committed {
            task: Some(Arc::clone(&flow)),
            lease: ruling.lease.clone(),
            run: ruling.run,
            brief: ruling.task.brief.clone(),
            ..Committed::of_no_task(now, None)
        };
        if ruling.is_nothing() {
            return Ok(committed);
        }
        let key = self.books.tenants[tenant].key;
        let before = found.and_then(|found| found.lease.as_ref());
        self.write_lease(key, &ruling, before)?;
        if ruling.events.is_empty() {
            if let Some(lease) = ruling.lease {
                self.books.renew(tenant, flow.id, lease);
            }
            return Ok(committed);
        }
        let head = found.map_or(ROOT, |found| found.head);
        let rows = rows_of(&ruling);
        let heads = (actor, &head, &rows);
        let (position, head) = self.write_entry(tenant, &flow, &ruling, heads, now)?;
        committed.position = Some(position);
        self.write_rows(tenant, found, &ruling, (&head, &rows))?;
        self.settle_pools(tenant, &ruling, now)?;
        self.owe(tenant, ruling.reactions.clone())?;
        self.keep_books(tenant, found, &flow, ruling, head);
        Ok(committed)
    }

    /// Writes down what is owed to tasks, in the order in which it arose.
    pub(super) fn owe(&mut self, tenant: usize, owed: Vec<Reaction>) -> Result<(), Fail> {
        let key = self.books.tenants[tenant].key;
        for reaction in owed {
            let id = self.books.next_reaction;
            self.pen.reaction(id, key, &reaction)?;
            self.books.next_reaction += 1;
            self.books.tenants[tenant].reactions.push_back((id, reaction));
        }
        Ok(())
    }

    fn write_lease(
        &mut self,
        key: i64,
        ruling: &Ruling,
        before: Option<&Lease>,
    ) -> Result<(), Fail> {
        if !ruling.lease_changed {
            return Ok(());
        }
        let id = ruling.task.flow.id;
        match (before, &ruling.lease) {
            (Some(old), Some(new)) if old.attempt == new.attempt => {
                self.pen.renewal(key, id, new)?;
            }
            (None, Some(new)) => self.pen.lease(key, id, new)?,
            (Some(_), Some(new)) => {
                self.pen.drop_lease(key, id)?;
                self.pen.lease(key, id, new)?;
            }
            (Some(_), None) => self.pen.drop_lease(key, id)?,
            (None, None) => {}
        }
        Ok(())
    }

    fn write_entry(
        &mut self,
        tenant: usize,
        flow: &Flow,
        ruling: &Ruling,
        (actor, head, rows): (&Actor, &Hash, &Rows),
        now: Timestamp,
    ) -> Result<(u64, Hash), Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let position = ledger.position + 1;
        let entry = NewEntry {
            tenant: (ledger.key, ledger.id.as_str()),
            position,
            about: About::Task(flow.id, flow.version),
            at: now,
            actor,
        };
        let link = self.pen.entry(&entry, head, &ruling.events, Some(rows))?;
        ledger.position = position;
        Ok((position, link))
    }

    fn write_rows(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        ruling: &Ruling,
        (head, rows): (&Hash, &Rows),
    ) -> Result<(), Fail> {
        let (key, flow) = (self.books.tenants[tenant].key, &ruling.task.flow);
        let body = (head, rows.flow.as_str());
        if let Some(brief) = &rows.brief {
            self.pen.brief(key, flow, brief)?;
        }
        if flow.ending().is_some() {
            self.pen.ended(key, flow, body)?;
            if found.is_some_and(|found| found.live) {
                self.pen.drop_flow(key, flow.id)?;
            }
        } else if found.is_some() {
            self.pen.flow(key, flow, body)?;
        } else {
            self.pen.new_flow(key, flow, body)?;
        }
        for (record, body) in ruling.records.iter().zip(&rows.records) {
            self.pen.record(key, flow, (record, body))?;
        }
        for (on, add) in &ruling.edges {
            self.pen.edge(key, flow.id, *on, *add)?;
        }
        Ok(())
    }

    fn settle_pools(&mut self, tenant: usize, ruling: &Ruling, now: Timestamp) -> Result<(), Fail> {
        let ledger = &mut self.books.tenants[tenant];
        let mut touched = Pools::new();
        for change in &ruling.pools {
            let Some(pool) = ledger.pools.get_mut(change.pool()) else { continue };
            touched.entry(change.pool().clone()).or_insert_with(|| pool.clone());
            pool.apply(change, now);
        }
        let mut eased = false;
        for (name, before) in &touched {
            let pool = &ledger.pools[name];
            eased |= is_eased(name, Some(before), Some(pool), now);
            self.pen.pool(ledger.key, name, pool)?;
            if pool.is_idle() {
                ledger.pools.remove(name);
            }
        }
        if eased {
            self.freed.push(Freed::Pools(ledger.id.clone()));
        }
        Ok(())
    }

    fn keep_books(
        &mut self,
        tenant: usize,
        found: Option<&Found>,
        flow: &Arc<Flow>,
        ruling: Ruling,
        head: Hash,
    ) {
        let ledger = &mut self.books.tenants[tenant];
        if found.is_none() {
            ledger.next_task = flow.id.0 + 1;
        }
        for (on, add) in &ruling.edges {
            ledger.set_edge(flow.id, *on, *add);
        }
        if flow.ending().is_some() {
            ledger.forget_edges_of(flow.id);
            self.books.take(tenant, flow.id);
            return;
        }
        let name = ledger.id.clone();
        let joined = self.books.put(tenant, Arc::clone(flow), ruling.lease, head);
        self.freed.extend(joined.into_iter().map(|lane| Freed::Lane(name.clone(), lane)));
    }
}
