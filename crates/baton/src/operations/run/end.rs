//! How a run ends, and how it is tried again.

use baton_domain::command::{Agent, Command, Expect, Person};
use baton_domain::contract::{Artifact, Submission};
use baton_domain::ids::{AttemptId, Digest};
use baton_domain::limits::ARTIFACTS_MAX;
use baton_domain::text::{Code, Line, Reason, Summary};

use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Method, Operation};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::{RunRef, record};
use crate::views::RunView;

use super::submitted;

record! {
    /// Word that the agent is done, with what it made.
    pub struct Complete {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// What was achieved. Tasks that it tells of, like T-128, must be there.
        summary: Option<Summary>,
        /// The exact tree that counts.
        tree: Option<Line>,
        /// What was made; the bytes are handed in first, by their digests.
        #[at_most(ARTIFACTS_MAX)]
        artifacts: Option<Vec<ArtifactWish>>,
        /// The hash of the contract that it answers, as it was read.
        contract: Option<Digest>,
    }

    /// Something that was made.
    pub struct ArtifactWish {
        /// Where it is, relative to the root.
        #[is_line(true)]
        path: Line,
        /// What it is, to the bit.
        digest: Digest,
        /// How long it is.
        bytes: u64,
    }

    /// Word that the agent failed.
    pub struct Fail {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// A stable word for why.
        #[is_line(true)]
        code: Code,
        /// Why, in words for whoever tries next.
        reason: Reason,
    }

    /// A run to call off.
    pub struct Cancel {
        /// Which run.
        run: RunRef,
        /// Why.
        reason: Reason,
    }

    /// A run to try again.
    pub struct Retry {
        /// Which run; of a task without a live one, the one that finished last.
        run: RunRef,
        /// Why.
        reason: Reason,
    }
}

impl Operation for Complete {
    const ABOUT: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("complete", "/v1/runs/{run}/complete"),
        Hints::ENDS,
        &["id", "state", "result", "waits_for"],
        "Say that you are done, and submit what you made",
    );

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let artifact = |wish: ArtifactWish| Artifact {
            path: wish.path,
            digest: wish.digest,
            bytes: wish.bytes,
        };
        let submission = Submission {
            tree: self.tree,
            artifacts: self.artifacts.unwrap_or_default().into_iter().map(artifact).collect(),
            contract: self.contract,
        };
        let named = (self.summary.as_ref(), &submission);
        submitted::check(call, self.run, self.attempt, named).await?;
        let says = Agent::Complete { summary: self.summary, submission };
        let done = call.as_agent(self.run, self.attempt, vec![says]).await?;
        call.run_view(&done).await
    }
}

impl Saying for Fail {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("fail", "/v1/runs/{run}/fail"),
        Hints::ENDS,
        &["id", "state", "code"],
        "Say that you failed, and why",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        let says = Agent::Fail { code: self.code, reason: self.reason };
        Ok(Said::ByAgent(self.run, self.attempt, vec![says]))
    }
}

impl Saying for Cancel {
    const DECLARED: Declaration = Declaration::of_person(
        ("run", "cancel"),
        (Method::Post, "/v1/runs/{run}/cancel"),
        Hints::ENDS,
        &["id", "state"],
        "Call a run off, whoever holds it",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfRun(self.run, Person::Cancel(self.reason)))
    }
}

impl Operation for Retry {
    const ABOUT: Declaration = Declaration::of_person(
        ("run", "retry"),
        (Method::Post, "/v1/runs/{run}/retry"),
        Hints::ADDS,
        &["id", "state"],
        "Try again what failed or was called off, or now what is delayed",
    );

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let task = call.task_of(self.run)?;
        let flow = call.task(task).await?.flow;
        let says = Person::Retry(self.reason);
        // Whoever names the run that finished last means that none has begun since.
        let last = flow.last.as_ref().filter(|_| flow.run.is_none()).map(|last| last.number);
        let done = match self.run {
            RunRef::Run(run) if last == Some(run.number) => {
                let version = call.envelope().if_match.unwrap_or(flow.version);
                let expect = Expect { version: Some(version), run: None };
                call.on_task(task, vec![Command::Expect(expect), Command::Person(says)]).await?
            }
            RunRef::Run(_) | RunRef::Live(_) | RunRef::Mine => call.say_of(self.run, says).await?,
        };
        call.run_view(&done).await
    }
}
