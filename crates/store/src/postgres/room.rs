//! What one batch knows: rows that it has locked or read, and how its orders have changed them. The
//! room is filled from the database, judged in memory and written back in one flush.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_domain::ids::{AttemptId, PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::pool::{PoolName, Pools};
use baton_domain::project::Project;
use baton_domain::scene::Lease;
use baton_domain::task::{Brief, Ending, Flow};
use baton_domain::time::Timestamp;

use super::ink::Written;
use super::manner::Tasks;
use crate::Freed;
use crate::chain::{Hash, ROOT};

/// The projects of a tenant.
pub(super) type Projects = HashMap<ProjectId, Arc<Project>>;

/// Everything that a batch knows.
#[derive(Default)]
pub(super) struct Room {
    pub(super) now: Timestamp,
    /// No lease ends before this.
    pub(super) amnesty: Timestamp,
    /// When somebody last watched the time.
    pub(super) watched_at: Timestamp,
    /// Whether commits wait for a standby.
    pub(super) is_followed: bool,
    pub(super) tenants: BTreeMap<i64, Ledger>,
    /// Tasks that orders name and that somebody else holds just now.
    pub(super) elsewhere: Tasks,
    /// Reactions that this batch may carry out.
    pub(super) owed: BTreeSet<i64>,
    pub(super) written: Written,
    pub(super) freed: Vec<Freed>,
}

/// What it knows of one tenant.
pub(super) struct Ledger {
    pub(super) key: i64,
    pub(super) id: TenantId,
    pub(super) records_version: u64,
    pub(super) records_head: Hash,
    /// Whether projects and pools are those that somebody here last saw, until the version is known.
    pub(super) records_guessed: bool,
    /// Whether projects and pools are those of this version, rather than not looked at yet.
    pub(super) records_known: bool,
    pub(super) projects: Arc<Projects>,
    /// Those that somebody has set, or had when the records last changed.
    pub(super) set: Arc<BTreeSet<PoolName>>,
    /// Of these, those that this batch may look at or change: locked, and as they are.
    pub(super) pools: Pools,
    pub(super) locked: BTreeSet<PoolName>,
    pub(super) pools_changed: BTreeSet<PoolName>,
    pub(super) tasks: HashMap<TaskId, Kept>,
    /// Who waits for each of these, and is live.
    pub(super) dependants: HashMap<TaskId, BTreeSet<TaskId>>,
    pub(super) dependencies: HashMap<TaskId, BTreeSet<TaskId>>,
    pub(super) upstream: HashMap<TaskId, BTreeSet<TaskId>>,
    pub(super) children: HashMap<TaskId, BTreeMap<TaskId, Option<Ending>>>,
    pub(super) siblings: HashMap<TaskId, usize>,
    pub(super) briefs: HashMap<TaskId, Brief>,
    pub(super) earlier: HashMap<(PrincipalId, String), Earlier>,
    /// The number of the last task that was born; none if none is to be born.
    pub(super) last_born: Option<u64>,
    /// The first attempt that each of these holds.
    pub(super) holding: HashMap<PrincipalId, AttemptId>,
}

/// A task as it is, or as it will be.
pub(super) struct Kept {
    pub(super) flow: Arc<Flow>,
    pub(super) lease: Option<Lease>,
    /// The link before the first entry of this batch.
    pub(super) head: Hash,
    /// Entries that this batch has added.
    pub(super) entries: usize,
    pub(super) lease_changed: bool,
    /// Whether it may be changed.
    pub(super) locked: bool,
}

/// What was answered to a request.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) fingerprint: [u8; 32],
    pub(super) at: Timestamp,
    pub(super) task: Option<TaskId>,
    /// The position of its entry; told late for what this very batch has done.
    pub(super) position: Option<Spot>,
    /// The attempt whose lease was shown.
    pub(super) attempt: Option<u32>,
    /// The run that it was about.
    pub(super) run: Option<u32>,
}

/// A position that is known, or how far before the last entry of this batch it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    At(u64),
    /// The so-manieth entry of the tenant in this batch, from one.
    New(u64),
}

impl Room {
    /// Whether one of its requests may have been carried out before.
    pub(super) fn is_repeated(&self) -> bool {
        self.tenants.values().any(|ledger| !ledger.earlier.is_empty())
    }
}

impl Ledger {
    pub(super) fn new(key: i64, id: TenantId) -> Self {
        Self {
            key,
            id,
            records_version: 0,
            records_head: ROOT,
            records_guessed: false,
            records_known: false,
            projects: Arc::default(),
            set: Arc::default(),
            pools: Pools::new(),
            locked: BTreeSet::new(),
            pools_changed: BTreeSet::new(),
            tasks: HashMap::new(),
            dependants: HashMap::new(),
            dependencies: HashMap::new(),
            upstream: HashMap::new(),
            children: HashMap::new(),
            siblings: HashMap::new(),
            briefs: HashMap::new(),
            earlier: HashMap::new(),
            last_born: None,
            holding: HashMap::new(),
        }
    }

    /// Which version of the records holds: what was guessed by another is forgotten.
    pub(super) fn know_version(&mut self, version: u64) {
        self.records_known = self.records_guessed && self.records_version == version;
        self.records_version = version;
        if !self.records_known {
            (self.projects, self.set) = (Arc::default(), Arc::default());
        }
    }

    /// An attempt that this principal holds.
    pub(super) fn held_by(&self, principal: &PrincipalId) -> Option<AttemptId> {
        let own = self.tasks.iter().filter_map(|(task, kept)| {
            let lease = kept.lease.as_ref().filter(|lease| lease.holder == *principal)?;
            Some(AttemptId { task: *task, number: lease.attempt })
        });
        let before = self.holding.get(principal).filter(|id| !self.tasks.contains_key(&id.task));
        own.chain(before.copied()).min()
    }
}
