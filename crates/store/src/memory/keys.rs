//! Keys in the model.

use std::collections::BTreeMap;

use baton_domain::ids::TenantId;
use baton_domain::key::{Credential, KeyCommand, KeyId, KeyScene, admit_tenant, decide_key};
use baton_domain::project::RecordEvent;
use baton_domain::time::Timestamp;

use super::State;
use super::tenant::Tenant;
use super::turn::Turn;
use crate::Error;
use crate::keys::{KeyFound, KeyRow, USES_MAX};
use crate::order::Order;
use crate::read::{About, Happened, PAGE_MAX, Page};

/// A key with what opens it, and when it was last used.
pub(super) struct KeptKey {
    credential: Credential,
    used_at: Option<Timestamp>,
}

/// The keys of a tenant.
pub(super) type Keys = BTreeMap<KeyId, KeptKey>;

impl Turn<'_> {
    /// Carries out a key command; tells the position of its entry, if there is one.
    pub(super) fn on_key(
        &mut self,
        order: &Order,
        command: &KeyCommand,
    ) -> Result<Option<u64>, Error> {
        let scene = self.key_scene(&order.tenant, command);
        let ruling = decide_key(&scene, command, self.now)?;
        if ruling.events.is_empty() {
            return Ok(None);
        }
        self.admit(&order.tenant)?;
        let now = self.now;
        let own = self.tenant(&order.tenant);
        for credential in ruling.written {
            let id = credential.key.id.clone();
            let used_at = own.keys.get(&id).and_then(|before| before.used_at);
            own.keys.insert(id, KeptKey { credential, used_at });
        }
        ruling.forgotten.iter().for_each(|id| drop(own.keys.remove(id)));
        own.records_version += 1;
        let about = About::Records(own.records_version);
        let events = ruling.events.into_iter().map(RecordEvent::Key).collect();
        let position = own.record(&order.actor, now, about, Happened::ToRecord(events));
        self.state.committed_at = Some(now);
        Ok(Some(position))
    }

    /// A tenant that is known is admitted; for another there must be room.
    pub(super) fn admit(&self, tenant: &TenantId) -> Result<(), Error> {
        if !self.state.tenants.contains_key(tenant) {
            admit_tenant(self.state.tenants.len())?;
        }
        Ok(())
    }

    fn key_scene(&self, tenant: &TenantId, command: &KeyCommand) -> KeyScene {
        let kept = self.state.tenants.get(tenant).map(|own| own.keys.iter());
        let keys = kept.into_iter().flatten();
        let taken = match command {
            KeyCommand::Create(new) => {
                let others = self.state.tenants.iter().filter(|(name, _)| *name != tenant);
                others.into_iter().any(|(_, other)| other.keys.contains_key(&new.id))
            }
            KeyCommand::Rotate { .. } | KeyCommand::Revoke { .. } => false,
        };
        KeyScene {
            keys: keys.map(|(id, kept)| (id.clone(), kept.credential.clone())).collect(),
            taken,
        }
    }
}

impl State {
    pub(super) fn key(&self, id: &KeyId) -> Option<KeyFound> {
        self.tenants.iter().find_map(|(tenant, own)| {
            let KeptKey { credential, used_at } = own.keys.get(id)?;
            let (tenant, credential) = (tenant.clone(), credential.clone());
            Some(KeyFound { tenant, credential, used_at: *used_at })
        })
    }

    pub(super) fn touch_keys(&mut self, uses: &[(KeyId, Timestamp)]) {
        for (id, at) in uses.iter().take(USES_MAX) {
            let kept = self.tenants.values_mut().find_map(|own| own.keys.get_mut(id));
            if let Some(kept) = kept {
                kept.used_at = kept.used_at.max(Some(*at));
            }
        }
    }
}

impl Tenant {
    pub(super) fn key_page(&self, after: Option<&KeyId>, count_max: usize) -> Page<KeyRow> {
        let wanted = self.keys.iter().filter(|(id, _)| after.is_none_or(|after| *id > after));
        let row =
            |kept: &KeptKey| KeyRow { key: kept.credential.key.clone(), used_at: kept.used_at };
        let count_max = count_max.clamp(1, PAGE_MAX);
        let mut rows: Vec<_> = wanted.map(|(_, kept)| row(kept)).take(count_max + 1).collect();
        let more = rows.len() > count_max;
        rows.truncate(count_max);
        Page { rows, more, as_of: self.head() }
    }
}
