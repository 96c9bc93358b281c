use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

use super::super::{Blobs, Digest, Error, Put, Stat};
use super::{
    Bench, Watched, at, code, copy_tree, files_below, long_content, open, order, put, read,
};

#[test]
fn what_was_put_is_got() {
    let bench = Bench::ample();
    for content in [&b""[..], b"x", &long_content(0)] {
        let stored = bench.put(content, 0).expect("stored");
        assert_eq!(stored.digest, Digest::of(content));
        assert_eq!(stored.size, u64::try_from(content.len()).expect("small"));
        assert!(stored.new);
        assert_eq!(
            read(bench.blobs().get("local", &stored.digest).expect("there")).expect("read"),
            content
        );
    }
}

#[test]
fn putting_the_same_bytes_again_says_so_and_counts_once() {
    let bench = Bench::ample();
    let first = bench.put(b"same", 0).expect("stored");
    let usage = bench.blobs().usage("local").expect("known");
    let second = bench.put(b"same", 1).expect("stored");
    assert_eq!((first.new, second.new), (true, false));
    assert_eq!(first.digest, second.digest);
    assert_eq!(bench.blobs().usage("local").expect("known"), usage);
    assert_eq!((usage.blobs, usage.bytes), (1, 4));
}

#[test]
fn bytes_of_another_digest_than_expected_are_refused_and_leave_nothing() {
    let bench = Bench::ample();
    let wrong = Put { expected: Some(Digest::of(b"other")), ..order(0) };
    let refused = bench.blobs().put("local", &mut &b"bytes"[..], &wrong);
    assert_eq!(code(refused), "digest_mismatch");
    let right = Put { expected: Some(Digest::of(b"bytes")), ..order(0) };
    assert_eq!(code(bench.blobs().get("local", &Digest::of(b"bytes"))), "not_found");
    assert!(bench.blobs().put("local", &mut &b"bytes"[..], &right).expect("stored").new);
}

#[test]
fn the_size_bound_is_exact() {
    let bench = Bench::ample();
    for (length, expected) in [(9, "ok"), (10, "ok"), (11, "too_large")] {
        let content = vec![7; length];
        let put = Put { size_max: 10, ..order(0) };
        assert_eq!(code(bench.blobs().put("local", &mut &content[..], &put)), expected);
    }
    assert_eq!(files_below(&bench.root().join("incoming")), 0);
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 19);
}

#[test]
fn a_reader_that_fails_leaves_nothing() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let count = buffer.len().min(self.0);
            self.0 -= count;
            Ok(count)
        }
    }
    let bench = Bench::ample();
    let refused = bench.blobs().put("local", &mut Broken(500_000), &order(0));
    assert_eq!(code(refused), "source_failed");
    assert_eq!(files_below(&bench.root().join("incoming")), 0);
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 0);
    assert!(!bench.root().join("tenants/local").exists());
}

#[test]
fn an_interrupted_read_is_no_failure() {
    struct Interrupted<'a>(bool, &'a [u8]);
    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = !self.0;
            if self.0 { Err(io::ErrorKind::Interrupted.into()) } else { self.1.read(buffer) }
        }
    }
    let bench = Bench::ample();
    let stored = bench.blobs().put("local", &mut Interrupted(false, b"bytes"), &order(0));
    assert_eq!(stored.expect("stored").digest, Digest::of(b"bytes"));
}

#[test]
fn a_blob_is_a_read_only_file_in_closed_folders() {
    let bench = Bench::ample();
    let stored = bench.put(b"bytes", 77).expect("stored");
    let path = bench.path(&stored.digest);
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o400);
    for folder in path.ancestors().skip(1).take(5) {
        assert_eq!(fs::metadata(folder).expect("there").mode() & 0o7777, 0o700, "{folder:?}");
    }
    assert_eq!(
        bench.blobs().stat("local", &stored.digest).expect("there"),
        Stat { size: 5, refreshed_at: at(77) }
    );
}

