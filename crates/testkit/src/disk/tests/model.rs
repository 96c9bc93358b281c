//! What a power cut may and may not do to a file, tried without SQLite.

use std::collections::{BTreeMap, BTreeSet};

use libsqlite3_sys as ffi;

use crate::disk::Cuts;
use crate::disk::fault::Fault;
use crate::disk::files::{Files, Opened};

const CREATE: i32 = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;

/// Enough that every outcome of a few sectors comes up.
const OUTCOMES: u64 = 500;

fn disk() -> Files {
    Files::new(1, &BTreeMap::new())
}

fn open(files: &Files, path: &str, flags: i32) -> Opened {
    files.open(Some(path), flags).expect("a file opens")
}

/// Gives all that a cut now may leave of a file: each outcome once, none for no file.
fn outcomes(files: &Files, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    let state = files.state();
    let end = state.log.len();
    let cuts = Cuts::new(state.log.clone(), &state.base, None, 1).from(end).outcomes(OUTCOMES);
    cuts.map(|cut| cut.image.bytes().remove(path)).collect()
}

/// Names the sectors of a file by their first byte.
fn sectors(bytes: &[u8]) -> String {
    bytes.chunks(512).map(|sector| char::from(sector[0].max(b'.'))).collect()
}

fn sector_outcomes(files: &Files, path: &str) -> BTreeSet<String> {
    outcomes(files, path).iter().flatten().map(|bytes| sectors(bytes)).collect()
}

#[test]
fn what_is_synced_is_there_in_every_outcome() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.write(&file, 0, &[b'x'; 1_024]).expect("a sound disk");
    files.sync(&mut file).expect("a sound disk");
    assert_eq!(outcomes(&files, "/a"), [Some(vec![b'x'; 1_024])].into());
}

#[test]
fn what_is_not_synced_is_there_or_not_or_torn_between_sectors() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.write(&file, 0, &[b'x'; 1_536]).expect("a sound disk");
    files.sync(&mut file).expect("a sound disk");
    files.write(&file, 0, &[b'y'; 1_536]).expect("a sound disk");
    let all = ["xxx", "xxy", "xyx", "xyy", "yxx", "yxy", "yyx", "yyy"];
    assert_eq!(sector_outcomes(&files, "/a"), all.map(str::to_owned).into());
    let torn_within = |bytes: &Vec<u8>| bytes.chunks(512).any(|s| s.iter().any(|b| *b != s[0]));
    assert!(!outcomes(&files, "/a").iter().flatten().any(torn_within), "a sector is whole");
}

#[test]
fn a_write_past_the_end_may_leave_its_length_alone() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.sync(&mut file).expect("a sound disk");
    files.write(&file, 0, &[b'x'; 512]).expect("a sound disk");
    assert_eq!(sector_outcomes(&files, "/a"), ["", ".", "x"].map(str::to_owned).into());
}

#[test]
fn a_new_file_may_be_missing_until_it_is_synced() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    assert!(outcomes(&files, "/a").contains(&None));
    files.sync(&mut file).expect("a sound disk");
    assert_eq!(outcomes(&files, "/a"), [Some(vec![])].into());
}

#[test]
fn a_deleted_file_may_come_back_until_the_directory_is_synced() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.sync(&mut file).expect("a sound disk");
    files.close(&file);
    files.delete("/a", false).expect("it is there");
    assert_eq!(outcomes(&files, "/a"), [None, Some(vec![])].into());
    let mut journal = open(&files, "/b", CREATE | ffi::SQLITE_OPEN_WAL);
    files.sync(&mut journal).expect("the first sync of a new log syncs the directory");
    assert_eq!(outcomes(&files, "/a"), [None].into());
}

#[test]
fn a_file_under_an_old_name_never_shows_the_old_bytes_once_synced() {
    let files = disk();
    for byte in [b'x', b'y'] {
        let mut file = open(&files, "/a", CREATE);
        files.write(&file, 0, &[byte; 512]).expect("a sound disk");
        files.sync(&mut file).expect("a sound disk");
        assert_eq!(outcomes(&files, "/a"), [Some(vec![byte; 512])].into());
        files.close(&file);
        files.delete("/a", false).expect("it is there");
    }
    assert_eq!(outcomes(&files, "/a"), [None, Some(vec![b'y'; 512])].into());
}

#[test]
fn a_failed_sync_is_made_good_only_by_writing_again() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.write(&file, 0, &[b'x'; 1_024]).expect("a sound disk");
    files.sync(&mut file).expect("a sound disk");
    files.write(&file, 0, &[b'y'; 1_024]).expect("a sound disk");
    files.state().faults.arm(Fault::SyncFails { at: 1 });
    files.sync(&mut file).expect_err("the fault was armed");
    files.sync(&mut file).expect("the next sync claims success");
    let doubtful = ["xx", "xy", "yx", "yy"].map(str::to_owned).into();
    assert_eq!(sector_outcomes(&files, "/a"), doubtful, "though nothing was saved");
    // One byte is enough: the kernel writes the whole sector as it has it.
    files.write(&file, 7, b"y").expect("a sound disk");
    files.sync(&mut file).expect("a sound disk");
    assert_eq!(sector_outcomes(&files, "/a"), ["yx", "yy"].map(str::to_owned).into());
}

#[test]
fn a_truncation_waits_for_its_sync_too() {
    let files = disk();
    let mut file = open(&files, "/a", CREATE);
    files.write(&file, 0, &[b'x'; 1_024]).expect("a sound disk");
    files.sync(&mut file).expect("a sound disk");
    files.truncate(&file, 100).expect("a sound disk");
    files.write(&file, 1_000, b"z").expect("a sound disk");
    let mut now = [b'?'; 1_001];
    assert_eq!(files.read(&file, 0, &mut now), Ok(true));
    assert_eq!((now[99], now[100], now[999], now[1_000]), (b'x', 0, 0, b'z'), "a gap is zero");
    let lengths: BTreeSet<_> =
        outcomes(&files, "/a").into_iter().flatten().map(|bytes| bytes.len()).collect();
    assert_eq!(lengths, [100, 1_001, 1_024].into());
}
