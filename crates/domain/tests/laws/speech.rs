//! What is said next in a random history: half of it is what fits the state, the rest is anything.

use baton_domain::command::{Agent, Clear, Command, Patch, Person, Proof, Supervisor, Time};
use baton_domain::contract::{Contract, Submission};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::{Nonce, StageName, TaskId};
use baton_domain::lane::Wants;
use baton_domain::policy::Policy;
use baton_domain::reaction::{Cause, Reaction};
use baton_domain::run::{Cap, Death, Idle, Mark, Mode, Phase, RunState, Why};
use baton_domain::task::{Ending, Hold, Impediment, Priority};
use baton_domain::time::Millis;

use crate::cast::{
    abandon, binding, block, block_with_condition, capability, capable, claim, code, complete,
    digest, fail, guarded, hold, holder, lost, message, note, one_gate, pass, person, progress,
    proved, reason, release, review, snapshot, solo, stage, stopped, text, verdict, waiver,
    wanting, worker,
};
use crate::history::{Step, proof};
use crate::world::World;

/// What is said next, and of which task.
pub fn next(world: &mut World, id: TaskId, step: &Step) -> (TaskId, Command) {
    if step.speaker.is_multiple_of(2)
        && let Some(reaction) = world.reactions.pop_front()
    {
        return (reaction.to, Command::Time(Time::React(reaction)));
    }
    // A holder that is none is heard often enough.
    let idle = !world.leases.contains_key(&id) && step.proof > 3;
    let command = match step.speaker {
        0..=13 => fitting(world, id, step),
        17..=24 if idle => fitting(world, id, step),
        14..=16 => claims(world, id, step.what),
        17..=20 => Command::Agent(proof(world, id, step.proof), agent(world, id, step.what)),
        21..=23 => Command::Supervisor(proof(world, id, step.proof), supervisor(world, step.what)),
        24 => verifies(world, id, step),
        25..=27 => Command::Person(says(world, id, step.what)),
        28..=29 => pass(),
        _ => Command::Time(Time::React(echo(world, id, step.what))),
    };
    (id, command)
}

/// Something that brings the task on from where it is.
fn fitting(world: &World, id: TaskId, step: &Step) -> Command {
    let flow = world.flow(id);
    let speaks = |says| Command::Agent(proof(world, id, 15), says);
    let reports = |says| Command::Supervisor(proof(world, id, 15), says);
    if world.due_at(id).is_some_and(|due_at| due_at <= world.now) {
        return pass();
    }
    if let Some(attempt) = flow.unproven.first().filter(|_| step.what.is_multiple_of(8)) {
        let late = Proof::Token { attempt: *attempt, nonce: Nonce(0) };
        return Command::Supervisor(late, proved());
    }
    let unheld = flow.run.as_ref().is_none_or(|run| run.held().is_none());
    if let Some(stops) = flow.impediment().filter(|_| unheld && !step.what.is_multiple_of(8)) {
        return Command::Person(match stops {
            Impediment::Draft => Person::Publish,
            Impediment::Approval => Person::Approve,
            Impediment::Held(which) => hold(which, false),
            Impediment::Dependency(on) => Person::Depend { on, wait: false },
        });
    }
    let Some(run) = &flow.run else {
        return Command::Person(match step.what % 4 {
            0 if flow.last.is_some() => Person::Retry(reason()),
            _ => Person::Move { to: Some(a_stage(step.what)), start_at: None },
        });
    };
    match &run.state {
        RunState::Idle(Idle::Queued) => claims(world, id, step.what % 4),
        RunState::Idle(Idle::Submitted(mark)) if mark.review => {
            Command::Person(review(step.what.is_multiple_of(2)))
        }
        RunState::Idle(Idle::Submitted(mark)) if !mark.tree => {
            Command::Person(Person::Waive(vec![waiver()]))
        }
        RunState::Idle(Idle::Submitted(_)) => {
            claim(wanting(Wants::Submitted, worker()), nonce(world, id))
        }
        RunState::Idle(Idle::Delayed { .. }) => pass(),
        RunState::Idle(Idle::Blocked(block)) => match step.what % 4 {
            0 => Command::Person(Person::Unblock(reason())),
            1 => Command::Person(Person::Answer(message())),
            _ if block.condition => claim(wanting(Wants::Probe, worker()), nonce(world, id)),
            2 => claim(wanting(Wants::Blocked, capable()), nonce(world, id)),
            _ => claim(wanting(Wants::Blocked, person()), nonce(world, id)),
        },
        RunState::Held(held) => match &held.phase {
            Phase::Leased if step.what.is_multiple_of(8) => reports(binding()),
            Phase::Leased | Phase::Working => match step.what % 8 {
                0..=2 => speaks(complete()),
                3 => speaks(Agent::Ask(message())),
                4 | 5 => speaks(agent(world, id, step.what / 8)),
                _ => reports(supervisor(world, step.what / 4)),
            },
            Phase::WaitingInput(_) => Command::Person(Person::Answer(message())),
            Phase::Verifying { exited: false } if step.what.is_multiple_of(3) => {
                reports(Supervisor::Exited)
            }
            Phase::Verifying { .. } => verifies(world, id, &Step { proof: 15, ..step.clone() }),
            Phase::Stopping { .. } => reports(match step.what % 4 {
                0 => stopped(Death::None, false),
                1 => stopped(Death::None, true),
                _ => proved(),
            }),
        },
    }
}

