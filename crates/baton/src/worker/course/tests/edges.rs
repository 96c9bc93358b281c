//! The sharpest edges that five systems were cut by, as far as they are a matter of the course.

use baton_domain::deadline::Deadline;
use baton_domain::run::{Death, Purpose};

use super::laws;
use super::{MINUTE, Rig, SECOND, terms};
use super::{asked, exited, failed, fence, finished, limit, spoke, tool, tool_ended, used};
use crate::adapters::{Consent, Reply, Seen, failure};
use crate::protocol::{Phase, Verdict};
use crate::shim::Proof;
use crate::worker::course::{Act, Input, Report, Said, Until};

const fn proof(death: Death, survivor: bool) -> Proof {
    Proof { death, survivor }
}

fn cancelled() -> Input {
    Input::Said(Said::Cancel(Verdict::Cancelled))
}

fn fenced() -> Input {
    Input::Said(Said::Fenced("lease_lost".to_owned().try_into().expect("a word")))
}

#[test]
fn an_agent_that_ignores_every_signal_is_dead_before_it_is_told_so() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.worker(3 * SECOND, cancelled());
    rig.agent.dies_after = MINUTE;
    rig.run(4 * SECOND);
    assert_eq!(rig.course.phase(), "stopping");
    assert_eq!(rig.told(|report| matches!(report, Report::Stopped(_))), 0, "{}", rig.log());
    rig.run(MINUTE);
    assert_eq!(rig.told(|report| matches!(report, Report::Stopped(_))), 1, "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn a_survivor_keeps_the_attempt_stopping_and_its_worktree_closed() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.worker(3 * SECOND, cancelled());
    rig.agent.proof = proof(Death::None, true);
    rig.run(10 * MINUTE);
    assert!(!rig.is_over(), "{}", rig.log());
    assert_eq!(rig.told(|report| *report == Report::Stopped(proof(Death::None, true))), 1);
    assert_eq!(rig.count(|act| *act == Act::Quarantine), 1, "{}", rig.log());
    rig.spooled(11 * MINUTE, Input::Stopped(proof(Death::PidNamespace, false)));
    rig.run(12 * MINUTE);
    assert!(rig.is_over(), "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn a_death_that_is_not_proved_closes_the_worktree() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.spooled(3 * SECOND, Input::ShimGone(proof(Death::None, false)));
    rig.run(MINUTE);
    assert_eq!(rig.verdict(), "lost shim_gone");
    assert_eq!(rig.count(|act| *act == Act::Quarantine), 1, "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn a_tool_that_finished_long_ago_times_nothing_out() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, tool("t"));
    rig.sees(3 * SECOND, tool_ended("t"));
    for step in 1..60 {
        rig.sees(10 * step * SECOND, spoke());
    }
    rig.run(10 * MINUTE);
    assert_eq!(rig.told(|report| matches!(report, Report::TimedOut(_))), 0, "{}", rig.log());
}

#[test]
fn of_two_tools_the_one_that_runs_on_is_waited_for() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, tool("short"));
    rig.sees(2 * SECOND, tool("long"));
    rig.sees(3 * SECOND, tool_ended("short"));
    rig.sees(250 * SECOND, tool_ended("long"));
    rig.sees(251 * SECOND, spoke());
    rig.run(5 * MINUTE);
    assert_eq!(rig.told(|report| matches!(report, Report::TimedOut(_))), 0, "{}", rig.log());
    assert_eq!(rig.told(|report| *report == Report::Phase(Phase::ToolFinished)), 1);
}

#[test]
fn nothing_is_told_after_the_end_by_a_deadline_that_would_have_passed() {
    let mut rig = Rig::prompted(terms());
    rig.spooled(5 * SECOND, exited(0));
    rig.run(10 * MINUTE);
    assert!(rig.is_over());
    assert_eq!(rig.course.due(), None);
    assert_eq!(rig.course.step(Input::Tick, rig.now), vec![]);
    assert_eq!(rig.told(|report| matches!(report, Report::TimedOut(_))), 0);
    laws::check(&rig);
}

