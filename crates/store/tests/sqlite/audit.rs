//! Whoever changes the history behind the store's back is found out, and the place is named.

use baton_store::Store;
use baton_store::chain::Audit;
use baton_store::sqlite::SqliteStore;
use baton_testkit::disk::{Disk, Image};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::cast::{
    birth, claim, done as completes, local, new_task, note, put, says, short_project, tenant,
};
use crate::site::{clock, done, open_on, options, wait};

fn audit(store: &SqliteStore) -> Audit {
    wait(store.audit()).expect("it can be audited")
}

/// Two tenants with a dozen entries each, sealed up to the ninth of the first.
fn written() -> Image {
    let disk = Disk::new(1);
    let store = open_on(&disk, options(&clock(), 1)).expect("a sound disk");
    for tenant in [local(), tenant("other")] {
        done(&store, put(&tenant, short_project()));
        for title in ["one", "two", "three"] {
            let born = done(&store, birth(&tenant, new_task(title)));
            let id = born.task.expect("a task").id;
            done(&store, claim(&tenant, id, "ada", 1));
            done(&store, says(&tenant, id, "ada", 1, note(title)));
            if title == "two" && tenant == local() {
                assert_eq!(
                    done(&store, says(&tenant, id, "ada", 1, completes())).position,
                    Some(8)
                );
                wait(store.seal()).expect("a seal");
            }
        }
    }
    assert_eq!((audit(&store).fault, audit(&store).entries), (None, 21));
    drop(store);
    disk.image()
}

/// Changes a copy of the database with all triggers gone, and has it audited.
fn tampered(image: &Image, change: impl FnOnce(&Connection)) -> Audit {
    let disk = image.mount(2);
    let db = Connection::open_with_flags_and_vfs(
        disk.path("baton.db"),
        rusqlite::OpenFlags::default(),
        disk.vfs_name(),
    )
    .expect("it opens");
    let triggers: Vec<String> = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
        .expect("it reads");
    for trigger in triggers {
        db.execute_batch(&format!("DROP TRIGGER {trigger}")).expect("whoever has the file may");
    }
    change(&db);
    db.close().expect("it closes");
    audit(&open_on(&disk, options(&clock(), 3)).expect("a changed history still opens"))
}

fn sql(text: &str) -> impl FnOnce(&Connection) {
    move |db| db.execute_batch(text).expect("whoever has the file may change it")
}

#[track_caller]
fn check(image: &Image, change: &str, tenant: &str, position: u64) {
    let fault = tampered(image, sql(change)).fault;
    let fault = fault.unwrap_or_else(|| panic!("nobody noticed: {change}"));
    assert_eq!((fault.tenant.as_str(), fault.position), (tenant, position), "{change}: {fault:?}");
}

#[test]
fn every_column_of_an_entry_is_guarded() {
    let image = written();
    for set in [
        "at = at + 1",
        "principal = 'eve'",
        "actor = replace(actor, 'ada', 'eve')",
        "salt = zeroblob(16)",
        "salt = NULL",
        "payload = replace(payload, 'two', 'too')",
        "payload = NULL",
        "payload = NULL, salt = NULL",
        "digest = zeroblob(32)",
        "digest = zeroblob(32), payload = NULL, salt = NULL",
        "link = zeroblob(32)",
        "wrote = zeroblob(32)",
        "wrote = x''",
        "task = 1, version = 99",
        "version = 98",
    ] {
        let change = format!("UPDATE events SET {set} WHERE tenant = 1 AND position = 7");
        check(&image, &change, "local", 7);
    }
    check(
        &image,
        "UPDATE events SET tenant = 2, position = 99, task = 98
                   WHERE tenant = 1 AND position = 7",
        "local",
        7,
    );
    check(&image, "UPDATE events SET position = 99 WHERE tenant = 1 AND position = 7", "local", 7);
}

#[test]
fn what_is_missing_or_exchanged_is_named() {
    let image = written();
    check(&image, "DELETE FROM events WHERE tenant = 1 AND position = 1", "local", 1);
    check(&image, "DELETE FROM events WHERE tenant = 1 AND position = 5", "local", 5);
    check(&image, "DELETE FROM events WHERE tenant = 2 AND position = 6", "other", 6);
    let swap = "UPDATE events SET position = 100 WHERE tenant = 1 AND position = 3;
                UPDATE events SET position = 3 WHERE tenant = 1 AND position = 6;
                UPDATE events SET position = 6 WHERE tenant = 1 AND position = 100";
    check(&image, swap, "local", 3);
}

