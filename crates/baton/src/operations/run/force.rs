//! Overruling a holder.

use baton_domain::command::Person;
use baton_domain::text::{Code, Reason};

use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::shape::{RunRef, Span, record};
use crate::views::RunView;

record! {
    /// A run to take from its holder.
    pub struct ForceRelease {
        /// Which run.
        run: RunRef,
        /// Why.
        reason: Reason,
    }

    /// A run to end as failed, whoever holds it.
    pub struct ForceFail {
        /// Which run.
        run: RunRef,
        /// A stable word for why.
        #[is_line(true)]
        code: Code,
        /// Why.
        reason: Reason,
    }
}

impl Operation for ForceRelease {
    const ABOUT: Declaration = Declaration {
        noun: "run",
        verb: "force-release",
        summary: "Take a run from its holder, so that another may go on",
        method: Method::Post,
        path: "/v1/runs/{run}/force-release",
        permit: Permit::Scope(Level::Force),
        audience: Audience::Person,
        hints: Hints::ENDS,
        columns: &["id", "state"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        force(call, self.run, Person::Release(self.reason)).await
    }
}

impl Operation for ForceFail {
    const ABOUT: Declaration = Declaration {
        noun: "run",
        verb: "force-fail",
        summary: "End a run as failed, whoever holds it",
        method: Method::Post,
        path: "/v1/runs/{run}/force-fail",
        permit: Permit::Scope(Level::Force),
        audience: Audience::Person,
        hints: Hints::ENDS,
        columns: &["id", "state", "code"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let says = Person::Fail { code: self.code, reason: self.reason };
        force(call, self.run, says).await
    }
}

async fn force(call: &Call, run: RunRef, says: Person) -> Result<Answered<RunView>, Problem> {
    let (caller, task) = (call.caller(), call.task_of(run)?);
    let now = call.engine().now();
    let forces = call.identity().forces();
    // What happened already does not happen again, and does not count again.
    let counts = !call.is_repeated().await?;
    let admitted =
        if counts { forces.admit(&caller.tenant, &caller.principal, task, now) } else { Ok(()) };
    admitted.map_err(|limited| {
        let wait = Span(limited.retry_after).to_string();
        Problem::new(limited.code(), limited.to_string()).with("retry_after", wait)
    })?;
    let done = call.say_of(run, says).await;
    // What was refused did not happen, and what was under way at the same time happened once.
    let nothing = match &done {
        Ok(done) => done.committed.replayed,
        Err(problem) => problem.code() != "unknown",
    };
    if counts && nothing {
        forces.give_back(&caller.tenant, &caller.principal, task);
    }
    call.run_view(&done?).await
}
