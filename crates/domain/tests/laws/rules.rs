//! The rules that hold here always, by the numbers of the design.

use std::collections::BTreeSet;

use baton_domain::command::{Agent, Command, NewTask, Patch, Person, Supervisor, Verdict};
use baton_domain::contract::{Artifact, Contract, Submission, Term};
use baton_domain::history::Past;
use baton_domain::ids::{Commit, LineId, PrincipalId, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::pool::PoolName;
use baton_domain::project::{LOCAL_WORKER, PassedBy, WorkedBy};
use baton_domain::refusal::Refusal;
use baton_domain::run::{
    Death, Finish, Idle, Mark, Mode, Outcome, Phase, Run, RunResult, RunState, Why,
};
use baton_domain::task::{Ending, Hold, Owed, Stage};
use baton_domain::time::Millis;
use baton_domain::view::{Badge, Need};

use crate::cast::{
    block, block_with_condition, capability, capable, code, complete, contracted, digest, fail,
    hold, message, move_to, person, project, proved, reason, release, started, stopped, story,
    text, verdict, wanting, worker, world,
};
use crate::world::World;

fn refused(answer: Result<baton_domain::Decision, Refusal>) -> Refusal {
    answer.expect_err("it must be refused")
}

fn expire(world: &mut World, id: TaskId) {
    world.wait(Millis::minutes(6));
    world.pass(id);
}

fn gpu() -> Why {
    Why::Capability { needs: capability("gpu") }
}

fn stopping(says: Agent) -> (World, TaskId) {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, says).expect("it is held");
    assert_eq!(world.word(id), "stopping");
    (world, id)
}

fn last_attempt(world: &World, id: TaskId) -> baton_domain::history::AttemptRecord {
    let rows = world.records[&id].iter().rev();
    let attempts = rows.filter_map(|row| match row {
        Past::Attempt(row) => Some(row.clone()),
        Past::Run(_) | Past::Checkpoint(_) => None,
    });
    attempts.into_iter().next().expect("an attempt has ended")
}

/// Rule 1.
#[test]
fn a_late_supervisor_lifts_the_quarantine_and_settles_spend_even_after_the_end() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    let old = world.proof(id);
    expire(&mut world, id);
    assert_eq!(world.flow(id).unproven, BTreeSet::from([1]));
    assert_eq!(world.flow(id).generation, 1, "the next attempt gets the next worktree");
    world.person(id, crate::cast::abandon()).expect("a person may");
    let spend = Supervisor::Spend { total_micros: 7 };
    world.tell(id, &Command::Supervisor(old.clone(), spend)).expect("it is settled");
    assert_eq!(world.pools[&PoolName::Budget(id)].settled, 7);
    world.tell(id, &Command::Supervisor(old.clone(), proved())).expect("it joins history");
    assert!(world.flow(id).unproven.is_empty());
    let again = world.tell(id, &Command::Supervisor(old.clone(), proved()));
    assert!(again.expect("it is known").is_nothing());
    let none = world.tell(id, &Command::Supervisor(old, stopped(Death::None, false)));
    assert_eq!(refused(none), Refusal::LeaseLost, "nothing is no proof");
}

/// Rule 1.
#[test]
fn late_spend_is_settled_and_leaves_the_present_attempt_alone() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    let old = world.proof(id);
    expire(&mut world, id);
    world.take_up(id, Mode::Solo);
    let run = world.run(id).clone();
    world.wait(Millis::minutes(1));
    let spend = Supervisor::Spend { total_micros: 7 };
    world.tell(id, &Command::Supervisor(old, spend)).expect("it is settled");
    assert_eq!(*world.run(id), run);
    assert_eq!(world.pools[&PoolName::Budget(id)].settled, 7);
}

/// Rule 4.
#[test]
fn an_input_block_is_picked_up_by_a_person_or_by_anybody_after_the_answer() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.conclude(id, block(Why::NeedsInput));
        let any = wanting(Wants::ReadyOrBlocked, capable());
        assert_eq!(refused(world.claim(id, any.clone())).code(), "not_for_you");
        let mut other = world.clone();
        other.claim(id, wanting(Wants::Blocked, person())).expect("a person may");
        world.person(id, Person::Answer(message())).expect("it asked");
        world.claim(id, any).expect("it was answered");
        assert_eq!(world.held(id).picked, None, "the block is gone");
        assert_eq!(world.run(id).answer.map(|answer| answer.mark), Some(Mark::Delivered));
        world.agent(id, Agent::Receive(Mark::Applied)).expect("it is held");
        assert_eq!(world.run(id).answer.map(|answer| answer.mark), Some(Mark::Applied));
    }
}

