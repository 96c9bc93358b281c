//! Whether a value has a shape, told for every field that does not.

use serde_json::Value;

use super::{Form, Record, Shape};

/// How many violations one answer tells; the rest is counted by nobody, the first ones are enough.
const VIOLATIONS_MAX: usize = 20;

/// A rule that a field breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, like `contract.lines[2].path`.
    pub field: String,
    /// What must be so.
    pub rule: String,
}

/// Every rule that the value breaks, at most a screenful.
#[must_use]
pub fn check(value: &Value, shape: &Shape) -> Vec<Violation> {
    let mut found = Found(vec![]);
    found.look("", value, shape);
    found.0
}

struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, field: &str, rule: impl Into<String>) {
        if self.0.len() < VIOLATIONS_MAX {
            let field = if field.is_empty() { "arguments" } else { field };
            self.0.push(Violation { field: field.into(), rule: rule.into() });
        }
    }

    fn look(&mut self, at: &str, value: &Value, shape: &Shape) {
        match shape {
            Shape::Text { bytes_max, form } => self.text(at, value, *bytes_max, form.as_ref()),
            Shape::Number { min, max, .. } => match value.as_u64() {
                Some(number) if (*min..=*max).contains(&number) => {}
                Some(_) | None => {
                    self.add(at, format!("must be a whole number from {min} to {max}"));
                }
            },
            Shape::Flag if !value.is_boolean() => self.add(at, "must be true or false"),
            Shape::Choice(words) if !value.as_str().is_some_and(|word| words.contains(&word)) => {
                self.add(at, format!("must be one of {}", words.join(", ")));
            }
            Shape::Tagged { .. } if !value.is_object() => self.add(at, "must be an object"),
            Shape::Flag | Shape::Choice(_) | Shape::Tagged { .. } | Shape::Json => {}
            Shape::List { of, count_max } => match value.as_array() {
                None => self.add(at, "must be a list"),
                Some(list) if list.len() > *count_max => {
                    self.add(at, format!("must have at most {count_max} entries"));
                }
                Some(list) => {
                    for (index, item) in list.iter().enumerate() {
                        self.look(&format!("{at}[{index}]"), item, of);
                    }
                }
            },
            Shape::Map { of, count_max, .. } => match value.as_object() {
                None => self.add(at, "must be an object"),
                Some(map) if map.len() > *count_max => {
                    self.add(at, format!("must have at most {count_max} entries"));
                }
                Some(map) => {
                    for (name, item) in map {
                        self.look(&below(at, name), item, of);
                    }
                }
            },
            Shape::Record(record) => self.record(at, value, record),
        }
    }

    fn text(&mut self, at: &str, value: &Value, bytes_max: usize, form: Option<&Form>) {
        match value.as_str() {
            None => self.add(at, "must be a text"),
            Some(text) if text.trim().is_empty() => self.add(at, "must not be blank"),
            Some(text) if text.len() > bytes_max => {
                self.add(at, format!("must be at most {bytes_max} bytes, is {}", text.len()));
            }
            Some(text) if form == Some(&Form::LINE) && text.contains(['\n', '\t']) => {
                self.add(at, "must be one line: no newline and no tab");
            }
            Some(_) => {}
        }
    }

    fn record(&mut self, at: &str, value: &Value, record: &Record) {
        let Some(map) = value.as_object() else { return self.add(at, "must be an object") };
        for name in map.keys() {
            if !record.fields.iter().any(|field| field.name == name) {
                let known: Vec<_> = record.fields.iter().map(|field| field.name).collect();
                let rule = match known.is_empty() {
                    true => "is unknown: nothing may be given here".to_owned(),
                    false => format!("is unknown; known are {}", known.join(", ")),
                };
                self.add(&below(at, name), rule);
            }
        }
        for field in &record.fields {
            match map.get(field.name) {
                Some(Value::Null) => {
                    self.add(&below(at, field.name), "must not be null: leave it out instead");
                }
                Some(inner) => self.look(&below(at, field.name), inner, &field.shape),
                None if field.required => self.add(&below(at, field.name), "is missing"),
                None => {}
            }
        }
    }
}

/// The name of something inside; names that the caller chose are cut, for they may be long.
fn below(at: &str, name: &str) -> String {
    let name = &name[..name.floor_char_boundary(64)];
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}
