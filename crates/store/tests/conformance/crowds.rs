//! Many callers at once who ask for anything: whatever happens between them, the laws hold, and a
//! reader who follows them misses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_domain::Refusal;
use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_domain::pool::PoolName;
use baton_domain::time::Millis;
use baton_store::read::{About, Happened, PAGE_MAX};
use baton_store::{Cursor, Entry, Error};
use baton_testkit::rounds;
use tokio::sync::{Barrier, Notify};

use crate::script::{Script, Step, TENANTS};
use crate::words::{complete, project, solo, stage};
use crate::world::World;

/// Callers at once.
const CALLERS: u64 = 40;
/// Orders of all of them together.
const ORDERS: u64 = 2_000;
const ORDERS_IN_A_SOAK: u64 = 100_000;
/// How often a caller looks at everything anew, to speak of what others made.
const LOOK_EVERY: u64 = 25;
/// How far one caller moves the time: all of them together must not make it look like a silence.
const PASS_MAX: Millis = Millis(250);
/// How many may work at once in the case about limits.
const LIMIT: u64 = 3;

/// Who is still at it, and a bell for whoever waits for them.
#[derive(Default)]
struct Crowd {
    ended: AtomicUsize,
    wrote: Notify,
}

pub async fn whatever_many_ask_at_once_the_laws_hold(world: &World) {
    for order in Script::opening() {
        world.store().submit(order).await.expect("everybody has projects");
    }
    let crowd = Arc::new(Crowd::default());
    let callers: Vec<_> = (0..CALLERS)
        .map(|seed| tokio::spawn(ask_anything(world.clone(), Arc::clone(&crowd), seed)))
        .collect();
    let readers = TENANTS.map(|name| {
        let crowd = Arc::clone(&crowd);
        tokio::spawn(follow(world.stranger(name), crowd))
    });
    for caller in callers {
        caller.await.expect("no caller met anything but a refusal");
    }
    for (name, reader) in TENANTS.iter().zip(readers) {
        let tenant = world.stranger(name);
        let seen = reader.await.expect("a reader reads to the end");
        assert_eq!(seen, tenant.entries().await, "a reader sees what there is, once, in order");
        tenant.check_laws().await;
    }
}

/// One caller, who means something by what it asks for.
async fn ask_anything(world: World, crowd: Arc<Crowd>, seed: u64) {
    let mut script = Script::new(seed);
    let orders = if rounds(1) > 1 { ORDERS_IN_A_SOAK } else { ORDERS };
    for step in 0..orders / CALLERS {
        if step % LOOK_EVERY == 0 {
            for name in TENANTS {
                let tenant = world.stranger(name);
                for row in tenant.some_tasks().await {
                    script.see(&tenant.tenant, &row.flow);
                }
            }
        }
        match script.next(world.now()) {
            Step::Pass(length) => world.silence(length.min(PASS_MAX)),
            Step::Sweep(count_max) => drop(world.sweep_some(count_max).await),
            Step::Order(order) => match world.store().submit((*order).clone()).await {
                Ok(committed) => script.learn(&order, &committed),
                Err(Error::Refused(_) | Error::KeyReused) => {}
                Err(error) => panic!("{error:?} for {order:?}"),
            },
        }
        crowd.wrote.notify_waiters();
    }
    crowd.ended.fetch_add(1, Ordering::SeqCst);
    crowd.wrote.notify_waiters();
}

/// Reads from the first entry on until everybody has ended.
async fn follow(world: World, crowd: Arc<Crowd>) -> Vec<Entry> {
    let mut seen: Vec<Entry> = vec![];
    let mut versions: BTreeMap<Option<TaskId>, u64> = BTreeMap::new();
    loop {
        let woken = crowd.wrote.notified();
        let all_ended =
            crowd.ended.load(Ordering::SeqCst) == usize::try_from(CALLERS).expect("a few");
        let after = seen.last().map_or(0, |entry| entry.position);
        let after = Cursor { incarnation: 0, position: after };
        let page = world.store().entries(&world.tenant, after, PAGE_MAX).await.expect("it reads");
        for entry in &page.rows {
            let (chain, version) = match entry.about {
                About::Task(task, version) => (Some(task), version),
                About::Records(version) => (None, version),
            };
            let before = versions.insert(chain, version).unwrap_or(0);
            assert_eq!(version, before + 1, "{chain:?} is seen in its order, at once");
        }
        match (page.rows.is_empty(), all_ended) {
            (true, true) => return seen,
            (true, false) => woken.await,
            (false, _) => seen.extend(page.rows),
        }
    }
}

pub async fn a_limit_holds_at_every_moment_whoever_claims(world: &World) {
    let pool = PoolName::Stage(project("web"), stage("coding"));
    world.limit(pool.clone(), LIMIT).await;
    let tasks = rounds(40);
    for _ in 0..tasks {
        world.queued().await;
    }
    let all_asked = Arc::new(Barrier::new(usize::try_from(CALLERS).expect("a few")));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| tokio::spawn(work_through(world.clone(), Arc::clone(&all_asked), number)))
        .collect();
    let mut done = 0;
    for caller in callers {
        done += caller.await.expect("no caller met anything but a refusal");
    }
    assert_eq!(done, tasks, "every run was worked once");
    let (mut held, mut most) = (0_u64, 0);
    for event in world.entries().await.iter().flat_map(told) {
        held += u64::from(matches!(event, Event::Claimed { .. }));
        held -= u64::from(matches!(event, Event::AttemptEnded { .. }));
        most = most.max(held);
    }
    assert_eq!(most, LIMIT, "the limit was reached and never exceeded");
}

/// Claims and completes for as long as there is anything left; nobody completes before all have
/// asked once.
async fn work_through(world: World, all_asked: Arc<Barrier>, number: u64) -> u64 {
    let claimant = solo(&format!("agent-{number}"));
    let mut claimed = world.claim(&claimant).await;
    all_asked.wait().await;
    let mut done = 0;
    loop {
        match claimed {
            Ok(grip) => {
                world.agent(&grip, complete()).await.expect("it holds the run");
                done += 1;
            }
            Err(Refusal::NothingClaimable) if world.is_all_done().await => return done,
            Err(_) => tokio::task::yield_now().await,
        }
        claimed = world.claim(&claimant).await;
    }
}

fn told(entry: &Entry) -> Vec<&Event> {
    match &entry.happened {
        Happened::ToTask(events) => events.iter().collect(),
        Happened::ToRecord(_) | Happened::Unknown(_) | Happened::Erased => vec![],
    }
}

impl World {
    /// The newest tasks, ended ones included: a page is enough to speak of.
    async fn some_tasks(&self) -> Vec<baton_store::TaskRow> {
        let filter = baton_store::Filter { ended: true, count_max: PAGE_MAX, ..Default::default() };
        self.store().tasks(&self.tenant, filter).await.expect("reading works").rows
    }

    /// Whether no task is live any more.
    async fn is_all_done(&self) -> bool {
        let filter = baton_store::Filter { count_max: 1, ..Default::default() };
        self.store().tasks(&self.tenant, filter).await.expect("reading works").rows.is_empty()
    }
}
