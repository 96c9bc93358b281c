//! Real datagrams over real sockets.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::advance;

use super::Notifier;
use crate::surroundings::Surroundings;

fn told_by(pairs: &[(&str, &str)]) -> Notifier {
    let get = |name: &str| {
        let found = pairs.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Notifier::of(&Surroundings::read(get, false))
}

fn listening(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("a new socket");
    socket.set_nonblocking(true).expect("a socket");
    socket
}

fn heard(socket: &UnixDatagram) -> Option<String> {
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).ok()?;
    Some(String::from_utf8(bytes[..length].to_vec()).expect("a text"))
}

#[test]
fn whoever_started_the_server_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = listening(&path);
    let notifier = told_by(&[("NOTIFY_SOCKET", path.to_str().expect("a text"))]);
    assert_eq!(heard(&socket), None);
    notifier.ready("http://127.0.0.1:7117");
    let ready = heard(&socket).expect("it is told");
    assert_eq!(ready, "READY=1\nSTATUS=serves at http://127.0.0.1:7117");
    notifier.stopping();
    assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1\nSTATUS=drains"));
}

#[test]
fn a_name_that_begins_with_an_at_sign_is_one_without_a_file() {
    let name = format!("baton-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("nobody else has it");
    told_by(&[("NOTIFY_SOCKET", &format!("@{name}"))]).ready("x");
    assert!(heard(&socket).expect("it is told").starts_with("READY=1\n"));
}

#[test]
fn nobody_and_nonsense_are_told_nothing_and_stop_nothing() {
    told_by(&[]).ready("x");
    told_by(&[("NOTIFY_SOCKET", "relative")]).ready("x");
    told_by(&[("NOTIFY_SOCKET", "/nowhere/at/all")]).stopping();
}

/// Moves the clock, and lets everybody do what that brings.
async fn pass(length: Duration) {
    advance(length).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_lives_only_as_long_as_time_passes_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = listening(&path);
    let path = path.to_str().expect("a text");
    let notifier = told_by(&[("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "10000000")]);
    let (turned, turns) = watch::channel(0);
    let notifier = Arc::new(notifier);
    let living = tokio::spawn(async move { notifier.live(turns).await });
    pass(Duration::from_secs(60)).await;
    assert_eq!(heard(&socket), None, "no time has passed in it");
    let mut told = 0;
    for _ in 0..59 {
        turned.send_modify(|turns| *turns += 1);
        pass(Duration::from_millis(500)).await;
        told += usize::from(heard(&socket).is_some_and(|words| words == "WATCHDOG=1"));
    }
    assert_eq!(told, 6, "every half of ten seconds, for almost thirty");
    pass(Duration::from_secs(60)).await;
    assert!(std::iter::from_fn(|| heard(&socket)).count() <= 1, "it hangs, and says nothing");
    drop(turned);
    living.await.expect("it ends with the clockwork");
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_of_somebody_else_is_not_fed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = listening(&path);
    let path = path.to_str().expect("a text");
    for other in [("WATCHDOG_PID", "1"), ("WATCHDOG_USEC", "0"), ("WATCHDOG_USEC", "soon")] {
        let usual = ("WATCHDOG_USEC", "1000000");
        let notifier = told_by(&[("NOTIFY_SOCKET", path), other, usual]);
        let (turned, turns) = watch::channel(0);
        turned.send_modify(|turns| *turns += 1);
        notifier.live(turns).await;
        assert_eq!(heard(&socket), None, "{other:?}");
    }
}