fn nonce(world: &World, id: TaskId) -> u128 {
    u128::from(world.flow(id).attempts) + 1_000
}

/// One of the tasks, mostly another one.
fn another(world: &World, id: TaskId, what: u8) -> TaskId {
    TaskId((id.0 + u64::from(what / 8)) % world.tasks.len() as u64 + 1)
}

fn a_stage(what: u8) -> StageName {
    stage(if what.is_multiple_of(2) { "coding" } else { "qa" })
}

fn claims(world: &World, id: TaskId, what: u8) -> Command {
    let claimant = match what % 12 {
        0 | 1 => solo(),
        2 | 3 => capable(),
        4 => worker(),
        5 => wanting(Wants::ReadyOrBlocked, person()),
        6 => wanting(Wants::ReadyOrBlocked, capable()),
        7 => wanting(Wants::Blocked, worker()),
        8 => wanting(Wants::Blocked, person()),
        9 => wanting(Wants::Probe, worker()),
        10 => wanting(Wants::Submitted, worker()),
        _ => wanting(Wants::Submitted, holder(Mode::Solo)),
    };
    claim(claimant, nonce(world, id))
}

fn agent(world: &World, id: TaskId, what: u8) -> Agent {
    let other = another(world, id, what);
    let until = world.now + Millis::minutes(u64::from(what));
    match what % 16 {
        0 | 1 => Agent::Begin,
        2 => progress(),
        3 => note(),
        4 => Agent::Ask(message()),
        5 => Agent::Receive(Mark::Applied),
        6 => block(Why::NeedsInput),
        7 => block_with_condition(Why::Capability { needs: capability("gpu") }),
        8 => block(Why::Transient { until }),
        9 => block(Why::Dependency { on: other }),
        10 | 11 => fail(),
        12 => Agent::Complete { summary: Some(text("done")), submission: Submission::default() },
        _ => complete(),
    }
}

