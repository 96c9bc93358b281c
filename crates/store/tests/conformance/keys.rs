//! Keys and tenants.

use baton_domain::Refusal;
use baton_domain::ids::KeyName;
use baton_domain::key::{
    KeyCommand, KeyEvent, KeyId, Kind, NewKey, Verifier, Verifiers, admit_tenant,
};
use baton_domain::limits::TENANTS_MAX;
use baton_domain::project::{RecordCommand, RecordEvent};
use baton_domain::scope::Scope;
use baton_domain::time::{Millis, Timestamp};
use baton_store::read::{About, Happened};
use baton_store::{Aim, Committed, Error, KeyFound, KeyRow, Order, Request};

use crate::dump::assert_same;
use crate::script::Script;
use crate::words::{caller, pipeline, principal, tenant, text};
use crate::world::{World, request};

const HOUR: Millis = Millis::hours(1);

fn id(number: u64) -> KeyId {
    KeyId::new(&format!("Key{number:09}")).expect("it is twelve letters and digits")
}

fn scope(word: &str) -> Scope {
    word.parse().expect("it is well-formed")
}

impl World {
    fn new_key(&self, number: u64) -> NewKey {
        NewKey {
            id: id(number),
            name: KeyName::new(&format!("key-{number}")).expect("it is a name"),
            principal: principal("ann"),
            kind: Kind::Person,
            scopes: [scope("run:work"), scope("key:admin")].into(),
            by: None,
            expires_at: self.now() + HOUR,
            verifier: Verifier([u8::try_from(number % 200).expect("it is below 200"); 32]),
            first: false,
        }
    }

    async fn key_order(&self, command: KeyCommand) -> Result<Committed, Refusal> {
        self.ask(Aim::Key(command)).await
    }

    async fn make_key(&self, new: NewKey) -> Committed {
        let made = self.key_order(KeyCommand::Create(Box::new(new))).await;
        made.expect("nothing is wrong with this key")
    }

    async fn rotate_key(&self, number: u64, secret: u8, overlap: Millis) -> Committed {
        let (key, verifier) = (id(number), Verifier([secret; 32]));
        let rotated = self.key_order(KeyCommand::Rotate { key, by: None, verifier, overlap }).await;
        rotated.expect("the operator may")
    }

    async fn revoke_key(&self, number: u64) -> Result<Committed, Refusal> {
        let reason = text("it leaked");
        self.key_order(KeyCommand::Revoke { key: id(number), by: None, reason }).await
    }

    async fn find_key(&self, number: u64) -> Option<KeyFound> {
        self.store().key(&id(number)).await.expect("reading works")
    }

    /// Every key of the tenant, page by page.
    pub async fn all_keys(&self, count_max: usize) -> Vec<KeyRow> {
        let mut rows: Vec<KeyRow> = vec![];
        loop {
            let after = rows.last().map(|row| row.key.id.clone());
            let page = self.store().keys(&self.tenant, after, count_max).await;
            let page = page.expect("reading works");
            assert!(page.rows.len() <= count_max);
            rows.extend(page.rows);
            if !page.more {
                return rows;
            }
        }
    }

    async fn touch(&self, number: u64, at: Timestamp) {
        self.store().touch_keys(vec![(id(number), at)]).await.expect("it is noted");
    }
}

pub async fn a_key_reads_as_it_was_made(world: &World) {
    let committed = world.make_key(world.new_key(1)).await;
    let found = world.find_key(1).await.expect("it is there");
    let key = &found.credential.key;
    assert_eq!(found.tenant, world.tenant);
    assert_eq!((&key.id, key.created_at, key.kind), (&id(1), world.now(), Kind::Person));
    assert_eq!(key.scopes, world.new_key(1).scopes);
    let verifiers = Verifiers { current: Verifier([1; 32]), former: None };
    assert_eq!(found.credential.verifiers, Some(verifiers));
    assert_eq!(world.all_keys(10).await, [found.row()]);
    let told = world.entries_after(1).await;
    assert_eq!(told.len(), 1);
    assert_eq!((Some(told[0].position), told[0].about), (committed.position, About::Records(2)));
    let event = RecordEvent::Key(KeyEvent::KeyCreated { key: key.clone() });
    assert_eq!(told[0].happened, Happened::ToRecord(vec![event]));
}

