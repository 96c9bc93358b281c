//! Many requests in one: each is carried out by itself and has its own answer.

use std::sync::Arc;

use baton_domain::text::{Line, Text};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::call::{Call, Envelope};
use crate::operation::{Answered, Audience, Declaration, Hints, Method, Operation, Permit, Reply};
use crate::problem::Problem;
use crate::shape::{Violation, record};

/// Requests in one.
pub const ENTRIES_MAX: usize = 50;

/// What may not be among them: what waits, what hands out a secret that has no place in the
/// answer, and another bulk.
const ALONE: &[(&str, &str)] = &[
    ("bulk", "submit"),
    ("run", "wait"),
    ("run", "claim"),
    ("run", "start"),
    ("key", "create"),
    ("key", "rotate"),
    ("tenant", "create"),
];

record! {
    /// Many requests.
    pub struct Submit {
        /// At most 50, carried out one after another; one that is refused stops none of the others.
        #[at_most(ENTRIES_MAX)]
        entries: Vec<BulkEntry>,
    }

    /// One of many requests.
    pub struct BulkEntry {
        /// Its name, like task_create.
        operation: Line,
        /// Its arguments.
        arguments: Option<Value>,
    }

    /// Many answers.
    pub struct BulkAnswers {
        /// One for each request, in order.
        #[at_most(ENTRIES_MAX)]
        items: Vec<BulkItem>,
        /// How many were not carried out.
        failed: u16,
    }

    /// One of many answers: an answer or a problem.
    pub struct BulkItem {
        /// The name of the operation.
        operation: Line,
        /// The status that it would have had alone.
        status: u16,
        /// Whether the same request had been carried out before.
        replayed: Option<bool>,
        /// What it answered.
        answer: Option<Value>,
        /// Why it was not carried out.
        problem: Option<Value>,
    }
}

impl Operation for Submit {
    const ABOUT: Declaration = Declaration {
        noun: "bulk",
        verb: "submit",
        summary: "Carry out many requests, each with its own answer",
        method: Method::Post,
        path: "/v1/bulk",
        permit: Permit::Each,
        audience: Audience::Anyone,
        hints: Hints { destructive: true, ..Hints::ADDS },
        columns: &["operation", "status"],
    };

    type Answer = BulkAnswers;

    async fn perform(self, call: &Call) -> Result<Answered<BulkAnswers>, Problem> {
        if self.entries.is_empty() || self.entries.len() > ENTRIES_MAX {
            let rule = format!("must have 1 to {ENTRIES_MAX} entries, has {}", self.entries.len());
            return Err(Problem::invalid(vec![Violation { field: "entries".into(), rule }]));
        }
        let mut items = vec![];
        for (index, entry) in self.entries.into_iter().enumerate() {
            items.push(one(call, index, entry).await);
        }
        let failed = items.iter().filter(|item| item.problem.is_some()).count();
        let failed = u16::try_from(failed).expect("at most fifty were tried");
        let value = BulkAnswers { items, failed };
        Ok(Answered { value, as_of: None, at: None, replayed: false, secrets: vec![] })
    }
}

async fn one(call: &Call, index: usize, entry: BulkEntry) -> BulkItem {
    let BulkEntry { operation, arguments } = entry;
    let arguments = arguments.unwrap_or_else(|| Value::Object(Map::new()));
    let (status, replayed, answer, problem) =
        match perform(call, index, &operation, arguments).await {
            Ok((status, reply)) => (status, reply.replayed.then_some(true), Some(reply.body), None),
            Err(problem) => (problem.status(), None, None, Some(problem.body())),
        };
    BulkItem { operation, status, replayed, answer, problem }
}

async fn perform(
    call: &Call,
    index: usize,
    operation: &Line,
    arguments: Value,
) -> Result<(u16, Reply), Problem> {
    let invalid = |rule: &str| {
        let field = format!("entries[{index}].operation");
        Problem::invalid(vec![Violation { field, rule: rule.into() }])
    };
    let entry = super::all().iter().find(|entry| entry.about.name() == operation.as_str());
    let entry =
        entry.ok_or_else(|| invalid("must be the name of an operation, like task_create"))?;
    if ALONE.contains(&(entry.about.noun, entry.about.verb)) {
        return Err(invalid("cannot be one of many: ask for it alone"));
    }
    let envelope = Envelope {
        request_key: call.envelope().request_key.as_ref().map(|key| derived(key, index)),
        // It would be the version of every task.
        if_match: None,
        ..call.envelope().clone()
    };
    let own = call.within(envelope, (&entry.about, &arguments));
    let reply = entry.perform(arguments, Arc::new(own)).await?;
    Ok((entry.about.success(), reply))
}

/// Repeated as a whole, every request is repeated under its own key.
fn derived(key: &Text<255>, index: usize) -> Text<255> {
    let mut hash = Sha256::new();
    hash.update(index.to_be_bytes());
    hash.update(key.as_str());
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Text::new("request_key", format!("bulk-{digits}")).expect("hex digits are a text")
}
