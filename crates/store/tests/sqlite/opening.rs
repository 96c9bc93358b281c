//! What may be opened, by whom, and what is left alone.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use baton_store::order::Order;
use baton_store::sqlite::{OpenError, SqliteStore};
use baton_store::{PepperDigest, Store};
use baton_testkit::disk::{Disk, Fault};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::cast::{birth, local, new_task, put, short_project};
use crate::oracle;
use crate::site::{clock, done, open_on, options, wait};

fn open(folder: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(folder, options(&clock(), 1))
}

fn refusal(folder: &Path) -> OpenError {
    match open(folder) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// A folder in which a store has lived, and the path of its database.
fn lived_in() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("store");
    let store = open(&folder).expect("a new store");
    done(&store, put(&local(), short_project()));
    drop(store);
    let database = folder.join("baton.db");
    (parent, folder, database)
}

/// The bytes of the database and of its log.
fn bytes(folder: &Path) -> BTreeMap<&'static str, Option<Vec<u8>>> {
    // A log that is empty says as much as none.
    let read = |name| std::fs::read(folder.join(name)).ok().filter(|bytes| !bytes.is_empty());
    ["baton.db", "baton.db-wal"].into_iter().map(|name| (name, read(name))).collect()
}

#[test]
fn a_folder_in_use_is_refused_and_free_again_afterwards() {
    let (_parent, folder, _) = lived_in();
    let store = open(&folder).expect("nobody uses it");
    let refused = refusal(&folder);
    assert!(matches!(&refused, OpenError::InUse(path) if *path == folder), "{refused:?}");
    done(&store, birth(&local(), new_task("undisturbed")));
    drop(store);
    open(&folder).expect("nobody uses it any more");
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
    for change in
        ["PRAGMA user_version = 99", "UPDATE meta SET value = 99 WHERE name = 'min_reader'"]
    {
        let (_parent, folder, database) = lived_in();
        let db = Connection::open(&database).expect("it opens");
        db.execute_batch(change).expect("a newer binary writes");
        // It died and left a log behind, which is its own to copy back.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("a setting");
        db.close().expect("it closes");
        let left = bytes(&folder);
        let refused = refusal(&folder);
        let newer = matches!(refused, OpenError::Newer { found: 99, known: 3 });
        assert!(newer, "{change}: {refused:?}");
        assert!(refused.to_string().contains("99"), "{refused}");
        assert_eq!(bytes(&folder), left, "{change}");
        assert!(left["baton.db-wal"].is_some(), "there was a log to leave alone");
    }
}

#[test]
fn a_foreign_database_is_refused_and_left_as_it_is() {
    for foreign in [
        "CREATE TABLE recipes (name TEXT)",
        "PRAGMA application_id = 12; CREATE TABLE recipes (name TEXT)",
        "PRAGMA user_version = 1; CREATE TABLE recipes (name TEXT)",
        "PRAGMA application_id = 1113682030; CREATE TABLE recipes (name TEXT)",
    ] {
        let (_parent, folder, database) = lived_in();
        std::fs::remove_file(&database).expect("it is there");
        Connection::open(&database).and_then(|db| db.execute_batch(foreign)).expect("a database");
        let left = bytes(&folder);
        let refused = refusal(&folder);
        assert!(matches!(refused, OpenError::NotBaton), "{foreign}: {refused:?}");
        assert_eq!(bytes(&folder), left, "{foreign}");
    }
}

#[test]
fn a_damaged_head_is_refused_and_left_as_it_is() {
    let (_parent, folder, database) = lived_in();
    let whole = std::fs::read(&database).expect("it is there");
    // The name at the front; the application id; the page size; the schema on the first page.
    for (from, to) in [(0, 16), (68, 72), (16, 18), (100, 200)] {
        let mut damaged = whole.clone();
        damaged[from..to].fill(0x5a);
        std::fs::write(&database, &damaged).expect("a real disk");
        let refused = refusal(&folder);
        let known = matches!(refused, OpenError::NotBaton | OpenError::Damaged(_));
        assert!(known, "{from}: {refused:?}");
        assert_eq!(std::fs::read(&database).expect("it is there"), damaged, "{from}");
    }
}

#[test]
fn a_database_that_cannot_be_read_to_its_end_is_refused() {
    for change in [
        "DROP TABLE meta",
        "DELETE FROM meta WHERE name = 'min_reader'",
        "DROP TABLE leases",
        "INSERT INTO flows (tenant, task, stage, head, body) VALUES (1, 1, 'x', zeroblob(32), '{')",
    ] {
        let (_parent, folder, database) = lived_in();
        Connection::open(&database).and_then(|db| db.execute_batch(change)).expect("a change");
        let refused = refusal(&folder);
        assert!(matches!(refused, OpenError::Damaged(_)), "{change}: {refused:?}");
    }
}

