use std::net::IpAddr;

use baton_domain::time::{Millis, Timestamp};

use super::{Gauge, KNOWN_MAX, Rates, Table, counted};

const NOON: Timestamp = Timestamp(1_700_000_000_000);

fn later(millis: i64) -> Timestamp {
    Timestamp(NOON.0 + millis)
}

#[test]
fn a_burst_is_allowed_and_then_one_per_interval() {
    let table: Table<&str> = Table::new();
    for _ in 0..20 {
        assert_eq!(table.take(&"fox", 2, NOON), Ok(()));
    }
    assert_eq!(table.take(&"fox", 2, NOON), Err(Millis(500)));
    assert_eq!(table.take(&"owl", 2, NOON), Ok(()), "everybody is counted apart");
    assert_eq!(table.take(&"fox", 2, later(499)), Err(Millis(1)));
    assert_eq!(table.take(&"fox", 2, later(500)), Ok(()));
    assert_eq!(table.take(&"fox", 2, later(500)), Err(Millis(500)));
    for _ in 0..20 {
        assert_eq!(table.take(&"fox", 2, later(60_000)), Ok(()), "a pause gives the burst back");
    }
}

#[test]
fn zero_is_no_limit() {
    let gauge = Gauge::new(Rates::default());
    let from = "203.0.113.7".parse().ok();
    for _ in 0..100_000 {
        assert!(gauge.address(from, NOON).is_ok());
        gauge.failed(from, NOON);
    }
    assert!(gauge.may_try(from, NOON).is_ok());
}

#[test]
fn a_crowd_does_not_make_the_table_grow_nor_the_worst_forgotten() {
    let table: Table<usize> = Table::new();
    for _ in 0..10 {
        assert_eq!(table.take(&usize::MAX, 1, NOON), Ok(()));
    }
    for who in 0..3 * KNOWN_MAX {
        assert_eq!(table.take(&who, 1, NOON), Ok(()));
    }
    assert_eq!(table.0.lock().expect("nobody panicked").len(), KNOWN_MAX);
    assert!(table.take(&usize::MAX, 1, NOON).is_err());
}

#[test]
fn failures_are_limited_harder_and_only_beyond_this_machine() {
    let gauge = Gauge::new(Rates::USUAL);
    let (beyond, here) = ("203.0.113.7".parse().ok(), "127.0.0.1".parse().ok());
    for _ in 0..10 {
        assert!(gauge.may_try(beyond, NOON).is_ok());
        gauge.failed(beyond, NOON);
        gauge.failed(here, NOON);
    }
    let refused = gauge.may_try(beyond, NOON).expect_err("it has failed ten times");
    assert_eq!((refused.code(), &refused.body()["retry_after"]), ("rate_limited", &"1s".into()));
    assert!(gauge.may_try(here, NOON).is_ok() && gauge.may_try(None, NOON).is_ok());
    assert!(gauge.may_try(beyond, later(1_000)).is_ok());
}

#[test]
fn a_site_with_many_addresses_is_one_caller() {
    let counted = |text: &str| counted(text.parse().expect("an address"));
    let one: Option<IpAddr> = "2001:db8:1:2::".parse().ok();
    assert_eq!(counted("2001:db8:1:2:3:4:5:6"), one);
    assert_eq!(counted("2001:db8:1:2:ffff::1"), one);
    assert_eq!(counted("::ffff:203.0.113.7"), "203.0.113.7".parse().ok());
    assert_eq!(
        (counted("::1"), counted("127.8.8.8"), counted("::ffff:127.0.0.1")),
        (None, None, None)
    );
}
