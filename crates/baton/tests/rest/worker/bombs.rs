//! A38 at the workers' door: whoever says too much, or takes nothing, harms nobody.

use std::time::Duration;

use baton::protocol::{Credit, Down, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};
use baton::server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Scripted, busy, hello};
use crate::caller::PATIENCE;
use crate::world::World;

/// A worker that writes frames of the socket by hand.
struct Raw(TcpStream);

impl Raw {
    async fn come(world: &World, key: &str) -> Self {
        let mut socket = TcpStream::connect(world.address).await.expect("it listens");
        let head = format!(
            "GET /v1/worker HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\n\
             connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            world.address
        );
        socket.write_all(head.as_bytes()).await.expect("it listens");
        let mut heard = vec![];
        while !heard.ends_with(b"\r\n\r\n") {
            heard.push(socket.read_u8().await.expect("it answers"));
        }
        assert!(heard.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&heard));
        Self(socket)
    }

    /// One masked frame: of a text or a part of one, the last or not.
    async fn frame(&mut self, first: bool, last: bool, payload: &[u8]) -> bool {
        let opcode = u8::from(first) | if last { 0x80 } else { 0 };
        let mut bytes = vec![opcode, 0x80 | 127];
        bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        // A mask of zeros leaves everything as it is.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        self.0.write_all(&bytes).await.is_ok()
    }

    async fn hello(&mut self) {
        let text = baton::protocol::write(&baton::protocol::Up::from(hello("raw", vec![])));
        self.frame(true, true, text.expect("a frame").as_bytes()).await;
    }

    /// Everything that is heard until the end.
    async fn rest(&mut self) -> Vec<u8> {
        let mut heard = vec![];
        // Whether it was closed or reset is the same to whoever was cut.
        drop(timeout(PATIENCE, self.0.read_to_end(&mut heard)).await.expect("it ends"));
        heard
    }
}

/// The frame that closes a connection in order.
const IN_ORDER: [u8; 4] = [0x88, 2, 0x03, 0xE8];

/// A bye of this length, so that whoever takes it in ends the connection without a problem.
fn bye(length: usize) -> Vec<u8> {
    let bare = r#"{"frame":"bye","later":""}"#;
    format!(r#"{{"frame":"bye","later":"{}"}}"#, "x".repeat(length - bare.len())).into_bytes()
}

#[tokio::test]
async fn a_frame_of_the_socket_has_a_length() {
    let (world, key) = busy().await;
    for (length, taken) in
        [(FRAME_BYTES_MAX - 1, true), (FRAME_BYTES_MAX, true), (FRAME_BYTES_MAX + 1, false)]
    {
        let mut raw = Raw::come(&world, &key).await;
        raw.hello().await;
        raw.frame(true, true, &bye(length)).await;
        let heard = raw.rest().await;
        assert_eq!(heard.ends_with(&IN_ORDER), taken, "{length}");
    }
}

#[tokio::test]
async fn a_message_in_parts_has_a_length() {
    let (world, key) = busy().await;
    for (length, taken) in
        [(MESSAGE_BYTES_MAX - 1, true), (MESSAGE_BYTES_MAX, true), (MESSAGE_BYTES_MAX + 1, false)]
    {
        let mut raw = Raw::come(&world, &key).await;
        raw.hello().await;
        let message = bye(length);
        let parts: Vec<_> = message.chunks(FRAME_BYTES_MAX).collect();
        for (at, part) in parts.iter().enumerate() {
            raw.frame(at == 0, at + 1 == parts.len(), part).await;
        }
        let heard = raw.rest().await;
        assert_eq!(heard.ends_with(&IN_ORDER), taken, "{length}");
    }
}

#[tokio::test]
async fn what_is_no_text_or_no_frame_is_told_so() {
    let (world, key) = busy().await;
    let (mut worker, _) = Scripted::come(&world.place(), &key, hello("box", vec![])).await;
    for text in ["", "null", "{", r#"{"frame":"later"}"#, r#"{"frame":"credit","n":-1}"#] {
        worker.say_text(text.to_owned()).await;
        assert!(matches!(worker.hear().await, Some(Down::Trouble(_))), "{text}");
    }
    let deep = format!(r#"{{"frame":"bye","later":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    worker.say_text(deep).await;
    let Some(Down::Trouble(trouble)) = worker.hear().await else { panic!("it is refused") };
    assert_eq!(trouble.code.as_str(), "too_large");
    let mut raw = Raw::come(&world, &key).await;
    raw.0.write_all(&[0x82, 0x81, 0, 0, 0, 0, b'x']).await.expect("it listens");
    assert!(String::from_utf8_lossy(&raw.rest().await).contains("not bytes"));
}

/// A worker that takes nothing in is cut, and others are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_reads_nothing_is_cut_and_harms_nobody() {
    let limits = Limits { slow: Duration::from_millis(300), ..Limits::default() };
    let world = World::with(limits).await;
    world.project().await;
    let key = world.worker_key("wendy").await;
    let mut deaf = Raw::come(&world, &key).await;
    deaf.hello().await;
    world.until_listening(1).await;
    // Each of these is answered with far more than it takes to say.
    let flooding = async { while deaf.frame(true, true, br#"{"frame":"x"}"#).await {} };
    timeout(PATIENCE, flooding).await.expect("it is cut");
    let (mut other, _) = Scripted::come(&world.place(), &key, hello("other", vec![])).await;
    world.task("One").await;
    other.say(Credit { n: 1, checks: None, merges: None }).await;
    let handed = timeout(Duration::from_secs(5), other.hear()).await.expect("it is served");
    assert!(matches!(handed, Some(Down::Dispatch(_))));
}

/// A worker that is there and says nothing is asked, and cut if it does not answer.
#[tokio::test]
async fn a_worker_that_does_not_answer_is_cut() {
    let limits = Limits {
        ping: Duration::from_millis(50),
        pong: Duration::from_millis(50),
        ..Limits::default()
    };
    let world = World::with(limits).await;
    let key = world.worker_key("wendy").await;
    let mut mute = Raw::come(&world, &key).await;
    mute.hello().await;
    // What is heard is a welcome and a ping; then it ends, long before a hello would be missed.
    let heard = timeout(Duration::from_secs(5), mute.rest()).await.expect("it is cut");
    assert!(heard.windows(2).any(|two| two == [0x89, 0]), "it was asked");
}
