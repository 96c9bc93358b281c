//! Who gets what next: oldest first, a head start for what is urgent, and no way past a full pool.

use std::collections::BTreeSet;

use baton_domain::command::{Command, NewTask, Patch, Person};
use baton_domain::ids::{Account, ConcurrencyKey, TaskId};
use baton_domain::lane::{Claimant, Lane, Offer, Sort, Wants};
use baton_domain::pool::{Pool, PoolName, Shut};
use baton_domain::refusal::Refusal;
use baton_domain::run::{BlockKind, Mode, Why};
use baton_domain::task::{Kind, Priority};
use baton_domain::time::Millis;

use crate::cast::{
    block, block_with_condition, capability, capable, claim, complete, contracted, person,
    principal, reason, solo, stage, started, story, wanting, worker, world,
};
use crate::world::World;

impl World {
    /// What a claimer would get, as a store finds it: the best of the heads of its lanes whose
    /// claim is not refused.
    fn next_for(&self, claimant: &Claimant) -> Option<TaskId> {
        let flows = self.tasks.values().map(|task| &task.flow);
        let mut open: Vec<_> = flows
            .flat_map(|flow| flow.lanes().into_iter().map(move |lane| (flow, lane)))
            .filter(|(_, lane)| lane.admits(claimant))
            .map(|(flow, lane)| (lane.rank(flow.ready_at()), flow.id))
            .collect();
        open.sort_unstable();
        let wish = claim(claimant.clone(), 1);
        open.into_iter().map(|(_, id)| id).find(|id| self.ask(*id, &wish).is_ok())
    }

    fn lane(&self, id: TaskId) -> Lane {
        self.flow(id).lanes().into_iter().next().expect("it is in a lane")
    }
}

fn with(priority: Priority) -> NewTask {
    NewTask { priority, ..started() }
}

#[test]
fn inside_a_lane_the_oldest_goes_first() {
    let mut world = world();
    let ids: Vec<TaskId> = (0..4)
        .map(|_| {
            world.wait(Millis::seconds(1));
            world.made(started())
        })
        .collect();
    for id in ids {
        assert_eq!(world.next_for(&solo()), Some(id));
        world.claim(id, solo()).expect("it is queued");
    }
    assert_eq!(world.next_for(&solo()), None);
}

#[test]
fn urgent_work_goes_first_by_a_day_and_high_by_an_hour() {
    let mut world = world();
    let low = world.made(with(Priority::Low));
    let normal = world.made(with(Priority::Normal));
    let high = world.made(with(Priority::High));
    let urgent = world.made(with(Priority::Urgent));
    for id in [urgent, high, normal, low] {
        assert_eq!(world.next_for(&solo()), Some(id));
        world.claim(id, solo()).expect("it is queued");
    }
}

#[test]
fn old_work_of_low_priority_precedes_newer_urgent_work_in_the_end() {
    let mut world = world();
    let old = world.made(with(Priority::Low));
    let mut hours = 0;
    loop {
        let urgent = world.made(with(Priority::Urgent));
        if world.next_for(&solo()) == Some(old) {
            break;
        }
        assert_eq!(world.next_for(&solo()), Some(urgent));
        world.claim(urgent, solo()).expect("it is queued");
        world.wait(Millis::hours(1));
        hours += 1;
        assert!(hours <= 25, "it starves");
    }
    assert_eq!(hours, 24, "a head start of a day is all that there is");
}

#[test]
fn a_full_or_shut_pool_is_passed_over() {
    let mut world = world();
    let key = ConcurrencyKey::new("database").expect("the tests write proper names");
    let keyed = NewTask { key: Some(key.clone()), ..started() };
    let (first, second) = (world.made(keyed.clone()), world.made(keyed));
    world.wait(Millis::seconds(1));
    let other = world.made(started());
    let pool = PoolName::Key(world.project.id.clone(), key);
    world.pools.insert(pool.clone(), Pool { limit: Some(1), ..Pool::default() });
    assert_eq!(world.next_for(&solo()), Some(first));
    world.claim(first, solo()).expect("it is queued");
    assert_eq!(world.next_for(&solo()), Some(other), "the lane of the full pool is passed over");
    let full = world.tell(second, &claim(solo(), 9)).expect_err("it is full");
    assert_eq!(full, Refusal::PoolFull { pool: pool.to_string() });
    // A limit that is lowered below what is used takes nothing away and lets nobody in.
    world.pools.get_mut(&pool).expect("it was set").limit = Some(0);
    world.conclude(first, complete());
    assert_eq!(world.pools[&pool].used, 0, "what was taken is given back");
    world.pools.get_mut(&pool).expect("it was set").limit = None;
    assert_eq!(world.next_for(&solo()), Some(second));
}

