//! How agents behave, well and badly: nobody who works is stopped, nobody who hangs is missed, and it makes no
//! difference at which step a worker is exchanged for another one.

use super::laws;
use super::{Leave, MINUTE, Rig, SECOND, terms};
use super::{asked, exited, failed, finished, limit, spoke, tool, tool_ended, used};
use crate::adapters::{Seen, failure};
use crate::worker::course::{Act, BUSY_EVERY_MS, Input, Report, Terms};

/// A course: its terms, what happens, and what counts in the end.
struct Script {
    name: &'static str,
    terms: fn() -> Terms,
    plays: fn(&mut Rig),
    /// How long it may take.
    within: u64,
    verdict: &'static str,
}

const fn script(
    name: &'static str,
    plays: fn(&mut Rig),
    within: u64,
    verdict: &'static str,
) -> Script {
    Script { name, terms, plays, within, verdict }
}

const SCRIPTS: [Script; 19] = [
    script("healthy but slow", slow, 40 * MINUTE, "completed"),
    script("silent in a tool, but busy", busy_in_a_tool, 40 * MINUTE, "completed"),
    script("silent without tools, but busy", busy, 20 * MINUTE, "ended_without_result"),
    Script {
        terms: || {
            let mut terms = terms();
            terms.caps.tool_calls = 40;
            terms
        },
        ..script("looping", looping, 10 * MINUTE, "exceeded ToolCalls")
    },
    script("waiting for a person", waiting, 20 * MINUTE, "completed"),
    script("waiting for nobody", unanswered, 20 * MINUTE, "timed_out UserInput"),
    script("asking by itself", asking_by_itself, 30 * MINUTE, "completed"),
    script("hung at its start", |_| {}, 5 * MINUTE, "timed_out FirstEvent"),
    script("hung in a tool", hung_in_a_tool, 10 * MINUTE, "timed_out ToolIdle"),
    script("hung in the middle", hung, 10 * MINUTE, "timed_out StreamIdle"),
    script("hung after its last word", mute, 10 * MINUTE, "timed_out FirstEvent"),
    script("deaf, and never gone", deaf, 10 * MINUTE, "ended_without_result"),
    script("ending without a result", no_result, 10 * MINUTE, "ended_without_result"),
    script("limited hard", limited, 5 * MINUTE, "released Now"),
    script("limited softly", warned, 5 * MINUTE, "completed"),
    script("saying that it is done", lying, 5 * MINUTE, "ended_without_result"),
    Script {
        terms: || {
            let mut terms = terms();
            terms.deadlines.wall_clock = 5 * MINUTE;
            terms
        },
        ..script("chatty without progress", chatty, 10 * MINUTE, "timed_out WallClock")
    },
    script("kept waiting by its provider", retrying, 30 * MINUTE, "completed"),
    script("crashing", crashing, 5 * MINUTE, "lost crashed"),
];

fn slow(rig: &mut Rig) {
    rig.sees(50 * SECOND, spoke());
    for minute in 1..20 {
        rig.sees(minute * 100 * SECOND, spoke());
    }
    rig.completes(33 * MINUTE);
}

fn busy_in_a_tool(rig: &mut Rig) {
    rig.sees(2 * SECOND, tool("build"));
    for step in 1..180 {
        rig.worker(step * BUSY_EVERY_MS, Input::Busy { cpu_ms: step * 2 * SECOND });
    }
    rig.sees(30 * MINUTE, tool_ended("build"));
    rig.completes(31 * MINUTE);
}

fn busy(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    for step in 1..96 {
        rig.worker(step * BUSY_EVERY_MS, Input::Busy { cpu_ms: step * SECOND });
    }
    rig.sees(16 * MINUTE, finished());
    rig.spooled(16 * MINUTE + 1, exited(0));
}

fn looping(rig: &mut Rig) {
    for step in 1..200 {
        rig.sees(step * SECOND, tool("same"));
        rig.sees(step * SECOND + 500, tool_ended("same"));
    }
}

fn waiting(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(10 * SECOND, asked("q-1"));
    rig.sees(9 * MINUTE + 30 * SECOND, spoke());
    rig.completes(10 * MINUTE);
}

fn unanswered(rig: &mut Rig) {
    rig.sees(2 * SECOND, asked("q-1"));
}