pub async fn a_key_is_found_by_its_id_alone_and_tells_its_tenant(world: &World) {
    let other = world.stranger("acme");
    other.make_key(other.new_key(1)).await;
    world.make_key(world.new_key(2)).await;
    assert_eq!(world.find_key(1).await.map(|found| found.tenant), Some(tenant("acme")));
    assert_eq!(world.find_key(2).await.map(|found| found.tenant), Some(tenant("local")));
    assert_eq!(world.find_key(3).await, None);
    assert_eq!(world.all_keys(10).await.len(), 1, "a list shows what is one's own");
    assert_eq!(world.revoke_key(1).await.err(), Some(Refusal::NotFound), "a foreign one is none");
    assert_eq!(world.stranger("nobody").all_keys(10).await, []);
}

pub async fn an_id_is_given_once_over_all_tenants(world: &World) {
    let other = world.stranger("acme");
    world.make_key(world.new_key(1)).await;
    let before = world.dump().await;
    let taken = Refusal::Invalid { field: "key".into(), rule: "is in use".into() };
    let twin = KeyCommand::Create(Box::new(other.new_key(1)));
    assert_eq!(other.key_order(twin.clone()).await.err(), Some(taken.clone()));
    assert_eq!(other.entries().await, [], "a refused key makes no tenant");
    other.put(pipeline("web", &["coding"])).await;
    assert_eq!(other.key_order(twin).await.err(), Some(taken));
    assert_same(&before, &world.dump().await, "somebody else asked");
}

pub async fn an_exchanged_secret_is_kept_with_the_one_before(world: &World) {
    world.make_key(world.new_key(1)).await;
    world.rotate_key(1, 8, HOUR).await;
    let kept = |found: Option<KeyFound>| found.and_then(|it| it.credential.verifiers);
    let former = Some((Verifier([1; 32]), world.now() + HOUR));
    let both = Verifiers { current: Verifier([8; 32]), former };
    world.reopen();
    assert_eq!(kept(world.find_key(1).await), Some(both));
    world.rotate_key(1, 9, Millis(0)).await;
    let one = Verifiers { current: Verifier([9; 32]), former: None };
    assert_eq!(kept(world.find_key(1).await), Some(one));
    assert_eq!(world.rotate_key(1, 9, HOUR).await.position, None, "that is so already");
}

pub async fn revoking_a_key_takes_along_what_it_made(world: &World) {
    world.make_key(world.new_key(1)).await;
    world.make_key(NewKey { by: Some(id(1)), ..world.new_key(2) }).await;
    world.make_key(NewKey { by: Some(id(2)), ..world.new_key(3) }).await;
    world.make_key(world.new_key(4)).await;
    let committed = world.revoke_key(1).await.expect("the operator may");
    for (number, live) in [(1, false), (2, false), (3, false), (4, true)] {
        let found = world.find_key(number).await.expect("it is remembered").credential;
        assert_eq!(found.key.is_live(world.now()), live, "{number}");
        assert_eq!(found.verifiers.is_some(), live, "what opened it is gone from storage");
    }
    let last = world.entries().await.pop().expect("it left an entry");
    assert_eq!(Some(last.position), committed.position);
    let keys = vec![id(1), id(2), id(3)];
    let event = RecordEvent::Key(KeyEvent::KeyRevoked { keys, reason: text("it leaked") });
    assert_eq!(last.happened, Happened::ToRecord(vec![event]));
    assert_eq!(world.revoke_key(1).await.expect("that is so already").position, None);
}

pub async fn keys_come_in_pages(world: &World) {
    for number in [5, 3, 1, 4, 2] {
        world.make_key(world.new_key(number)).await;
    }
    let ids: Vec<KeyId> = world.all_keys(2).await.into_iter().map(|row| row.key.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5].map(id));
}

