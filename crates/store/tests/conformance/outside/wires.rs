//! Networks that swallow, standbys that are away, and plans that no longer fit.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::command::Command;
use baton_store::{Aim, Certainty, Committed, Error, Request};
use baton_testkit::postgres::{Cluster, Database, Disk, Network};

use super::{Other, run, within};
use crate::backend::Postgres;
use crate::words::{caller, retitle, text};
use crate::world::World;

impl World {
    /// A small change under a key of its own.
    async fn small(&self, key: &str) -> Result<Committed, Error> {
        let task = baton_domain::ids::TaskId(1);
        let request = Request { key: text(key), fingerprint: [1; 32], asked_in: None };
        let aim = Aim::Task(task, vec![Command::Person(retitle(key))]);
        self.order(caller("ann"), aim, Some(request)).await
    }
}

#[test]
fn slow_a_network_that_swallows_everything_is_answered_in_bounded_time() {
    let place = Postgres::fresh();
    let network = Network::before(&place.database());
    let backend = Other { url: network.url(), ..Other::at(place) };
    crate::run(backend, async |world: &World| {
        world.queued().await;
        world.small("before").await.expect("the way is open");
        network.swallow();
        let told = within("an answer", world.small("meanwhile")).await;
        assert!(matches!(told, Err(Error::Unknown(_) | Error::Stopped(_))), "{told:?}");
        let swept = within("an answer", world.store().submit(baton_store::Order::sweep(1))).await;
        assert!(swept.is_err(), "{swept:?}");
        network.heal();
        within("the next answer", async { while world.small("meanwhile").await.is_err() {} }).await;
    });
}

/// Whose commit waits for a standby.
fn waiting_for_a_standby(database: &Database) -> bool {
    let waiting = "SELECT pid FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND query ILIKE 'commit%'";
    !database.say(waiting).is_empty()
}

/// Has every commit that waits for a standby wait no longer.
fn stop_waiting(database: &Database) {
    database.say(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event = 'SyncRep' AND query ILIKE 'commit%'",
    );
}

/// What is known of something whose commit waited for a standby in vain.
async fn in_doubt(
    database: &Database,
    asking: impl Future<Output = Result<(), Error>> + Send + 'static,
) -> Option<Certainty> {
    let asked = tokio::spawn(asking);
    let stopped = async {
        while !asked.is_finished() {
            if waiting_for_a_standby(database) {
                stop_waiting(database);
            }
        }
    };
    within("an answer", stopped).await;
    asked.await.expect("nothing panics").err().map(|error| error.certainty())
}

#[test]
fn slow_a_commit_that_no_standby_confirmed_is_in_doubt() {
    let cluster = Cluster::start(Disk::Careful);
    let place = Postgres::in_cluster(&cluster);
    let database = place.database();
    crate::run(place, async |world: &World| {
        world.queued().await;
        database.say("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
        database.say("SELECT pg_reload_conf()");
        let number = AtomicU64::new(0);
        let waits = async {
            // The setting arrives a little later: the first commits may not know of it.
            loop {
                let key = format!("small-{}", number.fetch_add(1, Ordering::SeqCst));
                let (own, at) = (world.clone(), key.clone());
                let asked = tokio::spawn(async move { own.small(&at).await });
                while !asked.is_finished() {
                    if waiting_for_a_standby(&database) {
                        return (key, asked);
                    }
                }
                asked.await.expect("an order does not panic").expect("nobody waits for anybody");
            }
        };
        let (key, asked) = within("a commit that waits", waits).await;
        stop_waiting(&database);
        let told = asked.await.expect("an order does not panic");
        let certainty = told.as_ref().map_err(Error::certainty).err();
        assert_eq!(certainty, Some(Certainty::Unknown), "{told:?}");
        // It can be seen here, and is still on one disk alone.
        let (own, at) = (world.clone(), key.clone());
        let again = in_doubt(&database, async move { own.small(&at).await.map(drop) }).await;
        assert_eq!(again, Some(Certainty::Unknown), "it is asked for again");
        let (own, at) = (world.clone(), key.clone());
        let asked = in_doubt(&database, async move {
            let ann = caller("ann").principal;
            own.store().asked_before(&own.tenant, &ann, &at).await.map(drop)
        });
        assert_eq!(asked.await, Some(Certainty::Unknown), "it is asked whether it happened");
        database.say("ALTER SYSTEM RESET synchronous_standby_names");
        database.say("SELECT pg_reload_conf()");
        let again = within("an answer", world.small(&key)).await.expect("it is settled");
        assert!(again.replayed, "it had happened here");
    });
    drop(cluster);
}

#[test]
fn a_plan_that_no_longer_fits_is_made_anew() {
    run(async |world, database| {
        world.queued().await;
        for count in 0..8 {
            world.small(&format!("before-{count}")).await.expect("nothing is wrong with it");
        }
        database.say("ALTER TABLE requests ALTER COLUMN principal TYPE varchar");
        for count in 0..8 {
            world.small(&format!("after-{count}")).await.expect("a new plan is made");
        }
    });
}
