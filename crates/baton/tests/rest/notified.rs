//! What whoever started a server is told, by real datagrams.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::serving::{command, folder, ready};

/// Longer than anything here takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).expect("it is told in time");
    String::from_utf8(bytes[..length].to_vec()).expect("a text")
}

#[test]
fn whoever_started_it_hears_that_it_is_ready_that_it_lives_and_that_it_stops() {
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a new socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut wish = command(&folder.path().join("data"), &["--listen", "127.0.0.1:0"]);
    wish.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut serving = ready(wish);
    // Its clock may turn before it says that it is ready.
    let told = || std::iter::repeat_with(|| heard(&socket));
    let ready = format!("READY=1\nSTATUS=serves at {}", serving.text("url"));
    assert!(told().any(|words| words == ready));
    assert!(told().any(|words| words == "WATCHDOG=1"));
    serving.signal(Signal::TERM);
    let last = told().find(|words| words != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1\nSTATUS=drains"));
    assert!(serving.child.wait().expect("it ends").success());
}
