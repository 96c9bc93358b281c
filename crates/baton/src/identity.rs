//! Who calls: from a key that somebody shows to a caller with scopes, and what becomes of keys.
//!
//! The answer to a key that is wrong in any way is one and the same, and takes the same work: an id
//! that nobody has is compared, too, with something that nothing opens.

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_domain::Refusal;
use baton_domain::ids::{KeyName, PrincipalId, TenantId};
use baton_domain::key::{KeyCommand, KeyId, Kind, NewKey, Verifier};
use baton_domain::limits::KEY_LIFETIME_MAX;
use baton_domain::scope::{Level, Scope};
use baton_domain::text::{Reason, Text};
use baton_domain::time::{Millis, Timestamp};
use baton_store::{Actor, Aim, Committed, Error, KeyFound, KeyRow, Order, Page, Request, Tenants};
use tokio::sync::watch;

use crate::chance::Chance;
use crate::engine::Engine;
use crate::tokens::KeyToken;
use crate::tokens::key::{Shown, mint_id};
use cache::{Cache, Known, opens};
use watched::Watched;

pub use force::{ForceGuard, RateLimited};
pub use scopes::{Preset, grant};

mod cache;
mod ending;
mod force;
mod scopes;
mod watched;

/// How long a key lives if nobody says.
pub const LIFETIME: Millis = Millis::hours(24 * 90);
/// How long the secret before opens a key after an exchange, if nobody says.
pub const OVERLAP: Millis = Millis::hours(24);

/// What the operator may do.
const TENANTS: Scope = Scope::of("tenant", Level::Admin);
/// How often a key is read again because keys changed while it was read.
const READS_MAX: usize = 3;

/// Somebody who has proved who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it may see.
    pub tenant: TenantId,
    /// Who.
    pub principal: PrincipalId,
    /// What sort of caller.
    pub kind: Kind,
    /// What it may do.
    pub scopes: Arc<BTreeSet<Scope>>,
    /// The key that it showed.
    pub key: Option<KeyId>,
    /// Which of the secrets of the key.
    shown: Option<Verifier>,
}

/// Why nobody is known to be calling.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The key is not valid. There is one such answer, whatever is wrong with it.
    #[error("the key is not valid")]
    Unauthenticated,
    /// Whether it is valid cannot be told just now.
    #[error("keys cannot be checked just now")]
    Unavailable(#[source] Error),
}

/// A key that somebody wants.
#[derive(Clone, Debug)]
pub struct KeyWish {
    /// What people call it.
    pub name: KeyName,
    /// Who will call with it.
    pub principal: PrincipalId,
    /// What sort of caller that is.
    pub kind: Kind,
    /// Scopes and presets by name.
    pub scopes: Vec<String>,
    /// How long it should live; if nobody says, 90 days, or as long as the key it is made with.
    pub lifetime: Option<Millis>,
}

/// By which way something is asked, and so that it is done once.
#[derive(Clone, Debug)]
pub struct How {
    /// By which way: cli, rest, mcp.
    pub origin: Text<64>,
    /// What ties it to other records of the same request.
    pub trace: Option<Text<64>>,
    /// So that a repeated request is carried out once.
    pub request: Option<Request>,
}

/// A key that has a new secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The key.
    pub row: KeyRow,
    /// The key as text, this once; none if the request was a repeated one, for it was told before.
    pub token: Option<KeyToken>,
}

/// Knows callers by their keys.
pub struct Identity {
    engine: Arc<Engine>,
    chance: Arc<dyn Chance>,
    known: &'static [Scope],
    cache: Mutex<Cache>,
    forces: ForceGuard,
    watched: Watched,
    /// Counts changes of keys. A wake-up carries no data: whoever is woken looks for itself.
    changes: watch::Sender<u64>,
}

impl Identity {
    /// `known` are all scopes that any operation asks for.
    #[must_use]
    pub fn new(engine: Arc<Engine>, chance: Arc<dyn Chance>, known: &'static [Scope]) -> Self {
        let (cache, changes) = (Mutex::default(), watch::Sender::new(0));
        let (forces, watched) = (ForceGuard::default(), Watched::default());
        Self { engine, chance, known, cache, forces, watched, changes }
    }

    /// The engine that keeps the keys, and everything else.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// How often callers forced something.
    #[must_use]
    pub fn forces(&self) -> &ForceGuard {
        &self.forces
    }

