//! Everywhere that a request can name something: every text that has a form, wherever it stands in
//! the arguments of an operation. A form that stands in no list here fails the tests: whoever adds
//! one says what another tenant could have under such a name.

use baton::operation::Entry;
use baton::shape::{Field, Form, Shape};
use serde_json::{Value, json};

use crate::wrongness::right;

/// What the other tenant has, by the example of the form of its name; see `theirs.rs`.
const THEIRS: &[(&str, &[&str])] = &[
    ("T-128", &["T-40"]),
    ("R-128.2", &["R-40.1"]),
    ("A-128.3", &["A-40.1"]),
    ("shop", &["pottery"]),
    ("coding", &["kiln"]),
    ("tests", &["glaze"]),
    ("ada", &["olga"]),
    ("rust", &["firing"]),
    ("urgent", &["cracked"]),
    ("database", &["oven"]),
    ("provider/main", &["provider/olga"]),
    ("laptop", &["olgas"]),
    ("phone", &["bell"]),
    ("local", &["other"]),
    (
        "stage shop coding",
        &[
            "project pottery",
            "stage pottery kiln",
            "key pottery oven",
            "holder olga",
            "account provider/olga",
            "budget T-40",
            "tree T-40",
        ],
    ),
    ("12-1-3", &["2-1-1"]),
];

/// The form of the public id of a key; which one they have is chance.
const KEY: &str = "4fR0aZk29LqB";

/// The form of a place in the events; how far theirs are is told by the store.
const PLACE: &str = "5f3a-128";

/// Forms in which nothing is named: times, lengths, money, digests, scopes, lines.
const PLAIN: [&str; 6] = [
    "2026-11-15T09:30:00Z",
    "5m",
    "12.50",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "run:work",
    "a line",
];

/// Forms that name exactly one thing that is there or is not, and what nobody has.
const IDS: [(&str, &str); 6] = [
    ("T-128", "T-999"),
    ("R-128.2", "R-999.1"),
    ("A-128.3", "A-999.1"),
    ("shop", "nowhere"),
    ("phone", "nowhere"),
    (KEY, "zzzzzzzzzzzz"),
];

/// What the other tenant has that differs from one world to the next.
#[derive(Clone, Debug)]
pub struct Theirs {
    /// The public id of one of their keys.
    pub key: String,
    /// The last place in their events.
    pub place: String,
}

/// A request that names something of theirs.
#[derive(Clone, Debug)]
pub struct Naming {
    /// In which field; none if in all at once.
    pub field: Option<&'static Field>,
    /// What is asked.
    pub arguments: Value,
    /// The same with names that nobody has, if what is named is there or is not.
    pub missing: Option<Value>,
}

impl Theirs {
    fn named(&self, form: &Form) -> Vec<&str> {
        match form.example {
            KEY => vec![&self.key],
            PLACE => vec![&self.place],
            plain if PLAIN.contains(&plain) => vec![],
            example => {
                let found = THEIRS.iter().find(|(own, _)| *own == example);
                let (_, names) = found.unwrap_or_else(|| {
                    panic!("what could another tenant have that is called like `{example}`?")
                });
                // Where a run may be meant by its task, it is.
                let by_task = form.pattern.contains("|mine").then_some("T-40");
                names.iter().copied().chain(by_task).collect()
            }
        }
    }

    /// Every request that is like this one, and names something of theirs in one place or, where
    /// it names several things, in all of them.
    pub fn naming(&self, entry: &'static Entry, arguments: &Value) -> Vec<Naming> {
        let mut all = vec![];
        let (mut at_once, mut count) = (Naming::all(arguments), 0);
        for field in entry.arguments.fields() {
            let missing = missing(&field.shape);
            for value in self.values(&field.shape) {
                let mut one = Naming { field: Some(field), ..Naming::all(arguments) };
                one.arguments[field.name] = value;
                one.missing = missing.clone().map(|missing| with(arguments, field, missing));
                all.push(one);
            }
            let (Some(missing), Some(value)) = (missing, self.values(&field.shape).pop()) else {
                continue;
            };
            at_once.arguments[field.name] = value;
            let other = at_once.missing.unwrap_or_else(|| arguments.clone());
            at_once.missing = Some(with(&other, field, missing));
            count += 1;
        }
        all.extend((count > 1).then_some(at_once));
        // First what is refused, while everything that the request needs is still there.
        all.sort_by_key(|one| one.missing.is_none());
        all
    }

    /// Every value of a shape that names something of theirs in one place.
    fn values(&self, shape: &Shape) -> Vec<Value> {
        match shape {
            Shape::Text { form: Some(form), .. } => {
                self.named(form).into_iter().map(|name| json!(name)).collect()
            }
            Shape::Text { form: None, .. }
            | Shape::Number { .. }
            | Shape::Flag
            | Shape::Choice(_)
            | Shape::Tagged { .. }
            | Shape::Json => vec![],
            Shape::List { of, .. } => {
                self.values(of).into_iter().map(|value| json!([value])).collect()
            }
            Shape::Map { names, of, .. } => {
                let names = self.values(names).into_iter();
                let named = |name: Value| json!({ name.as_str().expect("a name"): right(of) });
                names.map(named).collect()
            }
            Shape::Record(record) => {
                let of = |field: &Field| {
                    let put = |value| {
                        let mut whole = right(shape);
                        whole[field.name] = value;
                        whole
                    };
                    self.values(&field.shape).into_iter().map(put).collect::<Vec<_>>()
                };
                record.fields.iter().flat_map(of).collect()
            }
        }
    }
}

impl Naming {
    /// The fields of an operation that name one thing.
    pub fn ids(entry: &'static Entry) -> Vec<&'static str> {
        let fields = entry.arguments.fields().iter();
        fields.filter(|field| missing(&field.shape).is_some()).map(|field| field.name).collect()
    }

    fn all(arguments: &Value) -> Self {
        Self { field: None, arguments: arguments.clone(), missing: None }
    }
}

/// What nobody has, as a value of this shape, if it names one thing or a list of such.
fn missing(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Text { form: Some(form), .. } => {
            let (_, name) = IDS.iter().find(|(own, _)| *own == form.example)?;
            Some(json!(name))
        }
        Shape::List { of, .. } => Some(json!([missing(of)?])),
        Shape::Text { form: None, .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => None,
    }
}

fn with(arguments: &Value, field: &Field, value: Value) -> Value {
    let mut arguments = arguments.clone();
    arguments[field.name] = value;
    arguments
}
