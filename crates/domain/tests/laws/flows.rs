//! How work flows through stages, verification and other tasks.

use std::collections::BTreeSet;

use baton_domain::command::{Agent, Command, NewTask, Patch, Person, Supervisor};
use baton_domain::deadline::Deadline;
use baton_domain::ids::TaskId;
use baton_domain::lane::Wants;
use baton_domain::limits::{CHILDREN_MAX, DEPENDENCIES_MAX, DEPTH_MAX, LINEAGE_MAX, PARKED_MAX};
use baton_domain::policy::Policy;
use baton_domain::reaction::Cause;
use baton_domain::refusal::Refusal;
use baton_domain::run::{Cap, Finish, Mode, RunResult, Why};
use baton_domain::task::{Ending, Hold, Kind, Stage};
use baton_domain::time::Millis;
use baton_domain::view::{Badge, Need};

use crate::cast::{
    abandon, block, code, complete, contracted, fail, hold, lost, note, proved, reason, release,
    stage, started, story, wanting, worker, world,
};
use crate::world::World;

fn refused(answer: Result<baton_domain::Decision, Refusal>) -> Refusal {
    answer.expect_err("it must be refused")
}

fn verifying() -> (World, TaskId) {
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Supervised);
    world.agent(id, complete()).expect("it is held");
    assert_eq!(world.word(id), "verifying");
    (world, id)
}

#[test]
fn a_task_that_is_verified_in_every_stage_is_done_and_proven() {
    let mut world = world();
    let id = world.made(contracted());
    for _ in 0..2 {
        world.take_up(id, Mode::Supervised);
        world.agent(id, complete()).expect("it is held");
        world.verifier(id, true).expect("it is verifying");
        world.supervisor(id, proved()).expect("it is stopping");
    }
    assert_eq!(world.flow(id).ending(), Some(&Ending::Done { verified: true }));
    assert_eq!(world.flow(id).badge(world.now), Badge::Done);
}

#[test]
fn one_unverified_stage_is_enough_to_doubt_the_end() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    world.conclude(id, complete());
    let lines = Patch { contract: contracted().contract, ..Patch::default() };
    world.person(id, Person::Edit(Box::new(lines))).expect("a person may");
    world.take_up(id, Mode::Supervised);
    world.agent(id, complete()).expect("it is held");
    world.verifier(id, true).expect("it is verifying");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.flow(id).badge(world.now), Badge::DoneUnverified);
}

#[test]
fn a_failed_gate_returns_to_work_and_the_third_one_is_the_agents_fault() {
    let (mut world, id) = verifying();
    for _ in 0..2 {
        world.verifier(id, false).expect("it is verifying");
        assert_eq!(world.word(id), "working", "with its evidence");
        world.agent(id, complete()).expect("it is held");
    }
    world.verifier(id, false).expect("it is verifying");
    assert_eq!(world.word(id), "stopping");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!((world.word(id), world.run(id).tally.faults), ("delayed", 1));
}

#[test]
fn a_failed_gate_of_an_agent_that_has_exited_is_a_continuation() {
    let (mut world, id) = verifying();
    world.supervisor(id, Supervisor::Exited).expect("it is held");
    assert_eq!(world.word(id), "verifying");
    world.verifier(id, false).expect("it is verifying");
    world.supervisor(id, proved()).expect("it is stopping");
    let tally = world.run(id).tally;
    assert_eq!((world.word(id), tally.continuations, tally.faults), ("queued", 1, 0));
}

#[test]
fn solo_work_is_verified_by_somebody_else() {
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Solo);
    world.conclude(id, complete());
    assert_eq!(world.word(id), "submitted");
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
    world.verifier(id, false).expect("it is verifying");
    assert_eq!((world.word(id), world.run(id).tally.faults), ("queued", 1));
    world.take_up(id, Mode::Solo);
    world.conclude(id, complete());
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
    world.verifier(id, true).expect("it is verifying");
    assert_eq!(world.flow(id).stage, Stage::Working(stage("qa")));
}

#[test]
fn a_verifier_that_gives_the_run_back_is_no_loss() {
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Solo);
    world.conclude(id, complete());
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
    world.supervisor(id, release()).expect("it is held");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!((world.word(id), world.run(id).tally.losses), ("submitted", 0));
}

#[test]
fn rejected_work_at_its_cap_is_failed_and_rejected() {
    let mut world = world();
    let policy = Policy { attempts_max: 1, ..Policy::default() };
    let id = world.at_work(NewTask { policy, ..contracted() }, Mode::Solo);
    world.conclude(id, complete());
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
    world.verifier(id, false).expect("it is verifying");
    let last = world.flow(id).last.as_ref().expect("it is over");
    assert!(matches!(last.finish, Finish::Failed { .. }));
    assert_eq!(last.result, Some(RunResult::Rejected));
    assert_eq!(world.flow(id).needs(world.now), vec![Need::Failure]);
}

