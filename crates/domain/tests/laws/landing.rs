//! Stages that Baton itself works: what passes, what is sent back, and when a person must look.

use baton_domain::command::{Merged, Person, Supervisor, Unfit};
use baton_domain::ids::{PrincipalId, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::project::{LOCAL_WORKER, Project, WorkedBy};
use baton_domain::run::{Cap, Delay, Idle, Mode, Purpose, RunState, Why};
use baton_domain::task::{Ending, Hold, Stage};
use baton_domain::text::{Line, Reason};
use baton_domain::time::Timestamp;
use baton_domain::view::Badge;

use crate::cast::{
    complete, contracted, hold, lost, project, proved, receipt, solo, stage, started, wanting,
    worker,
};
use crate::world::World;

/// A pipeline of coding, qa and merge, as a repository has it.
fn pipeline() -> Project {
    let mut project = project();
    project.pipeline.truncate(1);
    let mut add = |name: &str, worked_by| {
        let mut spec = project.pipeline[0].clone();
        (spec.name, spec.worked_by) = (stage(name), worked_by);
        project.pipeline.push(spec);
    };
    add("qa", WorkedBy::Baton);
    add("merge", WorkedBy::Train);
    project
}

fn checks() -> Claimant {
    wanting(Wants::Submitted, worker())
}

fn merges() -> Claimant {
    let principal = PrincipalId::new(LOCAL_WORKER).expect("a name");
    Claimant { principal, ..wanting(Wants::Merges, worker()) }
}

fn line(text: &str) -> Line {
    Line::new("line", text).expect("a line")
}

fn landed() -> Supervisor {
    let (commit, onto) = (line("c0ffee"), line("main"));
    Supervisor::Merged(Box::new(Merged::Landed {
        commit,
        onto,
        receipts: vec![receipt(true, Timestamp(1))],
    }))
}

fn conflicts() -> Supervisor {
    let reason = Reason::new("reason", "both change src/lib.rs").expect("a reason");
    let merged = Merged::Unfit { kind: Unfit::Conflict, reason, receipts: vec![] };
    Supervisor::Merged(Box::new(merged))
}

fn waits() -> Supervisor {
    let reason = Reason::new("reason", "somebody works there").expect("a reason");
    Supervisor::Merged(Box::new(Merged::Waits { reason }))
}

/// A task whose work was submitted and verified, in qa.
fn in_qa(world: &mut World) -> TaskId {
    let id = world.at_work(contracted(), Mode::Solo);
    code_it(world, id);
    id
}

/// The agent at work completes, and its submission is verified.
fn code_it(world: &mut World, id: TaskId) {
    world.agent(id, complete()).expect("it is at work");
    if matches!(world.run(id).state, RunState::Idle(Idle::Submitted(_))) {
        world.claim(id, checks()).expect("it waits for a verifier");
    }
    world.verifier(id, true).expect("it is held to verify");
    assert_eq!(world.flow(id).stage, Stage::Working(stage("qa")));
}

fn in_merge(world: &mut World) -> TaskId {
    let id = in_qa(world);
    check_it(world, id);
    id
}

fn check_it(world: &mut World, id: TaskId) {
    world.claim(id, checks()).expect("Baton works there");
    world.verifier(id, true).expect("it is held to verify");
    assert_eq!(world.flow(id).stage, Stage::Working(stage("merge")));
}

fn code_again(world: &mut World, id: TaskId) {
    world.claim(id, solo()).expect("it was sent back");
    code_it(world, id);
}

#[test]
fn a_task_is_done_once_it_was_checked_and_has_landed() {
    let mut world = World::new(pipeline());
    let id = in_merge(&mut world);
    assert_eq!(world.flow(id).badge(world.now), Badge::InMergeQueue);
    world.claim(id, merges()).expect("the home merges");
    assert_eq!(world.run(id).held().map(|held| held.purpose), Some(Purpose::Merge));
    world.supervisor(id, landed()).expect("it is held to merge");
    assert_eq!(world.flow(id).ending(), Some(&Ending::Done { verified: true }));
}

#[test]
fn what_fails_in_qa_is_put_right_in_the_stage_before() {
    let mut world = World::new(pipeline());
    let id = in_qa(&mut world);
    world.claim(id, checks()).expect("Baton works there");
    let failed = world.run(id).number;
    world.verifier(id, false).expect("it is held to verify");
    assert_eq!(world.flow(id).stage, Stage::Working(stage("coding")));
    assert_eq!(world.run(id).previous, Some(failed), "its evidence is handed over");
    assert_eq!(world.flow(id).setbacks.get(&stage("qa")), Some(&1));
    code_again(&mut world, id);
    check_it(&mut world, id);
    assert!(world.flow(id).setbacks.is_empty(), "they were not in a row");
}

#[test]
fn a_checker_that_dies_leaves_a_run_that_baton_works_queued() {
    let mut world = World::new(pipeline());
    let id = in_qa(&mut world);
    world.claim(id, checks()).expect("Baton works there");
    world.supervisor(id, lost()).expect("it is held");
    world.supervisor(id, proved()).expect("it is held");
    assert_eq!(world.word(id), "queued");
    check_it(&mut world, id);
}

#[test]
fn three_merges_in_a_row_that_fail_need_a_person() {
    let mut world = World::new(pipeline());
    let id = in_merge(&mut world);
    for _ in 0..2 {
        world.claim(id, merges()).expect("the home merges");
        world.supervisor(id, conflicts()).expect("it is held to merge");
        assert_eq!(world.flow(id).stage, Stage::Working(stage("coding")));
        code_again(&mut world, id);
        check_it(&mut world, id);
    }
    world.claim(id, merges()).expect("the home merges");
    world.supervisor(id, conflicts()).expect("it is held to merge");
    let RunState::Idle(Idle::Blocked(block)) = &world.run(id).state else { panic!("it is parked") };
    assert_eq!(block.why, Why::Limit { cap: Cap::Setbacks });
    assert_eq!(Cap::Setbacks.knob(), "policy.setbacks_max");
    assert_eq!(world.flow(id).badge(world.now), Badge::MergeFailed);
    let reason = Reason::new("reason", "I have put it right").expect("a reason");
    world.person(id, Person::Unblock(reason)).expect("a person may");
    world.claim(id, merges()).expect("it is in the queue again");
    world.supervisor(id, landed()).expect("it is held to merge");
    assert!(world.flow(id).ending().is_some());
}

#[test]
fn a_target_that_nobody_may_move_is_waited_for_and_counts_as_no_failure() {
    let mut world = World::new(pipeline());
    let id = in_merge(&mut world);
    world.claim(id, merges()).expect("the home merges");
    world.supervisor(id, waits()).expect("it is held to merge");
    let RunState::Idle(Idle::Delayed { why, .. }) = world.run(id).state else {
        panic!("it waits for a time");
    };
    assert_eq!(why, Delay::Target);
    assert!(world.flow(id).setbacks.is_empty());
    assert_eq!(world.flow(id).badge(world.now), Badge::InMergeQueue);
}

#[test]
fn a_held_car_is_not_claimed_and_what_is_owed_fires_at_the_last_unhold() {
    let mut world = World::new(pipeline());
    let id = in_merge(&mut world);
    world.person(id, hold(Hold::Frozen, true)).expect("a person may");
    assert!(world.claim(id, merges()).is_err(), "it is on hold");
    world.person(id, hold(Hold::Frozen, false)).expect("a person may");
    world.claim(id, merges()).expect("the home merges");
    world.person(id, hold(Hold::Review, true)).expect("a person may");
    // It moved before the hold was seen: it has landed, and the task ends once nobody holds it.
    world.supervisor(id, landed()).expect("it is held to merge");
    assert_eq!(world.flow(id).ending(), None);
    world.person(id, hold(Hold::Review, false)).expect("a person may");
    assert_eq!(world.flow(id).ending(), Some(&Ending::Done { verified: true }));
}

#[test]
fn only_a_car_of_the_train_can_land() {
    let mut world = World::new(pipeline());
    let id = world.at_work(started(), Mode::Supervised);
    assert!(world.supervisor(id, landed()).is_err());
    assert_eq!(world.word(id), "working", "and nothing has changed");
}