fn supervisor(world: &World, what: u8) -> Supervisor {
    let until = Some(world.now + Millis::minutes(u64::from(what)));
    match what % 26 {
        0 => Supervisor::Renew { lease: None },
        1 => Supervisor::Renew { lease: Some(Millis::hours(24)) },
        2 => Supervisor::Report(Sight::ProcessStarted),
        3 => Supervisor::Report(Sight::FirstVisibleEvent),
        4 => Supervisor::Report(Sight::ToolStarted),
        5 | 6 => Supervisor::Spend { total_micros: u64::from(what) },
        7 => Supervisor::TimedOut(Deadline::StreamIdle),
        8 => Supervisor::TimedOut(Deadline::ProcessStart),
        9 => Supervisor::TimedOut(Deadline::UserInput),
        10 => Supervisor::Exited,
        11 => lost(),
        12 | 13 => proved(),
        14 => stopped(Death::None, false),
        15 => stopped(Death::None, true),
        16 => release(),
        17 => Supervisor::Release { reason: reason(), until },
        18 => Supervisor::Probed { met: true },
        19 => Supervisor::Report(Sight::Progressed),
        20 => Supervisor::Exceeded(Cap::Tokens),
        21 => Supervisor::Heard { seq: u64::from(what) / 24 },
        22 => snapshot(),
        23 => Supervisor::Probed { met: false },
        24 => binding(),
        _ => Supervisor::Unbound(reason()),
    }
}

fn verifies(world: &World, id: TaskId, step: &Step) -> Command {
    let found = match step.what % 8 {
        0 => guarded(world.now),
        other => verdict(other.is_multiple_of(2), world.now),
    };
    Command::Verifier(proof(world, id, step.proof), found)
}

fn says(world: &World, id: TaskId, what: u8) -> Person {
    let other = another(world, id, what);
    match what % 32 {
        0..=2 => Person::Unblock(reason()),
        3 | 4 => Person::Answer(message()),
        5 => Person::Publish,
        6 => Person::Approve,
        7 => Person::Move { to: Some(a_stage(what / 32)), start_at: None },
        8 => {
            let start_at = Some(world.now + Millis::hours(1));
            Person::Move { to: Some(a_stage(what / 32)), start_at }
        }
        9 => Person::Move { to: None, start_at: None },
        10 | 11 => hold(Hold::Frozen, true),
        12 | 13 => hold(Hold::Frozen, false),
        14 => hold(Hold::Review, true),
        15 | 16 => hold(Hold::Review, false),
        17 => abandon(),
        18 => Person::Close(Ending::Superseded { by: other, reason: reason() }),
        19 => Person::Archive,
        20 | 21 => Person::Depend { on: other, wait: true },
        22 => Person::Depend { on: other, wait: false },
        23 => Person::Cancel(reason()),
        24 | 25 => Person::Retry(reason()),
        26 => Person::Release(reason()),
        27 => Person::Fail { code: code(), reason: reason() },
        _ => edits(what),
    }
}

fn edits(what: u8) -> Person {
    let patch = match what % 4 {
        0 => Patch {
            title: Some(text("another")),
            priority: Some(Priority::High),
            ..Patch::default()
        },
        1 => {
            let policy = Policy { continuations_max: 9, losses_max: 20, ..Policy::default() };
            Patch { policy: Some(policy.into()), ..Patch::default() }
        }
        2 if what < 32 => Patch { contract: Some((one_gate(), digest())), ..Patch::default() },
        2 => Patch { contract: Some((Contract::default(), digest())), ..Patch::default() },
        _ => Patch { clear: [Clear::Body, Clear::Assignee].into(), ..Patch::default() },
    };
    Person::Edit(Box::new(patch))
}

/// Something true that has perhaps been said before: a reaction may be carried out twice.
fn echo(world: &World, id: TaskId, what: u8) -> Reaction {
    let from = TaskId(u64::from(what) % world.tasks.len() as u64 + 1);
    let cause = match world.flow(from).ending() {
        Some(ending) if what.is_multiple_of(4) => {
            Cause::DependencySettled { met: ending.satisfies() }
        }
        Some(_) | None if what % 4 == 1 => Cause::ChildSettled,
        ending => Cause::Wake { ended: ending.is_some(), by: None },
    };
    Reaction { to: id, from, cause }
}
