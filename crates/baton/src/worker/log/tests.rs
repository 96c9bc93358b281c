use super::*;

fn heard(log: &mut Log, text: &str) {
    log.hear(Heard::Out(text.as_bytes()), Timestamp(1_000));
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn the_oldest_lines_go_and_their_numbers_tell_how_many() {
    let mut log = Log::new(Program::Command, []);
    for number in 1..=LINES_MAX + 10 {
        heard(&mut log, &format!("line {number}\n"));
    }
    let kept = log.unbrought().expect("nothing was brought");
    let kept = String::from_utf8(kept).expect("JSON is a text");
    let first: LogLine = serde_json::from_str(kept.lines().next().expect("a line")).expect("JSON");
    assert_eq!(kept.lines().count(), LINES_MAX);
    assert_eq!((first.number, first.text.as_str()), (11, "line 11"));
}

#[test]
fn what_is_told_fits_into_a_message() {
    let mut log = Log::new(Program::Command, []);
    for _ in 0..100 {
        heard(&mut log, &format!("{}\n", "x".repeat(4_000)));
    }
    let told = log.after(0);
    assert!(!told.is_empty() && told.len() < 100);
    assert_eq!(told.last().map(|line| line.number), Some(100), "the newest are told");
    assert!(log.after(100).is_empty());
}

#[test]
fn no_line_shows_a_secret() {
    let mut log = Log::new(Program::Command, ["hunter2-hunter2"]);
    heard(&mut log, "the password is hunter2-hunter2, the token ");
    heard(&mut log, &format!("batonc_{}\n", "7".repeat(24)));
    let told = log.after(0);
    let [line] = &texts(&told)[..] else { panic!("one line: {told:?}") };
    assert!(!line.contains("hunter2"), "{line}");
}

#[test]
fn what_was_brought_is_not_brought_again() {
    let mut log = Log::new(Program::Command, []);
    assert!(log.unbrought().is_none(), "nothing was said");
    heard(&mut log, "one\n");
    assert!(log.unbrought().is_some());
    log.is_brought();
    assert!(log.unbrought().is_none());
    heard(&mut log, "two\n");
    assert!(log.unbrought().is_some());
}
