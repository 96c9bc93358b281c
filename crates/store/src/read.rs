//! What a store tells: rows as they are, typed by tenant.

mod cursor;
mod list;
mod runs;
mod stats;

use std::sync::Arc;

use baton_domain::event::Event;
use baton_domain::ids::{LineId, PrincipalId, TaskId, TenantId};
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::RecordEvent;
use baton_domain::task::{Brief, Flow};
use baton_domain::time::{Millis, Timestamp};

use crate::chain::Fault;
use crate::order::Actor;
use crate::rows::json;

pub(crate) use cursor::begin;
pub use cursor::{Cursor, Page};
pub use list::{Column, Filter, List, PAGE_MAX, SCAN_MAX};
pub(crate) use list::{page_size, versions};
pub use runs::{HistoryKey, PastId, RunFilter, RunFull, RunNow, RunRow, RunWord, SHOWN_MAX};
pub(crate) use stats::COUNTED_MAX;
pub use stats::Stats;

/// What was read, and how far the store had come: whoever follows the entries from there misses
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<T> {
    /// What was read.
    pub what: T,
    /// Everything up to this position of the tenant's entries is in it.
    pub as_of: u64,
}

/// A task with everything but its history. The nonce of its lease stays in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Where it stands.
    pub flow: Arc<Flow>,
    /// What it is about.
    pub brief: Brief,
    /// Who holds it, and until when.
    pub lease: Option<LeaseRow>,
}

/// Who holds a run, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// The fence.
    pub attempt: u32,
    /// Who.
    pub holder: PrincipalId,
    /// When it ends without renewal.
    pub expires_at: Timestamp,
}

/// One row of the history of a tenant: what one order changed of one task or record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Dense per tenant, in the order of commits.
    pub position: u64,
    /// When.
    pub at: Timestamp,
    /// Who, and by which way.
    pub actor: Actor,
    /// What it tells of.
    pub about: About,
    /// What happened.
    pub happened: Happened,
}

/// What an entry tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A task, at this version of it.
    Task(TaskId, u64),
    /// Projects and pools of the tenant, at this version of them all.
    Records(u64),
}

/// What happened, as far as this binary can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// To a task.
    ToTask(Vec<Event>),
    /// To a record.
    ToRecord(Vec<RecordEvent>),
    /// Written by a newer binary, kept as it is.
    Unknown(String),
    /// Erased on purpose; its digest still holds the chain together.
    Erased,
}

impl Entry {
    /// Whether it tells what was found of this line of a contract.
    pub(crate) fn checks(&self, line: &LineId) -> bool {
        let Happened::ToTask(events) = &self.happened else { return false };
        events.iter().any(|event| {
            event.receipts().into_iter().flatten().any(|receipt| receipt.line == *line)
        })
    }
}

/// What stands in the text of every entry that tells what was found of this line: a database passes
/// over the others without reading them.
pub(crate) fn mark_of(line: &LineId) -> String {
    format!("\"line\":{}", json(line))
}

/// Part of a list of tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    /// In the order of their names.
    pub rows: Vec<TenantId>,
    /// Whether there are more after these.
    pub more: bool,
}

/// A pool under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// What it limits.
    pub name: PoolName,
    /// How it stands.
    pub pool: Pool,
}

/// How the store is. Ages, not states: a stuck part shows by growing old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Since the last commit.
    pub commit_age: Option<Millis>,
    /// Since the write-ahead log was last copied back.
    pub checkpoint_age: Option<Millis>,
    /// Since the last sweep.
    pub sweep_age: Option<Millis>,
    /// How long the most overdue lease is past its effective end.
    pub overdue: Millis,
    /// Orders that wait.
    pub queued: usize,
    /// Live tasks.
    pub live: usize,
    /// Entries of all tenants that hold, by the last audit or by the one under way.
    pub verified_entries: u64,
    /// Since an audit went over everything.
    pub audit_age: Option<Millis>,
    /// What was changed behind the store's back, if an audit found anything.
    pub tampered: Option<Fault>,
    /// Bytes free where the store is.
    pub free_bytes: Option<u64>,
    /// Whether new work is refused for want of room.
    pub full: bool,
    /// How far the clock was set back that the store goes by; time goes on as if it had not been.
    pub clock_behind: Millis,
    /// Why the store stopped, if it did.
    pub stopped: Option<String>,
}
