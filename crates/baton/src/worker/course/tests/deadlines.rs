//! Every deadline fires when it should, to the millisecond, and never when it should not; also if the worker was
//! exchanged, or was away.

use baton_domain::deadline::Deadline;

use super::laws;
use super::{Leave, MINUTE, Rig, SECOND, terms};
use super::{asked, spoke, tool, tool_ended};
use crate::adapters::Seen;
use crate::worker::course::watch::LOOK_MS;
use crate::worker::course::{Act, Input, Report};

/// A deadline, what starts it, when it ends, and what answers it.
type Row = (Deadline, fn(&mut Rig), u64, fn(&mut Rig, u64));

const ROWS: [Row; 8] = [
    (Deadline::ProcessStart, starting, 15_500, |rig, at| rig.spooled(at, Input::Launched)),
    (Deadline::PromptWrite, launched, 5_900, |rig, at| rig.spooled(at, Input::PromptWritten)),
    (Deadline::FirstEvent, prompted, 91_000, |rig, at| rig.sees(at, spoke())),
    (Deadline::FirstVisibleEvent, murmuring, 121_000, |rig, at| rig.sees(at, spoke())),
    (Deadline::StreamIdle, speaking, 122_000, |rig, at| rig.sees(at, spoke())),
    (Deadline::ToolIdle, using, 303_000, |rig, at| rig.sees(at, tool_ended("t"))),
    (Deadline::UserInput, wondering, 610_000, |rig, at| {
        rig.sees(at, Seen::Settled { id: "q-1".to_owned() });
    }),
    (Deadline::WallClock, talking, 4 * 60 * MINUTE, |rig, at| rig.completes(at - 30)),
];

fn starting(rig: &mut Rig) {
    rig.spooled(500, Input::Prepared);
}

fn launched(rig: &mut Rig) {
    starting(rig);
    rig.spooled(900, Input::Launched);
}

fn prompted(rig: &mut Rig) {
    launched(rig);
    rig.spooled(SECOND, Input::PromptWritten);
}

fn murmuring(rig: &mut Rig) {
    prompted(rig);
    for step in 1..13 {
        rig.sees(step * 10 * SECOND, Seen::Spoke { visible: false });
    }
}

fn speaking(rig: &mut Rig) {
    prompted(rig);
    rig.sees(2 * SECOND, spoke());
}

fn using(rig: &mut Rig) {
    speaking(rig);
    rig.sees(3 * SECOND, tool("t"));
}

fn wondering(rig: &mut Rig) {
    speaking(rig);
    rig.sees(10 * SECOND, asked("q-1"));
}

fn talking(rig: &mut Rig) {
    prompted(rig);
    for step in 1..300 {
        rig.sees(step * 50 * SECOND, spoke());
    }
}

/// How long silence is looked at by a worker that comes back to it.
fn patience(deadline: Deadline) -> u64 {
    let is_silence = matches!(deadline, Deadline::StreamIdle | Deadline::ToolIdle);
    if is_silence { LOOK_MS } else { 0 }
}

fn fired(rig: &Rig, deadline: Deadline) -> Option<u64> {
    rig.when(|act| *act == Act::Tell(Report::TimedOut(deadline)))
}

#[test]
fn every_deadline_fires_at_its_time_whoever_watches() {
    for (deadline, plays, ends, _) in ROWS {
        let played = |leave: Option<Leave>| {
            let mut rig = Rig::new(terms());
            rig = match leave {
                Some(leave) => rig.leaving(leave),
                None => rig,
            };
            plays(&mut rig);
            rig.run(ends + MINUTE);
            assert_eq!(fired(&rig, deadline), Some(ends), "{leave:?}: {}", rig.log());
            assert!(rig.is_over(), "{}", rig.log());
            laws::check(&rig);
            rig.steps()
        };
        let steps = played(None);
        for step in (1..=steps).step_by(steps.div_ceil(30)) {
            for millis in [0, 200] {
                // Whoever goes as it fires is not there at the time.
                let mut rig = Rig::new(terms());
                plays(&mut rig);
                rig = rig.leaving(Leave { step, acts: 99, millis });
                rig.run(ends + MINUTE);
                let at = fired(&rig, deadline).unwrap_or_else(|| panic!("{step}: {}", rig.log()));
                let latest = ends + 212 + patience(deadline);
                assert!((ends..=latest).contains(&at), "{step}, {at}: {}", rig.log());
                laws::check(&rig);
            }
        }
    }
}

