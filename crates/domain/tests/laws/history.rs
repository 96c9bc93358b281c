//! Random histories: several tasks that depend on, contain and wake each other, everybody who may
//! speak, right and wrong proofs, and a clock that jumps.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;

use baton_domain::command::{Command, NewTask, Proof};
use baton_domain::ids::{ConcurrencyKey, Nonce, TaskId};
use baton_domain::policy::Policy;
use baton_domain::pool::{Pool, PoolName};
use baton_domain::project::PassedBy;
use baton_domain::refusal::Refusal;
use baton_domain::scene::{Decision, Lease};
use baton_domain::task::{Kind, Priority, Task};
use baton_domain::time::{Millis, Timestamp};
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::cast::{capability, contracted, principal, project, stage, started, story, worker};
use crate::speech;
use crate::world::World;

/// Histories for each law; enough to find every planted fault, few enough to wait for.
const CASES: u32 = 48;
/// Histories for each law when there is a night to spend.
const SOAK_CASES: u32 = 2_000;
/// Steps of the longest history.
const STEPS_MAX: usize = 200;
/// Tasks of the largest history.
const TASKS_MAX: u64 = 10;

/// One step: small numbers, so that a failure shrinks to a short story.
#[derive(Clone)]
pub struct Step {
    pub task: u8,
    pub speaker: u8,
    pub what: u8,
    pub proof: u8,
    pub after: u8,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, speaker, what, proof, after } = self;
        write!(f, "({task}, {speaker}, {what}, {proof}, {after})")
    }
}

/// A whole history to be.
#[derive(Clone, Debug)]
pub struct Script {
    pub promote: bool,
    pub passed_by_person: bool,
    pub steps: Vec<Step>,
}

/// A command, what it met and what came of it.
pub struct Turn<'a> {
    pub id: TaskId,
    pub command: &'a Command,
    pub task: Option<Task>,
    pub lease: Option<Lease>,
    pub due_at: Option<Timestamp>,
    pub answer: Result<Decision, Refusal>,
    /// The answer to the same question, asked a second time.
    pub again: Result<Decision, Refusal>,
}

