//! What an examination finds in a real database, and that the next start puts right what it can.

use baton_store::postgres::examine::{Condition, examine};
use baton_testkit::postgres::{Cluster, Disk, Pooler};

use crate::site::{chance, close, opened, wait};

fn examined(url: &str) -> Condition {
    wait(examine(url, &mut chance(3))).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn rights_that_were_changed_are_found_and_put_right_at_the_next_start() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    assert!(examined(&database.url()).readers.is_usable, "it may still be made");
    close(opened(&database.url(), 1));
    let sound = examined(&database.url());
    assert_eq!((sound.readers.missing.len(), sound.readers.excess.len()), (0, 0));
    assert!(sound.readers.is_usable && !sound.pooled_unsaid);
    assert_eq!((sound.standbys.count, sound.standbys.are_named), (0, false));
    assert!(sound.connections_left > sound.connections_max, "{sound:?}");

    let reader = format!("\"{}\"", sound.readers.name);
    database.say(&format!("REVOKE SELECT (body) ON flows FROM {reader}"));
    database.say(&format!("GRANT SELECT ON leases TO {reader}"));
    let changed = examined(&database.url()).readers;
    assert_eq!(changed.missing, ["flows.body"]);
    assert_eq!(changed.excess, ["leases.nonce"]);
    close(opened(&database.url(), 2));
    let again = examined(&database.url()).readers;
    assert_eq!((again.missing.len(), again.excess.len()), (0, 0), "{again:?}");

    database.say(&format!("REVOKE {reader} FROM baton; ALTER ROLE baton CONNECTION LIMIT 6"));
    let poor = examined(&database.url());
    assert!(!poor.readers.is_usable);
    assert!(poor.connections_left < poor.connections_max, "{poor:?}");
    database.say("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    database.say("SELECT pg_reload_conf()");
    while !examined(&database.url()).standbys.are_named {
        std::thread::yield_now();
    }
}

#[test]
fn a_pooler_that_nobody_mentioned_is_found() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    close(opened(&database.url(), 1));
    let pooler = Pooler::before(&database);
    assert!(examined(&pooler.url_unsaid()).pooled_unsaid);
    assert!(!examined(&pooler.url()).pooled_unsaid, "it was mentioned");
    assert!(!examined(&database.url()).pooled_unsaid, "there is none");
}
