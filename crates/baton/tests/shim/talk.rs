//! What goes in and out.

use std::time::Duration;

use baton::shim::spool::Stream;
use baton::shim::{Exit, Found, adopt};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::stage::{APART, PATIENCE, PLAIN, Stage, allowed, skipped};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_what_it_is_given_and_the_spool_has_both_sides() {
    let stage = Stage::new();
    let mut spec = stage.spec("echoes", PLAIN);
    spec.stdin = b"first\n".to_vec();
    let mut live = stage.launch(spec).await;
    live.hears("heard first").await;
    live.handle.write(b"second\n").await.expect("it listens");
    live.hears("heard second").await;
    live.handle.close_stdin().await.expect("it listens");
    live.hears("over").await;
    let refused = live.handle.write(b"third\n").await.expect_err("it reads no more");
    assert!(refused.to_string().contains("closed"), "{refused}");
    assert_eq!(live.text(Stream::In), b"first\nsecond\n");
    assert!(live.stop().await.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_reaches_the_agent_and_ends_nothing_by_itself() {
    for isolation in [APART, PLAIN] {
        if !allowed(isolation) {
            skipped("an interrupt in a namespace");
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("idle", isolation);
        let script = "exec 9>\"$TRUTH\"; trap 'echo interrupted' INT; echo here; while :; do sleep 0.1; done";
        spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let mut live = stage.launch(spec).await;
        live.hears("here").await;
        live.handle.interrupt().await.expect("it listens");
        live.hears("interrupted").await;
        let (proof, _, truth) = live.stop().await;
        assert!(truth, "{proof:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_told_as_it_was() {
    for isolation in [APART, PLAIN] {
        if !allowed(isolation) {
            skipped("an exit code in a namespace");
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("idle", isolation);
        spec.argv = ["/bin/sh", "-c", "read line; exit 7"].map(str::to_owned).to_vec();
        let mut live = stage.launch(spec).await;
        live.handle.write(b"go\n").await.expect("it listens");
        assert_eq!(live.exit().await, Exit::Code(7));
        assert!(!live.proof().await.survivor);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_at_the_socket_is_refused_and_changes_nothing() {
    let live = Stage::member("idle", PLAIN).await;
    let path = live.stage.path("attempt").join("control.sock");
    let mut stream = UnixStream::connect(&path).await.expect("we are let in");
    for (line, answer) in [
        (&b"{\"kill\":{}}\n"[..], "unknown variant `kill`"),
        (b"\xff\n", "no request"),
        (b"{\"stop\":{\"grace\":1}}\n", "unknown field `grace`"),
        (b"{\"stop\":{\"grace_ms\":999999999}}\n", "grace_ms must be at most"),
        (b"{\"write\":{\"b64\":\"*\"}}\n", "must be base64"),
    ] {
        stream.write_all(line).await.expect("it reads");
        let mut text = String::new();
        while !text.contains("refused") {
            let mut bytes = [0; 512];
            let read = timeout(PATIENCE, stream.read(&mut bytes)).await.expect("it answers");
            text.push_str(&String::from_utf8_lossy(&bytes[..read.expect("it is open")]));
        }
        assert!(text.contains(answer), "{text}");
    }
    // A line without an end is cut, whoever sends it.
    let endless = vec![b'x'; 2 << 20];
    let mut other = UnixStream::connect(&path).await.expect("we are let in");
    let cut = timeout(Duration::from_secs(30), async {
        while other.write_all(&endless).await.is_ok() {}
    });
    cut.await.expect("it is cut");
    let mut live = live;
    assert!(matches!(adopt(&live.stage.place).await, Ok(Found::Alive(_))));
    assert!(live.stop().await.2);
}
