//! Limits over many tasks: what an attempt took is given back by it, whatever became of the limit.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, NewTask, Person, Supervisor};
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Offer};
use baton_domain::limits::{POOLS_MAX, PROJECTS_MAX};
use baton_domain::policy::Policy;
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::RecordCommand;
use baton_domain::run::{Death, Why};
use baton_domain::task::Kind;
use baton_domain::time::Millis;
use baton_store::{Aim, Freed, TaskRow};
use baton_testkit::chance::Chance;
use baton_testkit::rounds;

use crate::words::{
    account, block, capability, complete, key, pipeline, principal, project, ready, shut, solo,
    stage, story, text, worker,
};
use crate::world::World;

fn coding() -> PoolName {
    PoolName::Stage(project("web"), stage("coding"))
}

pub async fn a_limit_set_later_counts_what_is_taken_already(world: &World) {
    for _ in 0..3 {
        world.queued().await;
    }
    let first = world.claim(&solo("bob")).await.expect("nothing is limited");
    world.claim(&solo("bob")).await.expect("nothing is limited");
    assert_eq!(world.pool(&coding()).await, None, "a pool that nobody set does not exist");
    world.limit(coding(), 2).await;
    let pool = Pool { limit: Some(2), used: 2, ..Pool::default() };
    assert_eq!(world.pool(&coding()).await, Some(pool));
    assert_eq!(world.claim(&solo("eve")).await, Err(Refusal::NothingClaimable));
    world.agent(&first, complete()).await.expect("bob holds it");
    world.claim(&solo("eve")).await.expect("there is room again");
}

pub async fn a_pause_set_later_counts_what_is_taken_already(world: &World) {
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("nothing is limited");
    let shut = Some(shut(world.now(), None));
    world.record(RecordCommand::ShutPool { pool: coding(), shut: shut.clone() }).await;
    let pool = Pool { shut, used: 1, ..Pool::default() };
    assert_eq!(world.pool(&coding()).await, Some(pool));
    world.agent(&grip, complete()).await.expect("a pause stops nobody who is at work");
    assert_eq!(world.pool(&coding()).await.map(|pool| pool.used), Some(0));
}

pub async fn what_stops_one_task_alone_stops_whoever_takes_the_next(world: &World) {
    let (paused, poor, free) = (world.queued().await, world.queued().await, world.queued().await);
    let shut = Some(shut(world.now(), None));
    world.record(RecordCommand::ShutPool { pool: PoolName::Tree(paused), shut }).await;
    world.limit(PoolName::Budget(poor), 0).await;
    assert_eq!(world.claim(&solo("bob")).await.map(|grip| grip.task), Ok(free));
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
    let open = RecordCommand::ShutPool { pool: PoolName::Tree(paused), shut: None };
    world.record(open).await;
    assert_eq!(world.claim(&solo("bob")).await.map(|grip| grip.task), Ok(paused));
}

pub async fn a_pause_stops_who_claims_what_was_just_made_or_moved(world: &World) {
    let backlog = world.make(story("in the backlog")).await;
    for pool in [PoolName::Project(project("web")), coding()] {
        let paused = Refusal::Paused { pool: pool.to_string() };
        let set = |shut| RecordCommand::ShutPool { pool: pool.clone(), shut };
        world.record(set(Some(shut(world.now(), None)))).await;
        let made = Command::Create(Box::new(ready("claimed at once")));
        let claim = || Command::Claim(world.wish(&solo("bob")));
        let birth = Aim::Birth(project("web"), vec![made, claim()]);
        assert_eq!(world.ask(birth).await.expect_err("it is paused"), paused);
        let go = Command::Person(Person::Move { to: Some(stage("coding")), start_at: None });
        let moved = world.ask(Aim::Task(backlog, vec![go, claim()])).await;
        assert_eq!(moved.expect_err("it is paused"), paused);
        world.record(set(None)).await;
    }
}

