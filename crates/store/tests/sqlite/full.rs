//! A full disk: new work is refused, ends of work are accepted as soon as they fit, no lease ends,
//! and nothing needs to be started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::ids::{KeyName, PrincipalId, TaskId};
use baton_domain::key::{KeyCommand, KeyId, Kind, NewKey, Verifier};
use baton_domain::refusal::Refusal;
use baton_domain::text::Text;
use baton_domain::time::Millis;
use baton_store::clock::ManualClock;
use baton_store::order::Order;
use baton_store::sqlite::SqliteStore;
use baton_store::{Aim, Certainty, Clock, Error, Store};
use baton_testkit::disk::{Disk, Fault};

use crate::cast::{
    birth, claim, done as completes, local, needs_input, new_task, note, put, renew, says,
    short_project,
};
use crate::site::{Gate, ask, clock, done, open_on, options, wait};

/// A store with three tasks: one free, two held by ada and bob.
struct Scene {
    disk: Disk,
    clock: Arc<ManualClock>,
    free: Arc<AtomicU64>,
    gate: Gate,
    store: SqliteStore,
}

const IDLE: TaskId = TaskId(1);
const ADAS: TaskId = TaskId(2);
const BOBS: TaskId = TaskId(3);

fn scene() -> Scene {
    let (disk, clock) = (Disk::new(1), clock());
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let (gate, bell) = Gate::new();
    let told = Arc::clone(&free);
    let mut options = options(&clock, 1);
    options.free_bytes = Arc::new(move || Some(told.load(Ordering::Relaxed)));
    options.bell = bell;
    let store = open_on(&disk, options).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    for title in ["idle", "ada's", "bob's"] {
        done(&store, birth(&local(), new_task(title)));
    }
    done(&store, claim(&local(), ADAS, "ada", 1));
    done(&store, claim(&local(), BOBS, "bob", 2));
    done(&store, Order::sweep(8));
    Scene { disk, clock, free, gate, store }
}

impl Scene {
    fn ask(&self, order: Order) -> Result<(), Error> {
        ask(&self.store, order).map(drop)
    }

    /// The next look at the disk finds so much.
    fn free(&self, bytes: u64) {
        self.free.store(bytes, Ordering::Relaxed);
        self.clock.advance(Millis::seconds(1));
    }

    fn is_full(&self) -> bool {
        wait(self.store.health()).expect("a store tells how it is").full
    }

    fn state(&self, task: TaskId) -> &'static str {
        let row =
            wait(self.store.task(&local(), task)).expect("it reads").what.expect("it is there");
        row.flow.run.as_ref().map_or("none", |run| run.word())
    }

    /// Passes time as the clockwork would, a second at a time.
    fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Millis::seconds(1));
            done(&self.store, Order::sweep(8));
        }
    }
}

fn is_refused_for_want_of_room(answer: Result<(), Error>) {
    let Err(error) = answer else { panic!("it was accepted") };
    assert!(matches!(error, Error::DiskFull), "{error:?}");
    assert_eq!(error.certainty(), Certainty::DidNotHappen);
}

#[test]
fn below_the_watermark_new_work_is_refused_and_ends_are_accepted() {
    let scene = scene();
    scene.free(1);
    is_refused_for_want_of_room(scene.ask(birth(&local(), new_task("more"))));
    is_refused_for_want_of_room(scene.ask(claim(&local(), IDLE, "eve", 3)));
    is_refused_for_want_of_room(scene.ask(says(&local(), ADAS, "ada", 1, note("so far"))));
    assert!(scene.is_full());
    scene.ask(renew(&local(), ADAS, "ada", 1)).expect("a heartbeat keeps what is held");
    scene.ask(says(&local(), ADAS, "ada", 1, completes())).expect("an end");
    scene.ask(says(&local(), BOBS, "bob", 1, needs_input())).expect("an end");
    assert_eq!(scene.state(BOBS), "blocked");
    scene.free(u64::MAX);
    scene.ask(birth(&local(), new_task("more"))).expect("there is room again");
    assert!(!scene.is_full());
}

#[test]
fn a_key_can_be_revoked_while_the_disk_is_full_and_its_use_is_not_noted() {
    let scene = scene();
    let now = scene.clock.now();
    let id = |digit: &str| KeyId::new(&digit.repeat(12)).expect("twelve digits");
    let of_keys = |command| Order { aim: Aim::Key(command), ..put(&local(), short_project()) };
    let create = |digit: &str| {
        of_keys(KeyCommand::Create(Box::new(NewKey {
            id: id(digit),
            name: KeyName::new(digit).expect("a digit is a name"),
            principal: PrincipalId::new("ann").expect("a plain word is a name"),
            kind: Kind::Person,
            scopes: ["key:admin".parse().expect("it is well-formed")].into(),
            by: None,
            expires_at: now + Millis::hours(1),
            verifier: Verifier([7; 32]),
            first: false,
        })))
    };
    scene.ask(create("1")).expect("there is room");
    scene.free(1);
    is_refused_for_want_of_room(scene.ask(create("2")));
    wait(scene.store.touch_keys(vec![(id("1"), now)])).expect("it is dropped in silence");
    let reason = Text::new("reason", "it leaked").expect("plain words are a text");
    let revoke = KeyCommand::Revoke { key: id("1"), by: None, reason };
    scene.ask(of_keys(revoke)).expect("a leaked key must die");
    let found = wait(scene.store.key(&id("1"))).expect("it reads").expect("it is there");
    assert_eq!((found.credential.verifiers, found.used_at), (None, None));
}