#[test]
fn whether_it_is_safe_to_try_again_is_told_before_why_it_ended() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, tool("t"));
    rig.run(10 * MINUTE);
    let effects = rig.when(|act| *act == Act::Tell(Report::Phase(Phase::ToolStarted)));
    let late = rig.when(|act| *act == Act::Tell(Report::TimedOut(Deadline::ToolIdle)));
    assert!(effects < late && effects.is_some(), "{}", rig.log());
}

#[test]
fn a_soft_limit_and_a_clean_exit_end_like_any_other() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, limit(false, Some(9)));
    rig.sees(3 * SECOND, spoke());
    rig.sees(4 * SECOND, finished());
    rig.spooled(4 * SECOND, exited(0));
    rig.run(MINUTE);
    assert_eq!(rig.verdict(), "ended_without_result", "{}", rig.log());
    assert_eq!(rig.told(|report| matches!(report, Report::Limited { hard: false, .. })), 1);
    laws::check(&rig);
}

#[test]
fn of_two_hard_limits_both_are_told_and_one_ends_it() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, limit(true, Some(10)));
    rig.sees(2 * SECOND + 5, limit(true, Some(11)));
    rig.run(MINUTE);
    assert_eq!(rig.told(|report| matches!(report, Report::Limited { hard: true, .. })), 2);
    assert_eq!(rig.told(|report| matches!(report, Report::Released { .. })), 1, "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn without_an_account_the_run_itself_rests_until_the_reset() {
    for (resets_at, until) in [
        (Some(77), Until::At(baton_domain::time::Timestamp(77))),
        (None, Until::After(baton_domain::time::Millis::minutes(5))),
    ] {
        let mut terms = terms();
        terms.account = None;
        let mut rig = Rig::prompted(terms);
        rig.sees(2 * SECOND, limit(true, resets_at));
        rig.run(MINUTE);
        assert_eq!(rig.told(|report| matches!(report, Report::Limited { .. })), 0);
        let given_back = |report: &Report| matches!(report, Report::Released { until: own, .. } if *own == until);
        assert_eq!(rig.told(given_back), 1, "{}", rig.log());
    }
}

#[test]
fn what_was_read_before_is_nothing_new() {
    let mut rig = Rig::prompted(terms());
    let read = |path: &str| Seen::Read(path.to_owned());
    rig.sees(2 * SECOND, read("a.rs"));
    rig.run(3 * SECOND);
    let moved = |rig: &Rig| rig.told(|report| *report == Report::Phase(Phase::Progressed));
    assert_eq!(moved(&rig), 1, "{}", rig.log());
    rig.sees(20 * SECOND, read("a.rs"));
    rig.run(21 * SECOND);
    assert_eq!(moved(&rig), 1, "{}", rig.log());
    rig.sees(40 * SECOND, read("b.rs"));
    rig.run(41 * SECOND);
    assert_eq!(moved(&rig), 2, "{}", rig.log());
}

#[test]
fn a_tree_that_changed_is_progress_and_a_look_is_none() {
    let mut rig = Rig::prompted(terms());
    for (at, tree) in [(2, "one"), (3, "one"), (20, "two"), (25, "three"), (40, "three")] {
        rig.worker(at * SECOND, Input::Moved { tree: tree.to_owned() });
    }
    rig.run(MINUTE);
    let moved = rig.told(|report| *report == Report::Phase(Phase::Progressed));
    assert_eq!(moved, 1, "at most every ten seconds: {}", rig.log());
}

#[test]
fn a_bad_exit_is_nobodys_fault_but_the_machines() {
    for fault in [&failure::CRASHED, &failure::PROVIDER_FAILED, &failure::KILLED] {
        let mut rig = Rig::prompted(terms());
        rig.sees(2 * SECOND, failed(fault.with("exit code 1")));
        rig.spooled(2 * SECOND, exited(1));
        rig.run(MINUTE);
        assert_eq!(rig.verdict(), format!("lost {}", fault.code), "{}", rig.log());
        laws::check(&rig);
    }
}