    /// Whoever holds this key. Every refusal costs the same, whatever is wrong: one digest, one look
    /// at what is remembered, one look into the store, and nothing is kept of it.
    pub async fn authenticate(&self, bearer: &str) -> Result<Caller, Denied> {
        let shown = Shown::read(bearer).ok_or(Denied::Unauthenticated)?;
        let verifier = self.engine.keyring().verifier(&shown);
        let now = self.engine.now();
        let is_opened = |found: &Option<&KeyFound>| opens(*found, &verifier, now);
        let mut known = self.remembered(&shown.id);
        if !is_opened(&known.as_deref().map(|known| &known.found)) {
            let read = self.read(&shown.id, is_opened).await;
            known = read.map_err(Denied::Unavailable)?;
        }
        let known = known.ok_or(Denied::Unauthenticated)?;
        self.lock().used(&shown.id, now);
        let key = &known.found.credential.key;
        Ok(Caller {
            tenant: known.found.tenant.clone(),
            principal: key.principal.clone(),
            kind: key.kind,
            scopes: Arc::clone(&known.scopes),
            key: Some(shown.id),
            shown: Some(verifier),
        })
    }

    /// Whoever calls over the local socket as the user that runs the server: the operator.
    #[must_use]
    pub fn local_owner(&self) -> Caller {
        Caller::keyless(local(), owner(), Kind::Person, Preset::All.expand(self.known))
    }

    /// The agent of a supervised attempt, whom its claim token vouches for.
    #[must_use]
    pub fn agent_of(&self, tenant: TenantId) -> Caller {
        let name = PrincipalId::new("agent").expect("a plain word is a name");
        Caller::keyless(tenant, name, Kind::Agent, Preset::Agent.expand(self.known))
    }

    /// Resolves once the caller is one no longer: its key was revoked or has expired, or the secret
    /// that it showed was exchanged. Streams and waiting claims end then. Without a key, never.
    pub fn watch(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (this, proof) = (Arc::clone(self), caller.key.clone().zip(caller.shown));
        async move {
            match proof {
                Some((id, shown)) => watched::is_over(this, id, shown).await,
                None => pending().await,
            }
        }
    }

    /// Makes a key that reaches no further than the caller.
    pub async fn create(&self, by: &Caller, how: How, wish: KeyWish) -> Result<Made, Error> {
        let scopes = grant(&wish.scopes, self.known)?;
        let parent = authority(by)?;
        if parent.is_none() && !scopes.is_subset(&by.scopes) {
            let why = "the caller does not have all of these scopes".into();
            return Err(Refusal::BeyondKey { why }.into());
        }
        if is_local_owner(&by.tenant, &wish.principal) && wish.kind != Kind::Person {
            return Err(invalid(
                "kind",
                "must be person for the caller itself; for an agent, name it as `principal`",
            ));
        }
        // The rule is the domain's; a caller is told of it by the name of what it gave.
        if wish.lifetime.is_some_and(|it| it == Millis(0) || it > KEY_LIFETIME_MAX) {
            return Err(invalid("lifetime", "must be more than nothing, and at most 366 days"));
        }
        let expires_at = match (wish.lifetime, &parent) {
            (Some(lifetime), _) => self.engine.now() + lifetime,
            (None, None) => self.engine.now() + LIFETIME,
            (None, Some(parent)) => {
                let parent = self.look_up(parent).await?.ok_or(Refusal::KeyEnded)?;
                (self.engine.now() + LIFETIME).min(parent.found.credential.key.expires_at)
            }
        };
        let new = Draft { wish, scopes, by: parent, expires_at, first: false };
        self.make(&by.tenant, by, how, new).await
    }

    /// Lets a new tenant in, or one whose keys have all ended: makes a key of its owner that may do
    /// everything. Only the operator may.
    pub async fn found(&self, by: &Caller, tenant: &TenantId, how: How) -> Result<Made, Error> {
        operates(by)?;
        let wish = KeyWish {
            name: KeyName::new("owner")?,
            principal: owner(),
            kind: Kind::Person,
            scopes: vec![],
            lifetime: None,
        };
        let (scopes, expires_at) = (Preset::All.expand(self.known), self.engine.now() + LIFETIME);
        self.make(tenant, by, how, Draft { wish, scopes, by: None, expires_at, first: true }).await
    }

