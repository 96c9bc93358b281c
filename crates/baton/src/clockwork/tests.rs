use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::TaskId;
use baton_domain::time::Millis;
use baton_store::Cursor;
use baton_store::order::Swept;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::{COUNT_MIN, SWEEPS_MAX, run, tick};
use crate::engine::tests::world::{World, tenant};

struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    turns: watch::Receiver<u64>,
}

fn start(world: &World) -> Running {
    let (stop, stopped) = watch::channel(false);
    let (turned, turns) = watch::channel(0);
    let task = tokio::spawn(run(Arc::clone(&world.engine), stopped, turned));
    Running { stop, task, turns }
}

impl Running {
    fn turns(&self) -> u64 {
        *self.turns.borrow()
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.expect("it ends by itself");
    }
}

/// Moves both clocks, and lets everybody do what that brings.
async fn pass(world: &World, length: Duration) {
    world.clock.advance(Millis(u64::try_from(length.as_millis()).expect("it is short")));
    advance(length).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn entries(world: &World) -> u64 {
    let page = world.engine.entries(&tenant(), Cursor::start(), usize::MAX).await;
    page.expect("it can be read").as_of
}

async fn is_held(world: &World, task: TaskId) -> bool {
    let row = world.engine.task(&tenant(), task).await.expect("it can be read");
    row.what.expect("it is there").lease.is_some()
}

#[tokio::test]
async fn a_second_tick_writes_nothing() {
    let world = World::new().await;
    for _ in 0..5 {
        world.create("one").await;
        world.claim("ann").await.expect("there is one");
    }
    world.clock.advance(Millis::hours(1));
    for _ in 0..15 {
        let graced = tick(&world.engine).await.expect("time passes");
        assert_eq!(graced, Swept::default(), "the silence was ours");
        world.clock.advance(Millis::seconds(4));
    }
    let first = tick(&world.engine).await.expect("time passes");
    assert_eq!(first, Swept { due: 5, ..Swept::default() });
    let before = entries(&world).await;
    let second = tick(&world.engine).await.expect("time passes");
    assert_eq!(second, Swept::default());
    assert_eq!(entries(&world).await, before);
}

#[tokio::test]
async fn one_tick_fires_however_much_is_due() {
    let world = World::new().await;
    let count = 5 * COUNT_MIN;
    for _ in 0..count {
        world.create("one").await;
        world.claim("ann").await.expect("there is one");
    }
    tick(&world.engine).await.expect("time passes");
    world.clock.advance(Millis::seconds(5 * 60));
    tick(&world.engine).await.expect("the silence is noticed");
    for _ in 0..15 {
        world.clock.advance(Millis::seconds(4));
        tick(&world.engine).await.expect("time passes");
    }
    let orders = world.flaws.orders();
    world.clock.advance(Millis::seconds(4));
    // The grace ends between two ticks, so the last of these fired all of them.
    tick(&world.engine).await.expect("time passes");
    assert!(world.flaws.orders() - orders <= SWEEPS_MAX);
    let health = world.engine.health().await;
    assert_eq!((health.overdue, health.green), (Millis(0), true));
    let figures = world.engine.metrics().render();
    assert!(figures.contains(&format!("baton_fired_total {count}")), "{figures}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_out_is_free_within_two_seconds() {
    let world = World::new().await;
    let running = start(&world);
    let task = world.create("one").await;
    let claimed = world.claim("ann").await.expect("there is one");
    let half = Duration::from_millis(500);
    while world.engine.now() < claimed.expires_at {
        assert!(is_held(&world, task).await);
        pass(&world, half).await;
    }
    for _ in 0..4 {
        pass(&world, half).await;
    }
    assert!(!is_held(&world, task).await);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_slows_the_clockwork_down_but_never_ends_it() {
    let world = World::new().await;
    let running = start(&world);
    pass(&world, Duration::from_millis(500)).await;
    world.flaws.refuse(usize::MAX);
    let before = world.flaws.orders();
    for _ in 0..40 {
        pass(&world, Duration::from_millis(500)).await;
    }
    let tried = world.flaws.orders() - before;
    assert!((10..=14).contains(&tried), "in twenty seconds it tried {tried} times");
    assert!(!world.engine.health().await.green);
    world.flaws.refuse(0);
    for _ in 0..4 {
        pass(&world, Duration::from_millis(500)).await;
    }
    assert!(world.engine.health().await.green, "it went on by itself");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_does_not_end_the_clockwork() {
    let world = World::new().await;
    let running = start(&world);
    pass(&world, Duration::from_millis(500)).await;
    world.flaws.panic(true);
    let turns = running.turns();
    for _ in 0..4 {
        pass(&world, Duration::from_millis(500)).await;
    }
    assert_eq!(running.turns(), turns, "a turn that broke is none");
    world.flaws.panic(false);
    world.clock.advance(Millis::seconds(10));
    for _ in 0..4 {
        pass(&world, Duration::from_millis(500)).await;
    }
    assert!(world.engine.health().await.green);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_seen_from_outside() {
    let world = World::new().await;
    let running = start(&world);
    pass(&world, Duration::from_millis(500)).await;
    world.flaws.hang(true);
    let turns = running.turns();
    assert!(turns > 0, "it turned");
    pass(&world, Duration::from_secs(6)).await;
    assert_eq!(running.turns(), turns, "whoever watches the turns sees it, too");
    world.flaws.hang(false);
    let health = world.engine.health().await;
    assert!(!health.green);
    assert!(health.sweep_age >= Millis::seconds(5));
    running.task.abort();
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_it_is_told_to() {
    let world = World::new().await;
    let running = start(&world);
    pass(&world, Duration::from_secs(1)).await;
    running.stop().await;
    let orders = world.flaws.orders();
    pass(&world, Duration::from_secs(10)).await;
    assert_eq!(world.flaws.orders(), orders);
}

#[tokio::test(start_paused = true)]
async fn what_happened_is_sealed_every_minute() {
    let world = World::new().await;
    let running = start(&world);
    for minute in 0..3 {
        for _ in 0..122 {
            pass(&world, Duration::from_millis(500)).await;
        }
        // Nothing happened in the last minute.
        if minute < 1 {
            world.create("one").await;
        }
    }
    assert_eq!(world.engine.audit().await.expect("it can be walked").seals, 2);
    running.stop().await;
}
