use std::path::Path;

use rusqlite::Connection;

use super::{
    Error, Restoring, about, back_up, finish, is_in_use, is_unfinished, leftovers, restore, verify,
};
use crate::sqlite::{Options, SqliteStore};

fn chance(seed: u8) -> crate::sqlite::Chance {
    Box::new(move |bytes| bytes.fill(seed))
}

fn options(seed: u8) -> Options {
    Options::new(baton_domain::decide, chance(seed), Path::new("."))
}

/// A folder of a store, closed again.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(folder.path(), ours).expect("it is ours");
    drop(SqliteStore::open(folder.path(), options(7)).expect("a new store"));
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("it reads").file_name().into_string().expect("a plain name")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn a_copy_is_made_while_the_store_is_in_use_and_is_one_file() {
    let (from, to) = (folder(), tempfile::tempdir().expect("a folder"));
    let store = SqliteStore::open(from.path(), options(7)).expect("it opens");
    assert!(is_in_use(from.path()).expect("it can be asked"));
    back_up(from.path(), &to.path().join("copy.db"), None).expect("a copy");
    assert_eq!(names(to.path()), ["copy.db"]);
    drop(store);
    assert!(!is_in_use(from.path()).expect("it can be asked"));
}

#[test]
fn a_copy_never_takes_the_place_of_anything() {
    let from = folder();
    let to = from.path().join("copy.db");
    std::fs::write(&to, "mine").expect("it can be written");
    let refused = back_up(from.path(), &to, None).expect_err("it exists");
    assert!(matches!(refused, Error::Exists(path) if path == to));
    assert_eq!(std::fs::read_to_string(&to).expect("it is there"), "mine");
}

#[test]
fn a_restored_store_has_another_life_and_the_old_one_is_kept() {
    let from = folder();
    let copy = from.path().join("copy.db");
    back_up(from.path(), &copy, None).expect("a copy");
    let before = about(from.path()).expect("it can be looked at").incarnation;
    let restored = restore(&copy, from.path(), &mut chance(9), None).expect("it comes back");
    assert_ne!(restored.incarnation, before);
    let now = about(from.path()).expect("it can be looked at");
    assert_eq!(now.incarnation, restored.incarnation);
    let aside = restored.aside.expect("something was there");
    let old = Connection::open(aside.join("baton.db")).expect("it opens");
    let sql = "SELECT value FROM meta WHERE name = 'incarnation'";
    let kept: i64 = old.query_row(sql, [], |row| row.get(0)).expect("it reads");
    assert_eq!(u64::try_from(kept).expect("it is positive"), before);
    drop(SqliteStore::open(from.path(), options(7)).expect("it opens"));
}

#[test]
fn nothing_is_brought_back_under_a_running_server() {
    let from = folder();
    let copy = from.path().join("copy.db");
    back_up(from.path(), &copy, None).expect("a copy");
    let store = SqliteStore::open(from.path(), options(7)).expect("it opens");
    let refused = restore(&copy, from.path(), &mut chance(9), None).expect_err("it is in use");
    assert!(refused.to_string().contains("in use"), "{refused}");
    drop(store);
    assert_eq!(names(from.path()).iter().filter(|name| name.contains("rest")).count(), 0);
}

#[test]
fn an_interrupted_restore_is_finished_by_whoever_comes_next() {
    let from = folder();
    let copy = from.path().join("copy.db");
    back_up(from.path(), &copy, None).expect("a copy");
    // As a crash right after the commit point leaves it, and one half-way through the moving.
    for crash_after_moving in [false, true] {
        let staged = from.path().join("restored-00000000000000aa.db");
        std::fs::copy(&copy, &staged).expect("it can be copied");
        assert!(is_unfinished(from.path()));
        let aside = from.path().join("before-restore-00000000000000aa");
        if crash_after_moving {
            std::fs::remove_dir_all(&aside).expect("left by the round before");
            std::fs::create_dir(&aside).expect("a folder");
            let moved = std::fs::rename(from.path().join("baton.db"), aside.join("baton.db"));
            moved.expect("it moves");
        }
        drop(SqliteStore::open(from.path(), options(7)).expect("it finishes and opens"));
        assert!(!is_unfinished(from.path()) && aside.join("baton.db").is_file());
    }
    assert_eq!(finish(from.path()).expect("nothing is left to do"), None);
}

