//! Deadlines are armed by the report that starts them, disarmed by the one that answers them, and
//! gone with the attempt.

use baton_domain::command::{Agent, Command, Person, Supervisor, Time};
use baton_domain::deadline::{Armed, Deadline, Sight, allowed};
use baton_domain::event::Event;
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::limits::{AMNESTY, BACKSTOP};
use baton_domain::policy::Policy;
use baton_domain::run::{Certainty, Mark, Mode, Outcome, Purpose};
use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::{Badge, Need};
use expect_test::expect;

use crate::cast::{complete, contracted, message, progress, proved, started, world};
use crate::world::World;

const SIGHTS: [Sight; 7] = [
    Sight::ProcessStarted,
    Sight::PromptWritten,
    Sight::FirstEvent,
    Sight::FirstVisibleEvent,
    Sight::Streaming,
    Sight::ToolStarted,
    Sight::ToolFinished,
];

fn armed(armed: &Armed) -> String {
    let names = armed.iter().map(|(deadline, at)| format!("{deadline:?} {}", at.0 / 1_000));
    names.collect::<Vec<_>>().join(", ")
}

#[test]
fn each_sight_answers_what_came_before_it_and_starts_what_comes_next() {
    let policy = Policy::default();
    let start = Timestamp(0);
    let mut run = Armed::at_claim(&policy, Mode::Supervised, Purpose::Work, start);
    let mut lines = vec![format!("{:18} {}", "Claimed", armed(&run))];
    for (second, sight) in (1..).zip(SIGHTS) {
        run.see(sight, &policy, start + Millis::seconds(second));
        lines.push(format!("{:18} {}", format!("{sight:?}"), armed(&run)));
    }
    expect![[r#"
        Claimed            ProcessStart 15, WallClock 14400
        ProcessStarted     PromptWrite 6, WallClock 14400
        PromptWritten      FirstEvent 92, FirstVisibleEvent 122, WallClock 14400
        FirstEvent         FirstVisibleEvent 122, StreamIdle 123, WallClock 14400
        FirstVisibleEvent  StreamIdle 124, WallClock 14400
        Streaming          StreamIdle 125, WallClock 14400
        ToolStarted        ToolIdle 306, WallClock 14400
        ToolFinished       StreamIdle 127, WallClock 14400"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn while_a_tool_runs_only_its_own_deadline_counts() {
    let policy = Policy::default();
    let mut run = Armed::at_claim(&policy, Mode::Supervised, Purpose::Work, Timestamp(0));
    run.see(Sight::ToolStarted, &policy, Timestamp(0));
    let before = run.clone();
    run.see(Sight::Streaming, &policy, Timestamp(9_000));
    assert_eq!(run, before);
}

#[test]
fn whatever_is_seen_first_answers_that_the_process_runs() {
    let policy = Policy::default();
    for sight in SIGHTS {
        let mut run = Armed::at_claim(&policy, Mode::Supervised, Purpose::Work, Timestamp(0));
        run.see(sight, &policy, Timestamp(1));
        let left = run.iter().any(|(deadline, _)| deadline == Deadline::ProcessStart);
        assert!(!left, "{sight:?}");
    }
}

#[test]
fn only_a_watched_agent_has_more_than_a_wall_clock() {
    for (mode, purpose) in [
        (Mode::Solo, Purpose::Work),
        (Mode::Supervised, Purpose::Verify),
        (Mode::Supervised, Purpose::Probe),
    ] {
        let fresh = Armed::at_claim(&Policy::default(), mode, purpose, Timestamp(0));
        let names: Vec<_> = fresh.iter().map(|(deadline, _)| deadline).collect();
        assert_eq!(names, [Deadline::WallClock]);
    }
}

fn watched() -> (World, TaskId) {
    let mut world = world();
    let id = world.made(contracted());
    world.claim(id, crate::cast::worker()).expect("it is queued");
    (world, id)
}

fn see(world: &mut World, id: TaskId, sight: Sight) {
    world.supervisor(id, Supervisor::Report(sight)).expect("it is held");
}

/// Renews every two minutes while time passes, and fires whatever is due.
fn live_on(world: &mut World, id: TaskId, minutes: u64) {
    for _ in 0..minutes / 2 {
        world.wait(Millis::minutes(2));
        if world.word(id) == "stopping" {
            return;
        }
        world.supervisor(id, Supervisor::Renew { lease: None }).expect("it is held");
        world.pass(id);
    }
}

/// Edge case 19.
#[test]
fn a_tool_that_finished_does_not_time_out() {
    let (mut world, id) = watched();
    see(&mut world, id, Sight::ToolStarted);
    world.wait(Millis::seconds(1));
    see(&mut world, id, Sight::ToolFinished);
    for _ in 0..10 {
        world.wait(Millis::minutes(1));
        see(&mut world, id, Sight::Streaming);
        world.supervisor(id, Supervisor::Renew { lease: None }).expect("it is held");
        assert_eq!(world.pass(id), 0);
    }
    see(&mut world, id, Sight::ToolStarted);
    live_on(&mut world, id, 10);
    assert_eq!(world.word(id), "stopping", "one that does not finish does");
}

/// Edge case 20.
#[test]
fn no_deadline_fires_after_the_end() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.conclude(id, complete());
        let entries = world.entries[&id].len();
        assert_eq!(world.flow(id).run.as_ref().map(|run| run.held().is_some()), Some(false));
        world.wait(Millis::minutes(59));
        assert_eq!(world.pass(id), 0);
        assert_eq!(world.entries[&id].len(), entries);
    }
}

