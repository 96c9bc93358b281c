//! The edge cases that other systems learned the hard way, as far as the rules alone decide them.

use std::collections::BTreeSet;

use baton_domain::command::{Agent, Command, NewTask, Person, Proof, Supervisor, Time};
use baton_domain::deadline::Sight;
use baton_domain::event::Event;
use baton_domain::ids::{AttemptId, Nonce, TaskId};
use baton_domain::lane::Wants;
use baton_domain::pool::{Pool, PoolName};
use baton_domain::reaction::{Cause, Reaction};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Cap, Death, Idle, Mode, RunState, Why};
use baton_domain::scene::LeaseChange;
use baton_domain::task::{Ending, Hold, Stage, Wait};
use baton_domain::text::Reason;
use baton_domain::time::Millis;

use crate::cast::{
    abandon, block, capability, capable, complete, fail, hold, holder, lost, note, person, project,
    proved, reason, stage, started, stopped, story, wanting, worker, world,
};
use crate::world::World;

const MODES: [Mode; 2] = [Mode::Solo, Mode::Supervised];

fn gpu() -> Why {
    Why::Capability { needs: capability("gpu") }
}

fn refused(answer: Result<baton_domain::Decision, Refusal>) -> Refusal {
    answer.expect_err("it must be refused")
}

fn expire(world: &mut World, id: TaskId) {
    world.wait(Millis::minutes(6));
    world.pass(id);
}

fn blocked(world: &World, id: TaskId) -> baton_domain::run::Block {
    match &world.run(id).state {
        RunState::Idle(Idle::Blocked(block)) => block.clone(),
        RunState::Idle(_) | RunState::Held(_) => panic!("{id} is {}", world.word(id)),
    }
}

/// Case 1.
#[test]
fn who_lost_the_lease_cannot_complete_what_another_holds() {
    for mode in MODES {
        let mut world = world();
        let id = world.at_work(started(), mode);
        let old = world.proof(id);
        expire(&mut world, id);
        world.take_up(id, mode);
        let (flow, lease) = (world.flow(id).clone(), world.lease(id).clone());
        let late = world.tell(id, &Command::Agent(old, complete()));
        assert_eq!(refused(late), Refusal::LeaseLost);
        assert_eq!((world.flow(id), world.lease(id)), (&flow, &lease));
    }
}

/// Case 3.
#[test]
fn a_holder_without_a_free_slot_is_told_what_it_holds() {
    for mode in MODES {
        let mut world = world();
        let slot = Pool { limit: Some(1), ..Pool::default() };
        world.pools.insert(PoolName::Holder(holder(mode).principal), slot);
        let first = world.at_work(started(), mode);
        let second = world.made(started());
        let Refusal::HolderFull { held, .. } = refused(world.claim(second, holder(mode))) else {
            panic!("the pool is full");
        };
        assert_eq!(held, Some(AttemptId { task: first, number: 1 }));
        assert_eq!(world.word(second), "queued");
        world.conclude(first, fail());
        world.claim(second, holder(mode)).expect("the slot is free again");
    }
}

/// Case 4.
#[test]
fn parking_drops_the_lease_with_its_holder_and_nonce() {
    for mode in MODES {
        let mut world = world();
        let id = world.at_work(started(), mode);
        let parked = world.agent(id, block(Why::NeedsInput)).expect("it is held");
        let parked = match mode {
            Mode::Solo => parked,
            Mode::Supervised => {
                assert_eq!(parked.lease, None, "the process still lives");
                world.supervisor(id, proved()).expect("it is stopping")
            }
        };
        assert_eq!(parked.lease, Some(LeaseChange::Drop));
        assert!(!world.leases.contains_key(&id));
        assert_eq!(blocked(&world, id).why, Why::NeedsInput);
        let row = serde_json::to_string(world.flow(id)).expect("a flow is text");
        assert!(!row.contains(holder(mode).principal.as_str()), "{row}");
    }
}

