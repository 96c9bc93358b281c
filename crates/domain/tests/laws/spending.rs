//! Money: a total that is told again counts once, and what nobody has stops whoever spends it.

use baton_domain::Decision;
use baton_domain::command::{Command, NewTask, Proof, Supervisor, Time};
use baton_domain::ids::TaskId;
use baton_domain::limits::{BUDGET_MICROS_MAX, LATE_ATTEMPTS_MAX, RECURRENCE_MAX};
use baton_domain::policy::Policy;
use baton_domain::pool::{Pool, PoolName};
use baton_domain::reaction::{Cause, Reaction};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Cap, Idle, Mode, RunState, Why};
use baton_domain::task::Kind;
use baton_domain::time::Millis;
use baton_domain::view::Need;

use crate::cast::{
    Decided, complete, contracted, fail, lost, proved, release, solo, started, story, world,
};
use crate::world::World;

fn spend(total_micros: u64) -> Supervisor {
    Supervisor::Spend { total_micros }
}

fn nothing() -> Decided {
    Ok(Decision::default())
}

/// An epic with money for everything below it, and a child that reserves some of it.
fn funded(limit: u64, budget_micros: u64) -> (World, PoolName, TaskId) {
    let mut world = world();
    let epic = world.made(NewTask { kind: Kind::Epic, ..story() });
    let pool = PoolName::Budget(epic);
    world.pools.insert(pool.clone(), Pool { limit: Some(limit), ..Pool::default() });
    let id = world.made(child(epic, budget_micros));
    (world, pool, id)
}

fn child(epic: TaskId, budget_micros: u64) -> NewTask {
    let policy = Policy { budget_micros, ..Policy::default() };
    NewTask { parent: Some(epic), policy, ..started() }
}

fn gone(world: &World, pool: &PoolName) -> (u64, u64) {
    (world.pools[pool].used, world.pools[pool].settled)
}

#[test]
fn a_total_is_booked_once_however_often_it_is_told() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let (mut world, pool, id) = funded(1_000, 0);
        world.take_up(id, mode);
        world.supervisor(id, spend(30)).expect("it is held");
        assert_eq!(world.supervisor(id, spend(30)), nothing());
        assert_eq!(world.supervisor(id, spend(29)), nothing(), "a late report is no news");
        world.supervisor(id, spend(50)).expect("it is held");
        assert_eq!((world.held(id).spent_micros, gone(&world, &pool)), (50, (0, 50)));
        let proof = world.proof(id);
        world.conclude(id, complete());
        let tell = |world: &mut World, total| {
            world.tell(id, &Command::Supervisor(proof.clone(), spend(total)))
        };
        assert_eq!(tell(&mut world, 50), nothing(), "it was settled at the end");
        tell(&mut world, 57).expect("the rest is settled late");
        assert_eq!(tell(&mut world, 57), nothing());
        assert_eq!(gone(&world, &pool), (0, 57));
    }
}

#[test]
fn what_goes_beyond_the_reservation_is_gone_at_once() {
    let (mut world, pool, id) = funded(1_000, 60);
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(40)).expect("it is held");
    assert_eq!(gone(&world, &pool), (60, 0), "the reservation covers it");
    world.supervisor(id, spend(75)).expect("it is held");
    assert_eq!(gone(&world, &pool), (60, 15));
    world.conclude(id, complete());
    assert_eq!(gone(&world, &pool), (0, 75));
}

