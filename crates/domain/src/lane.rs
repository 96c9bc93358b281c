//! Lanes: work that is alike to a claimer queues together, oldest first. A claim compares only
//! the heads of the lanes that admit it, so its price follows live work, never finished work.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{
    Account, AttemptId, Capability, ConcurrencyKey, PrincipalId, ProjectId, StageName, TaskId,
};
use crate::pool::{PoolName, Pools, Take, bar};
use crate::project::Project;
use crate::refusal::Refusal;
use crate::run::{BlockKind, Cap, Delay, Idle, Mode, RunState, Why};
use crate::task::{Flow, Priority};
use crate::time::{Millis, Timestamp};

/// What all tasks of a lane have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    pub project: ProjectId,
    pub stage: StageName,
    pub sort: Sort,
    pub priority: Priority,
    pub capabilities: BTreeSet<Capability>,
    pub assignee: Option<PrincipalId>,
    /// Their ancestors, whose pools count.
    pub ancestors: Vec<TaskId>,
    pub key: Option<ConcurrencyKey>,
    /// What each attempt reserves of the budgets of its tree.
    pub budget_micros: u64,
}

/// Why a run may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    /// It is queued.
    Ready,
    /// It is parked and may be picked up.
    Blocked { kind: BlockKind, sticky: bool },
    /// It is parked with a condition to be tried.
    Probe,
    /// It was submitted and waits for a verifier.
    Submitted,
}

/// Who wants work, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    pub principal: PrincipalId,
    #[serde(default)]
    pub person: bool,
    /// Whether a worker that will supervise.
    pub mode: Mode,
    #[serde(default)]
    pub capabilities: BTreeSet<Capability>,
    /// The account whose rate limit it will use.
    #[serde(default)]
    pub account: Option<Account>,
    /// The agents that it would run where a task names none, the preferred one first.
    #[serde(default)]
    pub agents: Vec<Offer>,
    #[serde(default)]
    pub project: Option<ProjectId>,
    #[serde(default)]
    pub stage: Option<StageName>,
    /// Nothing less urgent; without a wish, everything.
    #[serde(default = "Priority::lowest")]
    pub priority_min: Priority,
    #[serde(default)]
    pub wants: Wants,
}

/// An agent that a claimer can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its name, which is its role.
    pub role: Capability,
    /// What it is able to do.
    pub capabilities: BTreeSet<Capability>,
}

/// What stands before the name of an agent in a capability: a task that needs `agent:claude` names it.
pub const AGENT_PREFIX: &str = "agent:";

/// What a claimer is after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wants {
    /// Queued work.
    #[default]
    Ready,
    /// Queued work, or parked work that it may pick up.
    ReadyOrBlocked,
    /// Parked work alone.
    Blocked,
    /// Conditions to try.
    Probe,
    /// Submissions to verify, and runs that Baton itself works.
    Submitted,
    /// Cars of the train.
    Merges,
}

impl Flow {
    /// The lanes that the task queues in now: at most two, for a parked run with a condition.
    #[must_use]
    pub fn lanes(&self) -> Vec<Lane> {
        if self.impediment().is_some() { vec![] } else { self.lanes_once_free() }
    }

    /// The lanes that it would queue in if nothing stopped it.
    pub(crate) fn lanes_once_free(&self) -> Vec<Lane> {
        let Some(run) = &self.run else { return vec![] };
        let RunState::Idle(idle) = &run.state else { return vec![] };
        let lane = |sort, needs: Option<&Capability>| Lane {
            project: self.project.clone(),
            stage: run.stage.clone(),
            sort,
            priority: self.priority,
            capabilities: self.capabilities.iter().chain(needs).cloned().collect(),
            assignee: self.assignee.clone(),
            ancestors: self.ancestors.clone(),
            key: self.key.clone(),
            budget_micros: self.policy.budget_micros,
        };
        match idle {
            Idle::Queued => vec![lane(Sort::Ready, None)],
            Idle::Delayed { .. } => vec![],
            // A person vouches for what no worker can check, and a reviewer says what no command can.
            Idle::Submitted(mark) if !mark.tree || mark.review => vec![],
            Idle::Submitted(_) => vec![lane(Sort::Submitted, None)],
            Idle::Blocked(block) => {
                let sort = Sort::Blocked { kind: block.why.kind(), sticky: block.sticky };
                let mut lanes = match &block.why {
                    Why::Capability { needs } => vec![lane(sort, Some(needs))],
                    Why::NeedsInput | Why::Transient { .. } => vec![lane(sort, None)],
                    Why::Dependency { .. } | Why::Limit { .. } => vec![],
                };
                if block.condition && !block.sticky {
                    lanes.push(lane(Sort::Probe, None));
                }
                lanes
            }
        }
    }