/// Case 5: a task has one live run or none, so a queued twin cannot be written down; and no word
/// makes one.
#[test]
fn a_blocked_run_has_no_queued_twin() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    world.conclude(id, block(Why::NeedsInput));
    let before = world.flow(id).clone();
    let again = world.person(id, Person::Retry(reason()));
    assert_eq!(refused(again), Refusal::WrongState { state: "blocked" });
    let same = Person::Move { to: Some(stage("coding")), start_at: None };
    assert!(world.person(id, same).expect("it is there already").is_nothing());
    assert_eq!(refused(world.claim(id, worker())).code(), "not_for_you");
    assert_eq!(*world.flow(id), before);
    // A newer run takes the place of the older one, whose end is kept beside it.
    world.person(id, Person::Cancel(reason())).expect("a person may");
    world.person(id, Person::Retry(reason())).expect("it is cancelled");
    let (run, last) = (world.run(id), world.flow(id).last.as_ref().expect("one is over"));
    assert_eq!((run.number, run.previous, last.number), (2, Some(1), 1));
}

/// Case 6: the type has no blank value, so no surface can bring one to a lease.
#[test]
fn a_blank_reason_never_reaches_a_lease() {
    for blank in ["", " ", "\t\n", "\u{a0}\u{2003}"] {
        let refusal = Reason::new("reason", blank).expect_err("it is blank");
        assert_eq!(refusal.code(), "invalid");
    }
}

/// Case 7.
#[test]
fn a_reason_with_a_claim_token_is_no_reason() {
    let refusal = Reason::new("reason", "see batonc_Zm9v").expect_err("it holds a token");
    assert_eq!(refusal.to_string(), "`reason` must not contain a claim token");
    Reason::new("reason", "the prefix batonc_ alone is no token").expect("it is none");
}

/// Case 8.
#[test]
fn of_two_who_pick_up_the_same_block_one_wins_and_the_other_sees_it_taken() {
    for mode in MODES {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.conclude(id, block(gpu()));
        assert_eq!(world.flow(id).lanes().len(), 1, "it is listed");
        world.claim(id, wanting(Wants::Blocked, capable())).expect("it can");
        let winner = AttemptId { task: id, number: 2 };
        let second = world.claim(id, wanting(Wants::Blocked, capable()));
        assert_eq!(refused(second), Refusal::Held { attempt: winner });
        assert!(world.flow(id).lanes().is_empty(), "it is listed no longer");
    }
}

/// Case 9.
#[test]
fn picked_up_work_whose_holder_died_is_offered_again_with_both_checkpoints() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, note()).expect("it is held");
    world.conclude(id, block(gpu()));
    let (first, seen) = (blocked(&world, id), world.flow(id).recurrence.clone());
    world.claim(id, wanting(Wants::Blocked, capable())).expect("it can");
    world.agent(id, note()).expect("it is held");
    expire(&mut world, id);
    assert_eq!(blocked(&world, id), first, "blocked as before");
    assert_eq!(world.flow(id).recurrence, seen, "and not counted");
    assert_eq!((world.flow(id).checkpoints, world.flow(id).lanes().len()), (2, 1));
    assert_eq!(world.run(id).ready_at, first.at, "it keeps its place");
}

/// Case 10.
#[test]
fn a_block_that_comes_back_at_the_limit_is_for_a_person_alone() {
    for mode in MODES {
        let mut world = world();
        let id = world.made(started());
        let until = |world: &World| Why::Transient { until: world.now + Millis::hours(1) };
        for round in 0..3 {
            world.take_up(id, mode);
            let why = until(&world);
            world.conclude(id, block(why));
            assert_eq!(blocked(&world, id).sticky, round == 2, "{round}");
            world.wait(Millis::hours(2));
            assert_eq!(world.pass(id), usize::from(round < 2), "time unparks it");
        }
        assert_eq!(world.due_at(id), None);
        let taken = world.claim(id, wanting(Wants::ReadyOrBlocked, capable()));
        assert_eq!(refused(taken), Refusal::PersonNeeded);
        world.person(id, Person::Unblock(reason())).expect("a person may");
        assert_eq!(world.word(id), "queued");
    }
}

