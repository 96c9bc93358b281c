//! Everything that a caller can ask for, in one list.

use std::sync::LazyLock;

use crate::operation::Entry;

mod project;
mod run;
mod task;

/// The table, in the order in which people read it: by noun, then as work goes.
static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::of::<project::Add>(),
        Entry::of::<task::Create>(),
        Entry::of::<task::Show>(),
        Entry::of::<task::List>(),
        Entry::of::<run::Claim>(),
        Entry::of::<run::Checkpoint>(),
    ]
});

/// Every operation there is.
#[must_use]
pub fn all() -> &'static [Entry] {
    &TABLE
}

/// The operation of that noun and verb.
#[must_use]
pub fn find(noun: &str, verb: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.about.noun == noun && entry.about.verb == verb)
}
