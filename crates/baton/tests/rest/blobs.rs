//! Bytes by digest over HTTP: what goes in comes out, or nothing is kept.

mod bounds;
mod client;
mod doors;
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use baton::server::Limits;
use baton_store::blobs::{Digest, Settings};
use baton_store::clock::ManualClock;
use serde_json::json;
use tempfile::TempDir;

use crate::caller::{Answer, Ask};
use crate::serving::folder;
use crate::world::{NOON, World, blobs_in, memory};

/// A server whose blobs the test can look at.
struct Yard {
    world: World,
    place: TempDir,
    free: Arc<AtomicU64>,
}

impl Yard {
    async fn new() -> Self {
        Self::with(Limits::default(), Settings::default()).await
    }

    async fn with(limits: Limits, settings: Settings) -> Self {
        let place = folder();
        let (blobs, free) = blobs_in(place.path(), settings, u64::MAX);
        let clock = Arc::new(ManualClock::at(NOON));
        let world = World::keeping(clock, limits, blobs, memory).await;
        Self { world, place, free }
    }

    /// A request to take in these bytes under this digest, of whoever has the key.
    fn put_as(&self, key: &str, digest: &Digest, bytes: &[u8]) -> Ask {
        let ask = self.world.plain(Ask::new("PUT", &path(digest))).bytes(bytes);
        ask.with("authorization", &format!("Bearer {key}"))
            .with("content-type", "application/octet-stream")
    }

    fn put(&self, digest: &Digest, bytes: &[u8]) -> Ask {
        self.put_as(&self.world.key, digest, bytes)
    }

    fn get_as(&self, key: &str, digest: &Digest) -> Ask {
        let ask = self.world.plain(Ask::get(&path(digest)));
        ask.with("authorization", &format!("Bearer {key}"))
    }

    async fn get(&self, digest: &Digest) -> Answer {
        self.world.ask(&self.world.get(&path(digest))).await
    }

    /// Puts bytes under their own digest.
    async fn keep(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let answer = self.world.ask(&self.put(&digest, bytes)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        digest
    }

    /// Files that are on their way.
    fn arriving(&self) -> usize {
        fs::read_dir(self.place.path().join("blobs/incoming")).expect("it is there").count()
    }

    /// Where a blob of the local tenant lies.
    fn file(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let tenants = self.place.path().join("blobs/tenants/local");
        tenants.join(&name[..2]).join(&name[2..4]).join(name)
    }

    async fn has_nothing_of(&self, digest: &Digest) {
        crate::more::until(|| self.arriving() == 0).await;
        assert_eq!(self.get(digest).await.status, 404);
    }
}

fn path(digest: &Digest) -> String {
    format!("/v1/blobs/{digest}")
}

/// Bytes that differ from each other.
fn content(size: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(size).collect()
}

/// Writes a file that a client can hand in.
fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("there is room");
    path
}

#[tokio::test]
async fn a_blob_is_a_download_and_no_page() {
    let yard = Yard::new().await;
    for bytes in [&b"<script>1</script>"[..], b"<svg onload=\"1\"/>", b"%PDF-1.7 <script>"] {
        let answer = yard.get(&yard.keep(bytes).await).await;
        assert_eq!(answer.body, bytes);
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("content-disposition"), "attachment");
        assert_eq!(answer.header("content-security-policy"), "default-src 'none'; sandbox");
    }
}

#[tokio::test]
async fn what_goes_in_comes_out_to_the_last_byte() {
    let yard = Yard::new().await;
    for size in [0, 1, 5 << 20] {
        let bytes = content(size);
        let digest = Digest::of(&bytes);
        let first = yard.world.ask(&yard.put(&digest, &bytes)).await;
        let told = json!({ "digest": digest.to_string(), "size": size, "new": true });
        assert_eq!((first.status, first.json()), (200, told));
        let again = yard.world.ask(&yard.put(&digest, &bytes)).await;
        assert_eq!(again.json()["new"], false, "the same again changes nothing");
        let answer = yard.get(&digest).await;
        assert_eq!((answer.status, answer.body == bytes), (200, true));
        assert_eq!(answer.header("content-length"), size.to_string());
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    assert_eq!(yard.arriving(), 0);
}

#[tokio::test]
async fn a_connection_that_handed_in_one_blob_hands_in_the_next() {
    let yard = Yard::new().await;
    let mut caller = yard.world.connect().await;
    for size in [300_000, 0, 70_000] {
        let bytes = content(size);
        let put = yard.put(&Digest::of(&bytes), &bytes);
        assert_eq!(caller.ask(&put).await.status, 200);
        let got = caller.ask(&yard.world.get(&path(&Digest::of(&bytes)))).await;
        assert_eq!(got.body.len(), size);
    }
}

#[tokio::test]
async fn whoever_waits_to_be_told_to_go_on_is_told_so_or_refused_before_it_sends() {
    let yard = Yard::new().await;
    let bytes = content(1_000);
    let waits = |digest: &Digest| {
        let ask = yard.put(digest, &[]).with("expect", "100-continue");
        ask.with("content-length", "1000")
    };
    let mut caller = yard.world.connect().await;
    caller.send(&waits(&Digest::of(&bytes))).await;
    assert_eq!(caller.head().await.expect("it is told").0, 100);
    caller.say(&bytes).await;
    assert_eq!(caller.hear().await.expect("it is answered").status, 200);
    let mut refused = yard.world.connect().await;
    refused.send(&waits(&Digest::of(b"")).without("content-type")).await;
    assert_eq!(refused.head().await.expect("it is told").0, 415);
}

#[tokio::test]
async fn bytes_of_another_digest_are_refused_and_not_kept() {
    let yard = Yard::new().await;
    let (said, bytes) = (Digest::of(b"what was said"), content(400_000));
    let refused = yard.world.ask(&yard.put(&said, &bytes)).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    let rule = refused.json()["errors"][0].clone();
    assert_eq!(rule["field"], "sha256");
    assert!(rule["rule"].as_str().expect("a text").contains(&Digest::of(&bytes).to_string()));
    yard.has_nothing_of(&said).await;
    yard.has_nothing_of(&Digest::of(&bytes)).await;
}

#[tokio::test]
async fn damage_is_told_and_the_same_bytes_again_repair_it() {
    let yard = Yard::new().await;
    let bytes = content(600_000);
    let digest = yard.keep(&bytes).await;
    let file = yard.file(&digest);
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("there are bytes") ^= 1;
    for wrong in [&damaged[..], &bytes[..bytes.len() - 1]] {
        fs::remove_file(&file).expect("it is ours");
        fs::write(&file, wrong).expect("it is ours");
        let answer = yard.get(&digest).await;
        assert_eq!((answer.status, answer.code().as_str()), (500, "damaged"));
    }
    yard.keep(&bytes).await;
    assert_eq!(yard.get(&digest).await.body, bytes);
}
