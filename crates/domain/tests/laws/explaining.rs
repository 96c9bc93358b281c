//! Why a task is not moving: every hindrance by an example, and what holds of all of them.

use std::collections::BTreeSet;

use baton_domain::command::{NewTask, Person, Supervisor};
use baton_domain::explain::{Exhausted, Explained, Hindrance, Outlook, Remedy, exhausted, explain};
use baton_domain::ids::{Account, ConcurrencyKey, TaskId};
use baton_domain::lane::{Claimant, Offer, Wants};
use baton_domain::limits::SILENT_AFTER;
use baton_domain::policy::Policy;
use baton_domain::pool::{Pool, PoolName, Shut};
use baton_domain::project::WorkedBy;
use baton_domain::run::{Cap, Death, Mode, Why};
use baton_domain::task::{Hold, Kind};
use baton_domain::time::Millis;

use crate::cast::{
    abandon, block, capability, capable, complete, contracted, fail, hold, lost, move_to,
    principal, reason, solo, stage, started, stopped, story, wanting, worker, world,
};
use crate::history::in_every_history;
use crate::world::World;

fn ask(world: &World, id: TaskId, staff: &[Claimant]) -> Vec<Explained> {
    let outlook = Outlook {
        flow: world.flow(id),
        lease: world.leases.get(&id),
        project: &world.project,
        pools: &world.pools,
        amnesty: world.amnesty,
        staff,
    };
    explain(&outlook, world.now)
}

fn codes(world: &World, id: TaskId) -> Vec<&'static str> {
    let all = ask(world, id, &[solo(), wanting(Wants::Submitted, worker())]);
    all.iter().map(|it| it.hindrance.code()).collect()
}

fn first(world: &World, id: TaskId) -> Explained {
    ask(world, id, &[solo()]).into_iter().next().expect("there is a reason")
}

fn shut(world: &mut World, pool: PoolName) {
    let until = Some(world.now + Millis::hours(1));
    let shut = Some(Shut { reason: reason(), since: world.now, until });
    world.pools.insert(pool, Pool { shut, ..Pool::default() });
}

fn full(world: &mut World, pool: PoolName) {
    let used = world.pools.get(&pool).map_or(0, |pool| pool.used);
    world.pools.insert(pool, Pool { limit: Some(0), used, ..Pool::default() });
}

#[test]
fn what_is_over_says_so_and_nothing_else() {
    let mut world = world();
    let id = world.made(NewTask { draft: true, ..story() });
    world.person(id, abandon()).expect("a person may");
    assert_eq!(codes(&world, id), ["ended"]);
    assert_eq!(first(&world, id).since, Some(world.now));
    world.person(id, Person::Archive).expect("it has ended");
    assert_eq!(codes(&world, id), ["archived"]);
}

#[test]
fn everything_that_stops_a_task_is_named_in_the_order_of_a_claim() {
    let mut world = world();
    let (open, gone) = (world.made(story()), world.made(story()));
    let depends_on = BTreeSet::from([open, gone]);
    let id = world.made(NewTask { depends_on, needs_approval: true, ..started() });
    world.person(gone, abandon()).expect("a person may");
    world.settle();
    for which in [Hold::Frozen, Hold::Review] {
        world.person(id, hold(which, true)).expect("a person may");
    }
    shut(&mut world, PoolName::Scheduler);
    let expected = [
        "awaiting_approval",
        "frozen",
        "review_hold",
        "dependency_failed",
        "dependency_open",
        "paused",
    ];
    assert_eq!(codes(&world, id), expected);
    let next: Vec<_> = ask(&world, id, &[solo()]).into_iter().filter_map(|it| it.next).collect();
    let cures = [
        Remedy::Approve,
        Remedy::Unhold { hold: Hold::Frozen },
        Remedy::Unhold { hold: Hold::Review },
        Remedy::Undepend { on: gone },
        Remedy::Show { task: open },
        Remedy::Resume { pool: PoolName::Scheduler },
    ];
    assert_eq!(next, cures);
    let draft = world.made(NewTask { draft: true, ..story() });
    assert_eq!(codes(&world, draft), ["draft", "backlog"]);
}

