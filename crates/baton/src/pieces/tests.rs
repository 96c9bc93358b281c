use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::task::spawn_blocking;

use super::{Given, PIECE_BYTES, intake, pour};

const LONG: Duration = Duration::from_secs(60);

/// A reader that says at its end that what it gave is wrong.
struct Wrong(usize);

impl Read for Wrong {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.min(buffer.len());
        self.0 -= count;
        buffer[..count].fill(7);
        if count > 0 { Ok(count) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

fn size_of(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("it is small")
}

#[tokio::test]
async fn everything_that_is_poured_arrives_in_order() {
    for size in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 5] {
        let content: Vec<u8> = (0_u8..=250).cycle().take(size).collect();
        let reader = Box::new(io::Cursor::new(content.clone()));
        let (pieces, pouring) = pour(reader, size_of(size), LONG);
        let (body, poured) = tokio::join!(pieces.collect(), pouring);
        assert_eq!(body.expect("it is whole").to_bytes(), content, "{size}");
        assert!(poured.is_ok());
    }
}

#[tokio::test]
async fn bytes_that_turn_out_to_be_wrong_never_arrive_whole() {
    for size in [1, PIECE_BYTES, 2 * PIECE_BYTES + 1] {
        let (mut pieces, pouring) = pour(Box::new(Wrong(size)), size_of(size), LONG);
        let pouring = tokio::spawn(pouring);
        let mut arrived = 0;
        let error = loop {
            match pieces.frame().await.expect("there is no end") {
                Ok(frame) => arrived += frame.into_data().expect("it is data").len(),
                Err(error) => break error,
            }
        };
        assert!(arrived < size, "{arrived} of {size}");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(pouring.await.expect("it ends").is_err());
    }
}

#[tokio::test]
async fn a_body_that_is_no_longer_fed_breaks_off_and_does_not_end() {
    let (mut pieces, pouring) = pour(Box::new(io::repeat(1)), 10, LONG);
    drop(pouring);
    let error = pieces.frame().await.expect("there is no end").expect_err("it broke off");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn whoever_takes_nothing_for_long_gets_no_more() {
    let (pieces, pouring) = pour(Box::new(io::repeat(1)), u64::MAX, Duration::from_millis(1));
    let error = pouring.await.expect_err("nobody takes it");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(pieces);
}

#[tokio::test]
async fn what_is_given_is_read_to_the_end_that_was_said() {
    let (giver, mut taken) = intake();
    let reading = spawn_blocking(move || {
        let mut all = vec![];
        taken.read_to_end(&mut all).map(|_| all)
    });
    for part in ["one, ", "", "two"] {
        assert_ne!(giver.give(Bytes::from_static(part.as_bytes())).await, Given::Refused);
    }
    giver.end().await;
    assert_eq!(reading.await.expect("it ends").expect("it is whole"), b"one, two");
}

#[tokio::test]
async fn a_giver_that_goes_without_a_word_leaves_half_and_that_is_none() {
    let (giver, mut taken) = intake();
    giver.give(Bytes::from_static(b"half")).await;
    drop(giver);
    let read = spawn_blocking(move || taken.read_to_end(&mut vec![])).await.expect("it ends");
    assert_eq!(read.expect_err("it is half").kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn nobody_is_given_anything_who_does_not_read() {
    let (giver, taken) = intake();
    drop(taken);
    assert_eq!(giver.give(Bytes::from_static(b"x")).await, Given::Refused);
}
