//! Faults at every I/O in turn, and syncs that fail.

use rusqlite::Connection;

use super::workload::{
    FULL, Setup, Tally, Verdict, checkpoint, commit, connect, inspect, inspect_image, run, start,
    survey,
};
use crate::disk::{Disk, Fault};
use crate::rounds;

/// How many batches each run is to write, in spite of its fault.
const BATCHES: u32 = 12;

/// How often a run tries again before it waits for the fault to end.
const TRIES_MAX: u32 = 6;

/// Every how many entries a disk with a failed sync is cut off.
const STRIDE: usize = 4;

/// What one run under a fault came to.
#[derive(Debug, Default)]
struct Course {
    fired: u64,
    errors: u32,
    after: u32,
}

/// Writes all batches under a fault with one connection for as long as it can be had.
///
/// After an error it asks which batch was the last, because a commit that failed may yet have
/// happened. When it has failed too often, the fault is lifted, and it must go on.
fn endure(seed: u64, fault: Fault, lift: fn(&Disk)) -> Course {
    let disk = Disk::new(seed);
    let armed = disk.fault(fault);
    let mut course = Course::default();
    let mut open: Option<Connection> = None;
    let mut acked = 0;
    while acked < BATCHES {
        match advance(&disk, &mut open, &mut acked) {
            Ok(()) if course.errors >= TRIES_MAX => course.after += 1,
            Ok(()) => {}
            Err(_) => {
                course.errors += 1;
                assert!(course.errors < 10 * TRIES_MAX, "no way out of {fault:?}");
                if course.errors == TRIES_MAX {
                    lift(&disk);
                }
            }
        }
    }
    course.fired = armed.fired();
    disk.heal();
    let acked = u64::from(acked);
    let told = format!("{fault:?}: {course:?}\n{}", disk.story(disk.log_len()));
    assert_eq!(inspect(connect(&disk), acked), Verdict::Sound(acked), "{told}");
    for cut in disk.cut(seed) {
        assert_eq!(inspect_image(&cut.image, acked), Verdict::Sound(acked), "{cut:?}\n{told}");
    }
    course
}

/// Takes one step: opens the database, or finds the last batch and writes the next.
fn advance(disk: &Disk, open: &mut Option<Connection>, acked: &mut u32) -> rusqlite::Result<()> {
    let db = match open {
        Some(db) => db,
        None => open.insert(start(disk, FULL)?),
    };
    let last: u32 = db.query_row("SELECT batch FROM last", [], |row| row.get(0))?;
    assert!(last >= *acked, "batch {acked} was acknowledged, the last is {last}");
    if last == *acked {
        commit(db, last + 1)?;
    }
    *acked += 1;
    disk.mark(u64::from(*acked));
    if acked.is_multiple_of(4) {
        checkpoint(db, "PASSIVE")?;
    }
    Ok(())
}

/// Runs with the fault at every I/O until one lies behind the end of the run.
fn everywhere(name: &str, fault: fn(u64) -> Fault, lift: fn(&Disk)) -> (u64, u64, u32) {
    let (mut runs, mut fired, mut after) = (0, 0, 0);
    for seed in 0..rounds(1) {
        for at in 1.. {
            let course = endure(seed, fault(at), lift);
            if course.fired == 0 {
                break;
            }
            runs += 1;
            fired += course.fired;
            after += course.after;
        }
    }
    println!(
        "{name}: {runs} runs, {fired} failed I/Os, {after} batches after the fault was lifted"
    );
    assert!(runs > 100, "only {runs} runs met their fault");
    (runs, fired, after)
}

#[test]
fn one_failed_io_anywhere_loses_nothing() {
    let (runs, fired, _) = everywhere("EIO once", |at| Fault::EioOnce { at }, Disk::heal);
    assert_eq!(runs, fired, "each fault strikes once");
}

#[test]
fn a_disk_that_fails_from_anywhere_on_loses_nothing() {
    let (.., after) = everywhere("EIO sticky", |at| Fault::EioSticky { at }, Disk::heal);
    assert!(after > 0, "no run went on after the fault");
}

#[test]
fn a_full_disk_loses_nothing_and_works_again_once_freed() {
    let grow = |at| Fault::NoSpace { at, rewrites: false };
    let (.., after) = everywhere("full, growing", grow, Disk::free_space);
    assert!(after > 0, "no run went on after space was freed");
    let any = |at| Fault::NoSpace { at, rewrites: true };
    let (.., after) = everywhere("full, any write", any, Disk::free_space);
    assert!(after > 0, "no run went on after space was freed");
}