#[test]
fn what_is_no_database_of_ours_is_refused_and_left_alone() {
    let (from, other) = (folder(), tempfile::tempdir().expect("a folder"));
    let file = other.path().join("notes.db");
    std::fs::write(&file, "dear diary, this is no database at all").expect("it can be written");
    let before = names(from.path());
    assert!(restore(&file, from.path(), &mut chance(9), None).is_err());
    assert_eq!(names(from.path()), before);
    assert!(matches!(verify(other.path(), None), Err(Error::NoDatabase(_))));
}

#[test]
fn a_copy_whose_chain_was_cut_gets_no_name() {
    let from = folder();
    let conn = Connection::open(from.path().join("baton.db")).expect("it opens");
    let sql = "INSERT INTO tenants (id, name, records_head) VALUES (1, 'ours', zeroblob(32));
               INSERT INTO seals (tenant, up_to, digest, key, signature)
               VALUES (1, 3, zeroblob(32), zeroblob(32), zeroblob(64))";
    conn.execute_batch(sql).expect("whoever has the file may");
    drop(conn);
    let to = from.path().join("copy.db");
    let refused = back_up(from.path(), &to, None).expect_err("a tail is missing");
    assert_eq!(
        refused.to_string(),
        "the tail that this seal covers is missing, in tenant ours at position 3"
    );
    assert!(!to.exists() && !from.path().join("copy.db.partial").exists());
}

#[test]
fn what_a_killed_copy_left_is_removed_by_the_next_and_nothing_else_is() {
    let (from, to) = (folder(), tempfile::tempdir().expect("a folder"));
    let at = |name: &str| to.path().join(name);
    back_up(from.path(), &at("whole.db"), None).expect("a copy");
    std::fs::copy(at("whole.db"), at("killed.db.partial")).expect("it can be copied");
    std::fs::write(at("killed.db.partial-journal"), "x").expect("it can be written");
    std::fs::write(at("young.db.partial"), "").expect("it can be written");
    std::fs::write(at("film.mkv.partial"), "x".repeat(4_096)).expect("it can be written");
    std::fs::copy(at("whole.db"), at("busy.db.partial")).expect("it can be copied");
    let busy = std::fs::File::open(at("busy.db.partial")).expect("it opens");
    busy.lock().expect("nobody holds it");
    let mut left = leftovers(to.path());
    left.sort();
    assert_eq!(left, [at("killed.db.partial"), at("young.db.partial")]);
    back_up(from.path(), &at("next.db"), None).expect("a copy");
    let there = names(to.path());
    assert_eq!(there, ["busy.db.partial", "film.mkv.partial", "next.db", "whole.db"]);
}

#[test]
fn a_restore_that_is_given_up_changes_nothing_and_one_that_was_killed_is_cleared_away() {
    let from = folder();
    let copy = from.path().join("copy.db");
    back_up(from.path(), &copy, None).expect("a copy");
    let before = (names(from.path()), about(from.path()).expect("it can be looked at"));
    let begun = Restoring::begin(&copy, from.path(), &mut chance(9), None).expect("it begins");
    let draft = begun.folder().to_owned();
    drop(SqliteStore::open(&draft, options(7)).expect("it can be opened and changed"));
    drop(begun);
    assert_eq!((names(from.path()), about(from.path()).expect("it is there")), before);
    std::fs::create_dir(&draft).expect("as if killed");
    std::fs::write(draft.join("baton.db"), "half").expect("it can be written");
    restore(&copy, from.path(), &mut chance(9), None).expect("it comes back");
    assert!(!draft.exists());
}
