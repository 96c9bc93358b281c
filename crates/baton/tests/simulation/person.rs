//! A person who makes tasks, answers, forbids, changes its mind; and one who tidies everything up.

use std::collections::BTreeSet;

use baton_domain::command::{Command, Patch, Person};
use baton_domain::ids::TaskId;
use baton_domain::policy::Policy;
use baton_domain::pool::{PoolName, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::run::{Cap, Idle, Outcome, Phase, RunState, Why};
use baton_domain::task::{Approval, Ending, Flow, Hold, Kind, Priority, Stage, Wait};
use baton_domain::time::Millis;
use baton_store::{Aim, Kind as Caller};

use crate::vocabulary::{
    actor, contract, gpu, name, new_task, one_of, policy, project, project_id, stage, text,
};
use crate::world::World;

/// Tasks of one run of the simulation.
const TASKS_MAX: usize = 20;

/// Where tasks are put, the first stage more often.
const STARTS: [&str; 3] = ["coding", "coding", "qa"];

/// Puts the project; everything else needs it. In some runs little may be worked on at once.
pub async fn begin(world: &mut World<'_>) {
    record(world, RecordCommand::PutProject(project())).await;
    let coding = PoolName::Stage(project_id(), stage("coding"));
    let holders = ["solo-a", "solo-b", "worker-a"].map(|word| PoolName::Holder(name(word)));
    for pool in holders.into_iter().chain([coding]) {
        if world.chance.chance(0.4) {
            let limit = Some(1 + world.chance.below(2));
            record(world, RecordCommand::LimitPool { pool, limit }).await;
        }
    }
}

/// Does something, sensible more often than not.
pub async fn step(world: &mut World<'_>) {
    let tasks: Vec<TaskId> = world.laws.rows.keys().copied().collect();
    let chosen = one_of(&mut world.chance, &tasks);
    let (Some(task), true) = (chosen, tasks.len() >= TASKS_MAX || world.chance.chance(0.7)) else {
        return create(world).await;
    };
    if world.chance.chance(0.12) {
        return limit(world).await;
    }
    let flow = world.laws.rows[&task].flow.clone();
    let sensible = if world.chance.chance(0.6) { next(&flow) } else { None };
    let says = match sensible {
        Some(says) => says,
        None => anything(world, &flow, &tasks),
    };
    say(world, task, says).await;
}

async fn say(world: &mut World<'_>, task: TaskId, says: Person) {
    let told: String = format!("{says:?}").chars().take(60).collect();
    let aim = Aim::Task(task, vec![Command::Person(says)]);
    let outcome = match world.order(&actor("ann", Caller::Person), aim).await {
        Ok(_) => "done".into(),
        Err(error) => format!("{error}"),
    };
    world.say(format!("ann {told} on {task}: {outcome}"));
}

async fn record(world: &mut World<'_>, command: RecordCommand) {
    let told: String = format!("{command:?}").chars().take(80).collect();
    let aim = Aim::Record(command, None);
    let done = world.order(&actor("ann", Caller::Person), aim).await.is_ok();
    world.say(format!("ann {told}: {done}"));
}

async fn create(world: &mut World<'_>) {
    let policy = policy(&mut world.chance);
    let chance = &mut world.chance;
    let flows: Vec<_> = world.laws.rows.values().map(|row| row.flow.clone()).collect();
    let live: Vec<TaskId> =
        flows.iter().filter(|flow| flow.ending().is_none()).map(|flow| flow.id).collect();
    let epics: Vec<TaskId> = flows
        .iter()
        .filter(|flow| flow.kind == Kind::Epic && flow.ending().is_none())
        .map(|flow| flow.id)
        .collect();
    let mut task = new_task(policy);
    task.priority = *chance.pick(&[Priority::Low, Priority::Normal, Priority::High]);
    task.kind = if chance.chance(0.1) { Kind::Epic } else { Kind::Story };
    task.contract = chance.chance(0.4).then(contract);
    task.assignee = chance.chance(0.1).then(|| name("solo-a"));
    // Whoever is assigned must be able to do it.
    let rare = task.assignee.is_none() && chance.chance(0.15);
    task.capabilities = rare.then(gpu).into_iter().collect();
    task.parent = one_of(chance, &epics).filter(|_| chance.chance(0.5));
    task.creator_task = one_of(chance, &live).filter(|_| chance.chance(0.2));
    task.depends_on = (0..2)
        .filter_map(|_| one_of(chance, &live).filter(|_| chance.chance(0.25)))
        .collect::<BTreeSet<_>>();
    task.draft = chance.chance(0.05);
    task.needs_approval = chance.chance(0.1);
    task.start_in =
        (!task.draft && chance.chance(0.85)).then(|| stage(STARTS[chance.index(STARTS.len())]));
    let soon = chance.chance(0.15).then(|| Millis(chance.below(10_000)));
    task.start_at = soon.map(|soon| world.engine.now() + soon);
    let aim = Aim::Birth(project_id(), vec![Command::Create(Box::new(task))]);
    let outcome = match world.order(&actor("ann", Caller::Person), aim).await {
        Ok(committed) => format!("{}", committed.task.expect("a birth has a task").id),
        Err(error) => format!("{error}"),
    };
    world.say(format!("ann creates: {outcome}"));
}

/// Changes what many tasks share.
async fn limit(world: &mut World<'_>) {
    let tasks: Vec<TaskId> = world.laws.rows.keys().copied().collect();
    let budget = one_of(&mut world.chance, &tasks).map(PoolName::Budget);
    let chance = &mut world.chance;
    let holder = *chance.pick(&["solo-a", "worker-a", "worker-b"]);
    let pools = [
        PoolName::Holder(name(holder)),
        PoolName::Stage(project_id(), stage("coding")),
        budget.unwrap_or(PoolName::Scheduler),
        PoolName::Scheduler,
    ];
    let pool = chance.pick(&pools).clone();
    let command = if chance.chance(0.5) {
        let some = chance.chance(0.7).then(|| chance.below(4));
        let limit = if matches!(pool, PoolName::Scheduler) { None } else { some };
        RecordCommand::LimitPool { pool, limit }
    } else {
        let until = chance.chance(0.5).then(|| chance.below(10_000));
        let since = world.engine.now();
        let until = until.map(|later| since + Millis(later));
        let shut = world.chance.chance(0.5).then(|| Shut { reason: text("lunch"), since, until });
        RecordCommand::ShutPool { pool, shut }
    };
    record(world, command).await;
}

/// Anything at all; much of it is refused.
fn anything(world: &mut World<'_>, flow: &Flow, tasks: &[TaskId]) -> Person {
    let chance = &mut world.chance;
    let hold = *chance.pick(&[Hold::Frozen, Hold::Review]);
    match chance.below(20) {
        0 => Person::Cancel(text("never mind")),
        1 => Person::Retry(text("once more")),
        2 | 3 => Person::Hold { hold, on: true, reason: text("wait") },
        4 => Person::Hold { hold, on: false, reason: text("go on") },
        5 => Person::Release(text("give it back")),
        6 => Person::Fail { code: text("no"), reason: text("it is wrong") },
        7 | 8 => Person::Depend { on: *chance.pick(tasks), wait: chance.chance(0.7) },
        9 => Person::Unblock(text("try it")),
        10 | 11 => Person::Answer(text("the second one")),
        12 => {
            let to = chance.chance(0.8).then(|| stage(STARTS[chance.index(STARTS.len())]));
            Person::Move { to, start_at: None }
        }
        13 if chance.chance(0.3) => Person::Close(Ending::Abandoned { reason: text("no need") }),
        13 => Person::Publish,
        14 => Person::Approve,
        15 => Person::Archive,
        16 if chance.chance(0.3) => {
            let by = *chance.pick(tasks);
            Person::Close(Ending::Superseded { by, reason: text("a better one") })
        }
        _ => {
            let policy = raised(flow.policy);
            let capabilities = chance.chance(0.2).then(|| [].into());
            let policy = chance.chance(0.7).then_some(policy.into());
            Person::Edit(Box::new(Patch { policy, capabilities, ..Patch::default() }))
        }
    }
}

/// Every cap a little higher.
fn raised(policy: Policy) -> Policy {
    Policy {
        continuations_max: (policy.continuations_max + 2).min(50),
        losses_max: (policy.losses_max + 2).min(100),
        tries_max: (policy.tries_max + 5).min(500),
        ..policy
    }
}

/// What brings this task on, if a person must do something for that.
fn next(flow: &Flow) -> Option<Person> {
    if flow.ending().is_some() {
        return None;
    }
    if flow.draft {
        return Some(Person::Publish);
    }
    if flow.approval == Approval::Pending {
        return Some(Person::Approve);
    }
    for hold in [Hold::Frozen, Hold::Review] {
        if flow.holds.has(hold) {
            return Some(Person::Hold { hold, on: false, reason: text("go on") });
        }
    }
    let hopeless = flow.waits_for.iter().find(|(_, wait)| **wait == Wait::Failed);
    if let Some((on, _)) = hopeless {
        return Some(Person::Depend { on: *on, wait: false });
    }
    let Some(run) = &flow.run else { return begin_or_end(flow) };
    match &run.state {
        RunState::Idle(Idle::Blocked(block)) => match block.why {
            Why::Limit { cap: Cap::Budget } => Some(Person::Unblock(text("there is more"))),
            Why::NeedsInput => Some(Person::Answer(text("the second one"))),
            Why::Limit { .. } => {
                let policy = Some(raised(flow.policy).into());
                Some(Person::Edit(Box::new(Patch { policy, ..Patch::default() })))
            }
            Why::Capability { .. } | Why::Transient { .. } | Why::Dependency { .. } => {
                Some(Person::Unblock(text("try it")))
            }
        },
        RunState::Held(held) if waits_for_answer(&held.phase) => {
            Some(Person::Answer(text("the second one")))
        }
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
        | RunState::Held(_) => None,
    }
}

fn waits_for_answer(phase: &Phase) -> bool {
    match phase {
        Phase::WaitingInput(_) => true,
        Phase::Stopping { verdict: Outcome::Blocked { block, answered: false }, .. } => {
            block.why == Why::NeedsInput
        }
        Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. } => false,
    }
}

