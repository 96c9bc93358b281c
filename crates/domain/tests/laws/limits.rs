//! Everything has a bound, and what is beyond it is refused.

use std::collections::BTreeMap;

use baton_domain::command::{Agent, NewTask, Person, Report};
use baton_domain::contract::{Artifact, Contract, Submission, Term};
use baton_domain::ids::LineId;
use baton_domain::limits::{CHECKPOINTS_MAX, GATE_MAX, PROGRESS_MAX, START_AHEAD_MAX};
use baton_domain::run::Mode;
use baton_domain::time::Millis;

use crate::cast::{digest, note, progress, started, story, text, world};

#[test]
fn a_run_has_only_so_many_checkpoints_and_items() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let mut at_bound = |checkpoints, done| {
        let run = world.tasks.get_mut(&id).and_then(|task| task.flow.run.as_mut());
        let run = run.expect("it has a run");
        (run.checkpoints, run.progress.done) = (checkpoints, done);
        [world.agent(id, note()), world.agent(id, progress())].map(|answer| answer.is_ok())
    };
    assert_eq!(at_bound(CHECKPOINTS_MAX - 1, PROGRESS_MAX - 1), [true, true]);
    assert_eq!(at_bound(CHECKPOINTS_MAX, PROGRESS_MAX), [false, false]);
    let words = Report { summary: Some(text("going on")), ..Report::default() };
    world.agent(id, Agent::Progress(words)).expect("it adds no items");
}

#[test]
fn a_start_is_at_most_a_year_ahead() {
    let mut world = world();
    let far = Some(world.now + START_AHEAD_MAX + Millis(1));
    let near = Some(world.now + START_AHEAD_MAX);
    let refused = world.create(NewTask { start_at: far, ..started() });
    assert_eq!(refused.map_err(|refusal| refusal.code()), Err("invalid"));
    let id = world.made(NewTask { start_at: near, ..story() });
    let to = started().start_in;
    let mut go = |start_at| world.person(id, Person::Move { to: to.clone(), start_at });
    assert_eq!(go(far).map_err(|refusal| refusal.code()).err(), Some("invalid"));
    go(near).expect("a year is all right");
}

#[test]
fn a_gate_takes_between_a_second_and_a_day() {
    for (timeout, fits) in [
        (Millis(999), false),
        (Millis::seconds(1), true),
        (GATE_MAX, true),
        (Millis(GATE_MAX.0 + 1), false),
    ] {
        let gate = Term::Gate { command: text("make"), timeout };
        let contract = Contract { lines: BTreeMap::from([(line("gate"), gate)]) };
        assert_eq!(contract.check().is_ok(), fits, "{timeout:?}");
    }
}

fn line(name: &str) -> LineId {
    LineId::new(name).expect("the tests write proper names")
}

#[test]
fn a_contract_names_nothing_twice() {
    let artifact = |path: &str| Term::Artifact { path: text(path), bytes_min: 0, schema: None };
    let lines = |paths: [&str; 2]| Contract {
        lines: [("one", artifact(paths[0])), ("two", artifact(paths[1]))]
            .map(|(name, term)| (line(name), term))
            .into(),
    };
    assert!(lines(["out/a", "out/b"]).check().is_ok());
    assert!(lines(["out/a", "out/a"]).check().is_err());
    let made = |path: &str| Artifact { path: text(path), digest: digest(), bytes: 1 };
    let twice = Submission { artifacts: vec![made("a"), made("a")], ..Submission::default() };
    assert!(twice.check().is_err());
    let gate = r#"{"kind":"gate","command":"make","timeout":1000}"#;
    let read = |text: &str| serde_json::from_str::<Contract>(text);
    assert!(read(&format!(r#"{{"lines":{{"a":{gate},"b":{gate}}}}}"#)).is_ok());
    let twice = read(&format!(r#"{{"lines":{{"a":{gate},"a":{gate}}}}}"#));
    assert!(twice.expect_err("it is refused").to_string().contains("there twice"));
}
