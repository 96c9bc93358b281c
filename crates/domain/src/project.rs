//! The project: the stages that its tasks pass, and who works and passes each.

use serde::{Deserialize, Serialize};

use crate::channel::ChannelEvent;
use crate::ids::{PrincipalId, ProjectId, StageName, TaskId};
use crate::key::KeyEvent;
use crate::lane::{Claimant, Wants};
use crate::limits::{POOLS_MAX, PROJECTS_MAX, STAGES_MAX};
use crate::pool::{Pool, PoolName, Shut};
use crate::refusal::Refusal;
use crate::run::Mode;
use crate::text::Line;
use crate::time::{Millis, Timestamp};

/// A repository root, or any folder, with its pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Line>,
    pub pipeline: Vec<StageSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_after: Option<Millis>,
    /// Tasks with dependencies start by themselves once all are met.
    #[serde(default)]
    pub promote: bool,
    /// Where its work lands, and by whom.
    #[serde(default, skip_serializing_if = "Landing::is_usual")]
    pub landing: Landing,
}

/// The principal that a worker of the server's own machine is.
pub const LOCAL_WORKER: &str = "local-worker";

/// Where the work of a project lands, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Landing {
    /// Its home: the only one who moves its branches. The worker of the server's own machine, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PrincipalId>,
    /// The branch; the one that is checked out, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Line>,
    /// Where the branch is pushed to once it has moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<Line>,
}

impl Landing {
    /// Nobody has chosen anything.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// One working stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    pub name: StageName,
    #[serde(default)]
    pub worked_by: WorkedBy,
    /// Who lets a task that passed it go on.
    #[serde(default)]
    pub passed_by: PassedBy,
}

/// Who works a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkedBy {
    /// An agent.
    #[default]
    Agent,
    /// Baton itself: a run made of gates.
    Baton,
    /// The merge train: a run is one of its cars.
    Train,
    /// A person.
    Person,
}

/// Who lets a task go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassedBy {
    /// Nobody need: it goes on by itself.
    #[default]
    Server,
    /// The agent that works there: its word that it is done.
    Agent,
    /// A person lifts the review hold.
    Person,
}

/// What may be asked of a record that is not a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordCommand {
    /// Add or change a project.
    PutProject(Project),
    /// Forget a project that has no live tasks.
    RemoveProject,
    /// Limit a pool, or lift its limit.
    LimitPool { pool: PoolName, limit: Option<u64> },
    /// Pause a pool, or resume it.
    ShutPool { pool: PoolName, shut: Option<Shut> },
    /// Pause a pool at least so long; whoever paused it for longer has said more.
    KeepShut { pool: PoolName, shut: Shut },
}

/// What happened to a record that is not a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum RecordEvent {
    /// A project was added or changed.
    ProjectPut { project: Project },
    /// A project was forgotten.
    ProjectRemoved { project: ProjectId },
    /// A pool was limited, or its limit lifted.
    PoolLimited { pool: PoolName, limit: Option<u64> },
    /// A pool was paused or resumed.
    PoolShut { pool: PoolName, shut: Option<Shut> },
    /// Something happened to keys.
    #[serde(untagged)]
    Key(KeyEvent),
    /// Something happened to channels.
    #[serde(untagged)]
    Channel(ChannelEvent),
}

/// What a record command is about, and must be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meant<'a> {
    pub project: Option<&'a ProjectId>,
    pub task: Option<TaskId>,
    pub pool: Option<&'a PoolName>,
}

impl RecordCommand {
    /// What it is about; a project that it does not name itself is named beside it.
    #[must_use]
    pub fn meant<'a>(&'a self, beside: Option<&'a ProjectId>) -> Meant<'a> {
        match self {
            Self::PutProject(project) => Meant { project: Some(&project.id), ..Meant::default() },
            Self::RemoveProject => Meant { project: beside, ..Meant::default() },
            Self::LimitPool { pool, .. }
            | Self::ShutPool { pool, .. }
            | Self::KeepShut { pool, .. } => {
                let (project, task) = match pool {
                    PoolName::Scheduler
                    | PoolName::Holder(_)
                    | PoolName::Role(_)
                    | PoolName::Account(_)
                    | PoolName::DayBudget => (None, None),
                    PoolName::Project(id)
                    | PoolName::Stage(id, _)
                    | PoolName::Key(id, _)
                    | PoolName::ProjectBudget(id)
                    | PoolName::ProjectDayBudget(id) => (Some(id), None),
                    PoolName::Tree(task) | PoolName::Budget(task) => (None, Some(*task)),
                };
                Meant { project, task, pool: Some(pool) }
            }
        }
    }
}

