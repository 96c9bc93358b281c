//! Nobody works on a run while somebody else may still: a run whose attempt ends without proof is free
//! only once the fence of the last renewal has fallen.

use baton_domain::command::{Command, Supervisor, Time};
use baton_domain::deadline::{Deadline, Sight, allowed};
use baton_domain::event::Event;
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::limits::{BACKSTOP, FENCE_FALL};
use baton_domain::policy::Policy;
use baton_domain::run::{Certainty, Death, Mode, Outcome, Phase};
use baton_domain::time::{Millis, Timestamp};

use crate::cast::{
    complete, fail, note, progress, release, snapshot, started, stopped, worker, world,
};
use crate::history::in_every_history;
use crate::world::World;

fn watched() -> (World, TaskId) {
    let mut world = world();
    let id = world.made(started());
    world.claim(id, worker()).expect("it is queued");
    world.supervisor(id, Supervisor::Report(Sight::FirstVisibleEvent)).expect("it is held");
    (world, id)
}

fn renew(world: &mut World, id: TaskId, lease: Option<Millis>) {
    world.supervisor(id, Supervisor::Renew { lease }).expect("it is held");
}

/// After how long the server fires a deadline that it was not told of.
fn backstop(deadline: Deadline) -> Millis {
    Millis(allowed(deadline, &Policy::default()).0 + BACKSTOP.0)
}

/// Two thirds of the usual lease, and what a kill may take.
fn fence(renewed: Timestamp) -> Timestamp {
    renewed + Millis::seconds(200) + FENCE_FALL
}

#[test]
fn a_silent_worker_is_a_loss_and_its_run_is_free_only_behind_the_fence() {
    let (mut world, id) = watched();
    renew(&mut world, id, None);
    let renewed = world.now;
    let idle = backstop(Deadline::StreamIdle);
    assert_eq!(world.due_at(id), Some(renewed + idle));
    world.wait(idle);
    world.pass(id);
    assert!(matches!(world.held(id).phase, Phase::Stopping { verdict: Outcome::Lost, .. }));
    assert_eq!(world.due_at(id), Some(fence(renewed)), "its agent may be at work until then");
    world.now = fence(renewed) - Millis(1);
    assert_eq!((world.pass(id), world.word(id)), (0, "stopping"));
    world.wait(Millis(1));
    world.pass(id);
    let tally = world.run(id).tally;
    assert_eq!((world.word(id), tally.losses, tally.faults), ("queued", 1, 0));
    assert_eq!(world.flow(id).unproven.len(), 1, "nobody proved it");
}

#[test]
fn a_verdict_that_nobody_proves_waits_for_the_fence_too() {
    for says in [fail, complete] {
        let (mut world, id) = watched();
        let renewed = world.now;
        world.agent(id, says()).expect("it is held");
        assert_eq!(world.due_at(id), Some(fence(renewed)));
    }
}

#[test]
fn a_silent_worker_is_to_blame_for_the_wall_clock_and_one_that_is_there_is_not() {
    for (silent, verdict) in
        [(true, Outcome::Lost), (false, Outcome::TimedOut { deadline: Deadline::WallClock })]
    {
        let mut world = world();
        let id = world.at_work(started(), Mode::Supervised);
        let wall = world.held(id).claimed_at + Policy::default().wall;
        renew(&mut world, id, Some(Millis::hours(5)));
        world.now = wall + BACKSTOP;
        if !silent {
            renew(&mut world, id, None);
        }
        world.tell(id, &Command::Time(Time::Pass)).expect("time is never refused");
        let Phase::Stopping { verdict: found, .. } = &world.held(id).phase else {
            panic!("it is {}", world.word(id));
        };
        assert_eq!(*found, verdict, "silent: {silent}");
    }
}

#[test]
fn what_is_being_stopped_is_not_renewed_so_that_its_fence_falls() {
    let (mut world, id) = watched();
    world.agent(id, fail()).expect("it is held");
    let (lease, freed) = (world.lease(id).clone(), world.due_at(id));
    for _ in 0..10 {
        world.wait(Millis::seconds(10));
        renew(&mut world, id, None);
        assert_eq!((world.lease(id), world.due_at(id)), (&lease, freed));
    }
    world.now = lease.fenced_at();
    world.pass(id);
    assert_eq!(world.word(id), "delayed");
}