#[test]
fn a_tail_that_was_sealed_cannot_be_cut() {
    // Whoever cuts the tail puts the rows of the tasks back, too; the seal goes up to the eighth.
    let cut = "CREATE TEMP TABLE kept AS SELECT body FROM main.flows LIMIT 1;
               DELETE FROM events WHERE tenant = 1 AND position >= 6;
               DELETE FROM flows WHERE tenant = 1;
               DELETE FROM ended WHERE tenant = 1;
               INSERT INTO flows
               SELECT tenant, task, 'coding', link, (SELECT body FROM kept) FROM events e
               WHERE tenant = 1 AND task > 0 AND version =
                 (SELECT max(version) FROM events WHERE tenant = 1 AND task = e.task)";
    let fault = tampered(&written(), sql(cut)).fault.expect("the seal knows of more");
    assert!(fault.tenant == "local" && fault.position <= 8, "{fault:?}");
}

#[test]
fn the_rows_of_tasks_hang_on_their_chains() {
    let image = written();
    check(
        &image,
        "UPDATE flows SET head = zeroblob(32) WHERE tenant = 1 AND task = 3",
        "local",
        11,
    );
    check(&image, "UPDATE ended SET head = zeroblob(32) WHERE tenant = 1 AND task = 2", "local", 8);
    check(&image, "DELETE FROM flows WHERE tenant = 2 AND task = 2", "other", 7);
    check(&image, "UPDATE tenants SET records_head = zeroblob(32) WHERE id = 1", "local", 1);
    let last = "DELETE FROM events WHERE tenant = 1 AND position = 11";
    let fault = tampered(&image, sql(last)).fault.expect("a row knows of a later entry");
    assert_eq!(fault.position, 10, "the chain of the task ends there");
}

#[test]
fn seals_are_guarded_like_what_they_seal() {
    let image = written();
    for set in ["digest = zeroblob(32)", "signature = zeroblob(64)", "key = zeroblob(32)"] {
        check(&image, &format!("UPDATE seals SET {set} WHERE tenant = 1"), "local", 8);
    }
    check(&image, "UPDATE seals SET up_to = 7 WHERE tenant = 1", "local", 7);
    check(&image, "UPDATE seals SET up_to = 99 WHERE tenant = 1", "local", 99);
}

#[test]
fn sealing_twice_seals_once_and_the_unsealed_tail_is_walked_too() {
    let disk = written().mount(1);
    let store = open_on(&disk, options(&clock(), 2)).expect("a sound disk");
    assert_eq!(audit(&store).seals, 1);
    wait(store.seal()).expect("a seal");
    let sealed = audit(&store);
    assert_eq!((sealed.seals, sealed.entries, sealed.fault), (3, 21, None), "one more for each");
    wait(store.seal()).expect("nothing to seal is no error");
    assert_eq!(audit(&store).seals, 3);
    done(&store, birth(&local(), new_task("later")));
    let more = audit(&store);
    assert_eq!((more.seals, more.entries, more.fault), (3, 22, None));
    let health = wait(store.health()).expect("it tells");
    assert_eq!(health.verified_entries, 22);
}

