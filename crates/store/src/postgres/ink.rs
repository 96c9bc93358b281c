//! From a ruling to what will be written, and to how the room stands from then on.

use std::sync::Arc;

use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::pool::{PoolMove, Pools, is_eased};
use baton_domain::reaction::Reaction;
use baton_domain::time::Timestamp;

use super::room::{Kept, Ledger, Room, Spot};
use super::trouble::Trouble;
use crate::Freed;
use crate::chain::{self, Hash, Linked, ROOT, Rows, SALT_BYTES};
use crate::order::{Actor, Committed};
use crate::read::About;
use crate::rows::{json, rows_of};
use crate::ruling::Ruling;

/// Rows to be added.
#[derive(Default)]
pub(super) struct Written {
    pub(super) entries: Vec<NewEntry>,
    /// Tenant, task, version, the record and its body.
    pub(super) records: Vec<(i64, TaskId, u64, Past, String)>,
    /// Tenant, task, project, parent, version and body.
    pub(super) briefs: Vec<(i64, TaskId, String, Option<TaskId>, u64, String)>,
    /// Tenant, task, what it waits for, and whether it does from now on.
    pub(super) edges: Vec<(i64, TaskId, TaskId, bool)>,
    pub(super) reactions: Vec<(i64, Reaction)>,
    /// Reactions that were carried out, each with its tenant.
    pub(super) told: Vec<(i64, i64)>,
    pub(super) requests: Vec<NewRequest>,
    pub(super) born: bool,
}

/// An entry whose position and link the database will find.
pub(super) struct NewEntry {
    pub(super) tenant: i64,
    /// The so-manieth of its tenant in this batch, from one.
    pub(super) place: u64,
    pub(super) task: u64,
    pub(super) version: u64,
    pub(super) principal: String,
    pub(super) actor: String,
    pub(super) salt: [u8; SALT_BYTES],
    pub(super) payload: String,
    pub(super) wrote: Vec<u8>,
    /// The so-manieth of its chain in this batch, from zero.
    pub(super) wave: usize,
    /// The link before it, if that is not of this batch.
    pub(super) before: Hash,
    /// When it was judged.
    pub(super) at: Timestamp,
    /// What the link covers before and after position and time.
    pub(super) parts: (Vec<u8>, Vec<u8>),
}

/// A request that was carried out.
pub(super) struct NewRequest {
    pub(super) tenant: i64,
    pub(super) principal: String,
    pub(super) key: String,
    pub(super) fingerprint: [u8; 32],
    pub(super) task: Option<TaskId>,
    /// Task and version of its entry.
    pub(super) entry: Option<(u64, u64)>,
    pub(super) attempt: Option<u32>,
    pub(super) run: Option<u32>,
    pub(super) at: Timestamp,
}

/// What came of an order, before it has a position.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) committed: Committed,
    pub(super) place: Option<Spot>,
    /// Task and version of its entry.
    pub(super) entry: Option<(u64, u64)>,
    pub(super) tenant: i64,
}

/// What an entry is about, and what it holds on to.
pub(super) struct Draft<'a> {
    pub(super) about: About,
    pub(super) actor: &'a Actor,
    pub(super) payload: String,
    pub(super) rows: Option<&'a Rows>,
    pub(super) before: Hash,
    pub(super) wave: usize,
    pub(super) salt: [u8; SALT_BYTES],
    pub(super) at: Timestamp,
}

impl Written {
    /// Whether there is nothing to write besides leases and pools.
    pub(super) fn is_nothing(&self) -> bool {
        self.entries.is_empty() && self.told.is_empty() && self.requests.is_empty()
    }

    /// Adds an entry; tells its place among those of its tenant.
    pub(super) fn entry(&mut self, ledger: &Ledger, draft: Draft<'_>) -> u64 {
        let of_tenant = self.entries.iter().filter(|entry| entry.tenant == ledger.key).count();
        let place = of_tenant as u64 + 1;
        let actor = json(draft.actor);
        let wrote = draft.rows.map(|rows| chain::wrote(&draft.salt, rows)).unwrap_or_default();
        let digest = chain::payload_digest(&draft.salt, draft.payload.as_bytes());
        let parts = chain::parts(&Linked {
            tenant: ledger.id.as_str(),
            position: 0,
            about: draft.about,
            at: 0,
            actor: actor.as_bytes(),
            payload: &digest,
            wrote: &wrote,
        });
        let (task, version) = match draft.about {
            About::Task(task, version) => (task.0, version),
            About::Records(version) => (0, version),
        };
        self.entries.push(NewEntry {
            tenant: ledger.key,
            place,
            task,
            version,
            principal: draft.actor.principal.as_str().to_owned(),
            actor,
            salt: draft.salt,
            payload: draft.payload,
            wrote,
            wave: draft.wave,
            before: draft.before,
            at: draft.at,
            parts,
        });
        place
    }
}