/// Case 11.
#[test]
fn a_block_that_expired_during_an_outage_expires_once() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let until = world.now + Millis::hours(1);
    world.conclude(id, block(Why::Transient { until }));
    let entries = world.entries[&id].len();
    assert_eq!(world.due_at(id), Some(until));
    world.wait(Millis::hours(24));
    assert_eq!(world.pass(id), 1);
    assert_eq!(world.pass(id), 0, "a second server finds nothing to do");
    assert_eq!((world.entries[&id].len(), world.flow(id).runs), (entries + 1, 1));
}

/// Case 16.
#[test]
fn while_a_process_survives_nobody_else_gets_the_run() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, fail()).expect("it is held");
    world.supervisor(id, stopped(Death::None, true)).expect("it is stopping");
    for _ in 0..5 {
        world.wait(Millis::minutes(4));
        world.supervisor(id, Supervisor::Renew { lease: None }).expect("it lives");
        let none = world.supervisor(id, stopped(Death::None, false)).expect("it is stopping");
        assert!(none.is_nothing(), "no proof");
        assert_eq!(refused(world.claim(id, worker())).code(), "held");
    }
    world.supervisor(id, proved()).expect("it is gone at last");
    assert_eq!((world.word(id), world.flow(id).unproven.len()), ("delayed", 0));
}

/// Case 22: a retried command does not happen twice, even without a remembered answer.
#[test]
fn a_verdict_that_is_said_twice_counts_once() {
    for mode in MODES {
        let mut world = world();
        let id = world.at_work(started(), mode);
        let said = Command::Agent(world.proof(id), complete());
        world.tell(id, &said).expect("it is held");
        let flow = world.flow(id).clone();
        let code = refused(world.tell(id, &said)).code();
        assert_eq!(code, if mode == Mode::Solo { "lease_lost" } else { "wrong_state" });
        assert_eq!(*world.flow(id), flow);
    }
}

/// Case 23.
#[test]
fn a_report_of_an_earlier_attempt_changes_nothing() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    let old = world.proof(id);
    expire(&mut world, id);
    world.take_up(id, Mode::Supervised);
    let flow = world.flow(id).clone();
    for says in [Supervisor::Exited, Supervisor::Renew { lease: None }, lost()] {
        let late = world.tell(id, &Command::Supervisor(old.clone(), says));
        assert_eq!(refused(late), Refusal::LeaseLost);
    }
    assert_eq!(*world.flow(id), flow);
}

/// Case 23.
#[test]
fn who_holds_the_run_again_cannot_speak_as_its_earlier_attempt() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    expire(&mut world, id);
    world.take_up(id, Mode::Supervised);
    let principal = worker().principal;
    let as_attempt = |attempt| Proof::Caller { attempt, principal: principal.clone() };
    let old = world.tell(id, &Command::Agent(as_attempt(1), note()));
    assert_eq!(refused(old), Refusal::LeaseLost);
    world.tell(id, &Command::Agent(as_attempt(2), note())).expect("it holds the run");
}

/// Case 26.
#[test]
fn a_rate_limit_costs_a_try_and_nothing_else() {
    for mode in MODES {
        let mut world = world();
        let id = world.at_work(started(), mode);
        let eleven = world.now + Millis::hours(11);
        let until = |until| Supervisor::Release { reason: reason(), until: Some(until) };
        world.supervisor(id, until(eleven)).expect("it is held");
        if mode == Mode::Supervised {
            let second = world.supervisor(id, until(eleven - Millis::hours(1)));
            assert!(second.expect("it is stopping").is_nothing(), "one timer");
            world.supervisor(id, proved()).expect("it is stopping");
        }
        assert_eq!((world.word(id), world.due_at(id)), ("delayed", Some(eleven)));
        let tally = world.run(id).tally;
        assert_eq!((tally.faults, tally.continuations, tally.losses, tally.tries), (0, 0, 0, 1));
    }
}

