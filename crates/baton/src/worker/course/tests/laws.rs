//! What holds of every course, whatever happens in whatever order.

use baton_domain::run::Death;
use proptest::prelude::*;

use super::{DAWN, Rig, report, terms};
use super::{asked, exited, failed, fence, finished, limit, spoke, tool, tool_ended, used};
use crate::adapters::{Seen, failure};
use crate::protocol::{Phase, Standing, Verdict};
use crate::shim::Proof;
use crate::worker::course::{Act, At, Course, Input, Report, Said};

/// Whether a report says why an attempt ends.
fn ends(report: &Report) -> bool {
    match report {
        Report::TimedOut(_)
        | Report::Exceeded(_)
        | Report::Exited(_)
        | Report::Lost { .. }
        | Report::Released { .. }
        | Report::Probed { .. } => true,
        Report::Phase(_)
        | Report::Used(_)
        | Report::Limited { .. }
        | Report::Permission { .. }
        | Report::Question { .. }
        | Report::Stopped(_) => false,
    }
}

fn is_dead(report: &Report) -> bool {
    matches!(report, Report::Stopped(Proof { survivor: false, .. }))
}

fn writes(act: &Act) -> bool {
    matches!(act, Act::Say(_) | Act::Prompt(_) | Act::Interrupt)
}

/// Holds of everything that was done, by one worker or by several one after the other.
pub(super) fn check(rig: &Rig) {
    let acts: Vec<_> = rig.acts.iter().map(|(_, act)| act).collect();
    check_acts(&acts);
    if let Some(fenced) = rig.fenced_after {
        let written = acts.iter().skip(fenced).any(|act| writes(act));
        assert!(!written, "nothing is written after a fence: {}", rig.log());
    }
    for phase in [Phase::ProcessStarted, Phase::FirstEvent, Phase::FirstVisibleEvent] {
        let told = rig.told(|report| *report == Report::Phase(phase));
        assert!(told <= 1, "{phase:?} is told once: {}", rig.log());
    }
}

fn check_acts(acts: &[&Act]) {
    let told = |is: fn(&Report) -> bool| {
        let place = |(at, act): (usize, &&Act)| report(act).filter(|it| is(it)).map(|_| at);
        acts.iter().enumerate().filter_map(place).collect::<Vec<_>>()
    };
    let (ends, dead) = (told(ends), told(is_dead));
    assert!(ends.len() <= 1, "one cause is told: {acts:#?}");
    assert!(dead.len() <= 1, "its death is told once: {acts:#?}");
    if let Some(over) = acts.iter().position(|act| **act == Act::Over) {
        assert_eq!(over + 1, acts.len(), "once it is over, nothing is done: {acts:#?}");
        assert_eq!(dead.len(), 1, "it is over once its death was told: {acts:#?}");
    }
    let after = ends.iter().chain(&dead).min().map_or(acts.len(), |first| first + 1);
    for act in &acts[after..] {
        let fits = match act {
            Act::Say(_) | Act::Prompt(_) => false,
            Act::Tell(told) => {
                let moved = *told == Report::Phase(Phase::Progressed);
                moved
                    || matches!(told, Report::Used(_) | Report::Stopped(_) | Report::Limited { .. })
            }
            Act::Interrupt
            | Act::Stop { .. }
            | Act::Renew { .. }
            | Act::Snapshot(_)
            | Act::Quarantine
            | Act::Lift
            | Act::Over => true,
        };
        assert!(fits, "after the latch come only facts, not {act:?}: {acts:#?}");
    }
    let mut known = 0;
    for act in acts {
        if let Act::Tell(Report::Used(total)) = act {
            assert!(total.input >= known, "totals only grow: {acts:#?}");
            known = total.input;
        }
    }
}

fn things() -> impl Strategy<Value = Input> {
    let proof = |death, survivor| Proof { death, survivor };
    let said = |said| Just(Input::Said(said));
    let answer = Said::Answer { id: "q".to_owned(), text: "yes".to_owned() };
    let lost = Said::Fenced("lease_lost".to_owned().try_into().expect("a word"));
    let ends = prop_oneof![
        Just(exited(0)),
        Just(exited(1)),
        Just(fence()),
        Just(Input::Stopped(proof(Death::PidNamespace, false))),
        Just(Input::Stopped(proof(Death::None, true))),
        Just(Input::ShimGone(proof(Death::None, false))),
        Just(Input::Drain),
        said(Said::Cancel(Verdict::Cancelled)),
        said(lost),
    ];
    let seen = prop_oneof![
        Just(spoke()),
        Just(Seen::Spoke { visible: false }),
        Just(Seen::Started),
        Just(tool("a")),
        Just(tool("b")),
        Just(tool_ended("a")),
        Just(tool_ended("b")),
        Just(asked("q")),
        Just(asked("r")),
        Just(Seen::Permission { id: "p".to_owned(), what: "rm".to_owned() }),
        Just(Seen::Settled { id: "q".to_owned() }),
        Just(Seen::Settled { id: "p".to_owned() }),
        Just(used(1_000, 5)),
        Just(limit(false, None)),
        Just(limit(true, Some(5))),
        Just(Seen::Retrying { status: Some(529) }),
        Just(Seen::Read("a.rs".to_owned())),
        Just(finished()),
        Just(failed(failure::PROVIDER_AWAY.with("no route"))),
    ];
    let other = prop_oneof![
        Just(Input::Prepared),
        Just(Input::Launched),
        Just(Input::PromptWritten),
        Just(Input::Deaf),
        Just(Input::Cut),
        Just(Input::Renewed { until: At(300_000) }),
        Just(Input::Kept),
        Just(Input::Tick),
        Just(Input::Slept { millis: 3_600_000 }),
        (0..3_u64).prop_map(|tree| Input::Moved { tree: tree.to_string() }),
        (0..9_000_u64).prop_map(|cpu_ms| Input::Busy { cpu_ms }),
        said(answer),
        said(Said::Stands(Standing::Waiting)),
        said(Said::Stands(Standing::Verifying)),
        said(Said::Stands(Standing::Working)),
    ];
    prop_oneof![1 => ends, 8 => seen.prop_map(Input::Seen), 8 => other]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, however wrong the order.
    #[test]
    fn the_laws_hold_of_any_history(
        history in prop::collection::vec((0..200_000_u64, things()), 1..60),
    ) {
        let mut course = Course::new("A-7.3".parse().expect("an id"), terms(), DAWN);
        let (mut now, mut acts, mut fenced, mut asked, mut proved) = (DAWN, vec![], false, false, false);
        let mut take = |course: &mut Course, input: Input, at: At| {
            fenced |= matches!(input, Input::Said(Said::Fenced(_)));
            proved |= matches!(&input, Input::Stopped(proof) | Input::ShimGone(proof) if !proof.survivor);
            for act in course.step(input, at) {
                assert!(!(fenced && writes(&act)), "nothing is written after a fence: {act:?}");
                asked |= matches!(act, Act::Stop { .. });
                assert!(act != Act::Over || !asked || proved, "a stop is followed by a proof");
                acts.push(act);
            }
        };
        for (pause, input) in history {
            // Time is asked for as the course wants it.
            let next = now.plus(pause);
            while let Some(due) = course.due().filter(|due| *due <= next) {
                now = due.max(now);
                take(&mut course, Input::Tick, now);
                prop_assert!(course.due().is_none_or(|due| due > now), "a tick leaves nothing due");
            }
            now = next;
            take(&mut course, input, now);
        }
        check_acts(&acts.iter().collect::<Vec<_>>());
    }
}