pub async fn a_changed_limit_never_leaks_a_slot(world: &World) {
    world.limit(coding(), 2).await;
    for _ in 0..4 {
        world.queued().await;
    }
    let first = world.claim(&solo("bob")).await.expect("there is room");
    let second = world.claim(&solo("bob")).await.expect("there is room");
    world.limit(coding(), 1).await;
    world.agent(&first, complete()).await.expect("bob holds it");
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
    world.agent(&second, complete()).await.expect("bob holds it");
    let third = world.claim(&solo("bob")).await.expect("there is room for one");
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
    world.record(RecordCommand::LimitPool { pool: coding(), limit: None }).await;
    world.claim(&solo("bob")).await.expect("the limit is lifted");
    world.agent(&third, complete()).await.expect("bob holds it");
    assert_eq!(world.pool(&coding()).await.map(|pool| pool.used), Some(1));
}

pub async fn more_money_lets_go_on_what_the_budget_had_parked(world: &World) {
    let (poor, other) = (world.queued().await, world.queued().await);
    let (budget, whole) = (PoolName::Budget(poor), PoolName::ProjectBudget(project("web")));
    world.limit(budget.clone(), 50).await;
    world.limit(whole.clone(), 100).await;
    for (id, micros) in [(poor, 60), (other, 40)] {
        let grip = world.take(id, &solo("bob")).await.expect("there is money");
        let spend = Supervisor::Spend { total_micros: micros };
        world.supervisor(&grip, spend).await.expect("bob holds it");
    }
    let word = async |id| world.row(id).await.flow.run.as_ref().expect("it has a run").word();
    let states = async || [word(poor).await, word(other).await];
    assert_eq!(states().await, ["blocked", "blocked"]);
    world.limit(whole.clone(), 1_000).await;
    world.sweep().await;
    assert_eq!(states().await, ["blocked", "queued"], "its own budget is still spent");
    world.record(RecordCommand::LimitPool { pool: budget, limit: None }).await;
    world.sweep().await;
    assert_eq!(states().await, ["queued", "queued"]);
    let nothing = world.sweep().await;
    assert_eq!((nothing.due, nothing.reactions), (0, 0), "it is told once");
}

pub async fn agents_of_one_name_share_a_limit(world: &World) {
    let role = PoolName::Role(capability("claude"));
    for _ in 0..3 {
        world.queued().await;
    }
    let offer = Offer { role: capability("claude"), capabilities: BTreeSet::new() };
    let by = |name: &str| Claimant { agents: vec![offer.clone()], ..worker(name) };
    world.claim(&by("one")).await.expect("nothing is limited");
    world.limit(role.clone(), 2).await;
    assert_eq!(world.pool(&role).await.map(|pool| pool.used), Some(1), "it counts from before");
    let second = world.claim(&by("two")).await.expect("there is room for one more");
    assert_eq!(world.claim(&by("two")).await, Err(Refusal::NothingClaimable));
    world.claim(&worker("three")).await.expect("whoever runs no such agent is not limited");
    world.queued().await;
    let release = Supervisor::Release { reason: text("enough"), until: None };
    let dead = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    world.supervisor(&second, release).await.expect("it is held");
    world.supervisor(&second, dead).await.expect("it is held");
    world.claim(&by("two")).await.expect("there is room again");
}

