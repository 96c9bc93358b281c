//! What a caller can ask for, declared once. REST, the command line and the tool list read the
//! same table; none of them knows an operation by name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Call;
use crate::problem::Problem;
use crate::redaction;
use crate::shape::{Field, Position, Shape, Shaped, Violation, When};

pub use crate::answered::{Answered, Reply};
pub use crate::declaration::{Audience, Declaration, Hints, Level, Method, Permit};

/// Where an answer says how many secrets were masked in what was asked, if any.
pub const REDACTED: &str = "redacted";

/// One thing that a caller can ask for; the type is its arguments.
pub trait Operation: Shaped + DeserializeOwned + Send + 'static {
    /// Everything about it that is not code.
    const ABOUT: Declaration;

    /// What it answers.
    type Answer: Shaped + Serialize + Send;

    /// Does it.
    fn perform(
        self,
        call: &Call,
    ) -> impl Future<Output = Result<Answered<Self::Answer>, Problem>> + Send;
}

type Performed = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// A row of the table: an operation whose types are forgotten.
pub struct Entry {
    /// Everything about it that is not code.
    pub about: Declaration,
    /// What it takes.
    pub arguments: Shape,
    /// What it answers.
    pub answer: Shape,
    perform: fn(Value, Arc<Call>) -> Performed,
}

impl Entry {
    /// The row of an operation.
    #[must_use]
    pub fn of<O: Operation>() -> Self {
        Self {
            about: O::ABOUT,
            arguments: O::shape(),
            answer: O::Answer::shape(),
            perform: |arguments, call| Box::pin(perform::<O>(arguments, call)),
        }
    }

    /// Whether its answers can be followed as a stream: a list that goes on after a place in the
    /// events. A record may have a field called `cursor` that is something else.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        let items = self.answer.field("items").map(|items| &items.shape);
        let Some(Shape::List { of, .. }) = items else { return false };
        let is_place = |field: Option<&Field>| {
            field.is_some_and(|field| field.shape == <Position as Shaped>::shape())
        };
        is_place(self.arguments.field("after")) && is_place(of.field("cursor"))
    }

    /// What it is, and whether a caller may ask it to wait.
    #[must_use]
    pub fn patience(&self) -> (&Declaration, bool) {
        (&self.about, self.arguments.field("wait").is_some())
    }

    /// Does it. Everything that can be told without a look at the store is told first.
    pub async fn perform(&self, mut arguments: Value, call: Arc<Call>) -> Result<Reply, Problem> {
        call.admit(&self.about)?;
        let violations = crate::shape::check(&arguments, &self.arguments);
        if !violations.is_empty() {
            return Err(Problem::invalid(violations));
        }
        // What is only read is written nowhere.
        let redacted = if self.about.changes() {
            let cleaned = redaction::clean(call.redactor(), &mut arguments, &self.arguments);
            call.note_redacted(&self.about, cleaned.map_err(Problem::invalid)?)
        } else {
            0
        };
        let named = arguments.clone();
        let performed = (self.perform)(arguments, Arc::clone(&call)).await;
        let mut reply = match performed {
            Ok(reply) => reply,
            Err(problem) => return Err(call.certain(problem).await?.about(&named)),
        };
        if redacted > 0 {
            reply.body[REDACTED] = redacted.into();
        }
        Ok(reply)
    }
}

async fn perform<O: Operation>(arguments: Value, call: Arc<Call>) -> Result<Reply, Problem> {
    let operation: O = read(arguments)?;
    let answered = operation.perform(&call).await?;
    let mut body = serde_json::to_value(&answered.value)
        .map_err(|error| Problem::new("internal", error.to_string()))?;
    let as_of = match answered.as_of {
        Some(cursor) => Some(cursor),
        // What leaves no entry, like a renewal, is told beside how far the events are; a store that
        // cannot tell takes nothing back of what was done.
        None => call.as_of().await.ok(),
    };
    if let Some(as_of) = as_of {
        body["as_of"] = Position(as_of).to_string().into();
    }
    if let Some(at) = answered.at {
        body["at"] = When(at).to_string().into();
    }
    Ok(Reply { body, secrets: answered.secrets, replayed: answered.replayed })
}

/// Turns checked JSON into arguments; what only the types know is told with its place.
fn read<O: DeserializeOwned>(arguments: Value) -> Result<O, Problem> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let field = error.path().to_string();
        let message = error.inner().to_string();
        // A refusal of the domain names the kind of value; the place in the request is better.
        let rule = match message.split_once("` ") {
            Some((name, rule)) if name.starts_with('`') => rule.to_owned(),
            Some(_) | None => message,
        };
        Problem::invalid(vec![Violation { field, rule }])
    })
}
