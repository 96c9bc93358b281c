//! How large, how many, how slow, and how full.

use std::sync::atomic::Ordering;
use std::time::Duration;

use baton::pieces::PIECE_BYTES;
use baton::server::Limits;
use baton_store::blobs::{Digest, Quota, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Yard, content, path};

/// More than the buffers of two sockets take in together.
const UNREAD_BYTES: usize = 24 << 20;

fn short() -> Limits {
    Limits { body: Duration::from_millis(300), ..Limits::default() }
}

#[tokio::test]
async fn a_blob_has_a_size() {
    let limits = Limits { blob_bytes_max: 1_000, ..Limits::default() };
    let yard = Yard::with(limits, Settings::default()).await;
    for size in [999, 1_000] {
        yard.keep(&content(size)).await;
    }
    let bytes = content(1_001);
    let told = yard.put(&Digest::of(&bytes), &bytes);
    let mut chunked = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunked.extend_from_slice(&bytes);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    let untold = yard.put(&Digest::of(&bytes), &chunked).with("transfer-encoding", "chunked");
    for ask in [told, untold] {
        let refused = yard.world.ask(&ask).await;
        assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"));
        yard.has_nothing_of(&Digest::of(&bytes)).await;
    }
    // Chunks are welcome as long as they are not too many.
    let small = b"3\r\nabc\r\n0\r\n\r\n";
    let ask = yard.put(&Digest::of(b"abc"), small).with("transfer-encoding", "chunked");
    assert_eq!(yard.world.ask(&ask).await.status, 200);
}

#[tokio::test]
async fn a_refusal_is_heard_by_whoever_goes_on_sending() {
    let quota = Quota { blobs_max: 10, bytes_max: 100_000 };
    let settings = Settings { tenant_quota: quota, ..Settings::default() };
    let yard = Yard::with(Limits::default(), settings).await;
    let bytes = content(8 << 20);
    for _ in 0..3 {
        let refused = yard.world.ask(&yard.put(&Digest::of(&bytes), &bytes)).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "limit_reached"));
        assert!(refused.json()["next"][0].as_str().expect("a text").contains("--blobs-max"));
    }
    yard.has_nothing_of(&Digest::of(&bytes)).await;
    yard.keep(&content(50_000)).await;
}

#[tokio::test]
async fn a_full_disk_takes_in_nothing_but_what_ends_work_and_goes_on_by_itself() {
    let settings = Settings { free_bytes_low: 1_000, free_bytes_min: 100, ..Settings::default() };
    let yard = Yard::with(Limits::default(), settings).await;
    let stored = yard.keep(b"stored before").await;
    yard.free.store(500, Ordering::SeqCst);
    let digest = Digest::of(b"a bundle");
    let refused = yard.world.ask(&yard.put(&digest, b"a bundle")).await;
    assert_eq!((refused.status, refused.code().as_str()), (507, "disk_full"));
    yard.has_nothing_of(&digest).await;
    assert_eq!(yard.get(&stored).await.status, 200, "what is there is handed out");
    assert_eq!(yard.keep(b"stored before").await, stored, "and may be put again");
    let kind = baton_domain::key::Kind::Worker;
    let (_, worker) = yard.world.make_key("wes", kind, "worker").await;
    let last = yard.world.ask(&yard.put_as(&worker, &digest, b"a bundle")).await;
    assert_eq!(last.status, 200, "a worker's last snapshot finds room");
    yard.free.store(u64::MAX, Ordering::SeqCst);
    yard.keep(b"another").await;
}

#[tokio::test]
async fn whoever_sends_too_slowly_is_cut_and_nobody_else_waits_for_it() {
    let yard = Yard::with(short(), Settings::default()).await;
    let digest = Digest::of(b"0123456789");
    let mut slow = yard.world.connect().await;
    slow.send(&yard.put(&digest, b"0").with("content-length", "10")).await;
    crate::more::until(|| yard.arriving() == 1).await;
    yard.keep(b"somebody else's").await;
    let refused = slow.hear().await.expect("it is told");
    assert_eq!((refused.status, refused.code().as_str()), (408, "too_slow"));
    yard.has_nothing_of(&digest).await;
}

#[tokio::test]
async fn a_dribble_is_cut_while_whoever_gets_on_may_take_its_time() {
    let size = 1 << 30;
    let limits = Limits { blob_bytes_max: size, farewell: Duration::from_millis(10), ..short() };
    let yard = Yard::with(limits, Settings::default()).await;
    let digest = Digest::of(b"");
    let head = |yard: &Yard| yard.put(&digest, &[]).with("content-length", &size.to_string());
    let mut dribbles = yard.world.connect().await;
    let mut gets_on = yard.world.connect().await;
    dribbles.send(&head(&yard)).await;
    gets_on.send(&head(&yard)).await;
    crate::more::until(|| yard.arriving() == 2).await;
    let piece = vec![0; PIECE_BYTES];
    let mut rounds = 0;
    // One of them sends a byte a round, the other one a piece; the clock is the same.
    while dribbles.still_takes(b"x").await {
        gets_on.say(&piece).await;
        rounds += 1;
        assert!(rounds < 4_000, "it would go on for ever");
    }
    gets_on.say(&piece).await;
    assert_eq!(yard.arriving(), 1, "one was cut, and one goes on");
}

