//! An order that breaks is undone and answered; everything else goes on.

use std::sync::Arc;

use baton_domain::command::{Command, NewTask};
use baton_domain::ids::TaskId;
use baton_domain::scene::{Decision, Scene};
use baton_domain::time::{Millis, Timestamp};
use baton_domain::{Refusal, decide};
use baton_store::clock::ManualClock;
use baton_store::order::{Aim, Order};
use baton_store::sqlite::SqliteStore;
use baton_store::{Certainty, Error, Store};
use baton_testkit::disk::Disk;
use rusqlite::{Connection, OpenFlags};

use crate::cast::{birth, claim, done as completes, local, new_task, put, says, short_project};
use crate::oracle;
use crate::site::{Gate, ask, clock, done, open_on, options, wait};

/// A judge that loses its mind over whatever is called so.
fn breaking(scene: &Scene<'_>, command: &Command, now: Timestamp) -> Result<Decision, Refusal> {
    if let Command::Create(new) = command {
        assert!(new.title.as_str() != "poison", "this judge cannot bear it");
    }
    let poisoned = scene.task.is_some_and(|task| task.flow.id == TaskId(2));
    assert!(!(poisoned && matches!(command, Command::Time(_))), "nor the passing of its time");
    decide(scene, command, now)
}

fn opened(disk: &Disk, clock: &Arc<ManualClock>) -> (SqliteStore, Gate) {
    let (gate, bell) = Gate::new();
    let mut opening = options(clock, 1);
    opening.bell = bell;
    opening.judge = breaking;
    (open_on(disk, opening).expect("a sound disk"), gate)
}

/// Submits orders so that they make one batch; tells how each was answered.
fn together(store: &SqliteStore, gate: &Gate, orders: Vec<Order>) -> Vec<Result<(), Error>> {
    gate.shut_after(store, birth(&local(), new_task("first")));
    let answers: Vec<_> = orders.into_iter().map(|order| store.submit(order)).collect();
    gate.open();
    answers.into_iter().map(|answer| wait(answer).map(drop)).collect()
}

#[track_caller]
fn check_guilty(answer: &Result<(), Error>) {
    let Err(error) = answer else { panic!("it cannot be carried out") };
    assert!(matches!(error, Error::Internal(_)), "{error:?}");
    assert_eq!(error.certainty(), Certainty::DidNotHappen);
}

#[test]
fn an_order_over_which_the_judge_panics_is_refused_and_the_others_go_on() {
    let (disk, clock) = (Disk::new(1), clock());
    let (store, gate) = opened(&disk, &clock);
    done(&store, put(&local(), short_project()));
    let titles = ["second", "poison", "third"];
    let orders = titles.map(|title| birth(&local(), new_task(title))).into();
    let answers = together(&store, &gate, orders);
    check_guilty(&answers[1]);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(store.fault(), None);
    done(&store, birth(&local(), new_task("fourth")));
    drop(store);
    let folds = oracle::check(&disk.image().open().expect("it opens")).expect("it is whole");
    assert_eq!(folds["local"].tasks.len(), 4, "what broke the judge left no trace");
}

/// Three tasks; whatever ends an attempt of the second violates a constraint.
fn with_a_row_in_the_way(disk: &Disk, clock: &Arc<ManualClock>) {
    let (store, _gate) = opened(disk, clock);
    done(&store, put(&local(), short_project()));
    for title in ["one", "two", "three"] {
        let id = done(&store, birth(&local(), new_task(title))).task.expect("a task").id;
        done(&store, claim(&local(), id, "ada", u128::from(id.0)));
    }
    drop(store);
    let flags = OpenFlags::default();
    let db = Connection::open_with_flags_and_vfs(disk.path("baton.db"), flags, disk.vfs_name());
    let sql = "INSERT INTO attempts (tenant, task, number, run, version, principal, body)
               VALUES (1, 2, 1, 1, 2, 'eve', '{}')";
    db.and_then(|db| db.execute_batch(sql)).expect("whoever has the file may change it");
}

fn ended(store: &SqliteStore, id: u64) -> bool {
    let row = wait(store.task(&local(), TaskId(id))).expect("it reads").what;
    row.expect("it is there").lease.is_none()
}

#[test]
fn an_order_that_violates_a_constraint_is_undone_and_the_others_go_on() {
    let (disk, clock) = (Disk::new(1), clock());
    with_a_row_in_the_way(&disk, &clock);
    let (store, gate) = opened(&disk, &clock);
    let complete = |id| says(&local(), TaskId(id), "ada", 1, completes());
    let answers = together(&store, &gate, vec![complete(1), complete(2), complete(3)]);
    check_guilty(&answers[1]);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!([1, 2, 3].map(|id| ended(&store, id)), [true, false, true]);
    assert_eq!(store.fault(), None);
    done(&store, birth(&local(), new_task("more")));
    check_guilty(&ask(&store, complete(2)).map(drop));
    let fault = wait(store.audit()).expect("it can be audited").fault;
    let what = fault.map(|fault| fault.what);
    assert_eq!(what, Some("the history of the task was changed"), "that row alone is wrong");
}

#[test]
fn a_task_for_which_time_cannot_pass_does_not_stop_the_time_of_the_others() {
    let (disk, clock) = (Disk::new(1), clock());
    with_a_row_in_the_way(&disk, &clock);
    let mut opening = options(&clock, 1);
    opening.judge = decide;
    let store = open_on(&disk, opening).expect("a sound disk");
    done(&store, Order::sweep(8));
    for _ in 0..200 {
        clock.advance(Millis::seconds(4));
        let swept = done(&store, Order::sweep(8)).swept;
        assert!(!swept.more, "what is set aside is not due");
    }
    assert_eq!([1, 2, 3].map(|id| ended(&store, id)), [true, false, true]);
    assert_eq!(store.fault(), None);
}

#[test]
fn a_judge_that_panics_over_the_passing_of_time_is_asked_once() {
    let (disk, clock) = (Disk::new(1), clock());
    let (store, _gate) = opened(&disk, &clock);
    done(&store, put(&local(), short_project()));
    let at = Some(Timestamp(clock_now(&clock) + 1_000));
    for title in ["one", "two", "three"] {
        let NewTask { project, .. } = new_task(title);
        let new = NewTask { start_at: at, ..new_task(title) };
        let aim = Aim::Birth(project, vec![Command::Create(Box::new(new))]);
        done(&store, Order { aim, ..birth(&local(), new_task(title)) });
    }
    clock.advance(Millis::seconds(2));
    let swept = done(&store, Order::sweep(8)).swept;
    assert_eq!((swept.due, swept.more), (2, false), "the second is set aside");
    assert_eq!(done(&store, Order::sweep(8)).swept.due, 0);
}

fn clock_now(clock: &ManualClock) -> i64 {
    baton_store::Clock::now(clock).0
}
