//! A worker as callers see it.

use std::collections::BTreeSet;

use baton_domain::ids::{Account, Capability, Label, PrincipalId};
use baton_domain::limits::CAPABILITIES_MAX;
use baton_domain::text::Text;

use crate::shape::{When, record};

use super::PauseView;

/// Accounts of one worker.
const ACCOUNTS_MAX: usize = 16;

record! {
    /// Who runs agents for this server.
    pub struct WorkerView {
        /// As whom it holds runs.
        worker: PrincipalId,
        /// Where it runs.
        machine: Label,
        /// Its version of Baton.
        version: Text<64>,
        /// Runs that it may hold at once.
        slots: u16,
        /// Runs that are held in its name now.
        busy: u64,
        /// Which agents it runs.
        #[at_most(CAPABILITIES_MAX)]
        agents: BTreeSet<Capability>,
        /// What they are able to do.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: BTreeSet<Capability>,
        /// Accounts that they use, the preferred one first.
        #[at_most(ACCOUNTS_MAX)]
        accounts: Vec<Account>,
        /// Since when it is connected.
        since: When,
        /// When it last showed that it lives.
        heard_at: When,
        /// Why it is handed nothing more.
        drained: Option<PauseView>,
    }
}
