//! What holds in every history, whoever says what and whenever.

use std::collections::BTreeMap;

use baton_domain::command::{Command, Proof, Supervisor, Time};
use baton_domain::event::Event;
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::pool::{PoolMove, PoolName};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Held, Idle, RunState, Why};
use baton_domain::scene::{Decision, Lease};
use baton_domain::task::{Ending, Flow, Hold, Task, Wait};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cast::hold;
use crate::history::{Turn, after_every_history, converge, in_every_history};
use crate::world::World;

/// The proof that a holder brought along, if a holder spoke.
fn proof(command: &Command) -> Option<&Proof> {
    match command {
        Command::Agent(proof, _) | Command::Supervisor(proof, _) | Command::Verifier(proof, _) => {
            Some(proof)
        }
        Command::Create(_)
        | Command::Claim(_)
        | Command::Expect(_)
        | Command::Person(_)
        | Command::Time(_) => None,
    }
}

fn holds(proof: &Proof, lease: Option<&Lease>, world: &World) -> bool {
    lease.is_some_and(|lease| {
        let named = match proof {
            Proof::Token { attempt, nonce } => *attempt == lease.attempt && *nonce == lease.nonce,
            Proof::Caller { attempt, principal } => {
                *attempt == lease.attempt && *principal == lease.holder
            }
        };
        named && world.now < lease.ends_at(world.amnesty)
    })
}

/// Between the end of a lease and the sweep, its supervisor may still prove and settle.
fn is_last_word(turn: &Turn) -> bool {
    let Command::Supervisor(Proof::Token { attempt, nonce }, says) = turn.command else {
        return false;
    };
    let own = turn.lease.as_ref().is_some_and(|it| (it.attempt, it.nonce) == (*attempt, *nonce));
    let last = |says: &Supervisor| {
        use Supervisor::{Heard, Spend, Stopped};
        matches!(says, Heard { .. } | Stopped { .. } | Spend { .. })
    };
    own && last(says)
}

#[test]
fn a_stale_lease_is_always_refused_and_changes_nothing_of_the_run() {
    in_every_history(|| {
        |world, turn| {
            let Some(proof) = proof(turn.command) else { return };
            if holds(proof, turn.lease.as_ref(), world) || is_last_word(turn) {
                return;
            }
            match (&turn.answer, turn.command) {
                (Err(Refusal::Invalid { field, .. }), _) => assert_eq!(field, "micros"),
                (Err(refusal), _) => assert_eq!(*refusal, Refusal::LeaseLost),
                (
                    Ok(decision),
                    Command::Supervisor(
                        Proof::Token { .. },
                        Supervisor::Heard { .. }
                        | Supervisor::Snapshot(_)
                        | Supervisor::Stopped { .. }
                        | Supervisor::Spend { .. },
                    ),
                ) => {
                    let before = &turn.task.as_ref().expect("it was made").flow;
                    let after = world.flow(turn.id);
                    assert_eq!((&before.run, &before.last), (&after.run, &after.last));
                    assert_eq!((&before.stage, &before.owed), (&after.stage, &after.owed));
                    assert_eq!(world.leases.get(&turn.id), turn.lease.as_ref());
                    let returned = |change: &PoolMove| match change {
                        PoolMove::Take(_) => false,
                        PoolMove::Return { take, .. } => take.amount == 0,
                    };
                    assert!(decision.lease.is_none() && decision.reactions.is_empty());
                    assert!(decision.pools.iter().all(returned), "spend is settled, no more");
                }
                (Ok(decision), command) => panic!("{command:?} was let through: {decision:?}"),
            }
        }
    });
}

#[test]
fn the_same_question_always_gets_the_same_answer() {
    in_every_history(|| |_, turn| assert_eq!(turn.answer, turn.again));
}

