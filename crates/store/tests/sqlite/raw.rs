//! What is on the disk, read without the store: what is parked leaves no lease, and history cannot
//! be changed by a slip of ours.

use std::sync::Arc;

use baton_domain::command::{Command, Person, Supervisor};
use baton_domain::ids::TaskId;
use baton_domain::time::Millis;
use baton_store::clock::ManualClock;
use baton_store::order::{Aim, Order};
use baton_store::read::Happened;
use baton_store::sqlite::SqliteStore;
use baton_store::{Cursor, Error, Store};
use baton_testkit::disk::Disk;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};

use crate::cast::{
    abandon, agent, birth, by, claim, done as completes, local, needs_input, new_task, note, order,
    person, put, says, short_project, text,
};
use crate::site::{clock, done, open_on, options, wait};

/// Sixteen bytes that are nowhere else.
const NONCE: u128 = 0x5ac3_1f0e_9d77_b2c4_8e61_f35a_0b9d_c742;

fn open(disk: &Disk, clock: &Arc<ManualClock>) -> SqliteStore {
    open_on(disk, options(clock, 1)).expect("a sound disk")
}

fn beside(disk: &Disk) -> Connection {
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(disk.path("baton.db"), flags, disk.vfs_name())
        .expect("it opens")
}

/// Where on the disk some bytes are.
fn whereabouts(disk: &Disk, wanted: &[u8]) -> Vec<String> {
    let files = disk.image().bytes().into_iter();
    let holds = |bytes: &[u8]| bytes.windows(wanted.len()).any(|some| some == wanted);
    files.filter(|(_, bytes)| holds(bytes)).map(|(path, _)| path).collect()
}

/// Claims a task, ends the attempt in some way, and looks for what is left of the lease.
fn check(how: &str, end: impl Fn(&SqliteStore, &ManualClock, TaskId)) {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    // Others come and go around it, so that its row is moved about.
    for title in ["one", "two", "three", "four"] {
        let id = done(&store, birth(&local(), new_task(title))).task.expect("a task").id;
        let nonce = if title == "three" { NONCE } else { u128::from(id.0) };
        done(&store, claim(&local(), id, "ada", nonce));
    }
    drop(store);
    assert_eq!(whereabouts(&disk, &NONCE.to_be_bytes()).len(), 1, "{how}: while it is held");
    let store = open(&disk, &clock);
    end(&store, &clock, TaskId(3));
    let leases = "SELECT count(*) FROM leases WHERE task = 3";
    let left = beside(&disk).query_row(leases, [], |row| row.get::<_, i64>(0));
    assert_eq!(left, Ok(0), "{how}: the row of the lease");
    drop(store);
    assert_eq!(whereabouts(&disk, &NONCE.to_be_bytes()), Vec::<String>::new(), "{how}");
}

#[test]
fn what_is_parked_or_over_leaves_no_lease_on_the_disk() {
    check("block", |store, _, id| {
        done(store, says(&local(), id, "ada", 1, needs_input()));
    });
    check("complete", |store, _, id| {
        done(store, says(&local(), id, "ada", 1, completes()));
    });
    check("release", |store, _, id| {
        let release = Supervisor::Release { reason: text("enough"), until: None };
        let commands = vec![Command::Supervisor(by("ada", 1), release)];
        done(store, order(&local(), agent("ada"), Aim::Task(id, commands)));
    });
    check("taken away", |store, _, id| {
        done(store, person(&local(), id, Person::Release(text("mine"))));
    });
    check("close", |store, _, id| {
        done(store, abandon(&local(), id));
    });
    check("expiry", |store, clock, _| {
        for _ in 0..80 {
            clock.advance(Millis::seconds(4));
            done(store, Order::sweep(8));
        }
    });
}

/// A store that has one row of everything, and its disk.
fn with_history() -> Disk {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    let id = done(&store, birth(&local(), new_task("one"))).task.expect("a task").id;
    done(&store, claim(&local(), id, "ada", 1));
    done(&store, says(&local(), id, "ada", 1, note("so far")));
    done(&store, says(&local(), id, "ada", 1, completes()));
    wait(store.seal()).expect("a seal");
    drop(store);
    disk
}

