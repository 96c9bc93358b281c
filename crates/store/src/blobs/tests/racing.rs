use std::sync::Barrier;
use std::thread;

use super::super::{Blobs, Digest, Quota, Settings, Usage};
use super::{AMPLE, Bench, SETTINGS, code, collect, files_below, long_content, put, read};

const THREADS: u8 = 4;

#[test]
fn the_same_bytes_put_by_many_at_once_are_stored_once_for_all() {
    let bench = Bench::ample();
    let content = long_content(0);
    for round in 0..4 {
        let tenant = format!("tenant-{round}");
        let start = Barrier::new(usize::from(THREADS));
        let stored: Vec<_> = thread::scope(|scope| {
            let putting = || {
                start.wait();
                put(bench.blobs(), &tenant, &content, 0).expect("stored")
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(putting)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(stored.iter().filter(|stored| stored.new).count(), 1);
        let digest = Digest::of(&content);
        assert!(stored.iter().all(|stored| stored.digest == digest));
        let usage = bench.blobs().usage(&tenant).expect("known");
        assert_eq!(usage, Usage { blobs: 1, bytes: 700_000 });
        let blob = bench.blobs().get_verified(&tenant, &digest).expect("there");
        assert_eq!(read(blob).expect("read"), content);
    }
    assert_eq!(files_below(&bench.root().join("incoming")), 0);
}

#[test]
fn many_puts_at_once_fill_a_quota_exactly() {
    let each = 700_000;
    let quota = Quota { bytes_max: each * u64::from(THREADS), ..AMPLE };
    let mut bench = Bench::new(Settings { tenant_quota: quota, ..SETTINGS });
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || bench.put(&long_content(seed), 0).expect("stored"));
        }
    });
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, quota.bytes_max);
    assert_eq!(code(bench.put(b"1", 0)), "quota_exceeded");
    bench.reopen();
    assert_eq!(bench.opened.usage.bytes, quota.bytes_max);
}

#[test]
fn many_puts_at_once_never_pass_a_quota() {
    let quota = Quota { bytes_max: 1_500_000, ..AMPLE };
    let bench = Bench::new(Settings { total_quota: quota, ..SETTINGS });
    let stored: usize = thread::scope(|scope| {
        let putting = |seed: u8| {
            let bench = &bench;
            move || put(bench.blobs(), &format!("t{seed}"), &long_content(seed), 0).is_ok()
        };
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(putting(seed))).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().expect("no panic"))).sum()
    });
    assert!(stored <= 2);
    assert_eq!(bench.blobs().usage_in_total().blobs, u64::try_from(stored).expect("small"));
}

#[test]
fn a_put_again_during_a_collection_is_never_lost() {
    let bench = Bench::ample();
    for round in 0..100 {
        let content = format!("content {round}");
        let digest = bench.put(content.as_bytes(), 0).expect("stored").digest;
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                bench.blobs().collect("local", &|_| false, &collect(60, 100)).expect("collected")
            });
            start.wait();
            bench.put(content.as_bytes(), 100).expect("stored");
            // The collection may still be running, or over, or not begun: the blob is there.
            assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok");
        });
        assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok", "round {round}");
        let usage = bench.blobs().usage("local").expect("known");
        assert_eq!(usage.bytes, u64::try_from(content.len()).expect("small"));
        assert_eq!(bench.collect(&[], 0, 100).removed, 1);
    }
}

#[test]
fn a_refresh_during_a_collection_is_kept_or_refused() {
    let bench = Bench::ample();
    for round in 0..100 {
        let content = format!("content {round}");
        let digest = bench.put(content.as_bytes(), 0).expect("stored").digest;
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                bench.blobs().collect("local", &|_| false, &collect(60, 100)).expect("collected")
            });
            start.wait();
            let refreshed = code(bench.blobs().refresh("local", &digest, super::at(100)));
            // Whoever was told that the blob is there finds it; the other knows that it is gone.
            let found = code(bench.blobs().get("local", &digest));
            assert_eq!(refreshed, found);
        });
        bench.collect(&[], 0, 100);
        assert_eq!(bench.blobs().usage("local").expect("known"), Usage::default());
    }
}