#[test]
fn whoever_spends_money_that_nobody_has_is_parked() {
    for (mode, budget_micros) in [(Mode::Solo, 0), (Mode::Supervised, 0), (Mode::Solo, 60)] {
        let (mut world, pool, id) = funded(100, budget_micros);
        world.take_up(id, mode);
        world.supervisor(id, spend(99)).expect("it is held");
        assert_eq!(world.word(id), "working", "something is left");
        world.supervisor(id, spend(120)).expect("it is held");
        if mode == Mode::Supervised {
            assert_eq!(world.word(id), "stopping");
            world.supervisor(id, spend(121)).expect("dying costs, too");
            world.supervisor(id, proved()).expect("it is dead");
        }
        let RunState::Idle(Idle::Blocked(block)) = &world.run(id).state else {
            panic!("it is {}", world.word(id));
        };
        assert_eq!(block.why, Why::Limit { cap: Cap::Budget });
        assert_eq!(world.flow(id).needs(world.now), [Need::Limit]);
        let spent = if mode == Mode::Supervised { 121 } else { 120 };
        assert_eq!(gone(&world, &pool), (0, spent));
    }
}

#[test]
fn an_exhausted_budget_refuses_new_claims_while_its_spender_is_still_at_work() {
    let (mut world, pool, id) = funded(100, 60);
    let PoolName::Budget(epic) = pool else { panic!("{pool} is no budget") };
    let other = world.made(child(epic, 0));
    world.take_up(id, Mode::Supervised);
    world.supervisor(id, spend(99)).expect("it is held");
    world.claim(other, solo()).expect("one millionth is left");
    world.supervisor(other, release()).expect("it is held");
    world.supervisor(id, spend(100)).expect("it is held");
    let refused = world.claim(other, solo());
    assert_eq!(refused, Err(Refusal::PoolFull { pool: pool.to_string() }));
}

#[test]
fn whoever_keeps_to_its_reservation_is_not_stopped_by_others() {
    let (mut world, pool, id) = funded(100, 60);
    let PoolName::Budget(epic) = pool else { panic!("{pool} is no budget") };
    let other = world.made(child(epic, 0));
    world.take_up(id, Mode::Solo);
    world.take_up(other, Mode::Solo);
    world.supervisor(other, spend(90)).expect("it is held");
    assert_eq!(world.word(other), "blocked");
    world.supervisor(id, spend(59)).expect("it is held");
    assert_eq!(world.word(id), "working", "that money is its own");
    world.supervisor(id, spend(60)).expect("it is held");
    assert_eq!(world.word(id), "blocked", "and now it is gone");
}

#[test]
fn what_is_being_verified_is_not_stopped_for_money() {
    let mut world = world();
    let id = world.at_work(contracted(), Mode::Supervised);
    let pool = Pool { limit: Some(10), ..Pool::default() };
    world.pools.insert(PoolName::Budget(id), pool);
    world.agent(id, complete()).expect("it is held");
    world.supervisor(id, spend(50)).expect("it is held");
    assert_eq!(world.word(id), "verifying");
    assert_eq!(gone(&world, &PoolName::Budget(id)), (0, 50));
}

#[test]
fn an_overdue_report_is_booked_and_stops_nobody() {
    let (mut world, pool, id) = funded(10, 0);
    world.take_up(id, Mode::Supervised);
    let proof = world.proof(id);
    world.wait(Millis::minutes(6));
    world.tell(id, &Command::Supervisor(proof.clone(), spend(30))).expect("it is booked");
    assert_eq!((world.word(id), gone(&world, &pool)), ("working", (0, 30)));
    world.pass(id);
    assert_eq!(world.tell(id, &Command::Supervisor(proof, spend(30))), nothing());
    assert_eq!(gone(&world, &pool), (0, 30));
}

#[test]
fn only_the_last_attempts_may_tell_their_cost_late() {
    let mut world = world();
    let policy = Policy { losses_max: 100, ..Policy::default() };
    let id = world.made(NewTask { policy, ..started() });
    let mut proofs: Vec<Proof> = vec![];
    for _ in 0..=LATE_ATTEMPTS_MAX {
        world.take_up(id, Mode::Solo);
        world.supervisor(id, spend(5)).expect("it is held");
        proofs.push(world.proof(id));
        world.supervisor(id, lost()).expect("it is held");
        world.wait(Millis::hours(1));
        world.pass(id);
    }
    let mut tell = |proof: &Proof| world.tell(id, &Command::Supervisor(proof.clone(), spend(6)));
    assert_eq!(tell(&proofs[0]), Err(Refusal::LeaseLost), "nobody knows what it cost before");
    for proof in &proofs[1..] {
        tell(proof).expect("the difference is settled");
    }
    let all = 6 * u64::from(LATE_ATTEMPTS_MAX) + 5;
    assert_eq!(gone(&world, &PoolName::Budget(id)), (0, all));
    assert!(world.flow(id).settled.len() <= LATE_ATTEMPTS_MAX as usize);
}

