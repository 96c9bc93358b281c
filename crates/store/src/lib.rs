//! Where tasks are kept: orders in, truth out.
//!
//! A store loads the scene of an order, calls the judge that it was given, writes what was
//! decided, commits, and only then answers. It holds no rule of its own, and no connection of it
//! is seen outside this crate.

pub mod blobs;
pub mod chain;
pub mod channels;
pub mod clock;
mod gauges;
mod hanging;
mod inbox;
pub mod keys;
pub mod memory;
pub mod order;
pub mod postgres;
pub mod read;
mod rows;
pub mod ruling;
pub mod sqlite;
mod turns;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::lane::Lane;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::refusal::Refusal;
use baton_domain::time::Timestamp;

pub use channels::ChannelRow;
pub use clock::Clock;
pub use keys::{KeyFound, KeyRow};
pub use order::{Actor, Aim, Committed, Kind, Order, Request};
pub use read::{
    Cursor, Entry, Filter, Health, HistoryKey, List, Page, PastId, PoolRow, RunFilter, RunFull,
    RunRow, Stats, TaskRow, Tenants, Told,
};
pub use rows::Chance;
pub use ruling::Judge;

/// What a store answers with, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Where tasks are kept.
///
/// A store may be asked from any number of threads. What `submit` answered with `Ok` survives a
/// crash of the process and of the machine; what it refused left no trace.
pub trait Store: Send + Sync {
    /// Carries out an order, whole or not at all.
    fn submit(&self, order: Order) -> Answer<'_, Committed>;

    /// Which life of the store this is; a restored one has another, and what was handed out in
    /// the one before is dead.
    fn incarnation(&self) -> u64;

    /// Which installation this is, for as long as its data live: a restore begins another life of
    /// the same installation, so that it knows the processes and worktrees that it left behind.
    fn deployment(&self) -> DeploymentId;

    /// One task with everything but its history.
    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>>;

    /// Tasks by filter, in the order of their numbers.
    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>>;

    /// Runs by filter, live and finished ones, in the order of their numbers.
    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>>;

    /// One run with its attempts and checkpoints.
    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>>;

    /// What the history of a task keeps, oldest first.
    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>>;

    /// One row of the history of a task.
    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>>;

    /// Entries after a cursor, in the order in which they were committed, without gaps.
    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>>;

    /// Entries of one task from a version on.
    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>>;

    /// Entries of one task at these versions, oldest first and each once; at most a page of versions
    /// is looked at, and what is no longer kept is absent.
    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>>;

    /// The last entry of a task that tells what was found of this line of its contract, however old
    /// it is.
    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>>;

    /// The projects of a tenant, in the order of their names.
    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>>;

    /// The pools of a tenant that somebody set, in the order of their names.
    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>>;

    /// How many tasks there are, of one project or of all, and in which state.
    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>>;

    /// The key with this public id, whoever's it is, and what opens it.
    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>>;

    /// The keys of a tenant after this one, in the order of their ids.
    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>>;

    /// The channels of a tenant, or of all, in the order of their names.
    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>>;

    /// The tenants after this one, in the order of their names, whoever asks.
    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants>;

    /// What a request under this key was for, if one was carried out and is still remembered.
    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>>;

    /// Notes when keys were last used. No history is kept of it, and on a full disk it is dropped.
    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()>;

    /// How the store is; every figure is an age or a count, so that it cannot lie by being stale.
    fn health(&self) -> Answer<'_, Health>;

    /// Signs the heads of all chains as they are now.
    fn seal(&self) -> Answer<'_, ()>;

    /// Walks every chain, every seal and every row that hangs on them, and names the first thing that
    /// is wrong.
    fn audit(&self) -> Answer<'_, chain::Audit>;

    /// Goes on with an audit in the background by at most so many rows, and begins anew at its end;
    /// what it finds is in the health. Answers with everything found since it began.
    fn audit_part(&self, count_max: usize) -> Answer<'_, chain::Audit>;
}

/// A digest of the pepper, kept with the data: a server with another pepper would hand out claim
/// secrets that no other server accepts, and is refused at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PepperDigest(pub [u8; 32]);

/// Something became claimable, or can be read. A hint: it may be lost, and the asker looks for
/// itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freed {
    /// A run joined this lane.
    Lane(TenantId, Lane),
    /// Pools of the tenant have room again, or time or a person opened them.
    Pools(TenantId),
    /// Entries of the tenant were added, whether or not whoever asked for them is still there.
    Entries(TenantId),
}

/// Who is told what became claimable: after it is committed, and before the order that made it so is
/// answered, so that whoever waits for work hears of it no later than whoever made it. It must
/// return soon, for the next order waits for it.
pub type Bell = Arc<dyn Fn(&[Freed]) + Send + Sync>;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules refuse it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request key was used before, for something else.
    #[error("the idempotency key was used before for another request")]
    KeyReused,
    /// Too much is waiting.
    #[error("too many orders are waiting")]
    Overloaded,
    /// There is no room for new work; ends of work are still accepted.
    #[error("the disk is full")]
    DiskFull,
    /// The cursor is older than what is kept, or from before a restore.
    #[error("the cursor has expired")]
    CursorExpired {
        /// Nothing up to this position is kept, and everything after it is.
        floor: u64,
    },
    /// The store is closing, or has met a fault and waits to be started again.
    #[error("the store is stopped: {0}")]
    Stopped(String),
    /// The order may have been carried out, or not; the same request key will tell.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// A read failed.
    #[error("reading failed: {0}")]
    Read(String),
    /// This order met a fault of ours; it was undone, and everything else goes on.
    #[error("an internal error: {0}")]
    Internal(String),
}

/// What is known of an order that was not answered with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It had no effect.
    DidNotHappen,
    /// It may have had one.
    Unknown,
}

impl Error {
    /// Whether the order may have had an effect.
    #[must_use]
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::Unknown(_) => Certainty::Unknown,
            Self::Refused(_)
            | Self::KeyReused
            | Self::Overloaded
            | Self::DiskFull
            | Self::CursorExpired { .. }
            | Self::Stopped(_)
            | Self::Read(_)
            | Self::Internal(_) => Certainty::DidNotHappen,
        }
    }
}