#[test]
fn what_is_submitted_outlives_its_holder() {
    let wall = Supervisor::TimedOut(Deadline::WallClock);
    for end in [release(), lost(), wall] {
        let (mut world, id) = verifying();
        world.supervisor(id, end).expect("it is held");
        world.supervisor(id, proved()).expect("it is stopping");
        assert_eq!((world.word(id), world.run(id).tally.faults), ("submitted", 0));
    }
    let (mut world, id) = verifying();
    world.wait(Millis::minutes(6));
    world.pass(id);
    assert_eq!(world.word(id), "submitted");
}

#[test]
fn what_was_rejected_is_not_offered_to_a_verifier_again() {
    let (mut world, id) = verifying();
    world.verifier(id, false).expect("it is verifying");
    world.supervisor(id, release()).expect("it is held");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.word(id), "queued");
}

#[test]
fn a_dependency_that_is_done_while_the_block_on_it_stops_queues_the_run() {
    let mut world = world();
    let on = world.made(started());
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, block(Why::Dependency { on })).expect("it is held");
    for _ in 0..2 {
        world.take_up(on, Mode::Solo);
        world.conclude(on, complete());
    }
    world.settle();
    assert_eq!(world.word(id), "stopping");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.word(id), "queued", "nobody will tell it again");
}

#[test]
fn a_dependency_that_is_removed_unparks_the_run() {
    let mut world = world();
    let on = world.made(story());
    let id = world.at_work(started(), Mode::Solo);
    world.conclude(id, block(Why::Dependency { on }));
    world.person(id, Person::Depend { on, wait: false }).expect("a person may");
    assert_eq!(world.word(id), "queued");
}

#[test]
fn a_draft_whose_dependencies_are_done_starts_when_it_is_published() {
    let mut world = world();
    let on = world.made(started());
    let depends_on = BTreeSet::from([on]);
    let id = world.made(NewTask { draft: true, depends_on, ..story() });
    for _ in 0..2 {
        world.take_up(on, Mode::Solo);
        world.conclude(on, complete());
    }
    world.settle();
    for on in [true, false] {
        world.person(id, hold(Hold::Review, on)).expect("a person may");
        assert_eq!(world.word(id), "none", "nothing happens to a draft");
    }
    world.person(id, hold(Hold::Frozen, true)).expect("a person may");
    world.person(id, Person::Publish).expect("a person may");
    assert_eq!(world.word(id), "none", "it is frozen");
    world.person(id, hold(Hold::Frozen, false)).expect("a person may");
    assert_eq!(world.word(id), "queued");
}

fn epic_with_a_child() -> (World, TaskId, TaskId) {
    let mut world = world();
    let epic = world.made(NewTask { kind: Kind::Epic, ..story() });
    let child = world.made(NewTask { parent: Some(epic), ..started() });
    (world, epic, child)
}

fn be_done(world: &mut World, id: TaskId) {
    for _ in 0..2 {
        world.take_up(id, Mode::Solo);
        world.conclude(id, complete());
    }
    world.settle();
}

#[test]
fn an_epic_is_done_with_its_children_unless_it_is_held() {
    let (mut world, epic, child) = epic_with_a_child();
    world.person(epic, hold(Hold::Review, true)).expect("a person may");
    be_done(&mut world, child);
    assert_eq!(world.flow(epic).ending(), None);
    world.person(epic, hold(Hold::Review, false)).expect("a person may");
    assert_eq!(world.flow(epic).ending(), Some(&Ending::Done { verified: false }));
}

#[test]
fn an_epic_waits_for_children_that_were_added_while_it_was_held() {
    let (mut world, epic, child) = epic_with_a_child();
    world.person(epic, crate::cast::move_to("coding")).expect("a person may");
    world.person(epic, hold(Hold::Frozen, true)).expect("a person may");
    be_done(&mut world, child);
    let second = world.made(NewTask { parent: Some(epic), ..started() });
    world.person(epic, hold(Hold::Frozen, false)).expect("a person may");
    assert_eq!(world.flow(epic).ending(), None);
    be_done(&mut world, second);
    assert_eq!(world.flow(epic).ending(), Some(&Ending::Done { verified: false }));
}

