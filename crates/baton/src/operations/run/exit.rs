//! An agent that is gone without a word.

use baton_domain::command::Supervisor;
use baton_domain::ids::AttemptId;

use crate::operation::{Audience, Declaration, Hints};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::{RunRef, record};
use crate::views::RunView;

record! {
    /// Word that the agent is gone, and left no result.
    pub struct Exit {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
    }
}

impl Saying for Exit {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Supervisor,
        ("exit", "/v1/runs/{run}/exit"),
        Hints::ENDS,
        &["id", "state"],
        "Say that the agent is gone and left no result; the next one goes on",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::BySupervisor(self.run, self.attempt, Supervisor::Exited))
    }
}
