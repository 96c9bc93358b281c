use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::ids::{KeyName, TenantId};
use baton_domain::key::{KeyId, Kind};
use baton_domain::scope::{Level, Scope};
use baton_domain::time::Millis;
use baton_store::{Error, Request};

use super::{Caller, Denied, How, Identity, KeyToken, KeyWish, LIFETIME, Made, mint_id};
use crate::chance::SeededChance;
use crate::engine::tests::world::{World, name, tenant, text};

mod caching;
mod forcing;
mod keeping;
mod scoping;
mod timing;
mod watching;

/// Every scope there is, in this small world.
static KNOWN: &[Scope] = &[
    Scope::of("audit", Level::Read),
    Scope::of("blob", Level::Read),
    Scope::of("blob", Level::Write),
    Scope::of("key", Level::Read),
    Scope::of("key", Level::Admin),
    Scope::of("project", Level::Admin),
    Scope::of("run", Level::Force),
    Scope::of("run", Level::Work),
    Scope::of("task", Level::Read),
    Scope::of("task", Level::Write),
    Scope::of("worker", Level::Work),
];

/// A server with its keys.
struct Server {
    world: World,
    identity: Arc<Identity>,
}

impl Server {
    async fn new() -> Self {
        let world = World::new().await;
        let identity = Self::beside(&world, 5);
        Self { world, identity }
    }

    /// Another server on the same store.
    fn beside(world: &World, seed: u64) -> Arc<Identity> {
        let chance = Arc::new(SeededChance::new(seed));
        Arc::new(Identity::new(Arc::clone(&world.engine), chance, KNOWN))
    }

    async fn make(&self, by: &Caller, wish: KeyWish) -> Result<Made, Error> {
        self.identity.create(by, how(), wish).await
    }

    /// A key that the operator makes, as text.
    async fn key(&self, word: &str, scopes: &[&str]) -> String {
        let made = self.make(&self.identity.local_owner(), wish(word, scopes)).await;
        token(&made.expect("the operator may"))
    }

    async fn who(&self, token: &str) -> Caller {
        self.identity.authenticate(token).await.expect("it is valid")
    }

    async fn is_known(&self, token: &str) -> bool {
        match self.identity.authenticate(token).await {
            Ok(_) => true,
            Err(Denied::Unauthenticated) => false,
            Err(Denied::Unavailable(error)) => panic!("the store failed: {error}"),
        }
    }

    async fn revoke(&self, by: &Caller, token: &str) -> Result<(), Error> {
        let revoked = self.identity.revoke(by, how(), &id(token), text("it leaked")).await;
        revoked.map(drop)
    }
}

fn how() -> How {
    How { origin: text("rest"), trace: None, request: None }
}

fn asked(key: &str) -> How {
    let request = Request { key: text(key), fingerprint: [1; 32], asked_in: None };
    How { request: Some(request), ..how() }
}

fn wish(word: &str, scopes: &[&str]) -> KeyWish {
    KeyWish {
        name: KeyName::new(word).expect("a plain word is a name"),
        principal: name(word),
        kind: Kind::Person,
        scopes: scopes.iter().map(|word| (*word).to_owned()).collect(),
        lifetime: None,
    }
}

fn token(made: &Made) -> String {
    made.token.as_ref().expect("it is told this once").reveal().into()
}

fn id(token: &str) -> KeyId {
    KeyId::new(&token[7..19]).expect("the id stands first")
}

fn code(answer: Result<impl Sized, Error>) -> String {
    match answer {
        Ok(_) => "ok".into(),
        Err(Error::Refused(refusal)) => refusal.code().into(),
        Err(error) => panic!("the store failed: {error}"),
    }
}

#[tokio::test]
async fn a_key_tells_whose_it_is_and_what_it_may_do() {
    let server = Server::new().await;
    let key = server.key("ann", &["run:work", "task:read"]).await;
    let ann = server.who(&key).await;
    assert_eq!((&ann.tenant, &ann.principal, ann.kind), (&tenant(), &name("ann"), Kind::Person));
    assert_eq!(ann.key, Some(id(&key)));
    assert!(ann.may(&Scope::of("run", Level::Work)) && ann.may(&Scope::of("task", Level::Read)));
    assert!(!ann.may(&Scope::of("task", Level::Write)), "one level holds no other");
    let actor = ann.actor(text("rest"), None);
    assert_eq!((actor.principal, actor.kind), (name("ann"), Kind::Person));
}