/// Rule 4.
#[test]
fn a_released_pick_up_is_blocked_as_before() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.conclude(id, block(gpu()));
        let before = world.run(id).state.clone();
        world.claim(id, Claimant { mode, ..wanting(Wants::Blocked, capable()) }).expect("it can");
        world.agent(id, Agent::Begin).expect("it is held");
        world.supervisor(id, release()).expect("it is held");
        if mode == Mode::Supervised {
            world.supervisor(id, proved()).expect("it is stopping");
        }
        assert_eq!(world.run(id).state, before);
        assert_eq!(world.flow(id).recurrence.values().map(|seen| seen.count).sum::<u8>(), 0);
    }
}

/// Rule 4.
#[test]
fn an_answer_to_a_block_that_is_still_stopping_queues_the_run() {
    let (mut world, id) = stopping(block(Why::NeedsInput));
    world.person(id, Person::Answer(message())).expect("it asked");
    assert_eq!(world.word(id), "stopping", "death first");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.word(id), "queued");
    assert!(world.run(id).answer.is_some());
}

/// Rule 4.
#[test]
fn a_probe_returns_to_the_same_block_uncounted_until_its_condition_is_met() {
    let mut world = world();
    let maker = world.made(story());
    let id = world.made(NewTask { creator_task: Some(maker), ..started() });
    world.take_up(id, Mode::Supervised);
    world.conclude(id, block_with_condition(gpu()));
    let before = world.run(id).clone();
    let ends = [
        Supervisor::Probed { met: false },
        release(),
        Supervisor::Exited,
        crate::cast::lost(),
        proved(),
    ];
    for end in ends {
        world.claim(id, wanting(Wants::Probe, worker())).expect("it has a condition");
        let told = world.supervisor(id, end).expect("it is held");
        assert!(told.reactions.is_empty(), "its maker knows");
        if world.leases.contains_key(&id) {
            world.supervisor(id, proved()).expect("it is stopping");
        }
        let run = Run { trail: before.trail.clone(), ..world.run(id).clone() };
        assert_eq!(run, before, "only the attempt is remembered");
    }
    world.claim(id, wanting(Wants::Probe, worker())).expect("it has a condition");
    world.supervisor(id, Supervisor::Probed { met: true }).expect("it is held");
    assert_eq!((world.word(id), world.run(id).tally), ("queued", before.tally));
}

/// Rule 5.
#[test]
fn a_block_that_is_picked_up_and_raised_again_counts() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    world.conclude(id, block(gpu()));
    for sticky in [false, true] {
        world.claim(id, wanting(Wants::Blocked, capable())).expect("it can");
        world.conclude(id, block(gpu()));
        let RunState::Idle(Idle::Blocked(block)) = &world.run(id).state else {
            panic!("it is {}", world.word(id));
        };
        assert_eq!(block.sticky, sticky);
    }
    assert_eq!(world.flow(id).needs(world.now), vec![Need::Recurring]);
    let capable = world.claim(id, wanting(Wants::Blocked, capable()));
    assert_eq!(refused(capable), Refusal::PersonNeeded);
}

/// Rule 6.
#[test]
fn a_supervised_verdict_waits_for_the_proof_and_a_solo_one_counts_at_once() {
    let verdicts = [fail, complete, || block(Why::NeedsInput)];
    for says in verdicts {
        let (mut world, id) = stopping(says());
        world.supervisor(id, proved()).expect("it is stopping");
        assert!(world.flow(id).unproven.is_empty());
        assert_eq!(last_attempt(&world, id).death, Some(Death::Cgroup));
        let mut alone = crate::cast::world();
        let same = alone.at_work(started(), Mode::Solo);
        alone.agent(same, says()).expect("it is held");
        assert_eq!(alone.word(same), world.word(id));
        assert_eq!(last_attempt(&alone, same).death, None);
    }
}

/// Rule 6.
#[test]
fn a_verdict_without_proof_counts_and_quarantines_the_worktree() {
    let (mut world, id) = stopping(fail());
    world.supervisor(id, stopped(Death::None, false)).expect("it is stopping");
    assert_eq!(world.word(id), "delayed");
    assert_eq!((world.flow(id).unproven.len(), world.flow(id).generation), (1, 1));
    assert_eq!(world.flow(id).badge(world.now), Badge::StopUnverified);
}