#[test]
fn a_crash_at_any_read_leaves_nothing_visible_and_a_crash_afterwards_the_blob() {
    let bench = Bench::ample();
    let old = bench.put(b"old", 0).expect("stored").digest;
    let content = long_content(1);
    let mut crashes = 0;
    let mut crash = || {
        crashes += 1;
        copy_tree(&bench.root(), &bench.folder.path().join(format!("crash-{crashes}")));
    };
    let mut reader = Watched { content: &content, on_read: &mut crash };
    let new = bench.blobs().put("local", &mut reader, &order(0)).expect("stored").digest;
    crash();

    assert!(crashes > 4);
    for crash in 1..=crashes {
        let path = bench.folder.path().join(format!("crash-{crash}"));
        let incoming = fs::read_dir(path.join("incoming")).expect("a folder").count();
        let (blobs, opened) = open(&path, bench.settings, &bench.free_bytes);
        let complete = crash == crashes;
        assert_eq!(incoming, usize::from(!complete));
        assert_eq!(opened.leftovers_removed, u64::from(!complete));
        assert_eq!(files_below(&path.join("incoming")), 0);
        assert_eq!(opened.usage.blobs, 1 + u64::from(complete));
        assert_eq!(code(blobs.get_verified("local", &old)), "ok");
        let expected = if complete { "ok" } else { "not_found" };
        assert_eq!(code(blobs.get_verified("local", &new)), expected);
        assert!(put(&blobs, "local", &content, 1).expect("repeated").new != complete);
    }
}

#[test]
fn a_crash_between_folder_and_name_leaves_nothing_visible() {
    let mut bench = Bench::ample();
    let digest = Digest::of(b"bytes");
    let shard = bench.path(&digest).parent().expect("a folder").to_owned();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(shard).expect("made");
    assert_eq!(code(bench.blobs().get("local", &digest)), "not_found");
    bench.reopen();
    assert_eq!(bench.opened.usage.blobs, 0);
    assert_eq!(code(bench.blobs().get("local", &digest)), "not_found");
    assert!(bench.put(b"bytes", 0).expect("stored").new);
}

#[test]
fn a_put_survives_reopening() {
    let mut bench = Bench::ample();
    let digest = bench.put(b"bytes", 5).expect("stored").digest;
    let stat = bench.blobs().stat("local", &digest).expect("there");
    bench.reopen();
    assert_eq!(bench.blobs().stat("local", &digest).expect("there"), stat);
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 5);
}

#[test]
fn a_put_repairs_a_damaged_blob() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    bench.flip_a_byte("local", &digest);
    assert_eq!(code(bench.blobs().get_verified("local", &digest)), "corrupt");
    assert!(!bench.put(b"bytes", 1).expect("stored").new);
    assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok");
}

#[test]
fn a_put_repairs_the_count_of_a_truncated_blob() {
    let mut bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    fs::remove_file(bench.path(&digest)).expect("ours");
    fs::write(bench.path(&digest), b"by").expect("ours");
    bench.reopen();
    assert_eq!(bench.opened.usage.bytes, 2);
    assert!(!bench.put(b"bytes", 1).expect("stored").new);
    assert_eq!(bench.blobs().usage("local").expect("known").bytes, 5);
}

#[test]
fn a_put_never_makes_a_blob_older() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 9).expect("stored").digest;
    bench.put(b"bytes", 5).expect("stored");
    bench.blobs().refresh("local", &digest, at(3)).expect("there");
    assert_eq!(bench.blobs().stat("local", &digest).expect("there").refreshed_at, at(9));
    bench.blobs().refresh("local", &digest, at(12)).expect("there");
    assert_eq!(bench.blobs().stat("local", &digest).expect("there").refreshed_at, at(12));
}

#[test]
fn a_symbolic_link_in_the_place_of_a_blob_is_replaced_and_its_target_left_alone() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let target = bench.folder.path().join("target");
    fs::write(&target, b"precious").expect("ours");
    fs::remove_file(bench.path(&digest)).expect("ours");
    std::os::unix::fs::symlink(&target, bench.path(&digest)).expect("a link");
    assert_eq!(code(bench.blobs().get("local", &digest)), "corrupt");
    bench.put(b"bytes", 0).expect("stored");
    assert_eq!(code(bench.blobs().get_verified("local", &digest)), "ok");
    assert_eq!(fs::read(&target).expect("there"), b"precious");
}

#[test]
fn a_disk_that_runs_out_while_writing_is_full_not_broken() {
    let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
    assert_eq!(Error::writing("writing", 0)(full).code(), "disk_full");
    let quota = io::Error::from_raw_os_error(rustix::io::Errno::DQUOT.raw_os_error());
    assert_eq!(Error::writing("writing", 0)(quota).code(), "disk_full");
    let broken = io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
    assert_eq!(Error::writing("writing", 0)(broken).code(), "io");
}
