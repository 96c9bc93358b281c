//! A worker comes back: what the one before told is not told again, what it did not tell is, and what its outbox knows is
//! the same as what was told.

use baton_domain::time::Timestamp;

use super::laws;
use super::{DAWN, Leave, MINUTE, Rig, SECOND, terms};
use super::{asked, exited, finished, spoke, tool, used};
use crate::adapters::Seen;
use crate::protocol::{Conversation, Phase, ups};
use crate::shim::{Exit, Proof};
use crate::worker::course::{Course, Input, Report, Told};

/// Everything is lost of a worker but its spool and its outbox, after each of its steps and before each of its acts.
#[test]
fn a_question_survives_its_worker_and_is_asked_once() {
    let played = |leave: Option<Leave>| {
        let mut rig = Rig::prompted(terms()).with_person(MINUTE, "The second one");
        if let Some(leave) = leave {
            rig = rig.leaving(leave);
        }
        rig.sees(2 * SECOND, spoke());
        rig.sees(3 * SECOND, asked("q-1"));
        for moment in [80, 150, 220] {
            rig.sees(moment * SECOND, spoke());
        }
        rig.completes(4 * MINUTE);
        rig.run(5 * MINUTE);
        let questions = rig.told(|report| matches!(report, Report::Question { .. }));
        let settled = [Phase::InputReceived, Phase::InputWithdrawn].map(Report::Phase);
        let received = rig.told(|report| settled.contains(report));
        assert_eq!((questions, received), (1, 1), "{leave:?}: {}", rig.log());
        assert_eq!(rig.verdict(), "completed", "{leave:?}: {}", rig.log());
        laws::check(&rig);
        rig.steps()
    };
    for step in 1..=played(None) {
        for acts in [0, 1, 2, 99] {
            for millis in [0, 5 * SECOND, 70 * SECOND] {
                played(Some(Leave { step, acts, millis }));
            }
        }
    }
}

/// While nobody watched, everything came to its end.
#[test]
fn an_attempt_that_ended_meanwhile_is_told_from_its_beginning() {
    let mut rig = Rig::new(terms()).leaving(Leave { step: 1, acts: 99, millis: 10 * MINUTE });
    rig.spooled(500, Input::Prepared);
    rig.spooled(900, Input::Launched);
    rig.spooled(SECOND, Input::PromptWritten);
    rig.sees(2 * SECOND, tool("t"));
    rig.sees(3 * SECOND, used(70, 7));
    rig.sees(4 * SECOND, finished());
    rig.spooled(4 * SECOND, exited(0));
    rig.run(20 * MINUTE);
    let proof = Proof { death: baton_domain::run::Death::PidNamespace, survivor: false };
    let used = crate::adapters::Usage { input: 70, output: 10, cached: 0, cost_micros: 7 };
    assert_eq!(
        rig.reports().cloned().collect::<Vec<_>>(),
        [
            Report::Phase(Phase::Accepted),
            Report::Phase(Phase::ProcessStarted),
            Report::Phase(Phase::PromptWritten),
            Report::Phase(Phase::FirstEvent),
            Report::Phase(Phase::ToolStarted),
            Report::Used(used),
            Report::Exited(Some(Exit::Code(0))),
            Report::Stopped(proof),
        ]
    );
    laws::check(&rig);
}

/// What is told and what is remembered of it are one: every frame that a worker can send of an attempt is taken in.
#[test]
fn what_was_told_is_the_same_after_it_was_written_down() {
    let mut told = Told::default();
    for frame in ups() {
        told.take(&frame);
    }
    let again = serde_json::to_string(&told).expect("it is plain");
    assert_eq!(serde_json::from_str::<Told>(&again).expect("it reads back"), told);
    // An outbox of an earlier version says less.
    assert_eq!(serde_json::from_str::<Told>("{}").expect("all of it is optional"), Told::default());
}

#[test]
fn nothing_is_done_while_the_spool_is_fed_again() {
    let mut course =
        Course::returning("A-7.3".parse().expect("an id"), terms(), Told::default(), DAWN);
    assert_eq!(course.due(), None);
    for (millis, input) in
        [(1, Input::Prepared), (2, Input::Launched), (3, Input::Seen(spoke())), (4, exited(0))]
    {
        assert_eq!(course.step(input, DAWN.plus(millis)), vec![]);
    }
    assert!(!course.step(Input::Back, DAWN.plus(5)).is_empty());
}

/// The beginning of a long spool is dropped; what was told of it stays told.
#[test]
fn totals_never_go_back_even_if_the_spool_does() {
    let mut told = Told::default();
    let attempt = "A-7.3".parse().expect("an id");
    let total = crate::adapters::Usage { input: 900, output: 90, cached: 0, cost_micros: 9 };
    told.take(&Report::Used(total).frame(attempt, Timestamp(0)));
    let mut course = Course::returning(attempt, terms(), told, DAWN);
    course.step(Input::Prepared, DAWN);
    course.step(Input::Launched, DAWN);
    course.step(Input::Seen(used(20, 1)), DAWN);
    course.step(Input::Back, DAWN.plus(SECOND));
    let acts = course.step(Input::Seen(used(50, 1)), DAWN.plus(90 * SECOND));
    let more = crate::adapters::Usage { input: 950, output: 100, cached: 0, cost_micros: 10 };
    assert!(acts.contains(&super::Act::Tell(Report::Used(more))), "{acts:?}");
}

#[test]
fn the_next_attempt_can_go_on_with_the_conversation() {
    let mut again = terms();
    let told = |id: &str, input| Conversation {
        program: "claude".to_owned().try_into().expect("a word"),
        id: id.to_owned().try_into().expect("a name"),
        input_tokens: input,
        output_tokens: 10,
        cached_tokens: 0,
        cost_micros: 5,
    };
    again.conversation = Some(told("old", 100));
    let mut rig = Rig::prompted(again);
    rig.sees(2 * SECOND, Seen::Session("old".to_owned()));
    rig.sees(3 * SECOND, used(50, 5));
    rig.run(4 * SECOND);
    let kept = rig.course.conversation().expect("it can be gone on with");
    assert_eq!((kept.input_tokens, kept.output_tokens, kept.cost_micros), (150, 20, 10));
    let line = kept.line();
    assert_eq!(Conversation::read(&line).map(|back| back.line()), Some(line));
    assert!(Conversation::read("none").is_none());
    // Another conversation begins to count anew.
    rig.sees(5 * SECOND, Seen::Session("new".to_owned()));
    rig.run(6 * SECOND);
    assert_eq!(rig.course.conversation().map(|new| new.input_tokens), Some(50));
    // One that is lost is not gone on with.
    let lost = crate::adapters::failure::SESSION_LOST.with("no such session");
    rig.sees(7 * SECOND, super::failed(lost));
    rig.run(8 * SECOND);
    assert!(rig.course.conversation().is_none());
}

#[test]
fn a_report_becomes_a_frame_of_its_attempt() {
    let attempt = "A-7.3".parse().expect("an id");
    let frame = Report::Exited(Some(Exit::Signal(9))).frame(attempt, Timestamp(5));
    assert_eq!(frame.concerns(), Some((attempt, 0)));
    assert!(frame.is_terminal());
    assert!(
        Report::Exceeded(baton_domain::run::Cap::Turns).frame(attempt, Timestamp(5)).is_terminal()
    );
}
