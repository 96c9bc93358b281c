use std::path::Path;

use rusqlite::Connection;

use super::{APPLICATION_ID, MIGRATIONS, bring_to, refuse_unknown};
use crate::sqlite::{Chance, OpenError};

/// What the oldest binary knows.
const FIRST: [&str; 1] = [MIGRATIONS[0]];
const SECOND: &str = "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT";
const BROKEN: &str =
    "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT; INSERT INTO nowhere VALUES (1)";

/// The copy before version 2 of a database without entries.
const COPY: &str = "before-version-2-0707070707070707-0.db";

fn chance() -> Chance {
    Box::new(|bytes| bytes.fill(7))
}

fn open(folder: &Path) -> Connection {
    let conn = Connection::open(folder.join("baton.db")).expect("it opens");
    conn.pragma_update(None, "journal_mode", "WAL").expect("a log");
    conn
}

/// A database of the first version with something in it.
fn first(folder: &Path) -> Connection {
    let mut conn = open(folder);
    bring_to(&FIRST, &mut conn, Some(folder), &mut chance()).expect("a new database");
    conn.execute_batch("INSERT INTO tenants (id, name, records_head) VALUES (1, 'ours', x'00')")
        .expect("a row");
    conn
}

fn number(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).expect("it reads")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("it reads").file_name().into_string().expect("a plain name")
    };
    let mut names: Vec<_> = entries.map(name).filter(|name| name.starts_with("before")).collect();
    names.sort();
    names
}

#[test]
fn a_new_database_needs_no_copy_and_says_whose_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let conn = first(folder.path());
    assert_eq!(names(folder.path()), Vec::<String>::new());
    assert_eq!(number(&conn, "PRAGMA application_id"), i64::from(APPLICATION_ID));
    assert_eq!(number(&conn, "PRAGMA user_version"), 1);
    assert_eq!(number(&conn, "SELECT value FROM meta WHERE name = 'min_reader'"), 1);
    assert!(number(&conn, "SELECT value FROM meta WHERE name = 'incarnation'") > 0);
}

#[test]
fn before_a_migration_one_copy_is_made_and_it_opens_as_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut conn = first(folder.path());
    let later = [MIGRATIONS[0], SECOND, "CREATE TABLE still_later (id INTEGER PRIMARY KEY) STRICT"];
    bring_to(&later, &mut conn, Some(folder.path()), &mut chance()).expect("two steps");
    bring_to(&later, &mut conn, Some(folder.path()), &mut chance()).expect("nothing to do");
    assert_eq!(number(&conn, "PRAGMA user_version"), 3);
    assert_eq!(number(&conn, "SELECT count(*) FROM tenants"), 1, "what was there is there");
    assert_eq!(names(folder.path()), [COPY], "one copy, and nothing beside it");
    let mut copy = Connection::open(folder.path().join(COPY)).expect("a copy");
    assert_eq!(number(&copy, "PRAGMA user_version"), 1);
    assert_eq!(number(&copy, "SELECT count(*) FROM tenants"), 1);
    bring_to(&FIRST, &mut copy, None, &mut chance()).expect("the old binary reads it");
}

#[test]
fn a_migration_that_fails_is_undone_and_its_copy_is_kept_while_nothing_happens() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut conn = first(folder.path());
    let broken = [MIGRATIONS[0], BROKEN];
    let failed = bring_to(&broken, &mut conn, Some(folder.path()), &mut chance());
    assert!(matches!(failed, Err(OpenError::Migration(2, _))), "{failed:?}");
    assert_eq!(number(&conn, "PRAGMA user_version"), 1);
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'later'";
    assert_eq!(number(&conn, sql), 0, "undone");
    let copy = folder.path().join(COPY);
    let bytes = std::fs::read(&copy).expect("the copy");
    bring_to(&FIRST, &mut conn, Some(folder.path()), &mut chance()).expect("as before");
    bring_to(&[MIGRATIONS[0], SECOND], &mut conn, Some(folder.path()), &mut chance())
        .expect("it is repaired");
    assert_eq!(std::fs::read(&copy).expect("the copy"), bytes, "not made again");
}

#[test]
fn what_is_newer_is_refused_by_its_version_or_by_its_minimum_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut conn = first(folder.path());
    let later = [MIGRATIONS[0], SECOND];
    bring_to(&later, &mut conn, None, &mut chance()).expect("the newer binary");
    let refused = bring_to(&FIRST, &mut conn, None, &mut chance());
    assert!(matches!(refused, Err(OpenError::Newer { found: 2, known: 1 })), "{refused:?}");
    conn.execute_batch("UPDATE meta SET value = 9 WHERE name = 'min_reader'").expect("a row");
    let refused = bring_to(&later, &mut conn, None, &mut chance());
    assert!(matches!(refused, Err(OpenError::Newer { found: 9, known: 2 })), "{refused:?}");
    let refused = refuse_unknown(&conn);
    let ours = i64::try_from(MIGRATIONS.len()).expect("a few");
    let is_newer = matches!(refused, Err(OpenError::Newer { found: 9, known }) if known == ours);
    assert!(is_newer, "{refused:?}");
}

#[test]
fn a_copy_that_cannot_be_made_stops_the_migration() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut conn = first(folder.path());
    let nowhere = folder.path().join("missing");
    let refused = bring_to(&[MIGRATIONS[0], SECOND], &mut conn, Some(&nowhere), &mut chance());
    assert!(matches!(refused, Err(OpenError::Backup(..))), "{refused:?}");
    assert_eq!(number(&conn, "PRAGMA user_version"), 1);
}

#[test]
fn a_later_try_has_a_copy_of_its_own_and_few_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut conn = first(folder.path());
    for position in 1..6 {
        let failed =
            bring_to(&[MIGRATIONS[0], BROKEN], &mut conn, Some(folder.path()), &mut chance());
        assert!(matches!(failed, Err(OpenError::Migration(2, _))), "{failed:?}");
        let sql = "INSERT INTO events
                   (tenant, position, task, version, at, principal, actor, wrote, link)
                   VALUES (1, ?1, 0, ?1, 0, 'ann', '{}', x'', x'')";
        conn.execute(sql, [position]).expect("work goes on with the old version");
    }
    let kept = [2, 3, 4].map(|at| format!("before-version-2-0707070707070707-{at}.db"));
    assert_eq!(names(folder.path()), kept);
}
