//! A store that met a fault says so to everybody, and takes nothing more.

use baton_store::{Certainty, Error, Store};
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