fn begin_or_end(flow: &Flow) -> Option<Person> {
    let give_up = || Some(Person::Close(Ending::Abandoned { reason: text("it leads nowhere") }));
    match (&flow.stage, &flow.last) {
        (_, _) if flow.undone > 0 => Some(Person::Close(Ending::Done { verified: false })),
        // It is done once its children are.
        (_, _) if flow.kind == Kind::Epic => None,
        (Stage::Backlog, _) if flow.waits_for.is_empty() => {
            Some(Person::Move { to: Some(stage("coding")), start_at: None })
        }
        (Stage::Backlog, _) => None,
        (_, Some(last)) if last.depth >= 9 => give_up(),
        (_, Some(_)) => Some(Person::Retry(text("once more"))),
        (_, None) => give_up(),
    }
}

/// Opens what is shut, and brings every task on that waits for a person.
pub async fn tidy(world: &mut World<'_>) {
    let pools: Vec<PoolName> = world.laws.pools.keys().cloned().collect();
    for pool in pools {
        let open = world.laws.pools[&pool].clone();
        if open.limit.is_some() {
            record(world, RecordCommand::LimitPool { pool: pool.clone(), limit: None }).await;
        }
        if open.shut.is_some() {
            record(world, RecordCommand::ShutPool { pool, shut: None }).await;
        }
    }
    let tasks: Vec<TaskId> = world.laws.rows.keys().copied().collect();
    for task in tasks {
        let flow = world.laws.rows[&task].flow.clone();
        let mut children = world.laws.rows.values().filter(|row| row.flow.parent() == Some(task));
        let childless = children.next().is_none();
        if let Some(says) = next(&flow) {
            say(world, task, says).await;
        } else if flow.kind == Kind::Epic && flow.ending().is_none() && childless {
            let ending = Ending::Abandoned { reason: text("nothing came of it") };
            say(world, task, Person::Close(ending)).await;
        }
    }
}
