//! Limits over many tasks. What an attempt took is written in the attempt and given back by it,
//! so a changed limit never leaks a slot: used = the takes of live attempts, plus settled spend.
//! Money that is for a day counts until midnight in UTC by the store's clock; nobody resets it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Account, Capability, ConcurrencyKey, PrincipalId, ProjectId, StageName, TaskId};
use crate::refusal::Refusal;
use crate::text::Reason;
use crate::time::Timestamp;

/// What a pool limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolName {
    /// Everything of the tenant.
    Scheduler,
    /// Everything of a project.
    Project(ProjectId),
    /// A column of the board: work in progress.
    Stage(ProjectId, StageName),
    /// A task and everything below it.
    Tree(TaskId),
    /// Slots of a holder.
    Holder(PrincipalId),
    /// Tasks that share a key.
    Key(ProjectId, ConcurrencyKey),
    /// Agents of one name, whoever runs them: the one that a task or its stage names, or the one that a worker
    /// runs where none is named.
    Role(Capability),
    /// A rate-limited account.
    Account(Account),
    /// Money for a task and everything below it.
    Budget(TaskId),
    /// Money for everything of a project.
    ProjectBudget(ProjectId),
    /// Money for everything of a project in one day.
    ProjectDayBudget(ProjectId),
    /// Money for everything of the tenant in one day.
    DayBudget,
}

/// A counted limit. A pool that nobody set does not exist and limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// How much may be taken at once; none means only the pause counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shut: Option<Shut>,
    #[serde(default)]
    pub used: u64,
    #[serde(default)]
    pub settled: u64,
    /// The day that `settled` is of, if it counts for one day alone: the next one begins at nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<i64>,
}

/// Why a pool is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shut {
    pub reason: Reason,
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What an attempt took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    pub pool: PoolName,
    pub amount: u64,
}

/// A change to a pool by a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolMove {
    /// An attempt begins.
    Take(Take),
    /// An attempt ends; what it spent stays gone.
    Return { take: Take, spent: u64 },
}

/// The pools of a tenant that a command may touch.
pub type Pools = BTreeMap<PoolName, Pool>;

impl Pool {
    /// Whether so much more may be taken now.
    #[must_use]
    pub fn admits(&self, amount: u64, now: Timestamp) -> bool {
        self.is_open(now)
            && self.limit.is_none_or(|limit| self.gone(now).saturating_add(amount) <= limit)
    }

    /// Whether it is not shut, or shut no longer.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.shut.as_ref().is_none_or(|shut| shut.until.is_some_and(|until| until <= now))
    }

    /// Whether it says nothing that a pool which nobody set would not say.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// How much more may be taken; without a limit, anything.
    #[must_use]
    pub fn room(&self, now: Timestamp) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.gone(now)))
    }

    /// What was spent for good and still counts: of a day that is over, nothing.
    #[must_use]
    pub fn settled(&self, now: Timestamp) -> u64 {
        if self.day.is_some_and(|day| day != now.day()) { 0 } else { self.settled }
    }

    /// When so much could be taken without anybody doing anything: the pause is over, or the day is.
    #[must_use]
    pub fn opens_at(&self, amount: u64, now: Timestamp) -> Option<Timestamp> {
        let until = self.shut.as_ref().filter(|_| !self.is_open(now)).map(|shut| shut.until);
        let until = until.map_or(Some(now), |until| until)?;
        let tomorrow = until.max(now.next_day());
        [until, tomorrow].into_iter().find(|at| self.admits(amount, *at))
    }

    /// Whether a pause of it ended between two times, or a day for which it counts.
    #[must_use]
    pub fn has_opened(&self, last: Timestamp, now: Timestamp) -> bool {
        let until = self.shut.as_ref().and_then(|shut| shut.until);
        until.is_some_and(|until| last < until && until <= now)
            || (self.day.is_some() && last.day() != now.day())
    }

    /// What cannot be taken now.
    fn gone(&self, now: Timestamp) -> u64 {
        self.used.saturating_add(self.settled(now))
    }

    /// Carries out a change.
    pub fn apply(&mut self, change: &PoolMove, now: Timestamp) {
        self.settled = self.settled(now);
        self.day = self.day.filter(|day| *day == now.day());
        match change {
            PoolMove::Take(take) => self.used = self.used.saturating_add(take.amount),
            PoolMove::Return { take, spent } => {
                self.used = self.used.saturating_sub(take.amount);
                self.settled = self.settled.saturating_add(*spent);
                if *spent > 0 && take.pool.is_of_day() {
                    self.day = Some(now.day());
                }
            }
        }
    }
}

/// Whether somebody may be let in who was not before; what is not there limits nothing. Slots are
/// taken one by one, so only a full pool can be eased; of money anybody may have wanted more.
#[must_use]
pub fn is_eased(
    name: &PoolName,
    before: Option<&Pool>,
    after: Option<&Pool>,
    now: Timestamp,
) -> bool {
    let Some(before) = before else { return false };
    let admits = |pool: &Pool| pool.admits(1, now);
    let room = |pool: &Pool| pool.room(now);
    let more = name.is_money() && after.map_or(u64::MAX, room) > room(before);
    after.is_none_or(admits) && (!admits(before) || more)
}

