//! A seeded simulation of everything that happens to an engine: holders that work, hang, vanish
//! and come back late, a person who changes its mind, a clockwork that stops, answers that are
//! lost, crashes. One thread, virtual time, every choice from one number; what must hold is checked
//! after every step. `BATON_SOAK=1` runs thousands of seeds instead of fifty.

use std::fs::Permissions;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use baton::chance::{Chance, SeededChance};
use baton_domain::time::Millis;
use baton_store::chain::SigningKey;
use baton_store::clock::ManualClock;
use baton_store::memory::MemoryStore;
use baton_store::sqlite::{Options, SqliteStore};
use baton_store::{Bell, Store, TaskRow};
use baton_testkit::rounds;
use tempfile::TempDir;

use holder::Holder;
use sightings::Sightings;
use world::{Ground, Trace, World};

mod holder;
mod laws;
mod lockstep;
mod person;
mod sightings;
mod vocabulary;
mod world;

/// Seeds of a plain run: a few seconds.
const SEEDS: u64 = 50;
/// Seeds that are run on disk, too, where each takes longer.
const SEEDS_ON_DISK: u64 = 6;
/// Steps with faults.
const STEPS: usize = 250;
/// Rounds in which everything must have ended once nothing goes wrong any more: an hour.
const ROUNDS_MAX: usize = 1_800;

/// The model, which goes on as it is when its engine dies.
struct InMemory;

impl Ground for InMemory {
    fn open(&self, clock: Arc<ManualClock>, bell: Bell) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(baton_domain::decide, clock, bell))
    }

    fn reopen(&self, store: Arc<dyn Store>, _: Arc<ManualClock>, _: Bell) -> Arc<dyn Store> {
        store
    }
}

/// SQLite in a folder of its own, opened again after every crash.
struct OnDisk(TempDir);

impl OnDisk {
    fn new() -> Self {
        let own = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(own).tempdir();
        Self(folder.expect("there is room for a folder"))
    }
}

impl Ground for OnDisk {
    fn open(&self, clock: Arc<ManualClock>, bell: Bell) -> Arc<dyn Store> {
        let salts = SeededChance::new(1);
        let fill = Box::new(move |bytes: &mut [u8]| salts.fill(bytes));
        let mut options = Options::new(baton_domain::decide, fill, self.0.path());
        options.clock = Some(clock);
        options.bell = bell;
        options.signing = Some(SigningKey::from_bytes(&[9; 32]));
        // Processes die here, not machines; and a test should not depend on how full the disk is.
        options = options.weakened("OFF");
        options.free_bytes = Arc::new(|| None);
        Arc::new(SqliteStore::open(self.0.path(), options).expect("the folder is ours"))
    }

    fn reopen(&self, store: Arc<dyn Store>, clock: Arc<ManualClock>, bell: Bell) -> Arc<dyn Store> {
        drop(store);
        self.open(clock, bell)
    }
}

/// How many seeds: these, or many times more in a soak.
fn seeds(plain: u64) -> u64 {
    if rounds(1) > 1 { rounds(4 * plain) } else { plain }
}

#[test]
fn nothing_is_lost_nobody_is_doubled_and_everything_ends() {
    let seen = for_each_seed(seeds(SEEDS), |seed| {
        let first = run(&InMemory, seed);
        assert_same(seed, &first, &run(&InMemory, seed));
        first.seen
    });
    assert!(seen.missing().is_empty(), "too tame: nobody saw {:?}", seen.missing());
}

#[test]
fn the_same_happens_on_disk() {
    for_each_seed(seeds(SEEDS_ON_DISK), |seed| {
        let on_disk = run(&OnDisk::new(), seed);
        assert_same(seed, &on_disk, &run(&InMemory, seed));
        on_disk.seen
    });
}

