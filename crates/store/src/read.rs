//! What a store tells: rows as they are, typed by tenant.

use std::sync::Arc;

use baton_domain::event::Event;
use baton_domain::ids::{PrincipalId, ProjectId, StageName, TaskId};
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::RecordEvent;
use baton_domain::task::{Brief, Flow};
use baton_domain::time::{Millis, Timestamp};

use crate::order::Actor;

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

/// Which tasks to list; everything absent matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// In this working stage.
    pub stage: Option<StageName>,
    /// Children of this task.
    pub parent: Option<TaskId>,
    /// Ended ones too.
    pub ended: bool,
    /// After this one.
    pub after: Option<TaskId>,
    /// At most so many; the store has a bound of its own.
    pub count_max: usize,
}

/// The most rows that one page holds.
pub const PAGE_MAX: usize = 500;

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether there are more.
    pub more: bool,
    /// How far the list went when it was read: everything up to here has been seen.
    pub as_of: u64,
}

/// A place in the entries of a tenant, bound to one incarnation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Which life of the store; a restored one has another. Zero means: whichever it is.
    pub incarnation: u64,
    /// The last position that was seen.
    pub position: u64,
}

impl Cursor {
    /// Before everything.
    #[must_use]
    pub fn start() -> Self {
        Self { incarnation: 0, position: 0 }
    }
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
    /// Position up to which the chains were verified, over all tenants.
    pub verified_entries: u64,
    /// Bytes free where the store is.
    pub free_bytes: Option<u64>,
    /// Whether new work is refused for want of room.
    pub full: bool,
    /// Why the store stopped, if it did.
    pub stopped: Option<String>,
}