    /// The tenants after this one. Only the operator sees them.
    pub async fn tenants(
        &self,
        by: &Caller,
        after: Option<TenantId>,
        count_max: usize,
    ) -> Result<Tenants, Error> {
        operates(by)?;
        self.engine.tenants(after, count_max).await
    }

    /// Exchanges the secret of a key; the one before opens it for a while yet.
    pub async fn rotate(
        self: &Arc<Self>,
        by: &Caller,
        how: How,
        key: &KeyId,
        overlap: Option<Millis>,
    ) -> Result<Made, Error> {
        let parent = authority(by)?;
        let found = self.engine.key(key).await?.filter(|found| found.tenant == by.tenant);
        let row = found.ok_or(Refusal::NotFound)?.row();
        let (token, verifier) = self.mint(key);
        let overlap = overlap.unwrap_or(OVERLAP);
        let rotate = KeyCommand::Rotate { key: key.clone(), by: parent, verifier, overlap };
        let committed = self.change(order(&by.tenant, by, how, rotate)).await?;
        Ok(Made { row, token: (!committed.replayed).then_some(token) })
    }

    /// Revokes a key and all that were made with it. Streams of their callers end.
    pub async fn revoke(
        self: &Arc<Self>,
        by: &Caller,
        how: How,
        key: &KeyId,
        reason: Reason,
    ) -> Result<Committed, Error> {
        let revoke = KeyCommand::Revoke { key: key.clone(), by: authority(by)?, reason };
        self.change(order(&by.tenant, by, how, revoke)).await
    }