#[test]
fn an_epic_with_a_child_that_was_not_done_stays_open_and_asks_a_person() {
    let (mut world, epic, child) = epic_with_a_child();
    let second = world.made(NewTask { parent: Some(epic), ..started() });
    world.person(child, abandon()).expect("a person may");
    world.settle();
    assert_eq!(world.flow(epic).needs(world.now), [], "a child is open");
    be_done(&mut world, second);
    assert_eq!(world.flow(epic).ending(), None);
    assert_eq!(world.flow(epic).undone, 1);
    assert_eq!(world.flow(epic).needs(world.now), [Need::ChildrenUndone]);
    assert_eq!(world.flow(epic).badge(world.now), Badge::NeedsYou);
}

#[test]
fn a_child_that_is_added_takes_the_question_back() {
    let (mut world, epic, child) = epic_with_a_child();
    world.person(child, abandon()).expect("a person may");
    world.settle();
    let second = world.made(NewTask { parent: Some(epic), ..started() });
    let early = world.person(epic, Person::Close(Ending::Done { verified: false }));
    assert_eq!(refused(early).code(), "invalid", "a child is open");
    world.settle();
    assert_eq!(world.flow(epic).needs(world.now), []);
    be_done(&mut world, second);
    assert_eq!(world.flow(epic).needs(world.now), [Need::ChildrenUndone], "one was not done");
}

#[test]
fn only_a_person_ends_an_epic_whose_children_were_not_all_done() {
    let done = |verified| Person::Close(Ending::Done { verified });
    let (mut world, epic, child) = epic_with_a_child();
    assert_eq!(refused(world.person(epic, done(false))).code(), "invalid", "a child is open");
    world.person(child, abandon()).expect("a person may");
    assert_eq!(refused(world.person(child, done(false))).code(), "ended");
    world.settle();
    assert_eq!(refused(world.person(epic, done(true))).code(), "invalid", "it proves nothing");
    world.person(epic, done(false)).expect("it is enough");
    assert_eq!(world.flow(epic).ending(), Some(&Ending::Done { verified: false }));
    let plain = world.made(started());
    assert_eq!(refused(world.person(plain, done(false))).code(), "invalid", "it is no epic");
}

#[test]
fn whoever_made_a_task_is_woken_when_it_is_stuck_and_when_it_ends() {
    let mut world = world();
    let maker = world.made(story());
    let made = || NewTask { creator_task: Some(maker), ..started() };
    let wakes = |world: &World| {
        let ends = world.reactions.iter().filter(|reaction| reaction.to == maker);
        ends.map(|reaction| matches!(reaction.cause, Cause::Wake { ended: true, .. }))
            .collect::<Vec<_>>()
    };
    let id = world.at_work(made(), Mode::Solo);
    world.conclude(id, block(Why::NeedsInput));
    world.person(id, Person::Fail { code: code(), reason: reason() }).expect("a person may");
    world.person(id, abandon()).expect("a person may");
    assert_eq!(wakes(&world), [false, false, true]);
}

#[test]
fn a_chain_of_retries_has_an_end() {
    let mut world = world();
    let id = world.made(started());
    for depth in 0..=LINEAGE_MAX {
        assert_eq!(world.run(id).depth, depth);
        world.person(id, Person::Cancel(reason())).expect("it has a run");
        let retried = world.person(id, Person::Retry(reason()));
        assert_eq!(retried.is_ok(), depth < LINEAGE_MAX, "{depth}");
    }
    let last = world.person(id, Person::Retry(reason()));
    assert_eq!(refused(last), Refusal::LineageTooLong);
}

#[test]
fn raising_a_cap_by_one_lets_the_run_go_on() {
    for (cap, policy) in [
        (Cap::Continuations, Policy { continuations_max: 1, ..Policy::default() }),
        (Cap::Losses, Policy { losses_max: 2, ..Policy::default() }),
    ] {
        let mut world = world();
        let lower = match cap {
            Cap::Continuations => Policy { continuations_max: 0, ..policy },
            Cap::Losses
            | Cap::Tries
            | Cap::Stalls
            | Cap::Turns
            | Cap::ToolCalls
            | Cap::Tokens
            | Cap::Budget
            | Cap::Setbacks => Policy { losses_max: 1, ..policy },
        };
        let id = world.at_work(NewTask { policy: lower, ..started() }, Mode::Solo);
        let end = if cap == Cap::Losses { lost() } else { Supervisor::Exited };
        world.supervisor(id, end).expect("it is held");
        assert_eq!(world.word(id), "blocked");
        let same = Patch { policy: Some(lower.into()), ..Patch::default() };
        world.person(id, Person::Edit(Box::new(same))).expect("a person may");
        assert_eq!(world.word(id), "blocked", "{cap:?} is not raised");
        let raised = Patch { policy: Some(policy.into()), ..Patch::default() };
        world.person(id, Person::Edit(Box::new(raised))).expect("a person may");
        assert_eq!(world.word(id), "queued", "{cap:?}");
    }
}