#[tokio::test]
async fn whatever_is_wrong_with_a_key_the_answer_is_the_same() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let revoked = server.key("revoked", &["all"]).await;
    server.revoke(&owner, &revoked).await.expect("the operator may");
    let brief = KeyWish { lifetime: Some(Millis(1)), ..wish("brief", &["all"]) };
    let expired = token(&server.make(&owner, brief).await.expect("the operator may"));
    server.world.clock.advance(Millis(1));
    let good = server.key("good", &["all"]).await;
    let exchanged = server.identity.rotate(&owner, how(), &id(&good), Some(Millis(0))).await;
    let live = token(&exchanged.expect("the operator may"));
    assert!(server.is_known(&live).await);
    let chance = SeededChance::new(99);
    let guessed = KeyToken::mint(&id(&live), &chance).reveal().to_owned();
    let unknown = KeyToken::mint(&mint_id(&chance), &chance).reveal().to_owned();
    let torn = live.replacen('_', "-", 1);
    let wrongs = [&revoked, &expired, &good, &guessed, &unknown, &torn].map(String::as_str);
    for wrong in ["", "batonk_", "Bearer x"].into_iter().chain(wrongs) {
        let denied = server.identity.authenticate(wrong).await.expect_err("it is wrong");
        assert!(matches!(denied, Denied::Unauthenticated), "{wrong}");
        assert_eq!(format!("{denied} {denied:?}"), "the key is not valid Unauthenticated");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_not_a_wrong_key() {
    let server = Server::new().await;
    let key = server.key("ann", &["all"]).await;
    server.world.flaws.refuse(1);
    let denied = server.identity.authenticate(&key).await.expect_err("the store refuses");
    assert!(matches!(denied, Denied::Unavailable(Error::Overloaded)), "{denied:?}");
    assert!(server.is_known(&key).await);
}

#[tokio::test]
async fn a_refused_key_names_the_argument_that_helps() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let helps = |refused: Result<Made, Error>| match refused {
        Err(Error::Refused(Refusal::Invalid { field, .. })) => field,
        other => panic!("it was not refused as invalid: {:?}", other.err()),
    };
    for lifetime in [Millis(0), Millis(Millis::hours(24 * 366).0 + 1)] {
        let wish = KeyWish { lifetime: Some(lifetime), ..wish("bob", &["task:read"]) };
        assert_eq!(helps(server.make(&owner, wish).await), "lifetime");
    }
    let own = KeyWish { principal: owner.principal.clone(), ..wish("bob", &["task:read"]) };
    let own = KeyWish { kind: Kind::Agent, ..own };
    assert_eq!(helps(server.make(&owner, own).await), "kind");
}

#[tokio::test]
async fn the_local_owner_may_do_everything_and_has_no_key() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    assert_eq!((owner.tenant.as_str(), owner.principal.as_str()), ("local", "owner"));
    assert!(KNOWN.iter().all(|scope| owner.may(scope)));
    assert_eq!((owner.kind, owner.key), (Kind::Person, None));
}

#[tokio::test]
async fn nobody_makes_a_key_that_reaches_further() {
    let server = Server::new().await;
    let narrow = server.key("ann", &["key:admin", "task:read"]).await;
    let ann = server.who(&narrow).await;
    assert_eq!(code(server.make(&ann, wish("bob", &["run:force"])).await), "beyond_key");
    assert_eq!(code(server.make(&ann, wish("bob", &["all"])).await), "beyond_key");
    let longer = KeyWish { lifetime: Some(Millis(LIFETIME.0 + 1)), ..wish("bob", &["task:read"]) };
    assert_eq!(code(server.make(&ann, longer).await), "beyond_key");
    server.world.clock.advance(Millis::hours(1));
    let made = server.make(&ann, wish("bob", &["task:read"])).await.expect("it is narrower");
    assert_eq!(made.row.key.parent, ann.key);
    let parent = server.identity.list(&ann, None, 10).await.expect("it reads");
    let parent = parent.rows.iter().find(|row| Some(&row.key.id) == ann.key.as_ref());
    assert_eq!(Some(made.row.key.expires_at), parent.map(|row| row.key.expires_at));
    let bob = server.who(&token(&made)).await;
    let exchanged = server.identity.rotate(&bob, how(), &id(&narrow), None).await;
    assert_eq!(code(exchanged), "beyond_key", "a secret would be given away");
    assert_eq!(code(server.revoke(&bob, &narrow).await), "beyond_key");
}