/// Why so much cannot be taken now, if it cannot.
#[must_use]
pub fn bar(pools: &Pools, ask: &Take, now: Timestamp) -> Option<Refusal> {
    let pool = pools.get(&ask.pool)?;
    let name = ask.pool.to_string();
    if !pool.is_open(now) {
        return Some(Refusal::Paused { pool: name });
    }
    let full = !pool.admits(ask.amount, now);
    full.then(|| match ask.pool.is_of_claimer() {
        true => Refusal::HolderFull { pool: name, held: None },
        false => Refusal::PoolFull { pool: name },
    })
}

impl PoolMove {
    /// Which pool it changes.
    #[must_use]
    pub fn pool(&self) -> &PoolName {
        match self {
            Self::Take(take) | Self::Return { take, .. } => &take.pool,
        }
    }
}

impl PoolName {
    /// Whether it limits one claimer, while others may still be let in.
    #[must_use]
    pub fn is_of_claimer(&self) -> bool {
        match self {
            Self::Holder(_) | Self::Account(_) => true,
            Self::Scheduler
            | Self::Project(_)
            | Self::Stage(..)
            | Self::Tree(_)
            | Self::Key(..)
            | Self::Role(_)
            | Self::Budget(_)
            | Self::ProjectBudget(_)
            | Self::ProjectDayBudget(_)
            | Self::DayBudget => false,
        }
    }

    /// Whether it is counted in money, of which anybody may want any amount, and not in slots.
    #[must_use]
    pub fn is_money(&self) -> bool {
        match self {
            Self::Budget(_)
            | Self::ProjectBudget(_)
            | Self::ProjectDayBudget(_)
            | Self::DayBudget => true,
            Self::Scheduler
            | Self::Project(_)
            | Self::Stage(..)
            | Self::Tree(_)
            | Self::Holder(_)
            | Self::Key(..)
            | Self::Role(_)
            | Self::Account(_) => false,
        }
    }

    /// Whether what was spent counts until the day is over, and no longer.
    #[must_use]
    pub fn is_of_day(&self) -> bool {
        match self {
            Self::ProjectDayBudget(_) | Self::DayBudget => true,
            Self::Scheduler
            | Self::Project(_)
            | Self::Stage(..)
            | Self::Tree(_)
            | Self::Holder(_)
            | Self::Key(..)
            | Self::Role(_)
            | Self::Account(_)
            | Self::Budget(_)
            | Self::ProjectBudget(_) => false,
        }
    }

    /// Whether nobody takes from it: it is open or shut, and nothing more.
    #[must_use]
    pub fn is_only_paused(&self) -> bool {
        match self {
            Self::Scheduler | Self::Project(_) | Self::Tree(_) => true,
            Self::Stage(..)
            | Self::Holder(_)
            | Self::Key(..)
            | Self::Role(_)
            | Self::Account(_)
            | Self::Budget(_)
            | Self::ProjectBudget(_)
            | Self::ProjectDayBudget(_)
            | Self::DayBudget => false,
        }
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduler => f.write_str("scheduler"),
            Self::Project(project) => write!(f, "project {project}"),
            Self::Stage(project, stage) => write!(f, "stage {project} {stage}"),
            Self::Tree(task) => write!(f, "tree {task}"),
            Self::Holder(holder) => write!(f, "holder {holder}"),
            Self::Key(project, key) => write!(f, "key {project} {key}"),
            Self::Role(role) => write!(f, "role {role}"),
            Self::Account(account) => write!(f, "account {account}"),
            Self::Budget(task) => write!(f, "budget {task}"),
            Self::ProjectBudget(project) => write!(f, "budget project {project}"),
            Self::ProjectDayBudget(project) => write!(f, "budget day {project}"),
            Self::DayBudget => f.write_str("budget day"),
        }
    }
}

/// Reads what `Display` writes, and nothing else: a pool has one spelling.
impl FromStr for PoolName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let words: Vec<_> = text.split(' ').collect();
        let name = match *words.as_slice() {
            ["scheduler"] => Self::Scheduler,
            ["project", project] => Self::Project(project.parse()?),
            ["stage", project, stage] => Self::Stage(project.parse()?, stage.parse()?),
            ["tree", task] => Self::Tree(task.parse()?),
            ["holder", holder] => Self::Holder(holder.parse()?),
            ["key", project, key] => Self::Key(project.parse()?, key.parse()?),
            ["role", role] => Self::Role(role.parse()?),
            ["account", account] => Self::Account(account.parse()?),
            ["budget", "day"] => Self::DayBudget,
            ["budget", "day", project] => Self::ProjectDayBudget(project.parse()?),
            ["budget", "project", project] => Self::ProjectBudget(project.parse()?),
            ["budget", task] => Self::Budget(task.parse()?),
            _ => {
                let rule = "must be `scheduler`, `project P`, `stage P S`, `tree T-1`, `holder H`, \
                            `key P K`, `role R`, `account A`, `budget T-1`, \
                            `budget project P`, `budget day P` or `budget day`";
                return Err(Refusal::Invalid { field: "pool".into(), rule: rule.into() });
            }
        };
        Ok(name)
    }
}
