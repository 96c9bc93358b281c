//! Keys that were looked up a moment ago, and which of them were used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_domain::ids::TenantId;
use baton_domain::key::{KeyId, Verifier};
use baton_domain::scope::Scope;
use baton_domain::time::{Millis, Timestamp};
use baton_store::KeyFound;
use baton_store::keys::USES_MAX;
use subtle::ConstantTimeEq;

use crate::tokens::key::Shown;

use super::Identity;

/// Keys that are kept: those of a busy fleet. Ids that nobody has are not, or guessing would push out
/// what is in use.
pub(super) const KEPT_MAX: usize = 1_024;
/// How long a key is believed: what another server changed counts within this time, and streams and
/// waiting claims, which look twice a second, end within one second of a revocation anywhere.
pub(super) const FRESH: Millis = Millis(400);
/// How often the use of one key is noted at most.
pub(super) const NOTE_EVERY: Millis = Millis::minutes(1);

/// A key that was looked up.
pub(super) struct Known {
    pub(super) found: KeyFound,
    /// Shared with every caller that shows it.
    pub(super) scopes: Arc<BTreeSet<Scope>>,
}

struct Row {
    known: Arc<Known>,
    read_at: Timestamp,
    noted_at: Option<Timestamp>,
}

impl Identity {
    /// Whether this key was good a moment ago; nothing is looked up.
    #[must_use]
    pub fn is_known(&self, bearer: &str) -> bool {
        let Some(shown) = Shown::read(bearer) else { return false };
        let (known, now) = (self.remembered(&shown.id), self.engine.now());
        opens(
            known.as_deref().map(|known| &known.found),
            &self.engine.keyring().verifier(&shown),
            now,
        )
    }
}

/// What no secret is recognised by.
const NOTHING: Verifier = Verifier([0; 32]);

/// Whether a secret opens a key now. Both secrets of a key are always compared.
pub(super) fn opens(found: Option<&KeyFound>, shown: &Verifier, now: Timestamp) -> bool {
    let credential = found.map(|found| &found.credential);
    let verifiers = credential.and_then(|there| there.verifiers.as_ref());
    let current = verifiers.map_or(&NOTHING, |own| &own.current);
    let former = verifiers.and_then(|own| own.former.as_ref()).map_or(&NOTHING, |own| &own.0);
    let same = shown.0.ct_eq(&current.0) | shown.0.ct_eq(&former.0);
    bool::from(same) && credential.is_some_and(|there| there.opened_until(shown, now).is_some())
}

/// Keys that were looked up a moment ago.
#[derive(Default)]
pub(super) struct Cache {
    rows: HashMap<KeyId, Row>,
    /// Counts the times that something was forgotten: what was read before may be old.
    generation: u64,
    uses: BTreeMap<KeyId, Timestamp>,
}

impl Cache {
    /// A key that is still believed, and the generation for whoever has to read it.
    pub(super) fn get(&self, id: &KeyId, now: Timestamp) -> (Option<Arc<Known>>, u64) {
        let row = self.rows.get(id).filter(|row| now.since(row.read_at) < FRESH);
        (row.map(|row| Arc::clone(&row.known)), self.generation)
    }

    /// Keeps what was read, unless something was forgotten meanwhile; tells whether it did.
    pub(super) fn put(
        &mut self,
        id: &KeyId,
        known: Option<&Arc<Known>>,
        (read_at, generation): (Timestamp, u64),
    ) -> bool {
        if generation != self.generation {
            return false;
        }
        let Some(known) = known else {
            self.rows.remove(id);
            return true;
        };
        if self.rows.len() >= KEPT_MAX && !self.rows.contains_key(id) {
            let oldest = self.rows.iter().min_by_key(|(id, row)| (row.read_at, *id));
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.rows.remove(&oldest);
            }
        }
        let noted_at = known.found.used_at;
        self.rows.insert(id.clone(), Row { known: Arc::clone(known), read_at, noted_at });
        true
    }

    /// Forgets the keys of a tenant: one of them was changed, and perhaps others with it.
    pub(super) fn forget(&mut self, tenant: &TenantId) {
        self.generation += 1;
        self.rows.retain(|_, row| row.known.found.tenant != *tenant);
    }

    /// Remembers that a key was used, if that is to be noted again.
    pub(super) fn used(&mut self, id: &KeyId, now: Timestamp) {
        let Some(row) = self.rows.get_mut(id) else { return };
        let due = row.noted_at.is_none_or(|noted_at| now.since(noted_at) >= NOTE_EVERY);
        if due && (self.uses.len() < USES_MAX || self.uses.contains_key(id)) {
            row.noted_at = Some(now);
            self.uses.insert(id.clone(), now);
        }
    }

    /// Takes the uses that are to be noted.
    pub(super) fn take_uses(&mut self) -> Vec<(KeyId, Timestamp)> {
        std::mem::take(&mut self.uses).into_iter().collect()
    }
}