#[test]
fn faults_overlap_and_each_tells_of_itself() {
    let disk = Disk::new(2);
    let mut db = start(&disk, FULL).expect("a sound disk starts");
    let sync = disk.fault(Fault::SyncFails { at: 2 });
    let full = disk.fault(Fault::NoSpace { at: 1, rewrites: true });
    let never = disk.fault(Fault::EioOnce { at: 1_000_000 });
    commit(&mut db, 1).expect_err("no space");
    disk.free_space();
    commit(&mut db, 1).expect("space again, and the first sync");
    commit(&mut db, 2).expect_err("the second sync fails");
    commit(&mut db, 2).expect("the third does not");
    assert_eq!((sync.fired(), never.fired()), (1, 0));
    assert!(full.fired() > 0 && disk.fired() == sync.fired() + full.fired());
}

#[test]
fn a_change_to_wal_that_fails_may_have_answered_wal() {
    let misled = (1..=12).filter(|&at| {
        let disk = Disk::new(3);
        let db = connect(&disk).expect("a sound disk opens");
        let armed = disk.fault(Fault::EioOnce { at });
        let ask = |sql| db.query_row(sql, [], |row| row.get::<_, String>(0));
        // One row is read and the rest of the statement abandoned, and with it the error.
        let answer = ask("PRAGMA journal_mode = WAL");
        armed.fired() == 1
            && answer.is_ok_and(|mode| mode == "wal")
            && db.execute_batch("CREATE TABLE t (n)").is_ok()
            && ask("PRAGMA journal_mode").is_ok_and(|mode| mode == "delete")
    });
    assert!(misled.count() > 0, "the answer can be trusted, and the workload need not doubt it");
}

/// What a program does about an error of the database.
#[derive(Clone, Copy)]
enum Policy {
    /// It ends and stays away.
    Stop,
    /// It tries again in the same process.
    CarryOn,
    /// It ends, and the next process goes on from what it finds.
    Restart,
    /// The next process writes the log once more before it looks at it.
    RestartRewriting,
}

/// Fails each sync in turn under a policy and inspects the power cuts from the failure on.
///
/// It ends when every sync has had its turn, or as soon as `enough` says.
fn sync_failures(
    setup: Setup,
    power_safe: bool,
    policy: Policy,
    enough: fn(&Tally) -> bool,
) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..rounds(1) {
        fail_each_sync(seed, setup, power_safe, policy, enough, &mut tally);
    }
    tally
}

fn fail_each_sync(
    seed: u64,
    setup: Setup,
    power_safe: bool,
    policy: Policy,
    enough: fn(&Tally) -> bool,
    tally: &mut Tally,
) {
    for at in 1.. {
        let disk = Disk::new(seed);
        disk.set_power_safe_overwrite(power_safe);
        let mut db = start(&disk, setup).expect("a sound disk starts");
        let armed = disk.fault(Fault::SyncFails { at });
        let from = disk.log_len();
        let mut result = run(&disk, &mut db, 1, BATCHES);
        if result.is_err() {
            result = recover(&disk, &mut db, setup, policy);
        }
        result.expect("a sync fails once");
        if armed.fired() == 0 || enough(tally) {
            break;
        }
        tally.merge(&survey(disk.cuts(seed).from(from).stride(STRIDE)));
    }
}

fn recover(disk: &Disk, db: &mut Connection, setup: Setup, policy: Policy) -> rusqlite::Result<()> {
    match policy {
        Policy::Stop => return Ok(()),
        Policy::CarryOn => {}
        Policy::Restart | Policy::RestartRewriting => {
            disk.kill();
            if matches!(policy, Policy::RestartRewriting) {
                disk.rewrite("work.db-wal");
            }
            *db = start(disk, setup)?;
        }
    }
    let last: u32 = db.query_row("SELECT batch FROM last", [], |row| row.get(0))?;
    run(disk, db, last + 1, last + 6)
}

#[test]
fn a_failed_sync_loses_nothing_if_the_program_stops_or_tries_again() {
    for policy in [Policy::Stop, Policy::CarryOn] {
        let tally = sync_failures(FULL, true, policy, |_| false);
        println!("failed sync: {tally:?}");
        assert!(tally.clean() && tally.cuts > 500, "{tally:?}");
    }
}

#[test]
fn a_restart_after_a_failed_sync_is_safe_only_if_the_log_is_written_again() {
    let tally = sync_failures(FULL, true, Policy::Restart, |tally| tally.lost > 50);
    println!("restart after a failed sync: {tally:?}");
    assert!(tally.lost > 0, "the check overlooks what the kernel only seems to have: {tally:?}");
    let tally = sync_failures(FULL, true, Policy::RestartRewriting, |_| false);
    println!("restart that writes the log again: {tally:?}");
    assert!(tally.clean() && tally.cuts > 500, "{tally:?}");
}

#[test]
fn a_checkpoint_that_sqlite_runs_by_itself_hides_a_failed_sync() {
    let setup = Setup { autocheckpoint: 16, ..FULL };
    let tally = sync_failures(setup, false, Policy::CarryOn, |tally| !tally.clean());
    println!("hidden failed sync: {tally:?}");
    assert!(!tally.clean(), "the check overlooks a sync that failed unseen: {tally:?}");
}
