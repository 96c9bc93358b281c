//! Questions of agents and answers of people.

use baton_domain::command::{Agent, Person};
use baton_domain::ids::AttemptId;
use baton_domain::run::Mark;
use baton_domain::text::Message;

use crate::operation::{Audience, Declaration, Hints, Method};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::{RunRef, record, words};
use crate::views::RunView;

words! {
    /// How far an answer got with its reader; that it was sent is for us to say.
    pub enum Received {
        /// The agent has it.
        Delivered = "delivered",
        /// The agent acted upon it.
        Applied = "applied",
    }
}

impl Received {
    fn mark(self) -> Mark {
        match self {
            Self::Delivered => Mark::Delivered,
            Self::Applied => Mark::Applied,
        }
    }
}

record! {
    /// A question to a person.
    pub struct Ask {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// What the agent must know.
        question: Message,
    }

    /// The answer to a question.
    pub struct Answer {
        /// Which run.
        run: RunRef,
        /// The answer.
        answer: Message,
    }

    /// Word of how far an answer got.
    pub struct Receive {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// How far the answer got; it never goes back.
        mark: Received,
    }
}

impl Saying for Ask {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("ask", "/v1/runs/{run}/ask"),
        Hints::ADDS,
        &["id", "state", "question"],
        "Ask a person, and stay alive for the answer",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::ByAgent(self.run, self.attempt, vec![Agent::Ask(self.question)]))
    }
}

impl Saying for Answer {
    const DECLARED: Declaration = Declaration::of_person(
        ("run", "answer"),
        (Method::Post, "/v1/runs/{run}/answer"),
        Hints::ADDS,
        &["id", "state", "answer"],
        "Answer the question of a run",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfRun(self.run, Person::Answer(self.answer)))
    }
}

impl Saying for Receive {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("receive", "/v1/runs/{run}/receive"),
        Hints::SETS,
        &["id", "state", "answer"],
        "Say that you have an answer, or have acted upon it",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::ByAgent(self.run, self.attempt, vec![Agent::Receive(self.mark.mark())]))
    }
}