#[test]
fn a_folder_that_others_can_read_or_that_is_elsewhere_is_not_ours() {
    let parent = tempfile::tempdir().expect("a folder");
    let open_to_all = parent.path().join("open");
    std::fs::create_dir(&open_to_all).expect("a folder");
    for mode in [0o755, 0o750, 0o701] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&open_to_all, permissions).expect("it is ours to open");
        let refused = refusal(&open_to_all);
        assert!(matches!(refused, OpenError::NotOurs(_)), "{mode:o}: {refused:?}");
    }
    let (_parent, folder, _) = lived_in();
    let link = parent.path().join("link");
    symlink(&folder, &link).expect("a link");
    assert!(matches!(refusal(&link), OpenError::NotOurs(_)), "a link may be moved");
    let file = parent.path().join("file");
    std::fs::write(&file, "no folder").expect("a file");
    assert!(matches!(refusal(&file), OpenError::Io(..)));
    let left: Vec<_> = std::fs::read_dir(&open_to_all).expect("a folder").collect();
    assert!(left.is_empty(), "nothing was put there: {left:?}");
}

#[test]
fn a_process_that_dies_while_the_store_is_made_leaves_it_openable() {
    let mut deaths = 0;
    for at in 1.. {
        let disk = Disk::new(at);
        let armed = disk.fault(Fault::EioSticky { at });
        let opened = open_on(&disk, options(&clock(), 1));
        let died = opened.is_err() || armed.fired() > 0;
        disk.kill();
        drop(opened);
        disk.heal();
        if !died {
            break;
        }
        deaths += 1;
        let store = open_on(&disk, options(&clock(), 2)).expect("the next one makes it");
        done(&store, put(&local(), short_project()));
        done(&store, birth(&local(), new_task("first")));
        assert_eq!(wait(store.audit()).expect("it reads").fault, None);
        drop(store);
        oracle::check(&disk.image().open().expect("it opens")).expect("it is whole");
    }
    assert!(deaths > 50, "only {deaths} deaths");
}

#[test]
fn a_power_cut_while_the_store_is_made_leaves_it_openable() {
    let disk = Disk::new(1);
    drop(open_on(&disk, options(&clock(), 1)).expect("a sound disk"));
    let mut cuts = 0;
    for cut in disk.cuts(1).stride(2) {
        let disk = cut.image.mount(1);
        let store = open_on(&disk, options(&clock(), 2))
            .unwrap_or_else(|error| panic!("{error:?} after {cut:?}"));
        done(&store, put(&local(), short_project()));
        cuts += 1;
    }
    assert!(cuts > 100, "only {cuts} cuts");
}

#[test]
fn each_store_has_a_life_of_its_own_and_keeps_it() {
    let (disk, other) = (Disk::new(1), Disk::new(2));
    let names = |disk: &Disk, seed| {
        let store = open_on(disk, options(&clock(), seed)).expect("it opens");
        (store.incarnation(), store.deployment())
    };
    let first = names(&disk, 1);
    assert_eq!(names(&disk, 5), first);
    let second = names(&other, 2);
    assert_ne!(second.0, first.0);
    assert_ne!(second.1, first.1, "two installations never reap each other");
}

#[test]
fn a_wrong_pepper_is_refused_and_the_right_one_opens_still() {
    let disk = Disk::new(1);
    let with = |pepper: [u8; 32]| {
        let mut opening = options(&clock(), 1);
        opening.pepper = Some(PepperDigest(pepper));
        open_on(&disk, opening).map(drop)
    };
    with([1; 32]).expect("the first one counts");
    let refused = with([2; 32]).expect_err("another one does not");
    assert!(matches!(refused, OpenError::WrongPepper), "{refused:?}");
    assert!(refused.to_string().contains("pepper"), "{refused}");
    with([1; 32]).expect("nothing was changed");
}

#[test]
fn health_is_true_from_the_first_moment() {
    let disk = Disk::new(1);
    let store = open_on(&disk, options(&clock(), 1)).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("one")));
    done(&store, Order::sweep(8));
    let before = wait(store.health()).expect("it tells");
    drop(store);
    let store = open_on(&disk, options(&clock(), 1)).expect("a sound disk");
    let after = wait(store.health()).expect("it tells");
    assert_eq!((after.overdue, after.live), (before.overdue, before.live));
    assert_eq!(after.live, 1);
    assert_eq!(after.overdue.0, 0);
}

#[test]
fn the_schema_is_the_one_that_was_reviewed() {
    let disk = Disk::new(1);
    drop(open_on(&disk, options(&clock(), 1)).expect("a sound disk"));
    let db = disk.image().open().expect("it opens");
    let mut found = db
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
        .expect("it reads");
    let parts: rusqlite::Result<Vec<String>> =
        found.query_map([], |row| row.get(0)).and_then(Iterator::collect);
    let text = format!("{};\n", parts.expect("it reads").join(";\n\n"));
    expect_test::expect_file!["../../schema.sql"].assert_eq(&text);
}
