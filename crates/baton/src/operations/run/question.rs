//! Questions of agents and answers of people.

use baton_domain::command::{Agent, Person};
use baton_domain::run::Mark;
use baton_domain::text::Message;

use super::words;
use crate::call::{Call, Done};
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::{RunRef, record};
use crate::views::RunView;

record! {
    /// A question to a person.
    pub struct Ask {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<u32>,
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
        attempt: Option<u32>,
        /// How far the answer got; it never goes back.
        mark: Mark,
    }
}

impl Operation for Ask {
    const ABOUT: About = About {
        noun: "run",
        verb: "ask",
        summary: "Ask a person, and stay alive for the answer",
        method: Method::Post,
        path: "/v1/runs/{run}/ask",
        level: Level::Work,
        speaker: Speaker::Agent,
        hints: Hints::ADDS,
        columns: &["id", "state", "question"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let done = call.as_agent(self.run, self.attempt, Agent::Ask(self.question)).await?;
        told(call, &done).await
    }
}

impl Operation for Answer {
    const ABOUT: About = About {
        noun: "run",
        verb: "answer",
        summary: "Answer the question of a run",
        method: Method::Post,
        path: "/v1/runs/{run}/answer",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::ADDS,
        columns: &["id", "state", "answer"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let done = call.say_of(self.run, Person::Answer(self.answer)).await?;
        told(call, &done).await
    }
}

impl Operation for Receive {
    const ABOUT: About = About {
        noun: "run",
        verb: "receive",
        summary: "Say that you have an answer, or have acted upon it",
        method: Method::Post,
        path: "/v1/runs/{run}/receive",
        level: Level::Work,
        speaker: Speaker::Agent,
        hints: Hints::SETS,
        columns: &["id", "state", "answer"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let done = call.as_agent(self.run, self.attempt, Agent::Receive(self.mark)).await?;
        told(call, &done).await
    }
}

/// The run with the words of question and answer.
async fn told(call: &Call, done: &Done) -> Result<Answered<RunView>, Problem> {
    let mut answered = call.run_view(done).await?;
    words::fill(call, &done.flow, &mut answered.value).await?;
    Ok(answered)
}
