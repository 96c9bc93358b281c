//! Blobs of `baton serve` as a process.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use baton_store::blobs::Digest;
use rustix::process::Signal;

use super::{content, path};
use crate::caller::Ask;
use crate::serving::{Serving, command, folder, ready, start};

fn put(serving: &Serving, bytes: &[u8]) -> Ask {
    let mut ask = serving.get(&path(&Digest::of(bytes))).bytes(bytes);
    ask.method = "PUT".to_owned();
    ask.with("content-type", "application/octet-stream")
}

/// How a server ends that does not start, and what it says.
fn refused(data: &Path, blobs: &str) -> (Option<i32>, String) {
    let mut child = command(data, &["--listen", "127.0.0.1:0", "--blobs", blobs]);
    let mut child = child.spawn().expect("it starts");
    let mut said = String::new();
    let err = child.stderr.as_mut().expect("it is piped");
    err.read_to_string(&mut said).expect("it is text");
    (child.wait().expect("it ends").code(), said)
}

#[tokio::test]
async fn what_was_taken_in_outlives_a_server_that_is_killed_and_half_of_one_does_not() {
    let folder = folder();
    let data = folder.path().join("data");
    let bytes = content(300_000);
    let mut serving = start(&data);
    assert_eq!(serving.connect().await.ask(&put(&serving, &bytes)).await.status, 200);
    let mode = fs::metadata(data.join("blobs")).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut half = serving.connect().await;
    half.send(&put(&serving, b"half").with("content-length", "1000")).await;
    let incoming = data.join("blobs/incoming");
    let count = || fs::read_dir(&incoming).expect("it is there").count();
    crate::more::until(|| count() == 1).await;
    serving.signal(Signal::KILL);
    serving.wait();
    assert_eq!(count(), 1);
    let serving = start(&data);
    assert_eq!(count(), 0);
    let got = serving.connect().await.ask(&serving.get(&path(&Digest::of(&bytes)))).await;
    assert_eq!((got.status, got.body == bytes), (200, true));
}

#[tokio::test]
async fn a_place_elsewhere_is_ours_alone_or_no_server_starts() {
    let folder = folder();
    let place = folder.path().join("place");
    let typed = place.to_str().expect("it is text");
    let serving =
        ready(command(&folder.path().join("one"), &["--listen", "127.0.0.1:0", "--blobs", typed]));
    assert_eq!(serving.connect().await.ask(&put(&serving, b"a bundle")).await.status, 200);
    assert!(!folder.path().join("one/blobs").exists());
    let (code, said) = refused(&folder.path().join("two"), typed);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("must be opened by one server only"), "{said}");
    drop(serving);
    fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("it is ours");
    let (code, said) = refused(&folder.path().join("two"), typed);
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("0700") && said.contains("baton serve --blobs DIR"), "{said}");
}
