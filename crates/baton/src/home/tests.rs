use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use baton_store::sqlite::{OpenError, Place};

use super::{Error, open};
use crate::chance::SeededChance;
use crate::tokens;

fn opened(folder: &Path, seed: u64) -> Result<(), Error> {
    open(folder, None, Arc::new(SeededChance::new(seed))).map(drop)
}

fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    let name = |file: std::io::Result<fs::DirEntry>| {
        file.expect("it reads").file_name().into_string().expect("a plain name")
    };
    files.map(name).collect()
}

#[test]
fn nothing_is_made_in_a_folder_that_is_not_ours_or_in_use() {
    let parent = tempfile::tempdir().expect("a folder");
    let theirs = parent.path().join("theirs");
    fs::create_dir(&theirs).expect("a folder");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o755)).expect("it is open to all");
    let refused = opened(&theirs, 1).expect_err("it is open to all");
    assert!(matches!(refused, Error::Store(OpenError::NotOurs(_))), "{refused:?}");
    assert_eq!(names(&theirs), Vec::<String>::new());
    let used = parent.path().join("used");
    let place = Place::enter(&used).expect("a new folder");
    let refused = opened(&used, 1).expect_err("somebody else has it");
    assert!(matches!(refused, Error::Store(OpenError::InUse(_))), "{refused:?}");
    assert!(!names(&used).contains(&"pepper".to_owned()), "secrets are made by whoever has it");
    drop(place);
    opened(&used, 1).expect("nobody has it any more");
}

#[test]
fn a_pepper_that_is_lost_or_exchanged_is_told_and_not_replaced() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("home");
    opened(&folder, 1).expect("a new folder");
    let pepper = folder.join("pepper");
    let right = fs::read(&pepper).expect("it is there");
    fs::remove_file(&pepper).expect("it is there");
    let refused = opened(&folder, 2).expect_err("it is lost");
    assert!(matches!(refused, Error::Secrets(tokens::Error::Missing { .. })), "{refused:?}");
    assert!(!pepper.exists(), "another one would open nothing");
    fs::write(&pepper, "ab".repeat(32)).expect("a real disk");
    fs::set_permissions(&pepper, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let refused = opened(&folder, 3).expect_err("it is another one");
    assert!(matches!(refused, Error::Store(OpenError::WrongPepper)), "{refused:?}");
    fs::write(&pepper, right).expect("a real disk");
    opened(&folder, 4).expect("it is back");
}
