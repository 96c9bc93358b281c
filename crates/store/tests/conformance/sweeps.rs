//! Who goes first when more is due than one sweep may do.

use baton_domain::command::{Claim, NewTask};
use baton_domain::ids::TaskId;
use baton_domain::time::Millis;
use baton_store::Aim;
use baton_store::order::Swept;
use baton_store::read::About;

use crate::words::{complete, ready, solo};
use crate::world::World;

impl World {
    /// A task that is held for so many seconds.
    pub async fn held_for(&self, seconds: u64) -> TaskId {
        let task = self.queued().await;
        let lease = Some(Millis::seconds(seconds));
        let wish = Claim { lease, ..self.wish(&solo("bob")) };
        self.grip(Aim::Next(wish)).await.expect("there is work");
        task
    }

    /// A task that begins in so many seconds.
    async fn begins_in(&self, seconds: u64) -> TaskId {
        let start_at = Some(self.now() + Millis::seconds(seconds));
        self.make(NewTask { start_at, ..ready("later") }).await
    }

    /// What the last entries tell of.
    async fn told_after(&self, position: u64) -> Vec<TaskId> {
        let of_task = |about| match about {
            About::Task(task, _) => Some(task),
            About::Records(_) => None,
        };
        self.entries_after(position).await.iter().filter_map(|it| of_task(it.about)).collect()
    }

    async fn last(&self) -> u64 {
        u64::try_from(self.entries().await.len()).expect("a list has a length")
    }
}

pub async fn an_ended_lease_goes_before_whatever_else_is_due(world: &World) {
    let held = world.held_for(4).await;
    let mut later = vec![];
    for _ in 0..3 {
        later.push(world.begins_in(1).await);
    }
    let before = world.last().await;
    world.silence(Millis::seconds(5));
    assert_eq!(world.sweep_some(1).await, Swept { due: 1, reactions: 0, more: true });
    assert_eq!(world.told_after(before).await, [held], "what was due before it waits");
    world.sweep().await;
    assert_eq!(world.told_after(before + 1).await, later);
}

pub async fn tenants_take_turns_in_a_small_sweep(world: &World) {
    let acme = world.tenant("acme").await;
    for _ in 0..5 {
        world.begins_in(1).await;
    }
    for _ in 0..2 {
        acme.begins_in(2).await;
    }
    let before = (world.last().await, acme.last().await);
    world.silence(Millis::seconds(3));
    assert_eq!(world.sweep_some(4).await, Swept { due: 4, reactions: 0, more: true });
    let passed = (world.last().await - before.0, acme.last().await - before.1);
    assert_eq!(passed, (2, 2), "whoever has much to do does not push the others aside");
    assert_eq!(world.sweep_some(4).await, Swept { due: 3, reactions: 0, more: false });
}

/// A task whose end is told to so many others.
async fn awaited(world: &World, count: usize) {
    let on = world.queued().await;
    for _ in 0..count {
        world.make(NewTask { depends_on: [on].into(), ..ready("waits") }).await;
    }
    let grip = world.take(on, &solo("bob")).await.expect("it is ready");
    world.agent(&grip, complete()).await.expect("bob holds it");
}

pub async fn what_is_owed_gets_its_share_of_a_sweep(world: &World) {
    awaited(world, 3).await;
    for _ in 0..12 {
        world.begins_in(1).await;
    }
    world.silence(Millis::seconds(2));
    assert_eq!(world.sweep_some(8).await, Swept { due: 6, reactions: 2, more: true });
    assert_eq!(world.sweep_some(8).await, Swept { due: 6, reactions: 1, more: false });
}

pub async fn tenants_take_turns_in_what_is_owed(world: &World) {
    let acme = world.tenant("acme").await;
    awaited(world, 6).await;
    awaited(&acme, 2).await;
    let before = (world.last().await, acme.last().await);
    assert_eq!(world.sweep_some(4).await, Swept { due: 0, reactions: 4, more: true });
    let told = (world.last().await - before.0, acme.last().await - before.1);
    assert_eq!(told, (2, 2));
    world.sweep().await;
}

pub async fn only_a_lease_is_overdue(world: &World) {
    let overdue = async || world.store().health().await.expect("reading works").overdue;
    world.begins_in(1).await;
    world.silence(Millis::seconds(3));
    assert_eq!(overdue().await, Millis(0), "a task that begins late is no lease");
    world.sweep().await;
    world.held_for(2).await;
    world.silence(Millis::seconds(3));
    // The store tells what it knew at its last commit.
    assert_eq!(overdue().await, Millis::seconds(1));
    world.sweep().await;
    assert_eq!(overdue().await, Millis(0));
}
