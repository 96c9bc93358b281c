use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_testkit::disk::{Disk, Fault};
use rusqlite::{Connection, OpenFlags};

use super::{Shared, copy};
use crate::clock::ManualClock;

/// A database whose log holds more than the database itself.
fn logged(disk: &Disk) -> Connection {
    let flags = OpenFlags::default();
    let conn = Connection::open_with_flags_and_vfs(disk.path("baton.db"), flags, disk.vfs_name())
        .expect("it opens");
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))",
    )
    .expect("a sound disk");
    conn
}

#[test]
fn without_room_the_log_keeps_everything_until_there_is() {
    let disk = Disk::new(1);
    let (conn, shared) = (logged(&disk), Shared::new(Arc::new(ManualClock::default())));
    disk.fault(Fault::NoSpace { at: 1, rewrites: false });
    copy(&conn, "PASSIVE", &shared).expect("a full disk is no fault");
    assert!(shared.full.swap(false, Ordering::Relaxed), "but it is told");
    disk.free_space();
    copy(&conn, "TRUNCATE", &shared).expect("a sound disk");
    assert!(!shared.full.load(Ordering::Relaxed));
    let length =
        |name: &str| disk.image().files().find(|(path, _)| path.ends_with(name)).map(|f| f.1);
    assert_eq!(length("-wal"), Some(0), "the log is empty");
    assert!(length("baton.db") > Some(100_000));
}

#[test]
fn a_disk_that_fails_is_a_fault() {
    let disk = Disk::new(1);
    let (conn, shared) = (logged(&disk), Shared::new(Arc::new(ManualClock::default())));
    disk.fault(Fault::EioOnce { at: 1 });
    copy(&conn, "PASSIVE", &shared).expect_err("an I/O error");
}
