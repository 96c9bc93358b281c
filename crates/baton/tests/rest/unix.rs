//! The socket, and `baton serve` as a process.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use baton::server::{Limits, socket};
use baton_store::sqlite::backup;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::{TcpStream, UnixStream};

use crate::caller::{Ask, Caller};
use crate::serving::{command, folder, ready, start};
use crate::world::World;

/// How often a test looks for something that is about to happen.
const LOOKS_MAX: usize = 20_000_000;
/// Where SQLite keeps the number that says which version of a schema a file has.
const VERSION_AT: u64 = 60;

fn local(ask: Ask) -> Ask {
    ask.with("host", "localhost")
}

#[tokio::test]
async fn a_port_that_strangers_fill_leaves_the_socket_open() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let (world, folder) = (World::with(limits).await, folder());
    let path = folder.path().join("run/baton.sock");
    let (listener, _bound) = socket::bind(&path).expect("the folder is ours");
    tokio::spawn(Arc::clone(&world.server).accept_unix(listener));
    let (_one, _two) = (world.connect().await, world.connect().await);
    let refused = world.connect().await.hear().await.expect("it is told");
    assert_eq!(refused.status, 503);
    let mut caller = Caller::new(UnixStream::connect(&path).await.expect("it listens"));
    assert_eq!(caller.ask(&local(Ask::get("/v1/tasks"))).await.status, 200);
}

#[tokio::test]
async fn whoever_runs_the_server_needs_no_key_at_its_socket() {
    let (world, folder) = (World::new().await, folder());
    let path = folder.path().join("run/baton.sock");
    let (listener, bound) = socket::bind(&path).expect("the folder is ours");
    tokio::spawn(Arc::clone(&world.server).accept_unix(listener));
    let mut caller = Caller::new(UnixStream::connect(&path).await.expect("it listens"));
    let put = Ask::change("PUT", "/v1/projects/shop", "put", &json!({}));
    assert_eq!(caller.ask(&local(put)).await.status, 200);
    let events = caller.ask(&local(Ask::get("/v1/events"))).await.json();
    let last = events["items"].as_array().and_then(|items| items.last()).expect("it was put");
    assert_eq!(last["actor"]["principal"], "owner");
    assert_eq!(last["actor"]["origin"], "socket");
    let keyed = local(Ask::get("/v1/tasks"));
    let bad = keyed.clone().with("authorization", "Bearer x");
    assert_eq!(caller.ask(&bad).await.status, 401, "a bad key is worse than none");
    let good = keyed.with("authorization", &format!("Bearer {}", world.key));
    assert_eq!(caller.ask(&good).await.status, 200);
    let elsewhere = Ask::get("/v1/tasks").with("host", "evil.example");
    assert_eq!(caller.ask(&elsewhere).await.status, 421);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&folder.path().join("run")), 0o700);
    drop(bound);
    assert!(!path.exists(), "its name goes with it");
}

#[tokio::test]
async fn a_folder_that_is_not_ours_alone_is_refused() {
    let folder = folder();
    let wide = folder.path().join("wide");
    fs::create_dir(&wide).expect("there is room");
    for mode in [0o755, 0o710, 0o701, 0o777] {
        fs::set_permissions(&wide, Permissions::from_mode(mode)).expect("it is ours");
        let refused = socket::bind(&wide.join("s")).err();
        assert!(matches!(refused, Some(socket::Error::NotOurs(_))), "{mode:o}: {refused:?}");
    }
    let narrow = folder.path().join("narrow");
    fs::create_dir(&narrow).expect("there is room");
    fs::set_permissions(&narrow, Permissions::from_mode(0o700)).expect("it is ours");
    symlink(&narrow, folder.path().join("link")).expect("there is room");
    let linked = socket::bind(&folder.path().join("link/s")).err();
    assert!(matches!(linked, Some(socket::Error::NotOurs(_))), "{linked:?}");
    fs::write(narrow.join("file"), "x").expect("there is room");
    symlink(narrow.join("file"), narrow.join("link")).expect("there is room");
    for name in ["file", "link"] {
        let refused = socket::bind(&narrow.join(name)).err();
        assert!(matches!(refused, Some(socket::Error::NoSocket(_))), "{name}: {refused:?}");
    }
    assert_eq!(fs::read(narrow.join("file")).expect("it is there"), b"x", "nothing was touched");
    let long = socket::bind(&narrow.join("x".repeat(100))).err();
    assert!(matches!(long, Some(socket::Error::TooLong(_))), "{long:?}");
    let away = socket::bind(&folder.path().join("a/b/s")).err();
    assert!(matches!(away, Some(socket::Error::Io(..))), "{away:?}");
}