/// What a record command may look at.
#[derive(Clone, Debug, Default)]
pub struct RecordScene {
    /// The project that is meant, as it is now.
    pub project: Option<Project>,
    /// The stages of that project in which tasks stand now.
    pub occupied: Vec<StageName>,
    /// Tasks of that project that have not ended.
    pub live: u64,
    /// How many projects the tenant has.
    pub projects: usize,
    /// Whether the task that the pool is named after is there.
    pub task: bool,
    /// The pool that is meant, as it is now.
    pub pool: Option<Pool>,
    /// How many pools of the tenant somebody has set.
    pub pools: usize,
}

/// Decides a record command.
pub fn decide_record(
    scene: &RecordScene,
    command: &RecordCommand,
    now: Timestamp,
) -> Result<Vec<RecordEvent>, Refusal> {
    match command {
        RecordCommand::PutProject(project) => {
            project.check()?;
            let lost = |name: &&StageName| project.stage(name).is_none();
            if let Some(stage) = scene.occupied.iter().find(lost) {
                return Err(Refusal::StageOccupied { stage: stage.clone() });
            }
            if scene.project.as_ref() == Some(project) {
                return Ok(vec![]);
            }
            if scene.project.is_none() && scene.projects >= PROJECTS_MAX {
                return Err(Refusal::full("projects", PROJECTS_MAX));
            }
            Ok(vec![RecordEvent::ProjectPut { project: project.clone() }])
        }
        RecordCommand::RemoveProject => {
            let project = scene.project.as_ref().ok_or(Refusal::NotFound)?;
            if scene.live > 0 {
                return Err(Refusal::ProjectInUse { live: scene.live });
            }
            Ok(vec![RecordEvent::ProjectRemoved { project: project.id.clone() }])
        }
        RecordCommand::LimitPool { pool, limit } => limit_pool(scene, pool, *limit),
        RecordCommand::ShutPool { pool, shut } => shut_pool(scene, pool, shut.as_ref(), now),
        RecordCommand::KeepShut { pool, shut } => {
            let was = scene.pool.as_ref().and_then(|pool| pool.shut.as_ref());
            if was.is_some_and(|was| was.until.is_none_or(|until| Some(until) >= shut.until)) {
                return Ok(vec![]);
            }
            shut_pool(scene, pool, Some(shut), now)
        }
    }
}

fn limit_pool(
    scene: &RecordScene,
    pool: &PoolName,
    limit: Option<u64>,
) -> Result<Vec<RecordEvent>, Refusal> {
    if limit.is_some() && pool.is_only_paused() {
        let rule = "can be paused but not limited";
        return Err(Refusal::Invalid { field: "pool".into(), rule: rule.into() });
    }
    is_of_something(scene, pool, limit.is_some())?;
    if scene.pool.as_ref().and_then(|pool| pool.limit) == limit {
        return Ok(vec![]);
    }
    has_place(scene)?;
    Ok(vec![RecordEvent::PoolLimited { pool: pool.clone(), limit }])
}

fn shut_pool(
    scene: &RecordScene,
    pool: &PoolName,
    shut: Option<&Shut>,
    now: Timestamp,
) -> Result<Vec<RecordEvent>, Refusal> {
    if shut.and_then(|shut| shut.until).is_some_and(|until| until <= now) {
        let rule = "must be in the future".to_owned();
        return Err(Refusal::Invalid { field: "until".into(), rule });
    }
    is_of_something(scene, pool, shut.is_some())?;
    // Since when it is shut is no wish: pausing again what is paused so changes nothing.
    let wish = |shut: &Shut| (shut.reason.clone(), shut.until);
    let was = scene.pool.as_ref().and_then(|pool| pool.shut.as_ref());
    if was.map(wish) == shut.map(wish) {
        return Ok(vec![]);
    }
    has_place(scene)?;
    let shut = shut.map(|shut| Shut { since: now, ..shut.clone() });
    Ok(vec![RecordEvent::PoolShut { pool: pool.clone(), shut }])
}

/// A pool can be set for what there is; what was set can be lifted although it is gone.
fn is_of_something(scene: &RecordScene, pool: &PoolName, set: bool) -> Result<(), Refusal> {
    if !set && scene.pool.is_some() {
        return Ok(());
    }
    let project = || scene.project.as_ref().ok_or(Refusal::NotFound);
    match pool {
        PoolName::Scheduler
        | PoolName::Holder(_)
        | PoolName::Role(_)
        | PoolName::Account(_)
        | PoolName::DayBudget => Ok(()),
        PoolName::Project(_)
        | PoolName::Key(..)
        | PoolName::ProjectBudget(_)
        | PoolName::ProjectDayBudget(_) => project().map(drop),
        PoolName::Stage(_, stage) => match project()?.stage(stage) {
            Some(_) => Ok(()),
            None => Err(Refusal::NoStage { stage: stage.clone() }),
        },
        PoolName::Tree(_) | PoolName::Budget(_) if scene.task => Ok(()),
        PoolName::Tree(_) | PoolName::Budget(_) => Err(Refusal::NotFound),
    }
}

