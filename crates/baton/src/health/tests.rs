use baton_domain::time::Millis;
use baton_store::Health as Told;
use baton_store::chain::Fault;

use super::{Health, Reason, Since};

fn since(swept: u64, sealed: Option<u64>) -> Health {
    let Since { swept, sealed } = Since { swept: Millis(swept), sealed: sealed.map(Millis) };
    Health { sweep_age: swept, seal_age: sealed, ..Health::default() }
}

fn check(told: Told, reasons: &[Reason]) {
    let health = since(400, None).with(told);
    assert_eq!(health.reasons, reasons);
    assert_eq!(health.green, reasons.is_empty());
}

#[test]
fn a_quiet_store_is_healthy() {
    check(Told::default(), &[]);
    let day = Some(Millis::hours(24));
    check(
        Told { commit_age: day, checkpoint_age: Some(Millis::hours(23)), ..Told::default() },
        &[],
    );
}

#[test]
fn a_sweep_that_does_not_come_is_red() {
    assert!(since(5_000, None).with(Told::default()).green);
    let late = since(5_001, None).with(Told::default());
    assert_eq!(late.reasons, [Reason::SweepLate { age: Millis(5_001) }]);
}

#[test]
fn a_lease_that_should_have_ended_is_red() {
    check(Told { overdue: Millis(2_000), ..Told::default() }, &[]);
    let overdue = Millis(2_001);
    check(Told { overdue, ..Told::default() }, &[Reason::LeaseOverdue { overdue }]);
}

#[test]
fn a_log_that_is_not_copied_back_is_red_only_if_there_is_something_in_it() {
    let told = |commit, checkpoint| Told {
        commit_age: commit,
        checkpoint_age: Some(checkpoint),
        ..Told::default()
    };
    let age = Millis::minutes(11);
    check(told(Some(Millis(5)), Millis::minutes(10)), &[]);
    check(told(Some(Millis(5)), age), &[Reason::CheckpointLate { age }]);
    check(told(Some(Millis::minutes(12)), age), &[]);
    check(told(None, age), &[]);
}

#[test]
fn what_stays_unsigned_is_red() {
    let limit = 5 * 60_000;
    assert!(since(0, Some(limit)).with(Told::default()).green);
    let age = Millis(limit + 1);
    let late = since(0, Some(age.0)).with(Told::default());
    assert_eq!(late.reasons, [Reason::SealLate { age }]);
}

#[test]
fn a_full_disk_and_a_stopped_store_are_red_and_say_so() {
    let why = "the disk broke".to_owned();
    check(
        Told { full: true, stopped: Some(why.clone()), ..Told::default() },
        &[Reason::Stopped { why }, Reason::DiskFull],
    );
}

#[test]
fn a_clock_that_was_set_back_is_red_and_says_by_how_much() {
    let behind = Millis::hours(1);
    check(Told { clock_behind: behind, ..Told::default() }, &[Reason::ClockBehind { behind }]);
}

#[test]
fn a_changed_history_is_red_and_says_where() {
    let fault = Fault { tenant: "local".into(), position: 7, what: "the link does not hold" };
    let reason =
        Reason::Tampered { tenant: "local".into(), position: 7, what: fault.what.to_owned() };
    check(Told { tampered: Some(fault), ..Told::default() }, &[reason]);
}

#[test]
fn it_is_told_as_json() {
    let told = Told { full: true, commit_age: Some(Millis(12)), live: 3, ..Told::default() };
    let json = serde_json::to_string(&since(400, None).with(told)).expect("it is plain data");
    expect_test::expect![[r#"{"green":false,"reasons":[{"reason":"disk_full"}],"commit_age":12,"sweep_age":400,"overdue":0,"queued":0,"live":3,"waiting":0,"verified_entries":0}"#]]
    .assert_eq(&json);
}