#[tokio::test]
async fn a_leftover_is_replaced_and_a_live_socket_is_not() {
    let folder = folder();
    let path = folder.path().join("s");
    drop(UnixListener::bind(&path).expect("there is room"));
    assert!(path.exists(), "a crash leaves the name behind");
    let (_listener, _bound) = socket::bind(&path).expect("nobody answers there");
    let refused = socket::bind(&path).err();
    assert!(matches!(refused, Some(socket::Error::InUse(_))), "{refused:?}");
}

fn exit(data: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = command(data, more).output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve_says_when_it_is_ready_keeps_its_key_and_ends_cleanly() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut first = start(&data);
    assert_eq!(first.ready["ready"], true);
    assert_eq!(first.connect().await.ask(&first.get("/v1/tasks")).await.status, 200);
    let key = fs::read(first.text("key_file")).expect("it is written");
    let socket = first.text("socket");
    let mut local_caller = Caller::new(UnixStream::connect(&socket).await.expect("it listens"));
    let put = Ask::change("PUT", "/v1/projects/shop", "put", &json!({}));
    assert_eq!(local_caller.ask(&local(put)).await.status, 200);
    for name in ["", "local.key", "run", "pepper", "baton.db"] {
        let path = data.join(name);
        let Ok(there) = fs::metadata(&path) else { continue };
        assert_eq!(there.mode() & 0o077, 0, "{} is for us alone", path.display());
    }
    let (code, said) = exit(&data, &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(75), "{said}");
    first.signal(Signal::TERM);
    assert_eq!(first.wait().code(), Some(0));
    assert!(!Path::new(&socket).exists());
    let mut second = start(&data);
    assert_eq!(fs::read(second.text("key_file")).expect("it is there"), key, "the key is kept");
    let shown = second.connect().await.ask(&second.get("/v1/projects/shop")).await;
    assert_eq!(shown.status, 200, "nothing is lost");
    fs::remove_file(second.text("key_file")).expect("it is ours");
    second.signal(Signal::INT);
    assert_eq!(second.wait().code(), Some(0));
    let third = start(&data);
    assert_ne!(fs::read(third.text("key_file")).expect("it is there"), key, "a new secret");
    assert_eq!(third.connect().await.ask(&third.get("/v1/tasks")).await.status, 200);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = folder();
    let mut serving = start(&folder.path().join("data"));
    let mut waiting = serving.connect().await;
    let claim = serving.get("/v1/events").with("accept", "text/event-stream");
    waiting.send(&claim).await;
    assert_eq!(waiting.head().await.expect("it begins").0, 200);
    serving.signal(Signal::TERM);
    // It has begun to stop once the stream is told.
    while waiting.event().await.is_some_and(|event| event.kind != "resync") {}
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait().code(), Some(1));
}

#[test]
fn it_does_not_start_where_others_could_listen_in() {
    let folder = folder();
    let data = folder.path().join("data");
    let matrix: [(&[&str], &str); 10] = [
        (&["--listen", "0.0.0.0:0"], "--tls-cert"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "/nowhere"], "--tls-key"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "/no", "--tls-key", "/no"], "/no cannot"),
        (&["--listen", "0.0.0.0:0"], "--behind-proxy"),
        (&["--listen", "[::]:0"], "--behind-proxy"),
        (&["--listen", "192.0.2.1:80"], "--behind-proxy"),
        (&["--listen", "0.0.0.0:0", "--host", "baton.example"], "--behind-proxy"),
        (&["--listen", "0.0.0.0:0", "--behind-proxy"], "--host"),
        (&["--listen", "0.0.0.0:0", "--behind-proxy", "--host", "http://x/"], "--host"),
        (&["--listen", "nowhere"], "--listen"),
    ];
    for (more, word) in matrix {
        let (code, said) = exit(&data, more);
        assert_eq!(code, Some(2), "{more:?}: {said}");
        assert!(said.contains(word), "{more:?}: {said}");
        assert!(!data.exists(), "{more:?} made something");
    }
}

#[test]
fn a_port_that_is_taken_leaves_no_folder_behind() {
    let folder = folder();
    let data = folder.path().join("data");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it has one").to_string();
    let (code, said) = exit(&data, &["--listen", &address]);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
    assert!(!data.exists(), "it made something");
    // Somebody else in the folder is told before somebody else at the port.
    let _serving = start(&data);
    let (code, said) = exit(&data, &["--listen", &address]);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("data"), "{said}");
}

#[test]
fn it_stops_with_its_input_if_it_is_told_to() {
    let folder = folder();
    let mut command = command(folder.path(), &["--listen", "127.0.0.1:0", "--stop-with-stdin"]);
    let mut serving = ready({
        command.stdin(Stdio::piped());
        command
    });
    drop(serving.child.stdin.take());
    assert_eq!(serving.wait().code(), Some(0));
    // A terminal that goes away is the same.
    let mut serving = start(folder.path());
    serving.signal(Signal::HUP);
    assert_eq!(serving.wait().code(), Some(0));
}