/// Rule 9.
#[test]
fn renewals_never_put_a_deadline_off() {
    let (mut world, id) = watched();
    see(&mut world, id, Sight::FirstVisibleEvent);
    let fires = world.now + allowed(Deadline::StreamIdle, &Policy::default()) + BACKSTOP;
    assert_eq!(world.due_at(id), Some(fires));
    for _ in 0..4 {
        world.wait(Millis::seconds(30));
        world.supervisor(id, Supervisor::Renew { lease: None }).expect("it is held");
    }
    assert_eq!(world.due_at(id), Some(fires));
}

/// Rule 9.
#[test]
fn a_question_a_verification_and_a_stop_disarm_the_agents_own_deadlines() {
    let names = |world: &World, id| {
        world.held(id).armed.iter().map(|(deadline, _)| deadline).collect::<Vec<_>>()
    };
    let (mut world, id) = watched();
    see(&mut world, id, Sight::FirstVisibleEvent);
    world.agent(id, Agent::Ask(message())).expect("it is held");
    assert_eq!(names(&world, id), [Deadline::UserInput, Deadline::WallClock]);
    see(&mut world, id, Sight::Streaming);
    assert_eq!(
        names(&world, id),
        [Deadline::UserInput, Deadline::WallClock],
        "nothing is expected"
    );
    world.person(id, Person::Answer(message())).expect("it asked");
    assert_eq!(names(&world, id), [Deadline::StreamIdle, Deadline::WallClock]);
    world.agent(id, complete()).expect("it is held");
    assert_eq!(names(&world, id), [Deadline::WallClock]);
    world.verifier(id, false).expect("it is verifying");
    assert_eq!(names(&world, id), [Deadline::StreamIdle, Deadline::WallClock]);
    world.supervisor(id, Supervisor::Exited).expect("it is held");
    assert_eq!(names(&world, id), [Deadline::Cleanup, Deadline::WallClock]);
    let silent = (world.now + Millis(2_000) + BACKSTOP).max(world.lease(id).fenced_at());
    assert_eq!(world.due_at(id), Some(silent), "nobody waits for ever for a word of its death");
}

#[test]
fn of_a_question_and_a_wall_clock_the_one_that_is_due_first_fires() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.supervisor(id, Supervisor::Renew { lease: Some(Millis::hours(24)) }).expect("held");
    let wall = world.held(id).claimed_at + Policy::default().wall;
    world.now = wall - Millis::seconds(590);
    world.agent(id, Agent::Ask(message())).expect("it is held");
    // The wall clock ends first, but its worker gets a grace that a question does not need.
    world.now = wall + Millis::seconds(10);
    assert_eq!(world.due_at(id), Some(world.now));
    world.pass(id);
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.word(id), "blocked");
}

fn certainty(world: &World, id: TaskId) -> (Outcome, Certainty) {
    let row = world.records[&id].last().expect("an attempt has ended");
    match row {
        Past::Attempt(row) => (row.outcome.clone(), row.certainty),
        Past::Run(_) | Past::Checkpoint(_) => panic!("{row:?} is no attempt"),
    }
}