#[test]
fn a_task_without_a_run_says_what_became_of_it() {
    let mut world = world();
    let backlog = world.made(story());
    assert_eq!(codes(&world, backlog), ["backlog"]);
    assert_eq!(first(&world, backlog).next, Some(Remedy::Move { to: stage("coding") }));
    let cancelled = world.made(started());
    world.person(cancelled, Person::Cancel(reason())).expect("a person may");
    assert_eq!(codes(&world, cancelled), ["cancelled"]);
    let last = world.tasks.get_mut(&cancelled).and_then(|task| task.flow.last.as_mut());
    last.expect("it has a run behind it").silent_end = true;
    assert_eq!(codes(&world, cancelled), ["ended_without_result"]);
    let policy = Policy { attempts_max: 1, ..Policy::default() };
    let failed = world.at_work(NewTask { policy, ..started() }, Mode::Solo);
    world.conclude(failed, fail());
    assert_eq!(codes(&world, failed), ["failed"]);
    assert_eq!(first(&world, failed).next, Some(Remedy::Retry));
    let on = world.made(story());
    let depends_on = BTreeSet::from([on]);
    let promoted = world.made(NewTask { depends_on, ..story() });
    assert_eq!(codes(&world, promoted), ["dependency_open"], "it starts by itself");
}

#[test]
fn an_epic_waits_for_its_children_or_for_a_person() {
    let mut world = world();
    let epic = world.made(NewTask { kind: Kind::Epic, ..story() });
    let child = world.made(NewTask { parent: Some(epic), ..started() });
    assert_eq!(codes(&world, epic), ["children_open"]);
    world.person(child, abandon()).expect("a person may");
    world.settle();
    assert_eq!(codes(&world, epic), ["children_undone"]);
    assert_eq!(first(&world, epic).next, Some(Remedy::Close));
}

#[test]
fn a_parked_run_says_what_would_unpark_it() {
    let needs = capability("gpu");
    let mut world = world();
    let on = world.made(story());
    let until = world.now + Millis::hours(1);
    for (why, next) in [
        (Why::NeedsInput, Remedy::Answer),
        (Why::Capability { needs: needs.clone() }, Remedy::PickUp { needs }),
        (Why::Transient { until }, Remedy::Unblock),
        (Why::Dependency { on }, Remedy::Show { task: on }),
    ] {
        let id = world.at_work(started(), Mode::Solo);
        world.conclude(id, block(why.clone()));
        let all = ask(&world, id, &[solo()]);
        let parked =
            all.iter().find(|it| it.hindrance == Hindrance::Blocked { block: why.clone() });
        let parked = parked.expect("it is parked");
        assert_eq!((parked.since, parked.next.as_ref()), (Some(world.now), Some(&next)));
    }
    let policy = Policy { losses_max: 1, ..Policy::default() };
    let id = world.at_work(NewTask { policy, ..started() }, Mode::Solo);
    world.supervisor(id, lost()).expect("it is held");
    assert_eq!(codes(&world, id), ["blocked"]);
    assert_eq!(first(&world, id).next, Some(Remedy::RaiseCap { cap: Cap::Losses }));
}

#[test]
fn a_block_that_came_back_too_often_needs_a_person() {
    let mut world = world();
    let id = world.made(started());
    for _ in 0..3 {
        world.take_up(id, Mode::Solo);
        world.conclude(id, block(Why::NeedsInput));
        if codes(&world, id) == ["blocked"] {
            world.person(id, Person::Unblock(reason())).expect("a person may");
        }
    }
    assert_eq!(codes(&world, id), ["blocked", "recurring"]);
}

#[test]
fn a_spent_budget_is_named_with_the_block_that_it_caused() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let pool = PoolName::Budget(id);
    world.pools.insert(pool.clone(), Pool { limit: Some(5), ..Pool::default() });
    world.supervisor(id, Supervisor::Spend { total_micros: 9 }).expect("it is held");
    let all = ask(&world, id, &[solo()]);
    let next: Vec<_> = all.into_iter().filter_map(|it| it.next).collect();
    assert_eq!(next, [Remedy::Unblock, Remedy::RaiseLimit { pool }]);
}