#[test]
fn data_that_are_not_to_be_used_end_it_with_their_own_code() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("there is room");
    let listen = ["--listen", "127.0.0.1:0"];
    fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("it is ours");
    let (code, said) = exit(&data, &listen);
    assert_eq!(code, Some(65), "{said}");
    fs::set_permissions(&data, Permissions::from_mode(0o700)).expect("it is ours");
    fs::write(data.join("pepper"), "none").expect("there is room");
    fs::set_permissions(data.join("pepper"), Permissions::from_mode(0o600)).expect("it is ours");
    let (code, said) = exit(&data, &listen);
    assert_eq!(code, Some(65), "{said}");
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("there is room");
    let (code, said) = exit(&file.join("data"), &listen);
    assert_eq!(code, Some(74), "{said}");
}

#[test]
fn a_database_of_a_newer_version_is_told_and_left_alone() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut serving = start(&data);
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait().code(), Some(0));
    // The version of a schema stands at a fixed place of the file.
    let file = fs::File::options().write(true).open(data.join("baton.db")).expect("it is ours");
    file.write_all_at(&9_999_u32.to_be_bytes(), VERSION_AT).expect("there is room");
    let before = fs::read(data.join("baton.db")).expect("it reads");
    let (code, said) = exit(&data, &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("upgrade"), "{said}");
    assert_eq!(fs::read(data.join("baton.db")).expect("it reads"), before);
}

#[tokio::test]
async fn behind_a_proxy_it_answers_under_the_name_that_it_was_given() {
    let folder = folder();
    let more = ["--listen", "0.0.0.0:0", "--behind-proxy", "--host", "baton.example"];
    let serving = ready(command(&folder.path().join("data"), &more));
    let port = serving.text("url").rsplit_once(':').expect("a port").1.to_owned();
    let socket = TcpStream::connect(format!("127.0.0.1:{port}")).await.expect("it listens");
    let mut caller = Caller::new(socket);
    let ask = serving.get("/v1/tasks").without("host");
    assert_eq!(caller.ask(&ask.clone().with("host", "baton.example")).await.status, 200);
    assert_eq!(caller.ask(&ask.with("host", "evil.example")).await.status, 421);
}

#[tokio::test]
async fn a_store_that_fails_while_it_serves_ends_it_with_the_code_of_the_disk() {
    let folder = folder();
    let data = folder.path().join("data");
    // Files may grow so far and no further, in units of 512 bytes, and nobody is killed for it.
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"";
    let asked = command(&data, &["--listen", "127.0.0.1:0"]);
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(script).arg(asked.get_program()).args(asked.get_args());
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut serving = ready(limited);
    let socket = serving.text("socket");
    let mut caller = Caller::new(UnixStream::connect(&socket).await.expect("it listens"));
    let put = Ask::change("PUT", "/v1/projects/shop", "put", &json!({}));
    assert_eq!(caller.ask(&local(put)).await.status, 200);
    let body = json!({ "project": "shop", "title": "large", "body": "x".repeat(60_000) });
    let mut last = 201;
    for number in 0..200 {
        let ask = Ask::change("POST", "/v1/tasks", &format!("task-{number}"), &body);
        caller.send(&local(ask)).await;
        match caller.hear().await {
            Some(answer) if answer.status == 201 => {}
            Some(answer) => last = answer.status,
            None => break,
        }
        if last != 201 {
            break;
        }
    }
    let status = serving.wait();
    assert_eq!(status.code(), Some(74), "{status:?}, after {last}");
}

#[test]
fn a_folder_that_is_removed_under_it_ends_it_with_the_code_of_the_disk() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut serving = start(&data);
    fs::rename(&data, folder.path().join("elsewhere")).expect("it is ours");
    assert_eq!(serving.wait().code(), Some(74));
    let mut said = String::new();
    let err = serving.child.stderr.as_mut().expect("it is piped");
    err.read_to_string(&mut said).expect("it is text");
    assert!(said.contains("was moved or removed"), "{said}");
}

#[test]
fn a_demo_that_is_killed_takes_its_server_with_it() {
    let folder = folder();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_baton"));
    demo.arg("demo").env("TMPDIR", folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut demo = demo.stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    let out = demo.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says something");
    let made = fs::read_dir(folder.path()).expect("it is ours").next().expect("one folder");
    let data = made.expect("it reads").path().join("data");
    let socket = std::os::unix::net::UnixStream::connect(data.join("run/baton.sock"));
    let mut socket = socket.expect("its server listens");
    assert!(backup::is_in_use(&data).expect("it can be asked"));
    demo.kill().expect("it takes a signal");
    demo.wait().expect("it ends");
    // The server lets go of whoever is there, and then of its folder.
    socket.read_to_end(&mut vec![]).expect("the end comes");
    let deadline = (0..LOOKS_MAX).find(|_| {
        std::thread::yield_now();
        !backup::is_in_use(&data).expect("it can be asked")
    });
    assert!(deadline.is_some(), "it still works in the folder");
}
