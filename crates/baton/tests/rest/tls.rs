//! TLS at the port: the same server, and nobody can listen in.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use baton::server::Limits;
use baton::server::tls::Tls;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::caller::{Ask, Caller};
use crate::serving::{command, folder, ready};
use crate::world::World;

/// A certificate of one's own for the names of this machine.
struct Pair {
    folder: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { folder: folder() };
        pair.renew();
        pair
    }

    fn cert(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn renew(&self) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a pair");
        fs::write(self.cert(), made.cert.pem()).expect("it can be written");
        fs::write(self.key(), made.signing_key.serialize_pem()).expect("it can be written");
        fs::set_permissions(self.key(), Permissions::from_mode(0o600)).expect("it is ours");
    }

    /// What a tool makes that is asked for a certificate of one's own and nothing else.
    fn make_authority(&self) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut wish = rcgen::CertificateParams::new(names).expect("names");
        wish.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let made = wish.self_signed(&key).expect("a certificate");
        fs::write(self.cert(), made.pem()).expect("it can be written");
        fs::write(self.key(), key.serialize_pem()).expect("it can be written");
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.cert()).expect("it is one")
    }

    async fn shake_hands(&self, socket: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).expect("it is good");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("they are known")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}

/// A world whose server also listens with TLS.
async fn world(limits: Limits) -> (World, Pair, String) {
    let (world, pair) = (World::with(limits).await, Pair::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it has one").to_string();
    let tls = Tls::read(&pair.cert(), &pair.key()).expect("they fit");
    tokio::spawn(Arc::clone(&world.server).accept_tls(listener, Arc::new(tls)));
    (world, pair, address)
}

async fn connect(pair: &Pair, address: &str) -> Caller {
    let socket = TcpStream::connect(address).await.expect("it listens");
    Caller::new(pair.shake_hands(socket).await.expect("they shake hands"))
}

#[tokio::test]
async fn what_is_asked_inside_is_answered_as_outside() {
    let (world, pair, address) = world(Limits::default()).await;
    world.project().await;
    let mut caller = connect(&pair, &address).await;
    for _ in 0..2 {
        let outside = world.ask(&world.get("/v1/projects")).await;
        let inside = caller.ask(&world.get("/v1/projects")).await;
        assert_eq!((inside.status, inside.body), (200, outside.body));
    }
    let large = json!({ "project": "shop", "title": "large", "body": "x".repeat(60_000) });
    let made = caller.ask(&world.post("/v1/tasks").json(&large)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let bare = world.plain(Ask::get("/v1/tasks"));
    assert_eq!(caller.ask(&bare).await.status, 401, "TLS lets nobody in");
}

#[tokio::test]
async fn whoever_does_not_encrypt_is_told_so() {
    let (world, _pair, address) = world(Limits::default()).await;
    let mut caller = Caller::new(TcpStream::connect(&address).await.expect("it listens"));
    let told = caller.ask(&world.get("/v1/tasks")).await;
    assert_eq!((told.status, told.code().as_str()), (400, "malformed"));
    assert!(told.json()["detail"].as_str().expect("a sentence").contains("https://"));
    assert!(caller.is_ended().await);
}

#[tokio::test]
async fn whoever_does_not_shake_hands_in_time_is_cut() {
    let head = Duration::from_millis(100);
    let (_world, pair, address) = world(Limits { head, ..Limits::default() }).await;
    let mut silent = Caller::new(TcpStream::connect(&address).await.expect("it listens"));
    let mut begun = Caller::new(TcpStream::connect(&address).await.expect("it listens"));
    begun.say(&[22, 3, 1, 2, 0]).await;
    assert!(silent.is_ended().await && begun.is_ended().await);
    connect(&pair, &address).await;
}

#[tokio::test]
async fn on_the_way_out_everybody_inside_is_told_too() {
    let limits = Limits {
        linger: Duration::from_millis(50),
        drain: Duration::from_secs(10),
        ..Limits::default()
    };
    let (world, pair, address) = world(limits).await;
    world.project().await;
    let mut waiting = connect(&pair, &address).await;
    waiting.send(&world.claim("claim", &json!({ "wait": "50s" }))).await;
    let mut following = connect(&pair, &address).await;
    following.send(&world.get("/v1/events").with("accept", "text/event-stream")).await;
    assert_eq!(following.head().await.expect("it begins").0, 200);
    let mut idle = connect(&pair, &address).await;
    assert_eq!(idle.ask(&world.get("/v1/tasks")).await.status, 200);
    let shaking = TcpStream::connect(&address).await.expect("it listens");
    world.until_waiting(1).await;
    world.until_listening(1).await;
    let server = Arc::clone(&world.server);
    let draining = tokio::spawn(async move { server.drain().await });
    let answer = waiting.hear().await.expect("it is answered");
    assert_eq!((answer.status, answer.code().as_str()), (503, "stopped"));
    let mut last = None;
    while let Some(event) = following.event().await {
        last = Some(event);
    }
    let last = last.expect("it is told");
    assert_eq!((last.kind.as_str(), last.data["code"].as_str()), ("resync", Some("stopped")));
    assert!(idle.is_ended().await);
    assert!(draining.await.expect("it drains"), "everybody was answered");
    drop(shaking);
}

fn baton(url: &str, data: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.env_clear().env("HOME", data).env("BATON_HOME", data).arg("--url").arg(url);
    command.args(more).output().expect("it runs")
}

#[tokio::test]
async fn a_server_that_shows_the_certificate_of_an_authority_is_told_what_it_needs() {
    let (pair, data) = (Pair::new(), folder());
    pair.make_authority();
    let (cert, key) = (pair.cert(), pair.key());
    let (cert, key) = (cert.to_str().expect("plain"), key.to_str().expect("plain"));
    let listen = ["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
    let serving = ready(command(data.path(), &listen));
    let told = baton(&serving.text("url"), data.path(), &["--ca-file", cert, "project", "list"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(6), "{said}");
    assert!(said.contains("the certificate of an authority (CA:TRUE)"), "{said}");
    assert!(said.contains("next: baton doctor"), "it runs, so it need not be started: {said}");
}

#[tokio::test]
async fn the_command_line_asks_by_https_and_believes_only_whom_it_should() {
    let (pair, data) = (Pair::new(), folder());
    let (cert, key) = (pair.cert(), pair.key());
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (cert, key) = (text(&cert), text(&key));
    let listen = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let mut serving = ready(command(data.path(), &listen));
    let url = serving.text("url");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();

    let good = baton(&url, data.path(), &["--ca-file", &cert, "project", "add", "shop"]);
    assert!(good.status.success(), "{}", said(&good));
    let unknown = baton(&url, data.path(), &["project", "list"]);
    assert_eq!(unknown.status.code(), Some(6));
    let why = said(&unknown);
    assert!(why.contains("--ca-file") || why.contains("trusts no authority"), "{why}");
    let none = baton(&url, data.path(), &["--ca-file", "/nowhere.pem", "project", "list"]);
    assert!(said(&none).contains("--ca-file /nowhere.pem cannot be used"), "{}", said(&none));
    let plain = url.replace("https://", "http://");
    let told = baton(&plain, data.path(), &["project", "list"]);
    assert!(said(&told).contains("this port speaks TLS"), "{}", said(&told));

    // A new certificate is taken at the word of a signal, and those who are in stay in.
    let host = url.replace("https://", "");
    let mut inside = connect(&pair, &host).await;
    let before = pair.certificate();
    pair.renew();
    serving.signal(Signal::HUP);
    loop {
        let socket = TcpStream::connect(&host).await.expect("it listens");
        if pair.shake_hands(socket).await.is_ok() {
            break;
        }
    }
    assert_ne!(before, pair.certificate());
    let health = Ask::get("/health").with("host", &host);
    assert_eq!(inside.ask(&health).await.status, 200);
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait().code(), Some(0));
}
