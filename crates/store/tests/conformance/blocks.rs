//! Parked work: who may pick it up, what brings it back, and what only a person may do.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::command::{Agent, NewTask, Person, Supervisor};
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::run::{Block, Cap, Idle, RunState, Why};
use baton_domain::task::{Approval, Hold};
use baton_domain::time::{Millis, Timestamp};
use baton_store::order::Swept;

use crate::words::{
    block, capability, checkpoint, complete, helper, ready, solo, stage, story, text, worker,
};
use crate::world::{Grip, World};

const LEASE: Millis = Millis::minutes(5);

impl World {
    /// The block at which a run is parked.
    async fn block_of(&self, task: TaskId) -> Option<Block> {
        match &self.row(task).await.flow.run.as_ref()?.state {
            RunState::Idle(Idle::Blocked(block)) => Some(block.clone()),
            RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
            | RunState::Held(_) => None,
        }
    }

    /// Claims the run and parks it at once.
    async fn park(&self, task: TaskId, why: Why) -> Grip {
        let grip = self.take(task, &solo("bob")).await.expect("it is queued");
        self.agent(&grip, block(why)).await.expect("bob holds it");
        grip
    }

    fn soon(&self) -> Timestamp {
        self.now() + Millis::seconds(30)
    }
}

pub async fn a_lost_pick_up_is_blocked_as_before_with_both_checkpoints(world: &World) {
    let task = world.queued().await;
    let first = world.claim(&solo("bob")).await.expect("there is work");
    world.agent(&first, checkpoint("bob got this far")).await.expect("bob holds it");
    world.agent(&first, block(Why::NeedsInput)).await.expect("bob holds it");
    let parked = world.block_of(task).await;
    world.silence(Millis::seconds(1));
    let second = world.claim(&helper("ann")).await.expect("a person may pick it up");
    world.agent(&second, checkpoint("ann got further")).await.expect("ann holds it");
    assert_eq!(world.block_of(task).await, None, "it is on no list any more");
    world.wait(LEASE).await;
    assert!(parked.is_some());
    assert_eq!(world.block_of(task).await, parked, "it is blocked as before");
    let third = world.claim(&helper("carl")).await.expect("it is offered again");
    assert_eq!((third.task, third.attempt), (task, 3));
    let notes: Vec<_> = world
        .history(task)
        .await
        .into_iter()
        .filter_map(|record| match record {
            Past::Checkpoint(note) => Some(note.note.summary.to_string()),
            Past::Attempt(_) | Past::Run(_) => None,
        })
        .collect();
    assert_eq!(notes, ["bob got this far", "ann got further"]);
}

pub async fn a_lost_pick_up_does_not_count_as_a_recurrence(world: &World) {
    let task = world.queued().await;
    world.park(task, Why::NeedsInput).await;
    for _ in 0..4 {
        let grip = world.claim(&helper("ann")).await.expect("it is offered again");
        let release = Supervisor::Release { reason: text("not today"), until: None };
        world.supervisor(&grip, release).await.expect("ann holds it");
        let parked = world.block_of(task).await.expect("it is blocked as before");
        assert!(!parked.sticky);
    }
}

pub async fn a_blocked_run_has_no_queued_twin(world: &World) {
    let task = world.queued().await;
    world.park(task, Why::NeedsInput).await;
    let refused = world.tell(task, Person::Retry(text("again"))).await.err();
    assert_eq!(refused, Some(Refusal::WrongState { state: "blocked" }));
    let nothing = world.claim(&solo("bob")).await;
    assert_eq!(nothing, Err(Refusal::NothingClaimable), "agents do not see it");
    assert_eq!(world.row(task).await.flow.runs, 1);
    world.tell(task, Person::Cancel(text("enough"))).await.expect("a person may cancel");
    assert_eq!(world.block_of(task).await, None, "what finished is not blocked");
    world.tell(task, Person::Retry(text("again"))).await.expect("the run was cancelled");
    assert_eq!(world.row(task).await.flow.runs, 2);
}