#[test]
fn a_short_lease_does_not_end_before_a_death_could_be_proved() {
    let (mut world, id) = watched();
    world.wait(Millis::seconds(299));
    world.agent(id, fail()).expect("it is held");
    let awaited = world.now + Millis(2_000) + BACKSTOP;
    assert_eq!((world.lease(id).expires_at, world.due_at(id)), (awaited, Some(awaited)));
    world.now = awaited - Millis(1);
    assert_eq!((world.pass(id), world.word(id)), (0, "stopping"));
    world.supervisor(id, stopped(Death::Cgroup, false)).expect("it is in time");
    assert_eq!((world.word(id), world.flow(id).unproven.len()), ("delayed", 0));
}

#[test]
fn as_long_as_a_survivor_is_seen_its_worker_keeps_the_run() {
    let (mut world, id) = watched();
    world.supervisor(id, stopped(Death::None, true)).expect("it is held");
    for _ in 0..20 {
        world.wait(Millis::minutes(4));
        renew(&mut world, id, None);
        assert_eq!((world.pass(id), world.word(id)), (0, "stopping"));
    }
}

#[test]
fn a_renewal_never_brings_the_fence_of_a_watched_agent_nearer() {
    let (mut world, id) = watched();
    let before = world.lease(id).fenced_at();
    renew(&mut world, id, Some(Millis::seconds(1)));
    assert!(world.lease(id).fenced_at() >= before, "its shim was promised the longer one");
    let mut alone = crate::cast::world();
    let id = alone.at_work(started(), Mode::Solo);
    renew(&mut alone, id, Some(Millis::seconds(1)));
    assert_eq!(alone.lease(id).expires_at, alone.now + Millis::seconds(1));
}

#[test]
fn what_an_agent_says_by_itself_puts_the_backstop_off_and_renewals_do_not() {
    let idle = backstop(Deadline::StreamIdle);
    for says in [progress, note] {
        let (mut world, id) = watched();
        let first = world.due_at(id);
        world.wait(Millis::seconds(60));
        renew(&mut world, id, None);
        assert_eq!(world.due_at(id), first);
        world.agent(id, says()).expect("it is held");
        assert_eq!(world.due_at(id), Some(world.now + idle));
        world.supervisor(id, Supervisor::Report(Sight::ToolStarted)).expect("it is held");
        world.wait(Millis::seconds(60));
        renew(&mut world, id, None);
        world.agent(id, says()).expect("it is held");
        let tool = backstop(Deadline::ToolIdle);
        let fires = (world.now + tool).min(world.lease(id).expires_at);
        assert_eq!(world.due_at(id), Some(fires));
    }
}

#[test]
fn a_watched_run_that_is_given_back_is_free_once_it_is_proved_that_nothing_runs() {
    let mut world = world();
    let id = world.made(started());
    world.claim(id, worker()).expect("it is queued");
    world.supervisor(id, release()).expect("it is held");
    assert_eq!(world.word(id), "stopping");
    world.supervisor(id, stopped(Death::NotStarted, false)).expect("it is stopping");
    assert_eq!((world.word(id), world.flow(id).unproven.len()), ("queued", 0));
    let Some(Past::Attempt(ended)) = world.records[&id].last() else { panic!("it has ended") };
    assert_eq!(ended.certainty, Certainty::NotStarted);
}

/// Whoever looks at a lease knows from when on nobody acts under it any more.
#[test]
fn no_watched_attempt_ends_by_time_alone_before_its_fence_has_fallen() {
    in_every_history(|| {
        |world, turn| {
            let (Command::Time(Time::Pass), Some(lease), Ok(decision)) =
                (turn.command, &turn.lease, &turn.answer)
            else {
                return;
            };
            let unproven = |event: &Event| {
                matches!(event, Event::AttemptEnded { death: Some(Death::None), .. })
            };
            if decision.events.iter().any(unproven) {
                assert!(lease.fenced_at() <= world.now, "{lease:?} at {:?}", world.now);
            }
        }
    });
}

#[test]
fn what_a_worker_keeps_of_the_work_is_no_word_of_the_agent() {
    let mut world = world();
    let id = world.made(started());
    world.claim(id, worker()).expect("it is queued");
    let before = (world.held(id).active_at, world.held(id).effects, world.held(id).armed.clone());
    world.now = world.now + Millis::seconds(5);
    let kept = world.supervisor(id, snapshot()).expect("it is held");
    let is_snapshot = |event: &Event| matches!(event, Event::Checkpointed { snapshot: true, .. });
    assert!(kept.events.iter().all(is_snapshot));
    let held = world.held(id);
    assert_eq!((held.active_at, held.effects, held.armed.clone()), before);
    assert_eq!(world.run(id).checkpoints, 1, "it is kept all the same");
    let said = world.agent(id, note()).expect("it is held");
    assert!(!said.events.iter().any(is_snapshot));
    assert_eq!((world.held(id).active_at, world.held(id).effects), (world.now, true));
}
