use std::os::unix::fs::PermissionsExt;

use super::{BALLAST_BYTES, Place, network, write_log_again};
use baton_domain::time::Timestamp;

#[test]
fn file_systems_that_are_elsewhere_are_known_by_their_numbers() {
    let refused = [
        0x6969,
        0xff53_4d42,
        0xfe53_4d42,
        0x517b,
        0x0102_1997,
        0x6573_5546,
        0x00c3_6400,
        0x5346_414f,
        0x6b41_4653,
        0x0bd0_0bd0,
    ];
    for magic in refused {
        assert!(network(magic).is_some(), "{magic:#x}");
    }
    // The number may come with its sign drawn out.
    assert_eq!(network(0xffff_ffff_ff53_4d42), Some("cifs"));
    // ext4, xfs, btrfs, zfs, f2fs, tmpfs, overlay.
    let local =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];
    for magic in local {
        assert_eq!(network(magic), None, "{magic:#x}");
    }
}

#[test]
fn ballast_is_there_until_it_is_given_back() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("deep/store");
    let mut place = Place::enter(&folder).expect("it is ours");
    let mode = std::fs::metadata(&folder).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let bytes = || std::fs::metadata(folder.join("baton.ballast")).map(|about| about.len()).ok();
    assert_eq!(bytes(), None, "a folder by itself reserves nothing");
    place.restore_ballast().expect("there is room");
    assert_eq!(bytes(), Some(BALLAST_BYTES as u64));
    place.release_ballast();
    assert_eq!(bytes(), None);
    place.release_ballast();
    place.restore_ballast().expect("there is room");
    assert_eq!(bytes(), Some(BALLAST_BYTES as u64));
}

#[test]
fn where_nothing_can_be_reserved_there_is_no_ballast_and_no_harm() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("store");
    let mut place = Place::enter(&folder).expect("it is ours");
    place.release_ballast();
    std::fs::create_dir(folder.join("baton.ballast")).expect("something in the way");
    place.restore_ballast().expect("only want of room is a reason to wait");
}

#[test]
fn when_time_was_last_watched_is_remembered_from_one_life_to_the_next() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("store");
    let mut place = Place::enter(&folder).expect("it is ours");
    assert_eq!(place.watched_at(), Timestamp(0), "nobody was here before");
    place.remember_watch(Timestamp(4_000_000_000_123));
    drop(place);
    let place = Place::enter(&folder).expect("it is ours");
    assert_eq!(place.watched_at(), Timestamp(4_000_000_000_123));
}

#[test]
fn writing_the_log_again_changes_no_byte_of_it() {
    let parent = tempfile::tempdir().expect("a folder");
    let wal = parent.path().join("baton.db-wal");
    write_log_again(&wal).expect("no log is no fault");
    assert!(!wal.exists());
    let bytes: Vec<u8> = (0..2_500_001_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    std::fs::write(&wal, &bytes).expect("a real disk");
    write_log_again(&wal).expect("a real disk");
    assert!(std::fs::read(&wal).expect("it is there") == bytes);
}
