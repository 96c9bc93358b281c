//! Power cuts under the workload: what must hold, and that the check would notice if it did not.

use super::workload::{
    FULL, Setup, Tally, Verdict, commit, connect, inspect, inspect_image, run, start, survey,
};
use crate::disk::{Cuts, Disk, Fault};
use crate::rounds;

/// Writes `batches` batches on a new disk and gives the disk.
fn worked(seed: u64, setup: Setup, batches: u32) -> Disk {
    let disk = Disk::new(seed);
    let mut db = start(&disk, setup).expect("a sound disk starts");
    run(&disk, &mut db, 1, batches).expect("a sound disk works");
    disk
}

#[test]
fn full_sync_loses_nothing_that_was_acknowledged() {
    let mut tally = Tally::default();
    for seed in 0..rounds(2) {
        let disk = worked(seed, FULL, 45);
        for cut in disk.cuts(seed) {
            let verdict = inspect_image(&cut.image, cut.acked);
            tally.add(&verdict);
            let sound = matches!(verdict, Verdict::Sound(_));
            assert!(sound, "seed {seed}: {verdict:?} at {cut:?}\n{}", disk.story(cut.at));
        }
    }
    println!("FULL: {tally:?}");
    assert!(tally.cuts > 3_000, "only {} cuts were tried", tally.cuts);
}

#[test]
fn full_sync_loses_nothing_on_a_disk_that_harms_neighbouring_bytes() {
    let disk = Disk::new(3);
    disk.set_power_safe_overwrite(false);
    let mut db = start(&disk, FULL).expect("a sound disk starts");
    run(&disk, &mut db, 1, 40).expect("a sound disk works");
    let tally = survey(disk.cuts(3).stride(2));
    println!("FULL, no safe overwrite: {tally:?}");
    assert!(tally.clean(), "{tally:?}");
}

#[test]
fn normal_sync_loses_acknowledged_batches_whole() {
    let setup = Setup { synchronous: "NORMAL", ..FULL };
    let tally = survey(worked(1, setup, 40).cuts(1).stride(2));
    println!("NORMAL: {tally:?}");
    assert!(tally.lost > 0, "the check overlooks lost batches: {tally:?}");
    assert_eq!(tally.half + tally.corrupt, 0, "what is left is whole: {tally:?}");
}

#[test]
fn no_sync_leaves_databases_broken() {
    let setup = Setup { synchronous: "OFF", ..FULL };
    let tally = survey(worked(1, setup, 30).cuts(1).stride(3));
    println!("OFF: {tally:?}");
    assert!(tally.half + tally.corrupt > 0, "the check overlooks damage: {tally:?}");
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let disk = Disk::new(5);
    let mut db = start(&disk, FULL).expect("a sound disk starts");
    let lies = disk.fault(Fault::SyncLies { at: 20 });
    run(&disk, &mut db, 1, 30).expect("lies look like a sound disk");
    assert!(lies.fired() > 0, "no sync was lied about");
    let tally = survey(disk.cuts(5).stride(5));
    println!("lying disk: {tally:?}");
    assert!(tally.lost > 0, "the check overlooks a lying disk: {tally:?}");
}

#[test]
fn a_second_cut_during_recovery_loses_nothing_either() {
    let disk = worked(7, FULL, 20);
    let mut tally = Tally::default();
    for cut in disk.cuts(7).stride(53) {
        let again = cut.image.mount(cut.outcome);
        let verdict = inspect(connect(&again), cut.acked);
        let Verdict::Sound(last) = verdict else { panic!("{verdict:?} at {cut:?}") };
        let last = u32::try_from(last).expect("few batches");
        // What recovery showed to a reader counts as acknowledged from then on.
        again.mark(u64::from(last));
        let mut db = start(&again, FULL).expect("a recovered database starts");
        for batch in last + 1..=last + 2 {
            commit(&mut db, batch).expect("a recovered database works");
            again.mark(u64::from(batch));
        }
        tally.merge(&survey(again.cuts(cut.outcome).stride(3)));
    }
    println!("second cut: {tally:?}");
    assert!(tally.clean() && tally.cuts > 200, "{tally:?}");
}

#[test]
fn a_rollback_journal_comes_back_unless_the_directory_is_synced() {
    let lost = |synchronous: &str| {
        let disk = Disk::new(9);
        let mut db = start(&disk, FULL).expect("a sound disk starts");
        db.pragma_update(None, "journal_mode", "DELETE").expect("no one else has it open");
        db.pragma_update(None, "synchronous", synchronous).expect("a known level");
        for batch in 1..=10 {
            commit(&mut db, batch).expect("a sound disk works");
            disk.mark(u64::from(batch));
        }
        let tally = survey(disk.cuts(9));
        println!("rollback journal, {synchronous}: {tally:?}");
        assert_eq!(tally.half + tally.corrupt, 0, "{synchronous}: {tally:?}");
        tally.lost
    };
    assert_eq!(lost("EXTRA"), 0);
    assert!(lost("FULL") > 0, "a deletion that is not synced may not have happened");
}

#[test]
fn a_cut_is_the_same_whenever_it_is_looked_at() {
    let disk = worked(11, FULL, 10);
    let mixed = disk.cuts(11).from(disk.log_len() / 2).find(|cut| cut.outcome > 1);
    let at = mixed.expect("something waits for a sync").at;
    let rows = |cuts: Cuts| -> Vec<_> {
        let here = cuts.filter(|cut| cut.at == at && cut.outcome > 0);
        here.map(|cut| (cut.acked, cut.image.bytes())).collect()
    };
    let once = rows(disk.cuts(11));
    assert_eq!(once, rows(disk.cuts(11).from(at)));
    assert_ne!(once, rows(disk.cuts(12).from(at)), "the seed decides");
}

#[test]
fn an_image_can_be_saved_to_a_real_folder() {
    let disk = worked(13, FULL, 10);
    let folder = tempfile::tempdir().expect("a folder");
    let cut = disk.cut(13).next().expect("a worked disk has a last cut");
    cut.image.save(folder.path()).expect("a real disk takes it");
    let db = rusqlite::Connection::open(folder.path().join("work.db"));
    assert_eq!(inspect(db, cut.acked), Verdict::Sound(10));
}