#[test]
fn what_is_in_somebodys_hands_says_whose_and_until_when() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    assert_eq!(codes(&world, id), ["held"]);
    let Hindrance::Held { holder, until, .. } = first(&world, id).hindrance else {
        panic!("it is held");
    };
    assert_eq!((holder, until), (principal("solo"), Some(world.lease(id).expires_at)));
    world.agent(id, baton_domain::command::Agent::Ask(crate::cast::message())).expect("it asks");
    assert_eq!(codes(&world, id), ["waiting_for_input", "held"]);
    assert_eq!(first(&world, id).next, Some(Remedy::Answer));
    let silent = world.at_work(started(), Mode::Solo);
    world.now = world.now + SILENT_AFTER;
    assert_eq!(codes(&world, silent), ["silent", "held"]);
    let stopping = world.at_work(started(), Mode::Supervised);
    world.agent(stopping, complete()).expect("it is held");
    assert_eq!(codes(&world, stopping), ["stopping", "held"]);
    world.supervisor(stopping, stopped(Death::None, true)).expect("it is held");
    assert_eq!(codes(&world, stopping), ["stop_unverified", "held"]);
    let unproven = world.at_work(started(), Mode::Supervised);
    world.agent(unproven, fail()).expect("it is held");
    world.supervisor(unproven, stopped(Death::None, false)).expect("it is held");
    assert_eq!(codes(&world, unproven), ["delayed", "stop_unverified"]);
    let silent_end = Policy { continuations_max: 0, ..Policy::default() };
    let exited = world.at_work(NewTask { policy: silent_end, ..started() }, Mode::Solo);
    world.supervisor(exited, Supervisor::Exited).expect("it is held");
    assert_eq!(codes(&world, exited), ["blocked"]);
}

#[test]
fn every_pool_that_keeps_a_run_waiting_is_named() {
    let mut world = world();
    let key = ConcurrencyKey::new("database").expect("the tests write proper names");
    let parent = world.made(NewTask { kind: Kind::Epic, ..story() });
    let keyed = NewTask { key: Some(key.clone()), parent: Some(parent), ..started() };
    let id = world.made(keyed);
    let project = world.project.id.clone();
    for pool in [
        PoolName::Scheduler,
        PoolName::Project(project.clone()),
        PoolName::Tree(parent),
        PoolName::Tree(id),
        PoolName::Stage(project.clone(), stage("coding")),
    ] {
        shut(&mut world, pool.clone());
        let until = Some(world.now + Millis::hours(1));
        let paused = Hindrance::Paused { pool: pool.clone(), until };
        let next = Some(Remedy::Resume { pool });
        let expected = Explained { hindrance: paused, since: Some(world.now), next };
        assert_eq!(ask(&world, id, &[solo()]), [expected]);
        world.pools.clear();
    }
    for pool in [
        PoolName::Stage(project.clone(), stage("coding")),
        PoolName::Key(project.clone(), key),
        PoolName::Budget(parent),
        PoolName::Budget(id),
        PoolName::ProjectBudget(project.clone()),
        PoolName::ProjectDayBudget(project),
        PoolName::DayBudget,
        PoolName::Holder(principal("solo")),
    ] {
        full(&mut world, pool.clone());
        let next = Some(Remedy::RaiseLimit { pool: pool.clone() });
        let expected =
            Explained { hindrance: Hindrance::PoolFull { pool, until: None }, since: None, next };
        assert_eq!(ask(&world, id, &[solo()]), [expected]);
        world.pools.clear();
    }
    let account = Account::new("acme").expect("the tests write proper names");
    full(&mut world, PoolName::Account(account.clone()));
    let by_account = Claimant { account: Some(account), ..solo() };
    let told = |staff: &[Claimant]| {
        ask(&world, id, staff).iter().map(|it| it.hindrance.code()).collect::<Vec<_>>()
    };
    assert_eq!(told(std::slice::from_ref(&by_account)), ["pool_full"]);
    assert_eq!(told(&[by_account, solo()]), ["queued"], "somebody else has room");
    let role = capability("claude");
    full(&mut world, PoolName::Role(role.clone()));
    let agents = vec![Offer { role, capabilities: BTreeSet::new() }];
    let by_role = Claimant { agents, ..solo() };
    let told = ask(&world, id, std::slice::from_ref(&by_role));
    let pool = PoolName::Role(capability("claude"));
    assert_eq!(told[0].next, Some(Remedy::RaiseLimit { pool }));
}

