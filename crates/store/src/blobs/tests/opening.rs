use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use super::super::{Blobs, Digest, DirectoryBlobs, Opened, Settings, Usage};
use super::{Bench, SETTINGS, code, free_space, put};

fn open_code(bench: &Bench, path: &Path) -> &'static str {
    code(DirectoryBlobs::open(path, SETTINGS, free_space(&bench.free_bytes)))
}

#[test]
fn a_new_directory_is_empty_and_closed_to_others() {
    let bench = Bench::ample();
    assert_eq!(bench.opened, Opened { complete: true, ..Opened::default() });
    assert_eq!(fs::metadata(bench.root()).expect("there").mode() & 0o7777, 0o700);
}

#[test]
fn a_directory_without_a_parent_is_not_made() {
    let bench = Bench::ample();
    assert_eq!(open_code(&bench, &bench.folder.path().join("missing/blobs")), "io");
    assert!(!bench.folder.path().join("missing").exists());
}

#[test]
fn a_directory_that_is_a_symbolic_link_is_refused() {
    let mut bench = Bench::ample();
    bench.blobs = None;
    let link = bench.folder.path().join("link");
    symlink(bench.root(), &link).expect("a link");
    assert_eq!(open_code(&bench, &link), "untrusted_directory");
    assert_eq!(open_code(&bench, &link.join("")), "untrusted_directory");
    assert_eq!(open_code(&bench, &link.join(".")), "untrusted_directory");
    assert_eq!(open_code(&bench, &bench.root()), "ok");
}

#[test]
fn a_directory_of_someone_else_is_refused() {
    let bench = Bench::ample();
    let foreign = bench.folder.path().join("foreign");
    fs::create_dir(&foreign).expect("made");
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o700)).expect("ours");
    if rustix::process::geteuid().is_root() {
        chown(&foreign, Some(12_345), None).expect("root may");
        assert_eq!(open_code(&bench, &foreign), "untrusted_directory");
        assert_eq!(fs::read_dir(&foreign).expect("there").count(), 0);
    } else {
        assert_eq!(open_code(&bench, Path::new("/")), "untrusted_directory");
    }
}

#[test]
fn a_directory_open_to_others_is_refused() {
    let mut bench = Bench::ample();
    bench.blobs = None;
    for mode in [0o701, 0o710, 0o750, 0o777] {
        fs::set_permissions(bench.root(), fs::Permissions::from_mode(mode)).expect("ours");
        assert_eq!(open_code(&bench, &bench.root()), "untrusted_directory", "{mode:o}");
    }
    fs::set_permissions(bench.root(), fs::Permissions::from_mode(0o700)).expect("ours");
    assert_eq!(open_code(&bench, &bench.root()), "ok");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_refused() {
    let bench = Bench::ample();
    let file = bench.folder.path().join("file");
    fs::write(&file, b"").expect("ours");
    assert_eq!(open_code(&bench, &file), "untrusted_directory");
}

#[test]
fn a_tenant_or_shard_that_is_a_symbolic_link_is_refused_and_not_followed() {
    let bench = Bench::ample();
    let digest = put(bench.blobs(), "victim", b"bytes", 0).expect("stored").digest;
    symlink(bench.root().join("tenants/victim"), bench.root().join("tenants/thief"))
        .expect("a link");
    assert_eq!(code(bench.blobs().get("thief", &digest)), "untrusted_directory");
    assert_eq!(code(put(bench.blobs(), "thief", b"bytes", 0)), "untrusted_directory");
    let shard = bench.path_of("victim", &digest);
    let shard = shard.parent().expect("a folder");
    fs::rename(shard, bench.folder.path().join("moved")).expect("ours");
    symlink(bench.folder.path().join("moved"), shard).expect("a link");
    assert_eq!(code(bench.blobs().get("victim", &digest)), "untrusted_directory");
    let collected = bench.blobs().collect("victim", &|_| false, &super::collect(0, 1));
    assert_eq!(code(collected), "untrusted_directory");
    assert!(bench.folder.path().join("moved").join(digest.to_string()).exists());
}

#[test]
fn a_second_opening_is_refused_until_the_first_is_closed() {
    let mut bench = Bench::ample();
    assert_eq!(open_code(&bench, &bench.root()), "in_use");
    bench.blobs = None;
    assert_eq!(open_code(&bench, &bench.root()), "ok");
}

#[test]
fn opening_counts_what_each_tenant_keeps() {
    let mut bench = Bench::ample();
    for (tenant, content) in [("one", "a"), ("one", "bb"), ("two", "ccc"), ("two", "")] {
        put(bench.blobs(), tenant, content.as_bytes(), 0).expect("stored");
    }
    bench.reopen();
    let usage = Usage { blobs: 4, bytes: 6 };
    assert_eq!(bench.opened, Opened { tenants: 2, usage, complete: true, ..Opened::default() });
    assert_eq!(bench.blobs().usage("one").expect("known"), Usage { blobs: 2, bytes: 3 });
    assert_eq!(bench.blobs().usage("two").expect("known"), Usage { blobs: 2, bytes: 3 });
    assert_eq!(bench.blobs().usage_in_total(), usage);
}

#[test]
fn counting_is_bounded_and_says_when_it_stopped() {
    let mut bench = Bench::ample();
    for content in ["a", "b", "c"] {
        bench.put(content.as_bytes(), 0).expect("stored");
    }
    for (entries_max, blobs, complete) in [(2, 2, false), (3, 3, true), (4, 3, true)] {
        bench.settings = Settings { entries_max, ..SETTINGS };
        bench.reopen();
        assert_eq!((bench.opened.usage.blobs, bench.opened.complete), (blobs, complete));
    }
    bench.settings = Settings { entries_max: 1, ..SETTINGS };
    bench.reopen();
    assert_eq!(bench.collect(&[], 0, 1).removed, 3);
    assert_eq!(bench.blobs().usage_in_total(), Usage::default());
}

#[test]
fn strangers_are_counted_and_left_alone() {
    let mut bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let shard = bench.path(&digest).parent().expect("a folder").to_owned();
    let misplaced = Digest::of(b"elsewhere").to_string();
    let strangers = [
        bench.root().join("tenants/Not A Tenant"),
        bench.root().join("tenants/local/notes.txt"),
        shard.join("..").join("notes.txt"),
        shard.join("notes.txt"),
        shard.join(misplaced),
        bench.root().join("incoming/notes.txt"),
    ];
    for stranger in &strangers {
        fs::write(stranger, b"not ours").expect("ours");
    }
    bench.reopen();
    assert_eq!(bench.opened.strangers, 6);
    assert_eq!(bench.opened.usage, Usage { blobs: 1, bytes: 5 });
    assert_eq!(bench.collect(&[], 0, 1).removed, 1);
    assert!(strangers.iter().all(|stranger| stranger.exists()));
}