/// Rule 6.
#[test]
fn a_lease_that_expires_while_stopping_lets_the_recorded_verdict_count() {
    let (mut world, id) = stopping(complete());
    world.supervisor(id, stopped(Death::None, true)).expect("it is stopping");
    assert_eq!(world.flow(id).badge(world.now), Badge::StopUnverified);
    world.wait(Millis::minutes(5));
    assert_eq!(world.due_at(id), Some(world.now), "the run is free as soon as the lease ends");
    world.pass(id);
    assert_eq!(world.flow(id).stage, Stage::Working(crate::cast::stage("qa")));
    let ended = last_attempt(&world, id);
    assert_eq!(ended.outcome, Outcome::Completed { result: RunResult::Unverified });
    assert_eq!(ended.death, Some(Death::None));
    assert_eq!(world.flow(id).unproven, BTreeSet::from([1]));
}

/// Rule 6.
#[test]
fn what_a_person_calls_off_while_it_is_stopping_does_not_go_on() {
    let (mut world, id) = stopping(fail());
    world.supervisor(id, stopped(Death::None, true)).expect("it is stopping");
    world.person(id, Person::Cancel(reason())).expect("a person may");
    let Phase::Stopping { verdict, survivor, .. } = &world.held(id).phase else {
        panic!("it is {}", world.word(id));
    };
    assert_eq!((verdict, *survivor), (&Outcome::Cancelled, true));
    world.supervisor(id, proved()).expect("it is stopping");
    let last = world.flow(id).last.as_ref().expect("it is over");
    assert_eq!(last.finish, Finish::Cancelled);
    let (mut world, id) = stopping(complete());
    let late = world.person(id, Person::Fail { code: code(), reason: reason() });
    assert_eq!(refused(late).code(), "wrong_state", "it is done already");
}

fn two_files() -> NewTask {
    let file = |name: &str| {
        (
            LineId::new(name).expect("a name"),
            Term::Artifact { path: text(name), bytes_min: 10, schema: None },
        )
    };
    let contract = Contract { lines: [file("a.txt"), file("b.txt")].into() };
    NewTask { contract: Some((contract, digest())), ..started() }
}

/// Rule 7.
#[test]
fn a_refused_completion_lists_everything_that_is_missing_and_leaves_the_lease() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(two_files(), mode);
        let lease = world.lease(id).clone();
        let artifact = |path, bytes| Artifact { path: text(path), digest: digest(), bytes };
        let submission =
            Submission { artifacts: vec![artifact("a.txt", 3)], ..Submission::default() };
        let short = world.agent(id, Agent::Complete { summary: None, submission });
        let Refusal::Incomplete { missing } = refused(short) else { panic!("it is incomplete") };
        let codes: Vec<_> = missing.iter().map(|line| line.code).collect();
        assert_eq!(codes, ["artifact_too_small", "artifact_missing"]);
        assert_eq!((world.word(id), world.lease(id)), ("working", &lease));
        let outside = vec![artifact("../a.txt", 30)];
        let submission = Submission { artifacts: outside, ..Submission::default() };
        let escape = world.agent(id, Agent::Complete { summary: None, submission });
        assert_eq!(refused(escape).code(), "invalid");
        assert_eq!(world.word(id), "working");
    }
}

/// Rule 8.
#[test]
fn neither_move_nor_edit_nor_close_makes_anything_proven() {
    let mut world = world();
    let id = world.made(contracted());
    let done = Ending::Done { verified: true };
    assert_eq!(refused(world.person(id, Person::Close(done))).code(), "invalid");
    world.person(id, move_to("qa")).expect("a person may");
    world.claim(id, worker()).expect("it is queued");
    world.agent(id, complete()).expect("it is held");
    let empty = Patch { contract: Some((Contract::default(), digest())), ..Patch::default() };
    let edit = Person::Edit(Box::new(empty));
    assert_eq!(refused(world.person(id, edit)).code(), "wrong_state", "the submission is pinned");
    world.verifier(id, true).expect("it is verifying");
    world.supervisor(id, proved()).expect("it is stopping");
    let unproven = Ending::Done { verified: false };
    assert_eq!(world.flow(id).ending(), Some(&unproven), "a stage was skipped");
}