#[test]
fn an_ended_task_hears_nothing_but_archive_and_late_proofs() {
    in_every_history(|| {
        |world, turn| {
            let Some(before) = turn.task.as_ref().filter(|task| task.flow.ending().is_some())
            else {
                return;
            };
            let decision = match &turn.answer {
                Err(refusal) => {
                    assert!(matches!(refusal, Refusal::Ended | Refusal::LeaseLost), "{refusal}");
                    return;
                }
                Ok(decision) => decision,
            };
            let late =
                |event: &Event| matches!(event, Event::DeathProved { .. } | Event::Spent { .. });
            let put_away = decision.events == [Event::Archived];
            assert!(put_away || decision.events.iter().all(late), "{:?}", turn.command);
            let now = world.flow(turn.id);
            let unchanged = Flow {
                version: now.version,
                unproven: now.unproven.clone(),
                stage: if put_away { now.stage.clone() } else { before.flow.stage.clone() },
                ..before.flow.clone()
            };
            assert_eq!(*now, unchanged);
            assert_eq!(now.ending(), before.flow.ending());
        }
    });
}

#[test]
fn history_rows_are_written_once_in_order() {
    after_every_history(|world| {
        for (id, rows) in &world.records {
            let (mut attempts, mut runs, mut checkpoints) = (vec![], vec![], vec![]);
            for row in rows {
                match row {
                    Past::Attempt(row) => attempts.push(row.number),
                    Past::Run(row) => runs.push(row.number),
                    Past::Checkpoint(row) => checkpoints.push(row.number),
                }
                there_and_back(row);
            }
            let flow = world.flow(*id);
            let live = u32::from(world.leases.contains_key(id));
            let counted = |upto: u32| (1..=upto).collect::<Vec<_>>();
            assert_eq!(attempts, counted(flow.attempts - live), "{id}");
            assert_eq!(checkpoints, counted(flow.checkpoints), "{id}");
            assert_eq!(runs, counted(flow.runs - u32::from(flow.run.is_some())), "{id}");
            let last = rows.iter().rev().find_map(|row| match row {
                Past::Run(row) => Some((row.number, row.finish.clone(), row.result)),
                Past::Attempt(_) | Past::Checkpoint(_) => None,
            });
            let kept = flow.last.clone().map(|last| (last.number, last.finish, last.result));
            assert_eq!(kept, last, "{id}");
        }
    });
}

/// What is written can be read, and reads as what was written.
fn there_and_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> T {
    let json = serde_json::to_string(value).expect("it can be written");
    let read = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(*value, read, "{json}");
    read
}

#[test]
fn replaying_the_events_from_birth_rebuilds_the_row() {
    in_every_history(|| {
        let mut shadows: BTreeMap<TaskId, Task> = BTreeMap::new();
        move |world, turn| {
            let Ok(decision) = &turn.answer else { return };
            for (place, event) in decision.events.iter().enumerate() {
                let event: Event = there_and_back(event);
                match shadows.get_mut(&turn.id) {
                    None => {
                        let born = Task::born(&event, world.now).expect("a birth comes first");
                        shadows.insert(turn.id, born);
                    }
                    Some(shadow) => {
                        if place == 0 {
                            shadow.turn();
                        }
                        shadow.apply(&event, world.now);
                    }
                }
            }
            if let Some(task) = world.tasks.get(&turn.id) {
                assert_eq!(shadows.get(&turn.id), Some(task));
                there_and_back(&task.flow);
                there_and_back(&task.brief);
            }
            if let Some(lease) = world.leases.get(&turn.id) {
                there_and_back(lease);
            }
            decision.reactions.iter().for_each(|reaction| {
                there_and_back(reaction);
            });
        }
    });
}

#[test]
fn a_history_read_from_its_beginning_ends_where_the_task_stands() {
    after_every_history(|world| {
        for (id, entries) in &world.entries {
            let (first, rest) = entries.split_first().expect("it was made");
            let (birth, others) = first.events.split_first().expect("an entry has events");
            let mut task = Task::born(birth, first.at).expect("a birth comes first");
            others.iter().for_each(|event| task.apply(event, first.at));
            for entry in rest {
                task.turn();
                entry.events.iter().for_each(|event| task.apply(event, entry.at));
            }
            assert_eq!(world.tasks.get(id), Some(&task));
        }
    });
}

