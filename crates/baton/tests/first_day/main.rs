//! A first day with the command line, as transcripts. Each is a text in which the lines after `$`
//! are typed into the real program, in an empty home; everything else is what it answered. A new
//! line after `$` and `./check bless` make the transcript longer.

mod plain;
mod shell;

use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect_file;

use shell::Shell;

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_day").join(name);
    let script = std::fs::read_to_string(&path).expect("the transcript is there");
    let told = Shell::new().play(&script);
    expect_file![path].assert_eq(&told);
}

#[test]
fn the_first_hour_is_as_it_was_reviewed() {
    check("starting.txt");
}

#[test]
fn work_goes_from_hand_to_hand_as_it_was_reviewed() {
    check("working.txt");
}

#[test]
fn every_reason_to_wait_is_explained_as_it_was_reviewed() {
    check("waiting.txt");
}

#[test]
fn keys_come_and_go_as_it_was_reviewed() {
    check("keys.txt");
}

#[test]
fn mistakes_are_answered_as_it_was_reviewed() {
    check("mistakes.txt");
}

#[test]
fn the_house_is_kept_as_it_was_reviewed() {
    check("upkeep.txt");
}

#[test]
fn a_repository_is_set_up_and_left_as_it_was_reviewed() {
    check("repository.txt");
}

#[test]
fn help_reads_as_it_was_reviewed() {
    check("help.txt");
}

#[test]
fn the_demo_tells_its_story_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_baton"))
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    let told: Vec<_> = text(&output.stdout).split("\n\n").map(plain::block).collect();
    expect_file!["../../demo.txt"].assert_eq(&told.join("\n\n"));
    let left = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "something was left behind");
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().expect("there is room");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_baton"))
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is there");
    let mut lines = BufReader::new(demo.stdout.take().expect("it is piped")).lines();
    let claimed = lines.any(|line| line.is_ok_and(|line| line.ends_with("baton claim")));
    assert!(claimed, "the story got to its first claim");
    let number = i32::try_from(demo.id()).ok().and_then(rustix::process::Pid::from_raw);
    let number = number.expect("a child has a number");
    rustix::process::kill_process(number, rustix::process::Signal::INT).expect("it is ours");
    lines.for_each(drop);
    assert_eq!(demo.wait().expect("it is ours").code(), Some(130));
    let left = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "something was left behind");
}