#[test]
fn agents_of_one_name_share_a_limit_whoever_runs_them() {
    let mut world = world();
    let pool = PoolName::Role(capability("claude"));
    world.pools.insert(pool.clone(), Pool { limit: Some(1), ..Pool::default() });
    let named = BTreeSet::from([capability("agent:claude")]);
    let first = world.made(NewTask { capabilities: named.clone(), ..started() });
    let (second, third) = (world.made(started()), world.made(started()));
    let offer = |name: &str, can: &[&str]| Offer {
        role: capability(name),
        capabilities: can.iter().map(|can| capability(can)).collect(),
    };
    let agents = vec![offer("claude", &["rust"]), offer("codex", &[])];
    let by = |name: &str| Claimant {
        principal: principal(name),
        capabilities: named.clone(),
        agents: agents.clone(),
        ..worker()
    };
    world.claim(first, by("one")).expect("there is room for one");
    assert_eq!(world.pools[&pool].used, 1, "it counts before anything is started");
    let full = world.tell(second, &claim(by("two"), 9)).expect_err("its usual agent has no room");
    assert_eq!(full, Refusal::PoolFull { pool: pool.to_string() });
    assert_eq!(world.next_for(&by("two")), None, "whole lanes are passed over");
    let other = Claimant { agents: vec![offer("codex", &[])], ..by("three") };
    world.claim(second, other).expect("another agent works on it");
    world.conclude(first, complete());
    assert_eq!(world.pools[&pool].used, 0, "what was taken is given back");
    world.claim(third, by("two")).expect("there is room again");
}

#[test]
fn a_paused_project_tree_account_or_tenant_hands_out_nothing() {
    let account = Account::new("acme").expect("the tests write proper names");
    let claimant = Claimant { account: Some(account.clone()), ..solo() };
    let mut world = world();
    let parent = world.made(NewTask { kind: Kind::Epic, ..story() });
    let id = world.made(NewTask { parent: Some(parent), ..started() });
    let until = world.now + Millis::hours(1);
    let pools = [
        PoolName::Scheduler,
        PoolName::Project(world.project.id.clone()),
        PoolName::Tree(parent),
        PoolName::Account(account),
        PoolName::Stage(world.project.id.clone(), stage("coding")),
    ];
    for pool in pools {
        let shut = Some(Shut { reason: reason(), since: world.now, until: Some(until) });
        world.pools.insert(pool.clone(), Pool { shut, ..Pool::default() });
        let refusal = world.tell(id, &claim(claimant.clone(), 1)).expect_err("it is paused");
        assert_eq!(refusal, Refusal::Paused { pool: pool.to_string() });
        let mut later = world.clone();
        later.now = until;
        assert_eq!(later.next_for(&claimant), Some(id), "a pause ends by itself");
        world.pools.clear();
    }
}

#[test]
fn an_exhausted_budget_stops_its_whole_tree() {
    let mut world = world();
    let parent = world.made(NewTask { kind: Kind::Epic, ..story() });
    let child = || NewTask { parent: Some(parent), ..started() };
    let (first, second) = (world.made(child()), world.made(child()));
    world.pools.insert(PoolName::Budget(parent), Pool { limit: Some(100), ..Pool::default() });
    world.take_up(first, Mode::Solo);
    let spend = baton_domain::command::Supervisor::Spend { total_micros: 100 };
    world.supervisor(first, spend).expect("it is held");
    assert_eq!(world.pools[&PoolName::Budget(parent)].settled, 100);
    let refusal = world.claim(second, solo()).expect_err("nothing is left");
    assert_eq!(refusal.code(), "pool_full");
}