#[test]
fn only_what_happened_makes_a_new_version() {
    in_every_history(|| {
        |world, turn| {
            let Some(before) = &turn.task else { return };
            let happened = turn.answer.as_ref().is_ok_and(|decision| !decision.events.is_empty());
            let after = world.tasks.get(&turn.id).expect("it was made");
            assert_eq!(after.flow.version, before.flow.version + u64::from(happened));
            if !happened {
                assert_eq!(before, after);
            }
        }
    });
}

#[test]
fn a_run_is_held_exactly_while_there_is_a_lease_for_its_attempt() {
    in_every_history(|| {
        let mut granted: BTreeMap<TaskId, u32> = BTreeMap::new();
        move |world, turn| {
            let Some(task) = world.tasks.get(&turn.id) else { return };
            let held = task.flow.run.as_ref().and_then(|run| run.held());
            let lease = world.leases.get(&turn.id);
            assert_eq!(
                held.map(|held| (held.attempt, &held.holder)),
                lease.map(|lease| (lease.attempt, &lease.holder)),
            );
            let claimed = turn.answer.as_ref().is_ok_and(|decision| {
                decision.events.iter().any(|event| matches!(event, Event::Claimed { .. }))
            });
            let last = granted.entry(turn.id).or_default();
            *last += u32::from(claimed);
            assert_eq!(task.flow.attempts, *last, "every attempt has its own number");
            assert!(held.is_none_or(|held| held.attempt == *last), "the last one holds");
        }
    });
}

#[test]
fn pools_hold_what_live_attempts_took_and_what_ended_ones_spent() {
    in_every_history(|| {
        let mut spent: BTreeMap<PoolName, u64> = BTreeMap::new();
        move |world, turn| {
            let Ok(decision) = &turn.answer else { return };
            count_spend(&mut spent, turn, decision);
            let mut taken: BTreeMap<PoolName, u64> = BTreeMap::new();
            let runs = world.tasks.values().filter_map(|task| task.flow.run.as_ref());
            for take in runs.filter_map(|run| run.held()).flat_map(|held| &held.takes) {
                *taken.entry(take.pool.clone()).or_default() += take.amount;
            }
            for (name, pool) in &world.pools {
                assert_eq!(pool.used, taken.get(name).copied().unwrap_or(0), "{name}");
                let over = spent.get(name).copied().unwrap_or(0) + beyond(world, name);
                match name.is_of_day() {
                    true => assert!(pool.settled <= over, "{name}"),
                    false => assert_eq!(pool.settled, over, "{name}"),
                }
                let limit = pool.limit.unwrap_or(u64::MAX);
                assert!(pool.used <= limit, "{name} is overdrawn");
            }
        }
    });
}

/// Adds what attempts spent that are over by now, and what was spent after they were.
fn count_spend(spent: &mut BTreeMap<PoolName, u64>, turn: &Turn<'_>, decision: &Decision) {
    let Some(task) = &turn.task else { return };
    let held = task.flow.run.as_ref().and_then(|run| run.held());
    let mut so_far = held.map_or(0, |held| held.spent_micros);
    for event in &decision.events {
        let mut over = 0;
        if let Event::AttemptEnded { .. } = event {
            over = so_far;
        }
        if let Event::Spent { attempt, micros } = event {
            match held.is_some_and(|held| held.attempt == *attempt) {
                true => so_far += *micros,
                false => over = *micros,
            }
        }
        for pool in task.flow.budgets() {
            *spent.entry(pool).or_default() += over;
        }
    }
}

/// What live attempts have spent of a budget beyond what they reserved of it.
fn beyond(world: &World, pool: &PoolName) -> u64 {
    let held = |flow: &Flow| flow.run.as_ref().and_then(|run| run.held()).cloned();
    let flows = world.tasks.values().map(|task| &task.flow);
    let paying = flows.filter(|flow| flow.budgets().any(|budget| budget == *pool));
    let over = |held: Held| {
        let takes = held.takes.iter().filter(|take| take.pool == *pool);
        held.spent_micros.saturating_sub(takes.map(|take| take.amount).sum())
    };
    paying.filter_map(held).map(over).sum()
}

