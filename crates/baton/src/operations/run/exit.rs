//! An agent that is gone without a word.

use baton_domain::command::Supervisor;

use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::{RunRef, record};
use crate::views::RunView;

record! {
    /// Word that the agent is gone, and left no result.
    pub struct Exit {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<u32>,
    }
}

impl Operation for Exit {
    const ABOUT: About = About {
        noun: "run",
        verb: "exit",
        summary: "Say that the agent is gone and left no result; the run goes on with the next one",
        method: Method::Post,
        path: "/v1/runs/{run}/exit",
        level: Level::Work,
        speaker: Speaker::Supervisor,
        hints: Hints::ENDS,
        columns: &["id", "state"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let done = call.as_supervisor(self.run, self.attempt, Supervisor::Exited).await?;
        call.run_view(&done)
    }
}