#[test]
fn work_goes_to_whom_it_is_assigned_and_who_can_do_it() {
    let mut world = world();
    let hard = BTreeSet::from([capability("gpu")]);
    let hard = world.made(NewTask { capabilities: hard, ..started() });
    assert_eq!(world.next_for(&worker()), None);
    assert_eq!(world.next_for(&person()), Some(hard), "a person can do everything");
    assert_eq!(world.next_for(&capable()), Some(hard));
    let only = Patch { assignee: Some(principal("ada")), ..Patch::default() };
    world.person(hard, Person::Edit(Box::new(only))).expect("a person may");
    assert_eq!(world.next_for(&capable()), None);
    assert_eq!(world.next_for(&person()), Some(hard));
}

#[test]
fn whoever_verifies_need_be_neither_assigned_nor_able() {
    let mut world = world();
    let assignee = Some(solo().principal);
    let id = world.made(NewTask { assignee, ..contracted() });
    world.take_up(id, Mode::Solo);
    world.conclude(id, complete());
    assert_eq!(world.next_for(&wanting(Wants::Submitted, worker())), Some(id));
    assert_eq!(world.next_for(&wanting(Wants::Submitted, solo())), None, "solo never verifies");
}

#[test]
fn a_parked_run_with_a_condition_is_in_two_lanes_and_a_sticky_one_in_one() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let gpu = || block_with_condition(Why::Capability { needs: capability("gpu") });
    world.conclude(id, gpu());
    let sorts = |world: &World| world.flow(id).lanes().iter().map(|l| l.sort).collect::<Vec<_>>();
    let parked = |sticky| Sort::Blocked { kind: BlockKind::Capability, sticky };
    assert_eq!(sorts(&world), [parked(false), Sort::Probe]);
    assert!(world.lane(id).capabilities.contains(&capability("gpu")));
    for _ in 0..2 {
        world.claim(id, wanting(Wants::Blocked, capable())).expect("it can");
        world.conclude(id, gpu());
    }
    assert_eq!(sorts(&world), [parked(true)]);
}

#[test]
fn a_claim_narrows_by_project_stage_and_priority() {
    let mut world = world();
    let id = world.made(started());
    let finds = |claimant: Claimant| world.next_for(&claimant).is_some();
    assert!(finds(Claimant { stage: Some(stage("coding")), ..solo() }));
    assert!(!finds(Claimant { stage: Some(stage("qa")), ..solo() }));
    assert!(finds(Claimant { priority_min: Priority::Normal, ..solo() }));
    assert!(!finds(Claimant { priority_min: Priority::High, ..solo() }));
    assert!(finds(Claimant { project: Some(world.project.id.clone()), ..solo() }));
    assert!(!finds(wanting(Wants::Blocked, person())));
    assert_eq!(world.flow(id).lanes().len(), 1);
}

#[test]
fn a_claimer_without_wishes_takes_low_work_too() {
    let bare = r#"{"principal":"solo","mode":"solo"}"#;
    let claimant: Claimant = serde_json::from_str(bare).expect("nothing else is needed");
    let mut world = world();
    let id = world.made(with(Priority::Low));
    assert_eq!(world.next_for(&claimant), Some(id));
}

#[test]
fn a_run_that_queues_for_too_long_is_reported_once() {
    let mut world = world();
    let id = world.made(started());
    world.wait(Millis::minutes(59));
    assert_eq!(world.pass(id), 0);
    world.wait(Millis::minutes(1));
    assert_eq!(world.pass(id), 1);
    assert!(world.run(id).starved);
    world.wait(Millis::hours(24));
    assert_eq!(world.pass(id), 0);
    assert!(
        matches!(world.ask(id, &Command::Claim(wish())), Ok(decision) if !decision.is_nothing())
    );
    world.take_up(id, Mode::Solo);
    world.conclude(id, block(Why::NeedsInput));
    assert!(!world.run(id).starved);
}

fn wish() -> baton_domain::command::Claim {
    let nonce = baton_domain::ids::Nonce(1);
    baton_domain::command::Claim { claimant: solo(), nonce, lease: None }
}
