//! The scheduler: whether anything is claimed at all, of everything or of a part.

use baton_domain::ids::{Account, ProjectId, StageName, TaskId};
use baton_domain::pool::PoolName;
use baton_domain::text::Reason;

use crate::call::Call;
use crate::operation::{Answered, Declaration, Hints, Method, Operation};
use crate::problem::Problem;
use crate::shape::{Violation, When, record};
use crate::views::PoolView;

use super::pool;

record! {
    /// What to pause; everything if nothing is named.
    pub struct Pause {
        /// Only this project.
        project: Option<ProjectId>,
        /// Only this stage of the project.
        stage: Option<StageName>,
        /// Only this task and everything below it.
        task: Option<TaskId>,
        /// Only work under this account.
        account: Option<Account>,
        /// Why.
        reason: Reason,
        /// When it ends by itself.
        until: Option<When>,
    }

    /// What to go on with; everything if nothing is named. Each pause is lifted by its own name.
    pub struct Resume {
        /// Only this project.
        project: Option<ProjectId>,
        /// Only this stage of the project.
        stage: Option<StageName>,
        /// Only this task and everything below it.
        task: Option<TaskId>,
        /// Only work under this account: its provider has opened it early.
        account: Option<Account>,
    }
}

impl Operation for Pause {
    const ABOUT: Declaration = Declaration::of_person(
        ("scheduler", "pause"),
        (Method::Post, "/v1/scheduler/pause"),
        Hints::SETS,
        &["pool", "limit", "used", "settled", "paused"],
        "Let nothing be claimed: of everything, a project, a stage, a task's tree or an account",
    );

    type Answer = PoolView;

    async fn perform(self, call: &Call) -> Result<Answered<PoolView>, Problem> {
        let pool = part(self.project, self.stage, self.task, self.account)?;
        let committed = pool::pause(call, pool.clone(), self.reason, self.until).await?;
        pool::changed(call, &committed, &pool).await
    }
}

impl Operation for Resume {
    const ABOUT: Declaration = Declaration::of_person(
        ("scheduler", "resume"),
        (Method::Post, "/v1/scheduler/resume"),
        Hints::SETS,
        &["pool", "limit", "used", "settled", "paused"],
        "Lift a pause",
    );

    type Answer = PoolView;

    async fn perform(self, call: &Call) -> Result<Answered<PoolView>, Problem> {
        let pool = part(self.project, self.stage, self.task, self.account)?;
        let committed = pool::resume(call, pool.clone()).await?;
        pool::changed(call, &committed, &pool).await
    }
}

/// The pool that stands for a part of everything.
fn part(
    project: Option<ProjectId>,
    stage: Option<StageName>,
    task: Option<TaskId>,
    account: Option<Account>,
) -> Result<PoolName, Problem> {
    let wrong = |field: &str, rule: &str| {
        Err(Problem::invalid(vec![Violation { field: field.into(), rule: rule.into() }]))
    };
    if let Some(account) = account {
        if project.is_some() || stage.is_some() || task.is_some() {
            return wrong("account", "must not be given beside a project, a stage or a task");
        }
        return Ok(PoolName::Account(account));
    }
    match (project, stage, task) {
        (None, None, None) => Ok(PoolName::Scheduler),
        (Some(project), None, None) => Ok(PoolName::Project(project)),
        (Some(project), Some(stage), None) => Ok(PoolName::Stage(project, stage)),
        (None, None, Some(task)) => Ok(PoolName::Tree(task)),
        (None, Some(_), None) => wrong("project", "is missing: say whose stage it is"),
        (_, _, Some(_)) => wrong("task", "must not be given beside a project or a stage"),
    }
}
