//! Who gets which run, and that nobody else does.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::command::{Claim, NewTask, Person};
use baton_domain::ids::{AttemptId, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::pool::PoolName;
use baton_domain::project::{RecordCommand, WorkedBy};
use baton_domain::run::Why;
use baton_domain::task::{Hold, Kind, Priority};
use baton_domain::time::Millis;
use baton_store::Aim;
use baton_testkit::rounds;

use crate::dump::assert_same;
use crate::words::{
    account, block, capability, checkpoint, complete, helper, key, pipeline, principal, project,
    ready, shut, solo, stage, story, text,
};
use crate::world::{Grip, World};

const NOTHING: Result<TaskId, Refusal> = Err(Refusal::NothingClaimable);

impl World {
    /// The task that a claim gets.
    async fn gets(&self, claimant: &Claimant) -> Result<TaskId, Refusal> {
        self.claim(claimant).await.map(|grip| grip.task)
    }

    /// Claims at the same time, each under a name of its own.
    async fn race(&self, claimants: Vec<Claimant>) -> Vec<Result<Grip, Refusal>> {
        let racing: Vec<_> = claimants
            .into_iter()
            .map(|claimant| {
                let world = self.clone();
                tokio::spawn(async move { world.claim(&claimant).await })
            })
            .collect();
        let mut answers = vec![];
        for racer in racing {
            answers.push(racer.await.expect("no claim panics"));
        }
        answers
    }

    async fn shut(&self, pool: PoolName, length: Option<Millis>) {
        let until = length.map(|length| self.now() + length);
        let shut = Some(shut(self.now(), until));
        self.record(RecordCommand::ShutPool { pool, shut }).await;
    }
}

pub async fn a_hundred_claimers_of_ten_runs_make_ten_winners(world: &World) {
    for round in 1..=rounds(5) {
        for _ in 0..10 {
            world.queued().await;
        }
        let claimants = (0..100).map(|count| solo(&format!("agent-{count}"))).collect();
        let mut won = BTreeSet::new();
        for answer in world.race(claimants).await {
            match answer {
                Ok(grip) => assert!(won.insert(grip.task), "{} was won twice", grip.task),
                Err(refusal) => assert_eq!(refusal, Refusal::NothingClaimable),
            }
        }
        let made = (round * 10 - 9..=round * 10).map(TaskId).collect();
        assert_eq!(won, made, "every run was won");
    }
}

pub async fn of_two_pick_ups_of_a_blocked_run_one_wins(world: &World) {
    for _ in 0..rounds(5) {
        let task = world.queued().await;
        let first = world.take(task, &solo("bob")).await.expect("it is queued");
        world.agent(&first, checkpoint("half")).await.expect("bob holds it");
        world.agent(&first, block(Why::NeedsInput)).await.expect("bob holds it");
        let racers = (0..8).map(|count| helper(&format!("helper-{count}"))).collect();
        let answers = world.race(racers).await;
        let won: Vec<_> = answers.iter().flatten().map(|grip| grip.task).collect();
        assert_eq!(won, [task], "one wins");
        let lost = answers.iter().filter(|it| **it == Err(Refusal::NothingClaimable)).count();
        assert_eq!(lost, 7, "the others see nothing");
        assert_eq!(world.gets(&helper("late")).await, NOTHING, "it is on no list any more");
        let late = world.take(task, &helper("late")).await.err();
        assert_eq!(late, Some(Refusal::Held { attempt: AttemptId { task, number: 2 } }));
        let winner = answers.into_iter().flatten().next().expect("one wins");
        world.agent(&winner, complete()).await.expect("the winner holds it");
    }
}

pub async fn a_key_limit_is_never_exceeded(world: &World) {
    world.limit(PoolName::Key(project("web"), key("deploy")), 3).await;
    for _ in 0..20 {
        world.make(NewTask { key: Some(key("deploy")), ..ready("deploy") }).await;
    }
    let mut ended = 0;
    while ended < 20 {
        let racers = (0..64).map(|count| solo(&format!("agent-{count}"))).collect();
        let won: Vec<_> = world.race(racers).await.into_iter().flatten().collect();
        assert!((1..=3).contains(&won.len()), "{} held the key at once", won.len());
        assert_eq!(won.len(), 3.min(20 - ended), "the limit is used");
        for grip in won {
            world.agent(&grip, complete()).await.expect("the winner holds it");
            ended += 1;
        }
    }
}

pub async fn a_full_holder_is_told_what_it_holds(world: &World) {
    world.limit(PoolName::Holder(principal("bob")), 1).await;
    world.queued().await;
    world.queued().await;
    let held = world.claim(&solo("bob")).await.expect("bob holds nothing yet");
    let before = world.dump().await;
    let attempt = AttemptId { task: held.task, number: 1 };
    let full = Refusal::HolderFull { pool: "holder bob".into(), held: Some(attempt) };
    assert_eq!(world.claim(&solo("bob")).await, Err(full.clone()));
    assert_eq!(world.take(TaskId(2), &solo("bob")).await, Err(full));
    assert_same(&before, &world.dump().await, "a refused claim");
    assert_eq!(world.gets(&solo("eve")).await, Ok(TaskId(2)), "eve is not bob");
    world.agent(&held, complete()).await.expect("bob holds it");
    assert_eq!(world.gets(&solo("bob")).await, NOTHING, "bob may claim again");
}

pub async fn a_full_account_is_no_lack_of_work(world: &World) {
    world.limit(PoolName::Account(account("acme")), 1).await;
    world.queued().await;
    world.queued().await;
    let with = |name: &str| Claimant { account: Some(account("acme")), ..solo(name) };
    world.claim(&with("bob")).await.expect("there is room");
    let full = Refusal::HolderFull { pool: "account acme".into(), held: None };
    assert_eq!(world.claim(&with("eve")).await, Err(full));
    assert_eq!(world.gets(&solo("eve")).await, Ok(TaskId(2)), "by another account she may");
    let paused = Some(shut(world.now(), None));
    let pool = PoolName::Account(account("acme"));
    world.record(RecordCommand::ShutPool { pool, shut: paused }).await;
    let paused = Refusal::Paused { pool: "account acme".into() };
    assert_eq!(world.claim(&with("eve")).await, Err(paused));
}

pub async fn what_others_work_does_not_hide_what_is_behind_it(world: &World) {
    let mut web = pipeline("web", &["coding", "review"]);
    web.pipeline[1].worked_by = WorkedBy::Person;
    world.put(web).await;
    for _ in 0..40 {
        world.make(NewTask { start_in: Some(stage("review")), ..story("for a person") }).await;
    }
    world.silence(Millis(1));
    let coding = world.queued().await;
    assert_eq!(world.gets(&solo("bob")).await, Ok(coding));
    assert_eq!(world.gets(&solo("bob")).await, Err(Refusal::NothingClaimable));
}

pub async fn a_lane_is_first_in_first_out(world: &World) {
    for _ in 0..3 {
        world.queued().await;
    }
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    assert_eq!(grip.task, TaskId(1), "of equal age the lower number goes first");
    world.silence(Millis(1));
    let release = Person::Release(text("back of the queue"));
    world.tell(grip.task, release).await.expect("a person may release");
    for expected in [2, 3, 1] {
        assert_eq!(world.gets(&solo("bob")).await, Ok(TaskId(expected)));
    }
}

pub async fn priority_is_a_head_start_and_age_wins_in_the_end(world: &World) {
    let with = |priority| NewTask { priority, ..ready("ranked") };
    let low = world.make(with(Priority::Low)).await;
    world.silence(Millis::minutes(9));
    let normal = world.make(with(Priority::Normal)).await;
    let high = world.make(with(Priority::High)).await;
    world.silence(Millis::hours(22));
    let urgent = world.make(with(Priority::Urgent)).await;
    for expected in [urgent, high, normal, low] {
        assert_eq!(world.gets(&solo("bob")).await, Ok(expected), "each has its head start");
    }
    let low = world.make(with(Priority::Low)).await;
    world.silence(Millis::minutes(11));
    let normal = world.make(with(Priority::Normal)).await;
    assert_eq!(world.gets(&solo("bob")).await, Ok(low), "it has waited longer than a head start");
    assert_eq!(world.gets(&solo("bob")).await, Ok(normal));
}

pub async fn a_claim_takes_only_what_it_asks_for(world: &World) {
    world.put(pipeline("app", &["coding", "qa"])).await;
    let web = world.make(NewTask { priority: Priority::Low, ..ready("web") }).await;
    let in_app =
        |start| NewTask { project: project("app"), start_in: Some(stage(start)), ..story("app") };
    let (coding, qa) = (world.make(in_app("coding")).await, world.make(in_app("qa")).await);
    let bob = solo("bob");
    let picky = Claimant { priority_min: Priority::High, ..bob.clone() };
    assert_eq!(world.gets(&picky).await, NOTHING);
    let of_qa = Claimant { stage: Some(stage("qa")), ..bob.clone() };
    assert_eq!(world.gets(&of_qa).await, Ok(qa));
    assert_eq!(world.gets(&of_qa).await, NOTHING);
    let of_web = Claimant { project: Some(project("web")), ..bob.clone() };
    assert_eq!(world.gets(&of_web).await, Ok(web));
    assert_eq!(world.gets(&of_web).await, NOTHING);
    assert_eq!(world.gets(&bob).await, Ok(coding));
}

pub async fn whatever_is_paused_is_skipped(world: &World) {
    world.put(pipeline("app", &["coding", "qa"])).await;
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let deep = NewTask { parent: Some(epic), ..story("story") };
    let below = world.make(NewTask { parent: Some(epic), ..ready("below") }).await;
    let deep = world.make(NewTask { kind: Kind::Epic, ..deep }).await;
    let deeper = world.make(NewTask { parent: Some(deep), ..ready("deeper") }).await;
    let other = NewTask { project: project("app"), ..ready("elsewhere") };
    let other = world.make(other).await;
    let pauses = [
        (PoolName::Scheduler, None),
        (PoolName::Project(project("web")), Some(other)),
        (PoolName::Stage(project("web"), stage("coding")), Some(other)),
        (PoolName::Stage(project("app"), stage("coding")), Some(below)),
        (PoolName::Tree(epic), Some(other)),
        (PoolName::Tree(deep), Some(below)),
        (PoolName::Holder(principal("eve")), Some(below)),
    ];
    for (pool, expected) in pauses {
        world.shut(pool.clone(), None).await;
        let got = world.claim(&solo("bob")).await;
        let expected = expected.ok_or(Refusal::NothingClaimable);
        assert_eq!(got.as_ref().map(|grip| grip.task), expected.as_ref().copied(), "{pool}");
        let paused = world.take(deeper, &solo("bob")).await;
        let open = matches!(&pool, PoolName::Stage(project, _) if project.as_str() == "app")
            || matches!(&pool, PoolName::Holder(_));
        assert_eq!(paused.is_ok(), open, "a claim by number meets the same pause of {pool}");
        world.record(RecordCommand::ShutPool { pool, shut: None }).await;
        // Everything is as old as before: what was taken was never begun by the clock.
        for grip in got.into_iter().chain(paused) {
            let release = Person::Release(text("as before"));
            world.tell(grip.task, release).await.expect("a person may release");
        }
    }
    assert_eq!(world.gets(&solo("bob")).await, Ok(below));
}

pub async fn a_pause_ends_by_itself_when_its_time_comes(world: &World) {
    let task = world.queued().await;
    world.shut(PoolName::Scheduler, Some(Millis::seconds(10))).await;
    world.silence(Millis(9_999));
    assert_eq!(world.gets(&solo("bob")).await, NOTHING);
    world.silence(Millis(1));
    assert_eq!(world.gets(&solo("bob")).await, Ok(task));
}

pub async fn a_full_lane_does_not_hide_the_others(world: &World) {
    world.limit(PoolName::Key(project("web"), key("db")), 1).await;
    let locked = || NewTask { key: Some(key("db")), priority: Priority::Urgent, ..ready("db") };
    world.make(locked()).await;
    world.make(locked()).await;
    let free = world.queued().await;
    assert_eq!(world.gets(&solo("bob")).await, Ok(TaskId(1)));
    assert_eq!(world.gets(&solo("bob")).await, Ok(free), "the second urgent one must wait");
}

pub async fn a_spent_budget_hides_one_task_and_not_the_next_of_its_lane(world: &World) {
    let costly = || NewTask {
        policy: Policy { budget_micros: 100, ..Policy::default() },
        ..ready("costly")
    };
    let (poor, rich) = (world.make(costly()).await, world.make(costly()).await);
    world.limit(PoolName::Budget(poor), 99).await;
    assert_eq!(world.gets(&solo("bob")).await, Ok(rich));
    assert_eq!(world.gets(&solo("bob")).await, NOTHING);
    world.limit(PoolName::Budget(poor), 100).await;
    assert_eq!(world.gets(&solo("bob")).await, Ok(poor));
}

pub async fn an_assigned_task_is_for_its_assignee_alone(world: &World) {
    let task = world.make(NewTask { assignee: Some(principal("bob")), ..ready("bob's") }).await;
    assert_eq!(world.gets(&solo("eve")).await, NOTHING);
    let refused = world.take(task, &solo("eve")).await;
    assert!(matches!(refused, Err(Refusal::NotForYou { .. })), "{refused:?}");
    assert_eq!(world.gets(&solo("bob")).await, Ok(task));
}

pub async fn a_claimer_needs_every_capability_of_a_task(world: &World) {
    let needs = BTreeSet::from([capability("gpu"), capability("rust")]);
    let task = world.make(NewTask { capabilities: needs.clone(), ..ready("hard") }).await;
    let with = |capabilities| Claimant { capabilities, ..solo("bob") };
    assert_eq!(world.gets(&with(BTreeSet::new())).await, NOTHING);
    assert_eq!(world.gets(&with(BTreeSet::from([capability("gpu")]))).await, NOTHING);
    let more = needs.into_iter().chain([capability("go")]).collect();
    assert_eq!(world.gets(&with(more)).await, Ok(task));
}

pub async fn nobody_claims_what_is_not_ready(world: &World) {
    let backlog = world.make(story("backlog")).await;
    world.make(NewTask { draft: true, ..story("draft") }).await;
    let approval = world.make(NewTask { needs_approval: true, ..ready("approval") }).await;
    let waits = NewTask { depends_on: BTreeSet::from([backlog]), ..ready("waits") };
    world.make(waits).await;
    let later = Some(world.now() + Millis::seconds(10));
    let later = world.make(NewTask { start_at: later, ..ready("later") }).await;
    let frozen = world.queued().await;
    let hold = |on| Person::Hold { hold: Hold::Frozen, on, reason: text("not now") };
    world.tell(frozen, hold(true)).await.expect("a person may hold");
    let anything = Claimant { wants: Wants::ReadyOrBlocked, person: true, ..solo("ann") };
    assert_eq!(world.gets(&anything).await, NOTHING);
    world.tell(approval, Person::Approve).await.expect("it waits for that");
    assert_eq!(world.gets(&anything).await, Ok(approval));
    world.wait(Millis::seconds(10)).await;
    assert_eq!(world.gets(&anything).await, Ok(later));
    world.tell(frozen, hold(false)).await.expect("a person may unhold");
    assert_eq!(world.gets(&anything).await, Ok(frozen));
    assert_eq!(world.gets(&anything).await, NOTHING);
}

pub async fn a_claim_for_an_unreasonable_time_is_told_so(world: &World) {
    world.queued().await;
    let before = world.dump().await;
    for lease in [Millis(0), Millis::hours(25)] {
        let wish = Claim { lease: Some(lease), ..world.wish(&solo("bob")) };
        let refused = world.grip(Aim::Next(wish)).await;
        assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{refused:?}");
    }
    assert_same(&before, &world.dump().await, "a refused claim");
}
