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

/// Whether a character shows nothing by itself: controls, marks that turn the direction of writing
/// around, and marks without width that can carry a hidden text.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x180E | 0x200B | 0x200E | 0x200F
            | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB
            | 0xE0000..=0xE0FFF)
}