#[test]
fn silent_ends_at_their_cap_are_shown_as_what_they_are() {
    let mut world = world();
    let policy = Policy { continuations_max: 0, ..Policy::default() };
    let id = world.at_work(NewTask { policy, ..started() }, Mode::Solo);
    world.supervisor(id, Supervisor::Exited).expect("it is held");
    assert_eq!(world.flow(id).badge(world.now), Badge::EndedWithoutResult);
    assert_eq!(world.flow(id).needs(world.now), vec![Need::EndedWithoutResult]);
}

#[test]
fn a_graph_has_bounds_that_an_agent_cannot_pass() {
    let mut world = world();
    let many: Vec<TaskId> = (0..=DEPENDENCIES_MAX).map(|_| world.made(story())).collect();
    let (last, first) = many.split_last().expect("there are some");
    let depends_on: BTreeSet<TaskId> = first.iter().copied().collect();
    let id = world.made(NewTask { depends_on, ..started() });
    let more = world.person(id, Person::Depend { on: *last, wait: true });
    assert_eq!(refused(more).code(), "invalid");
    for on in first {
        world.person(id, Person::Depend { on: *on, wait: false }).expect("a person may");
    }
    world.take_up(id, Mode::Solo);
    for on in first {
        world.person(id, Person::Depend { on: *on, wait: true }).expect("it fits");
    }
    let blocks = world.agent(id, block(Why::Dependency { on: *last }));
    assert_eq!(refused(blocks).code(), "invalid");
    assert_eq!(world.word(id), "working");
}

#[test]
fn a_tree_has_bounds() {
    let mut world = world();
    let mut parent = world.made(story());
    for _ in 0..DEPTH_MAX {
        parent = world.made(NewTask { parent: Some(parent), ..story() });
    }
    let deeper = world.create(NewTask { parent: Some(parent), ..story() });
    assert_eq!(deeper.expect_err("it is too deep").code(), "invalid");
    let wide = world.made(story());
    for _ in 0..CHILDREN_MAX {
        world.made(NewTask { parent: Some(wide), ..story() });
    }
    let wider = world.create(NewTask { parent: Some(wide), ..story() });
    assert_eq!(wider.expect_err("it is too wide").code(), "invalid");
}

#[test]
fn a_holder_parks_a_run_for_a_month_at_most() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let too_late = world.now + Millis(PARKED_MAX.0 + 1);
    let parked = world.agent(id, block(Why::Transient { until: too_late }));
    assert_eq!(refused(parked).code(), "invalid");
    let delayed = Supervisor::Release { reason: reason(), until: Some(too_late) };
    assert_eq!(refused(world.supervisor(id, delayed)).code(), "invalid");
    let limit = world.agent(id, block(Why::Limit { cap: Cap::Tries }));
    assert_eq!(refused(limit).code(), "invalid", "limits are raised by the rules alone");
    assert_eq!(world.word(id), "working");
}

#[test]
fn closing_a_watched_task_waits_for_the_death_and_then_closes() {
    let mut world = world();
    let on = world.made(story());
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, note()).expect("it is held");
    world.person(id, abandon()).expect("a person may");
    assert_eq!((world.word(id), world.flow(id).ending()), ("stopping", None));
    assert!(world.person(id, abandon()).expect("it is said already").is_nothing());
    let instead = Ending::Superseded { by: on, reason: reason() };
    world.person(id, Person::Close(instead.clone())).expect("a person may think again");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.flow(id).ending(), Some(&instead));
    let late = world.tell(id, &Command::Person(Person::Retry(reason())));
    assert_eq!(refused(late), Refusal::Ended);
}

#[test]
fn a_failure_pauses_longer_each_time() {
    let mut world = world();
    let policy = Policy { attempts_max: 10, ..Policy::default() };
    let id = world.made(NewTask { policy, ..started() });
    let mut longest = Millis(0);
    for failures in 1..10_u8 {
        world.take_up(id, Mode::Solo);
        world.agent(id, fail()).expect("it is held");
        let due_at = world.due_at(id).expect("it is delayed");
        let pause = due_at.since(world.now);
        assert_eq!(pause, policy.pause(id, u32::from(failures), failures));
        assert!(pause <= policy.backoff_max);
        longest = longest.max(pause);
        let early = world.claim(id, worker()).expect_err("it is delayed");
        assert_eq!(early, Refusal::NotDue { due_at });
        world.now = due_at;
        world.pass(id);
    }
    assert!(longest >= Millis::minutes(7), "{longest:?}");
    world.take_up(id, Mode::Solo);
    world.agent(id, Agent::Begin).expect("it is held");
}
