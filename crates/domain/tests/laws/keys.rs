//! What a key may make, change and end.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::ids::{KeyName, PrincipalId};
use baton_domain::key::{
    Credential, KeyCommand, KeyEvent, KeyId, KeyRuling, KeyScene, Kind, NewKey, Verifier,
    admit_tenant, decide_key,
};
use baton_domain::limits::{DEAD_KEYS_MAX, KEYS_MAX, SCOPES_MAX, TENANTS_MAX};
use baton_domain::project::RecordEvent;
use baton_domain::scope::{Level, Scope};
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use proptest::prelude::any;

use crate::history::runner;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const DAY: Millis = Millis::hours(24);

const KINDS: [Kind; 5] = [Kind::Person, Kind::Agent, Kind::Worker, Kind::Bot, Kind::System];

fn id(number: usize) -> KeyId {
    KeyId::new(&format!("key{number:09}")).expect("it is twelve letters and digits")
}

fn scopes(words: &[&str]) -> BTreeSet<Scope> {
    words.iter().map(|word| word.parse().expect("it is well-formed")).collect()
}

/// A key of a person that the operator makes, with a name and principal of its own.
fn new(number: usize) -> NewKey {
    NewKey {
        id: id(number),
        name: KeyName::new(&format!("key-{number}")).expect("it is a name"),
        principal: PrincipalId::new(&format!("user-{number}")).expect("it is a name"),
        kind: Kind::Person,
        scopes: scopes(&["task:read", "task:write", "key:admin"]),
        by: None,
        expires_at: NOW + DAY,
        verifier: Verifier([u8::try_from(number % 200).expect("it is below 200"); 32]),
        first: false,
    }
}

fn child(number: usize, of: usize) -> NewKey {
    NewKey { by: Some(id(of)), ..new(number) }
}

/// The keys of one tenant.
#[derive(Default)]
struct World {
    scene: KeyScene,
}

impl World {
    fn of(keys: &[NewKey]) -> Self {
        let mut world = Self::default();
        for key in keys {
            world.create(key.clone()).expect("nothing is wrong with this key");
        }
        world
    }

    fn ask(&mut self, command: &KeyCommand, now: Timestamp) -> Result<KeyRuling, Refusal> {
        let ruling = decide_key(&self.scene, command, now)?;
        for there in &ruling.written {
            self.scene.keys.insert(there.key.id.clone(), there.clone());
        }
        ruling.forgotten.iter().for_each(|id| drop(self.scene.keys.remove(id)));
        Ok(ruling)
    }

    fn create(&mut self, key: NewKey) -> Result<KeyRuling, Refusal> {
        self.ask(&KeyCommand::Create(Box::new(key)), NOW)
    }

    fn rotate(&mut self, key: usize, by: Option<usize>, secret: u8) -> Result<KeyRuling, Refusal> {
        let verifier = Verifier([secret; 32]);
        let command = KeyCommand::Rotate { key: id(key), by: by.map(id), verifier, overlap: DAY };
        self.ask(&command, NOW)
    }

    fn revoke(&mut self, key: usize, by: Option<usize>) -> Result<KeyRuling, Refusal> {
        self.ask(&KeyCommand::Revoke { key: id(key), by: by.map(id), reason: reason() }, NOW)
    }

    fn key(&self, number: usize) -> &Credential {
        &self.scene.keys[&id(number)]
    }
}

fn reason<const MAX: usize>() -> Text<MAX> {
    Text::new("reason", "it leaked").expect("plain words are a text")
}

fn field(refused: Result<KeyRuling, Refusal>) -> String {
    let refusal = refused.expect_err("it is refused");
    if let Refusal::Invalid { field, .. } = refusal { field } else { refusal.code().into() }
}

#[test]
fn a_key_is_made_and_its_event_tells_no_digest() {
    let mut world = World::default();
    let ruling = world.create(new(1)).expect("the operator may");
    let [KeyEvent::KeyCreated { key }] = &ruling.events[..] else { panic!("{ruling:?}") };
    assert_eq!((&key.id, key.created_at, &key.parent), (&id(1), NOW, &None));
    let told = format!("{ruling:?}");
    assert!(told.contains("Verifier(…)"), "{told}");
    let opened = world.key(1).opened_until(&Verifier([1; 32]), NOW);
    assert_eq!(opened, Some(NOW + DAY));
    assert_eq!(world.key(1).opened_until(&Verifier([2; 32]), NOW), None);
    assert_eq!(world.key(1).opened_until(&Verifier([1; 32]), NOW + DAY), None, "it has expired");
}

