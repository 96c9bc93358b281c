//! Everything that a caller can ask for, in one list.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use baton_domain::scope::{Level, Scope};

use crate::operation::Entry;

mod attempt;
mod backlog;
mod bulk;
mod channel;
mod checkpoint;
mod event;
mod heard;
mod history;
mod inbox;
mod key;
mod pool;
mod project;
mod receipt;
mod run;
mod saying;
mod scheduler;
mod stats;
mod task;
mod tenant;
mod worker;

pub use channel::broken as broken_channels;
pub use inbox::look as inbox_of;
pub use pool::all as all_pools;
pub use project::find as find_project;
pub use run::{WORKERS_OWN, newest_work, packet};

/// The table, in the order in which people read it: by noun, then as work goes.
static TABLE: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    vec![
        Entry::of::<project::Add>(),
        Entry::of::<project::List>(),
        Entry::of::<project::Show>(),
        Entry::of::<project::Pause>(),
        Entry::of::<project::Resume>(),
        Entry::of::<project::Remove>(),
        Entry::of::<task::Create>(),
        Entry::of::<task::Publish>(),
        Entry::of::<task::Show>(),
        Entry::of::<task::List>(),
        Entry::of::<task::Edit>(),
        Entry::of::<task::Move>(),
        Entry::of::<task::Approve>(),
        Entry::of::<task::Reject>(),
        Entry::of::<task::Freeze>(),
        Entry::of::<task::Unfreeze>(),
        Entry::of::<task::Hold>(),
        Entry::of::<task::Unhold>(),
        Entry::of::<task::Close>(),
        Entry::of::<task::Archive>(),
        Entry::of::<task::Depend>(),
        Entry::of::<task::Undepend>(),
        Entry::of::<task::Tree>(),
        Entry::of::<task::Explain>(),
        Entry::of::<backlog::List>(),
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
        Entry::of::<run::Exit>(),
        Entry::of::<run::Complete>(),
        Entry::of::<run::Fail>(),
        Entry::of::<run::Cancel>(),
        Entry::of::<run::Retry>(),
        Entry::of::<run::Handoff>(),
        Entry::of::<run::Logs>(),
        Entry::of::<run::Diff>(),
        Entry::of::<run::Waive>(),
        Entry::of::<run::Review>(),
        Entry::of::<run::ForceRelease>(),
        Entry::of::<run::ForceFail>(),
        Entry::of::<checkpoint::List>(),
        Entry::of::<checkpoint::Show>(),
        Entry::of::<attempt::List>(),
        Entry::of::<attempt::Show>(),
        Entry::of::<receipt::List>(),
        Entry::of::<receipt::Show>(),
        Entry::of::<receipt::Keys>(),
        Entry::of::<inbox::List>(),
        Entry::of::<channel::Add>(),
        Entry::of::<channel::List>(),
        Entry::of::<channel::Test>(),
        Entry::of::<channel::Remove>(),
        Entry::of::<event::List>(),
        Entry::of::<pool::List>(),
        Entry::of::<pool::Set>(),
        Entry::of::<scheduler::Pause>(),
        Entry::of::<scheduler::Resume>(),
        Entry::of::<worker::List>(),
        Entry::of::<worker::Drain>(),
        Entry::of::<worker::Resume>(),
        Entry::of::<stats::Stats>(),
        Entry::of::<stats::Health>(),
        Entry::of::<bulk::Submit>(),
        Entry::of::<key::Create>(),
        Entry::of::<key::List>(),
        Entry::of::<key::Rotate>(),
        Entry::of::<key::Revoke>(),
        Entry::of::<key::RevokeSelf>(),
        Entry::of::<tenant::Create>(),
        Entry::of::<tenant::List>(),
    ]
});

/// What a key must allow to come in as a worker: no operation of the table, but a protocol of its own.
pub const WORKER: Scope = Scope::of("worker", Level::Work);

/// What a key must allow to have bytes by their digest, and to hand some in: those are no JSON, so no
/// operations of the table.
pub const BLOB_READ: Scope = Scope::of("blob", Level::Read);
/// The same, to hand some in.
pub const BLOB_WRITE: Scope = Scope::of("blob", Level::Write);

/// What keys can allow, in order.
static SCOPES: LazyLock<Vec<Scope>> = LazyLock::new(|| {
    let scopes = all().iter().filter_map(|entry| entry.about.scope());
    let scopes: BTreeSet<_> = scopes.chain([WORKER, BLOB_READ, BLOB_WRITE]).collect();
    scopes.into_iter().collect()
});

/// Every scope that any operation asks for, that of workers and those of blobs.
#[must_use]
pub fn scopes() -> &'static [Scope] {
    &SCOPES
}

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

#[cfg(test)]
mod tests;
