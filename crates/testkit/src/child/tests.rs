use super::{Child, role, say};
use crate::chance::Chance;

const COUNTER: &str = "COUNTER";

/// Counts into a file, syncing every number before saying it, until it is killed.
fn count(path: &str) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("the folder exists");
    for number in 1.. {
        writeln!(file, "{number}").expect("the disk takes a line");
        say(&format!("{number}"));
    }
}

#[test]
fn what_a_killed_child_said_it_had_done() {
    let test = "child::tests::what_a_killed_child_said_it_had_done";
    if let Some(arguments) = role(COUNTER) {
        return count(&arguments[0]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers");
    let path = path.to_str().expect("a temporary folder has a plain name");
    let mut chance = Chance::new(1);
    for _ in 0..crate::rounds(3) {
        let last = 1 + chance.below(50);
        let end = Child::spawn(test, COUNTER, &[path]).kill_at(|line| line == last.to_string());
        assert!(end.killed, "it counts until it is killed: {end:?}");
        let said = end.lines.len();
        assert!(said >= usize::try_from(last).expect("small"), "{said} lines, killed at {last}");
        let written = std::fs::read_to_string(path).expect("the file outlives the child");
        assert!(written.lines().count() >= said, "more was said than done");
    }
}

#[test]
fn a_child_that_ends_by_itself_was_not_killed() {
    let test = "child::tests::a_child_that_ends_by_itself_was_not_killed";
    if let Some(arguments) = role("ECHO") {
        return arguments.iter().for_each(|argument| say(argument));
    }
    let end = Child::spawn(test, "ECHO", &["one", "two words", ""]).wait();
    assert_eq!(end.lines, ["one", "two words", ""]);
    assert!(!end.killed);
    assert_eq!(end.code, Some(0));
    assert!(role("ECHO").is_none(), "the parent has no role");
}
