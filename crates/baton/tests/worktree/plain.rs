//! Folders of tasks without git: one works in one at a time, and nobody where somebody may still write.

use std::fs;
use std::os::unix::fs::symlink;

use baton::worktree::{Error, Plain};

const GENERATIONS_MAX: u32 = 4;

#[test]
fn a_plain_folder_is_worked_in_by_one_at_a_time_and_the_next_begins_with_a_copy() {
    let place = tempfile::tempdir().expect("there is room");
    let (first, held) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("it is made");
    fs::create_dir(first.path().join("deep")).expect("there is room");
    fs::write(first.path().join("deep/a.txt"), "one").expect("there is room");
    let (second, also) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("the next is made");
    assert_eq!((first.generation(), second.generation()), (1, 2));
    assert_eq!(fs::read(second.path().join("deep/a.txt")).expect("it is a copy"), b"one");
    drop((held, also));
    fs::write(second.path().join("deep/a.txt"), "two").expect("there is room");
    let (third, _held) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("it is free");
    assert_eq!(third, second, "the newest is gone on with");
}

#[test]
fn nobody_works_in_a_quarantined_plain_folder_again() {
    let place = tempfile::tempdir().expect("there is room");
    for generation in 1..=GENERATIONS_MAX {
        let (one, _held) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("it is made");
        assert_eq!(one.generation(), generation);
        one.quarantine("its death is not proved").expect("there is room");
        assert_eq!(
            one.closed().expect("it is readable").as_deref(),
            Some("its death is not proved")
        );
    }
    let last = Plain::at(place.path(), GENERATIONS_MAX);
    assert_eq!(last.unproved().expect("it is readable"), None, "nobody knows who was in it");
    last.quarantine("its death is not proved\nA-3.2").expect("there is room");
    let attempt = last.unproved().expect("it is readable");
    assert_eq!(attempt, Some("A-3.2".parse().expect("an attempt")));
    let refused = Plain::prepare(place.path(), GENERATIONS_MAX);
    assert!(matches!(refused, Err(Error::NoWorktree(_))), "{refused:?}");
}

#[test]
fn a_copy_follows_no_link_and_waits_for_no_pipe() {
    let place = tempfile::tempdir().expect("there is room");
    let secret = place.path().join("secret");
    fs::create_dir(&secret).expect("there is room");
    fs::write(secret.join("key"), "secret").expect("there is room");
    let (first, _held) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("it is made");
    symlink(&secret, first.path().join("link")).expect("there is room");
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let pipe = first.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("there is room");
    let (second, _also) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("the next is made");
    let link = second.path().join("link");
    assert_eq!(fs::read_link(link).expect("it is a link"), secret);
    assert!(!second.path().join("pipe").exists());
}

#[test]
fn a_right_that_was_lent_is_kept_until_both_have_let_go() {
    let place = tempfile::tempdir().expect("there is room");
    let (one, mut held) = Plain::prepare(place.path(), GENERATIONS_MAX).expect("it is made");
    let lent = held.lend().expect("there is room");
    drop(held);
    assert!(matches!(one.hold(), Err(Error::InUse(_))), "whoever was lent it has it");
    drop(lent);
    let mut held = one.hold().expect("nobody has it");
    let left = held.lend().expect("there is room");
    held.take_back();
    drop(held);
    one.hold().expect("whoever was lent it is known to be gone");
    drop(left);
}
