//! Several connections of one process on one disk, and several disks in one process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::workload::{FULL, Verdict, checkpoint, commit, connect, found, inspect, start, survey};
use crate::disk::Disk;

/// What the threads have done so far.
#[derive(Debug, Default)]
struct Progress {
    looks: AtomicU32,
    moves: AtomicU32,
    done: AtomicBool,
}

/// Reads until the writer is done; a reader never sees part of a batch, nor an older state.
fn look_on(disk: &Disk, progress: &Progress) {
    let db = connect(disk).expect("another connection opens");
    let mut seen = 0;
    while !progress.done.load(Ordering::Relaxed) {
        // One transaction, or a batch could come between two of the questions.
        db.execute_batch("BEGIN").expect("a reader begins");
        let verdict = found(&db).expect("a reader reads");
        db.execute_batch("COMMIT").expect("a reader ends");
        let Verdict::Sound(now) = verdict else { panic!("{verdict:?}") };
        assert!(now >= seen, "a reader went back from {seen} to {now}");
        seen = now;
        progress.looks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Moves the log until the writer is done.
fn move_log(disk: &Disk, progress: &Progress) {
    let db = connect(disk).expect("another connection opens");
    db.execute_batch("PRAGMA synchronous = FULL").expect("a known level");
    while !progress.done.load(Ordering::Relaxed) {
        checkpoint(&db, "PASSIVE").expect("a checkpoint beside a writer");
        progress.moves.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
    }
}

#[test]
fn writer_checkpointer_and_readers_share_a_disk() {
    let disk = Disk::new(1);
    let mut writer = start(&disk, FULL).expect("a sound disk starts");
    let progress = Progress::default();
    std::thread::scope(|scope| {
        scope.spawn(|| look_on(&disk, &progress));
        scope.spawn(|| look_on(&disk, &progress));
        scope.spawn(|| move_log(&disk, &progress));
        for batch in 1..=400 {
            commit(&mut writer, batch).expect("a writer beside readers");
            disk.mark(u64::from(batch));
            let looks = progress.looks.load(Ordering::Relaxed);
            let moves = progress.moves.load(Ordering::Relaxed);
            // On a busy machine the others come late; they must have been there.
            if batch >= 40 && looks >= 20 && moves >= 20 {
                break;
            }
            std::thread::yield_now();
        }
        progress.done.store(true, Ordering::Relaxed);
    });
    let stride = (disk.log_len() / 200).max(1);
    let tally = survey(disk.cuts(1).stride(stride));
    println!("shared: {progress:?}, {tally:?}");
    assert!(progress.looks.into_inner() > 0 && progress.moves.into_inner() > 0);
    assert!(tally.clean(), "{tally:?}");
}

#[test]
fn a_second_writer_waits_for_the_first() {
    let disk = Disk::new(2);
    let first = start(&disk, FULL).expect("a sound disk starts");
    let second = connect(&disk).expect("another connection opens");
    second.busy_timeout(Duration::ZERO).expect("a timeout is set");
    first.execute_batch("BEGIN IMMEDIATE").expect("the first writes");
    let refused = second.execute_batch("BEGIN IMMEDIATE").expect_err("one writes at a time");
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    first.execute_batch("COMMIT").expect("the first ends");
    second.execute_batch("BEGIN IMMEDIATE; COMMIT").expect("then the second writes");
}

#[test]
fn a_rollback_writer_keeps_readers_out_and_they_it() {
    let disk = Disk::new(3);
    let writer = start(&disk, FULL).expect("a sound disk starts");
    writer.pragma_update(None, "journal_mode", "DELETE").expect("no one else has it open");
    writer.busy_timeout(Duration::ZERO).expect("a timeout is set");
    let reader = connect(&disk).expect("another connection opens");
    reader.busy_timeout(Duration::ZERO).expect("a timeout is set");
    reader.execute_batch("BEGIN; SELECT * FROM last").expect("a reader reads");
    let change = "BEGIN IMMEDIATE; UPDATE last SET batch = 1; COMMIT";
    writer.execute_batch(change).expect_err("a reader is in the way");
    reader.execute_batch("COMMIT").expect("a reader ends");
    writer.execute_batch("COMMIT").expect("then the writer commits");
    writer.execute_batch("BEGIN EXCLUSIVE").expect("no one else reads");
    reader.execute_batch("SELECT * FROM last").expect_err("a writer is in the way");
}

#[test]
fn the_last_connection_out_leaves_one_file_and_the_next_finds_all() {
    let disk = Disk::new(4);
    let mut db = start(&disk, FULL).expect("a sound disk starts");
    commit(&mut db, 1).expect("a sound disk works");
    assert_eq!(disk.image().files().count(), 2, "a database and its log: {:?}", disk.image());
    db.close().expect("nothing is in use");
    assert_eq!(disk.image().files().count(), 1, "the log is gone: {:?}", disk.image());
    assert_eq!(inspect(connect(&disk), 1), Verdict::Sound(1));
}

#[test]
fn a_connection_outlives_its_disk_and_meets_no_other() {
    let mut orphan = start(&Disk::new(5), FULL).expect("a sound disk starts");
    let other = Disk::new(6);
    let mut db = start(&other, FULL).expect("a sound disk starts");
    for batch in 1..=3 {
        commit(&mut orphan, batch).expect("an orphan works on");
    }
    commit(&mut db, 1).expect("a sound disk works");
    drop(orphan);
    assert_eq!(inspect(connect(&other), 1), Verdict::Sound(1));
}

#[test]
fn a_disk_that_is_gone_gives_its_name_to_an_empty_one() {
    let names: std::collections::HashSet<String> = (0..100)
        .map(|seed| {
            let disk = Disk::new(seed);
            assert_eq!(disk.image().files().count(), 0);
            drop(start(&disk, FULL).expect("a sound disk starts"));
            disk.vfs_name().to_owned()
        })
        .collect();
    // Tests that run beside this one hold names too, so there may be several, but not a hundred.
    assert!(names.len() < 50, "{} names for one disk at a time", names.len());
}

#[test]
fn a_killed_process_leaves_its_files_but_no_lock() {
    let disk = Disk::new(8);
    let mut db = start(&disk, FULL).expect("a sound disk starts");
    commit(&mut db, 1).expect("a sound disk works");
    db.execute_batch("BEGIN IMMEDIATE; UPDATE last SET batch = 7").expect("a change begins");
    disk.kill();
    assert_eq!(inspect(connect(&disk), 1), Verdict::Sound(1));
    db.execute_batch("COMMIT").expect_err("the dead write nothing");
    let mut next = start(&disk, FULL).expect("the next process starts");
    commit(&mut next, 2).expect("no lock is left");
    drop(db);
    commit(&mut next, 3).expect("the end of the dead disturbs no one");
    assert_eq!(inspect(connect(&disk), 3), Verdict::Sound(3));
}
