//! Operations that are one word of somebody on one task or its run: what is said is all that they
//! differ in.

use std::future::Future;

use baton_domain::command::{Agent, Person, Supervisor};
use baton_domain::ids::{AttemptId, TaskId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::run::words;
use crate::call::{Call, Done};
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{RunRef, Shaped};
use crate::views::{RunView, TaskView};

/// One word of somebody on one task or its run.
pub trait Saying: Shaped + DeserializeOwned + Send + 'static {
    /// Everything about it that is not code.
    const DECLARED: Declaration;

    /// What it answers: the task or the run, as it is then.
    type Shown: Shown;

    /// Who says what of which.
    fn said(self) -> Result<Said, Problem>;
}

/// Who says what of which task or run.
pub enum Said {
    /// A person, of a task.
    OfTask(TaskId, Person),
    /// A person, of a run.
    OfRun(RunRef, Person),
    /// The agent of an attempt: all of it, or nothing.
    ByAgent(RunRef, Option<AttemptId>, Vec<Agent>),
    /// The supervisor of an attempt, or a solo agent of itself.
    BySupervisor(RunRef, Option<AttemptId>, Supervisor),
}

/// What can be shown of a task once something was carried out on it.
pub trait Shown: Shaped + Serialize + Send + Sized {
    /// As it is then.
    fn after(
        call: &Call,
        done: &Done,
    ) -> impl Future<Output = Result<Answered<Self>, Problem>> + Send;
}

impl<S: Saying> Operation for S {
    const ABOUT: Declaration = S::DECLARED;

    type Answer = S::Shown;

    async fn perform(self, call: &Call) -> Result<Answered<S::Shown>, Problem> {
        let done = match self.said()? {
            Said::OfTask(task, says) => call.say(task, says).await?,
            Said::OfRun(run, says) => call.say_of(run, says).await?,
            Said::ByAgent(run, attempt, says) => call.as_agent(run, attempt, says).await?,
            Said::BySupervisor(run, attempt, says) => {
                call.as_supervisor(run, attempt, says).await?
            }
        };
        S::Shown::after(call, &done).await
    }
}

impl Shown for TaskView {
    async fn after(call: &Call, done: &Done) -> Result<Answered<Self>, Problem> {
        call.task_view(done).await
    }
}

impl Shown for RunView {
    async fn after(call: &Call, done: &Done) -> Result<Answered<Self>, Problem> {
        let mut answered = call.run_view(done).await?;
        words::fill(call, &done.flow, &mut answered.value).await?;
        Ok(answered)
    }
}