    /// The budgets that its attempts spend: its own, and those of everything above it.
    pub fn budgets(&self) -> impl Iterator<Item = PoolName> + '_ {
        budgets(&self.ancestors, &self.project).chain([PoolName::Budget(self.id)])
    }

    /// Whether its run waits for money and for nothing else: parked at a budget, or put off until the next
    /// day. What came back too often is for a person alone, and what waits for exactly the beginning of a day
    /// waits for the money of that day; an account that resets then is shut until then, whoever asks.
    #[must_use]
    pub fn waits_for_money(&self) -> bool {
        let Some(run) = &self.run else { return false };
        match &run.state {
            RunState::Idle(Idle::Blocked(block)) => {
                block.why == (Why::Limit { cap: Cap::Budget }) && !block.sticky
            }
            RunState::Idle(Idle::Delayed { due_at, why: Delay::RateLimit }) => {
                due_at.begins_a_day()
            }
            RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
            | RunState::Held(_) => false,
        }
    }

    /// Whether more money in this budget may let it go on.
    #[must_use]
    pub fn is_parked_by(&self, budget: &PoolName) -> bool {
        self.waits_for_money() && self.budgets().any(|own| own == *budget)
    }

    /// Since when it may be claimed: blocked work queues by the time of its block.
    #[must_use]
    pub fn ready_at(&self) -> Timestamp {
        self.run.as_ref().map_or(self.created_at, |run| run.ready_at)
    }
}

impl Lane {
    /// Whether the claimer may take from this lane, pools aside.
    #[must_use]
    pub fn admits(&self, claimant: &Claimant) -> bool {
        let matches = claimant.project.as_ref().is_none_or(|project| *project == self.project)
            && claimant.stage.as_ref().is_none_or(|stage| *stage == self.stage)
            && claimant.priority_min <= self.priority;
        matches && self.sort.suits(claimant) && self.can_be_done_by(claimant)
    }

    /// A person can do everything; whoever checks, merges or probes need not be able to do the work, nor
    /// be the one that it is assigned to.
    fn can_be_done_by(&self, claimant: &Claimant) -> bool {
        match self.sort {
            Sort::Ready if matches!(claimant.wants, Wants::Submitted | Wants::Merges) => true,
            Sort::Ready | Sort::Blocked { .. } => {
                self.assignee.as_ref().is_none_or(|only| *only == claimant.principal)
                    && (claimant.person || self.capabilities.is_subset(&claimant.capabilities))
            }
            Sort::Probe | Sort::Submitted => true,
        }
    }

    /// Whether the project lets this claimer work there; to verify and to probe, anybody may come.
    #[must_use]
    pub fn is_open_to(&self, claimant: &Claimant, project: &Project) -> bool {
        match self.sort {
            Sort::Ready | Sort::Blocked { .. } => project.lets_work(claimant, &self.stage),
            Sort::Probe | Sort::Submitted => true,
        }
    }

    /// The pools that a claim from this lane takes from, and how much.
    #[must_use]
    pub fn takes(&self, claimant: &Claimant) -> Vec<Take> {
        self.shared_takes().into_iter().chain(self.own_asks(claimant)).collect()
    }

    /// The role in which a claimer would work: the agent that the task names, or the first of its own that is
    /// able to. Whoever checks or probes is no agent.
    fn role_of(&self, claimant: &Claimant) -> Option<Capability> {
        match self.sort {
            Sort::Ready | Sort::Blocked { .. } => {}
            Sort::Probe | Sort::Submitted => return None,
        }
        let named = self.capabilities.iter().find_map(Capability::names_agent);
        let able = |offer: &&Offer| self.capabilities.is_subset(&offer.capabilities);
        named.or_else(|| claimant.agents.iter().find(able).map(|offer| offer.role.clone()))
    }

    /// What everybody takes who claims from this lane.
    fn shared_takes(&self) -> Vec<Take> {
        let stage = PoolName::Stage(self.project.clone(), self.stage.clone());
        let mut takes = vec![Take { pool: stage, amount: 1 }];
        if let Some(key) = &self.key {
            takes.push(Take { pool: PoolName::Key(self.project.clone(), key.clone()), amount: 1 });
        }
        if self.budget_micros > 0 {
            takes.extend(self.budgets().map(|pool| Take { pool, amount: self.budget_micros }));
        }
        takes
    }

