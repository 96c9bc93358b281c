use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{
    Blobs, Digest, DirectoryBlobs, Error, Measure, Put, Quota, Scope, Settings, Urgency, Usage,
};
use super::{AMPLE, Bench, SETTINGS, code, files_below, long_content, order, put};

fn tenant_bytes(bytes_max: u64) -> Settings {
    Settings { tenant_quota: Quota { bytes_max, ..AMPLE }, ..SETTINGS }
}

#[test]
fn the_byte_quota_of_a_tenant_is_exact() {
    for (length, expected) in [(5, "ok"), (6, "ok"), (7, "quota_exceeded")] {
        let bench = Bench::new(tenant_bytes(10));
        bench.put(b"four", 0).expect("stored");
        assert_eq!(code(bench.put(&vec![1; length], 0)), expected, "{length}");
        let kept = if expected == "ok" { 4 + length } else { 4 };
        let usage = bench.blobs().usage("local").expect("known");
        assert_eq!(usage.bytes, u64::try_from(kept).expect("small"));
        assert_eq!(files_below(&bench.root().join("incoming")), 0);
    }
}

#[test]
fn the_byte_quota_is_exact_across_chunks() {
    let content = long_content(0);
    let size = u64::try_from(content.len()).expect("small");
    for (quota, expected) in [(size - 1, "quota_exceeded"), (size, "ok"), (size + 1, "ok")] {
        assert_eq!(code(Bench::new(tenant_bytes(quota)).put(&content, 0)), expected);
    }
}

#[test]
fn the_blob_quota_of_a_tenant_is_exact() {
    let settings = Settings { tenant_quota: Quota { blobs_max: 2, ..AMPLE }, ..SETTINGS };
    let bench = Bench::new(settings);
    assert_eq!(code(bench.put(b"one", 0)), "ok");
    assert_eq!(code(bench.put(b"two", 0)), "ok");
    assert_eq!(code(bench.put(b"", 0)), "quota_exceeded");
    assert_eq!(code(put(bench.blobs(), "other", b"", 0)), "ok");
}

#[test]
fn the_total_quota_binds_all_tenants_together() {
    let total_quota = Quota { blobs_max: 3, bytes_max: 10 };
    let bench = Bench::new(Settings { total_quota, ..SETTINGS });
    let blobs = bench.blobs();
    assert_eq!(code(put(blobs, "one", b"12345", 0)), "ok");
    assert_eq!(code(put(blobs, "two", b"123456", 0)), "quota_exceeded");
    let refused = put(blobs, "two", b"123456", 0).expect_err("refused");
    assert!(matches!(
        refused,
        Error::QuotaExceeded { scope: Scope::Total, measure: Measure::Bytes, max: 10 }
    ));
    assert_eq!(code(put(blobs, "two", b"54321", 0)), "ok");
    assert_eq!(code(put(blobs, "three", b"", 0)), "ok");
    assert_eq!(code(put(blobs, "four", b"", 0)), "quota_exceeded");
    assert_eq!(blobs.usage_in_total(), Usage { blobs: 3, bytes: 10 });
}

#[test]
fn collecting_gives_room_back() {
    let bench = Bench::new(tenant_bytes(5));
    bench.put(b"12345", 0).expect("stored");
    assert_eq!(code(bench.put(b"6", 0)), "quota_exceeded");
    assert_eq!(bench.collect(&[], 0, 1).freed_bytes, 5);
    assert_eq!(code(bench.put(b"54321", 1)), "ok");
}

#[test]
fn a_repeated_put_is_welcome_where_there_is_no_room() {
    let bench = Bench::new(tenant_bytes(5));
    let digest = bench.put(b"12345", 0).expect("stored").digest;
    bench.free_bytes.store(0, Ordering::SeqCst);
    for (expected, now) in [(None, 1), (Some(digest), 2)] {
        let put = Put { expected, ..order(now) };
        let again = bench.blobs().put("local", &mut &b"12345"[..], &put).expect("stored");
        assert!(!again.new);
        let stat = bench.blobs().stat("local", &digest).expect("there");
        assert_eq!(stat.refreshed_at, super::at(now));
    }
    let wrong = Put { expected: Some(digest), ..order(3) };
    let refused = bench.blobs().put("local", &mut &b"54321"[..], &wrong);
    assert_eq!(code(refused), "digest_mismatch");
}

#[test]
fn a_repeated_put_without_room_for_repair_does_not_vouch_for_damaged_bytes() {
    let bench = Bench::new(tenant_bytes(5));
    let digest = bench.put(b"12345", 0).expect("stored").digest;
    bench.flip_a_byte("local", &digest);
    assert_eq!(code(bench.put(b"12345", 1)), "quota_exceeded");
}

#[test]
fn announced_bytes_without_room_are_refused_before_they_are_sent() {
    let bench = Bench::ample();
    bench.free_bytes.store(0, Ordering::SeqCst);
    let mut asked = 0;
    let mut on_read = || asked += 1;
    let mut reader = super::Watched { content: b"bytes", on_read: &mut on_read };
    let put = Put { expected: Some(Digest::of(b"bytes")), ..order(0) };
    assert_eq!(code(bench.blobs().put("local", &mut reader, &put)), "disk_full");
    assert_eq!(asked, 0);
}