/// Rule 10.
#[test]
fn a_person_who_takes_the_run_away_blames_nobody() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.person(id, Person::Release(reason())).expect("it is held");
        if mode == Mode::Supervised {
            world.supervisor(id, proved()).expect("it is stopping");
        }
        let tally = world.run(id).tally;
        assert_eq!((tally.faults, tally.continuations, tally.losses), (0, 0, 0));
        assert_eq!(world.word(id), "queued");
    }
}

/// Rule 16: an agent has words for these things and no others; each new one must be judged here.
#[test]
fn an_agent_has_no_words_to_approve_answer_force_review_or_change_a_contract() {
    fn is_about_its_own_work(says: &Agent) -> bool {
        match says {
            Agent::Begin
            | Agent::Progress(_)
            | Agent::Checkpoint(_)
            | Agent::Ask(_)
            | Agent::Receive(_)
            | Agent::Withdraw
            | Agent::Block { .. }
            | Agent::Fail { .. }
            | Agent::Complete { .. } => true,
        }
    }
    assert!(is_about_its_own_work(&Agent::Begin));
}

/// A hold delays what is owed, and no more than that.
#[test]
fn an_advance_owed_under_two_holds_fires_at_the_last_unhold() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    for which in [Hold::Frozen, Hold::Review] {
        world.person(id, hold(which, true)).expect("a person may");
    }
    world.conclude(id, complete());
    assert_eq!(world.flow(id).owed, Some(Owed::Advance));
    world.person(id, hold(Hold::Frozen, false)).expect("a person may");
    assert_eq!(world.word(id), "none");
    world.person(id, hold(Hold::Review, false)).expect("a person may");
    assert_eq!((world.word(id), world.flow(id).runs), ("queued", 2));
}

#[test]
fn a_stage_that_a_person_passes_waits_for_one() {
    let mut project = project();
    project.pipeline[0].passed_by = PassedBy::Person;
    let mut world = World::new(project);
    let id = world.at_work(started(), Mode::Solo);
    world.conclude(id, complete());
    assert!(world.flow(id).holds.review);
    assert_eq!(world.flow(id).needs(world.now), vec![Need::Review]);
    world.person(id, hold(Hold::Review, false)).expect("a person may");
    assert_eq!(world.flow(id).stage, Stage::Working(crate::cast::stage("qa")));
}

#[test]
fn a_stage_is_worked_by_whom_its_project_says() {
    let by = |worked_by, claimant: Claimant| {
        let mut project = project();
        project.pipeline[0].worked_by = worked_by;
        let mut world = World::new(project);
        let id = world.made(started());
        world.claim(id, claimant).is_ok()
    };
    let solo = crate::cast::solo;
    assert!(by(WorkedBy::Agent, solo()) && by(WorkedBy::Agent, worker()));
    let checks = || wanting(Wants::Submitted, worker());
    assert!(!by(WorkedBy::Baton, solo()) && !by(WorkedBy::Baton, worker()));
    assert!(by(WorkedBy::Baton, checks()) && !by(WorkedBy::Agent, checks()));
    let merges = |name: &str| Claimant {
        principal: PrincipalId::new(name).expect("a name"),
        ..wanting(Wants::Merges, worker())
    };
    assert!(by(WorkedBy::Train, merges(LOCAL_WORKER)) && !by(WorkedBy::Train, merges("other")));
    assert!(!by(WorkedBy::Agent, merges(LOCAL_WORKER)) && !by(WorkedBy::Train, worker()));
    assert!(!by(WorkedBy::Person, worker()) && by(WorkedBy::Person, person()));
}

#[test]
fn the_commit_that_passed_is_remembered_whatever_is_checked_after_it() {
    let commit = |digit: &str| Commit::new(&digit.repeat(40)).ok();
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Supervised);
    let told = |world: &mut World, holds, commit| {
        world.agent(id, complete()).expect("it is at work");
        let verdict = Verdict { commit, ..verdict(holds, world.now) };
        world.tell(id, &Command::Verifier(world.proof(id), verdict)).expect("it verifies");
    };
    told(&mut world, false, commit("a"));
    assert_eq!(world.flow(id).head, None, "it did not pass");
    told(&mut world, true, commit("b"));
    assert_eq!(world.flow(id).head, commit("b"));
    world.supervisor(id, proved()).expect("it is stopped");
    assert_eq!(world.flow(id).head, commit("b"), "later stages are about it");
}