pub async fn money_that_was_spent_stays_spent(world: &World) {
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let policy = Policy { budget_micros: 60, ..Policy::default() };
    let child = || NewTask { parent: Some(epic), policy, ..ready("child") };
    for _ in 0..3 {
        world.make(child()).await;
    }
    world.limit(PoolName::Budget(epic), 100).await;
    let grip = world.claim(&solo("bob")).await.expect("there is money for one");
    assert_eq!(world.claim(&solo("eve")).await, Err(Refusal::NothingClaimable));
    world.supervisor(&grip, Supervisor::Spend { total_micros: 30 }).await.expect("bob holds it");
    world.agent(&grip, complete()).await.expect("bob holds it");
    let pool = Pool { limit: Some(100), settled: 30, ..Pool::default() };
    assert_eq!(world.pool(&PoolName::Budget(epic)).await, Some(pool));
    let grip = world.claim(&solo("bob")).await.expect("there is money for one more");
    world.supervisor(&grip, Supervisor::Spend { total_micros: 20 }).await.expect("bob holds it");
    world.agent(&grip, complete()).await.expect("bob holds it");
    let last = world.take(TaskId(4), &solo("bob")).await;
    let full = Refusal::PoolFull { pool: format!("budget {epic}") };
    assert_eq!(last.err(), Some(full), "50 is less than the 60 that it reserves");
    for _ in 0..2 {
        let late = world.supervisor(&grip, Supervisor::Spend { total_micros: 27 }).await;
        late.expect("what was spent is settled even late");
        let pool = world.pool(&PoolName::Budget(epic)).await;
        assert_eq!(pool.map(|pool| pool.settled), Some(57), "and once");
    }
}

pub async fn money_that_nobody_has_stops_its_spender_and_every_claim(world: &World) {
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let budget = PoolName::Budget(epic);
    let (one, two) = (NewTask { parent: Some(epic), ..ready("one") }, ready("elsewhere"));
    let (one, next) = (world.make(one.clone()).await, world.make(one).await);
    let free = world.make(two).await;
    world.limit(budget.clone(), 100).await;
    let grip = world.take(one, &worker("bob")).await.expect("there is money");
    for total_micros in [60, 60, 130] {
        world.supervisor(&grip, Supervisor::Spend { total_micros }).await.expect("bob holds it");
    }
    let pool = Pool { limit: Some(100), settled: 130, ..Pool::default() };
    assert_eq!(world.pool(&budget).await, Some(pool.clone()), "at once, and once");
    let word = |row: TaskRow| row.flow.run.as_ref().map(|run| run.word());
    assert_eq!(word(world.row(one).await), Some("stopping"));
    let got = world.claim(&solo("eve")).await.map(|grip| grip.task);
    assert_eq!(got, Ok(free), "the next one of the tree must wait");
    world.reopen();
    let dead = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    world.supervisor(&grip, dead).await.expect("death is proved");
    assert_eq!(word(world.row(one).await), Some("blocked"));
    assert_eq!(world.pool(&budget).await, Some(pool));
    world.limit(budget, 200).await;
    assert_eq!(world.claim(&solo("eve")).await.map(|grip| grip.task), Ok(next));
}

pub async fn money_of_a_project_and_of_a_day_is_reserved_and_stays_spent(world: &World) {
    let web = || project("web");
    let lasting = [PoolName::ProjectBudget(web())];
    let daily = [PoolName::ProjectDayBudget(web()), PoolName::DayBudget];
    for pool in lasting.iter().chain(&daily) {
        world.limit(pool.clone(), 100).await;
        let policy = Policy { budget_micros: 60, ..Policy::default() };
        let poor = NewTask { policy, ..ready("costly") };
        let (one, two) = (world.make(poor.clone()).await, world.make(poor).await);
        let grip = world.take(one, &solo("bob")).await.expect("there is money for one");
        assert_eq!(world.claim(&solo("eve")).await, Err(Refusal::NothingClaimable), "{pool}");
        world.supervisor(&grip, Supervisor::Spend { total_micros: 90 }).await.expect("he has it");
        let told = world.pool(pool).await.map(|pool| (pool.used, pool.settled));
        assert_eq!(told, Some((60, 30)), "{pool}");
        world.agent(&grip, complete()).await.expect("bob holds it");
        world.reopen();
        let full = Refusal::PoolFull { pool: pool.to_string() };
        assert_eq!(world.take(two, &solo("eve")).await.err(), Some(full));
        let free = world.stranger("other").pool(pool).await;
        assert_eq!(free, None, "a day of one tenant is not that of another");
        world.tell(two, Person::Close(gone())).await.expect("nobody holds it");
        world.record(RecordCommand::LimitPool { pool: pool.clone(), limit: None }).await;
        world.check_laws().await;
    }
}