#[tokio::test]
async fn a_sender_that_goes_away_leaves_nothing() {
    let yard = Yard::new().await;
    let bytes = content(1 << 20);
    let digest = Digest::of(&bytes);
    let half = yard.put(&digest, &bytes[..1 << 19]).with("content-length", "1048576");
    for hangs_up in [true, false] {
        let mut caller = yard.world.connect().await;
        caller.send(&half).await;
        crate::more::until(|| yard.arriving() == 1).await;
        if !hangs_up {
            caller.socket.shutdown().await.expect("the socket is open");
            let refused = caller.hear().await.expect("it is told");
            assert_eq!((refused.status, refused.code().as_str()), (400, "malformed"));
        }
        drop(caller);
        yard.has_nothing_of(&digest).await;
    }
}

#[tokio::test]
async fn as_many_are_on_their_way_as_may_be_and_a_reader_that_stops_reading_is_cut() {
    let limits = Limits { blobs_max: 1, write: Duration::from_millis(300), ..Limits::default() };
    let yard = Yard::with(limits, Settings::default()).await;
    let bytes = content(UNREAD_BYTES);
    let digest = yard.keep(&bytes).await;
    let mut stops = yard.world.connect().await;
    stops.send(&yard.world.get(&path(&digest))).await;
    let (status, headers) = stops.head().await.expect("it is answered");
    assert_eq!((status, headers["content-length"].as_str()), (200, "25165824"));
    let other = Digest::of(b"other");
    let refused = yard.world.ask(&yard.put(&other, b"other")).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert_eq!(refused.header("retry-after"), "1");
    let mut status = 503;
    for _ in 0..100_000 {
        status = yard.world.ask(&yard.put(&other, b"other")).await.status;
        if status != 503 {
            break;
        }
    }
    assert_eq!(status, 200, "the reader was cut, and its place is free");
    let mut rest = vec![];
    let read = stops.socket.read_to_end(&mut rest).await;
    assert!(read.is_err() || rest.len() < bytes.len(), "what was cut is not whole");
}

#[tokio::test]
async fn no_tenant_takes_all_the_places() {
    let limits = Limits { blobs_per_tenant_max: 1, ..short() };
    let yard = Yard::with(limits, Settings::default()).await;
    let digest = Digest::of(b"0123456789");
    let mut slow = yard.world.connect().await;
    slow.send(&yard.put(&digest, b"0").with("content-length", "10")).await;
    crate::more::until(|| yard.arriving() == 1).await;
    assert_eq!(yard.get(&digest).await.code(), "overloaded");
    let foreign = yard.world.foreign_key().await;
    let theirs = yard.world.ask(&yard.put_as(&foreign, &Digest::of(b"x"), b"x")).await;
    assert_eq!(theirs.status, 200);
    assert_eq!(slow.hear().await.expect("it is told").status, 408);
}

#[tokio::test]
async fn however_many_others_send_slowly_somebody_new_gets_in() {
    let limits = Limits { blobs_max: 3, blobs_spare: 1, ..Limits::default() };
    let yard = Yard::with(limits, Settings::default()).await;
    let mut slow = vec![];
    for body in [b"0", b"1"] {
        let mut sends = yard.world.connect().await;
        let digest = Digest::of(body);
        sends.send(&yard.put(&digest, body).with("content-length", "10")).await;
        slow.push(sends);
        crate::more::until(|| yard.arriving() == slow.len()).await;
    }
    let third = yard.world.ask(&yard.put(&Digest::of(b"x"), b"x")).await;
    assert_eq!((third.status, third.code().as_str()), (503, "overloaded"));
    let foreign = yard.world.foreign_key().await;
    let theirs = yard.world.ask(&yard.put_as(&foreign, &Digest::of(b"x"), b"x")).await;
    assert_eq!(theirs.status, 200, "the last place is for whoever has none");
}

#[tokio::test]
async fn a_blob_on_its_way_does_not_hold_up_the_way_out() {
    let limits = Limits { linger: Duration::from_millis(10), ..Limits::default() };
    let yard = Yard::with(limits, Settings::default()).await;
    let mut sends = yard.world.connect().await;
    sends.send(&yard.put(&Digest::of(b"x"), b"0").with("content-length", "10")).await;
    crate::more::until(|| yard.arriving() == 1).await;
    assert!(yard.world.server.drain().await, "everybody was answered, or told to come again");
    let told = sends.hear().await.expect("it is told");
    assert_eq!((told.status, told.code().as_str()), (503, "stopped"));
}