/// Runs all seeds on as many threads as there are, each of them on one.
fn for_each_seed(seeds: u64, run: impl Fn(u64) -> Sightings + Sync) -> Sightings {
    let next = AtomicU64::new(0);
    let run_some = || {
        let mut seen = Sightings::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return seen;
            }
            seen.add(&run(seed));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut seen = Sightings::default();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        for thread in running {
            seen.add(&thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    seen
}

/// What came of one seed.
struct Ran {
    seen: Sightings,
    hash: u64,
    trace: Arc<Mutex<Trace>>,
}

fn assert_same(seed: u64, one: &Ran, other: &Ran) {
    if one.hash != other.hash {
        let one = one.trace.lock().expect("one thread");
        let told = one.told_against(&other.trace.lock().expect("one thread"));
        panic!("seed {seed} went two ways:\n{told}");
    }
}

/// Runs one seed; if it fails, tells the seed and the last steps.
fn run(ground: &dyn Ground, seed: u64) -> Ran {
    let trace = Arc::new(Mutex::new(Trace::default()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing but memory");
    let simulation = simulate(World::new(ground, seed, Arc::clone(&trace)));
    // Nobody else is to have a turn, so nobody need be made to yield.
    let simulation = tokio::task::unconstrained(simulation);
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(simulation)));
    let (seen, hash) = ran.unwrap_or_else(|panic| {
        let told = trace.lock().unwrap_or_else(PoisonError::into_inner).told();
        eprintln!("seed {seed} failed; its last steps:\n{told}");
        resume_unwind(panic)
    });
    Ran { seen, hash, trace }
}

async fn simulate(mut world: World<'_>) -> (Sightings, u64) {
    let mut crew = Holder::crew();
    person::begin(&mut world).await;
    for _ in 0..STEPS {
        step(&mut world, &mut crew).await;
        settle(&mut world, &mut crew).await;
    }
    heal(&mut world, &mut crew).await;
    world.laws.check_all(&world.engine).await;
    let seen = world.laws.sightings.lock().expect("one thread").clone();
    (seen, world.laws.hash())
}

/// Somebody does something, something breaks, or time passes.
async fn step(world: &mut World<'_>, crew: &mut [Holder]) {
    match world.chance.below(100) {
        0..=59 => {
            let at = world.chance.index(crew.len());
            crew[at].step(world, false).await;
        }
        60..=79 => person::step(world).await,
        80 => {
            crew.iter_mut().for_each(Holder::crashed);
            world.crash().await;
        }
        81 | 82 => {
            world.clockwork = !world.clockwork;
            world.say(format!("the clockwork runs: {}", world.clockwork));
        }
        83 => world.mute(true),
        84..=97 => {
            let length = Millis(1 + world.chance.below(3_000));
            pass(world, crew, length).await;
        }
        _ => {
            let length = Millis(5_000 + world.chance.below(40_000));
            pass(world, crew, length).await;
        }
    }
    // Nothing stays broken for long, or only what is broken would be seen.
    if !world.clockwork && world.chance.chance(0.05) {
        world.clockwork = true;
    }
    if world.chance.chance(0.1) {
        world.mute(false);
    }
}

/// Lets time pass, a second at a time, as a clockwork would see it.
async fn pass(world: &mut World<'_>, crew: &mut [Holder], length: Millis) {
    world.say(format!("{} ms pass", length.0));
    let mut left = length.0;
    while left > 0 {
        let part = left.min(1_000);
        left -= part;
        world.advance(Millis(part)).await;
        if world.clockwork {
            world.tick().await;
        }
        settle(world, crew).await;
    }
}

/// Lets everybody who waits look at what came, until nobody gets anything more.
async fn settle(world: &mut World<'_>, crew: &mut [Holder]) {
    // Who gets nothing may wake another, who may stand before it: each must get its turn.
    let mut quiet = 0;
    while quiet <= crew.len() {
        let served = crew.iter_mut().filter_map(|holder| holder.poll(world).then_some(())).count();
        quiet = if served == 0 { quiet + 1 } else { 0 };
        if served > 0 {
            world.laws.check(&world.engine).await;
        }
    }
    if world.faults.lock().expect("one thread").mute {
        world.bell_sure_since = world.now();
    }
    crew.iter_mut().for_each(|holder| holder.check(world));
}

/// Faults stop, everybody does its duty: now everything must end, in bounded time.
async fn heal(world: &mut World<'_>, crew: &mut [Holder]) {
    world.say("everything heals".into());
    world.clockwork = true;
    world.mute(false);
    world.faults.lock().expect("one thread").on = false;
    for _ in 0..ROUNDS_MAX {
        if world.laws.rows.values().all(|row| row.flow.ending().is_some()) {
            return world.count_wakes();
        }
        person::tidy(world).await;
        for holder in crew.iter_mut() {
            holder.step(world, true).await;
        }
        pass(world, crew, Millis(2_000)).await;
    }
    let now = world.now();
    let open: Vec<_> =
        world.laws.rows.values().filter(|row| row.flow.ending().is_none()).cloned().collect();
    for TaskRow { flow, lease, .. } in open {
        let run = flow.run.as_ref().map(|run| &run.state);
        let (badge, waits_for) = (flow.badge(now), &flow.waits_for);
        world.say(format!("{} {badge:?}: {lease:?}, waits for {waits_for:?}, {run:?}", flow.id));
    }
    panic!("not everything ended in an hour");
}
