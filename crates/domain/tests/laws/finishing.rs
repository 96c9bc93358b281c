//! From wherever a task is, there is a short way to its end.

use baton_domain::command::{Clear, Command, Patch, Person, Supervisor, Verdict};
use baton_domain::contract::Receipt;
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Wants};
use baton_domain::pool::PoolName;
use baton_domain::refusal::Refusal;
use baton_domain::run::{Idle, Phase, Purpose, RunState};
use baton_domain::task::{Ending, Impediment, Kind, Owed, Stage};
use baton_domain::time::Millis;

use crate::cast::{
    abandon, capable, complete, hold, principal, proved, reason, receipt, review, stage, waiver,
    wanting,
};
use crate::history::{after_every_history, converge};
use crate::world::World;

/// Commands that the longest way to `done` may take.
const STEPS_MAX: usize = 40;

fn unended(world: &World) -> Vec<TaskId> {
    let open = world.tasks.iter().filter(|(_, task)| task.flow.ending().is_none());
    open.map(|(id, _)| *id).collect()
}

#[test]
fn every_task_can_be_closed_with_one_word_and_the_end_of_its_lease() {
    after_every_history(|mut world| {
        for id in unended(&world) {
            world.person(id, abandon()).expect("a person may close anything");
            if world.leases.contains_key(&id) {
                assert_eq!(world.word(id), "stopping");
                world.wait(Millis::hours(25));
                assert_eq!(world.pass(id), 1);
            }
            assert!(world.flow(id).ending().is_some(), "{id} is {}", world.word(id));
            assert!(!world.leases.contains_key(&id));
        }
    });
}

#[test]
fn every_task_that_is_held_can_be_closed_with_the_proof_of_a_death() {
    after_every_history(|mut world| {
        converge(&mut world);
        for id in unended(&world) {
            world.person(id, abandon()).expect("a person may close anything");
            if world.leases.contains_key(&id) {
                world.supervisor(id, proved()).expect("the lease lives");
            }
            assert!(world.flow(id).ending().is_some(), "{id} is {}", world.word(id));
        }
    });
}

#[test]
fn every_task_can_still_be_done() {
    after_every_history(|mut world| {
        converge(&mut world);
        world.pools.retain(|name, _| !matches!(name, PoolName::Budget(_)));
        for id in unended(&world) {
            let closing = matches!(world.flow(id).owed, Some(Owed::Close(_)));
            if closing || world.flow(id).kind == Kind::Epic {
                continue;
            }
            let mut steps = 0;
            while world.flow(id).ending().is_none() {
                step_on(&mut world, id).unwrap_or_else(|refusal| panic!("{id}: {refusal}"));
                steps += 1;
                assert!(steps <= STEPS_MAX, "{id} is still {}", world.word(id));
            }
            assert!(matches!(world.flow(id).ending(), Some(Ending::Done { .. })));
        }
    });
}

/// Takes the next step of the shortest way to `done`.
fn step_on(world: &mut World, id: TaskId) -> Result<(), Refusal> {
    let flow = world.flow(id).clone();
    let Some(run) = &flow.run else { return begin(world, id) };
    let held = match &run.state {
        RunState::Held(held) => held,
        RunState::Idle(idle) => {
            if let Some(stops) = flow.impediment() {
                return lift(world, id, stops);
            }
            return match idle {
                // Whoever finishes can do everything, but only what is for everybody.
                Idle::Queued if flow.assignee.is_some() => {
                    let patch = Patch { clear: [Clear::Assignee].into(), ..Patch::default() };
                    world.person(id, Person::Edit(Box::new(patch))).map(drop)
                }
                Idle::Queued => world.claim(id, finisher(Wants::Ready)).map(drop),
                Idle::Delayed { .. } => world.person(id, Person::Retry(reason())).map(drop),
                Idle::Blocked(_) => world.person(id, Person::Unblock(reason())).map(drop),
                Idle::Submitted(mark) if mark.review => world.person(id, review(true)).map(drop),
                Idle::Submitted(mark) if !mark.tree => waive(world, id),
                Idle::Submitted(_) => world.claim(id, finisher(Wants::Submitted)).map(drop),
            };
        }
    };
    let met = Supervisor::Probed { met: true };
    match &held.phase {
        Phase::Verifying { .. } => verified(world, id),
        Phase::Stopping { .. } => world.supervisor(id, proved()).map(drop),
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => {
            if held.purpose == Purpose::Probe {
                return world.supervisor(id, met).map(drop);
            }
            world.agent(id, complete()).map(drop)
        }
    }
}

/// Everything that is asked for holds.
fn verified(world: &mut World, id: TaskId) -> Result<(), Refusal> {
    let lines = world.tasks[&id].brief.iter().flat_map(|brief| brief.contract.lines.keys());
    let all = lines.map(|line| Receipt { line: line.clone(), ..receipt(true, world.now) });
    let verdict = Verdict { receipts: all.collect(), ..Verdict::default() };
    world.tell(id, &Command::Verifier(world.proof(id), verdict)).map(drop)
}

/// A person vouches for everything.
fn waive(world: &mut World, id: TaskId) -> Result<(), Refusal> {
    let lines = world.tasks[&id].brief.iter().flat_map(|brief| brief.contract.lines.keys());
    let all = lines.map(|line| Receipt { line: line.clone(), ..waiver() }).collect();
    world.person(id, Person::Waive(all)).map(drop)
}

fn finisher(wants: Wants) -> Claimant {
    Claimant { principal: principal("finisher"), ..wanting(wants, capable()) }
}

fn begin(world: &mut World, id: TaskId) -> Result<(), Refusal> {
    let flow = world.flow(id).clone();
    if let Some(stops) = flow.impediment() {
        return lift(world, id, stops);
    }
    let move_to = |name| Person::Move { to: Some(stage(name)), start_at: None };
    match world.person(id, Person::Retry(reason())) {
        Ok(_) => Ok(()),
        // As often retried as may be, or passed, or never begun.
        Err(Refusal::LineageTooLong | Refusal::NoRun) => {
            let next = if flow.stage == Stage::Working(stage("qa")) { "coding" } else { "qa" };
            world.person(id, move_to(next)).map(drop)
        }
        Err(refusal) => Err(refusal),
    }
}

fn lift(world: &mut World, id: TaskId, stops: Impediment) -> Result<(), Refusal> {
    let says = match stops {
        Impediment::Draft => Person::Publish,
        Impediment::Approval => Person::Approve,
        Impediment::Held(which) => hold(which, false),
        Impediment::Dependency(on) => Person::Depend { on, wait: false },
    };
    world.person(id, says).map(drop)
}
