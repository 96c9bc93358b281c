//! The rules of keys. A key never reaches further than the one that made it: not in what it may do,
//! not in time, and not in kind.

use super::{
    Credential, Key, KeyCommand, KeyEvent, KeyId, KeyRuling, KeyScene, Kind, NewKey, Revoked,
    Verifier, Verifiers,
};
use crate::limits::{
    DEAD_KEYS_MAX, KEY_LIFETIME_MAX, KEY_OVERLAP_MAX, KEYS_MAX, SCOPES_MAX, TENANTS_MAX,
};
use crate::refusal::Refusal;
use crate::text::Reason;
use crate::time::{Millis, Timestamp};

/// The name under which Baton itself acts; nobody gets a key for it.
const SYSTEM: &str = "baton";

/// Decides a key command.
pub fn decide_key(
    scene: &KeyScene,
    command: &KeyCommand,
    now: Timestamp,
) -> Result<KeyRuling, Refusal> {
    match command {
        KeyCommand::Create(new) => create(scene, new, now),
        KeyCommand::Rotate { key, by, verifier, overlap } => {
            rotate(scene, (key, by.as_ref()), *verifier, *overlap, now)
        }
        KeyCommand::Revoke { key, by, reason } => revoke(scene, (key, by.as_ref()), reason, now),
    }
}

/// Whether a store that knows so many tenants may come to know one more.
pub fn admit_tenant(known: usize) -> Result<(), Refusal> {
    if known < TENANTS_MAX {
        return Ok(());
    }
    Err(Refusal::LimitReached { what: "tenants", count_max: TENANTS_MAX })
}

fn create(scene: &KeyScene, new: &NewKey, now: Timestamp) -> Result<KeyRuling, Refusal> {
    new.check(now)?;
    if scene.keys.get(&new.id).is_some_and(|there| there.is(new)) {
        return Ok(KeyRuling::default());
    }
    if scene.taken || scene.keys.contains_key(&new.id) {
        return Err(invalid("key", "is in use"));
    }
    if let Some(by) = asker(scene, new.by.as_ref(), now)? {
        within(by, new)?;
    }
    let live = || scene.keys.values().map(|there| &there.key).filter(|key| key.is_live(now));
    if new.first && live().next().is_some() {
        return Err(invalid("tenant", "has a live key already: make others with that"));
    }
    if live().any(|key| key.name == new.name) {
        return Err(Refusal::NameTaken { name: new.name.to_string() });
    }
    let same = |there: &&Credential| there.key.principal == new.principal;
    if scene.keys.values().filter(same).any(|there| there.key.kind != new.kind) {
        return Err(invalid("kind", "must be the one that this principal has already"));
    }
    if live().count() >= KEYS_MAX {
        return Err(Refusal::LimitReached { what: "keys", count_max: KEYS_MAX });
    }
    let key = new.born(now);
    let verifiers = Some(Verifiers { current: new.verifier, former: None });
    Ok(KeyRuling {
        events: vec![KeyEvent::KeyCreated { key: key.clone() }],
        written: vec![Credential { key, verifiers }],
        forgotten: outlived(scene, now),
    })
}

fn rotate(
    scene: &KeyScene,
    (key, by): (&KeyId, Option<&KeyId>),
    verifier: Verifier,
    overlap: Millis,
    now: Timestamp,
) -> Result<KeyRuling, Refusal> {
    if overlap > KEY_OVERLAP_MAX {
        return Err(invalid("overlap", "must be at most 7 days"));
    }
    let by = asker(scene, by, now)?;
    let there = scene.keys.get(key).ok_or(Refusal::NotFound)?;
    if let Some(by) = by {
        outranks(by, &there.key)?;
        // Whoever is given the secret may use it as long as the key lives.
        if there.key.expires_at > by.expires_at {
            return Err(Refusal::BeyondKey { why: "it lives longer".into() });
        }
    }
    let verifiers = there.verifiers.as_ref().filter(|_| there.key.is_live(now));
    let before = verifiers.ok_or(Refusal::KeyEnded)?.current;
    if before == verifier {
        return Ok(KeyRuling::default());
    }
    let former_until = (overlap > Millis(0)).then(|| now + overlap);
    let former = former_until.map(|until| (before, until));
    let verifiers = Some(Verifiers { current: verifier, former });
    Ok(KeyRuling {
        events: vec![KeyEvent::KeyRotated { key: key.clone(), former_until }],
        written: vec![Credential { key: there.key.clone(), verifiers }],
        forgotten: vec![],
    })
}

