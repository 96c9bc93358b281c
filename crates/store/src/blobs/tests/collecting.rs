use std::cell::RefCell;
use std::fs;
use std::num::NonZeroU32;

use super::super::{Blobs, Collect, Collected, Digest, Put};
use super::{Bench, Watched, at, code, collect, files_below, long_content, order, put};

#[test]
fn what_is_old_and_not_live_goes_and_all_else_stays() {
    let bench = Bench::ample();
    let old = bench.put(b"old", 0).expect("stored").digest;
    let live = bench.put(b"live", 0).expect("stored").digest;
    let young = bench.put(b"young", 50).expect("stored").digest;
    let collected = bench.collect(&[live], 60, 100);
    assert_eq!(
        collected,
        Collected { kept: 2, removed: 1, freed_bytes: 3, ..Collected::default() }
    );
    let answers = [old, live, young].map(|digest| code(bench.blobs().get("local", &digest)));
    assert_eq!(answers, ["not_found", "ok", "ok"]);
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 9);
}

#[test]
fn the_grace_is_exact() {
    for (now, removed) in [(159, 0), (160, 1), (161, 1)] {
        let bench = Bench::ample();
        bench.put(b"bytes", 100).expect("stored");
        assert_eq!(bench.collect(&[], 60, now).removed, removed, "{now}");
    }
}

#[test]
fn the_young_are_not_even_asked_for() {
    let bench = Bench::ample();
    bench.put(b"bytes", 100).expect("stored");
    let asked = RefCell::new(0);
    let is_live = |_: &Digest| {
        *asked.borrow_mut() += 1;
        false
    };
    bench.blobs().collect("local", &is_live, &collect(60, 120)).expect("collected");
    assert_eq!(*asked.borrow(), 0);
}

#[test]
fn a_clock_that_went_back_removes_nothing() {
    let bench = Bench::ample();
    bench.put(b"bytes", 100).expect("stored");
    assert_eq!(bench.collect(&[], 60, 50).removed, 0);
}

#[test]
fn a_blob_dated_by_a_wrong_clock_into_the_future_ages_from_now() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 1_000_000).expect("stored").digest;
    assert_eq!(bench.collect(&[], 60, 100).kept, 1);
    assert_eq!(bench.blobs().stat("local", &digest).expect("there").refreshed_at, at(100));
    assert_eq!(bench.collect(&[], 60, 159).removed, 0);
    assert_eq!(bench.collect(&[], 60, 160).removed, 1);
}

#[test]
fn a_put_again_while_its_blob_is_judged_keeps_the_blob() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    // The judgement is the moment between the look at the age and the removal.
    let is_live = |_: &Digest| {
        assert!(!bench.put(b"bytes", 100).expect("stored").new);
        false
    };
    let collected = bench.blobs().collect("local", &is_live, &collect(60, 100));
    assert_eq!(collected.expect("collected"), Collected { kept: 1, ..Collected::default() });
    assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok");
}

#[test]
fn a_refresh_while_its_blob_is_judged_keeps_the_blob() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let is_live = |digest: &Digest| {
        bench.blobs().refresh("local", digest, at(100)).expect("there");
        false
    };
    let collected = bench.blobs().collect("local", &is_live, &collect(60, 100));
    assert_eq!(collected.expect("collected").kept, 1);
    assert_eq!(code(bench.blobs().get("local", &digest)), "ok");
}

#[test]
fn a_put_again_while_its_bytes_are_coming_ends_with_the_blob_stored() {
    let bench = Bench::ample();
    let content = long_content(0);
    bench.put(&content, 0).expect("stored");
    let mut removed = 0;
    let mut on_read = || removed += bench.collect(&[], 60, 100).removed;
    let mut reader = Watched { content: &content, on_read: &mut on_read };
    let again = bench.blobs().put("local", &mut reader, &order(100)).expect("stored");
    assert_eq!(removed, 1);
    assert!(again.new);
    assert_eq!(code(bench.blobs().get_verified("local", &again.digest)), "ok");
    assert_eq!(bench.blobs().usage("local").expect("known").blobs, 1);
}

#[test]
fn two_collectors_at_once_count_each_removal_once() {
    let bench = Bench::ample();
    bench.put(b"bytes", 0).expect("stored");
    let inner = RefCell::new(Collected::default());
    let is_live = |_: &Digest| {
        *inner.borrow_mut() = bench.collect(&[], 60, 100);
        false
    };
    let outer = bench.blobs().collect("local", &is_live, &collect(60, 100)).expect("collected");
    assert_eq!((inner.borrow().removed, outer.removed, outer.kept), (1, 0, 0));
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 0);
}