#[test]
fn a_repeated_report_of_spend_changes_nothing() {
    in_every_history(|| {
        |world, turn| {
            let Command::Supervisor(_, Supervisor::Spend { .. }) = turn.command else { return };
            // What stopped the attempt ended its lease, too, so that it may be refused by now.
            if turn.answer.is_ok()
                && let Ok(again) = world.ask(turn.id, turn.command)
            {
                assert!(again.is_nothing(), "{again:?}");
            }
        }
    });
}

#[test]
fn time_does_something_exactly_when_something_is_due() {
    in_every_history(|| {
        |world, turn| {
            if *turn.command != Command::Time(Time::Pass) {
                return;
            }
            let due = turn.due_at.is_some_and(|due_at| due_at <= world.now);
            let decision = turn.answer.as_ref().expect("time is never refused");
            assert_eq!(due, !decision.is_nothing(), "{:?}", turn.due_at);
        }
    });
}

#[test]
fn a_converged_world_stays_as_it_is() {
    after_every_history(|mut world| {
        converge(&mut world);
        let (tasks, leases, pools) =
            (world.tasks.clone(), world.leases.clone(), world.pools.clone());
        assert!(!converge(&mut world), "a second pass found something to do");
        assert_eq!((tasks, leases, pools), (world.tasks, world.leases, world.pools));
    });
}

#[test]
fn hold_then_unhold_is_the_identity() {
    in_every_history(|| {
        let mut turns = 0;
        move |world, turn| {
            turns += 1;
            if turns % 4 != 0 || !world.tasks.contains_key(&turn.id) {
                return;
            }
            for which in [Hold::Frozen, Hold::Review] {
                let before = world.flow(turn.id);
                if before.holds.has(which) || before.ending().is_some() {
                    continue;
                }
                let mut twin = world.twin();
                twin.person(turn.id, hold(which, true)).expect("a person may hold anything");
                assert!(twin.flow(turn.id).lanes().is_empty(), "a held task is in no lane");
                twin.person(turn.id, hold(which, false)).expect("a person may lift a hold");
                let after = Flow { version: before.version, ..twin.flow(turn.id).clone() };
                assert_eq!(*before, after);
                assert_eq!(world.leases, twin.leases);
            }
        }
    });
}

#[test]
fn only_a_person_unparks_what_came_back_too_often() {
    in_every_history(|| {
        |world, turn| {
            let before = turn.task.as_ref().and_then(|task| task.flow.run.as_ref());
            let Some(RunState::Idle(Idle::Blocked(block))) = before.map(|run| &run.state) else {
                return;
            };
            let for_a_person = block.sticky || matches!(block.why, Why::Limit { .. });
            let run = world.flow(turn.id).run.as_ref();
            if !for_a_person || run.map(|run| &run.state) == before.map(|run| &run.state) {
                return;
            }
            let by_person = match turn.command {
                Command::Person(_) => true,
                Command::Claim(claim) => claim.claimant.person,
                Command::Create(_)
                | Command::Agent(..)
                | Command::Supervisor(..)
                | Command::Expect(_)
                | Command::Verifier(..)
                | Command::Time(_) => false,
            };
            assert!(by_person, "{:?} unparked it", turn.command);
        }
    });
}

#[test]
fn a_task_waits_for_exactly_what_it_declared_and_what_is_not_done() {
    after_every_history(|mut world| {
        world.settle();
        for (id, declared) in &world.edges {
            let flow = world.flow(*id);
            if flow.ending().is_some() {
                continue;
            }
            let open = declared.iter().filter_map(|on| match world.flow(*on).ending() {
                None => Some((*on, Wait::Open)),
                Some(Ending::Done { .. }) => None,
                Some(_) => Some((*on, Wait::Failed)),
            });
            assert_eq!(flow.waits_for, open.collect(), "{id}");
            assert_eq!(usize::from(flow.dependencies), declared.len(), "{id}");
        }
    });
}