    /// The keys of the caller's tenant after this one.
    pub async fn list(
        &self,
        by: &Caller,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Result<Page<KeyRow>, Error> {
        self.engine.keys(&by.tenant, after, count_max).await
    }

    /// Has the uses since the last time noted, all in one; to be called now and then. What could not
    /// be noted is noted when the key is used again.
    pub async fn note_uses(&self) -> Result<usize, Error> {
        let uses = self.lock().take_uses();
        let count = uses.len();
        if count > 0 {
            self.engine.touch_keys(uses).await?;
        }
        Ok(count)
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self, id: &KeyId) -> Result<Option<Arc<Known>>, Error> {
        match self.remembered(id) {
            Some(known) => Ok(Some(known)),
            None => self.read(id, |_| true).await,
        }
    }

    fn remembered(&self, id: &KeyId) -> Option<Arc<Known>> {
        self.lock().get(id, self.engine.now()).0
    }

    /// Reads a key from the store, and remembers it if it is what was hoped for.
    async fn read(
        &self,
        id: &KeyId,
        is_hoped_for: impl Fn(&Option<&KeyFound>) -> bool,
    ) -> Result<Option<Arc<Known>>, Error> {
        let mut known = None;
        for _ in 0..READS_MAX {
            let now = self.engine.now();
            let (_, generation) = self.lock().get(id, now);
            let found = self.engine.key(id).await?;
            if !is_hoped_for(&found.as_ref()) {
                return Ok(None);
            }
            known = found.map(|found| {
                let scopes = Arc::new(found.credential.key.scopes.clone());
                Arc::new(Known { found, scopes })
            });
            if self.lock().put(id, known.as_ref(), (now, generation)) {
                break;
            }
        }
        Ok(known)
    }

    fn mint(&self, id: &KeyId) -> (KeyToken, Verifier) {
        let token = KeyToken::mint(id, self.chance.as_ref());
        let shown = Shown::read(token.reveal()).expect("our own key is well-formed");
        let verifier = self.engine.keyring().verifier(&shown);
        (token, verifier)
    }

    async fn make(
        &self,
        tenant: &TenantId,
        by: &Caller,
        how: How,
        draft: Draft,
    ) -> Result<Made, Error> {
        let id = match &how.request {
            None => mint_id(self.chance.as_ref()),
            Some(request) => {
                self.engine.keyring().key_id(tenant, &by.principal, request.key.as_str())
            }
        };
        let (token, verifier) = self.mint(&id);
        let new = draft.named(id.clone(), verifier);
        let create = KeyCommand::Create(Box::new(new.clone()));
        let committed = self.engine.submit(order(tenant, by, how, create)).await?;
        if committed.replayed {
            let found = self.engine.key(&id).await?.ok_or(Refusal::NotFound)?;
            return Ok(Made { row: found.row(), token: None });
        }
        let row = KeyRow { key: new.born(committed.at), used_at: None };
        Ok(Made { row, token: Some(token) })
    }

    /// Changes keys that others may have shown: they are forgotten here, and who watches looks again.
    /// This happens even if the caller goes away meanwhile.
    async fn change(self: &Arc<Self>, order: Order) -> Result<Committed, Error> {
        let this = Arc::clone(self);
        let changing = tokio::spawn(async move {
            let tenant = order.tenant.clone();
            let answer = this.engine.submit(order).await;
            // A failed answer does not say that nothing happened.
            this.lock().forget(&tenant);
            this.changes.send_modify(|count| *count += 1);
            answer
        });
        changing.await.unwrap_or_else(|broken| Err(Error::Unknown(broken.to_string())))
    }
}

/// A key that is to be, but for its name and secret.
struct Draft {
    wish: KeyWish,
    scopes: BTreeSet<Scope>,
    by: Option<KeyId>,
    expires_at: Timestamp,
    first: bool,
}

impl Draft {
    fn named(self, id: KeyId, verifier: Verifier) -> NewKey {
        let Self { wish, scopes, by, expires_at, first } = self;
        let KeyWish { name, principal, kind, .. } = wish;
        NewKey { id, name, principal, kind, scopes, by, expires_at, verifier, first }
    }
}

/// The key that a caller acts with; none for the operator. Anybody else has no say about keys.
fn authority(by: &Caller) -> Result<Option<KeyId>, Error> {
    match (&by.key, by.kind) {
        (Some(key), _) => Ok(Some(key.clone())),
        (None, Kind::Person) if is_local_owner(&by.tenant, &by.principal) => Ok(None),
        (None, Kind::Person | Kind::Agent | Kind::Worker | Kind::Bot | Kind::System) => {
            Err(Refusal::BeyondKey { why: "the caller has no key".into() }.into())
        }
    }
}

/// Whether somebody is the operator: a person of the local tenant who may administer tenants, over
/// the socket or with a key.
fn operates(by: &Caller) -> Result<(), Error> {
    let keyless = authority(by)?.is_none();
    if keyless || (by.tenant == local() && by.kind == Kind::Person && by.may(&TENANTS)) {
        return Ok(());
    }
    let why = "only a person of the local tenant with the scope tenant:admin sees to tenants";
    Err(Refusal::BeyondKey { why: why.into() }.into())
}

fn order(tenant: &TenantId, by: &Caller, how: How, command: KeyCommand) -> Order {
    let How { origin, trace, request } = how;
    let asked_in = (by.tenant != *tenant).then(|| by.tenant.clone());
    let request = request.map(|request| Request { asked_in, ..request });
    let actor = by.actor(origin, trace);
    Order { tenant: tenant.clone(), actor, aim: Aim::Key(command), request }
}

fn is_local_owner(tenant: &TenantId, principal: &PrincipalId) -> bool {
    *tenant == local() && *principal == owner()
}

/// The tenant of whoever runs the server.
#[must_use]
pub fn local() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

fn owner() -> PrincipalId {
    PrincipalId::new("owner").expect("a plain word is a name")
}

fn invalid(field: &str, rule: &str) -> Error {
    Refusal::Invalid { field: field.into(), rule: rule.into() }.into()
}

impl Caller {
    /// Somebody whom something else than a key vouches for: the local socket, or the tree of an
    /// attempt.
    #[must_use]
    pub fn keyless(
        tenant: TenantId,
        principal: PrincipalId,
        kind: Kind,
        scopes: BTreeSet<Scope>,
    ) -> Self {
        Self { tenant, principal, kind, scopes: Arc::new(scopes), key: None, shown: None }
    }

    /// Whether it may do what asks for this scope.
    #[must_use]
    pub fn may(&self, scope: &Scope) -> bool {
        self.scopes.contains(scope)
    }

    /// How it stands in an entry.
    #[must_use]
    pub fn actor(&self, origin: Text<64>, trace: Option<Text<64>>) -> Actor {
        Actor { principal: self.principal.clone(), kind: self.kind, origin, trace }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map_or("no key", KeyId::as_str);
        write!(f, "Caller({} {} {:?} {key})", self.tenant, self.principal, self.kind)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("scopes", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