/// Edge case 21.
#[test]
fn a_timeout_is_safe_to_repeat_only_before_anything_was_seen() {
    let timed_out = |happens: &dyn Fn(&mut World, TaskId)| {
        let (mut world, id) = watched();
        happens(&mut world, id);
        world.supervisor(id, Supervisor::TimedOut(Deadline::StreamIdle)).expect("it is held");
        world.supervisor(id, proved()).expect("it is stopping");
        certainty(&world, id).1
    };
    let silent = |world: &mut World, id| see(world, id, Sight::FirstEvent);
    let visible = |world: &mut World, id| see(world, id, Sight::FirstVisibleEvent);
    let tool = |world: &mut World, id| see(world, id, Sight::ToolStarted);
    let speech = |world: &mut World, id| world.agent(id, progress()).map(drop).expect("held");
    assert_eq!(timed_out(&|_, _| {}), Certainty::NotStarted);
    assert_eq!(timed_out(&silent), Certainty::NotStarted);
    assert_eq!(timed_out(&visible), Certainty::Unknown);
    assert_eq!(timed_out(&tool), Certainty::Unknown);
    assert_eq!(timed_out(&speech), Certainty::Unknown);
}

#[test]
fn a_lost_lease_is_unknown_and_never_failed() {
    let (mut world, id) = watched();
    world.agent(id, Agent::Begin).expect("it is held");
    world.wait(Millis::minutes(6));
    world.pass(id);
    assert_eq!(certainty(&world, id), (Outcome::Lost, Certainty::Unknown));
}

#[test]
fn nobody_loses_a_lease_to_an_outage_of_the_servers() {
    let (mut world, id) = watched();
    world.agent(id, Agent::Begin).expect("it is held");
    world.wait(Millis::hours(5));
    world.amnesty = world.now + AMNESTY;
    assert_eq!(world.due_at(id), Some(world.amnesty));
    let early = world.tell(id, &Command::Time(Time::Pass)).expect("time is never refused");
    assert!(early.is_nothing());
    world.supervisor(id, Supervisor::Renew { lease: None }).expect("the amnesty holds");
    world.wait(AMNESTY);
    let fired = world.tell(id, &Command::Time(Time::Pass)).expect("time is never refused");
    let wall = Outcome::TimedOut { deadline: Deadline::WallClock };
    let stops =
        |event: &Event| matches!(event, Event::Stopping { verdict, .. } if *verdict == wall);
    assert!(fired.events.iter().any(stops), "renewed, it is only too old: {:?}", fired.events);
}

/// A solo agent that only renews is shown as silent and given up at its wall clock.
#[test]
fn a_solo_agent_that_only_renews_falls_silent_and_is_released_at_its_wall_clock() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    for minute in 1..=29 {
        world.wait(Millis::minutes(1));
        world.supervisor(id, Supervisor::Renew { lease: None }).expect("it is held");
        assert_eq!(world.flow(id).badge(world.now), Badge::Running, "{minute}");
    }
    world.wait(Millis::minutes(1));
    assert_eq!(world.flow(id).badge(world.now), Badge::Silent);
    assert_eq!(world.flow(id).needs(world.now), vec![Need::Silent]);
    world.agent(id, progress()).expect("it speaks again");
    assert_eq!(world.flow(id).badge(world.now), Badge::Running);
    world.supervisor(id, Supervisor::Renew { lease: Some(Millis::hours(24)) }).expect("held");
    let wall = world.held(id).claimed_at + Policy::default().wall;
    assert_eq!(world.due_at(id), Some(wall), "there is no worker to give a grace to");
    world.now = wall;
    world.pass(id);
    assert_eq!((world.word(id), world.run(id).tally.continuations), ("queued", 1));
}

/// A program may take back what it asked for: then nobody waits for a person any more.
#[test]
fn a_question_that_is_taken_back_lets_the_agent_go_on() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, Agent::Ask(message())).expect("it is held");
    world.agent(id, Agent::Withdraw).expect("it is held");
    assert_eq!(world.word(id), "working");
    let armed: Vec<_> = world.held(id).armed.iter().map(|(deadline, _)| deadline).collect();
    assert_eq!(armed, [Deadline::StreamIdle, Deadline::WallClock], "it is expected to speak");
    world.agent(id, Agent::Ask(message())).expect("it is held");
    world.person(id, Person::Answer(message())).expect("it asked");
    world.agent(id, Agent::Withdraw).expect("it is held");
    let mark = world.run(id).answer.map(|answer| answer.mark);
    assert_eq!(mark, Some(Mark::Applied), "it has the answer, and waits no longer");
}
