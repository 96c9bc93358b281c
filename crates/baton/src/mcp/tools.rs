//! Tools: rows of the operation table as agent programs list them.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::operation::{Entry, Hints};
use crate::operations;
use crate::shape::{Field, Shape, inline};

/// How much of the table is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toolset {
    /// What an agent needs for its run, and no more: every tool costs every model attention.
    #[default]
    Run,
    /// Everything that can be asked for over MCP.
    All,
}

/// The tools of a run, in the order in which work goes.
const RUN: [(&str, &str); 14] = [
    ("run", "start"),
    ("run", "claim"),
    ("run", "show"),
    ("run", "list"),
    ("run", "progress"),
    ("run", "checkpoint"),
    ("run", "ask"),
    ("run", "block"),
    ("run", "wait"),
    ("run", "heartbeat"),
    ("run", "complete"),
    ("run", "fail"),
    ("run", "release"),
    ("task", "create"),
];

/// Those without which no run can be worked: whoever asks must also be able to wait. A program that
/// hides tools until they are searched for is asked to show these.
const ALWAYS: [&str; 7] = ["start", "claim", "checkpoint", "ask", "wait", "block", "complete"];

/// What is never a tool. The answer of four is a secret, which MCP drops: a key or a webhook whose
/// secret nobody learns is of no use, and a key that is exchanged for such a one locks its owner out.
/// The fifth carries other operations inside, whose hints no program would see.
const NEVER: [(&str, &str); 5] = [
    ("key", "create"),
    ("key", "rotate"),
    ("tenant", "create"),
    ("channel", "add"),
    ("bulk", "submit"),
];

/// A tool with the row behind it.
pub struct Offer {
    /// The row.
    pub entry: &'static Entry,
    /// What it takes: the row's arguments, but a holder need not say which run is its own.
    pub takes: Shape,
    /// As it is listed.
    pub tool: Tool,
}

/// Every row that can be a tool: those of a run first, then the rest as the table has them.
static OFFERS: LazyLock<Vec<Offer>> = LazyLock::new(|| {
    let run = RUN.iter().filter_map(|(noun, verb)| operations::find(noun, verb));
    let named =
        |entry: &Entry, list: &[(&str, &str)]| list.contains(&(entry.about.noun, entry.about.verb));
    let rest = operations::all().iter();
    let rest = rest.filter(|entry| !named(entry, &RUN) && !named(entry, &NEVER));
    run.chain(rest).map(Offer::of).collect()
});

impl Toolset {
    /// The toolset of that name.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "run" => Some(Self::Run),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// What is offered, in an order that never changes.
    #[must_use]
    pub fn offers(self) -> &'static [Offer] {
        match self {
            Self::Run => &OFFERS[..RUN.len()],
            Self::All => &OFFERS,
        }
    }

    /// The tool of that name.
    #[must_use]
    pub fn find(self, name: &str) -> Option<&'static Offer> {
        self.offers().iter().find(|offer| offer.tool.name == name)
    }

    /// The tool behind a command that a refusal names as the next step, if it is offered.
    #[must_use]
    pub fn instead_of(self, command: &str) -> Option<&'static Offer> {
        let mut words = command.split_whitespace();
        if words.next() != Some("baton") {
            return None;
        }
        let (first, second) = (words.next()?, words.next());
        let alias = crate::aliases::find(first).and_then(crate::aliases::Alias::entry);
        let entry = second.and_then(|verb| operations::find(first, verb)).or(alias)?;
        self.find(&entry.about.name())
    }
}

/// Every tool as `surface.txt` lists it: its name, whether it is offered by default, and whether
/// programs that hide tools are asked to show it.
#[must_use]
pub fn listing() -> Vec<(&'static str, bool, bool)> {
    let of_run = Toolset::Run.offers().len();
    let line = |(at, offer): (usize, &'static Offer)| {
        (offer.tool.name.as_ref(), at < of_run, offer.tool.meta.is_some())
    };
    Toolset::All.offers().iter().enumerate().map(line).collect()
}

impl Offer {
    fn of(entry: &'static Entry) -> Self {
        let takes = takes(entry);
        let about = &entry.about;
        let mut tool = Tool::new(about.name(), about.summary, object(inline(&takes)))
            .with_title(format!("{} {}", about.noun, about.verb.replace('-', " ")))
            .with_raw_output_schema(object(gives(entry)))
            .with_annotations(annotations(about.hints));
        if about.noun == "run" && ALWAYS.contains(&about.verb) {
            let loaded = json!({ "anthropic/alwaysLoad": true });
            tool = tool.with_meta(MetaObject(owned(loaded)));
        }
        Self { entry, takes, tool }
    }

    /// Whether whoever says it may mean its own run without naming it.
    #[must_use]
    pub fn has_mine(&self) -> bool {
        self.takes.field("run").is_some_and(|run| !run.required)
    }
}

fn annotations(hints: Hints) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world)
}

fn takes(entry: &Entry) -> Shape {
    let mut shape = entry.arguments.clone();
    let own = entry.about.takes_token();
    if let Shape::Record(record) = &mut shape {
        for field in &mut record.fields {
            tell_mine(field, own);
        }
    }
    shape
}

fn tell_mine(field: &mut Field, own: bool) {
    if field.name == "run" && own {
        field.required = false;
        field.doc.push_str(" Without it the one that was claimed over this connection.");
    }
    if field.name == "attempt" {
        "Your attempt, as the claim told it. Needed only where this connection does not know it."
            .clone_into(&mut field.doc);
    }
}

/// What it answers: its own fields in full, what is nested as an object with a sentence.
fn gives(entry: &Entry) -> Value {
    let mut properties = JsonObject::new();
    let mut add = |name: &str, doc: &str, mut schema: Value| {
        schema["description"] = json!(doc);
        properties.insert(name.to_owned(), schema);
    };
    for field in entry.answer.fields() {
        add(field.name, &field.doc, outline(&field.shape));
    }
    let as_of = "Up to where the events are in it: who follows from here misses nothing.";
    add("as_of", as_of, json!({ "type": "string" }));
    add("at", "When it was carried out.", json!({ "type": "string" }));
    let fields = entry.answer.fields().iter();
    let required: Vec<_> = fields.filter(|field| field.required).map(|field| field.name).collect();
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// What an answer looks like, told once for everybody who reads it: bounds and patterns are for what
/// comes in.
fn outline(shape: &Shape) -> Value {
    match shape {
        Shape::Text { .. } => json!({ "type": "string" }),
        Shape::Number { .. } => json!({ "type": "integer" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::List { of, .. } => json!({ "type": "array", "items": outline(of) }),
        Shape::Record(_) | Shape::Map { .. } | Shape::Tagged { .. } => json!({ "type": "object" }),
        Shape::Json => json!({}),
    }
}

fn object(schema: Value) -> Arc<JsonObject> {
    Arc::new(owned(schema))
}

fn owned(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

#[cfg(test)]
mod tests;
