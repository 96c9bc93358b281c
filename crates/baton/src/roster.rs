//! Who works for this server right now: what each worker said when it came, and when it was last heard.
//! Kept in memory, because it is true only as long as the connections are; what must outlive them is in the
//! store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_domain::ids::{Account, Capability, Label, PrincipalId, TenantId};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;

/// Everybody who works here.
#[derive(Debug, Default)]
pub struct Roster(Mutex<BTreeMap<Place, Card>>);

/// What a worker is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Whose worker it is.
    pub tenant: TenantId,
    /// As whom it holds runs.
    pub principal: PrincipalId,
    /// Where it runs.
    pub machine: Label,
}

/// What is known of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its version of Baton.
    pub version: Text<64>,
    /// Runs that it may hold at once.
    pub slots: u16,
    /// Which agents it runs.
    pub agents: BTreeSet<Capability>,
    /// What they are able to do.
    pub capabilities: BTreeSet<Capability>,
    /// Accounts that they use, the preferred one first.
    pub accounts: Vec<Account>,
    /// When it came.
    pub came_at: Timestamp,
    /// When it last showed that it lives.
    pub heard_at: Timestamp,
}

impl Roster {
    /// A worker came, for the first time or again.
    pub fn put(&self, place: Place, card: Card) {
        self.lock().insert(place, card);
    }

    /// It showed that it lives.
    pub fn heard(&self, place: &Place, now: Timestamp) {
        if let Some(card) = self.lock().get_mut(place) {
            card.heard_at = now;
        }
    }

    /// It went.
    pub fn remove(&self, place: &Place) {
        self.lock().remove(place);
    }

    /// The workers of a tenant, in the order of their names.
    #[must_use]
    pub fn of(&self, tenant: &TenantId) -> Vec<(Place, Card)> {
        let all = self.lock();
        let own = all.iter().filter(|(place, _)| place.tenant == *tenant);
        own.map(|(place, card)| (place.clone(), card.clone())).collect()
    }

    /// Whoever panicked while it held the lock left the map whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Card>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