#[test]
fn what_a_fence_ended_is_told_as_lost() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.link(3 * SECOND, false);
    rig.spooled(203 * SECOND, fence());
    rig.spooled(204 * SECOND, exited(9));
    // Without the server nothing is told of life, and nothing of it is stopped by the worker.
    rig.sees(100 * SECOND, spoke());
    rig.run(202 * SECOND);
    assert_eq!(rig.count(|act| matches!(act, Act::Interrupt | Act::Stop { .. })), 0);
    rig.run(5 * MINUTE);
    assert_eq!(rig.verdict(), "lost lease_not_renewed", "{}", rig.log());
    laws::check(&rig);
}

#[test]
fn a_cut_of_a_minute_stops_nobody() {
    let mut rig = Rig::prompted(terms());
    for step in 1..40 {
        rig.sees(step * 5 * SECOND, spoke());
    }
    rig.link(30 * SECOND, false);
    rig.link(90 * SECOND, true);
    rig.run(3 * MINUTE);
    assert!(!rig.is_over());
    assert_eq!(rig.count(|act| matches!(act, Act::Stop { .. })), 0, "{}", rig.log());
    let beats = rig.acts.iter().filter(|(at, act)| {
        let away = (30 * SECOND + 1..90 * SECOND).contains(&at.since(super::DAWN));
        away && *act == Act::Tell(Report::Phase(Phase::Streaming))
    });
    assert_eq!(beats.count(), 0, "beats that nobody hears are not kept");
}

#[test]
fn whoever_is_fenced_is_killed_at_once_and_says_only_what_it_cost_and_that_it_is_dead() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.sees(3 * SECOND, used(5, 5));
    rig.sees(3 * SECOND + 100, used(5, 5));
    rig.worker(4 * SECOND, fenced());
    rig.worker(4 * SECOND + 10, Input::Renewed { until: super::DAWN.plus(MINUTE) });
    rig.run(MINUTE);
    let after = rig.fenced_after.expect("it was fenced");
    assert_eq!(
        rig.acts[after].1,
        Act::Tell(Report::Used(crate::adapters::Usage {
            input: 10,
            output: 20,
            cached: 0,
            cost_micros: 10,
        }))
    );
    assert_eq!(rig.acts[after + 1].1, Act::Stop { grace_ms: 0 }, "{}", rig.log());
    assert!(rig.is_over());
    assert_eq!(rig.count(|act| matches!(act, Act::Renew { .. })), 0);
    laws::check(&rig);
}

#[test]
fn an_attempt_that_is_called_off_before_it_began_is_known_not_to_have_started() {
    let mut rig = Rig::new(terms());
    rig.worker(100, cancelled());
    rig.run(MINUTE);
    let none = Report::Stopped(proof(Death::NotStarted, false));
    assert_eq!(rig.told(|report| *report == none), 1, "{}", rig.log());
    assert_eq!(rig.count(|act| matches!(act, Act::Quarantine | Act::Snapshot(_))), 0);
    laws::check(&rig);
}

#[test]
fn a_wish_is_granted_by_policy_or_asked_of_a_person() {
    let wish = || Seen::Permission { id: "p-1".to_owned(), what: "cargo publish".to_owned() };
    let mut all = terms();
    all.consent = Consent::All;
    let mut rig = Rig::prompted(all);
    rig.sees(2 * SECOND, wish());
    rig.run(3 * SECOND);
    let allows = |act: &Act| *act == Act::Say(Reply::Allow { id: "p-1".to_owned() });
    assert_eq!((rig.count(allows), rig.course.phase()), (1, "working"), "{}", rig.log());
    for (answer, allowed) in
        [("Yes, go on", true), ("yesterday is fine", false), ("no: never", false)]
    {
        let mut rig = Rig::prompted(terms()).with_person(MINUTE, answer);
        rig.sees(2 * SECOND, wish());
        rig.run(30 * SECOND);
        assert_eq!(rig.course.phase(), "asking");
        rig.run(2 * MINUTE);
        assert_eq!(rig.count(allows), usize::from(allowed), "{answer}: {}", rig.log());
        let denies = |act: &Act| matches!(act, Act::Say(Reply::Deny { why, .. }) if why == answer);
        assert_eq!(rig.count(denies), usize::from(!allowed));
        assert_eq!(rig.told(|report| *report == Report::Phase(Phase::InputReceived)), 1);
    }
}

