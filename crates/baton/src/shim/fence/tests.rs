use super::{AHEAD_MS_MAX, Fence, Moment, Order, WAKE_MS};

/// A machine that slept for so long.
fn at(boot: u64, slept: u64) -> Moment {
    Moment { boot, awake: boot - slept }
}

#[test]
fn an_agent_that_nobody_renews_is_killed_at_its_fence() {
    let mut fence = Fence::new(10_000, at(1_000, 0));
    assert_eq!(fence.order(at(9_999, 0)), Order::Live { until: 10_000 });
    assert_eq!(fence.order(at(10_000, 0)), Order::Kill);
}

#[test]
fn a_renewed_fence_moves_and_never_comes_nearer() {
    let mut fence = Fence::new(10_000, at(1_000, 0));
    assert!(!fence.renew(20_000, at(9_000, 0)), "nothing stood still");
    assert!(!fence.renew(15_000, at(9_001, 0)));
    assert_eq!(fence.order(at(19_999, 0)), Order::Live { until: 20_000 });
    assert_eq!(fence.order(at(20_000, 0)), Order::Kill);
}

#[test]
fn a_machine_that_slept_past_the_fence_freezes_first_and_kills_half_a_minute_later() {
    let mut fence = Fence::new(10_000, at(1_000, 500));
    let until = 90_000 + WAKE_MS;
    assert_eq!(fence.order(at(90_000, 85_500)), Order::Freeze { until });
    assert_eq!(fence.order(at(until - 1, 85_500)), Order::Freeze { until });
    assert_eq!(fence.order(at(until, 85_500)), Order::Kill);
}

#[test]
fn a_renewal_after_sleep_thaws_and_one_into_the_past_does_not() {
    let mut fence = Fence::new(10_000, at(1_000, 0));
    assert!(matches!(fence.order(at(90_000, 80_000)), Order::Freeze { .. }));
    assert!(!fence.renew(89_000, at(90_001, 80_000)));
    assert!(matches!(fence.order(at(90_002, 80_000)), Order::Freeze { .. }));
    assert!(fence.renew(190_000, at(90_003, 80_000)), "it stood still until now");
    assert_eq!(fence.order(at(90_004, 80_000)), Order::Live { until: 190_000 });
    assert_eq!(fence.order(at(190_000, 80_000)), Order::Kill, "it did not sleep since");
}

#[test]
fn a_sleep_before_the_fence_changes_nothing() {
    let mut fence = Fence::new(10_000, at(1_000, 0));
    assert_eq!(fence.order(at(9_000, 7_000)), Order::Live { until: 10_000 });
}

#[test]
fn no_fence_is_further_ahead_than_the_longest_lease() {
    let mut fence = Fence::new(u64::MAX, at(1_000, 0));
    assert_eq!(fence.order(at(1_000, 0)), Order::Live { until: 1_000 + AHEAD_MS_MAX });
}