#[test]
fn no_deadline_fires_that_was_answered_a_moment_before() {
    for (deadline, plays, ends, answer) in ROWS {
        let mut rig = Rig::new(terms());
        plays(&mut rig);
        answer(&mut rig, ends - 1);
        rig.run(ends + MINUTE);
        assert_eq!(fired(&rig, deadline), None, "{}", rig.log());
        laws::check(&rig);
    }
}

#[test]
fn a_deadline_that_passed_while_the_worker_was_away_fires_at_once() {
    for (deadline, plays, ends, _) in ROWS {
        let mut rig = Rig::new(terms());
        plays(&mut rig);
        rig.run(ends - SECOND);
        let leave = Leave { step: rig.steps() + 1, acts: 99, millis: 20 * SECOND };
        rig = rig.leaving(leave);
        rig.worker(ends - SECOND, Input::Busy { cpu_ms: 1 });
        rig.run(ends + MINUTE);
        let back = ends - SECOND + 20 * SECOND;
        let at = fired(&rig, deadline).unwrap_or_else(|| panic!("{deadline:?}: {}", rig.log()));
        // Whether a person answered meanwhile, the server says first.
        let latest = back + 20 + patience(deadline);
        assert!((back..=latest).contains(&at), "{deadline:?} {at}: {}", rig.log());
        laws::check(&rig);
    }
}

#[test]
fn an_agent_that_showed_life_while_the_worker_was_away_is_not_stopped() {
    let mut rig = Rig::new(terms());
    speaking(&mut rig);
    rig.run(100 * SECOND);
    rig = {
        let step = rig.steps() + 1;
        rig.leaving(Leave { step, acts: 99, millis: 150 * SECOND })
    };
    rig.worker(100 * SECOND, Input::Busy { cpu_ms: 1 });
    rig.sees(200 * SECOND, spoke());
    rig.run(260 * SECOND);
    assert_eq!(fired(&rig, Deadline::StreamIdle), None, "{}", rig.log());
    rig.run(10 * MINUTE);
    assert_eq!(fired(&rig, Deadline::StreamIdle), Some(320 * SECOND), "{}", rig.log());
}

#[test]
fn a_machine_that_slept_does_not_find_its_agents_hung() {
    let mut rig = Rig::new(terms());
    speaking(&mut rig);
    rig.worker(100 * SECOND, Input::Slept { millis: 60 * MINUTE });
    rig.run(60 * MINUTE);
    assert_eq!(fired(&rig, Deadline::StreamIdle), None, "{}", rig.log());
    rig.run(70 * MINUTE);
    assert_eq!(fired(&rig, Deadline::StreamIdle), Some(60 * MINUTE + 122 * SECOND));
}

#[test]
fn making_its_place_may_take_longer_than_a_start_but_not_for_ever() {
    let mut rig = Rig::new(terms());
    rig.run(9 * MINUTE);
    assert!(!rig.is_over());
    // The server's own clock of the start never comes to its end meanwhile.
    let accepted = rig.told(|report| *report == Report::Phase(crate::protocol::Phase::Accepted));
    assert_eq!(accepted, 55, "{}", rig.log());
    rig.run(11 * MINUTE);
    assert_eq!(rig.verdict(), "lost prepare_timeout");
    assert!(rig.is_over(), "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn the_ladder_asks_first_then_ends_and_waits_for_the_proof() {
    let mut rig = Rig::new(terms());
    speaking(&mut rig);
    rig.agent.dies_after = 10 * SECOND;
    rig.run(10 * MINUTE);
    let fired = 122 * SECOND;
    assert_eq!(rig.when(|act| *act == Act::Interrupt), Some(fired));
    assert_eq!(rig.when(|act| matches!(act, Act::Stop { grace_ms: 2_000 })), Some(fired + SECOND));
    let killed = fired + SECOND + 2_050;
    let dead = rig.when(|act| matches!(act, Act::Tell(Report::Stopped(_))));
    assert_eq!(dead, Some(killed + 50 + 100), "{}", rig.log());
    assert_eq!(rig.when(|act| *act == Act::Over), dead);
}
