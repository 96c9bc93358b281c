//! The shape of what goes over the wire. One description serves four readers: the check of what
//! comes in, the JSON schema that clients read, the flags of the command line, and `surface.txt`.

mod check;
pub mod choices;
mod json;
mod plain;
mod record;
mod text;

pub use check::{Violation, check};
pub use json::{Definitions, inline, referring};
pub use plain::{PageSize, PoolRef, Position, RunRef, Span, When};
pub(crate) use record::record;

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
    /// Several, under names that the caller chooses.
    Map {
        /// Of what.
        of: Box<Shape>,
        /// At most.
        count_max: usize,
    },
    /// Several, under names that we choose.
    Record(Record),
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
            | Self::Json => &[],
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
