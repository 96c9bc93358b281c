//! What may be written where people and programs choose the words and numbers.

use baton_domain::contract::{Artifact, Contract, Submission, Term};
use baton_domain::ids::{
    AttemptId, Digest, LineId, NAME_BYTES_MAX, PrincipalId, RunId, SHORT_NAME_BYTES_MAX, StageName,
    TASK_NUMBER_MAX, TaskId,
};
use baton_domain::limits::{BUDGET_MICROS_MAX, LEASE_MAX, SPAN_MAX};
use baton_domain::policy::Policy;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::refusal::Refusal;
use baton_domain::text::{Reason, Text};
use baton_domain::time::Millis;
use proptest::test_runner::TestCaseError;

use crate::cast::{digest, project, stage, text};
use crate::history::runner;

#[test]
fn an_id_has_one_spelling_that_reads_back() {
    let task: TaskId = "T-128".parse().expect("an id");
    let run: RunId = "R-128.2".parse().expect("an id");
    let attempt: AttemptId = "A-128.3".parse().expect("an id");
    assert_eq!(task, TaskId(128));
    assert_eq!((run.task, run.number, attempt.number), (task, 2, 3));
    assert_eq!(format!("{task} {run} {attempt}"), "T-128 R-128.2 A-128.3");
    let json = serde_json::to_string(&(task, run, attempt)).expect("ids are text");
    assert_eq!(json, r#"["T-128","R-128.2","A-128.3"]"#);
}

#[test]
fn whatever_is_not_quite_an_id_is_none() {
    let too_high = format!("T-{}", TASK_NUMBER_MAX + 1);
    let bad = [
        "",
        "T-",
        "T-0",
        "T-01",
        "T-+1",
        "T--1",
        "T- 1",
        "t-1",
        "T-1 ",
        "T-1.2",
        "T-１",
        "128",
        "T-18446744073709551616",
        &too_high,
    ];
    for text in bad {
        assert!(text.parse::<TaskId>().is_err(), "{text:?}");
    }
    for text in ["R-1", "R-1.", "R-.1", "R-1.0", "R-1.02", "R-0.1", "A-1.1", "R-1.4294967296"] {
        assert!(text.parse::<RunId>().is_err(), "{text:?}");
    }
    let highest = format!("T-{TASK_NUMBER_MAX}");
    assert_eq!(highest.parse::<TaskId>().map(|id| id.to_string()), Ok(highest));
}

#[test]
fn every_id_reads_back_as_it_was_written() {
    let ids = (1..=TASK_NUMBER_MAX, 1..=u32::MAX);
    let outcome = runner().run(&ids, |(task, number)| {
        let attempt = AttemptId { task: TaskId(task), number };
        let read = attempt.to_string().parse::<AttemptId>();
        if read == Ok(attempt) { Ok(()) } else { Err(TestCaseError::fail(attempt.to_string())) }
    });
    outcome.expect("an id reads back");
}

#[test]
fn a_pool_has_one_spelling_that_reads_back() {
    for text in [
        "scheduler",
        "project shop",
        "stage shop coding",
        "tree T-1",
        "holder ada",
        "key shop database",
        "account provider/main",
        "budget T-128",
        "budget project shop",
        "budget day shop",
        "budget day",
    ] {
        let name: PoolName = text.parse().expect("it is a pool");
        assert_eq!(name.to_string(), text);
    }
    for text in [
        "",
        "all",
        "stage shop",
        "project",
        "tree 1",
        "holder  ada",
        "scheduler ",
        "key A b",
        "budget",
        "budget shop",
        "budget day ",
        "budget project",
    ] {
        assert!(text.parse::<PoolName>().is_err(), "{text:?}");
    }
}

#[test]
fn a_name_is_short_plain_and_stays_where_it_is() {
    for name in ["a", "0", "team/service-name", "ada@example.org", "mcp:7f3a", "x.y_z"] {
        assert_eq!(PrincipalId::new(name).map(|id| id.to_string()), Ok(name.to_owned()));
    }
    let long = "a".repeat(NAME_BYTES_MAX + 1);
    let bad = ["", "-a", ".a", "/a", "A", "a b", "a..b", "../a", "ä", "a\n", "a\0", &long];
    for name in bad {
        assert_eq!(PrincipalId::new(name).expect_err(name).code(), "invalid");
    }
    assert!(PrincipalId::new(&"a".repeat(NAME_BYTES_MAX)).is_ok());
    assert!(StageName::new(&"a".repeat(SHORT_NAME_BYTES_MAX)).is_ok());
    let refusal = StageName::new(&"a".repeat(SHORT_NAME_BYTES_MAX + 1)).expect_err("too long");
    assert!(refusal.to_string().starts_with("`stage` must be 1 to 32 of"), "{refusal}");
    assert!(serde_json::from_str::<StageName>(r#""no spaces""#).is_err(), "nor by reading");
}

#[test]
fn a_digest_is_sixty_four_small_hex_digits() {
    assert!(Digest::new(&"0f".repeat(32)).is_ok());
    for bad in ["", "0f", &"0F".repeat(32), &"0g".repeat(32), &"0f".repeat(33)] {
        assert!(Digest::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_text_is_not_blank_nor_too_long_and_holds_nothing_that_moves_a_cursor() {
    let small = |text: &str| Text::<4>::new("field", text).map(|text| text.to_string());
    assert_eq!(small("a\n\tb"), Ok("a\n\tb".into()));
    assert_eq!(small("ääx"), Err(invalid("must be at most 4 bytes, is 5")));
    assert_eq!(small(" \n"), Err(invalid("must not be blank")));
    assert_eq!(small("a\u{1b}"), Err(invalid("must not contain the hidden character U+001B")));
    assert_eq!(small("a\0"), Err(invalid("must not contain the hidden character U+0000")));
    assert_eq!(small("\u{85}a"), Err(invalid("must not contain the hidden character U+0085")));
    assert!(serde_json::from_str::<Text<4>>(r#""     ""#).is_err(), "nor by reading");
}

fn invalid(rule: &str) -> Refusal {
    Refusal::Invalid { field: "field".into(), rule: rule.into() }
}

#[test]
fn the_beginning_of_a_text_is_a_text() {
    let whole: Reason = text("  ääää and more");
    assert_eq!(whole.cut(3).as_str(), "ä", "no character is broken");
    assert_eq!(whole.cut(1_000).as_str(), "ääää and more");
    assert!(Reason::new("reason", whole.cut(2).as_str()).is_ok());
}

fn with_path(path: &str) -> (Result<(), Refusal>, Result<(), Refusal>) {
    let line = LineId::new("file").expect("a name");
    let term = Term::Artifact { path: text(path), bytes_min: 0, schema: None };
    let artifact = Artifact { path: text(path), digest: digest(), bytes: 1 };
    let submission = Submission { artifacts: vec![artifact], ..Submission::default() };
    (Contract { lines: [(line, term)].into() }.check(), submission.check())
}

/// Edge case 12, as far as words alone can tell.
#[test]
fn a_path_cannot_leave_its_root() {
    for good in ["a", "a/b.txt", ".github/x", "a..b", "…", "\u{e9}", "a b/ c", "...a", "\u{d55c}"]
    {
        assert_eq!(with_path(good), (Ok(()), Ok(())), "{good}");
    }
    let long = "a".repeat(256);
    let names = ["/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "a\\b", "a\nb", &long];
    // What some disks take for another name: one without its end, or with composed letters.
    let ends = ["a.", "a ", "a./b", "a /b", "..."];
    let loose = ["e\u{301}", "\u{1112}\u{1161}\u{11ab}", "\u{304b}\u{3099}"];
    for bad in names.into_iter().chain(ends).chain(loose) {
        let (contract, submission) = with_path(bad);
        assert!(contract.is_err() && submission.is_err(), "{bad}");
    }
}

#[test]
fn two_paths_that_differ_in_case_alone_are_one() {
    let artifact = |path: &str| Artifact { path: text(path), digest: digest(), bytes: 1 };
    for (one, other) in [("readme", "README"), ("a/B", "A/b"), ("\u{c4}", "\u{e4}"), ("a", "a")] {
        let artifacts = vec![artifact(one), artifact(other)];
        let submission = Submission { artifacts, ..Submission::default() };
        assert!(submission.check().is_err(), "{one} {other}");
    }
}

#[test]
fn a_policy_keeps_its_bounds() {
    assert_eq!(Policy::default().check(), Ok(()));
    let base = Policy::default;
    let bad = [
        ("policy.attempts_max", Policy { attempts_max: 0, ..base() }),
        ("policy.attempts_max", Policy { attempts_max: 11, ..base() }),
        ("policy.continuations_max", Policy { continuations_max: 51, ..base() }),
        ("policy.losses_max", Policy { losses_max: 0, ..base() }),
        ("policy.tries_max", Policy { tries_max: 501, ..base() }),
        ("policy.backoff", Policy { backoff: Millis::hours(25), ..base() }),
        ("policy.lease", Policy { lease: Millis(LEASE_MAX.0 + 1), ..base() }),
        ("policy.lease", Policy { lease: Millis(999), ..base() }),
        ("policy.wall", Policy { wall: Millis(SPAN_MAX.0 + 1), ..base() }),
        ("policy.input", Policy { input: Millis(0), ..base() }),
        ("policy.budget_micros", Policy { budget_micros: BUDGET_MICROS_MAX + 1, ..base() }),
    ];
    for (named, policy) in bad {
        let Err(Refusal::Invalid { field, .. }) = policy.check() else {
            panic!("{named} was let through");
        };
        assert_eq!(field, named);
    }
}

#[test]
fn a_pause_doubles_up_to_its_bound_and_the_same_history_waits_the_same() {
    let cases = (1..=TASK_NUMBER_MAX, 1..=u32::MAX, 1..=u8::MAX, 0..=86_400_000_u64);
    let outcome = runner().run(&cases, |(task, attempt, failures, backoff)| {
        let policy = Policy { backoff: Millis(backoff), ..Policy::default() };
        let pause = policy.pause(TaskId(task), attempt, failures);
        assert_eq!(pause, policy.pause(TaskId(task), attempt, failures));
        let doubled = backoff.saturating_mul(1 << u32::from(failures - 1).min(20));
        let plain = doubled.min(policy.backoff_max.0);
        assert!(pause.0 <= plain && pause.0 >= plain - plain / 4, "{pause:?} of {plain}");
        Ok(())
    });
    outcome.expect("a pause is bounded");
}

#[test]
fn pauses_of_different_tasks_spread() {
    let policy = Policy::default();
    let mut pauses: Vec<_> = (1..=64).map(|task| policy.pause(TaskId(task), 1, 1)).collect();
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 32, "a herd would come back at once");
}

#[test]
fn a_pipeline_names_each_of_its_stages_once_and_none_of_ours() {
    assert_eq!(project().check(), Ok(()));
    let named = |names: &[&str]| {
        let spec = project().pipeline[0].clone();
        let stages = names.iter().map(|name| (stage(name), spec.clone()));
        let pipeline = stages.map(|(name, spec)| baton_domain::project::StageSpec { name, ..spec });
        Project { pipeline: pipeline.collect(), ..project() }.check()
    };
    let many: Vec<String> = (0..13).map(|nth| format!("s{nth}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for bad in [&[][..], &["a", "a"], &["done"], &["backlog"], &["closed"], &["archived"], &many] {
        assert!(named(bad).is_err(), "{bad:?}");
    }
    assert_eq!(project().after(&stage("coding")).map(|spec| spec.name.as_str()), Some("qa"));
    assert_eq!(project().after(&stage("qa")), None);
}