/// A task that reserves 60 of a budget of 100.
fn of_a_budget(pool: &PoolName) -> (World, TaskId) {
    let mut world = world();
    world.pools.insert(pool.clone(), Pool { limit: Some(100), ..Pool::default() });
    let policy = Policy { budget_micros: 60, ..Policy::default() };
    let id = world.made(NewTask { policy, ..started() });
    (world, id)
}

#[test]
fn a_project_and_a_day_have_money_like_a_tree() {
    let project = world().project.id;
    for pool in [
        PoolName::ProjectBudget(project.clone()),
        PoolName::ProjectDayBudget(project),
        PoolName::DayBudget,
    ] {
        let (mut world, id) = of_a_budget(&pool);
        let policy = Policy { budget_micros: 41, ..Policy::default() };
        let other = world.made(NewTask { policy, ..started() });
        world.take_up(id, Mode::Supervised);
        assert_eq!(gone(&world, &pool), (60, 0), "reserved before anything is started");
        let refused = world.claim(other, solo());
        assert_eq!(refused, Err(Refusal::PoolFull { pool: pool.to_string() }));
        world.supervisor(id, spend(99)).expect("it is held");
        assert_eq!((world.word(id), gone(&world, &pool)), ("working", (60, 39)));
        world.supervisor(id, spend(100)).expect("it is held");
        assert_eq!(world.word(id), "stopping", "nothing is left");
        world.supervisor(id, proved()).expect("it is dead");
        assert_eq!(gone(&world, &pool), (0, 100));
        let is_of_day = pool.is_of_day();
        match &world.run(id).state {
            RunState::Idle(Idle::Delayed { due_at, .. }) if is_of_day => {
                assert_eq!(*due_at, world.now.next_day());
            }
            RunState::Idle(Idle::Blocked(block)) if !is_of_day => {
                assert_eq!(block.why, Why::Limit { cap: Cap::Budget });
            }
            other @ (RunState::Idle(_) | RunState::Held(_)) => panic!("{pool}: {other:?}"),
        }
    }
}

#[test]
fn the_money_of_a_day_is_there_again_at_midnight_and_not_before() {
    let pool = PoolName::DayBudget;
    let (mut world, id) = of_a_budget(&pool);
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(100)).expect("it is held");
    assert_eq!(world.word(id), "delayed");
    let midnight = world.now.next_day();
    let last = Millis(midnight.since(world.now).0 - 1);
    world.wait(last);
    world.pass(id);
    assert_eq!((world.word(id), world.pools[&pool].room(world.now)), ("delayed", 0));
    assert_eq!(world.pools[&pool].opens_at(60, world.now), Some(midnight));
    world.wait(Millis(1));
    world.pass(id);
    assert_eq!((world.word(id), world.pools[&pool].room(world.now)), ("queued", 100));
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(60)).expect("it is held");
    assert_eq!(gone(&world, &pool), (60, 0), "what was spent yesterday is forgotten");
    world.conclude(id, complete());
    assert_eq!(gone(&world, &pool), (0, 60));
    assert_eq!(world.pools[&pool].day, Some(world.now.day()));
}

#[test]
fn what_an_attempt_reserved_of_a_day_is_held_over_midnight() {
    let pool = PoolName::DayBudget;
    let (mut world, id) = of_a_budget(&pool);
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(70)).expect("it is held");
    assert_eq!(gone(&world, &pool), (60, 10));
    world.now = world.now.next_day();
    assert_eq!(world.pools[&pool].room(world.now), 40, "only what it holds still counts");
}