#[test]
fn a_question_that_the_agent_takes_back_is_told_as_withdrawn() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, asked("q-1"));
    rig.sees(3 * SECOND, Seen::Settled { id: "q-1".to_owned() });
    rig.run(4 * SECOND);
    assert_eq!(rig.told(|report| *report == Report::Phase(Phase::InputWithdrawn)), 1);
    assert_eq!(rig.told(|report| *report == Report::Phase(Phase::InputReceived)), 0);
    assert_eq!(rig.course.phase(), "working");
}

#[test]
fn of_two_questions_the_second_is_asked_once_the_first_is_settled() {
    let mut rig = Rig::prompted(terms()).with_person(MINUTE, "both");
    rig.sees(2 * SECOND, asked("q-1"));
    rig.sees(3 * SECOND, asked("q-2"));
    rig.run(30 * SECOND);
    assert_eq!(rig.told(|report| matches!(report, Report::Question { .. })), 1);
    rig.run(3 * MINUTE);
    assert_eq!(rig.told(|report| matches!(report, Report::Question { .. })), 2, "{}", rig.log());
    assert_eq!(rig.count(|act| matches!(act, Act::Say(_))), 2, "{}", rig.log());
}

#[test]
fn a_probe_tells_by_its_exit_whether_the_condition_is_met() {
    for (code, met) in [(0, true), (1, false), (127, false)] {
        let mut terms = terms();
        terms.purpose = Purpose::Probe;
        let mut rig = Rig::prompted(terms);
        rig.sees(2 * SECOND, failed(failure::CRASHED.with("whatever")));
        rig.spooled(2 * SECOND, exited(code));
        rig.run(MINUTE);
        assert_eq!(rig.verdict(), format!("probed {met}"), "{}", rig.log());
        laws::check(&rig);
    }
}

#[test]
fn a_worker_that_ends_gives_the_run_back() {
    let mut rig = Rig::prompted(terms());
    rig.sees(2 * SECOND, spoke());
    rig.worker(3 * SECOND, Input::Drain);
    rig.run(MINUTE);
    assert_eq!(rig.verdict(), "released Now", "{}", rig.log());
    assert!(rig.is_over());
    laws::check(&rig);
}

#[test]
fn a_renewed_lease_moves_the_fence() {
    let mut rig = Rig::prompted(terms());
    let until = super::DAWN.plus(5 * SECOND + 200_000);
    rig.worker(5 * SECOND, Input::Renewed { until });
    rig.run(6 * SECOND);
    assert_eq!(rig.count(|act| *act == Act::Renew { until }), 1, "{}", rig.log());
}

#[test]
fn caps_are_reached_by_the_first_that_is_one_too_many() {
    let mut few = terms();
    few.caps.tokens = 100;
    let mut rig = Rig::prompted(few);
    rig.sees(2 * SECOND, used(80, 1));
    rig.sees(3 * SECOND, used(1, 1));
    rig.run(MINUTE);
    assert_eq!(rig.verdict(), "exceeded Tokens", "{}", rig.log());
    let mut few = terms();
    few.caps.turns = 1;
    let mut rig = Rig::prompted(few);
    rig.sees(2 * SECOND, Seen::Started);
    rig.sees(3 * SECOND, Seen::Started);
    rig.run(MINUTE);
    assert_eq!(rig.verdict(), "exceeded Turns", "{}", rig.log());
    laws::check(&rig);
}