/// Case 27, the second half: whoever only reads the same again brings nothing on.
#[test]
fn work_that_stands_still_three_times_is_parked_with_that_reason() {
    let mut world = world();
    let id = world.made(started());
    for _ in 0..3 {
        assert_eq!(world.word(id), "queued");
        world.take_up(id, Mode::Supervised);
        world.supervisor(id, Supervisor::Exited).expect("it is held");
        world.supervisor(id, proved()).expect("it is stopping");
    }
    let cap = Cap::Stalls;
    assert_eq!(blocked(&world, id).why, Why::Limit { cap });
    assert_eq!(cap.knob(), "policy.stalls_max");
}

/// Case 28.
#[test]
fn after_eight_continuations_the_run_is_parked_with_that_reason() {
    for mode in MODES {
        let mut world = world();
        let id = world.made(started());
        for _ in 0..9 {
            assert_eq!(world.word(id), "queued");
            world.take_up(id, mode);
            if mode == Mode::Supervised {
                // Another edit each time.
                let moved = Supervisor::Report(Sight::Progressed);
                world.supervisor(id, moved).expect("it is held");
            }
            world.supervisor(id, Supervisor::Exited).expect("it is held");
            if mode == Mode::Supervised {
                world.supervisor(id, proved()).expect("it is stopping");
            }
        }
        let cap = Cap::Continuations;
        assert_eq!(blocked(&world, id).why, Why::Limit { cap });
        assert_eq!(cap.knob(), "policy.continuations_max");
    }
}

/// Case 29.
#[test]
fn broken_infrastructure_has_its_own_cap_and_blames_nobody() {
    for mode in MODES {
        let mut world = world();
        let id = world.made(started());
        for round in 1..=10 {
            world.take_up(id, mode);
            world.supervisor(id, lost()).expect("it is held");
            if mode == Mode::Supervised {
                world.supervisor(id, proved()).expect("it is stopping");
            }
            let tally = world.run(id).tally;
            assert_eq!((tally.faults, tally.continuations, tally.losses), (0, 0, round));
            world.wait(Millis::hours(1));
            world.pass(id);
        }
        assert_eq!(blocked(&world, id).why, Why::Limit { cap: Cap::Losses });
    }
}

/// Case 32; the law over random histories proves it for every state.
#[test]
fn a_frozen_task_stays_in_its_column() {
    let mut world = world();
    for task in [story(), started()] {
        let id = world.made(task);
        let before = world.flow(id).clone();
        world.person(id, hold(Hold::Frozen, true)).expect("a person may");
        assert_eq!(world.flow(id).stage, before.stage);
        world.person(id, hold(Hold::Frozen, false)).expect("a person may");
        assert_eq!(world.flow(id).stage, before.stage);
    }
}

fn waiting_for(world: &mut World, on: &[TaskId]) -> TaskId {
    world.made(NewTask { depends_on: on.iter().copied().collect(), ..story() })
}

/// Case 33.
#[test]
fn only_what_is_done_promotes_whoever_waits_for_it() {
    let by = TaskId(1);
    let endings = [
        Ending::Abandoned { reason: reason() },
        Ending::Rejected { reason: reason() },
        Ending::Superseded { by, reason: reason() },
    ];
    for ending in endings {
        let mut world = world();
        world.made(story());
        let on = world.made(started());
        let id = waiting_for(&mut world, &[on]);
        world.person(on, Person::Close(ending)).expect("a person may");
        world.settle();
        assert_eq!(world.flow(id).waits_for[&on], Wait::Failed);
        assert_eq!((&world.flow(id).stage, world.flow(id).runs), (&Stage::Backlog, 0));
    }
    // A failed run is no end: whoever waits goes on waiting.
    let mut world = world();
    let on = world.made(started());
    let id = waiting_for(&mut world, &[on]);
    let broken = Person::Fail { code: crate::cast::code(), reason: reason() };
    world.person(on, broken).expect("a person may");
    world.settle();
    assert_eq!(world.flow(id).waits_for[&on], Wait::Open);
}

fn be_done(world: &mut World, id: TaskId) {
    for _ in 0..2 {
        world.take_up(id, Mode::Solo);
        world.conclude(id, complete());
    }
}