#[test]
fn asking_again_for_what_is_so_changes_nothing() {
    let mut world = World::of(&[new(1), child(2, 1)]);
    assert_eq!(world.create(child(2, 1)), Ok(KeyRuling::default()));
    world.rotate(2, Some(1), 9).expect("it may");
    assert_eq!(world.rotate(2, Some(1), 9), Ok(KeyRuling::default()));
    world.revoke(2, Some(1)).expect("it may");
    assert_eq!(world.revoke(2, Some(1)), Ok(KeyRuling::default()));
    let later = KeyCommand::Revoke { key: id(1), by: None, reason: reason() };
    assert_eq!(world.ask(&later, NOW + DAY), Ok(KeyRuling::default()), "it has expired");
}

#[test]
fn ids_and_names_are_unique() {
    let mut world = World::of(&[new(1)]);
    assert_eq!(field(world.create(NewKey { id: id(1), ..new(2) })), "key");
    world.scene.taken = true;
    assert_eq!(field(world.create(new(2))), "key", "another tenant has it");
    world.scene.taken = false;
    let named = NewKey { name: new(1).name, ..new(2) };
    assert_eq!(field(world.create(named.clone())), "name_taken");
    world.revoke(1, None).expect("the operator may");
    world.create(named).expect("the name is free again");
    assert_eq!(field(world.create(new(1))), "key", "an id is never given twice");
}

#[test]
fn a_principal_has_one_kind() {
    let mut world = World::of(&[new(1)]);
    let twin = |kind| NewKey { principal: new(1).principal, kind, ..new(2) };
    assert_eq!(field(world.create(twin(Kind::Agent))), "kind");
    world.create(twin(Kind::Person)).expect("a person may have two keys");
}

#[test]
fn baton_itself_has_no_key() {
    let mut world = World::default();
    assert_eq!(field(world.create(NewKey { kind: Kind::System, ..new(1) })), "principal");
    let baton = PrincipalId::new("baton").expect("it is a name");
    assert_eq!(field(world.create(NewKey { principal: baton, ..new(1) })), "principal");
}

#[test]
fn a_key_has_bounds() {
    let mut world = World::default();
    assert_eq!(field(world.create(NewKey { scopes: [].into(), ..new(1) })), "scopes");
    let nouns = (0..=SCOPES_MAX).map(|at| format!("{}:read", "a".repeat(at % 8 + 1) + &word(at)));
    let many: BTreeSet<Scope> = nouns.map(|it| it.parse().expect("well-formed")).collect();
    assert_eq!(many.len(), SCOPES_MAX + 1);
    assert_eq!(field(world.create(NewKey { scopes: many, ..new(1) })), "scopes");
    for expires_at in [NOW, NOW + Millis::hours(24 * 366) + Millis(1)] {
        assert_eq!(field(world.create(NewKey { expires_at, ..new(1) })), "expires_at");
    }
    world.create(NewKey { expires_at: NOW + Millis::hours(24 * 366), ..new(1) }).expect("it fits");
    let overlap = Millis(Millis::hours(24 * 7).0 + 1);
    let verifier = Verifier([9; 32]);
    let long = KeyCommand::Rotate { key: id(1), by: None, verifier, overlap };
    assert_eq!(field(world.ask(&long, NOW)), "overlap");
}

/// A word of its own for every number.
fn word(number: usize) -> String {
    let letter = |digit: usize| char::from(b"bcdefghij"[digit % 9]);
    [letter(number / 9), letter(number)].iter().collect()
}

#[test]
fn a_child_never_reaches_beyond_its_parent() {
    let mut world = World::of(&[new(1)]);
    let wider = NewKey { scopes: scopes(&["task:read", "run:force"]), ..child(2, 1) };
    let refused = world.create(wider).expect_err("it is wider");
    assert_eq!(refused, Refusal::BeyondKey { why: "it does not have run:force".into() });
    let longer = NewKey { expires_at: NOW + DAY + Millis(1), ..child(2, 1) };
    assert_eq!(field(world.create(longer)), "beyond_key");
    let narrow = NewKey { scopes: scopes(&["task:read"]), kind: Kind::Agent, ..child(2, 1) };
    world.create(narrow).expect("it is narrower");
    let risen = NewKey { scopes: scopes(&["task:read"]), ..child(3, 2) };
    assert_eq!(field(world.create(risen)), "beyond_key", "an agent makes no person");
    let nobody = NewKey { by: Some(id(77)), ..new(4) };
    assert_eq!(field(world.create(nobody)), "key_ended");
}

