use baton_domain::ids::{TaskId, TenantId};
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use baton_store::Request;

use super::{name, tenant};
use crate::identity::{ForceGuard, RateLimited};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn other() -> TenantId {
    TenantId::new("acme").expect("a plain word is a name")
}

#[test]
fn three_forces_a_minute_and_no_more() {
    let guard = ForceGuard::default();
    let force = |at: Timestamp| guard.admit(&tenant(), &name("ann"), TaskId(1), None, at);
    for second in 0..3 {
        force(NOW + Millis::seconds(second)).expect("there is room");
    }
    let late = NOW + Millis::seconds(10);
    let refused = force(late).expect_err("that is the fourth");
    assert_eq!(refused, RateLimited { retry_after: Millis::seconds(50) });
    assert_eq!(refused.code(), "rate_limited");
    assert_eq!(refused.to_string(), "this was forced too often; try again in 50 s");
    force(late + Millis(refused.retry_after.0 - 1)).expect_err("not yet");
    force(late + refused.retry_after).expect("a refused one did not count");
}

#[test]
fn thirty_forces_an_hour_and_no_more() {
    let guard = ForceGuard::default();
    let force = |at: Timestamp| guard.admit(&tenant(), &name("ann"), TaskId(1), None, at);
    for minute in 0..30 {
        force(NOW + Millis::minutes(minute)).expect("there is room");
    }
    let refused = force(NOW + Millis::minutes(31)).expect_err("that is one too many");
    assert_eq!(refused.retry_after, Millis::minutes(29));
    force(NOW + Millis::hours(1)).expect("the first is an hour ago");
    force(NOW + Millis::hours(1)).expect_err("the second is not");
}

#[test]
fn callers_tasks_and_tenants_are_counted_apart() {
    let guard = ForceGuard::default();
    for _ in 0..3 {
        guard.admit(&tenant(), &name("ann"), TaskId(1), None, NOW).expect("there is room");
    }
    guard.admit(&tenant(), &name("ann"), TaskId(1), None, NOW).expect_err("there is none");
    guard.admit(&tenant(), &name("bob"), TaskId(1), None, NOW).expect("bob forced nothing");
    guard.admit(&tenant(), &name("ann"), TaskId(2), None, NOW).expect("another task");
    guard.admit(&other(), &name("ann"), TaskId(1), None, NOW).expect("another tenant");
}

#[test]
fn a_repeated_request_is_no_new_force() {
    let guard = ForceGuard::default();
    let force = |word: &str| {
        let key = Text::new("key", word).expect("a text");
        let request = Request { key, fingerprint: [1; 32] };
        guard.admit(&tenant(), &name("ann"), TaskId(1), Some(&request), NOW)
    };
    for word in ["a", "a", "b", "a", "c", "c"] {
        force(word).expect("there is room");
    }
    force("d").expect_err("that is the fourth");
    force("a").expect("it was counted when it came first");
}

#[test]
fn nobody_makes_it_forget_by_forcing_much() {
    let guard = ForceGuard::default();
    let force = |tenant: &TenantId, task: u64, at| {
        guard.admit(tenant, &name("ann"), TaskId(task), None, at)
    };
    let admitted = (1..=2_000).filter(|task| force(&tenant(), *task, NOW).is_ok()).count();
    assert_eq!(admitted, 1_024);
    force(&tenant(), 1, NOW).expect("who is watched is counted on");
    force(&other(), 2_000, NOW).expect("one tenant does not fill the place of all");
    let later = NOW + Millis::hours(1);
    force(&tenant(), 2_000, later).expect("the others forced nothing for an hour");
}

#[test]
fn all_tenants_together_have_a_bound() {
    let guard = ForceGuard::default();
    let named = |number: u64| TenantId::new(&format!("t{number}")).expect("it is a name");
    let all = (0..20).flat_map(|tenant| (1..=1_024).map(move |task| (tenant, task)));
    let force = |(tenant, task): &(u64, u64)| {
        guard.admit(&named(*tenant), &name("ann"), TaskId(*task), None, NOW).is_ok()
    };
    assert_eq!(all.filter(force).count(), 16_384);
}
