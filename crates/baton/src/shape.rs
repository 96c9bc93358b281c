//! The shape of what goes over the wire. One description serves four readers: the check of what
//! comes in, the JSON schema that clients read, the flags of the command line, and `surface.txt`.

use baton_domain::time::Millis;
use serde_json::Value;

mod check;
pub mod choices;
mod json;
mod money;
mod plain;
mod record;
mod text;

pub use check::{Violation, check};
pub(crate) use choices::words;
pub use json::{Definitions, inline, referring};
pub use money::Money;
pub use plain::{PageSize, PoolRef, Position, RunRef, ScopeWord, Span, When};
pub(crate) use record::record;
pub use text::is_hidden;

/// What a value looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A text of at most so many bytes.
    Text {
        /// Bytes, not characters.
        bytes_max: usize,
        /// What it looks like, if it is not free: a pattern and an example.
        form: Option<Form>,
    },
    /// A whole number.
    Number {
        /// At least.
        min: u64,
        /// At most.
        max: u64,
        /// What counts if it is left out.
        usual: Option<u64>,
    },
    /// Yes or no.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Several, in order.
    List {
        /// Of what.
        of: Box<Shape>,
        /// At most.
        count_max: usize,
    },
    /// Several, under names of their own.
    Map {
        /// What a name looks like.
        names: Box<Shape>,
        /// Of what.
        of: Box<Shape>,
        /// At most.
        count_max: usize,
    },
    /// Several, under names that we choose.
    Record(Record),
    /// An object that says in its first field which of these it is; the rest follows from that.
    Tagged {
        /// The field that says it.
        tag: &'static str,
        /// Which there are.
        words: &'static [&'static str],
    },
    /// Whatever JSON it is; only in answers.
    Json,
}

/// What a text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// A regular expression in the dialect of JSON schema.
    pub pattern: &'static str,
    /// One that fits.
    pub example: &'static str,
    /// The longest that counts, where it is a length of time; a longer one counts as this.
    pub longest: Option<Millis>,
    /// What counts if it is left out, where it is a length of time.
    pub usual: Option<Millis>,
}

impl Form {
    /// A single line, whatever it says.
    pub const LINE: Self =
        Self { pattern: "^[^\\n\\t]*$", example: "a line", longest: None, usual: None };
}

/// Named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is called in the schema.
    pub name: &'static str,
    /// One sentence.
    pub doc: String,
    /// In the order in which people read them.
    pub fields: Vec<Field>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As it is written.
    pub name: &'static str,
    /// One sentence.
    pub doc: String,
    /// What it looks like.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
}

/// Something that goes over the wire.
pub trait Shaped {
    /// Whether it may be left out.
    const OPTIONAL: bool = false;

    /// What it looks like.
    fn shape() -> Shape;

    /// Whether it is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

impl Shape {
    /// The fields of a record; nothing else has any.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::Record(record) => &record.fields,
            Self::Text { .. }
            | Self::Number { .. }
            | Self::Flag
            | Self::Choice(_)
            | Self::List { .. }
            | Self::Map { .. }
            | Self::Tagged { .. }
            | Self::Json => &[],
        }
    }

    /// The same with a bound of its own: of entries, bytes, milliseconds or the number itself.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        match self {
            Self::List { of, .. } => Self::List { of, count_max: count },
            Self::Map { names, of, .. } => Self::Map { names, of, count_max: count },
            Self::Number { min, usual, .. } => Self::Number { min, max: most, usual },
            Self::Text { form: None, .. } => Self::Text { bytes_max: count, form: None },
            Self::Text { bytes_max, form: Some(form) } => {
                let form = Some(Form { longest: Some(Millis(most)), ..form });
                Self::Text { bytes_max, form }
            }
            Self::Flag | Self::Choice(_) | Self::Record(_) | Self::Tagged { .. } | Self::Json => {
                self
            }
        }
    }

    /// The same with what counts if it is left out: a number, or milliseconds.
    #[must_use]
    pub fn usually(self, usual: u64) -> Self {
        match self {
            Self::Number { min, max, .. } => Self::Number { min, max, usual: Some(usual) },
            Self::Text { bytes_max, form: Some(form) } => {
                let form = Some(Form { usual: Some(Millis(usual)), ..form });
                Self::Text { bytes_max, form }
            }
            Self::Text { form: None, .. }
            | Self::List { .. }
            | Self::Map { .. }
            | Self::Flag
            | Self::Choice(_)
            | Self::Record(_)
            | Self::Tagged { .. }
            | Self::Json => self,
        }
    }

    /// The same as a single line, if so.
    #[must_use]
    pub fn in_one_line(self, is_line: bool) -> Self {
        match self {
            Self::Text { bytes_max, .. } if is_line => {
                Self::Text { bytes_max, form: Some(Form::LINE) }
            }
            Self::Text { .. }
            | Self::Number { .. }
            | Self::List { .. }
            | Self::Map { .. }
            | Self::Flag
            | Self::Choice(_)
            | Self::Record(_)
            | Self::Tagged { .. }
            | Self::Json => self,
        }
    }

    /// What counts if it is left out, as it is written.
    #[must_use]
    pub fn usual(&self) -> Option<Value> {
        match self {
            Self::Number { usual, .. } => usual.map(Value::from),
            Self::Text { form: Some(form), .. } => form.usual.map(|at| Span(at).to_string().into()),
            Self::Text { form: None, .. }
            | Self::List { .. }
            | Self::Map { .. }
            | Self::Flag
            | Self::Choice(_)
            | Self::Record(_)
            | Self::Tagged { .. }
            | Self::Json => None,
        }
    }

    /// Whether it is the record of that name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        matches!(self, Self::Record(record) if record.name == name)
    }

    /// The field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields().iter().find(|field| field.name == name)
    }
}

#[cfg(test)]
mod tests;