#[test]
fn a_refreshed_blob_has_its_grace_anew() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let stat = bench.blobs().refresh("local", &digest, at(100)).expect("there");
    assert_eq!((stat.size, stat.refreshed_at), (5, at(100)));
    assert_eq!(bench.collect(&[], 60, 159).removed, 0);
    assert_eq!(bench.collect(&[], 60, 160).removed, 1);
    assert_eq!(code(bench.blobs().refresh("local", &digest, at(161))), "not_found");
}

#[test]
fn a_call_looks_at_no_more_than_its_budget_and_the_next_goes_on() {
    let bench = Bench::ample();
    for number in 0..10 {
        bench.put(format!("blob {number}").as_bytes(), 0).expect("stored");
    }
    let asked = RefCell::new(Vec::new());
    let is_live = |digest: &Digest| {
        asked.borrow_mut().push(*digest);
        asked.borrow().len() % 2 == 0
    };
    let budget = NonZeroU32::new(4).expect("not zero");
    let rules = Collect { budget, ..collect(60, 100) };
    let calls: Vec<_> = (0..3)
        .map(|_| bench.blobs().collect("local", &is_live, &rules).expect("collected"))
        .map(|call| (call.kept, call.removed, call.more))
        .collect();
    assert_eq!(calls, [(2, 2, true), (2, 2, true), (1, 1, false)]);
    assert!(asked.borrow().is_sorted());
    // The next pass begins at the beginning.
    assert_eq!(bench.collect(&[], 60, 100).removed, 5);
}

#[test]
fn a_budget_of_just_all_leaves_no_more() {
    let bench = Bench::ample();
    for content in ["a", "b"] {
        bench.put(content.as_bytes(), 0).expect("stored");
    }
    let budget = NonZeroU32::new(2).expect("not zero");
    let rules = Collect { budget, ..collect(60, 10) };
    let collected = bench.blobs().collect("local", &|_| true, &rules).expect("collected");
    assert_eq!((collected.kept, collected.more), (2, false));
}

#[test]
fn one_tenants_collection_does_not_touch_another() {
    let bench = Bench::ample();
    put(bench.blobs(), "one", b"bytes", 0).expect("stored");
    put(bench.blobs(), "two", b"bytes", 0).expect("stored");
    assert_eq!(
        bench.blobs().collect("one", &|_| false, &collect(0, 1)).expect("collected").removed,
        1
    );
    assert_eq!(code(bench.blobs().get("two", &Digest::of(b"bytes"))), "ok");
}

#[test]
fn folders_that_become_empty_go_too() {
    let bench = Bench::ample();
    bench.put(b"bytes", 0).expect("stored");
    bench.collect(&[], 0, 1);
    assert_eq!(fs::read_dir(bench.root().join("tenants")).expect("there").count(), 0);
    assert_eq!(code(bench.put(b"bytes", 1)), "ok");
}

#[test]
fn old_leftovers_go_young_ones_and_arriving_bytes_stay() {
    let bench = Bench::ample();
    let incoming = bench.root().join("incoming");
    fs::write(incoming.join("0-99.part"), b"old").expect("ours");
    fs::write(incoming.join("90000-98.part"), b"young").expect("ours");
    let content = long_content(0);
    let mut removed = 0;
    let mut on_read = || removed += bench.collect(&[], 60, 100).leftovers_removed;
    let mut reader = Watched { content: &content, on_read: &mut on_read };
    // It began as long ago as the old leftover.
    bench.blobs().put("local", &mut reader, &order(0)).expect("stored");
    assert_eq!(removed, 1);
    assert_eq!(files_below(&incoming), 1);
    assert!(incoming.join("90000-98.part").exists());
}

#[test]
fn what_cannot_be_collected_does_not_stop_the_rest() {
    let bench = Bench::ample();
    let stuck = bench.put(b"a", 0).expect("stored").digest;
    bench.put(b"b", 0).expect("stored");
    fs::remove_file(bench.path(&stuck)).expect("ours");
    fs::create_dir(bench.path(&stuck)).expect("ours");
    let collected = bench.collect(&[], 0, 1);
    assert_eq!((collected.removed, collected.failed, collected.more), (1, 1, false));
}

#[test]
fn a_repeat_without_room_whose_blob_is_collected_meanwhile_is_refused() {
    let mut bench = Bench::ample();
    bench.settings.tenant_quota.blobs_max = 1;
    bench.reopen();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let mut removed = 0;
    let mut on_read = || removed += bench.collect(&[], 60, 100).removed;
    let mut reader = Watched { content: b"bytes", on_read: &mut on_read };
    let put = Put { expected: Some(digest), ..order(100) };
    // Success without the blob would be a lie; repeated, the put finds the room that was made.
    assert_eq!(code(bench.blobs().put("local", &mut reader, &put)), "quota_exceeded");
    assert_eq!(removed, 1);
    assert!(bench.put(b"bytes", 100).expect("stored").new);
}