pub async fn a_use_leaves_no_entry_and_never_goes_back(world: &World) {
    world.make_key(world.new_key(1)).await;
    let entries = world.entries().await;
    assert_eq!(world.all_keys(9).await[0].used_at, None);
    let later = world.now() + HOUR;
    world.touch(1, later).await;
    world.touch(1, world.now()).await;
    world.touch(2, later).await;
    world.reopen();
    assert_eq!(world.all_keys(9).await[0].used_at, Some(later));
    assert_eq!(world.find_key(1).await.expect("it is there").used_at, Some(later));
    assert_eq!(world.find_key(2).await, None, "a use makes no key");
    world.rotate_key(1, 8, HOUR).await;
    assert_eq!(world.all_keys(9).await[0].used_at, Some(later), "a new secret keeps it");
    assert_eq!(world.entries().await[..entries.len()], entries);
    assert_eq!(world.entries().await.len(), entries.len() + 1);
}

pub async fn a_repeated_creation_is_carried_out_once(world: &World) {
    let make = || Aim::Key(KeyCommand::Create(Box::new(world.new_key(1))));
    let first = world.order(caller("ann"), make(), request("one", 1)).await.expect("it is made");
    // Whoever repeats a request brings another id and another secret, which are not the first's.
    let other = Aim::Key(KeyCommand::Create(Box::new(world.new_key(2))));
    let again = world.order(caller("ann"), other, request("one", 1)).await.expect("it is known");
    assert!(again.replayed && !first.replayed);
    assert_eq!(again.position, first.position);
    assert_eq!(world.all_keys(9).await.len(), 1);
    assert_eq!(world.find_key(2).await, None);
}

pub async fn a_request_for_another_tenant_is_known_where_it_was_asked(world: &World) {
    let other = world.stranger("other");
    let first_key = |number| {
        let new = NewKey { first: true, ..world.new_key(number) };
        Aim::Key(KeyCommand::Create(Box::new(new)))
    };
    let asked = |what| {
        let asked_in = Some(world.tenant.clone());
        request("k", what).map(|request| Request { asked_in, ..request })
    };
    let ann = || caller("ann");
    let first = other.order(ann(), first_key(1), asked(1)).await.expect("nobody is there yet");
    let again = other.order(ann(), first_key(2), asked(1)).await.expect("it is known");
    assert_eq!((first.replayed, again.replayed, again.position), (false, true, None));
    let third = world.stranger("third").order(ann(), first_key(3), asked(2)).await;
    assert!(matches!(third, Err(Error::KeyReused)), "{third:?}");
    let tenants = world.store().tenants(None, 9).await.expect("reading works").rows;
    assert!(!tenants.contains(&tenant("third")), "it left no trace");
    let create = |number| Aim::Key(KeyCommand::Create(Box::new(world.new_key(number))));
    let own = world.order(ann(), create(4), request("k", 3)).await;
    assert!(matches!(own, Err(Error::KeyReused)), "{own:?}");
    let before = world.store().asked_before(&world.tenant, &principal("ann"), "k").await;
    assert_eq!(before.expect("reading works"), Some([1; 32]));
    // Somebody over there may have the same name, and has asked for nothing.
    let theirs = other.order(ann(), create(5), request("k", 1)).await.expect("it is new there");
    assert!(!theirs.replayed);
}

pub async fn a_refused_key_leaves_no_trace(world: &World) {
    world.make_key(world.new_key(1)).await;
    let before = world.dump().await;
    let wider = NewKey {
        by: Some(id(1)),
        scopes: [scope("run:force")].into(),
        name: KeyName::new("wide").expect("it is a name"),
        ..world.new_key(2)
    };
    let refused = world.key_order(KeyCommand::Create(Box::new(wider))).await;
    assert_eq!(refused.expect_err("it is wider").code(), "beyond_key");
    let named = NewKey { name: world.new_key(1).name, ..world.new_key(2) };
    let refused = world.key_order(KeyCommand::Create(Box::new(named))).await;
    assert_eq!(refused.expect_err("the name is taken").code(), "name_taken");
    assert_eq!(world.revoke_key(9).await.err(), Some(Refusal::NotFound));
    assert_eq!(world.stranger("nobody").revoke_key(1).await.err(), Some(Refusal::NotFound));
    assert_same(&before, &world.dump().await, "nothing but refusals");
}

