//! The arguments of an operation without their secrets: free text is masked, and what names
//! something is refused, for with another name it would be something else.

use serde_json::Value;

use crate::shape::{Form, Shape, Violation};

use super::{Redactor, Tally};

const IS_SECRET: &str = "must not contain a secret";

/// Masks the secrets in all free texts, and tells how many there were, or what must not be there.
/// The arguments must have the shape.
pub fn clean(
    redactor: &Redactor,
    arguments: &mut Value,
    shape: &Shape,
) -> Result<Tally, Vec<Violation>> {
    let mut cleaning = Cleaning { redactor, tally: Tally::default(), violations: vec![] };
    cleaning.value("", arguments, shape);
    if cleaning.violations.is_empty() { Ok(cleaning.tally) } else { Err(cleaning.violations) }
}

struct Cleaning<'a> {
    redactor: &'a Redactor,
    tally: Tally,
    violations: Vec<Violation>,
}

impl Cleaning<'_> {
    fn value(&mut self, at: &str, value: &mut Value, shape: &Shape) {
        match (shape, value) {
            (Shape::Text { form, .. }, Value::String(text)) => {
                if let Some((cleaned, tally)) = self.redactor.text(text) {
                    match refused(tally, form.is_some_and(|form| form != Form::LINE)) {
                        Some(rule) => self.refuse(at, rule),
                        None => {
                            *text = cleaned;
                            self.tally.add(tally);
                        }
                    }
                }
            }
            (Shape::List { of, .. }, Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    self.value(&format!("{at}[{index}]"), item, of);
                }
            }
            (Shape::Map { of, .. }, Value::Object(map)) => {
                for (name, item) in map {
                    // A name that was chosen by the caller is text like any other.
                    if self.redactor.text(name).is_some() {
                        self.refuse(at, IS_SECRET);
                    }
                    self.value(at, item, of);
                }
            }
            (Shape::Record(record), Value::Object(map)) => {
                for field in &record.fields {
                    if let Some(inner) = map.get_mut(field.name) {
                        let place = match at {
                            "" => field.name.to_owned(),
                            at => format!("{at}.{}", field.name),
                        };
                        self.value(&place, inner, &field.shape);
                    }
                }
            }
            // Numbers and words of a list hold nothing; what is any JSON has arguments of another
            // operation in it, and is cleaned by their shape.
            _ => {}
        }
    }

    fn refuse(&mut self, at: &str, rule: &str) {
        self.violations.push(Violation { field: at.to_owned(), rule: rule.to_owned() });
    }
}

/// Why a text is refused instead of masked.
fn refused(tally: Tally, names: bool) -> Option<&'static str> {
    if tally.claim_tokens > 0 {
        return Some("must not contain a claim token");
    }
    if tally.keys > 0 {
        return Some("must not contain a key");
    }
    names.then_some(IS_SECRET)
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.known += other.known;
        self.shapes += other.shapes;
        self.claim_tokens += other.claim_tokens;
        self.keys += other.keys;
    }
}