#[test]
fn history_is_guarded_by_the_database_itself() {
    let disk = with_history();
    let db = beside(&disk);
    for table in ["runs", "attempts", "checkpoints", "seals", "events"] {
        let rows = format!("SELECT count(*) FROM {table}");
        let before: i64 = db.query_row(&rows, [], |row| row.get(0)).expect("it reads");
        assert!(before > 0, "{table} has rows to guard");
        let mut columns = db.prepare(&format!("PRAGMA table_info({table})")).expect("it reads");
        let columns: Vec<String> =
            columns.query_map([], |row| row.get(1)).and_then(Iterator::collect).expect("it reads");
        for column in columns {
            let change = format!("UPDATE {table} SET {column} = {column}");
            let refused = db.execute_batch(&change).expect_err(&change).to_string();
            assert!(refused.contains("never changes"), "{change}: {refused}");
        }
        let refused = db.execute_batch(&format!("DELETE FROM {table}")).expect_err(table);
        assert!(refused.to_string().contains("kept"), "{table}: {refused}");
        assert_eq!(db.query_row(&rows, [], |row| row.get(0)), Ok(before), "{table}");
    }
}

#[test]
fn a_payload_can_be_erased_in_one_way_and_stays_erased() {
    let disk = with_history();
    let db = beside(&disk);
    let sql = "SELECT salt, payload FROM events WHERE position = 4";
    let (salt, payload): (Vec<u8>, String) =
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("it reads");
    assert!(payload.contains("so far"));
    let digest: [u8; 32] =
        Sha256::new().chain_update(&salt).chain_update(&payload).finalize().into();
    for set in [
        "payload = NULL",
        "payload = NULL, salt = NULL",
        "payload = 'x', digest = ?1",
        "salt = NULL, digest = ?1",
        "payload = NULL, salt = NULL, digest = ?1, at = at + 1",
        "payload = NULL, salt = NULL, digest = ?1, actor = 'x'",
        "payload = NULL, salt = NULL, digest = ?1, link = zeroblob(32)",
        "payload = NULL, salt = NULL, digest = ?1, version = 99",
    ] {
        let change = format!("UPDATE events SET {set} WHERE position = 4 AND ?1 IS NOT NULL");
        db.execute(&change, [digest]).expect_err(set);
    }
    let erase = "UPDATE events SET payload = NULL, salt = NULL, digest = ?1 WHERE position = 4";
    assert_eq!(db.execute(erase, [digest]), Ok(1));
    db.execute(erase, [[9_u8; 32]]).expect_err("what is erased stays as it is");
    db.close().expect("it closes");
    let store = open(&disk, &clock());
    let audit = wait(store.audit()).expect("it can be audited");
    assert_eq!((audit.fault, audit.entries, audit.seals), (None, 5, 1), "the chain still holds");
    let entries = wait(store.entries_of(&local(), TaskId(1), 3, 1)).expect("it reads");
    assert_eq!(entries.rows[0].happened, Happened::Erased);
}

#[test]
fn below_a_raised_floor_a_cursor_has_expired_and_a_fresh_reader_begins_at_it() {
    let disk = with_history();
    let db = beside(&disk);
    db.execute_batch("UPDATE tenants SET floor = 3; DELETE FROM events WHERE position <= 3")
        .expect("what is below the floor may go");
    db.close().expect("it closes");
    let store = open(&disk, &clock());
    let life = store.incarnation();
    let read = |incarnation, position| match wait(store.entries(
        &local(),
        Cursor { incarnation, position },
        9,
    )) {
        Ok(page) => Ok(page.rows.iter().map(|entry| entry.position).collect::<Vec<_>>()),
        Err(Error::CursorExpired { floor }) => Err(floor),
        Err(error) => panic!("it reads: {error}"),
    };
    assert_eq!(read(0, 0), Ok(vec![4, 5]), "whoever saw nothing misses nothing");
    assert_eq!(read(life, 0), Err(3), "whoever saw an empty store misses what was dropped");
    assert_eq!(read(life, 2), Err(3));
    assert_eq!(read(life, 3), Ok(vec![4, 5]));
}