pub async fn there_are_only_so_many_tenants(world: &World) {
    let put = |number: usize| {
        let command = RecordCommand::PutProject(pipeline("web", &["coding"]));
        let (tenant, aim) = (tenant(&format!("tenant-{number}")), Aim::Record(command, None));
        let order = Order { tenant, actor: caller("ann"), aim, request: None };
        let store = world.store();
        tokio::spawn(async move { store.submit(order).await })
    };
    // One is there already. All at once, so that they share their commits.
    let all: Vec<_> = (1..TENANTS_MAX).map(put).collect();
    for one in all {
        one.await.expect("nobody panics").expect("there is room");
    }
    let full = admit_tenant(TENANTS_MAX).expect_err("there is no room");
    let late = world.stranger("late");
    let project = RecordCommand::PutProject(pipeline("web", &["coding"]));
    assert_eq!(late.ask(Aim::Record(project, None)).await.err(), Some(full.clone()));
    let key = KeyCommand::Create(Box::new(late.new_key(1)));
    assert_eq!(late.key_order(key).await.err(), Some(full));
    world.make_key(world.new_key(1)).await;
}

impl Script {
    /// Something about keys, of which there are few enough to meet one another.
    pub fn key(&mut self) -> Aim {
        let key = id(self.chance.below(6));
        let by = self.chance.chance(0.4).then(|| id(self.chance.below(6)));
        let verifier = Verifier([u8::try_from(self.chance.below(5)).expect("few"); 32]);
        Aim::Key(match self.chance.below(14) {
            0..2 => KeyCommand::Revoke { key, by, reason: text("it leaked") },
            // Most of them name a key that cannot be rotated any more.
            2..8 => {
                let overlap = Millis::seconds(self.chance.below(3) * 400_000);
                KeyCommand::Rotate { key, by, verifier, overlap }
            }
            _ => {
                let kinds = [Kind::Person, Kind::Person, Kind::Person, Kind::Bot, Kind::System];
                let words = ["run:work", "task:read", "key:admin"];
                let few = *self.chance.pick(&[0, 1, 2, 3, 3, 3]);
                KeyCommand::Create(Box::new(NewKey {
                    id: key,
                    name: KeyName::new(self.chance.pick::<&str>(&["a", "b", "c", "d", "e"]))
                        .expect("a letter is a name"),
                    principal: principal(self.chance.pick::<&str>(&["ann", "bob", "eve"])),
                    kind: *self.chance.pick(&kinds),
                    scopes: words.iter().take(few).map(|word| scope(word)).collect(),
                    by,
                    expires_at: self.now + Millis::seconds(self.chance.below(20_000)),
                    verifier,
                    first: self.chance.chance(0.3),
                }))
            }
        })
    }
}

pub async fn tenants_come_in_pages_by_their_names(world: &World) {
    for name in ["zoo", "acme", "mill"] {
        world.tenant(name).await.make_key(world.new_key(u64::from(name.as_bytes()[0]))).await;
    }
    let (mut names, mut pages): (Vec<baton_domain::ids::TenantId>, _) = (vec![], 0);
    loop {
        let page = world.store().tenants(names.last().cloned(), 2).await.expect("reading works");
        assert!(page.rows.len() <= 2);
        names.extend(page.rows);
        pages += 1;
        if !page.more {
            break;
        }
    }
    let mut expected = vec![tenant("acme"), tenant("mill"), world.tenant.clone(), tenant("zoo")];
    expected.sort();
    assert_eq!((names, pages), (expected, 2));
}
