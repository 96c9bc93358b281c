//! Everything that a caller can ask for, in one list.

use std::sync::LazyLock;

use crate::operation::Entry;

mod project;
mod recent;
mod run;
mod task;

/// The table, in the order in which people read it: by noun, then as work goes.
static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::of::<project::Add>(),
        Entry::of::<task::Create>(),
        Entry::of::<task::Show>(),
        Entry::of::<task::List>(),
        Entry::of::<run::Start>(),
        Entry::of::<run::Claim>(),
        Entry::of::<run::Begin>(),
        Entry::of::<run::Show>(),
        Entry::of::<run::List>(),
        Entry::of::<run::Heartbeat>(),
        Entry::of::<run::Progress>(),
        Entry::of::<run::Checkpoint>(),
        Entry::of::<run::Ask>(),
        Entry::of::<run::Answer>(),
        Entry::of::<run::Receive>(),
        Entry::of::<run::Block>(),
        Entry::of::<run::Unblock>(),
        Entry::of::<run::Wait>(),
        Entry::of::<run::Release>(),
        Entry::of::<run::Complete>(),
        Entry::of::<run::Fail>(),
        Entry::of::<run::Cancel>(),
        Entry::of::<run::Retry>(),
        Entry::of::<run::Handoff>(),
        Entry::of::<run::ForceRelease>(),
        Entry::of::<run::ForceFail>(),
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
