//! How frames are written and read.

use baton_domain::text::Text;
use serde_json::{Map, Value};

use super::{About, BOUNDS, MESSAGE_BYTES_MAX, Side};
use crate::json::{self, Broken};
use crate::shape::{Shape, Violation, check};

/// The field that says which frame it is.
const TAG: &str = "frame";

/// Why a frame was not understood. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is too long, too deep or too wide.
    #[error("{0}")]
    TooLarge(String),
    /// It is no JSON object.
    #[error("{0}")]
    Malformed(String),
    /// One of its fields breaks a rule.
    #[error("`{field}` {rule}")]
    Invalid {
        /// Which, like `attempts[2].last_seq`.
        field: String,
        /// What must be so.
        rule: String,
    },
}

impl Unreadable {
    /// The stable word for it, the same as in problems.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::Malformed(_) => "malformed",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// The field that it is about.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid { field, .. } => Some(field),
            Self::TooLarge(_) | Self::Malformed(_) => None,
        }
    }
}

/// Reads a frame.
pub fn read<S: Side>(text: &str) -> Result<S, Unreadable> {
    read_cleaned(text, |_, _, _| Ok(()))
}

/// Reads a frame whose fields somebody else looks at first: they have the shape by then.
pub fn read_cleaned<S: Side>(
    text: &str,
    clean: impl FnOnce(&str, &mut Value, &Shape) -> Result<(), Violation>,
) -> Result<S, Unreadable> {
    let (word, mut fields) = opened(text)?;
    let frames = S::frames();
    let Some((_, shape)) = frames.iter().find(|(own, _)| *own == word) else {
        return Err(unknown::<S>());
    };
    forget_unknown(&mut fields, shape);
    if let Some(Violation { field, rule }) = check(&fields, shape).into_iter().next() {
        return Err(Unreadable::Invalid { field, rule });
    }
    clean(&word, &mut fields, shape)
        .map_err(|Violation { field, rule }| Unreadable::Invalid { field, rule })?;
    match S::of(&word, fields) {
        Some(Ok(frame)) => Ok(frame),
        Some(Err(error)) => Err(Unreadable::Invalid {
            field: error.path().to_string(),
            rule: format!("is not as it should be: {}", error.inner()),
        }),
        None => Err(unknown::<S>()),
    }
}

/// Which frame a text is, as far as that can be told although something is wrong with it.
#[must_use]
pub fn about(text: &str) -> Option<About> {
    let (word, fields) = opened(text).ok()?;
    let attempt = fields.get("attempt").and_then(Value::as_str);
    Some(About {
        frame: Text::new("frame", word).ok(),
        attempt: attempt.and_then(|text| text.parse().ok()),
        seq: fields.get("seq").and_then(Value::as_u64),
    })
}

/// Writes a frame.
pub fn write<S: Side>(frame: &S) -> Result<String, Unreadable> {
    let fields = frame.fields().map_err(|error| Unreadable::Malformed(error.to_string()))?;
    let mut whole = Map::new();
    whole.insert(TAG.to_owned(), frame.word().into());
    if let Value::Object(fields) = fields {
        whole.extend(fields);
    }
    let text = Value::Object(whole).to_string();
    short_enough(&text)?;
    Ok(text)
}

fn opened(text: &str) -> Result<(String, Value), Unreadable> {
    short_enough(text)?;
    let whole = json::read(text.as_bytes(), &BOUNDS).map_err(|broken| match &broken {
        Broken::NotJson { .. } => Unreadable::Malformed(format!("the frame is {broken}")),
        Broken::Twice { .. } => Unreadable::Malformed(broken.to_string()),
        Broken::TooLarge(_) => Unreadable::TooLarge(broken.to_string()),
    })?;
    let Value::Object(mut whole) = whole else {
        return Err(Unreadable::Malformed("a frame is an object".to_owned()));
    };
    match whole.remove(TAG) {
        Some(Value::String(word)) => Ok((word, Value::Object(whole))),
        Some(_) | None => {
            let rule = "must say which frame it is, as a text".to_owned();
            Err(Unreadable::Invalid { field: TAG.to_owned(), rule })
        }
    }
}

fn short_enough(text: &str) -> Result<(), Unreadable> {
    if text.len() > MESSAGE_BYTES_MAX {
        let detail = format!("a frame has at most {MESSAGE_BYTES_MAX} bytes");
        return Err(Unreadable::TooLarge(detail));
    }
    Ok(())
}

fn unknown<S: Side>() -> Unreadable {
    let words: Vec<_> = S::frames().into_iter().map(|(word, _)| word).collect();
    let rule = format!("must be one of {}", words.join(", "));
    Unreadable::Invalid { field: TAG.to_owned(), rule }
}

/// Takes out whatever a newer peer has said besides.
fn forget_unknown(value: &mut Value, shape: &Shape) {
    match (value, shape) {
        (Value::Object(map), Shape::Record(record)) => {
            map.retain(|name, _| record.fields.iter().any(|field| field.name == name));
            for field in &record.fields {
                if let Some(inner) = map.get_mut(field.name) {
                    forget_unknown(inner, &field.shape);
                }
            }
        }
        (Value::Object(map), Shape::Map { of, .. }) => {
            map.values_mut().for_each(|inner| forget_unknown(inner, of));
        }
        (Value::Array(items), Shape::List { of, .. }) => {
            items.iter_mut().for_each(|inner| forget_unknown(inner, of));
        }
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => {}
    }
}
