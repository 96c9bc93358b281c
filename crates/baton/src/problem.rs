//! Why a request was not carried out: one answer for all surfaces, with a stable code, a sentence,
//! what to do next, and whether anything may have happened.

use baton_domain::Refusal;
use baton_store::{Certainty, Error};
use serde_json::{Value, json};

use crate::shape::{Span, Violation};

mod codes;
mod naming;

pub use codes::{CODES, Code, DESCRIBED};

use naming::Named;

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub struct Problem {
    code: &'static Code,
    detail: String,
    next: Vec<String>,
    certainty: &'static str,
    violations: Vec<Violation>,
    more: Vec<(&'static str, Value)>,
}

impl Problem {
    /// Nothing happened, for the reason that the code names.
    #[must_use]
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Self {
            code: codes::find(code),
            detail: detail.into(),
            next: vec![],
            certainty: "did_not_happen",
            violations: vec![],
            more: vec![],
        }
    }

    /// Values that break rules.
    #[must_use]
    pub fn invalid(violations: Vec<Violation>) -> Self {
        let detail = match violations.first() {
            Some(first) => format!("`{}` {}", first.field, first.rule),
            None => "something is not as it should be".to_owned(),
        };
        Self { violations, ..Self::new("invalid", detail) }
    }

    /// There is no such thing, or it is somebody else's: one answer for both.
    #[must_use]
    pub fn not_found() -> Self {
        Refusal::NotFound.into()
    }

    /// It happened, and only the answer to it failed.
    #[must_use]
    pub fn after_all(self) -> Self {
        Self { certainty: "happened", ..self }
    }

    /// Whether only the store says so, which looks first for what became of the same request before:
    /// the answers of claims that find nothing, which are too many to ask twice.
    #[must_use]
    pub fn is_of_the_store(&self) -> bool {
        ["nothing_claimable", "pool_full", "holder_full", "paused"].contains(&self.code.word)
            || self.certainty == "unknown"
    }

    /// What the caller could do next, as a command.
    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
        self
    }

    /// A further member that programs may read.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// That something of what a request named is not there, for whoever made the request. A server
    /// never says it so: its answer is the same to the last byte, whatever was asked for.
    #[must_use]
    pub fn missing(arguments: &Value) -> Option<Self> {
        let named = Named::of(arguments);
        let problem = Self::new("not_found", named.missing()?);
        Some(match named.list() {
            Some(list) => problem.next(list),
            None => problem,
        })
    }

    /// What the request was about, so that the next step can name it.
    #[must_use]
    pub fn about(mut self, arguments: &Value) -> Self {
        if self.next.is_empty() {
            self.next.push(Named::of(arguments).fill(self.code.next, &self.more));
        }
        self
    }

    /// The stable word.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code.word
    }

    /// The status that REST answers with.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.code.status
    }

    /// What the command line exits with.
    #[must_use]
    pub fn exit(&self) -> u8 {
        self.code.exit
    }

    /// The sentence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// As RFC 9457 writes it.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:baton:problem:{}", self.code.word),
            "title": self.code.title,
            "status": self.code.status,
            "code": self.code.word,
            "detail": self.detail,
            "certainty": self.certainty,
            "retryable": self.code.retryable,
        });
        let mut next = self.next.clone();
        if next.is_empty() {
            next.push(Named::default().fill(self.code.next, &self.more));
        }
        body["next"] = json!(next);
        if !self.violations.is_empty() {
            let errors = self.violations.iter();
            let errors = errors.map(|one| json!({ "field": one.field, "rule": one.rule }));
            body["errors"] = errors.collect();
        }
        for (name, value) in &self.more {
            body[*name] = value.clone();
        }
        body
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let problem = Self::new(refusal.code(), refusal.to_string());
        match refusal {
            Refusal::Invalid { field, rule } => Self::invalid(vec![Violation { field, rule }]),
            Refusal::Held { attempt } => problem.with("attempt", attempt.to_string()),
            Refusal::PoolFull { pool } | Refusal::Paused { pool } => problem.with("pool", pool),
            Refusal::HolderFull { pool, held } => match held {
                Some(attempt) => problem.with("pool", pool).with("attempt", attempt.to_string()),
                None => problem.with("pool", pool),
            },
            Refusal::DependencyOpen { on } | Refusal::Cycle { on } => {
                problem.next(format!("baton explain {on}")).with("task", on.to_string())
            }
            Refusal::RunChanged { live: Some(live) } => problem.with("live", live.to_string()),
            Refusal::VersionChanged { version } => problem.with("version", version),
            Refusal::TooOften { retry_after } => {
                problem.with("retry_after", Span(retry_after).to_string())
            }
            Refusal::Incomplete { missing } => {
                let missing: Vec<_> = missing
                    .iter()
                    .map(|one| {
                        json!({ "line": one.line.as_str(), "code": one.code, "path": one.path })
                    })
                    .collect();
                problem.with("missing", missing)
            }
            Refusal::RunChanged { live: None }
            | Refusal::NotFound
            | Refusal::LeaseLost
            | Refusal::HeardBefore { .. }
            | Refusal::Ended
            | Refusal::NoRun
            | Refusal::WrongState { .. }
            | Refusal::Draft
            | Refusal::ApprovalPending
            | Refusal::OnHold { .. }
            | Refusal::NotDue { .. }
            | Refusal::NotForYou { .. }
            | Refusal::NothingClaimable
            | Refusal::PersonNeeded
            | Refusal::NoStage { .. }
            | Refusal::StageOccupied { .. }
            | Refusal::ProjectInUse { .. }
            | Refusal::LineageTooLong
            | Refusal::NameTaken { .. }
            | Refusal::KeyEnded
            | Refusal::BeyondKey { .. }
            | Refusal::LimitReached { .. }
            | Refusal::ContractChanged => problem,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let certainty = match error.certainty() {
            Certainty::DidNotHappen => "did_not_happen",
            Certainty::Unknown => "unknown",
        };
        let code = match error {
            Error::Refused(refusal) => return refusal.into(),
            Error::KeyReused => "key_reused",
            Error::Overloaded => "overloaded",
            Error::DiskFull => "disk_full",
            Error::CursorExpired { .. } => "cursor_expired",
            Error::Stopped(_) => "stopped",
            Error::Unknown(_) => "unknown",
            Error::Internal(_) | Error::Read(_) => "internal",
        };
        // What a store says of its own troubles is for the log, not for callers.
        let detail = if let Error::Read(reason) | Error::Internal(reason) = &error {
            tracing::error!(%reason, "a request broke");
            "something broke on our side; the log says what".to_owned()
        } else if code == "disk_full" {
            "the disk of the server is full: nothing new is taken until there is room, but what \
             runs may end"
                .to_owned()
        } else {
            error.to_string()
        };
        Self { certainty, ..Self::new(code, detail) }
    }
}