#[test]
fn an_erased_payload_leaves_the_chain_whole() {
    let image = written();
    let erased = tampered(&image, |db| {
        let (salt, payload): (Vec<u8>, String) = db
            .query_row(
                "SELECT salt, payload FROM events WHERE tenant = 1 AND position = 7",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .expect("it reads");
        let digest: [u8; 32] =
            Sha256::new().chain_update(&salt).chain_update(&payload).finalize().into();
        db.execute(
            "UPDATE events SET payload = NULL, salt = NULL, digest = ?1
             WHERE tenant = 1 AND position = 7",
            [digest],
        )
        .expect("it is allowed");
    });
    assert_eq!((erased.fault, erased.entries), (None, 21));
}

#[test]
fn the_body_of_a_row_hangs_on_its_entry() {
    let image = written();
    let retold = |table: &str, task: u64| {
        format!(
            "UPDATE {table} SET body = replace(body, '\"id\":', '\"note\":1,\"id\":')
             WHERE tenant = 1 AND task = {task}"
        )
    };
    check(&image, &retold("flows", 3), "local", 11);
    check(&image, &retold("ended", 2), "local", 8);
    let brief =
        "UPDATE briefs SET body = replace(body, 'two', 'too') WHERE tenant = 1 AND task = 2";
    check(&image, brief, "local", 5);
    let note = "UPDATE checkpoints SET body = replace(body, 'one', 'won') WHERE tenant = 1";
    check(&image, note, "local", 4);
    check(&image, "DELETE FROM attempts WHERE tenant = 1 AND task = 2", "local", 8);
    let forged = "INSERT INTO runs (tenant, task, number, version, body)
                  SELECT tenant, task, 9, version, body FROM runs WHERE tenant = 1 AND task = 2";
    check(&image, forged, "local", 8);
}

#[test]
fn history_that_came_with_no_entry_is_found() {
    let image = written();
    // The checkpoint of the second task came with its third entry, the seventh of all; it has four.
    for (number, version, position) in [(9, 3, 7), (9, 2, 7), (0, 2, 6), (9, 4, 8), (9, 99, 8)] {
        let forged = format!(
            "INSERT INTO checkpoints (tenant, task, number, run, version, body)
             SELECT tenant, task, {number}, run, {version}, body FROM checkpoints
             WHERE tenant = 1 AND task = 2"
        );
        check(&image, &forged, "local", position);
    }
}

#[test]
fn a_row_without_an_entry_is_found() {
    let image = written();
    let forged = "INSERT INTO flows (tenant, task, stage, head, body)
                  SELECT tenant, 77, stage, zeroblob(32), body FROM flows WHERE tenant = 1 LIMIT 1";
    check(&image, forged, "local", 0);
    let brief = "UPDATE briefs SET version = 99 WHERE tenant = 1 AND task = 2";
    check(&image, brief, "local", 0);
}

#[test]
fn an_audit_in_small_parts_finds_what_one_in_one_piece_finds() {
    let image = written();
    let disk = image.mount(2);
    let store = open_on(&disk, options(&clock(), 3)).expect("a sound disk");
    let whole = audit(&store);
    let mut parts = 0;
    let walked = loop {
        parts += 1;
        let part = wait(store.audit_part(2)).expect("it can be audited");
        let health = wait(store.health()).expect("it tells");
        assert_eq!(health.tampered, None);
        // Work goes on meanwhile, and a part holds on to nothing.
        if parts == 3 {
            done(&store, birth(&local(), new_task("meanwhile")));
        }
        if part.ended {
            break part;
        }
    };
    assert_eq!((walked.entries, walked.seals), (whole.entries + 1, whole.seals));
    assert!(parts > 10, "only {parts} parts");
    let again = wait(store.audit_part(2)).expect("it begins anew");
    assert_eq!((again.entries, again.ended), (2, false));
    let health = wait(store.health()).expect("it tells");
    assert_eq!((health.verified_entries, health.audit_age.is_some()), (22, true));
}

#[test]
fn what_a_part_finds_is_in_the_health_until_a_whole_round_finds_nothing() {
    let image = written();
    let disk = image.mount(2);
    let store = open_on(&disk, options(&clock(), 3)).expect("a sound disk");
    let beside = || {
        let flags = rusqlite::OpenFlags::default();
        Connection::open_with_flags_and_vfs(disk.path("baton.db"), flags, disk.vfs_name())
            .expect("it opens")
    };
    let change = |from: &str, to: &str| {
        let sql = "UPDATE flows SET body = replace(body, ?1, ?2) WHERE tenant = 1 AND task = 3";
        assert_eq!(beside().execute(sql, [from, to]), Ok(1));
    };
    change("\"id\":", "\"note\":1,\"id\":");
    while wait(store.audit_part(4)).expect("it can be audited").fault.is_none() {}
    let told = || wait(store.health()).expect("it tells").tampered;
    assert_eq!(told().map(|fault| fault.position), Some(11));
    change("\"note\":1,\"id\":", "\"id\":");
    while !wait(store.audit_part(4)).expect("it can be audited").ended {}
    assert_eq!(told(), None);
}

#[test]
fn seals_of_an_earlier_key_hold_and_those_of_a_foreign_one_do_not() {
    let disk = written().mount(1);
    let reopened = |byte: u8| {
        let mut opening = options(&clock(), 2);
        opening.signing = Some(ed25519_dalek::SigningKey::from_bytes(&[byte; 32]));
        open_on(&disk, opening).expect("a sound disk")
    };
    for byte in [8, 9] {
        let store = reopened(byte);
        done(&store, birth(&local(), new_task("under a new key")));
        wait(store.seal()).expect("a seal");
        assert_eq!(audit(&store).fault, None, "the keys before it are vouched for");
    }
    let flags = rusqlite::OpenFlags::default();
    let db = Connection::open_with_flags_and_vfs(disk.path("baton.db"), flags, disk.vfs_name());
    let sql = "UPDATE seal_keys SET vouched = zeroblob(64) WHERE id = 1";
    db.and_then(|db| db.execute_batch(sql)).expect("whoever has the file may change it");
    let fault = audit(&reopened(9)).fault.expect("nobody vouches for the first key");
    assert_eq!(fault.what, "the seal's signature does not hold");
}