pub async fn money_of_a_day_is_there_again_the_next_day(world: &World) {
    let pool = PoolName::DayBudget;
    world.limit(pool.clone(), 100).await;
    let (one, two) = (world.queued().await, world.queued().await);
    let grip = world.take(one, &worker("bob")).await.expect("there is money");
    world.supervisor(&grip, Supervisor::Spend { total_micros: 130 }).await.expect("bob holds it");
    let dead = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    world.supervisor(&grip, dead).await.expect("death is proved");
    let word = |row: TaskRow| row.flow.run.as_ref().map(|run| run.word());
    assert_eq!(word(world.row(one).await), Some("delayed"), "it waits for the next day");
    let midnight = world.now().next_day();
    world.silence(Millis(midnight.since(world.now()).0 - 1));
    world.sweep().await;
    world.rung().await;
    assert_eq!(world.claim(&solo("eve")).await, Err(Refusal::NothingClaimable));
    world.silence(Millis(1));
    world.sweep().await;
    let rung = world.rung().await;
    assert!(rung.contains(&Freed::Pools(world.tenant.clone())), "whoever waits is woken: {rung:?}");
    world.reopen();
    for wanted in [two, one] {
        let got = world.claim(&solo("eve")).await.expect("there is money again");
        assert_eq!(got.task, wanted);
        world.supervisor(&got, Supervisor::Spend { total_micros: 20 }).await.expect("eve holds it");
        world.agent(&got, complete()).await.expect("eve holds it");
    }
    let told = world.pool(&pool).await.map(|pool| (pool.settled, pool.day));
    assert_eq!(told, Some((40, Some(midnight.day()))));
}

pub async fn a_limit_that_is_so_already_leaves_no_entry(world: &World) {
    let shut = Some(shut(world.now(), None));
    for command in [
        RecordCommand::LimitPool { pool: coding(), limit: Some(2) },
        RecordCommand::ShutPool { pool: coding(), shut },
        RecordCommand::ShutPool { pool: coding(), shut: None },
        RecordCommand::LimitPool { pool: coding(), limit: None },
    ] {
        assert!(world.record(command.clone()).await.position.is_some(), "{command:?}");
        world.silence(Millis::seconds(1));
        assert_eq!(world.record(command.clone()).await.position, None, "{command:?}");
    }
}

pub async fn a_pool_that_limits_nothing_is_forgotten_once_nothing_is_taken(world: &World) {
    let lift = || world.record(RecordCommand::LimitPool { pool: coding(), limit: None });
    world.limit(coding(), 2).await;
    lift().await;
    assert_eq!(world.pool(&coding()).await, None, "nothing was taken");
    world.limit(coding(), 2).await;
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is room");
    lift().await;
    assert_eq!(world.pool(&coding()).await.map(|pool| pool.used), Some(1));
    world.agent(&grip, complete()).await.expect("bob holds it");
    assert_eq!(world.pool(&coding()).await, None, "it was given back");
    world.reopen();
    assert_eq!(world.pool(&coding()).await, None);
}

pub async fn there_are_only_so_many_pools_and_projects(world: &World) {
    let limit = |count: usize| RecordCommand::LimitPool {
        pool: PoolName::Holder(principal(&format!("agent-{count}"))),
        limit: Some(1),
    };
    let put = |count: usize| {
        RecordCommand::PutProject(pipeline(&format!("project-{count}"), &["coding"]))
    };
    let ask = |command| world.ask(Aim::Record(command, None));
    for count in 0..POOLS_MAX {
        ask(limit(count)).await.expect("there is a place");
    }
    assert_eq!(ask(limit(POOLS_MAX)).await.err(), Some(Refusal::full("pools", POOLS_MAX)));
    let lift =
        RecordCommand::LimitPool { pool: PoolName::Holder(principal("agent-0")), limit: None };
    ask(lift).await.expect("a pool may always go");
    ask(limit(POOLS_MAX)).await.expect("and another take its place");
    for count in 1..PROJECTS_MAX {
        ask(put(count)).await.expect("there is a place");
    }
    let full = Refusal::full("projects", PROJECTS_MAX);
    assert_eq!(ask(put(PROJECTS_MAX)).await.err(), Some(full));
}

