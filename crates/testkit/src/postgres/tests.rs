use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{Cluster, Database, Disk, admin, socket, url};
use crate::child::{self, Child};

const HOLDER: &str = "POSTGRES_HOLDER";

#[test]
fn a_fresh_database_is_empty_and_belongs_to_a_user_without_rights() {
    let (one, other) = (Database::fresh(), Database::fresh());
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    one.say("CREATE TABLE t (x int)");
    assert_eq!(one.say(tables), ["1"]);
    assert_eq!(other.say(tables), ["0"]);
    let who = admin::say(&one.url(), &["SELECT current_user".into()]).expect("it answers");
    assert_eq!(who, ["baton"]);
    let super_user = "SELECT rolsuper FROM pg_roles WHERE rolname = 'baton'";
    assert_eq!(one.say(super_user), ["f"]);
}

#[test]
fn a_database_goes_with_its_case() {
    let database = Database::fresh();
    let (home, name) = (database.home.clone(), database.name.clone());
    drop(database);
    let there = format!("SELECT 1 FROM pg_database WHERE datname = '{name}'");
    let found = admin::say(&url(&home, super::PORT, super::ADMIN, super::ADMIN), &[there]);
    assert_eq!(found.expect("it answers"), Vec::<String>::new());
}

#[test]
fn a_crashed_cluster_keeps_what_was_committed() {
    let mut cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    assert_eq!(database.say("SHOW fsync"), ["on"]);
    database.say("CREATE TABLE t AS SELECT 7 AS x");
    cluster.crash();
    assert!(UnixStream::connect(socket(&cluster.home)).is_err(), "it is down");
    cluster.resume();
    assert_eq!(database.say("SELECT x FROM t"), ["7"]);
}

#[test]
fn nothing_is_left_of_a_cluster_whose_test_was_killed() {
    if child::role(HOLDER).is_some() {
        let cluster = Cluster::start(Disk::Careless);
        child::say(&cluster.home.display().to_string());
        loop {
            std::thread::park();
        }
    }
    let mut home = PathBuf::new();
    let test = "postgres::tests::nothing_is_left_of_a_cluster_whose_test_was_killed";
    let end = Child::spawn(test, HOLDER, &[]).kill_at(|line| {
        home = PathBuf::from(line);
        true
    });
    assert!(end.killed);
    gone(&home);
}

/// Waits until a folder is gone; the guardian needs some moments.
fn gone(home: &Path) {
    while home.exists() {
        std::thread::yield_now();
    }
}
