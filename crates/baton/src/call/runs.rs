//! The short ways for whoever holds a run, or looks at one.

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, Proof, Supervisor};
use baton_domain::history::Past;
use baton_domain::ids::{AttemptId, RunId, TaskId};
use baton_domain::run::Held;
use baton_domain::task::Flow;
use baton_store::read::RunFull;
use baton_store::{Aim, Cursor, Order, PastId, TaskRow};

use super::{Call, Done};
use crate::problem::Problem;
use crate::shape::{RunRef, Violation};
use crate::tokens::{Pass, Speaker};

impl Call {
    /// What the agent of an attempt says at once, with its proof: all of it, or nothing.
    pub async fn as_agent(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Vec<Agent>,
    ) -> Result<Done, Problem> {
        let (task, commands) = self.agent_commands(run, attempt, says)?;
        self.on_task(task, commands).await.map_err(fenced)
    }

    /// The same without the key of the request: for what is said again and again while a request
    /// lasts, and is as good said twice.
    pub async fn as_agent_again(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Agent,
    ) -> Result<Done, Problem> {
        let (task, commands) = self.agent_commands(run, attempt, vec![says])?;
        self.again(Aim::Task(task, commands)).await.map_err(fenced)
    }

    /// What a supervisor says again and again, without the key of the request.
    pub async fn as_supervisor_again(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Supervisor,
    ) -> Result<Done, Problem> {
        let (task, command) = self.supervisor_command(run, attempt, says)?;
        self.again(Aim::Task(task, vec![self.expect(run), command])).await.map_err(fenced)
    }

    async fn again(&self, aim: Aim) -> Result<Done, Problem> {
        self.carry_out(Order { request: None, ..self.order(aim) }).await
    }

    fn agent_commands(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Vec<Agent>,
    ) -> Result<(TaskId, Vec<Command>), Problem> {
        let task = self.task_of(run)?;
        let mut commands = vec![self.expect(run)];
        for says in says {
            commands.push(match self.proved(task, attempt)? {
                Proved::Token(pass) => pass.agent(says)?,
                Proved::Caller(proof) => Command::Agent(proof, says),
            });
        }
        Ok((task, commands))
    }

    pub(super) fn supervisor_command(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Supervisor,
    ) -> Result<(TaskId, Command), Problem> {
        let task = self.task_of(run)?;
        let command = match self.proved(task, attempt)? {
            Proved::Token(pass) => pass.supervisor(says)?,
            Proved::Caller(proof) => Command::Supervisor(proof, says),
        };
        Ok((task, command))
    }

    /// What proves that the caller speaks for an attempt of this task. A token speaks for one run,
    /// so it must be shown for that run; without one the proof is who calls, and which attempt it
    /// names.
    fn proved(&self, task: TaskId, attempt: Option<AttemptId>) -> Result<Proved<'_>, Problem> {
        let wrong =
            |rule: String| Problem::invalid(vec![Violation { field: "attempt".to_owned(), rule }]);
        if attempt.is_some_and(|attempt| attempt.task != task) {
            return Err(wrong(format!("must be an attempt of {task}, like the run")));
        }
        match (&self.envelope.pass, attempt) {
            (Some(pass), _) if pass.task != task => Err(Problem::not_found()),
            (Some(pass), Some(named)) if named.number != pass.proof().attempt() => {
                Err(wrong("must be the attempt of the claim token that is shown".to_owned()))
            }
            (Some(pass), _) => Ok(Proved::Token(pass)),
            (None, Some(AttemptId { number: attempt, .. })) => {
                let principal = self.caller.principal.clone();
                Ok(Proved::Caller(Proof::Caller { attempt, principal }))
            }
            (None, None) => {
                let detail = "show a claim token, or name the attempt that you hold";
                Err(Problem::new("malformed", detail).next("export BATON_CLAIM_TOKEN=…"))
            }
        }
    }

    /// The attempt that the caller says it is, if that one holds the run. It still has to prove
    /// it with whatever it says.
    #[must_use]
    pub fn held<'a>(&self, flow: &'a Flow, attempt: Option<AttemptId>) -> Option<&'a Held> {
        let shown = self.envelope.pass.as_ref().filter(|pass| pass.task == flow.id);
        let named = attempt.filter(|named| named.task == flow.id).map(|named| named.number);
        let own = shown.map(|pass| pass.proof().attempt()).or(named)?;
        let held = flow.run.as_ref()?.held()?;
        let proved = shown.is_some() || held.holder == self.caller.principal;
        (held.attempt == own && proved).then_some(held)
    }

    /// Whether what an agent says may come from the caller: a supervisor's token is for others.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.envelope.pass.as_ref().is_none_or(|pass| match pass.speaker {
            Speaker::Agent | Speaker::Solo => true,
            Speaker::Supervisor => false,
        })
    }

    /// A task of the caller's tenant, and where to follow the events from.
    pub async fn told(&self, id: TaskId) -> Result<(TaskRow, Cursor), Problem> {
        let told = self.look_at(id).await?;
        Ok((told.what, self.cursor(told.as_of)))
    }

    /// A run of the caller's tenant.
    pub async fn run(&self, id: RunId) -> Result<RunFull, Problem> {
        let told = self.engine.run(&self.caller.tenant, id).await?;
        told.what.ok_or_else(Problem::not_found)
    }

    /// A row of the history of a task.
    pub async fn past(&self, task: TaskId, which: PastId) -> Result<Past, Problem> {
        let told = self.engine.past(&self.caller.tenant, task, which).await?;
        told.what.ok_or_else(Problem::not_found)
    }

    /// The run that is meant: of a task the live one, or else the one that finished last.
    pub fn run_of(&self, run: RunRef, flow: &Flow) -> Result<RunId, Problem> {
        if let RunRef::Run(run) = run {
            return Ok(run);
        }
        let live = flow.run.as_ref().map(|run| run.number);
        let number = live.or_else(|| flow.last.as_ref().map(|last| last.number));
        let number = number.ok_or(Refusal::NoRun)?;
        Ok(RunId { task: flow.id, number })
    }
}

/// What proves that a caller speaks for an attempt.
enum Proved<'a> {
    /// The token that it shows.
    Token(&'a Pass),
    /// Who it is, and the attempt that it names.
    Caller(Proof),
}

/// Whoever names a run that is not live cannot hold it.
fn fenced(problem: Problem) -> Problem {
    match problem.code() {
        "run_changed" => Refusal::LeaseLost.into(),
        _ => problem,
    }
}