pub async fn every_way_to_end_gives_back_what_was_taken(world: &World) {
    let pools = [
        coding(),
        PoolName::Holder(principal("bob")),
        PoolName::Key(project("web"), key("db")),
        PoolName::Account(account("acme")),
    ];
    for pool in &pools {
        world.limit(pool.clone(), 1).await;
    }
    for way in 0..9 {
        let task = world.make(NewTask { key: Some(key("db")), ..ready("locked") }).await;
        let mode = if way < 5 { solo("bob") } else { worker("bob") };
        let bob = Claimant { account: Some(account("acme")), ..mode };
        let grip = world.take(task, &bob).await.expect("everything was given back");
        let until = Some(world.now() + Millis::seconds(9));
        let reason = text("the end");
        let stopped = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
        let release = Supervisor::Release { reason: text("later"), until };
        let failed = Agent::Fail { code: text("oops"), reason: text("it broke") };
        let ended = match way {
            0 => world.agent(&grip, complete()).await,
            1 => world.agent(&grip, failed).await,
            2 => world.agent(&grip, block(Why::NeedsInput)).await,
            3 => world.supervisor(&grip, Supervisor::Exited).await,
            4 => world.supervisor(&grip, release).await,
            5 => world.tell(task, Person::Cancel(reason)).await,
            6 => world.tell(task, Person::Fail { code: text("forced"), reason }).await,
            7 => world.agent(&grip, complete()).await,
            _ => world.supervisor(&grip, Supervisor::Exited).await,
        };
        ended.expect("every ending is accepted");
        if way >= 5 {
            assert_eq!(world.pool(&pools[0]).await.map(|pool| pool.used), Some(1), "not dead yet");
            world.supervisor(&grip, stopped).await.expect("death is proved");
        }
        for pool in &pools {
            assert_eq!(world.pool(pool).await.map(|pool| pool.used), Some(0), "{pool}, {way}");
        }
        world.tell(task, Person::Close(gone())).await.ok();
    }
}

fn gone() -> baton_domain::task::Ending {
    baton_domain::task::Ending::Rejected { reason: text("next, please") }
}

pub async fn pools_are_conserved_whatever_happens(world: &World) {
    let mut chance = Chance::new(7);
    let keys = ["db", "net"];
    let pools: Vec<PoolName> = keys
        .map(|name| PoolName::Key(project("web"), key(name)))
        .into_iter()
        .chain([coding(), PoolName::Holder(principal("bob")), PoolName::Holder(principal("eve"))])
        .collect();
    let mut held = vec![];
    for _ in 0..rounds(120) {
        match chance.below(6) {
            0 => {
                let key = Some(key(chance.pick::<&str>(&keys)));
                let policy = Policy { lease: Millis::seconds(8), ..Policy::default() };
                world.make(NewTask { key, policy, ..ready("more") }).await;
            }
            1 | 2 => {
                held.extend(world.claim(&solo(chance.pick::<&str>(&["bob", "eve"]))).await.ok())
            }
            3 if !held.is_empty() => {
                let grip = held.swap_remove(chance.index(held.len()));
                world.agent(&grip, complete()).await.ok();
            }
            4 => world.limit(chance.pick(&pools).clone(), chance.below(4)).await,
            _ => world.wait(Millis::seconds(chance.below(4))).await,
        }
        world.check_laws().await;
    }
}
