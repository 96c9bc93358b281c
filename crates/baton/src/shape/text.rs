//! Texts from a command line or a URL, typed by the shape that is expected.

use serde_json::{Value, json};

use super::{Shape, Violation};

impl Shape {
    /// Reads a value from texts: several only for a list. What does not fit stays a text, so that
    /// the check names the field and the rule.
    pub fn read(&self, field: &str, texts: &[&str]) -> Result<Value, Violation> {
        match (self, texts) {
            (Self::List { of, .. }, texts) => {
                let items: Result<Vec<_>, _> =
                    texts.iter().map(|text| of.read(field, &[text])).collect();
                items.map(Value::Array)
            }
            (_, [text]) => Ok(self.read_one(text)),
            (_, _) => Err(Violation { field: field.into(), rule: "must be given once".into() }),
        }
    }

    fn read_one(&self, text: &str) -> Value {
        match self {
            Self::Text { .. } | Self::Choice(_) => json!(text),
            Self::Number { .. } => text.parse::<u64>().map_or_else(|_| json!(text), Value::from),
            Self::Flag => text.parse::<bool>().map_or_else(|_| json!(text), Value::from),
            Self::List { .. }
            | Self::Map { .. }
            | Self::Record(_)
            | Self::Tagged { .. }
            | Self::Json => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        }
    }
}
