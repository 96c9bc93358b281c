use std::collections::BTreeSet;
use std::fs;

use super::{Lock, SETTLED_MAX, machine, survey, tidy};
use crate::chance::SeededChance;

#[test]
fn a_folder_has_one_worker() {
    let folder = tempfile::tempdir().expect("there is room");
    let first = Lock::take(folder.path()).expect("it is ours");
    assert!(first.is_some());
    assert!(Lock::take(folder.path()).expect("it is ours").is_none());
    drop(first);
    assert!(Lock::take(folder.path()).expect("it is ours").is_some());
}

#[test]
fn a_worker_is_called_the_same_each_time() {
    let (one, other) = (tempfile::tempdir().expect("room"), tempfile::tempdir().expect("room"));
    let name = machine(one.path(), &SeededChance::new(1)).expect("it is kept");
    assert_eq!(machine(one.path(), &SeededChance::new(2)).expect("it is kept"), name);
    assert_ne!(machine(other.path(), &SeededChance::new(3)).expect("it is kept"), name);
}

#[test]
fn a_copy_of_a_data_folder_is_another_machine() {
    let (one, copy) = (tempfile::tempdir().expect("room"), tempfile::tempdir().expect("room"));
    let name = machine(one.path(), &SeededChance::new(1)).expect("it is kept");
    fs::copy(one.path().join("machine"), copy.path().join("machine")).expect("there is room");
    let other = machine(copy.path(), &SeededChance::new(2)).expect("it is kept");
    assert_ne!(other, name, "what the one has begun is not for the other to give back");
    assert_eq!(machine(copy.path(), &SeededChance::new(3)).expect("it is kept"), other);
    let moved = copy.path().join("moved");
    fs::rename(one.path(), &moved).expect("there is room");
    assert_eq!(machine(&moved, &SeededChance::new(4)).expect("it is kept"), name);
    fs::write(moved.join("machine"), name.as_str()).expect("there is room");
    assert_eq!(machine(&moved, &SeededChance::new(5)).expect("one of before is kept"), name);
}

#[test]
fn settled_attempts_go_and_unreported_ones_stay() {
    let folder = tempfile::tempdir().expect("there is room");
    let make = |name: &str, files: &[&str]| {
        fs::create_dir(folder.path().join(name)).expect("there is room");
        for file in files {
            fs::write(folder.path().join(name).join(file), "x").expect("there is room");
        }
    };
    for number in 1..=SETTLED_MAX + 3 {
        make(&format!("A-1.{number}"), &["spec.json", "spool"]);
    }
    make("A-2.1", &["outbox", "spec.json"]);
    make("A-3.1", &["spec.json"]);
    make("something", &["spec.json"]);
    let live = BTreeSet::from(["A-3.1".parse().expect("an attempt")]);
    assert_eq!(tidy(folder.path(), &live).expect("they are ours"), 3);
    let is_there = |path: &str| folder.path().join(path).exists();
    assert!(is_there("A-2.1/spec.json") && is_there("A-3.1/spec.json"));
    assert!(is_there("something/spec.json"));
    let left = fs::read_dir(folder.path()).expect("it is ours").filter_map(Result::ok);
    let secret = left.filter(|entry| {
        entry.file_name().to_string_lossy().starts_with("A-1.")
            && entry.path().join("spec.json").exists()
    });
    assert_eq!(secret.count(), 0);
}

#[tokio::test]
async fn an_attempt_that_never_came_to_a_process_is_found_as_such() {
    let folder = tempfile::tempdir().expect("there is room");
    fs::create_dir(folder.path().join("A-1.1")).expect("there is room");
    fs::write(folder.path().join("A-1.1/outbox"), "x").expect("there is room");
    let left = survey(folder.path()).await.expect("it can be read");
    assert_eq!(left.len(), 1);
    assert!(matches!(left[0].card, Ok(None)), "{:?}", left[0].card);
    assert!(matches!(left[0].found, Ok(crate::shim::Found::Over(_))), "{:?}", left[0].found);
}