/// What a key made is no better than the key: it is revoked with it.
fn revoke(
    scene: &KeyScene,
    (key, by): (&KeyId, Option<&KeyId>),
    reason: &Reason,
    now: Timestamp,
) -> Result<KeyRuling, Refusal> {
    let by = asker(scene, by, now)?;
    let there = scene.keys.get(key).ok_or(Refusal::NotFound)?;
    if let Some(by) = by {
        outranks(by, &there.key)?;
    }
    if !there.key.is_live(now) {
        return Ok(KeyRuling::default());
    }
    let keys = descent(scene, key, now);
    let end = |id: &KeyId| {
        let mut key = scene.keys.get(id)?.key.clone();
        key.revoked = Some(Revoked { at: now, reason: reason.clone() });
        Some(Credential { key, verifiers: None })
    };
    let written = keys.iter().filter_map(end).collect();
    let events = vec![KeyEvent::KeyRevoked { keys, reason: reason.clone() }];
    Ok(KeyRuling { events, written, forgotten: vec![] })
}

/// The key that the caller showed, if it still opens anything.
fn asker<'a>(
    scene: &'a KeyScene,
    by: Option<&KeyId>,
    now: Timestamp,
) -> Result<Option<&'a Key>, Refusal> {
    let Some(by) = by else { return Ok(None) };
    let found = scene.keys.get(by).map(|there| &there.key).filter(|key| key.is_live(now));
    found.map(Some).ok_or(Refusal::KeyEnded)
}

/// Whether a key may make this one.
fn within(by: &Key, new: &NewKey) -> Result<(), Refusal> {
    let beyond = |why: String| Err(Refusal::BeyondKey { why });
    if let Some(scope) = new.scopes.difference(&by.scopes).next() {
        return beyond(format!("it does not have {scope}"));
    }
    if new.expires_at > by.expires_at {
        return beyond("it expires earlier".into());
    }
    if !by.kind.may_make(new.kind) {
        return beyond("its owner is not of a kind that may make such a key".into());
    }
    Ok(())
}

/// Whether a key may change that one: itself always, others if it reaches at least as far.
fn outranks(by: &Key, other: &Key) -> Result<(), Refusal> {
    let reaches = other.scopes.is_subset(&by.scopes) && by.kind.may_make(other.kind);
    if by.id == other.id || reaches {
        return Ok(());
    }
    Err(Refusal::BeyondKey { why: "the other key reaches further".into() })
}

/// A key and every live one that was made with it, directly or through others.
fn descent(scene: &KeyScene, root: &KeyId, now: Timestamp) -> Vec<KeyId> {
    let live = |there: &&Credential| there.key.is_live(now);
    let mut found = vec![root.clone()];
    let mut at = 0;
    while let Some(parent) = found.get(at).cloned() {
        let made = |there: &&Credential| there.key.parent.as_ref() == Some(&parent);
        let children = scene.keys.values().filter(live).filter(made);
        found.extend(children.map(|child| child.key.id.clone()));
        at += 1;
    }
    found
}

/// The dead keys beyond the bound, those that ended first.
fn outlived(scene: &KeyScene, now: Timestamp) -> Vec<KeyId> {
    let ended_at = |key: &Key| key.revoked.as_ref().map_or(key.expires_at, |end| end.at);
    let keys = scene.keys.values().map(|there| &there.key).filter(|key| !key.is_live(now));
    let mut dead: Vec<_> = keys.map(|key| (ended_at(key), key.id.clone())).collect();
    dead.sort();
    dead.truncate(dead.len().saturating_sub(DEAD_KEYS_MAX));
    dead.into_iter().map(|(_, id)| id).collect()
}

impl NewKey {
    fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.kind == Kind::System || self.principal.as_str() == SYSTEM {
            return Err(invalid("principal", "must not be Baton itself"));
        }
        if self.scopes.is_empty() {
            return Err(invalid("scopes", "must name at least one"));
        }
        if self.scopes.len() > SCOPES_MAX {
            return Err(Refusal::too_many("scopes", SCOPES_MAX));
        }
        if self.expires_at <= now || self.expires_at > now + KEY_LIFETIME_MAX {
            return Err(invalid("expires_at", "must be ahead, by at most 366 days"));
        }
        Ok(())
    }

    /// The key that it becomes.
    #[must_use]
    pub fn born(&self, now: Timestamp) -> Key {
        Key {
            id: self.id.clone(),
            name: self.name.clone(),
            principal: self.principal.clone(),
            kind: self.kind,
            scopes: self.scopes.clone(),
            parent: self.by.clone(),
            created_at: now,
            expires_at: self.expires_at,
            revoked: None,
        }
    }
}

impl Credential {
    /// Whether it is what was asked for, so that asking again changes nothing.
    fn is(&self, new: &NewKey) -> bool {
        self.key == new.born(self.key.created_at)
            && self.verifiers.as_ref().is_some_and(|own| own.current == new.verifier)
    }
}

fn invalid(field: &str, rule: &str) -> Refusal {
    Refusal::Invalid { field: field.into(), rule: rule.into() }
}
