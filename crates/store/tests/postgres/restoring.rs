//! A database that came back belongs to nobody who held something in it, and nobody serves half of
//! one.

use std::path::Path;

use baton_domain::Refusal;
use baton_domain::command::Agent;
use baton_domain::ids::TaskId;
use baton_store::order::Aim;
use baton_store::postgres::backup::{self, Error};
use baton_store::postgres::restoring::Restoring;
use baton_store::postgres::{OpenError, PostgresStore, Unfinished};
use baton_store::{Cursor, Store};
use baton_testkit::postgres::{Cluster, Database, Disk};

use crate::cast::{ann, birth, claim, local, new_task, order, put, renew, says, short_project};
use crate::site::{ask, chance, close, done, opened, options, refused, wait};

/// A task that somebody holds, and a cursor that somebody reads by.
struct Before {
    task: TaskId,
    cursor: Cursor,
    incarnation: u64,
}

fn fill(store: &PostgresStore) -> Before {
    done(store, put(&local(), short_project()));
    let flow = done(store, birth(&local(), new_task("held"))).task.expect("a task");
    done(store, claim(&local(), flow.id, "bot", 7));
    let incarnation = store.incarnation();
    Before { task: flow.id, cursor: Cursor { incarnation, position: 1 }, incarnation }
}

/// Nothing from before is good any more, and the work goes on.
fn is_another_life(store: &PostgresStore, before: &Before) {
    assert_ne!(store.incarnation(), before.incarnation);
    let lost = |answer: Result<_, baton_store::Error>| {
        let refused = answer.map(drop).expect_err("it is from another life");
        let is_lost = matches!(refused, baton_store::Error::Refused(Refusal::LeaseLost));
        assert!(is_lost, "{refused:?}");
    };
    lost(ask(store, renew(&local(), before.task, "bot", 1)));
    lost(ask(store, says(&local(), before.task, "bot", 1, Agent::Begin)));
    done(store, order(&local(), ann(), Aim::Sweep(100)));
    lost(ask(store, renew(&local(), before.task, "bot", 1)));
    let old = wait(store.entries(&local(), before.cursor, 10));
    assert!(old.is_err(), "a cursor of another life has expired");
    let row = wait(store.task(&local(), before.task)).expect("it reads").what.expect("it is there");
    assert!(row.lease.is_none(), "{row:?}");
    assert_eq!(wait(store.audit()).expect("it walks").fault, None);
}

fn begin(file: &Path, database: &Database) -> Result<Restoring, Error> {
    wait(Restoring::begin(file, &database.url(), &mut chance(9), None))
}

fn begin_here(database: &Database) -> Result<Restoring, Error> {
    wait(Restoring::begin_here(&database.url(), &mut chance(9), None))
}

/// Waits until nobody is connected: whoever is gone is noticed a moment later.
fn quiet(database: &Database) {
    let others = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while !database.say(others).is_empty() {
        std::thread::yield_now();
    }
}

/// What a restore is that did not come about.
fn why(begun: Result<Restoring, Error>) -> Error {
    match begun {
        Ok(_) => panic!("it was begun"),
        Err(error) => error,
    }
}

#[test]
fn a_restore_that_was_killed_is_not_served_and_the_next_one_begins_anew() {
    let folder = tempfile::tempdir().expect("there is room");
    let copy = folder.path().join("copy.dump");
    let cluster = Cluster::start(Disk::Careful);
    let (database, empty) = (cluster.database(), cluster.database());
    let store = opened(&database.url(), 1);
    let before = fill(&store);
    wait(backup::back_up(&database.url(), &copy, None)).expect("it is copied");
    close(store);

    let killed = begin(&copy, &empty).expect("it is begun");
    assert!(matches!(why(begin(&copy, &empty)), Error::Busy), "somebody is at it");
    // Whoever is killed lets go of its connection, and of nothing else.
    drop(killed);
    quiet(&empty);
    let half = refused(&empty.url(), options(2));
    assert!(matches!(half, OpenError::Unfinished(Unfinished::Copy)), "{half}");
    assert!(half.to_string().contains("baton restore FILE"), "{half}");
    let walked = wait(backup::verify(&empty.url(), None));
    assert!(matches!(walked, Err(Error::Open(OpenError::Unfinished(_)))), "{walked:?}");
    let here = why(begin_here(&empty));
    assert!(matches!(here, Error::Open(OpenError::Unfinished(Unfinished::Copy))), "{here}");

    let begun = begin(&copy, &empty).expect("what is there is cleared");
    let restored = wait(begun.finish()).expect("it is finished");
    let store = opened(&empty.url(), 3);
    assert_eq!(store.incarnation(), restored.incarnation);
    is_another_life(&store, &before);
    close(store);
    assert!(matches!(why(begin(&copy, &empty)), Error::NotEmpty), "nothing is written over");
}

#[test]
fn what_is_no_copy_changes_nothing_and_what_fails_leaves_nothing() {
    let folder = tempfile::tempdir().expect("there is room");
    let cluster = Cluster::start(Disk::Careful);
    let (database, empty) = (cluster.database(), cluster.database());
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "CREATE TABLE precious (x int)").expect("it can be written");
    assert!(matches!(why(begin(&text, &empty)), Error::NotACopy(_)));
    let store = opened(&database.url(), 1);
    fill(&store);
    close(store);
    let copy = folder.path().join("copy.dump");
    wait(backup::back_up(&database.url(), &copy, None)).expect("it is copied");
    // The way back is barred after the mark was set: a type of that name is in the way.
    empty.say("CREATE DOMAIN meta AS text");
    let failed = why(begin(&copy, &empty));
    assert!(matches!(failed, Error::Tool("pg_restore", _)), "{failed}");
    let left = "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert_eq!(empty.say(left), Vec::<String>::new());
}

#[test]
fn a_database_that_came_back_by_other_means_is_given_another_life() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    assert!(matches!(why(begin_here(&database)), Error::Empty));
    let pooled = format!("{}&pooler=transaction", database.url());
    let lent = wait(Restoring::begin_here(&pooled, &mut chance(9), None));
    assert!(matches!(why(lent), Error::Pooled), "what it holds would be lent on");
    let store = opened(&database.url(), 1);
    let before = fill(&store);
    assert!(matches!(why(begin_here(&database)), Error::InUse), "a server is at work");
    done(&store, order(&local(), ann(), Aim::Sweep(100)));
    close(store);
    quiet(&database);

    drop(begin_here(&database).expect("nobody is at work"));
    quiet(&database);
    let half = refused(&database.url(), options(2));
    assert!(matches!(half, OpenError::Unfinished(Unfinished::Life)), "{half}");
    assert!(half.to_string().contains("baton restore --here"), "{half}");
    wait(begin_here(&database).expect("it is done again").finish()).expect("it is finished");
    let store = opened(&database.url(), 3);
    is_another_life(&store, &before);
    close(store);
}
