//! The same of a database elsewhere.

use baton_domain::time::Timestamp;
use baton_store::postgres::backup::Edition;
use baton_store::postgres::examine::{Condition, Readers, Standbys};

use super::{Level, NOON, check, judge, well};
use crate::surroundings::Hidden;

fn sound() -> Condition {
    Condition {
        edition: Edition { version: 1, incarnation: 7, pepper: None },
        server: "17.2".into(),
        user: "baton".into(),
        now: NOON,
        connections_left: 80,
        connections_ours: 0,
        connections_max: 13,
        readers: Readers {
            name: "baton_reader".into(),
            is_usable: true,
            missing: vec![],
            excess: vec![],
        },
        standbys: Standbys::default(),
        pooled_unsaid: false,
    }
}

fn found(level: Level, about: &str, fix: &str, change: impl FnOnce(&mut Condition)) {
    check(level, about, fix, |facts| {
        let mut condition = sound();
        change(&mut condition);
        facts.around.database_url = Some(Hidden::new("postgres://localhost/baton"));
        facts.condition = Some(condition);
    });
}

#[test]
fn a_sound_database_elsewhere_has_no_findings() {
    let mut facts = well();
    facts.condition = Some(sound());
    let findings = judge(&facts);
    assert!(findings.iter().all(|one| one.level == Level::Good));
    assert!(findings.iter().any(|one| one.about == "postgres"));
}

#[test]
fn what_is_wrong_with_a_database_elsewhere_is_found_alone() {
    use Level::{Odd, Wrong};
    found(Wrong, "rights", "GRANT \"baton_reader\" TO baton", |it| it.readers.is_usable = false);
    found(Wrong, "rights", "baton serve", |it| it.readers.missing = vec!["flows.body".into()]);
    found(Wrong, "rights", "baton serve", |it| it.readers.excess = vec!["leases.nonce".into()]);
    let standbys = |are_named, count, synchronous| Standbys {
        are_named,
        count,
        synchronous,
        hidden: 0,
        behind_ms: None,
    };
    found(Wrong, "standby", "RESET synchronous_standby_names", |it| {
        it.standbys = standbys(true, 0, 0);
    });
    found(Wrong, "standby", "pg_stat_replication", |it| it.standbys = standbys(true, 2, 0));
    found(Odd, "standby", "synchronous_standby_names = '*'", |it| {
        it.standbys = standbys(false, 1, 0);
    });
    found(Odd, "standby", "replay_lag", |it| {
        it.standbys = Standbys { behind_ms: Some(60_000), ..standbys(true, 1, 1) };
    });
    found(Wrong, "connections", "max_connections", |it| it.connections_left = 12);
    found(Odd, "connections", "max_connections", |it| {
        (it.connections_left, it.connections_ours) = (4, 13);
    });
}

#[test]
fn a_clock_apart_and_an_unsaid_pooler_are_found_alone() {
    found(Level::Odd, "clock", "timedatectl", |it| it.now = Timestamp(NOON.0 + 61_000));
    let fix = "$BATON_DATABASE_URL?pooler=transaction";
    found(Level::Wrong, "pooler", fix, |it| it.pooled_unsaid = true);
}