impl Room {
    /// Takes in everything that was decided.
    pub(super) fn write(
        &mut self,
        tenant: i64,
        ruling: Ruling,
        actor: &Actor,
        salt: [u8; SALT_BYTES],
    ) -> Result<Done, Trouble> {
        let now = self.now;
        let flow = Arc::new(ruling.task.flow.clone());
        let committed = Committed {
            task: Some(Arc::clone(&flow)),
            lease: ruling.lease.clone(),
            run: ruling.run,
            brief: ruling.task.brief.clone(),
            ..Committed::of_no_task(now, None)
        };
        let mut done = Done { committed, place: None, entry: None, tenant };
        if ruling.is_nothing() {
            return Ok(done);
        }
        let Some(ledger) = self.tenants.get_mut(&tenant) else {
            return Err(Trouble::Broken("a tenant is not in the room".into()));
        };
        let kept = ledger.tasks.remove(&flow.id);
        if kept.as_ref().is_some_and(|kept| !kept.locked) {
            return Err(Trouble::Broken("a task that is not locked may not change".into()));
        }
        let (head, wave) = kept.as_ref().map_or((ROOT, 0), |kept| (kept.head, kept.entries));
        let before = kept.as_ref().map(|kept| Arc::clone(&kept.flow));
        let changed = kept.as_ref().is_some_and(|kept| kept.lease_changed) || ruling.lease_changed;
        let mut after = Kept {
            flow: Arc::clone(&flow),
            lease: ruling.lease.clone(),
            head,
            entries: wave,
            lease_changed: changed,
            locked: true,
        };
        if !ruling.events.is_empty() {
            let rows = rows_of(&ruling);
            let (about, payload) = (About::Task(flow.id, flow.version), json(&ruling.events));
            let draft = Draft {
                about,
                actor,
                payload,
                rows: Some(&rows),
                before: head,
                wave,
                salt,
                at: now,
            };
            done.place = Some(Spot::New(self.written.entry(ledger, draft)));
            done.entry = Some((flow.id.0, flow.version));
            after.entries += 1;
            note_rows(&mut self.written, ledger, &ruling, rows);
            settle_pools(ledger, &ruling.pools, now, &mut self.freed)?;
            ring_lanes(ledger, before.as_deref(), &flow, &mut self.freed);
        }
        if before.is_none() {
            ledger.last_born = Some(flow.id.0);
            self.written.born = true;
        }
        ledger.tasks.insert(flow.id, after);
        Ok(done)
    }
}

fn note_rows(written: &mut Written, ledger: &mut Ledger, ruling: &Ruling, rows: Rows) {
    let (key, flow) = (ledger.key, &ruling.task.flow);
    if let Some(body) = rows.brief {
        let project = flow.project.as_str().to_owned();
        written.briefs.push((key, flow.id, project, flow.parent(), flow.version, body));
        if let Some(brief) = &ruling.task.brief {
            ledger.briefs.insert(flow.id, brief.clone());
        }
    }
    for (record, body) in ruling.records.iter().zip(rows.records) {
        written.records.push((key, flow.id, flow.version, record.clone(), body));
    }
    for (on, add) in &ruling.edges {
        written.edges.push((key, flow.id, *on, *add));
    }
    written.reactions.extend(ruling.reactions.iter().map(|it| (key, it.clone())));
    if flow.ending().is_some() {
        // An ended task waits for nothing any more.
        for waiting in ledger.dependants.values_mut() {
            waiting.remove(&flow.id);
        }
    }
}

/// A pool that was not locked may have changed since it was read: the batch must begin anew with
/// all of them.
fn settle_pools(
    ledger: &mut Ledger,
    moves: &[PoolMove],
    now: Timestamp,
    freed: &mut Vec<Freed>,
) -> Result<(), Trouble> {
    let mut touched = Pools::new();
    for change in moves {
        let name = change.pool();
        if ledger.set.contains(name) && !ledger.locked.contains(name) {
            return Err(Trouble::Again(format!("the pool {name} was not locked")));
        }
        let Some(pool) = ledger.pools.get_mut(name) else { continue };
        touched.entry(name.clone()).or_insert_with(|| pool.clone());
        pool.apply(change, now);
    }
    let mut eased = false;
    for (name, before) in &touched {
        let pool = &ledger.pools[name];
        eased |= is_eased(name, Some(before), Some(pool), now);
        if pool.is_idle() {
            ledger.pools.remove(name);
        }
        ledger.pools_changed.insert(name.clone());
    }
    if eased {
        freed.push(Freed::Pools(ledger.id.clone()));
    }
    Ok(())
}

fn ring_lanes(
    ledger: &Ledger,
    before: Option<&baton_domain::task::Flow>,
    after: &baton_domain::task::Flow,
    freed: &mut Vec<Freed>,
) {
    if after.ending().is_some() {
        return;
    }
    let had = before.filter(|flow| flow.ending().is_none()).map(|flow| flow.lanes());
    let had = had.unwrap_or_default();
    let joined = after.lanes().into_iter().filter(|lane| !had.contains(lane));
    freed.extend(joined.map(|lane| Freed::Lane(ledger.id.clone(), lane)));
}
