//! What was submitted outlives whatever parks the run.

use baton_domain::command::{NewTask, Patch, Person};
use baton_domain::contract::{Contract, Receipt, SubmissionMark};
use baton_domain::ids::{LineId, TaskId};
use baton_domain::lane::Wants;
use baton_domain::policy::Policy;
use baton_domain::refusal::Refusal;
use baton_domain::run::{Cap, Finish, Idle, Mode, RunResult, RunState, Why};
use baton_domain::time::Millis;

use crate::cast::{
    complete, contracted, digest, fail, lost, proved, reason, receipt, release, started, waiver,
    wanting, worker, world,
};
use crate::world::World;

const CAPS: [(Cap, Policy); 2] = [(Cap::Losses, losses()), (Cap::Tries, tries())];

const fn losses() -> Policy {
    Policy { losses_max: 1, ..PLAIN }
}

const fn tries() -> Policy {
    Policy { tries_max: 2, ..PLAIN }
}

/// The numbers do not matter, except for the caps.
const PLAIN: Policy = Policy {
    attempts_max: 3,
    continuations_max: 8,
    losses_max: 10,
    tries_max: 50,
    stalls_max: 3,
    setbacks_max: 3,
    turns_max: 200,
    tool_calls_max: 2_000,
    tokens_max: 20_000_000,
    backoff: Millis::seconds(10),
    backoff_max: Millis::minutes(10),
    lease: Millis::minutes(5),
    wall: Millis::hours(4),
    input: Millis::minutes(10),
    starved: Millis::hours(1),
    budget_micros: 0,
};

fn submission(world: &World, id: TaskId) -> SubmissionMark {
    let RunState::Idle(Idle::Submitted(mark)) = &world.run(id).state else {
        panic!("it is {}", world.word(id));
    };
    *mark
}

/// A run that was submitted and whose verifier is gone, at the cap.
fn parked(cap: Cap, policy: Policy) -> (World, TaskId, SubmissionMark) {
    let mut world = world();
    let id = world.at_work(NewTask { policy, ..contracted() }, Mode::Solo);
    world.conclude(id, complete());
    let mark = submission(&world, id);
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it waits for a verifier");
    let end = if cap == Cap::Losses { lost() } else { release() };
    world.supervisor(id, end).expect("the verifier gives up");
    if world.leases.contains_key(&id) {
        world.supervisor(id, proved()).expect("the verifier is dead");
    }
    let RunState::Idle(Idle::Blocked(block)) = &world.run(id).state else {
        panic!("it is {}", world.word(id));
    };
    assert_eq!(block.why, Why::Limit { cap });
    (world, id, mark)
}

#[test]
fn a_submission_that_was_parked_at_a_cap_is_submitted_again_when_it_is_unblocked() {
    for (cap, policy) in CAPS {
        let (mut world, id, mark) = parked(cap, policy);
        world.person(id, Person::Unblock(reason())).expect("a person may");
        assert_eq!(submission(&world, id), mark, "{cap:?}");
        world.claim(id, wanting(Wants::Submitted, worker())).expect("it waits for a verifier");
        assert_eq!(world.held(id).submission, Some(mark));
        world.verifier(id, true).expect("it is verifying");
    }
}

#[test]
fn raising_the_cap_returns_a_parked_submission_to_its_verifiers() {
    for (cap, policy) in CAPS {
        let (mut world, id, mark) = parked(cap, policy);
        let raised = Policy { losses_max: 5, tries_max: 9, ..policy };
        let patch = Patch { policy: Some(raised.into()), ..Patch::default() };
        world.person(id, Person::Edit(Box::new(patch))).expect("a person may");
        assert_eq!(submission(&world, id), mark, "{cap:?}");
    }
}

#[test]
fn the_contract_of_a_parked_submission_does_not_change() {
    let (mut world, id, _) = parked(Cap::Losses, losses());
    let patch = Patch { contract: Some((Contract::default(), digest())), ..Patch::default() };
    let refused = world.person(id, Person::Edit(Box::new(patch)));
    assert_eq!(refused, Err(Refusal::WrongState { state: "blocked" }));
}

#[test]
fn a_run_that_had_nothing_submitted_is_queued_when_it_is_unblocked() {
    let mut world = world();
    let id = world.at_work(NewTask { policy: losses(), ..contracted() }, Mode::Solo);
    world.supervisor(id, lost()).expect("it is held");
    world.person(id, Person::Unblock(reason())).expect("a person may");
    assert_eq!(world.word(id), "queued");
    // What was rejected is not submitted any more, whatever the attempt had pinned.
    let id = world.at_work(NewTask { policy: tries(), ..contracted() }, Mode::Supervised);
    world.agent(id, complete()).expect("it is held");
    world.verifier(id, false).expect("it is verifying");
    world.agent(id, fail()).expect("it goes on");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.flow(id).run.as_ref().map(|run| run.word()), Some("delayed"));
    let plain = world.at_work(started(), Mode::Solo);
    world.supervisor(plain, lost()).expect("it is held");
    assert_eq!(world.word(plain), "delayed");
}

#[test]
fn a_person_vouches_for_every_open_line_of_what_was_submitted_or_for_none() {
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Solo);
    let early = world.person(id, Person::Waive(vec![waiver()]));
    assert_eq!(early.map_err(|refusal| refusal.code()), Err("wrong_state"), "nothing is submitted");
    world.conclude(id, complete());
    let before = world.flow(id).clone();
    let Err(Refusal::Incomplete { missing }) = world.person(id, Person::Waive(vec![])) else {
        panic!("a line is open");
    };
    assert_eq!((missing.len(), missing[0].code), (1, "line_open"));
    let unknown = Receipt { line: LineId::new("unasked").expect("a name"), ..waiver() };
    let checked = receipt(true, waiver().at);
    for wrong in [vec![waiver(), unknown], vec![checked]] {
        let refused = world.person(id, Person::Waive(wrong));
        assert_eq!(refused.map_err(|refusal| refusal.code()), Err("invalid"));
    }
    assert_eq!(world.flow(id), &before, "a refusal changes nothing");

    world.person(id, Person::Waive(vec![waiver()])).expect("all that is open is named");
    let last = world.flow(id).last.as_ref().expect("the run is over");
    assert_eq!((&last.finish, last.result), (&Finish::Completed, Some(RunResult::Verified)));
    assert!(!world.flow(id).doubted);
}