#[test]
fn where_a_lasting_budget_is_spent_too_a_person_is_needed() {
    let pool = PoolName::DayBudget;
    let (mut world, id) = of_a_budget(&pool);
    let lasting = Pool { limit: Some(80), ..Pool::default() };
    world.pools.insert(PoolName::ProjectBudget(world.project.id.clone()), lasting);
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(100)).expect("it is held");
    assert_eq!(world.word(id), "blocked");
}

#[test]
fn a_total_has_a_bound() {
    let (mut world, _, id) = funded(100, 0);
    world.take_up(id, Mode::Solo);
    let refused = world.supervisor(id, spend(BUDGET_MICROS_MAX + 1));
    assert_eq!(refused.map_err(|refusal| refusal.code()), Err("invalid"));
    assert_eq!(world.supervisor(id, spend(0)), nothing());
    world.conclude(id, fail());
}

/// Raises a budget and lets the task hear of it, as a store does.
fn raise(world: &mut World, id: TaskId, pool: &PoolName, limit: u64) {
    world.pools.get_mut(pool).expect("it was set").limit = Some(limit);
    let raised = Reaction { to: id, from: id, cause: Cause::BudgetRaised };
    world.tell(id, &Command::Time(Time::React(raised))).expect("a reaction is never refused");
}

#[test]
fn more_money_lets_go_on_what_the_budget_had_parked() {
    let (mut world, pool, id) = funded(100, 60);
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(120)).expect("it is held");
    assert!(
        world.flow(id).is_parked_by(&pool) && world.flow(id).is_parked_by(&PoolName::DayBudget)
    );
    assert!(!world.flow(id).is_parked_by(&PoolName::Budget(TaskId(99))), "it is none of its own");
    raise(&mut world, id, &pool, 179);
    assert_eq!(world.word(id), "blocked", "no attempt could reserve what it needs");
    raise(&mut world, id, &pool, 180);
    assert_eq!(world.word(id), "queued");
    raise(&mut world, id, &pool, 500);
    assert_eq!(world.word(id), "queued", "what waits for nothing is left alone");
}

#[test]
fn money_that_comes_while_death_is_awaited_is_not_missed() {
    let (mut world, pool, id) = funded(100, 0);
    world.take_up(id, Mode::Supervised);
    world.supervisor(id, spend(100)).expect("it is held");
    assert_eq!(world.word(id), "stopping");
    raise(&mut world, id, &pool, 200);
    assert_eq!(world.word(id), "stopping", "it is not dead yet");
    world.supervisor(id, proved()).expect("it is dead");
    assert_eq!(world.word(id), "queued");
}

#[test]
fn more_money_does_not_let_go_on_what_came_back_too_often() {
    let (mut world, pool, id) = funded(100, 0);
    for round in 1..=u64::from(RECURRENCE_MAX) + 1 {
        world.take_up(id, Mode::Solo);
        world.supervisor(id, spend(1_000)).expect("it is held");
        assert_eq!(world.word(id), "blocked");
        raise(&mut world, id, &pool, 1_000 * round + 500);
    }
    raise(&mut world, id, &pool, 1_000_000);
    assert_eq!(world.word(id), "blocked", "only a person may unpark it");
}

#[test]
fn more_money_for_today_lets_go_on_what_waits_for_tomorrow() {
    let mut world = world();
    let pool = PoolName::DayBudget;
    world.pools.insert(pool.clone(), Pool { limit: Some(100), ..Pool::default() });
    let id = world.made(started());
    world.take_up(id, Mode::Solo);
    world.supervisor(id, spend(100)).expect("it is held");
    assert_eq!(world.word(id), "delayed");
    raise(&mut world, id, &pool, 200);
    assert_eq!(world.word(id), "queued");
}
