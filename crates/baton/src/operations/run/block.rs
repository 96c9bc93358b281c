//! Parking a run, unparking it, and giving it back.

use baton_domain::command::{Agent, Person, Supervisor};
use baton_domain::ids::{AttemptId, Capability, TaskId};
use baton_domain::run::Why;
use baton_domain::text::{Line, Reason};

use crate::operation::{Audience, Declaration, Hints, Method};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::choices::Word as _;
use crate::shape::{RunRef, Violation, When, record, words};
use crate::views::RunView;

words! {
    /// What a holder may park its run for; a limit is raised by the rules alone.
    pub enum BlockWord {
        /// A person must say something.
        NeedsInput = "needs_input",
        /// Another holder must be able to do something.
        Capability = "capability",
        /// It passes by itself.
        Transient = "transient",
        /// Another task must be done.
        Dependency = "dependency",
    }
}

record! {
    /// Why a run cannot go on.
    pub struct Block {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// What would unpark it.
        kind: BlockWord,
        /// Why, in words for whoever acts on it.
        reason: Reason,
        /// For capability: what the next holder must be able to do.
        capability: Option<Capability>,
        /// For transient: when it goes on by itself.
        until: Option<When>,
        /// For dependency: the task that it waits for.
        on: Option<TaskId>,
        /// A command that succeeds once the block is gone.
        condition: Option<Line>,
    }

    /// Leave for a parked run to go on.
    pub struct Unblock {
        /// Which run.
        run: RunRef,
        /// Why it may.
        reason: Reason,
    }

    /// A run that its holder gives back.
    pub struct Release {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// Why.
        reason: Reason,
        /// Nobody should take it before this time.
        until: Option<When>,
    }
}

impl Saying for Block {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("block", "/v1/runs/{run}/block"),
        Hints::ENDS,
        &["id", "state", "block"],
        "Park the run that you hold, and say what would unpark it",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        let why = self.why()?;
        let says = Agent::Block { why, reason: self.reason, condition: self.condition };
        Ok(Said::ByAgent(self.run, self.attempt, vec![says]))
    }
}

impl Block {
    /// The kind with what it needs, and nothing else.
    fn why(&self) -> Result<Why, Problem> {
        let word = self.kind.word();
        let invalid = |field: &str, rule: String| {
            Problem::invalid(vec![Violation { field: field.into(), rule }])
        };
        let missing = |field: &'static str| {
            move || invalid(field, format!("is missing: a block of kind {word} needs it"))
        };
        let (why, own) = match self.kind {
            BlockWord::NeedsInput => (Why::NeedsInput, ""),
            BlockWord::Capability => {
                let needs = self.capability.clone().ok_or_else(missing("capability"))?;
                (Why::Capability { needs }, "capability")
            }
            BlockWord::Transient => {
                let until = self.until.ok_or_else(missing("until"))?.0;
                (Why::Transient { until }, "until")
            }
            BlockWord::Dependency => {
                let on = self.on.ok_or_else(missing("on"))?;
                (Why::Dependency { on }, "on")
            }
        };
        let given = [
            ("capability", self.capability.is_some()),
            ("until", self.until.is_some()),
            ("on", self.on.is_some()),
        ];
        match given.into_iter().find(|(field, given)| *given && *field != own) {
            None => Ok(why),
            Some((field, _)) => {
                Err(invalid(field, format!("must be absent for a block of kind {word}")))
            }
        }
    }
}

impl Saying for Unblock {
    const DECLARED: Declaration = Declaration::of_person(
        ("run", "unblock"),
        (Method::Post, "/v1/runs/{run}/unblock"),
        Hints::SETS,
        &["id", "state"],
        "Let a parked run go on",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfRun(self.run, Person::Unblock(self.reason)))
    }
}

impl Saying for Release {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Supervisor,
        ("release", "/v1/runs/{run}/release"),
        Hints::ENDS,
        &["id", "state"],
        "Give back the run that you hold",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        let until = self.until.map(|until| until.0);
        let says = Supervisor::Release { reason: self.reason, until };
        Ok(Said::BySupervisor(self.run, self.attempt, says))
    }
}
