//! What a crash leaves of an outbox.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use baton_domain::ids::AttemptId;
use baton_domain::run::Death;

use super::{FRAMES_MAX, Outboxes, WORN_BYTES};
use crate::protocol::{Lifecycle, Phase, Question, Secret, Stopped, Up, Usage, ups};

fn attempt() -> AttemptId {
    "A-7.2".parse().expect("it is an attempt")
}

fn seen(phase: Phase) -> Up {
    Lifecycle { attempt: attempt(), seq: 0, phase, deadline: None, cap: None, at: None }.into()
}

fn stopped() -> Up {
    Stopped { attempt: attempt(), seq: 0, death: Death::Cgroup, survivor: false }.into()
}

fn begun(folder: &tempfile::TempDir) -> Outboxes {
    let mut boxes = Outboxes::open(folder.path()).expect("a folder");
    boxes.begin(attempt(), Secret::new("batonc_7")).expect("there is room");
    boxes
}

fn numbers(boxes: &Outboxes) -> Vec<u64> {
    boxes.unsent(&Default::default(), 100).into_iter().map(|(_, seq, _)| seq).collect()
}

#[test]
fn what_was_told_and_not_acknowledged_is_there_after_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    for phase in [Phase::Accepted, Phase::ProcessStarted, Phase::PromptWritten] {
        boxes.tell(seen(phase)).expect("there is room");
    }
    boxes.acked(attempt(), 1).expect("it is noted");
    boxes.tell(stopped()).expect("there is room");
    boxes.settled(attempt(), 3).expect("it is noted");
    drop(boxes);
    let mut again = Outboxes::open(folder.path()).expect("it opens");
    assert_eq!(numbers(&again), [2, 4]);
    let alive = again.alive();
    assert_eq!((alive.len(), alive[0].last_seq), (1, 4));
    assert_eq!(alive[0].token, Some(Secret::new("batonc_7")));
    assert_eq!(again.tell(stopped()).expect("there is room"), Some(5), "no number is used twice");
}

#[test]
fn a_line_that_was_torn_is_cut_off_and_the_rest_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    boxes.tell(seen(Phase::Accepted)).expect("there is room");
    let path = boxes.folder(attempt()).join("outbox");
    drop(boxes);
    let whole = fs::read(&path).expect("it is there");
    for cut in 1..40 {
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
        let torn = format!(r#"{{"told":{{"seq":2,"text":"{}"#, "x".repeat(cut));
        file.write_all(&torn.as_bytes()[..cut]).expect("it is written");
        drop(file);
        let mut again = Outboxes::open(folder.path()).expect("it opens");
        assert_eq!(numbers(&again), [1]);
        assert_eq!(again.tell(stopped()).expect("there is room"), Some(2));
        drop(again);
        assert_eq!(numbers(&Outboxes::open(folder.path()).expect("it opens")), [1, 2]);
        fs::write(&path, &whole).expect("it is written");
    }
}

#[test]
fn of_an_attempt_that_is_over_only_what_may_come_late_waits_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    boxes.tell(seen(Phase::Streaming)).expect("there is room");
    let spent = Usage {
        attempt: attempt(),
        seq: 0,
        total_micros: 5,
        input_tokens: None,
        output_tokens: None,
        cached_tokens: None,
    };
    boxes.tell(spent.into()).expect("there is room");
    boxes.tell(stopped()).expect("there is room");
    boxes.fenced(attempt()).expect("it is noted");
    assert_eq!(numbers(&boxes), [2, 3]);
    assert!(!boxes.forget(attempt()).expect("it is asked"), "something waits");
    boxes.acked(attempt(), 3).expect("it is noted");
    assert!(boxes.forget(attempt()).expect("it is asked"));
    assert_eq!(Outboxes::open(folder.path()).expect("it opens").alive().len(), 0);
}

#[test]
fn only_its_owner_can_read_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let boxes = begun(&folder);
    let mode = |path: &std::path::Path| {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(&boxes.folder(attempt())), 0o700);
    assert_eq!(mode(&boxes.folder(attempt()).join("outbox")), 0o600);
    assert!(!format!("{boxes:?}").contains("batonc_7"));
}