    /// The budgets that whoever claims from this lane spends, besides that of the task itself.
    fn budgets(&self) -> impl Iterator<Item = PoolName> + '_ {
        budgets(&self.ancestors, &self.project)
    }

    /// The pools that only need to be open, not to have room.
    pub fn gates(&self) -> impl Iterator<Item = PoolName> + '_ {
        [PoolName::Scheduler, PoolName::Project(self.project.clone())]
            .into_iter()
            .chain(self.ancestors.iter().map(|task| PoolName::Tree(*task)))
    }

    /// Everything that must admit a claim from this lane, and how much of it: what must only be open
    /// is asked for nothing, and whoever reserves no money may still not spend what is spent already.
    pub fn asks(&self, claimant: &Claimant) -> impl Iterator<Item = Take> {
        self.shared_asks().chain(self.own_asks(claimant))
    }

    /// What must admit this claimer, whoever else may be let in: its role, and its own limits.
    pub(crate) fn own_asks(&self, claimant: &Claimant) -> impl Iterator<Item = Take> {
        let role = self.role_of(claimant).map(PoolName::Role);
        role.map(|pool| Take { pool, amount: 1 }).into_iter().chain(claimant.takes())
    }

    /// What must admit everybody.
    pub(crate) fn shared_asks(&self) -> impl Iterator<Item = Take> {
        let open = self.gates().map(|pool| Take { pool, amount: 0 });
        let unreserved = self.budgets().filter(|_| self.budget_micros == 0);
        let solvent = unreserved.map(|pool| Take { pool, amount: 1 });
        open.chain(self.shared_takes()).chain(solvent)
    }

    /// The place of a task in the order of all lanes: its age, and a head start for its priority.
    #[must_use]
    pub fn rank(&self, ready_at: Timestamp) -> Timestamp {
        ready_at - self.priority.head_start()
    }
}

/// The budgets of everything above a task: of its ancestors, its project, and the day.
fn budgets<'a>(
    ancestors: &'a [TaskId],
    project: &'a ProjectId,
) -> impl Iterator<Item = PoolName> + 'a {
    let of_tree = ancestors.iter().map(|task| PoolName::Budget(*task));
    of_tree.chain([
        PoolName::ProjectBudget(project.clone()),
        PoolName::ProjectDayBudget(project.clone()),
        PoolName::DayBudget,
    ])
}

impl Capability {
    /// The agent that it names, if it names one.
    #[must_use]
    pub fn names_agent(&self) -> Option<Capability> {
        self.as_str().strip_prefix(AGENT_PREFIX).and_then(|name| Self::new(name).ok())
    }
}

impl Claimant {
    /// Why the claimer would get nothing whatever there is: its own limits, or those of its account.
    pub fn own_bar(
        &self,
        pools: &Pools,
        now: Timestamp,
        held: impl FnOnce() -> Option<AttemptId>,
    ) -> Option<Refusal> {
        let bar = self.takes().find_map(|take| bar(pools, &take, now));
        bar.map(|refusal| refusal.naming(held))
    }

    /// What it takes of its own limits, whatever it claims.
    pub(crate) fn takes(&self) -> impl Iterator<Item = Take> {
        let account = self.account.clone().map(PoolName::Account);
        let own = [PoolName::Holder(self.principal.clone())].into_iter().chain(account);
        own.map(|pool| Take { pool, amount: 1 })
    }
}

impl Sort {
    fn suits(self, claimant: &Claimant) -> bool {
        let supervised = claimant.mode == Mode::Supervised;
        match (self, claimant.wants) {
            (Self::Ready, Wants::Ready | Wants::ReadyOrBlocked) => true,
            // Whether Baton works there is for the project to say.
            (Self::Ready, Wants::Submitted | Wants::Merges) => supervised,
            (Self::Blocked { kind, sticky }, Wants::Blocked | Wants::ReadyOrBlocked) => {
                claimant.person || (kind == BlockKind::Capability && !sticky)
            }
            (Self::Probe, Wants::Probe) | (Self::Submitted, Wants::Submitted) => supervised,
            (Self::Ready, Wants::Blocked | Wants::Probe)
            | (
                Self::Blocked { .. },
                Wants::Ready | Wants::Probe | Wants::Submitted | Wants::Merges,
            )
            | (
                Self::Probe | Self::Submitted,
                Wants::Ready | Wants::ReadyOrBlocked | Wants::Blocked | Wants::Merges,
            )
            | (Self::Probe, Wants::Submitted)
            | (Self::Submitted, Wants::Probe) => false,
        }
    }
}

impl Wants {
    /// Whether it is after work, and not after what Baton does itself.
    #[must_use]
    pub fn is_work(self) -> bool {
        match self {
            Self::Ready | Self::ReadyOrBlocked | Self::Blocked => true,
            Self::Probe | Self::Submitted | Self::Merges => false,
        }
    }
}

impl Priority {
    /// What nothing is less urgent than.
    #[must_use]
    pub fn lowest() -> Self {
        Self::Low
    }

    /// How much later than others it may come and still go first.
    #[must_use]
    pub fn head_start(self) -> Millis {
        match self {
            Self::Low => Millis(0),
            Self::Normal => Millis::minutes(10),
            Self::High => Millis::hours(1),
            Self::Urgent => Millis::hours(24),
        }
    }
}
