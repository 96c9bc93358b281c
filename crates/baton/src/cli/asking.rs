//! What the commands that are written by hand share: an operation by its name, and its arguments.

use serde_json::{Map, Value};

use crate::client::Failure;
use crate::operation::Entry;
use crate::operations;

use super::Session;

/// The operation of that name, which the table has.
pub(super) fn entry(noun: &str, verb: &str) -> &'static Entry {
    operations::find(noun, verb).expect("it is in the table")
}

/// Arguments by their names.
pub(super) fn named<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Map<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Session<'_> {
    /// Asks for an operation by its name.
    pub(super) async fn asked<'a>(
        &self,
        (noun, verb): (&str, &str),
        pairs: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Value, Failure> {
        self.ask(entry(noun, verb), named(pairs)).await
    }

    /// The project that is meant, if one is.
    pub(super) fn project(&self) -> Option<&String> {
        self.globals.project.as_ref().or(self.around.project.as_ref())
    }
}