#[test]
fn a_flood_is_refused_and_an_end_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    for _ in 0..FRAMES_MAX {
        boxes.tell(seen(Phase::Streaming)).expect("there is room");
    }
    assert!(boxes.tell(seen(Phase::Streaming)).is_err());
    boxes.tell(stopped()).expect("an end has room");
}

#[test]
fn a_worn_file_is_written_anew_and_counts_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    let path = boxes.folder(attempt()).join("outbox");
    let mut told = 0;
    while fs::metadata(&path).expect("it is there").len() <= WORN_BYTES {
        told = boxes.tell(seen(Phase::Streaming)).expect("there is room").expect("it is kept");
        boxes.acked(attempt(), told - 1).expect("it is noted");
    }
    boxes.acked(attempt(), told).expect("it is noted");
    assert!(fs::metadata(&path).expect("it is there").len() < 1_000);
    drop(boxes);
    let mut again = Outboxes::open(folder.path()).expect("it opens");
    assert_eq!(again.tell(stopped()).expect("there is room"), Some(told + 1));
}

#[test]
fn the_open_question_is_remembered_until_its_answer_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    let id = baton_domain::text::Text::new("id", "q-1").expect("a text");
    let text = baton_domain::text::Text::new("text", "which?").expect("a text");
    let asked = Question { attempt: attempt(), seq: 0, id, text };
    boxes.tell(asked.into()).expect("there is room");
    boxes.acked(attempt(), 1).expect("it is noted");
    drop(boxes);
    let mut again = Outboxes::open(folder.path()).expect("it opens");
    assert!(again.alive()[0].question.is_some());
    again.tell(seen(Phase::InputReceived)).expect("there is room");
    assert!(again.alive()[0].question.is_none());
}

#[test]
fn every_frame_that_concerns_an_attempt_can_be_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = Outboxes::open(folder.path()).expect("a folder");
    let of = "A-128.3".parse().expect("the attempt of the examples");
    boxes.begin(of, Secret::new("batonc_7")).expect("there is room");
    let mut kept = 0;
    for up in ups() {
        match up.concerns() {
            Some(_) => {
                boxes.tell(up).expect("there is room");
                kept += 1;
            }
            None => assert!(boxes.tell(up).is_err()),
        }
    }
    drop(boxes);
    assert_eq!(Outboxes::open(folder.path()).expect("it opens").waiting(of), kept);
}

/// A file that takes nothing, like any on a full disk.
fn full() -> fs::File {
    fs::File::options().write(true).open("/dev/full").expect("every machine has it")
}

#[test]
fn what_a_full_disk_does_not_take_is_held_and_kept_in_order_once_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    boxes.tell(seen(Phase::Accepted)).expect("there is room");
    let of = |boxes: &mut Outboxes, file: fs::File| {
        let of = boxes.boxes.get_mut(&attempt()).expect("it was begun");
        std::mem::replace(&mut of.file, file)
    };
    let file = of(&mut boxes, full());
    for up in [seen(Phase::ProcessStarted), stopped()] {
        assert_eq!(boxes.tell(up).expect("it is held"), None);
    }
    assert!(!boxes.keep_again() && !boxes.forget(attempt()).expect("it waits"));
    assert_eq!(numbers(&boxes), [1], "nothing is sent that a crash could number anew");
    boxes.acked(attempt(), 1).expect("an answer is heard all the same");
    assert_eq!((numbers(&boxes), boxes.waiting(attempt())), (vec![], 2));
    of(&mut boxes, file);
    assert!(boxes.keep_again());
    assert_eq!(numbers(&boxes), [2, 3]);
    drop(boxes);
    assert_eq!(numbers(&Outboxes::open(folder.path()).expect("it opens")), [1, 2, 3]);
}

#[test]
fn what_is_held_has_a_bound_and_an_end_has_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut boxes = begun(&folder);
    boxes.boxes.get_mut(&attempt()).expect("it was begun").file = full();
    for _ in 0..FRAMES_MAX {
        boxes.tell(seen(Phase::Streaming)).expect("there is room");
    }
    assert!(boxes.tell(seen(Phase::Streaming)).is_err());
    assert_eq!(boxes.tell(stopped()).expect("an end has room"), None);
}