/// Case 33.
#[test]
fn a_done_dependency_promotes_once_and_an_archived_one_is_met_from_the_start() {
    let mut world = world();
    let on = world.made(started());
    let id = waiting_for(&mut world, &[on]);
    be_done(&mut world, on);
    let told = world.reactions.front().cloned().expect("it tells");
    world.settle();
    assert_eq!((world.word(id), world.flow(id).runs), ("queued", 1));
    let again = world.tell(id, &Command::Time(Time::React(told)));
    assert!(again.expect("a reaction is never refused").is_nothing());
    world.person(on, Person::Archive).expect("it has ended");
    let late = waiting_for(&mut world, &[on]);
    assert!(world.flow(late).waits_for.is_empty());
}

/// Case 33.
#[test]
fn a_circle_of_dependencies_is_refused() {
    let mut world = world();
    let a = world.made(started());
    let b = waiting_for(&mut world, &[a]);
    let c = waiting_for(&mut world, &[b]);
    let closes = world.person(a, Person::Depend { on: c, wait: true });
    assert_eq!(refused(closes), Refusal::Cycle { on: c });
    world.take_up(a, Mode::Solo);
    let blocks = world.agent(a, block(Why::Dependency { on: c }));
    assert_eq!(refused(blocks), Refusal::Cycle { on: c });
    assert_eq!(world.word(a), "working", "and the run stays held");
}

/// Case 34.
#[test]
fn two_dependencies_that_are_done_at_once_give_one_run() {
    let mut world = world();
    let (a, b) = (world.made(started()), world.made(started()));
    let id = waiting_for(&mut world, &[a, b]);
    be_done(&mut world, a);
    be_done(&mut world, b);
    assert_eq!(world.reactions.len(), 2, "both told before either was heard");
    let first = world.reactions.pop_front().expect("there are two");
    world.tell(id, &Command::Time(Time::React(first))).expect("a reaction is never refused");
    assert_eq!(world.word(id), "none", "one is still open");
    world.settle();
    assert_eq!((world.word(id), world.flow(id).runs), ("queued", 1));
}

/// Case 38.
#[test]
fn an_unknown_task_is_not_found_by_anybody_and_leaves_no_trace() {
    let mut world = world();
    let nowhere = TaskId(7);
    let proof = Proof::Token { attempt: 1, nonce: Nonce(1) };
    let commands = [
        Command::Person(abandon()),
        Command::Time(Time::Pass),
        crate::cast::claim(person(), 1),
        Command::Supervisor(proof.clone(), Supervisor::Spend { total_micros: 1 }),
    ];
    for command in commands {
        assert_eq!(refused(world.tell(nowhere, &command)), Refusal::NotFound);
    }
    let spoken = world.tell(nowhere, &Command::Agent(proof, Agent::Begin));
    assert_eq!(refused(spoken), Refusal::LeaseLost, "a holder is told no more than that");
    assert!(world.tasks.is_empty() && world.entries.is_empty() && world.pools.is_empty());
}

/// What a dependency tells, it tells exactly those that declared it.
#[test]
fn an_end_is_told_to_every_dependant_the_parent_and_the_maker() {
    let mut world = World::new(project());
    let parent = world.made(story());
    let maker = world.made(story());
    let on = world.made(NewTask { parent: Some(parent), creator_task: Some(maker), ..started() });
    let waiting: Vec<TaskId> = (0..3).map(|_| waiting_for(&mut world, &[on])).collect();
    let ended = world.person(on, abandon()).expect("a person may");
    let met = Cause::DependencySettled { met: false };
    let told: BTreeSet<Reaction> = waiting
        .into_iter()
        .map(|to| (to, met.clone()))
        .chain([(parent, Cause::ChildSettled), (maker, Cause::Wake { ended: true, by: None })])
        .map(|(to, cause)| Reaction { to, from: on, cause })
        .collect();
    assert_eq!(ended.reactions.into_iter().collect::<BTreeSet<_>>(), told);
    assert!(matches!(ended.events.last(), Some(Event::Ended { .. })));
}