#[test]
fn who_is_missing_is_named() {
    let mut world = world();
    let needs = BTreeSet::from([capability("gpu"), capability("rust")]);
    let hard = world.made(NewTask { capabilities: needs.clone(), ..started() });
    let gpu = BTreeSet::from([capability("rust")]);
    let all = ask(&world, hard, &[solo(), capable()]);
    assert_eq!(all[0].hindrance, Hindrance::CapabilityMissing { needs: gpu.clone() });
    assert_eq!(all[0].next, Some(Remedy::StartWorker { capabilities: needs.clone() }));
    let rusty = Claimant { capabilities: gpu, ..solo() };
    let all = ask(&world, hard, &[rusty, capable()]);
    assert_eq!(all[0].hindrance, Hindrance::CapabilityMissing { needs }, "nobody has both");
    let assignee = Some(principal("bob"));
    let assigned = world.made(NewTask { assignee, ..started() });
    assert_eq!(codes(&world, assigned), ["assignee_absent"]);
    assert_eq!(first(&world, assigned).next, Some(Remedy::ClearAssignee));
    let plain = world.made(started());
    assert_eq!(ask(&world, plain, &[])[0].hindrance, Hindrance::NoWorker);
    let elsewhere = Claimant { stage: Some(stage("qa")), ..solo() };
    assert_eq!(ask(&world, plain, &[elsewhere])[0].hindrance, Hindrance::NoWorker);
    assert_eq!(codes(&world, plain), ["queued"]);
    let submitted = world.at_work(contracted(), Mode::Solo);
    world.conclude(submitted, complete());
    assert_eq!(first(&world, submitted).hindrance, Hindrance::NoVerifier);
    assert_eq!(codes(&world, submitted), ["queued"], "a verifier is there");
    world.project.pipeline[1].worked_by = WorkedBy::Person;
    let by_hand = world.made(story());
    world.person(by_hand, move_to("qa")).expect("a person may");
    assert_eq!(codes(&world, by_hand), ["person_stage"]);
}

#[test]
fn a_run_that_queues_or_waits_too_long_says_so() {
    let mut world = world();
    let id = world.made(started());
    world.wait(Millis::hours(2));
    world.pass(id);
    assert_eq!(codes(&world, id), ["starving"]);
    let start_at = Some(world.now + Millis::hours(1));
    let later = world.made(NewTask { start_at, ..started() });
    assert_eq!(codes(&world, later), ["delayed"]);
    assert_eq!(first(&world, later).next, Some(Remedy::Retry));
}

#[test]
fn a_code_is_what_is_written() {
    in_every_history(|| {
        |world, turn| {
            if !world.tasks.contains_key(&turn.id) {
                return;
            }
            for told in ask(world, turn.id, &[solo()]) {
                let written = serde_json::to_value(&told).expect("it is text");
                assert_eq!(written["code"], told.hindrance.code());
                let read: Explained = serde_json::from_value(written).expect("it is read back");
                assert_eq!(read, told);
            }
        }
    });
}

/// Whoever may claim now is not told that it may not, and the other way round.
#[test]
fn an_explanation_agrees_with_the_rules() {
    in_every_history(|| {
        |world, turn| {
            if !world.tasks.contains_key(&turn.id) {
                return;
            }
            let told = ask(world, turn.id, &[solo()]);
            assert!(!told.is_empty() || world.flow(turn.id).owed.is_some(), "{}", turn.id);
            let free = |it: &Explained| {
                matches!(
                    it.hindrance,
                    Hindrance::Queued | Hindrance::Starving | Hindrance::StopUnverified { .. }
                )
            };
            let claimed = world.ask(turn.id, &crate::cast::claim(solo(), 9));
            let queued = world.flow(turn.id).run.as_ref().is_some_and(|run| run.word() == "queued");
            assert_eq!(queued && told.iter().all(free), claimed.is_ok(), "{told:?} {claimed:?}");
        }
    });
}

#[test]
fn accounts_are_exhausted_once_everybody_who_asks_would_use_one_that_is_shut() {
    let mut world = world();
    let account = |name: &str| Account::new(name).expect("the tests write proper names");
    let by = |name: &str| Claimant { account: Some(account(name)), ..solo() };
    let staff = [by("acme"), by("bolt")];
    let told = |world: &World, staff: &[Claimant]| exhausted(staff, &world.pools, world.now);
    assert_eq!(told(&world, &staff), None, "nothing is shut");
    shut(&mut world, PoolName::Account(account("acme")));
    assert_eq!(told(&world, &staff), None, "the other is open");
    shut(&mut world, PoolName::Account(account("bolt")));
    let later = Some(world.now + Millis::hours(2));
    let pool = world.pools.get_mut(&PoolName::Account(account("bolt"))).expect("it is shut");
    pool.shut.as_mut().expect("it is shut").until = later;
    let accounts = [account("acme"), account("bolt")].into();
    let until = Some(world.now + Millis::hours(1));
    assert_eq!(told(&world, &staff), Some(Exhausted { accounts, until }), "the first to open");
    assert_eq!(told(&world, &[by("acme"), solo()]), None, "somebody needs no account");
    assert_eq!(told(&world, &[]), None, "nobody asks");
    world.now = world.now + Millis::hours(1);
    assert_eq!(told(&world, &staff), None, "the first is open again");
}
