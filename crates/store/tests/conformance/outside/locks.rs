//! Rows that somebody holds.

use baton_domain::Refusal;
use baton_domain::command::{Command, NewTask, Supervisor};
use baton_domain::ids::TaskId;
use baton_domain::time::Millis;
use baton_store::order::Swept;
use baton_store::{Aim, Error, Freed};
use baton_testkit::postgres::{Database, Session};

use super::{run, within};
use crate::words::{caller, complete, ready, retitle, solo};
use crate::world::World;

/// How often a database is looked at before it is believed that nobody waits there.
const LOOKS_MAX: u32 = 200;
/// Orders that may wait for somebody at once; a store that let one more wait would keep others from
/// being carried out.
const LONERS: usize = 3;

/// Somebody who holds the rows of a task in a table, as whoever edits them does.
fn hold(database: &Database, table: &str, task: TaskId) -> Session {
    let somebody = database.session();
    somebody.say("BEGIN");
    let rows = somebody.say(&format!("SELECT 1 FROM {table} WHERE task = {} FOR UPDATE", task.0));
    assert!(!rows.is_empty(), "there is something to hold");
    somebody
}

/// Waits until so many wait for somebody, or until it is clear that they do not.
fn see_waiting(database: &Database, count: usize, or: impl Fn() -> bool) {
    let waiting = || {
        database.say(
            "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
    };
    for _ in 0..LOOKS_MAX {
        if or() || waiting().len() >= count {
            return;
        }
    }
}

impl World {
    async fn is_free(&self, task: TaskId) -> bool {
        self.row(task).await.lease.is_none()
    }

    /// Sweeps until a task is free, for what was in somebody's hands is looked at again only after a
    /// while.
    async fn until_free(&self, task: TaskId) {
        within("its end", async {
            while !self.is_free(task).await {
                self.sweep_some(100).await;
            }
        })
        .await;
    }
}

#[test]
fn a_task_that_somebody_holds_stops_nobody_elses_time() {
    run(async |world, database| {
        let (held, free) = (world.held_for(4).await, world.held_for(4).await);
        let somebody = hold(database, "flows", held);
        world.silence(Millis::seconds(5));
        assert_eq!(world.sweep().await, Swept { due: 1, reactions: 0, more: false });
        assert_eq!((world.is_free(held).await, world.is_free(free).await), (false, true));
        world.silence(Millis::seconds(5));
        assert_eq!(world.sweep().await, Swept::default(), "and nobody is given extra time for it");
        somebody.say("ROLLBACK");
        world.until_free(held).await;
    });
}

#[test]
fn a_lease_that_somebody_holds_stops_nobody_elses_time() {
    run(async |world, database| {
        let held = world.held_for(4).await;
        let mut free = vec![];
        for _ in 0..20 {
            free.push(world.held_for(4).await);
        }
        let somebody = hold(database, "leases", held);
        world.silence(Millis::seconds(5));
        let swept = within("a sweep", world.sweep()).await;
        assert_eq!(swept, Swept { due: 20, reactions: 0, more: false });
        for task in free {
            assert!(world.is_free(task).await);
        }
        assert!(!world.is_free(held).await);
        somebody.say("ROLLBACK");
        world.until_free(held).await;
    });
}

#[test]
fn whoever_holds_the_note_of_the_time_stops_nobodys() {
    run(async |world, database| {
        let (first, second) = (world.held_for(4).await, world.held_for(19).await);
        let third = world.held_for(60).await;
        let somebody = database.session();
        somebody.say("BEGIN");
        assert!(!somebody.say("SELECT 1 FROM watched FOR UPDATE").is_empty(), "time is watched");
        world.silence(Millis::seconds(4));
        let swept = within("a sweep", world.sweep()).await;
        assert_eq!(swept, Swept { due: 1, reactions: 0, more: false });
        assert!(world.is_free(first).await);
        // The note is older than an outage by now, and nobody takes it for one.
        for _ in 0..4 {
            world.silence(Millis::seconds(4));
            within("a sweep", world.sweep()).await;
            let edited = within("an order", world.tell(first, retitle("meanwhile"))).await;
            edited.expect("ann may");
        }
        assert!(world.is_free(second).await, "nobody is given extra time for it");
        // Now everybody was away: whoever was not heard is given time, although nobody can note it.
        world.silence(Millis::seconds(60));
        assert_eq!(within("a sweep", world.sweep()).await, Swept::default());
        assert!(!world.is_free(third).await);
        somebody.say("ROLLBACK");
        world.wait(Millis::minutes(2)).await;
        assert!(world.is_free(third).await);
    });
}

#[test]
fn what_is_owed_to_a_task_that_somebody_holds_waits_alone() {
    run(async |world, database| {
        let on = world.queued().await;
        let mut waiting = vec![];
        for _ in 0..2 {
            let new = NewTask { depends_on: [on].into(), ..ready("waits") };
            waiting.push(world.make(new).await);
        }
        let grip = world.take(on, &solo("bob")).await.expect("it is ready");
        world.agent(&grip, complete()).await.expect("bob holds it");
        let somebody = hold(database, "flows", waiting[0]);
        assert_eq!(world.sweep().await, Swept { due: 0, reactions: 1, more: false });
        somebody.say("ROLLBACK");
        within("what is owed", async { while world.sweep().await.reactions == 0 {} }).await;
    });
}

#[test]
fn an_order_for_what_somebody_holds_delays_nobody_else() {
    run(async |world, database| {
        let (held, free) = (world.queued().await, world.queued().await);
        let grip = world.take(free, &solo("bob")).await.expect("it is ready");
        let somebody = hold(database, "flows", held);
        let mut waiting = vec![];
        for count in 1..=4 {
            let (own, edit) = (world.clone(), Command::Person(retitle(&format!("title {count}"))));
            waiting.push(tokio::spawn(async move {
                own.order(caller("ann"), Aim::Task(held, vec![edit]), None).await
            }));
            see_waiting(database, count.min(LONERS), || false);
        }
        let others = async {
            let renewed = world.supervisor(&grip, Supervisor::Renew { lease: None }).await;
            renewed.expect("bob holds it");
            world.sweep().await;
        };
        let others = tokio::time::timeout(std::time::Duration::from_secs(2), others).await;
        somebody.say("ROLLBACK");
        others.expect("what nobody holds is carried out at once");
        for edit in waiting {
            let edited = edit.await.expect("an order does not panic");
            assert!(matches!(edited, Ok(_) | Err(Error::Overloaded)), "{edited:?}");
        }
    });
}

#[test]
fn a_claim_waits_for_a_task_that_is_only_being_edited() {
    run(async |world, database| {
        let task = world.queued().await;
        let somebody = hold(database, "flows", task);
        let own = world.clone();
        let claiming = tokio::spawn(async move { own.claim(&solo("bob")).await });
        see_waiting(database, 1, || claiming.is_finished());
        somebody.say("ROLLBACK");
        let claimed = claiming.await.expect("a claim does not panic");
        assert_eq!(claimed.map(|grip| grip.task), Ok(task));
    });
}

#[test]
fn whoever_found_only_what_somebody_holds_is_woken() {
    run(async |world, database| {
        let task = world.queued().await;
        let somebody = hold(database, "flows", task);
        let claimed = within("an answer", world.claim(&solo("bob"))).await;
        assert_eq!(claimed, Err(Refusal::NothingClaimable));
        let rung = async {
            while !world.rung().await.iter().any(|freed| matches!(freed, Freed::Pools(_))) {}
        };
        within("a bell", rung).await;
        somebody.say("ROLLBACK");
        let claimed = world.claim(&solo("bob")).await;
        assert_eq!(claimed.map(|grip| grip.task), Ok(task));
    });
}