#[test]
fn nobody_rises_in_kind() {
    let made: Vec<(Kind, usize)> = KINDS
        .map(|kind| (kind, KINDS.into_iter().filter(|other| kind.may_make(*other)).count()))
        .into();
    let [(_, person), (_, agent), (_, worker), (_, bot), (_, system)] = made[..] else { panic!() };
    assert_eq!([person, bot, worker, agent, system], [4, 3, 2, 1, 0]);
    for (one, other) in KINDS.iter().flat_map(|one| KINDS.map(|other| (*one, other))) {
        let both = one.may_make(other) && other.may_make(one);
        assert!(!both || one == other, "{one:?} and {other:?} would make one another");
    }
}

#[test]
fn a_secret_is_exchanged_with_an_overlap() {
    let mut world = World::of(&[new(1)]);
    let ruling = world.rotate(1, Some(1), 8).expect("a key may exchange its own secret");
    let former_until = Some(NOW + DAY);
    assert_eq!(ruling.events, [KeyEvent::KeyRotated { key: id(1), former_until }]);
    let opened = |world: &World, secret, now| {
        world.key(1).opened_until(&Verifier([secret; 32]), now).is_some()
    };
    assert!(opened(&world, 1, NOW) && opened(&world, 8, NOW));
    assert!(!opened(&world, 1, NOW + DAY));
    world.rotate(1, Some(1), 9).expect("it may");
    assert!(!opened(&world, 1, NOW), "two secrets are alive, not three");
    assert!(opened(&world, 8, NOW) && opened(&world, 9, NOW));
    let verifier = Verifier([10; 32]);
    let at_once = KeyCommand::Rotate { key: id(1), by: None, verifier, overlap: Millis(0) };
    world.ask(&at_once, NOW).expect("the operator may");
    assert!(!opened(&world, 9, NOW) && opened(&world, 10, NOW));
}

#[test]
fn nobody_gets_at_the_secret_of_a_key_that_reaches_further() {
    let narrow = NewKey { scopes: scopes(&["key:admin"]), ..child(2, 1) };
    let brief = NewKey { expires_at: NOW + Millis(5), ..child(3, 1) };
    let agent = NewKey { kind: Kind::Agent, ..child(4, 1) };
    let mut world = World::of(&[new(1), narrow, brief, agent]);
    for by in [2, 3, 4] {
        assert_eq!(field(world.rotate(1, Some(by), 9)), "beyond_key", "{by}");
    }
    for by in [2, 4] {
        assert_eq!(field(world.revoke(1, Some(by))), "beyond_key", "{by}");
    }
    assert_eq!(field(world.rotate(99, Some(1), 9)), "not_found");
    assert_eq!(field(world.revoke(99, Some(1))), "not_found");
}

#[test]
fn revoking_a_key_revokes_what_it_made() {
    let mut world = World::of(&[new(1), child(2, 1), child(3, 2), child(4, 1), new(5)]);
    let ruling = world.revoke(2, Some(1)).expect("it may");
    let keys = vec![id(2), id(3)];
    assert_eq!(ruling.events, [KeyEvent::KeyRevoked { keys, reason: reason() }]);
    for (number, live) in [(1, true), (2, false), (3, false), (4, true), (5, true)] {
        let there = world.key(number);
        assert_eq!(there.key.is_live(NOW), live, "{number}");
        assert_eq!(there.verifiers.is_some(), live, "what opened it is gone");
    }
    assert_eq!(field(world.create(child(6, 3))), "key_ended");
    assert_eq!(field(world.rotate(3, None, 9)), "key_ended");
    assert_eq!(field(world.rotate(5, Some(2), 9)), "key_ended");
    let ruling = world.revoke(1, Some(1)).expect("a key may revoke itself");
    assert_eq!(ruling.written.len(), 2);
}

#[test]
fn a_tenant_is_founded_once_unless_all_its_keys_have_ended() {
    let founding = |number| NewKey { first: true, ..new(number) };
    let mut world = World::of(&[founding(1)]);
    assert_eq!(field(world.create(founding(2))), "tenant");
    assert_eq!(world.create(founding(1)), Ok(KeyRuling::default()), "that is so already");
    world.revoke(1, None).expect("the operator may");
    world.create(founding(2)).expect("nobody else can let anybody in");
}