#[test]
fn the_watermarks_are_exact_and_ends_go_on_below_the_first() {
    let bench = Bench::ample();
    let ordinary = order(0);
    let ending = Put { urgency: Urgency::Ending, ..ordinary };
    let attempts = [
        (1_006, ordinary, "ok"),
        (1_005, ordinary, "ok"),
        (1_004, ordinary, "disk_full"),
        (1_004, ending, "ok"),
        (106, ending, "ok"),
        (105, ending, "ok"),
        (104, ending, "disk_full"),
        (0, ending, "disk_full"),
    ];
    for (number, (free, put, expected)) in attempts.into_iter().enumerate() {
        bench.free_bytes.store(free, Ordering::SeqCst);
        let content = format!("byte{number}");
        let answer = bench.blobs().put("local", &mut content.as_bytes(), &put);
        assert_eq!(code(answer), expected, "{free} {:?}", put.urgency);
    }
}

#[test]
fn a_full_disk_still_reads_and_collects_and_recovers_without_reopening() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    bench.free_bytes.store(0, Ordering::SeqCst);
    assert_eq!(code(bench.put(b"more", 0)), "disk_full");
    assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok");
    assert_eq!(bench.collect(&[], 0, 1).removed, 1);
    bench.free_bytes.store(u64::MAX, Ordering::SeqCst);
    assert_eq!(code(bench.put(b"more", 1)), "ok");
}

#[test]
fn a_disk_that_fills_midway_refuses_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let asked = Arc::new(AtomicUsize::new(0));
    let asking = Arc::clone(&asked);
    // Enough for the beginning and the first chunk, nothing for the second.
    let free_space = Box::new(move || {
        Ok(if asking.fetch_add(1, Ordering::SeqCst) < 2 { u64::MAX } else { 1_000 })
    });
    let path = folder.path().join("blobs");
    let (blobs, _) = DirectoryBlobs::open(&path, SETTINGS, free_space).expect("opens");
    let content = long_content(0);
    let expected = Some(Digest::of(&content));
    let refused = blobs.put("local", &mut &content[..], &Put { expected, ..order(0) });
    assert_eq!(code(refused), "disk_full");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert_eq!(files_below(&path.join("incoming")), 0);
    assert_eq!(blobs.usage("local").expect("known"), Usage::default());
    assert_eq!(code(blobs.put("local", &mut &b""[..], &order(0))), "ok");
}

#[test]
fn bytes_on_their_way_count() {
    let bench = Bench::new(tenant_bytes(800_000));
    let content = long_content(0);
    let mut during = Vec::new();
    let mut on_read = || during.push(code(bench.put(&long_content(1), 0)));
    let mut reader = super::Watched { content: &content, on_read: &mut on_read };
    // The first one inside finds room and takes it; the put around it then has none.
    let around = bench.blobs().put("local", &mut reader, &order(0));
    assert_eq!(code(around), "quota_exceeded");
    assert_eq!(during[0], "ok");
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 700_000);
    bench.collect(&[], 0, 1);

    let mut during = Vec::new();
    let mut calls = 0;
    let mut on_read = || {
        calls += 1;
        // Once most of the bytes around have come.
        if calls == 3 {
            during.push(code(bench.put(&long_content(1), 0)));
        }
    };
    let mut reader = super::Watched { content: &content, on_read: &mut on_read };
    assert_eq!(code(bench.blobs().put("local", &mut reader, &order(0))), "ok");
    assert_eq!(during, ["quota_exceeded"]);
}

#[test]
fn free_disk_is_asked_of_the_file_system() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(DirectoryBlobs::free_space_of(folder.path())().expect("asked") > 0);
    assert!(DirectoryBlobs::free_space_of(&folder.path().join("missing"))().is_err());
}

#[test]
fn every_refusal_names_code_field_rule_and_next_step() {
    let digest = Digest::of(b"");
    let path = std::path::PathBuf::from("blobs");
    let quota = |scope| Error::QuotaExceeded { scope, measure: Measure::Bytes, max: 9 };
    let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let refusals = [
        Error::Invalid { field: "tenant", rule: "must be short" },
        Error::TooLarge { size_max: 9 },
        Error::DigestMismatch { expected: digest, found: digest },
        Error::NotFound { digest },
        Error::Corrupt { digest },
        quota(Scope::Tenant),
        quota(Scope::Total),
        Error::DiskFull { free_bytes: 1, floor_bytes: 2 },
        Error::Untrusted { path: path.clone(), rule: "must be ours" },
        Error::InUse { path },
        Error::SourceFailed(broken()),
        Error::Io { doing: "writing", source: broken() },
    ];
    let codes = refusals.each_ref().map(Error::code);
    assert_eq!(
        codes,
        [
            "invalid",
            "too_large",
            "digest_mismatch",
            "not_found",
            "corrupt",
            "quota_exceeded",
            "quota_exceeded",
            "disk_full",
            "untrusted_directory",
            "in_use",
            "source_failed",
            "io",
        ]
    );
    for refusal in &refusals {
        assert!(!refusal.to_string().is_empty());
        assert!(!refusal.field().is_empty());
        assert!(!refusal.next_step().is_empty());
        let source = std::error::Error::source(refusal).map(ToString::to_string);
        assert!(source.is_none_or(|source| !refusal.to_string().contains(&source)));
    }
}
