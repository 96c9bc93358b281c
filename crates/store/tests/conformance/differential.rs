//! The same random history to the model and to the store under test: they must say the same, step
//! by step, and be the same in the end.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_store::order::Swept;
use baton_store::read::Happened;
use baton_store::{Committed, Error, Order};
use baton_testkit::rounds;

use crate::backend::{Backend, Memory};
use crate::dump::assert_same;
use crate::script::{Script, Step, TENANTS};
use crate::world::World;

const SEEDS: u64 = 8;
/// The rarest thing must have happened after so many histories.
const SEEDS_MAX: u64 = 400;
const STEPS: u64 = 600;
/// Dumps are long; so often is often enough to find a difference near its cause.
const DUMP_EVERY: u64 = 150;
/// Sweeps until nothing is left; more than this would never end.
const SWEEPS_MAX: u64 = 1_000;

/// A store that must be like another, and that other one.
struct Pair {
    model: World,
    tested: World,
    seed: u64,
}

/// What a store answered, as text. Of several attempts that a full holder has, any may be named; the
/// brief is told only by a store that had it at hand.
fn told(answer: &Result<Committed, Error>) -> String {
    match answer {
        Err(Error::Refused(Refusal::HolderFull { pool, held })) => {
            format!("{pool} is full, holding: {}", held.is_some())
        }
        Ok(committed) => format!("{:?}", Committed { brief: None, ..committed.clone() }),
        Err(_) => format!("{answer:?}"),
    }
}

impl Pair {
    async fn same(&self, order: Order, step: u64) -> Result<Committed, Error> {
        let expected = self.model.store().submit(order.clone()).await;
        let found = self.tested.store().submit(order.clone()).await;
        let seed = self.seed;
        assert_eq!(told(&expected), told(&found), "seed {seed}, step {step}: {order:#?}");
        expected
    }

    /// Sweeps both until nothing is left, so many at once: stores may choose between tenants.
    async fn sweep(&self, count_max: usize, step: u64) {
        let expected = drain(&self.model, count_max).await;
        let found = drain(&self.tested, count_max).await;
        assert_eq!(expected, found, "seed {}, step {step}: a sweep", self.seed);
    }

    /// Shows the script how everything stands.
    async fn show(&self, script: &mut Script) {
        for name in TENANTS {
            let model = self.model.stranger(name);
            for row in model.all_tasks().await {
                script.see(&model.tenant, &row.flow);
            }
        }
    }

    async fn look_at_all(&self, step: u64) {
        for name in TENANTS {
            let (model, tested) = (self.model.stranger(name), self.tested.stranger(name));
            let what = format!("seed {}, step {step}", self.seed);
            assert_same(&model.dump().await, &tested.dump().await, &what);
            tested.check_laws().await;
        }
    }
}

async fn drain(world: &World, count_max: usize) -> Swept {
    let mut all = Swept::default();
    for _ in 0..SWEEPS_MAX {
        let swept = world.sweep_some(count_max).await;
        all.due += swept.due;
        all.reactions += swept.reactions;
        if !swept.more {
            return all;
        }
    }
    panic!("sweeping never ends");
}

/// Plays one history against a fresh store; gives back the model as it is in the end.
async fn play(backend: impl Backend, seed: u64) -> World {
    let tested = World::empty(backend).await;
    let pair = Pair { model: tested.beside(Memory).await, tested, seed };
    for order in Script::opening() {
        pair.same(order, 0).await.expect("everybody has projects");
    }
    let mut script = Script::new(seed);
    for step in 1..=STEPS {
        match script.next(pair.tested.now()) {
            Step::Pass(length) => pair.tested.silence(length),
            Step::Sweep(count_max) => {
                pair.sweep(count_max, step).await;
                pair.show(&mut script).await;
            }
            Step::Order(order) => {
                if let Ok(committed) = pair.same((*order).clone(), step).await {
                    script.learn(&order, &committed);
                }
            }
        }
        if step % DUMP_EVERY == 0 {
            pair.look_at_all(step).await;
            pair.tested.reopen();
        }
    }
    pair.model
}

/// Plays many histories against fresh stores of a backend.
pub fn a_random_history_matches_the_model<B: Backend>(fresh: impl Fn() -> B) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime needs nothing");
    for seed in 0..rounds(SEEDS) {
        runtime.block_on(play(fresh(), seed));
    }
}

/// A comparison is worth what it compares.
#[test]
fn random_histories_make_everything_happen() {
    let all: BTreeSet<String> = EVENTS.split_whitespace().map(String::from).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let happened = runtime.expect("a runtime needs nothing").block_on(async {
        let mut happened = BTreeSet::new();
        for seed in 0..SEEDS_MAX {
            if happened == all {
                break;
            }
            let model = play(Memory, seed).await;
            for name in TENANTS {
                let entries = model.stranger(name).entries().await;
                happened.extend(entries.iter().flat_map(|entry| words(&entry.happened)));
            }
        }
        happened
    });
    assert_eq!(happened, all);
}

/// The names of everything that can happen.
const EVENTS: &str = "
    Created Edited Published Approved Moved Ended Archived HoldSet Owing DependencyAdded
    DependencyRemoved DependencySettled Woken RunOpened RunFinished Requeued Starved Claimed Began
    Seen Progressed Checkpointed Asked Answered AnswerMarked Spent Submitted Verified Exited
    Stopping Survived AttemptEnded DeathProved ProjectPut ProjectRemoved PoolLimited PoolShut
    KeyCreated KeyRotated KeyRevoked ChildrenSettled
";

fn words(happened: &Happened) -> Vec<String> {
    let word = |shown: String| {
        let shown = shown.strip_prefix("Key(").unwrap_or(&shown);
        let end = shown.find(|c: char| !c.is_alphanumeric()).unwrap_or(shown.len());
        shown[..end].to_owned()
    };
    match happened {
        Happened::ToTask(events) => events.iter().map(|it| word(format!("{it:?}"))).collect(),
        Happened::ToRecord(events) => events.iter().map(|it| word(format!("{it:?}"))).collect(),
        Happened::Unknown(_) | Happened::Erased => vec![],
    }
}