#[test]
fn no_lease_ends_while_the_disk_is_full_and_an_amnesty_follows() {
    let scene = scene();
    scene.free(1);
    scene.clock.advance(Millis::minutes(20));
    is_refused_for_want_of_room(scene.ask(Order::sweep(8)));
    assert_eq!(scene.state(BOBS), "leased", "its lease of five minutes has not ended");
    scene.ask(renew(&local(), ADAS, "ada", 1)).expect("nobody could renew before");
    scene.clock.advance(Millis::minutes(20));
    scene.free(u64::MAX);
    scene.ask(renew(&local(), ADAS, "ada", 1)).expect("before the first sweep");
    scene.pass(59);
    assert_eq!((scene.state(ADAS), scene.state(BOBS)), ("leased", "leased"));
    scene.pass(3);
    assert_eq!(scene.state(BOBS), "queued", "it did not renew within the amnesty");
    assert_eq!(scene.state(ADAS), "leased");
}

#[test]
fn the_amnesty_after_a_full_disk_outlives_a_restart() {
    let Scene { disk, clock, free, store, .. } = scene();
    free.store(1, Ordering::Relaxed);
    clock.advance(Millis::minutes(20));
    is_refused_for_want_of_room(ask(&store, Order::sweep(8)).map(drop));
    drop(store);
    clock.advance(Millis::minutes(20));
    let store = open_on(&disk, options(&clock, 2)).expect("a sound disk");
    done(&store, renew(&local(), BOBS, "bob", 1));
    done(&store, Order::sweep(8));
    let row = wait(store.task(&local(), ADAS)).expect("it reads").what.expect("it is there");
    assert!(row.lease.is_some(), "nobody swept, so nobody lost a lease");
}

#[test]
fn the_amnesty_is_kept_as_soon_as_there_is_room_to_keep_it() {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, clock) = (parent.path().join("store"), clock());
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let open = || {
        let told = Arc::clone(&free);
        let mut options = options(&clock, 1);
        options.free_bytes = Arc::new(move || Some(told.load(Ordering::Relaxed)));
        SqliteStore::open(&folder, options).expect("nobody uses it")
    };
    let store = open();
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("one")));
    done(&store, claim(&local(), TaskId(1), "ada", 1));
    done(&store, Order::sweep(8));
    free.store(1, Ordering::Relaxed);
    for _ in 0..400 {
        clock.advance(Millis::seconds(1));
        is_refused_for_want_of_room(ask(&store, Order::sweep(8)).map(drop));
    }
    free.store(u64::MAX, Ordering::Relaxed);
    done(&store, Order::sweep(8));
    drop(store);
    let store = open();
    done(&store, Order::sweep(8));
    done(&store, renew(&local(), TaskId(1), "ada", 1));
}

#[test]
fn ends_are_accepted_as_soon_as_there_is_room_for_them() {
    let scene = scene();
    scene.disk.fault(Fault::NoSpace { at: 1, rewrites: true });
    is_refused_for_want_of_room(scene.ask(birth(&local(), new_task("more"))));
    scene.free(1);
    is_refused_for_want_of_room(scene.ask(says(&local(), ADAS, "ada", 1, completes())));
    assert!(scene.is_full());
    // What the ballast held is free now, and nothing else.
    scene.disk.free_space();
    is_refused_for_want_of_room(scene.ask(birth(&local(), new_task("more"))));
    scene.ask(says(&local(), ADAS, "ada", 1, completes())).expect("an end that fits");
    scene.free(u64::MAX);
    scene.ask(birth(&local(), new_task("more"))).expect("there is room again");
    assert_eq!(scene.store.fault(), None, "and nothing had to be started again");
}

#[test]
fn what_a_full_disk_undid_is_undone_for_everybody_in_the_batch() {
    let scene = scene();
    scene.gate.shut_after(&scene.store, birth(&local(), new_task("first")));
    scene.disk.fault(Fault::NoSpace { at: 1, rewrites: true });
    let eves = scene.store.submit(claim(&local(), IDLE, "eve", 3));
    let dans = scene.store.submit(claim(&local(), IDLE, "dan", 4));
    scene.gate.open();
    is_refused_for_want_of_room(wait(eves).map(drop));
    // Not held by eve: she did not get it either.
    is_refused_for_want_of_room(wait(dans).map(drop));
    scene.disk.free_space();
    scene.ask(claim(&local(), IDLE, "dan", 4)).expect("nobody had it");
    let refused = scene.ask(claim(&local(), IDLE, "eve", 3));
    assert!(matches!(refused, Err(Error::Refused(Refusal::Held { .. }))), "{refused:?}");
}

#[test]
fn a_seal_that_does_not_fit_is_refused_and_fits_later() {
    let scene = scene();
    scene.disk.fault(Fault::NoSpace { at: 1, rewrites: true });
    let refused = wait(scene.store.seal());
    assert!(matches!(refused, Err(Error::DiskFull)), "{refused:?}");
    scene.disk.free_space();
    wait(scene.store.seal()).expect("there is room again");
    let audit = wait(scene.store.audit()).expect("it reads");
    assert_eq!((audit.fault, audit.seals), (None, 1));
}

#[test]
fn where_free_room_cannot_be_measured_a_full_disk_is_tried_again() {
    let (disk, clock) = (Disk::new(1), clock());
    let mut options = options(&clock, 1);
    options.free_bytes = Arc::new(|| None);
    let store = open_on(&disk, options).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    disk.fault(Fault::NoSpace { at: 1, rewrites: true });
    is_refused_for_want_of_room(ask(&store, birth(&local(), new_task("more"))).map(drop));
    disk.free_space();
    done(&store, birth(&local(), new_task("more")));
}