fn asking_by_itself(rig: &mut Rig) {
    rig.sees(2 * SECOND, tool("ask"));
    rig.asks(3 * SECOND);
    rig.sees(4 * SECOND, tool_ended("ask"));
    rig.sees(5 * SECOND, finished());
    rig.agent.on_prompt = Some(vec![(SECOND, Seen::Started), (2 * SECOND, spoke())]);
    rig.completes(10 * MINUTE);
}

fn hung_in_a_tool(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(3 * SECOND, tool("test"));
    // Processes that sleep use a little time, and never enough.
    for step in 1..60 {
        rig.worker(step * BUSY_EVERY_MS, Input::Busy { cpu_ms: step * 10 });
    }
}

fn hung(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(30 * SECOND, tool("test"));
    rig.sees(40 * SECOND, tool_ended("test"));
}

fn mute(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(10 * SECOND, finished());
}

fn deaf(rig: &mut Rig) {
    mute(rig);
    rig.agent.on_prompt = None;
}

fn no_result(rig: &mut Rig) {
    mute(rig);
    rig.agent.on_prompt = Some(vec![
        (SECOND, Seen::Started),
        (2 * SECOND, spoke()),
        (3 * SECOND, used(10, 10)),
        (4 * SECOND, finished()),
    ]);
}

fn limited(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(20 * SECOND, limit(true, Some(9_000_000)));
    rig.sees(20 * SECOND, failed(failure::RATE_LIMITED.with("429")));
}

fn warned(rig: &mut Rig) {
    rig.sees(2 * SECOND, limit(false, Some(9_000_000)));
    rig.sees(3 * SECOND, spoke());
    rig.completes(20 * SECOND);
    rig.sees(20 * SECOND + 10, finished());
    rig.spooled(20 * SECOND + 15, exited(0));
}

fn lying(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(3 * SECOND, finished());
    rig.spooled(3 * SECOND + 200, exited(0));
}

fn chatty(rig: &mut Rig) {
    for step in 1..200 {
        rig.sees(step * 5 * SECOND, spoke());
    }
}

fn retrying(rig: &mut Rig) {
    for step in 1..20 {
        rig.sees(step * 60 * SECOND, Seen::Retrying { status: Some(529) });
    }
    rig.sees(20 * MINUTE + SECOND, spoke());
    rig.completes(21 * MINUTE);
}

fn crashing(rig: &mut Rig) {
    rig.sees(2 * SECOND, spoke());
    rig.sees(9 * SECOND, failed(failure::CRASHED.with("exit code 1")));
    rig.spooled(9 * SECOND, exited(1));
}

fn played(script: &Script, leave: Option<Leave>) -> Rig {
    let mut rig = Rig::prompted((script.terms)());
    if script.name == "waiting for a person" || script.name == "asking by itself" {
        rig = rig.with_person(9 * MINUTE, "The second one");
    }
    if let Some(leave) = leave {
        rig = rig.leaving(leave);
    }
    (script.plays)(&mut rig);
    rig.run(script.within);
    rig
}

fn check(script: &Script, leave: Option<Leave>) -> Rig {
    let rig = played(script, leave);
    let told = || format!("{}, {leave:?}: {}", script.name, rig.log());
    assert!(rig.is_over(), "it ends: {}", told());
    assert_eq!(rig.verdict(), script.verdict, "{}", told());
    laws::check(&rig);
    rig
}

#[test]
fn nobody_who_works_is_stopped_and_nobody_who_hangs_is_missed() {
    for script in &SCRIPTS {
        check(script, None);
    }
}

/// At every step, or at thirty of them where there are more; between any two acts; for a moment and for three seconds.
#[test]
fn it_makes_no_difference_when_a_worker_is_exchanged() {
    for script in &SCRIPTS {
        let steps = check(script, None).steps();
        for step in (1..=steps).step_by(steps.div_ceil(30)) {
            for (acts, millis) in [(0, 0), (1, 0), (2, 3 * SECOND), (99, 0), (99, 3 * SECOND)] {
                check(script, Some(Leave { step, acts, millis }));
            }
        }
    }
}

#[test]
fn a_prompt_is_given_twice_and_then_its_silence_counts() {
    let rig = check(&SCRIPTS[12], None);
    assert_eq!(rig.count(|act| matches!(act, Act::Prompt(_))), 2, "{}", rig.log());
    let total =
        |report: &Report| if let Report::Used(total) = report { Some(*total) } else { None };
    let last_use = rig.reports().rev().find_map(total).map(|total| total.input);
    assert_eq!(last_use, Some(20), "everything that it used is told: {}", rig.log());
}
