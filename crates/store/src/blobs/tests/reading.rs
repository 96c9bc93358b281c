use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};

use super::super::{Blobs, Digest, Error, Tenant};
use super::{Bench, code, files_below, long_content, put, read};

#[test]
fn a_foreign_tenants_blob_looks_missing_everywhere() {
    let bench = Bench::ample();
    let digest = bench.put(b"secret", 0).expect("stored").digest;
    let blobs = bench.blobs();
    let answers = |tenant: &str, digest: &Digest| {
        [
            blobs.get(tenant, digest).map(drop),
            blobs.get_verified(tenant, digest).map(drop),
            blobs.stat(tenant, digest).map(drop),
            blobs.refresh(tenant, digest, super::at(1)).map(drop),
        ]
        .map(|answer| answer.map_err(|error| error.to_string()))
    };
    assert_eq!(answers("other", &digest).map(|answer| answer.is_err()), [true; 4]);
    put(blobs, "other", b"own", 0).expect("stored");
    let unknown = Digest::of(b"never put");
    let text = |digest: &Digest| digest.to_string();
    assert_eq!(
        answers("other", &digest).map(|answer| answer.map_err(|e| e.replace(&text(&digest), "D"))),
        answers("other", &unknown)
            .map(|answer| answer.map_err(|e| e.replace(&text(&unknown), "D")))
    );
}

#[test]
fn two_tenants_with_the_same_bytes_learn_nothing_of_each_other() {
    let bench = Bench::ample();
    let first = put(bench.blobs(), "one", b"same", 0).expect("stored");
    let second = put(bench.blobs(), "two", b"same", 0).expect("stored");
    assert!(first.new && second.new);
    bench.blobs().collect("one", &|_| false, &super::collect(0, 1)).expect("collected");
    assert_eq!(code(bench.blobs().get("one", &first.digest)), "not_found");
    assert_eq!(code(bench.blobs().get_verified("two", &first.digest)), "ok");
}

#[test]
fn asking_for_an_unknown_tenant_leaves_no_trace() {
    let bench = Bench::ample();
    let digest = Digest::of(b"bytes");
    let before = files_below(&bench.root());
    assert_eq!(code(bench.blobs().get("nobody", &digest)), "not_found");
    assert_eq!(bench.blobs().usage("nobody").expect("known").blobs, 0);
    let collected = bench.blobs().collect("nobody", &|_| false, &super::collect(0, 0));
    assert_eq!(collected.expect("collected").removed, 0);
    assert_eq!(files_below(&bench.root()), before);
    assert!(!bench.root().join("tenants/nobody").exists());
}

#[test]
fn a_flipped_byte_is_corrupt_and_never_served_as_verified() {
    let bench = Bench::ample();
    for content in [&b"bytes"[..], &long_content(2)] {
        let digest = bench.put(content, 0).expect("stored").digest;
        bench.flip_a_byte("local", &digest);
        assert_eq!(code(bench.blobs().get_verified("local", &digest)), "corrupt");
        assert_eq!(code(bench.blobs().get("local", &digest)), "ok");
    }
}

#[test]
fn a_lost_or_added_byte_is_corrupt() {
    let bench = Bench::ample();
    for change in [&b"byte"[..], b"bytes!", b""] {
        let digest = bench.put(b"bytes", 0).expect("stored").digest;
        fs::set_permissions(bench.path(&digest), fs::Permissions::from_mode(0o600)).expect("ours");
        fs::write(bench.path(&digest), change).expect("ours");
        assert_eq!(code(bench.blobs().get_verified("local", &digest)), "corrupt");
    }
}

#[test]
fn a_byte_that_changes_during_a_verified_read_is_an_error_instead_of_the_end() {
    let bench = Bench::ample();
    let content = long_content(3);
    let digest = bench.put(&content, 0).expect("stored").digest;
    let mut blob = bench.blobs().get_verified("local", &digest).expect("whole");
    let mut head = vec![0; 1000];
    blob.bytes.read_exact(&mut head).expect("read");

    fs::set_permissions(bench.path(&digest), fs::Permissions::from_mode(0o600)).expect("ours");
    let file = fs::File::options().write(true).open(bench.path(&digest)).expect("ours");
    file.write_all_at(&[!content[600_000]], 600_000).expect("written");

    let mut rest = Vec::new();
    let error = blob.bytes.read_to_end(&mut rest).expect_err("damaged");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(blob.bytes.read(&mut [0; 8]).is_err(), "it stays an error");
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    assert_eq!(cause.map(Error::code), Some("corrupt"));
}

#[test]
fn an_open_blob_is_read_to_its_end_although_it_is_collected() {
    let bench = Bench::ample();
    let content = long_content(4);
    let digest = bench.put(&content, 0).expect("stored").digest;
    let blob = bench.blobs().get_verified("local", &digest).expect("there");
    assert_eq!(bench.collect(&[], 0, 1).removed, 1);
    assert_eq!(code(bench.blobs().get("local", &digest)), "not_found");
    assert_eq!(read(blob).expect("read"), content);
}

#[test]
fn a_pipe_in_the_place_of_a_blob_does_not_stop_its_reader() {
    let bench = Bench::ample();
    let digest = bench.put(b"bytes", 0).expect("stored").digest;
    let path = bench.path(&digest);
    fs::remove_file(&path).expect("ours");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    assert_eq!(code(bench.blobs().get("local", &digest)), "corrupt");
}

#[test]
fn a_tenant_is_a_plain_short_name() {
    let longest = "a".repeat(64);
    for good in ["local", "a", "0", "_-_", longest.as_str()] {
        assert_eq!(code(Tenant::parse(good)), "ok", "{good}");
    }
    let too_long = "a".repeat(65);
    for bad in ["", ".", "..", "a/b", "A", "ä", "a b", "a\0", "a\n", too_long.as_str()] {
        let bench = Bench::ample();
        assert_eq!(code(put(bench.blobs(), bad, b"bytes", 0)), "invalid", "{bad:?}");
        assert_eq!(code(bench.blobs().usage(bad)), "invalid", "{bad:?}");
    }
}

#[test]
fn a_digest_has_one_spelling() {
    let digest = Digest::of(b"");
    let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(digest.to_string(), text);
    assert_eq!(text.parse::<Digest>().expect("a digest"), digest);
    assert_eq!(Digest::from(*digest.as_bytes()), digest);
    let shifted = format!("{}é", &text[..62]);
    for bad in [&text.to_uppercase(), &text[..63], &format!("{text}0"), "", shifted.as_str()] {
        assert_eq!(code(bad.parse::<Digest>()), "invalid", "{bad:?}");
    }
}
