use std::fs;
use std::path::Path;

use super::super::{Blobs, Copied, DirectoryBlobs, Opened, copy};
use super::{
    Bench, SETTINGS, Watched, at, code, collect, files_below, free_space, long_content, order, put,
    read,
};

fn shared(bench: &Bench, path: &Path) -> (DirectoryBlobs, Opened) {
    let opened = DirectoryBlobs::open_shared(path, SETTINGS, free_space(&bench.free_bytes));
    opened.expect("others may have it open, too")
}

#[test]
fn what_one_server_put_another_one_that_shares_the_directory_has() {
    let mut bench = Bench::ample();
    bench.blobs = None;
    let ((one, _), (other, _)) = (shared(&bench, &bench.root()), shared(&bench, &bench.root()));
    let stored = put(&one, "local", b"a bundle", 1).expect("there is room");
    let again = put(&other, "local", b"a bundle", 1).expect("there is room");
    assert!(stored.new && !again.new);
    let blob = other.get_verified("local", &stored.digest).expect("it is there");
    assert_eq!(read(blob).expect("it is whole"), b"a bundle");
    assert_eq!(code(other.get_verified("other", &stored.digest)), "not_found");
}

#[test]
fn a_directory_is_shared_by_all_or_by_nobody() {
    let mut bench = Bench::ample();
    let path = bench.root();
    let try_shared = |bench: &Bench| {
        code(DirectoryBlobs::open_shared(&path, SETTINGS, free_space(&bench.free_bytes)))
    };
    assert_eq!(try_shared(&bench), "in_use", "somebody has it alone");
    bench.blobs = None;
    let (_one, _) = shared(&bench, &path);
    assert_eq!(try_shared(&bench), "ok");
    let alone = DirectoryBlobs::open(&path, SETTINGS, free_space(&bench.free_bytes));
    assert_eq!(code(alone), "in_use");
}

#[test]
fn a_put_is_not_cleared_away_by_whoever_opens_the_directory_meanwhile() {
    let mut bench = Bench::ample();
    bench.blobs = None;
    let path = bench.root();
    let (one, _) = shared(&bench, &path);
    let content = long_content(3);
    let mut removed = vec![];
    let mut on_read = || {
        let (other, opened) = shared(&bench, &path);
        removed.push(opened.leftovers_removed);
        // Both begin at the same moment, so they would like the same name.
        put(&other, "local", b"small", 1).expect("there is room");
    };
    let mut watched = Watched { content: &content, on_read: &mut on_read };
    let stored = one.put("local", &mut watched, &order(1)).expect("nobody disturbs it");
    assert!(removed.len() > 1 && removed.iter().all(|count| *count == 0), "{removed:?}");
    assert_eq!(one.stat("local", &stored.digest).expect("it is there").size, 700_000);
    assert_eq!(files_below(&path.join("incoming")), 0);
}

#[test]
fn nobody_collects_what_others_may_be_refreshing() {
    let mut bench = Bench::ample();
    bench.blobs = None;
    let (one, _) = shared(&bench, &bench.root());
    assert_eq!(code(one.collect("local", &|_| false, &collect(0, 9))), "in_use");
}

#[test]
fn a_copy_has_every_blob_of_every_tenant_and_can_be_made_while_the_directory_is_in_use() {
    let bench = Bench::ample();
    let small = bench.put(b"small", 1).expect("there is room");
    let large = put(bench.blobs(), "other", &long_content(1), 1).expect("there is room");
    let to = bench.folder.path().join("copy");
    let copied = copy(&bench.root(), &to).expect("it is copied");
    assert_eq!(copied, Copied { blobs: 2, bytes: 700_005, damaged: 0 });
    assert_eq!(copy(&bench.root(), &to).expect("again"), copied, "what is there stays");
    fs::remove_dir_all(bench.root()).expect("ours");
    let free = free_space(&bench.free_bytes);
    let (blobs, opened) = DirectoryBlobs::open(&to, SETTINGS, free).expect("it is a directory");
    assert_eq!((opened.tenants, opened.usage.blobs, opened.strangers), (2, 2, 0));
    for (tenant, digest) in [("local", small.digest), ("other", large.digest)] {
        assert_eq!(code(blobs.get_verified(tenant, &digest)), "ok");
    }
    assert_eq!(blobs.stat("local", &small.digest).expect("there").refreshed_at, at(1));
}

#[test]
fn a_copy_leaves_out_what_is_damaged_and_says_so() {
    let bench = Bench::ample();
    let good = bench.put(b"good", 1).expect("there is room");
    let bad = bench.put(b"bad", 1).expect("there is room");
    bench.flip_a_byte("local", &bad.digest);
    let to = bench.folder.path().join("copy");
    let copied = copy(&bench.root(), &to).expect("it is copied");
    assert_eq!(copied, Copied { blobs: 1, bytes: 4, damaged: 1 });
    let free = free_space(&bench.free_bytes);
    let (blobs, _) = DirectoryBlobs::open(&to, SETTINGS, free).expect("it is a directory");
    assert_eq!(code(blobs.get("local", &good.digest)), "ok");
    assert_eq!(code(blobs.get("local", &bad.digest)), "not_found");
}

#[test]
fn a_directory_that_is_not_there_has_nothing_to_copy() {
    let bench = Bench::ample();
    let to = bench.folder.path().join("copy");
    let copied = copy(&bench.folder.path().join("missing"), &to).expect("nothing is wrong");
    assert_eq!((copied, to.exists()), (Copied::default(), false));
}
