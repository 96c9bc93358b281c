use std::time::Duration;

use crate::adapters::Usage;

use super::{STEPS_MAX, Step, parse};

#[test]
fn a_file_of_steps_is_a_word_and_what_it_is_about_per_line() {
    let text = "# A day's work.\n\nsay Hello\nedit src/a.txt one line\nread src/a.txt\nrun make test\n\
                ask Which?\ncheckpoint Half of it\nsleep 1m 30s\nuse 10 5 300\nlimit 2s\ncrash\ncrash 3\n\
                lie All done\ncomplete It works\n  block No key  \n";
    let expected = [
        Step::Say("Hello".to_owned()),
        Step::Edit { path: "src/a.txt".to_owned(), line: "one line".to_owned() },
        Step::Read("src/a.txt".to_owned()),
        Step::Run("make test".to_owned()),
        Step::Ask("Which?".to_owned()),
        Step::Checkpoint("Half of it".to_owned()),
        Step::Sleep(Duration::from_secs(90)),
        Step::Use(Usage { input: 10, output: 5, cached: 0, cost_micros: 300 }),
        Step::Limit(Duration::from_secs(2)),
        Step::Crash(None),
        Step::Crash(Some(3)),
        Step::Lie("All done".to_owned()),
        Step::Complete("It works".to_owned()),
        Step::Block("No key".to_owned()),
    ];
    assert_eq!(parse(text).expect("every step is there"), expected);
}

#[test]
fn a_wrong_step_is_named_with_its_line_and_rule() {
    for (text, line, rule) in [
        ("say a\nfly away", 2, "`fly` is no step"),
        ("say", 1, "must be followed by something"),
        ("# x\n\nedit ../out x", 3, "without `..`"),
        ("edit /etc/passwd x", 1, "a file in this folder"),
        ("read", 1, "a file in this folder"),
        ("sleep soon", 1, "written like 2s"),
        ("sleep 48h", 1, "longer than a day"),
        ("use 1 2", 1, "three numbers"),
        ("crash 999", 1, "up to 255"),
    ] {
        let wrong = parse(text).expect_err("it is wrong");
        assert_eq!(wrong.line, line, "{text}");
        assert!(wrong.rule.contains(rule), "{text}: {}", wrong.rule);
    }
    let many = "say a\n".repeat(STEPS_MAX + 1);
    assert_eq!(parse(&many).expect_err("they are too many").line, STEPS_MAX + 1);
}