#[tokio::test]
async fn whoever_has_no_key_and_is_not_the_operator_has_no_say() {
    let server = Server::new().await;
    let all = server.identity.local_owner().scopes;
    let key = server.key("ann", &["all"]).await;
    let tenants = |word: &str| TenantId::new(word).expect("a plain word is a name");
    for (tenant, principal, kind) in [
        ("local", "owner", Kind::Agent),
        ("local", "attempt", Kind::Person),
        ("acme", "owner", Kind::Person),
    ] {
        let by = Caller::keyless(tenants(tenant), name(principal), kind, (*all).clone());
        assert_eq!(code(server.make(&by, wish("bob", &["all"])).await), "beyond_key");
        assert_eq!(code(server.revoke(&by, &key).await), "beyond_key");
        let rotated = server.identity.rotate(&by, how(), &id(&key), None).await;
        assert_eq!(code(rotated), "beyond_key");
        let founded = server.identity.found(&by, &tenants("new"), how()).await;
        assert_eq!(code(founded), "beyond_key");
    }
    let posing = KeyWish { principal: name("owner"), kind: Kind::Agent, ..wish("x", &["all"]) };
    let owner = server.identity.local_owner();
    assert_eq!(code(server.make(&owner, posing).await), "invalid");
}

#[tokio::test]
async fn a_tenant_is_let_in_by_the_operator_and_sees_only_itself() {
    let server = Server::new().await;
    let acme = TenantId::new("acme").expect("a plain word is a name");
    let owner = server.identity.local_owner();
    let local = server.key("ann", &["all"]).await;
    let made = server.identity.found(&owner, &acme, how()).await.expect("it is new");
    let founder = server.who(&token(&made)).await;
    assert_eq!((founder.tenant.as_str(), founder.principal.as_str()), ("acme", "owner"));
    assert!(KNOWN.iter().all(|scope| founder.may(scope)));
    assert_eq!(code(server.identity.found(&owner, &acme, how()).await), "invalid");
    let ann = server.who(&local).await;
    let founded = server.identity.found(&ann, &tenant(), how()).await;
    assert_eq!(code(founded), "beyond_key", "it lacks the scope");
    assert_eq!(code(server.revoke(&founder, &local).await), "not_found");
    let rotated = server.identity.rotate(&founder, how(), &id(&local), None).await;
    assert_eq!(code(rotated), "not_found");
    let listed = server.identity.list(&founder, None, 10).await.expect("it reads").rows;
    assert_eq!(listed.len(), 1);
    server.world.clock.advance(LIFETIME);
    let again = server.identity.found(&owner, &acme, how()).await;
    assert_eq!(code(again), "ok", "all its keys have expired");
}

#[tokio::test]
async fn a_repeated_request_tells_the_key_and_not_its_secret() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let create = || server.identity.create(&owner, asked("make"), wish("ann", &["task:read"]));
    let first = create().await.expect("the operator may");
    let again = create().await.expect("it is known");
    assert_eq!((again.row, again.token), (first.row.clone(), None));
    assert!(server.is_known(&token(&first)).await, "the first secret is the one that counts");
    let exchange = || server.identity.rotate(&owner, asked("turn"), &first.row.key.id, None);
    let turned = token(&exchange().await.expect("the operator may"));
    assert_eq!(exchange().await.expect("it is known").token, None);
    assert!(server.is_known(&turned).await);
}

#[tokio::test]
async fn an_unknown_scope_is_refused_by_name() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let made = server.make(&owner, wish("ann", &["task:read", "task:force"])).await;
    let Err(Error::Refused(Refusal::Invalid { field, rule })) = made else { panic!("{made:?}") };
    assert!(field == "scopes" && rule.contains("`task:force`"), "{field} {rule}");
}

#[tokio::test]
async fn nothing_that_is_shown_tells_a_secret() {
    let server = Server::new().await;
    let owner = server.identity.local_owner();
    let made = server.make(&owner, wish("ann", &["all"])).await.expect("the operator may");
    let secret = token(&made)[20..63].to_owned();
    let ann = server.who(&token(&made)).await;
    let found = server.world.engine.key(&made.row.key.id).await.expect("it reads");
    let told = format!("{made:?} {ann:?} {:?} {found:?}", server.identity);
    assert!(!told.contains(&secret) && told.contains("KeyToken(…)"), "{told}");
    assert!(told.contains("Caller(local ann Person"), "{told}");
}