pub async fn an_answer_queues_a_run_that_needs_input(world: &World) {
    let task = world.queued().await;
    world.park(task, Why::NeedsInput).await;
    world.tell(task, Person::Answer(text("like this"))).await.expect("it waits for that");
    let grip = world.claim(&solo("eve")).await.expect("it is queued");
    assert_eq!((grip.task, grip.attempt), (task, 2));
}

pub async fn a_question_that_nobody_answers_parks_the_run(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.agent(&grip, Agent::Ask(text("how?"))).await.expect("bob holds it");
    for _ in 0..5 {
        world.wait(Millis::minutes(2)).await;
        let renew = Supervisor::Renew { lease: None };
        world.supervisor(&grip, renew).await.ok();
    }
    let parked = world.block_of(task).await.expect("ten minutes are over");
    assert_eq!((parked.why, world.row(task).await.lease), (Why::NeedsInput, None));
}

pub async fn a_missing_capability_is_found_by_whoever_has_it(world: &World) {
    let task = world.queued().await;
    world.park(task, Why::Capability { needs: capability("gpu") }).await;
    let plain = Claimant { wants: Wants::ReadyOrBlocked, ..solo("eve") };
    assert_eq!(world.claim(&plain).await, Err(Refusal::NothingClaimable));
    let able = Claimant { capabilities: BTreeSet::from([capability("gpu")]), ..plain };
    let grip = world.claim(&able).await.expect("eve has what is missing");
    assert_eq!(grip.task, task);
}

pub async fn a_transient_block_ends_once_across_a_jump_of_time(world: &World) {
    let task = world.queued().await;
    world.park(task, Why::Transient { until: world.soon() }).await;
    let before = world.entries().await.len();
    world.silence(Millis::hours(24));
    world.reopen();
    assert_eq!(world.sweep().await, Swept { due: 1, reactions: 0, more: false });
    for _ in 0..3 {
        world.reopen();
        world.silence(Millis::seconds(4));
        assert_eq!(world.sweep().await, Swept::default());
    }
    assert_eq!(world.entries().await.len(), before + 1, "one entry tells of it");
    assert_eq!(world.row(task).await.flow.runs, 1, "no second run was made");
    world.claim(&solo("bob")).await.expect("it is queued");
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable), "and only once");
}

pub async fn a_block_that_keeps_coming_back_is_for_a_person_alone(world: &World) {
    let task = world.queued().await;
    for time in 0..3 {
        world.park(task, Why::Transient { until: world.soon() }).await;
        let sticky = world.block_of(task).await.expect("it is parked").sticky;
        assert_eq!(sticky, time == 2, "twice it came back");
        world.wait(Millis::seconds(30)).await;
    }
    world.wait(Millis::hours(1)).await;
    assert!(world.block_of(task).await.is_some(), "time does not unpark it any more");
    let agent = Claimant { wants: Wants::ReadyOrBlocked, ..solo("bob") };
    assert_eq!(world.claim(&agent).await, Err(Refusal::NothingClaimable));
    assert_eq!(world.take(task, &agent).await, Err(Refusal::PersonNeeded));
    world.tell(task, Person::Unblock(text("seen to"))).await.expect("a person may");
    world.claim(&solo("bob")).await.expect("it is queued");
}

pub async fn too_many_endings_without_result_park_the_run(world: &World) {
    let policy = Policy { continuations_max: 2, ..Policy::default() };
    let task = world.make(NewTask { policy, ..ready("silent") }).await;
    for _ in 0..3 {
        let grip = world.claim(&solo("bob")).await.expect("it is queued again");
        world.agent(&grip, checkpoint("other edits")).await.expect("bob holds it");
        world.supervisor(&grip, Supervisor::Exited).await.expect("bob holds it");
    }
    let why = world.block_of(task).await.map(|block| block.why);
    assert_eq!(why, Some(Why::Limit { cap: Cap::Continuations }));
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
    let row = world.row(task).await;
    let tally = row.flow.run.as_ref().expect("the run is parked").tally;
    assert_eq!((tally.faults, tally.continuations, tally.losses), (0, 3, 0));
}