impl Step {
    /// Reads a step from the bits of a number: cheap to draw, and smaller is simpler.
    fn read(bits: u32) -> Self {
        let [a, b, c, d] = bits.to_le_bytes();
        Self { speaker: a % 32, what: b % 64, after: c % 32, task: d % 32, proof: (c ^ d) / 16 }
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    let step = proptest::num::u32::ANY.prop_map(Step::read);
    let switches = proptest::bool::ANY;
    (switches, switches, vec(step, 1..STEPS_MAX))
        .prop_map(|(promote, passed_by_person, steps)| Script { promote, passed_by_person, steps })
}

/// Whether there is a night to spend.
#[expect(clippy::disallowed_methods, reason = "the one place that the laws are told to soak")]
pub fn soaking() -> bool {
    std::env::var_os("BATON_SOAK").is_some()
}

/// A source of cases that is the same each time, unless there is a night to spend.
pub fn runner() -> TestRunner {
    let cases = if soaking() { SOAK_CASES } else { CASES };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if soaking() {
        return TestRunner::new(config);
    }
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Plays random histories and lets a fresh law look at every turn of each.
pub fn in_every_history<L: FnMut(&World, &Turn<'_>)>(law: impl Fn() -> L) {
    let outcome = runner().run(&scripts(), |script| {
        let mut law = law();
        AssertUnwindSafe(|| play(&script, |world, turn| law(world, turn)))();
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Plays random histories to their end.
pub fn after_every_history(law: impl Fn(World)) {
    let outcome = runner().run(&scripts(), |script| {
        law(play(&script, |_, _| {}));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Plays one history.
pub fn play(script: &Script, mut witness: impl FnMut(&World, &Turn<'_>)) -> World {
    let mut world = set_up(script, &mut witness);
    let mut id = TaskId(2);
    for step in &script.steps {
        world.wait(jump(step.after));
        let count = world.tasks.len() as u64;
        // Mostly one task is the subject for a while, so that something comes of it.
        if step.task < 8 {
            id = TaskId(u64::from(step.task) % count + 1);
        }
        if step.speaker == 31 && count < TASKS_MAX {
            let task = newcomer(&world, id, step.what);
            turn(&mut world, TaskId(count + 1), &create(task), &mut witness);
            continue;
        }
        let (to, command) = speech::next(&mut world, id, step);
        turn(&mut world, to, &command, &mut witness);
    }
    world
}

fn turn(
    world: &mut World,
    id: TaskId,
    command: &Command,
    witness: &mut impl FnMut(&World, &Turn<'_>),
) {
    let task = world.tasks.get(&id).cloned();
    let lease = world.leases.get(&id).cloned();
    let due_at = task.as_ref().and_then(|_| world.due_at(id));
    let again = world.ask(id, command);
    let answer = world.tell(id, command);
    witness(world, &Turn { id, command, task, lease, due_at, answer, again });
}

fn create(task: NewTask) -> Command {
    Command::Create(Box::new(task))
}

fn jump(after: u8) -> Millis {
    match after {
        0..=24 => Millis(0),
        25..=27 => Millis::seconds(20),
        28 => Millis::minutes(4),
        29 => Millis::minutes(12),
        30 => Millis::hours(5),
        _ => Millis::hours(24 * 31),
    }
}

/// The proof that a step brings along: mostly the right one.
pub fn proof(world: &World, id: TaskId, choice: u8) -> Proof {
    let attempts = world.flow(id).attempts;
    let right = world.leases.get(&id).map_or(
        Proof::Token { attempt: attempts, nonce: Nonce(u128::from(attempts) + 999) },
        |lease| Proof::Token { attempt: lease.attempt, nonce: lease.nonce },
    );
    let attempt = right.attempt();
    let holder = world.leases.get(&id).map_or(principal("nobody"), |lease| lease.holder.clone());
    match choice {
        0 => Proof::Token { attempt, nonce: Nonce(1) },
        1 => Proof::Token {
            attempt: attempt.saturating_sub(1),
            nonce: Nonce(u128::from(attempt) + 998),
        },
        2 => Proof::Token { attempt: attempt + 1, nonce: Nonce(u128::from(attempt) + 1_000) },
        3 => Proof::Caller { attempt, principal: principal("nobody") },
        4 => Proof::Caller { attempt, principal: worker().principal },
        5 => Proof::Token { attempt: 1, nonce: Nonce(1_000) },
        6 => Proof::Caller { attempt: attempt.saturating_sub(1), principal: holder },
        _ => right,
    }
}

/// Two tasks that depend, an epic with a child, one with lines to check, one with tight caps.
fn set_up(script: &Script, witness: &mut impl FnMut(&World, &Turn<'_>)) -> World {
    let mut project = project();
    project.promote = script.promote;
    if script.passed_by_person {
        project.pipeline[0].passed_by = PassedBy::Person;
    }
    let mut world = World::new(project);
    let slots = Pool { limit: Some(4), ..Pool::default() };
    world.pools.insert(PoolName::Holder(worker().principal), slots);
    let money = Pool { limit: Some(1_000), ..Pool::default() };
    world.pools.insert(PoolName::Budget(TaskId(1)), money);
    let tight = Policy {
        attempts_max: 2,
        continuations_max: 1,
        losses_max: 2,
        tries_max: 4,
        budget_micros: 100,
        ..Policy::default()
    };
    let cast = [
        NewTask { kind: Kind::Epic, ..story() },
        NewTask { parent: Some(TaskId(1)), policy: tight, ..started() },
        contracted(),
        NewTask {
            depends_on: BTreeSet::from([TaskId(2), TaskId(3)]),
            start_in: None,
            ..contracted()
        },
        NewTask { draft: true, needs_approval: true, parent: Some(TaskId(1)), ..story() },
    ];
    for (nth, task) in (1..).zip(cast) {
        turn(&mut world, TaskId(nth), &create(task), witness);
    }
    world
}

fn newcomer(world: &World, near: TaskId, what: u8) -> NewTask {
    let near = Some(near).filter(|id| world.flow(*id).ending().is_none());
    let base = if what.is_multiple_of(2) { started() } else { contracted() };
    let key = ConcurrencyKey::new("shared").expect("the tests write proper names");
    match what % 8 {
        0 | 1 => NewTask { parent: near, creator_task: near, ..base },
        2 => NewTask { depends_on: near.into_iter().collect(), ..base },
        3 => NewTask { depends_on: near.into_iter().collect(), ..story() },
        4 => NewTask { key: Some(key), priority: Priority::Urgent, ..base },
        5 => NewTask { capabilities: BTreeSet::from([capability("gpu")]), ..base },
        6 => NewTask { kind: Kind::Epic, parent: near, ..story() },
        _ => NewTask { start_in: Some(stage("qa")), assignee: Some(worker().principal), ..base },
    }
}

/// Lets time and reactions do all they can, and says whether anything happened.
pub fn converge(world: &mut World) -> bool {
    let mut happened = false;
    for _ in 0..32 {
        let owed = !world.reactions.is_empty();
        world.settle();
        let ids: Vec<TaskId> = world.tasks.keys().copied().collect();
        let fired: usize = ids.iter().map(|id| world.pass(*id)).sum();
        if !owed && fired == 0 {
            return happened;
        }
        happened = true;
    }
    panic!("the world does not come to rest");
}
