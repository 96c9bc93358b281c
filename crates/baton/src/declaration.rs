//! What is declared of an operation, apart from its code. Every surface reads it, and so does
//! whoever decides whether a caller may ask.

use baton_domain::scope::Scope;

pub use baton_domain::scope::Level;

/// Everything about an operation that is not code. Nothing has a default: who declares an
/// operation answers every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
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
    pub permit: Permit,
    /// Who may ask.
    pub audience: Audience,
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

/// What a key must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The scope of the noun at this level.
    Scope(Level),
    /// Nothing by itself: each order in it needs the scope of its own operation.
    Each,
    /// Nothing: it is about the key that is shown, and whoever finds a leaked key may end it.
    Own,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
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
    /// It may take something away, or put something else in its place.
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
    /// It ends something, or puts something else in its place.
    pub const ENDS: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: false };

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

impl Declaration {
    /// A look: by GET, for whoever may read, without any effect.
    #[must_use]
    pub const fn look(
        (noun, verb): (&'static str, &'static str),
        path: &'static str,
        columns: &'static [&'static str],
        summary: &'static str,
    ) -> Self {
        let (permit, audience) = (Permit::Scope(Level::Read), Audience::Anyone);
        let (method, hints) = (Method::Get, Hints::READS);
        Self { noun, verb, summary, method, path, permit, audience, hints, columns }
    }

    /// A word of a person that changes something.
    #[must_use]
    pub const fn of_person(
        (noun, verb): (&'static str, &'static str),
        (method, path): (Method, &'static str),
        hints: Hints,
        columns: &'static [&'static str],
        summary: &'static str,
    ) -> Self {
        let (permit, audience) = (Permit::Scope(Level::Write), Audience::Person);
        Self { noun, verb, summary, method, path, permit, audience, hints, columns }
    }

    /// A word of whoever holds a run.
    #[must_use]
    pub const fn of_holder(
        audience: Audience,
        (verb, path): (&'static str, &'static str),
        hints: Hints,
        columns: &'static [&'static str],
        summary: &'static str,
    ) -> Self {
        let (permit, noun, method) = (Permit::Scope(Level::Work), "run", Method::Post);
        Self { noun, verb, summary, method, path, permit, audience, hints, columns }
    }

    /// As a tool and in problems: `run_claim`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}_{}", self.noun, self.verb.replace('-', "_"))
    }

    /// The scope that a key must have, if it must have one: `run:work`.
    #[must_use]
    pub fn scope(&self) -> Option<Scope> {
        match self.permit {
            Permit::Scope(level) => Some(Scope::of(self.noun, level)),
            Permit::Each | Permit::Own => None,
        }
    }

    /// What a key must allow, in words.
    #[must_use]
    pub fn needs(&self) -> String {
        match self.permit {
            Permit::Scope(level) => Scope::of(self.noun, level).to_string(),
            Permit::Each => "any key, each order its own scope".to_owned(),
            Permit::Own => "any key".to_owned(),
        }
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
        let bound = match self.audience {
            Audience::Person | Audience::Agent => true,
            // What a supervisor saw is so, whatever else has changed.
            Audience::Anyone | Audience::Supervisor => false,
        };
        self.changes() && of_one && bound
    }

    /// Whether a claim token may be shown with it: whoever shows one is an attempt, and no attempt
    /// says what only a person may.
    #[must_use]
    pub fn takes_token(&self) -> bool {
        match self.audience {
            Audience::Anyone | Audience::Agent | Audience::Supervisor => true,
            Audience::Person => false,
        }
    }

    /// Whether it must say under which key it may be repeated. A renewal leaves no trace that could
    /// be doubled.
    #[must_use]
    pub fn takes_request_key(&self) -> bool {
        self.changes() && self.verb != "heartbeat"
    }

    /// Whether it changes anything.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.method != Method::Get
    }
}

impl Audience {
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