#[test]
fn live_keys_are_counted_and_dead_ones_are_forgotten_in_time() {
    let mut world = World::default();
    for number in 0..KEYS_MAX {
        world.create(new(number)).expect("there is room");
    }
    assert_eq!(field(world.create(new(KEYS_MAX))), "limit_reached");
    for number in 0..DEAD_KEYS_MAX + 2 {
        world.revoke(number, None).expect("the operator may");
        let next = KEYS_MAX + number;
        let ruling = world.create(new(next)).expect("there is room again");
        let expected: &[KeyId] = if number < DEAD_KEYS_MAX { &[] } else { &[id(number - 1000)] };
        assert_eq!(ruling.forgotten, expected, "{number}");
    }
}

#[test]
fn tenants_are_counted() {
    assert_eq!(admit_tenant(TENANTS_MAX - 1), Ok(()));
    let full = admit_tenant(TENANTS_MAX).expect_err("there is no room");
    assert_eq!(full.code(), "limit_reached");
}

#[test]
fn a_scope_has_one_spelling() {
    let known = Scope::of("run", Level::Work);
    assert_eq!("run:work".parse(), Ok(known.clone()));
    assert_eq!((known.to_string().as_str(), known.noun()), ("run:work", "run"));
    let long = format!("{}:read", "a".repeat(25));
    for wrong in ["", "run", "run:", ":work", "Run:work", "run:all", "run:work ", "_a:read", &long]
    {
        wrong.parse::<Scope>().expect_err(wrong);
    }
}

#[test]
fn an_id_is_twelve_letters_and_digits() {
    KeyId::new("0aZ3456789xy").expect("it is well-formed");
    for wrong in ["", "0aZ3456789x", "0aZ3456789xyz", "0aZ3456789x_", "0aZ345678é1"] {
        KeyId::new(wrong).expect_err(wrong);
    }
}

#[test]
fn key_events_are_told_as_record_events() {
    let mut world = World::default();
    let created = world.create(new(1)).expect("the operator may").events;
    let rotated = world.rotate(1, None, 7).expect("the operator may").events;
    let revoked = world.revoke(1, None).expect("the operator may").events;
    for event in created.into_iter().chain(rotated).chain(revoked) {
        let event = RecordEvent::Key(event);
        let text = serde_json::to_string(&event).expect("it is plain data");
        assert!(text.starts_with(r#"{"event":"key_"#), "{text}");
        assert_eq!(serde_json::from_str::<RecordEvent>(&text).expect("it is ours"), event);
    }
    serde_json::from_str::<RecordEvent>(r#"{"event":"key_lost"}"#).expect_err("nobody knows it");
}

/// Whatever keys do to one another, none that lives reaches beyond the one that it was made with,
/// and none outlives it.
#[test]
fn no_key_outgrows_its_line() {
    let steps = proptest::collection::vec(any::<[u8; 4]>(), 1..60);
    let outcome = runner().run(&steps, |steps| {
        let mut world = World::of(&[new(0)]);
        (1..).zip(steps).for_each(|(number, step)| world.step(number, step));
        for there in world.scene.keys.values().filter(|there| there.key.is_live(NOW)) {
            let Some(parent) = &there.key.parent else { continue };
            let parent = &world.scene.keys[parent].key;
            assert!(parent.is_live(NOW), "{there:?}");
            assert!(there.key.scopes.is_subset(&parent.scopes), "{there:?}");
            assert!(there.key.expires_at <= parent.expires_at, "{there:?}");
            assert!(parent.kind.may_make(there.key.kind), "{there:?}");
        }
        Ok(())
    });
    outcome.expect("no key outgrows its line");
}

impl World {
    fn step(&mut self, number: usize, [what, by, key, bits]: [u8; 4]) {
        let words = ["task:read", "task:write", "key:admin"];
        let (by, key) = (usize::from(by) % number, usize::from(key) % number);
        let some = words.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        let wish = NewKey {
            scopes: some.map(|(_, word)| word.parse().expect("well-formed")).collect(),
            kind: KINDS[usize::from(bits >> 3) % 5],
            expires_at: NOW + Millis(1 + u64::from(bits >> 4)),
            ..child(number, by)
        };
        drop(match what % 8 {
            0 => self.revoke(key, Some(by)),
            1 => self.rotate(key, Some(by), bits),
            _ => self.create(wish),
        });
    }
}