pub async fn losses_are_nobodys_fault_and_have_a_cap_of_their_own(world: &World) {
    let policy = Policy { losses_max: 3, lease: Millis::seconds(5), ..Policy::default() };
    let task = world.make(NewTask { policy, ..ready("unlucky") }).await;
    for _ in 0..3 {
        world.claim(&worker("bob")).await.expect("it is queued again");
        world.wait(Millis::seconds(5)).await;
    }
    let row = world.row(task).await;
    let tally = row.flow.run.as_ref().expect("the run is parked").tally;
    assert_eq!((tally.faults, tally.continuations, tally.losses), (0, 0, 3));
    let why = world.block_of(task).await.map(|block| block.why);
    assert_eq!(why, Some(Why::Limit { cap: Cap::Losses }));
}

pub async fn failures_back_off_and_end_in_a_failed_run(world: &World) {
    let task = world.queued().await;
    for attempt in 1..=3 {
        let grip = world.claim(&solo("bob")).await.expect("it is queued again");
        assert_eq!(grip.attempt, attempt);
        let failed = Agent::Fail { code: text("tests_red"), reason: text("still red") };
        world.agent(&grip, failed).await.expect("bob holds it");
        let nothing = world.claim(&solo("bob")).await;
        assert_eq!(nothing, Err(Refusal::NothingClaimable), "it backs off");
        world.wait(Millis::minutes(1)).await;
    }
    let row = world.row(task).await;
    assert_eq!((row.flow.run.is_none(), row.flow.ending()), (true, None));
    assert_eq!(world.history(task).await.len(), 4, "three attempts and a run");
}

pub async fn freeze_and_unfreeze_is_the_identity_in_every_state(world: &World) {
    let backlog = world.make(story("backlog")).await;
    let queued = world.queued().await;
    let later = Some(world.now() + Millis::hours(1));
    let delayed = world.make(NewTask { start_at: later, ..ready("delayed") }).await;
    let blocked = world.queued().await;
    world.park(blocked, Why::NeedsInput).await;
    let held = world.queued().await;
    world.take(held, &solo("bob")).await.expect("it is queued");
    let stopping = world.queued().await;
    let grip = world.take(stopping, &worker("bob")).await.expect("it is queued");
    world.agent(&grip, complete()).await.expect("bob holds it");
    let cancelled = world.queued().await;
    world.tell(cancelled, Person::Cancel(text("no"))).await.expect("a person may cancel");
    let unapproved = world.make(NewTask { needs_approval: true, ..ready("approve") }).await;
    for task in [backlog, queued, delayed, blocked, held, stopping, cancelled, unapproved] {
        let before = world.row(task).await;
        for hold in [Hold::Frozen, Hold::Review] {
            let set = |on| Person::Hold { hold, on, reason: text("just looking") };
            let frozen = world.tell(task, set(true)).await.expect("a person may hold");
            let stage = frozen.task.map(|flow| flow.stage.clone());
            assert_eq!(stage.as_ref(), Some(&before.flow.stage), "it stays in its column");
            world.tell(task, set(false)).await.expect("a person may unhold");
        }
        let mut after = world.row(task).await;
        let flow = std::sync::Arc::make_mut(&mut after.flow);
        flow.version -= 4;
        assert_eq!(after, before);
    }
    let waits = world.row(unapproved).await.flow.approval;
    assert_eq!(waits, Approval::Pending);
}

pub async fn a_stage_passed_under_a_hold_is_left_at_the_last_unhold(world: &World) {
    world.put(crate::words::pipeline("web", &["coding", "qa"])).await;
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    let set = |hold, on| Person::Hold { hold, on, reason: text("wait") };
    for hold in [Hold::Frozen, Hold::Review] {
        world.tell(task, set(hold, true)).await.expect("a person may hold");
    }
    world.agent(&grip, complete()).await.expect("a hold stops nobody who is at work");
    assert_eq!(world.row(task).await.flow.run, None, "the advance is owed");
    world.tell(task, set(Hold::Frozen, false)).await.expect("a person may unhold");
    assert_eq!(world.row(task).await.flow.run, None, "one hold is left");
    world.tell(task, set(Hold::Review, false)).await.expect("a person may unhold");
    let run = world.row(task).await.flow.run.as_ref().map(|run| run.stage.clone());
    assert_eq!(run, Some(stage("qa")));
}