/// Whether the pool is there, or one more may be.
fn has_place(scene: &RecordScene) -> Result<(), Refusal> {
    if scene.pool.is_none() && scene.pools >= POOLS_MAX {
        return Err(Refusal::full("pools", POOLS_MAX));
    }
    Ok(())
}

impl Project {
    /// Whether it is well-formed.
    pub fn check(&self) -> Result<(), Refusal> {
        let refuse = |rule: &str| {
            Err(Refusal::Invalid { field: "project.pipeline".into(), rule: rule.into() })
        };
        if self.pipeline.is_empty() || self.pipeline.len() > STAGES_MAX {
            return refuse("must have 1 to 12 stages");
        }
        let mut names: Vec<_> = self.pipeline.iter().map(|spec| &spec.name).collect();
        names.sort();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return refuse("must not name a stage twice");
        }
        let reserved = ["backlog", "done", "closed", "ended", "archived"];
        if names.iter().any(|name| reserved.contains(&name.as_str())) {
            return refuse("must not name a stage backlog, done, closed, ended or archived");
        }
        let silent = |spec: &&StageSpec| {
            spec.passed_by == PassedBy::Agent && spec.worked_by != WorkedBy::Agent
        };
        if self.pipeline.iter().any(|spec| silent(&spec)) {
            return refuse("must not be passed by an agent where no agent works");
        }
        if self.pipeline.iter().filter(|spec| spec.worked_by == WorkedBy::Train).count() > 1 {
            return refuse("must have at most one stage that the train works");
        }
        Ok(())
    }

    /// What is left of a project that was forgotten: tasks that ended in it may still be put away.
    #[must_use]
    pub fn gone(id: ProjectId) -> Self {
        let landing = Landing::default();
        Self { id, root: None, pipeline: vec![], archive_after: None, promote: false, landing }
    }

    /// A stage by name.
    #[must_use]
    pub fn stage(&self, name: &StageName) -> Option<&StageSpec> {
        self.pipeline.iter().find(|spec| spec.name == *name)
    }

    /// Who works a stage; agents work one that is gone.
    #[must_use]
    pub fn worked_by(&self, stage: &StageName) -> WorkedBy {
        self.stage(stage).map(|spec| spec.worked_by).unwrap_or_default()
    }

    /// Whether this claimer may work in a stage: one that a person works is not for agents, one that Baton works
    /// is for workers that check, and the train is the home's alone.
    #[must_use]
    pub fn lets_work(&self, claimant: &Claimant, stage: &StageName) -> bool {
        let supervised = claimant.mode == Mode::Supervised;
        let works = claimant.wants.is_work();
        match self.worked_by(stage) {
            WorkedBy::Agent => works,
            WorkedBy::Person => works && claimant.person,
            WorkedBy::Baton => supervised && claimant.wants == Wants::Submitted,
            WorkedBy::Train => {
                supervised && claimant.wants == Wants::Merges && self.is_home(&claimant.principal)
            }
        }
    }

    /// Who moves the project's branches.
    #[must_use]
    pub fn home(&self) -> PrincipalId {
        let local = || PrincipalId::new(LOCAL_WORKER).expect("a plain word is a name");
        self.landing.home.clone().unwrap_or_else(local)
    }

    /// Whether this is who does.
    #[must_use]
    pub fn is_home(&self, principal: &PrincipalId) -> bool {
        let home = self.landing.home.as_ref().map_or(LOCAL_WORKER, PrincipalId::as_str);
        principal.as_str() == home
    }

    /// The nearest stage before this one in which somebody can put things right.
    #[must_use]
    pub fn repairs(&self, name: &StageName) -> Option<&StageSpec> {
        let at = self.pipeline.iter().position(|spec| spec.name == *name)?;
        self.pipeline[..at].iter().rev().find(|spec| match spec.worked_by {
            WorkedBy::Agent | WorkedBy::Person => true,
            WorkedBy::Baton | WorkedBy::Train => false,
        })
    }

    /// The first stage.
    #[must_use]
    pub fn first(&self) -> Option<&StageSpec> {
        self.pipeline.first()
    }

    /// The stage after this one; none if it is the last, or gone.
    #[must_use]
    pub fn after(&self, name: &StageName) -> Option<&StageSpec> {
        let at = self.pipeline.iter().position(|spec| spec.name == *name)?;
        self.pipeline.get(at + 1)
    }
}
