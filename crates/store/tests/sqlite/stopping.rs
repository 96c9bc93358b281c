//! A store that met a fault says so to everybody, and takes nothing more.

use std::sync::atomic::{AtomicBool, Ordering};

use baton_domain::command::Command;
use baton_domain::scene::{Decision, Scene};
use baton_domain::time::Timestamp;
use baton_domain::{Refusal, decide};
use baton_store::{Certainty, Error, Filter, Store};
use baton_testkit::disk::{Disk, Fault};

use crate::cast::{birth, keyed, local, new_task, put, short_project};
use crate::oracle;
use crate::site::{Gate, ask, clock, done, open_on, options, wait};

#[test]
fn after_an_io_error_the_batch_is_unknown_and_the_rest_did_not_happen() {
    let (disk, clock) = (Disk::new(1), clock());
    let (gate, bell) = Gate::new();
    let mut opening = options(&clock, 1);
    opening.bell = bell;
    let store = open_on(&disk, opening).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    gate.shut_after(&store, birth(&local(), new_task("first")));
    disk.fault(Fault::EioSticky { at: 1 });
    let together = ["second", "third"].map(|title| keyed(birth(&local(), new_task(title)), title));
    let answers = together.clone().map(|order| store.submit(order));
    gate.open();
    for answer in answers {
        let error = wait(answer).expect_err("the disk fails");
        assert_eq!(error.certainty(), Certainty::Unknown, "{error:?}");
    }
    let why = store.fault().expect("it has stopped");
    let refused = ask(&store, birth(&local(), new_task("fourth"))).expect_err("it has stopped");
    assert!(matches!(&refused, Error::Stopped(told) if *told == why), "{refused:?}");
    assert_eq!(refused.certainty(), Certainty::DidNotHappen);
    let sealed = wait(store.seal()).expect_err("it has stopped");
    assert!(matches!(sealed, Error::Stopped(_) | Error::Read(_)), "{sealed:?}");
    let health = wait(store.health()).expect("it still tells how it is");
    assert_eq!(health.stopped, Some(why));
    drop(store);
    disk.heal();
    let store = open_on(&disk, options(&clock, 2)).expect("a sound disk again");
    for order in together {
        assert!(!done(&store, order).replayed, "nothing had been written");
    }
    drop(store);
    let folds = oracle::check(&disk.image().open().expect("it opens")).expect("it is whole");
    assert_eq!(folds["local"].tasks.len(), 3);
}

/// Whether the judge is to lose its mind over the next task.
static BREAKS: AtomicBool = AtomicBool::new(false);

fn breaking(scene: &Scene<'_>, command: &Command, now: Timestamp) -> Result<Decision, Refusal> {
    assert!(!BREAKS.load(Ordering::Relaxed), "this judge was told to break");
    decide(scene, command, now)
}

#[test]
fn a_judge_that_panics_stops_the_store_and_nobody_waits_for_ever() {
    let (disk, clock) = (Disk::new(1), clock());
    let (gate, bell) = Gate::new();
    let mut opening = options(&clock, 1);
    opening.bell = bell;
    opening.judge = breaking;
    let store = open_on(&disk, opening).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    gate.shut_after(&store, birth(&local(), new_task("first")));
    BREAKS.store(true, Ordering::Relaxed);
    let poison = store.submit(birth(&local(), new_task("second")));
    gate.open();
    let error = wait(poison).expect_err("the judge broke");
    assert_eq!(error.certainty(), Certainty::Unknown, "{error:?}");
    let refused = ask(&store, birth(&local(), new_task("third"))).expect_err("it has stopped");
    assert!(matches!(refused, Error::Stopped(_) | Error::Unknown(_)), "{refused:?}");
    BREAKS.store(false, Ordering::Relaxed);
    drop(store);
    let store = open_on(&disk, options(&clock, 2)).expect("a sound disk");
    let page = wait(store.tasks(&local(), Filter { count_max: 9, ..Filter::default() }));
    assert_eq!(page.expect("it reads").rows.len(), 1, "what broke the judge left no trace");
}

#[test]
fn what_was_accepted_is_carried_out_even_if_nobody_waits_for_the_answer() {
    let (disk, clock) = (Disk::new(1), clock());
    let (gate, bell) = Gate::new();
    let mut opening = options(&clock, 1);
    opening.bell = bell;
    let store = open_on(&disk, opening).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    gate.shut_after(&store, birth(&local(), new_task("first")));
    for title in ["second", "third", "fourth"] {
        drop(store.submit(birth(&local(), new_task(title))));
    }
    gate.open();
    drop(store);
    assert_eq!(disk.image().files().count(), 1, "no log is left behind: {:?}", disk.image());
    let folds = oracle::check(&disk.image().open().expect("it opens")).expect("it is whole");
    assert_eq!(folds["local"].tasks.len(), 4);
}
