//! Clocks that are set, and clocks that are read too early.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use baton_domain::command::{Command, NewTask};
use baton_domain::ids::TaskId;
use baton_domain::policy::Policy;
use baton_domain::pool::PoolName;
use baton_domain::time::{Millis, Timestamp};
use baton_store::clock::ManualClock;
use baton_store::{Aim, Clock, Order, Store};

use super::{Other, within};
use crate::backend::{Postgres, open};
use crate::words::{caller, ready, retitle, solo, tenant};
use crate::world::World;

/// A clock in front of the database's own, that can be set.
const CLOCK: [&str; 6] = [
    "CREATE SCHEMA fake",
    "GRANT USAGE ON SCHEMA fake TO PUBLIC",
    "CREATE TABLE fake.skew AS SELECT interval '0' AS ahead",
    "GRANT SELECT ON fake.skew TO PUBLIC",
    "CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
     AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM fake.skew)'",
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, fake, pg_catalog',
     current_database()); END $$",
];

/// Orders something small; tells when it happened.
async fn when(store: &dyn Store, task: TaskId, title: &str) -> Timestamp {
    let aim = Aim::Task(task, vec![Command::Person(retitle(title))]);
    let order = Order { tenant: tenant("local"), actor: caller("ann"), aim, request: None };
    store.submit(order).await.expect("nothing is wrong with it").at
}

#[test]
fn a_clock_that_is_set_back_freezes_no_lease() {
    let place = Postgres::fresh();
    let database = place.database();
    for statement in CLOCK {
        database.say(statement);
    }
    let other = Other { real_time: true, ..Other::at(place) };
    crate::run(other, async |world: &World| {
        let first = world.store();
        let task = world.held_for(2).await;
        let began = when(&*first, task, "one").await;
        database.say("UPDATE fake.skew SET ahead = '-1 hour'");
        within("the end of a lease", async {
            while world.row(task).await.lease.is_some() {
                world.sweep_some(100).await;
            }
        })
        .await;
        let behind = first.health().await.expect("it can be asked").clock_behind;
        assert!(behind > Millis::minutes(59) && behind < Millis::minutes(61), "{behind:?}");
        let second = open(&database.url(), None, Arc::new(|_| {}), 5);
        let (by_first, by_second) =
            (when(&*first, task, "two").await, when(&second, task, "three").await);
        assert!(by_first >= began && by_second.since(by_first) < Millis::seconds(5));
        database.say("UPDATE fake.skew SET ahead = '0'");
        let (again, by_second) =
            (when(&*first, task, "four").await, when(&second, task, "five").await);
        assert!(again.since(began) < Millis::minutes(1), "it is not an hour later, either");
        assert!(by_second.since(again) < Millis::seconds(5));
        let behind = first.health().await.expect("it can be asked").clock_behind;
        assert!(behind < Millis::seconds(10), "{behind:?}");
    });
}

/// A clock that does something the so-manieth time it is asked, and only then answers, with the
/// time from before.
struct Trap {
    clock: Arc<ManualClock>,
    left: AtomicUsize,
    spring: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Trap {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let spring = self.spring.lock().expect("nobody panics").take();
            spring.expect("it is set").call();
        }
        now
    }
}

/// Calls what is boxed, on a thread that may wait.
trait Call {
    fn call(self);
}

impl Call for Box<dyn FnOnce() + Send> {
    fn call(self) {
        std::thread::scope(|scope| scope.spawn(self).join().expect("nothing is wrong with it"));
    }
}

#[test]
fn a_head_that_is_locked_late_is_judged_after_its_last_entry() {
    let place = Postgres::fresh();
    let url = place.database().url();
    let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
    let left = AtomicUsize::new(usize::MAX / 2);
    let trap = Arc::new(Trap { clock: Arc::clone(&clock), left, spring: Mutex::new(None) });
    let own: Arc<dyn Clock> = trap.clone();
    let backend = Other { clock: Some(own), ..Other::at(place) };
    crate::run(backend, async |world: &World| {
        let costly = || NewTask {
            policy: Policy { budget_micros: 100, ..Policy::default() },
            ..ready("costly")
        };
        let (poor, rich) = (world.make(costly()).await, world.make(costly()).await);
        world.limit(PoolName::Budget(poor), 99).await;
        let other = open(&url, Some(clock.clone()), Arc::new(|_| {}), 9);
        // After the first head was locked, and before the second is, the second is written to: the time
        // is asked once for the batch, and once with each round of heads.
        let edit = move || {
            clock.advance(Millis::seconds(1));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime needs nothing");
            runtime.block_on(when(&other, rich, "another title"));
        };
        *trap.spring.lock().expect("nobody panics") = Some(Box::new(edit));
        trap.left.store(2, Ordering::SeqCst);
        let claimed = world.claim(&solo("bob")).await.expect("the second can be had");
        assert_eq!(claimed.task, rich);
        assert!(
            trap.spring.lock().expect("nobody panics").is_none(),
            "it was written to meanwhile"
        );
    });
}
