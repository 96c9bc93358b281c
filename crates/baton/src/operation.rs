//! What a caller can ask for, declared once. REST, the command line and the tool list read the
//! same table; none of them knows an operation by name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use baton_domain::scope::Scope;
use baton_domain::time::Timestamp;
use baton_store::{Committed, Cursor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Call;
use crate::problem::Problem;
use crate::redaction;
use crate::shape::{Field, Position, Shape, Shaped, Violation, When};

pub use baton_domain::scope::Level;

/// Where an answer says how many secrets were masked in what was asked, if any.
pub const REDACTED: &str = "redacted";

/// One thing that a caller can ask for; the type is its arguments.
pub trait Operation: Shaped + DeserializeOwned + Send + 'static {
    /// Everything about it that is not code.
    const ABOUT: About;

    /// What it answers.
    type Answer: Shaped + Serialize + Send;

    /// Does it.
    fn perform(
        self,
        call: &Call,
    ) -> impl Future<Output = Result<Answered<Self::Answer>, Problem>> + Send;
}

/// Everything about an operation that is not code. Nothing has a default: who declares an
/// operation answers every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// What it is about: `run`.
    pub noun: &'static str,
    /// What happens to it: `claim`.
    pub verb: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// By which method REST serves it.
    pub method: Method,
    /// Under which path; `{placeholders}` are arguments.
    pub path: &'static str,
    /// What a key must allow.
    pub level: Level,
    /// Who may ask.
    pub speaker: Speaker,
    /// What an agent program is told of its effects, for the worst of its arguments.
    pub hints: Hints,
    /// What a person sees of it in a table or first in a list of fields.
    pub columns: &'static [&'static str],
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads, without any effect.
    Get,
    /// Does something.
    Post,
    /// Puts something as it is said.
    Put,
    /// Changes some of it.
    Patch,
    /// Takes it away.
    Delete,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Whoever has the scope.
    Anyone,
    /// A person, or a program that a person set up; never somebody inside an attempt.
    Person,
    /// The agent of an attempt.
    Agent,
    /// Its supervisor, or a solo agent for itself.
    Supervisor,
}

/// What an agent program is told of an operation's effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may take something away.
    pub destructive: bool,
    /// Asking twice is as good as asking once.
    pub idempotent: bool,
    /// It reaches beyond Baton.
    pub open_world: bool,
}

impl Hints {
    /// It only looks.
    pub const READS: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// It adds something.
    pub const ADDS: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: false };
    /// It makes something so; making it so again changes nothing.
    pub const SETS: Self =
        Self { read_only: false, destructive: false, idempotent: true, open_world: false };
    /// It ends something.
    pub const ENDS: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: false };
}

/// An answer with what is said around it.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    /// The answer itself.
    pub value: T,
    /// Up to where the events are in it: who follows from here misses nothing.
    pub as_of: Option<Cursor>,
    /// When, on the store's clock.
    pub at: Option<Timestamp>,
    /// Whether the same request had been carried out before.
    pub replayed: bool,
    /// Secrets that are shown once: printed by REST and the command line, dropped elsewhere.
    pub secrets: Vec<(&'static str, String)>,
}

impl<T> Answered<T> {
    /// What was read, and how far the events were then.
    #[must_use]
    pub fn read(value: T, as_of: Cursor) -> Self {
        Self { value, as_of: Some(as_of), at: None, replayed: false, secrets: vec![] }
    }

    /// What was carried out.
    #[must_use]
    pub fn done(value: T, committed: &Committed, incarnation: u64) -> Self {
        let as_of = committed.position.map(|position| Cursor { incarnation, position });
        let replayed = committed.replayed;
        Self { value, as_of, at: Some(committed.at), replayed, secrets: vec![] }
    }

    /// The same with another answer.
    #[must_use]
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answered<U> {
        Answered {
            value: change(self.value),
            as_of: self.as_of,
            at: self.at,
            replayed: self.replayed,
            secrets: self.secrets,
        }
    }
}

/// An answer as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Reply {
    /// An object.
    pub body: Value,
    /// See [`Answered::secrets`].
    pub secrets: Vec<(&'static str, String)>,
    /// See [`Answered::replayed`].
    pub replayed: bool,
}

type Performed = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// A row of the table: an operation whose types are forgotten.
pub struct Entry {
    /// Everything about it that is not code.
    pub about: About,
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
        // What was committed stays so, even if the answer to it could not be put together.
        let tell = |problem: Problem| match call.has_committed() {
            true => problem.after_all(),
            false => problem,
        };
        let mut reply = performed.map_err(|problem| tell(problem).about(&named))?;
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

impl About {
    /// As a tool and in problems: `run_claim`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}_{}", self.noun, self.verb.replace('-', "_"))
    }

    /// What a key must allow: `run:work`.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope::of(self.noun, self.level)
    }

    /// The arguments that stand in the path, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The status that REST answers with when all went well: a POST that adds something made it.
    #[must_use]
    pub fn success(&self) -> u16 {
        if self.method == Method::Post && self.hints == Hints::ADDS { 201 } else { 200 }
    }

    /// Whether it may be bound to a version of the task that it changes.
    #[must_use]
    pub fn takes_version(&self) -> bool {
        let of_one = self.placeholders().any(|name| name == "task" || name == "run");
        let bound = match self.speaker {
            Speaker::Person | Speaker::Agent => true,
            // What a supervisor saw is so, whatever else has changed.
            Speaker::Anyone | Speaker::Supervisor => false,
        };
        self.changes() && of_one && bound
    }

    /// Whether it changes anything.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.method != Method::Get
    }
}

impl Speaker {
    /// The word for who may ask.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Person => "person",
            Self::Agent => "agent",
            Self::Supervisor => "supervisor",
        }
    }
}

impl Hints {
    /// The words for what is so, in the order in which agent programs list them.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        let all = [
            (self.read_only, "reads"),
            (self.destructive, "destructive"),
            (self.idempotent, "idempotent"),
            (self.open_world, "reaches beyond"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
    }
}

impl Method {
    /// As HTTP writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}
