//! One value as people read it.

use baton_domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::shape::{Shape, When};

use super::Look;
use super::clean::{line, lines};

/// Longer cells are cut; `--json` has the whole.
const CELL_CHARS_MAX: usize = 72;

pub(super) struct Cells {
    pub(super) look: Look,
}

impl Cells {
    /// A value on one line.
    pub(super) fn short(&self, value: &Value, shape: Option<&Shape>) -> String {
        match value {
            Value::Null => String::new(),
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => self.text(text, shape),
            Value::Array(items) => {
                let one = |item: &Value| self.short(item, None);
                cut(&items.iter().map(one).collect::<Vec<_>>().join(", "))
            }
            Value::Object(map) => self.thing(map),
        }
    }

    /// A thing by what it is known by.
    fn thing(&self, map: &Map<String, Value>) -> String {
        let known = |names: &[&str]| names.iter().find_map(|name| map.get(*name));
        let short = |value: Option<&Value>| value.map(|value| self.short(value, None));
        let lead = ["event", "principal", "id", "name", "text", "reason", "kind", "expires_at"];
        let Some(lead) = short(known(&lead)) else {
            return cut(&line(&Value::Object(map.clone()).to_string()));
        };
        let numbered = map.contains_key("id") && !map.contains_key("event");
        match short(known(&["title", "state"])).filter(|_| numbered) {
            Some(more) => cut(&format!("{lead}  {more}")),
            None => cut(&lead),
        }
    }

    fn text(&self, text: &str, shape: Option<&Shape>) -> String {
        let when: Option<When> = text.parse().ok().filter(|_| text.ends_with('Z'));
        let text = match when {
            Some(when) => self.time(when.0),
            // What is shown once must be shown whole.
            None if shape.is_none() => line(text),
            None => cut(&line(text)),
        };
        if self.look.color { colored(&text) } else { text }
    }

    /// How far away a time is; beyond a day the time itself says more.
    fn time(&self, at: Timestamp) -> String {
        let (past, millis) = match at.0 - self.look.now.0 {
            ahead @ 0.. => (false, ahead),
            behind => (true, behind.saturating_neg()),
        };
        let length = match millis / 1_000 {
            0 => return "now".to_owned(),
            seconds @ ..60 => format!("{seconds}s"),
            seconds @ ..3_600 => format!("{}m", seconds / 60),
            seconds @ ..86_400 => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
            _ => return When(at).to_string(),
        };
        if past { format!("{length} ago") } else { format!("in {length}") }
    }

    /// A value with everything in it, as fields under names.
    pub(super) fn long(
        &self,
        name: &str,
        value: &Value,
        shape: &Shape,
        fields: &mut Vec<(String, String)>,
    ) {
        match (value, shape) {
            (Value::Array(items), _) if items.is_empty() => {}
            (Value::Object(_), Shape::Record(record)) => {
                for field in &record.fields {
                    let told = value.get(field.name);
                    let told = told.filter(|told| self.look.all || !is_usual(told, &field.shape));
                    if let Some(inner) = told {
                        self.long(&format!("{name}.{}", field.name), inner, &field.shape, fields);
                    }
                }
            }
            (Value::Object(map), Shape::Map { .. }) => {
                let pair = |(name, value): (&String, &Value)| {
                    format!("{} {}", line(name), self.short(value, None))
                };
                let all = map.iter().map(pair).collect::<Vec<_>>().join(", ");
                fields.extend((!all.is_empty()).then(|| (name.to_owned(), all)));
            }
            (Value::Array(items), _) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    fields.push((format!("{name}[{index}]"), self.pairs(item)));
                }
            }
            (Value::String(text), Shape::Text { form: None, .. }) => {
                fields.push((name.to_owned(), lines(text)));
            }
            (Value::Array(items), _) => {
                let one = |item: &Value| self.short(item, None);
                let all = items.iter().map(one).collect::<Vec<_>>().join(", ");
                fields.push((name.to_owned(), all));
            }
            (_, _) => fields.push((name.to_owned(), self.short(value, Some(shape)))),
        }
    }

    fn pairs(&self, item: &Value) -> String {
        match item.as_object() {
            Some(map) => {
                let pair = |(name, value): (&String, &Value)| {
                    format!("{}={}", line(name), self.short(value, None))
                };
                map.iter().map(pair).collect::<Vec<_>>().join("  ")
            }
            None => self.short(item, None),
        }
    }
}

/// Whether it says only what would be so without it.
fn is_usual(value: &Value, shape: &Shape) -> bool {
    shape.usual().is_some_and(|usual| usual == *value)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(CELL_CHARS_MAX - 1).collect();
    short.push('…');
    short
}

/// Colours only the words that say how something is.
fn colored(word: &str) -> String {
    let code = match word {
        "done" | "completed" | "verified" | "running" | "working" | "approved" => 32,
        "needs_you" | "waiting_for_input" | "waiting_input" | "blocked" | "review" | "silent"
        | "done_unverified" | "unverified" | "stopping" | "frozen" | "pending" => 33,
        "failed" | "rejected" | "merge_failed" | "stop_unverified" | "ended_without_result" => 31,
        _ => return word.to_owned(),
    };
    format!("\u{1b}[{code}m{word}\u{1b}[0m")
}
