//! The client against a server of a few lines that says what it is told to.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::UnixListener;

use super::{Address, Asked, Client, KeyFrom, Origin, Trust, exit_of};
use crate::chance::SeededChance;
use crate::declaration::Method;
use crate::operations;
use crate::problem::CODES;
use crate::surroundings::Hidden;

/// What the server does with the next request.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// Status, body, and for how many seconds to wait.
    Answer(u16, Value, Option<u64>),
    /// Reads the request and goes away.
    HangsUp,
    /// Something that is no JSON.
    Nonsense,
}

/// A request as the server saw it: method, target, headers that matter, body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) key: Option<String>,
    pub(crate) bearer: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) body: String,
}

/// A server that says what it is told to.
pub(crate) struct Puppet {
    says: Mutex<VecDeque<Says>>,
    seen: Mutex<Vec<Seen>>,
}

impl Puppet {
    /// Listens on a socket. The last saying is repeated.
    pub(crate) fn at(path: &Path, says: Vec<Says>) -> Arc<Self> {
        let listener = UnixListener::bind(path).expect("a new socket");
        let puppet = Arc::new(Self { says: Mutex::new(says.into()), seen: Mutex::default() });
        let own = Arc::clone(&puppet);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = Arc::clone(&own);
                let service = service_fn(move |request| answer(Arc::clone(&own), request));
                let serving = hyper::server::conn::http1::Builder::new();
                tokio::spawn(serving.serve_connection(TokioIo::new(stream), service));
            }
        });
        puppet
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("nobody panicked").clone()
    }
}

async fn answer(
    puppet: Arc<Puppet>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let mut seen = Seen {
        method: request.method().to_string(),
        target: request.uri().to_string(),
        key: header("idempotency-key"),
        bearer: header("authorization"),
        token: header("baton-claim-token"),
        if_match: header("if-match"),
        body: String::new(),
    };
    let body = request.into_body().collect().await.expect("a whole request").to_bytes();
    seen.body = String::from_utf8(body.to_vec()).expect("a text");
    puppet.seen.lock().expect("nobody panicked").push(seen);
    let says = {
        let mut says = puppet.says.lock().expect("nobody panicked");
        let next = says.front().cloned().expect("it is told what to say");
        if says.len() > 1 {
            says.pop_front();
        }
        next
    };
    let built = match says {
        Says::Answer(status, body, retry_after) => {
            let built = Response::builder().status(status);
            let built = built.header("content-type", "application/json");
            let built = match retry_after {
                Some(seconds) => built.header("retry-after", seconds),
                None => built,
            };
            built.body(Full::new(Bytes::from(body.to_string())))
        }
        Says::Nonsense => Response::builder().body(Full::new(Bytes::from_static(b"<html>"))),
        // The task of the connection dies with it, and the connection with the task.
        Says::HangsUp => panic!("it goes away, as it was told to"),
    };
    Ok(built.expect("a response"))
}

pub(crate) fn problem(code: &str, status: u16, certainty: &str) -> Value {
    json!({ "code": code, "status": status, "title": "x", "detail": "y", "certainty": certainty })
}

pub(crate) fn client(path: &Path) -> Client {
    Client {
        address: Address::Socket(path.into()),
        trust: Trust::Machine,
        key: Some(Hidden::new("batonk_1")),
        claim_token: Some(Hidden::new("batonc_1")),
        origin: Origin::Cli,
        chance: Arc::new(SeededChance::new(7)),
    }
}

fn create() -> Asked {
    let entry = operations::find("task", "create").expect("tasks can be created");
    let mut arguments = Map::new();
    arguments.insert("title".into(), json!("one"));
    let mut asked = Asked::new(&entry.about, arguments).expect("nothing is missing");
    asked.request_key = Some("key-1".into());
    asked.if_match = Some(7);
    asked
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_asked_again_under_the_same_key_until_it_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let unknown = problem("unknown", 503, "unknown");
    let busy = problem("overloaded", 503, "did_not_happen");
    let done = json!({ "id": "T-1" });
    let puppet = Puppet::at(
        &path,
        vec![
            Says::HangsUp,
            Says::Answer(503, unknown, None),
            Says::Answer(503, busy, Some(1)),
            Says::Answer(201, done.clone(), None),
        ],
    );
    assert_eq!(client(&path).ask(&create()).await.expect("it is known in the end"), done);
    let seen = puppet.seen();
    assert_eq!(seen.len(), 4);
    for one in seen {
        assert_eq!((one.method.as_str(), one.target.as_str()), ("POST", "/v1/tasks"));
        assert_eq!(one.key.as_deref(), Some("key-1"));
        assert_eq!(one.bearer.as_deref(), Some("Bearer batonk_1"));
        assert_eq!(one.token.as_deref(), Some("batonc_1"));
        assert_eq!(one.if_match.as_deref(), Some("\"7\""));
        assert_eq!(one.body, r#"{"title":"one"}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn what_stays_unknown_ends_after_a_few_tries_and_names_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let puppet = Puppet::at(&path, vec![Says::HangsUp]);
    let failure = client(&path).ask(&create()).await.expect_err("it never answers");
    assert_eq!((failure.exit, failure.code()), (7, "unknown"));
    assert_eq!(failure.body["certainty"], "unknown");
    assert_eq!(failure.body["next"][0], "the same command with --idempotency-key key-1");
    assert_eq!(puppet.seen().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_not_denied_by_a_refusal_that_never_looked_at_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at_the_door = [
        ("overloaded", 503, Some(1)),
        ("rate_limited", 429, Some(1)),
        ("rate_limited", 429, Some(600)),
        ("stopped", 503, None),
        ("unauthenticated", 401, None),
        ("forbidden", 403, None),
        ("wrong_place", 421, None),
    ];
    for (number, (code, status, wait)) in at_the_door.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let refusal = problem(code, status, "did_not_happen");
        Puppet::at(&path, vec![Says::HangsUp, Says::Answer(status, refusal, wait)]);
        let failure = client(&path).ask(&create()).await.expect_err("it is not known");
        assert_eq!((failure.exit, failure.code()), (7, "unknown"), "{code}");
        assert_eq!(failure.body["certainty"], "unknown", "{code}");
        assert_eq!(failure.body["request_key"], "key-1", "{code}");
    }
    // Whoever answers about the order has looked up what became of it.
    let path = folder.path().join("decided");
    let refusal = problem("held", 409, "did_not_happen");
    Puppet::at(&path, vec![Says::HangsUp, Says::Answer(409, refusal, None)]);
    let failure = client(&path).ask(&create()).await.expect_err("it is refused");
    assert_eq!((failure.code(), &failure.body["certainty"]), ("held", &json!("did_not_happen")));
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_is_not_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for code in CODES.iter().filter(|code| code.word != "unknown") {
        let path = folder.path().join(code.word);
        let body = problem(code.word, code.status, "did_not_happen");
        let puppet = Puppet::at(&path, vec![Says::Answer(code.status, body.clone(), None)]);
        let failure = client(&path).ask(&create()).await.expect_err("it is refused");
        assert_eq!((failure.exit, &failure.body), (code.exit, &body), "{}", code.word);
        assert_eq!(puppet.seen().len(), 1, "{}", code.word);
    }
    assert_eq!(exit_of("invented_by_a_newer_server"), 1);
}

#[tokio::test]
async fn nothing_there_and_nothing_of_ours_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = client(&folder.path().join("none")).ask(&create()).await;
    let failure = failure.expect_err("nobody is there");
    assert_eq!((failure.exit, failure.code()), (6, "unreachable"));
    assert_eq!(failure.body["next"][0], "baton serve");
    let path = folder.path().join("s");
    let puppet = Puppet::at(&path, vec![Says::Nonsense]);
    let failure = client(&path).ask(&create()).await.expect_err("it is no server of ours");
    assert!(failure.body["detail"].as_str().expect("a text").contains("no baton server"));
    assert_eq!((failure.exit, puppet.seen().len()), (6, 1));
}

#[test]
fn a_server_on_another_machine_cannot_be_started_here() {
    for (url, next) in
        [("http://127.0.0.1:7117", "baton serve"), ("https://baton.example", "baton doctor")]
    {
        let address = Address::of_url(url).expect("it is an address");
        let failure = Client { address, ..client(Path::new("s")) }.nobody();
        assert_eq!((failure.exit, failure.code()), (6, "unreachable"));
        assert_eq!(failure.body["next"], json!([next]), "{url}");
    }
}

#[test]
fn arguments_go_into_the_path_the_query_and_the_body() {
    let asked = |noun: &str, verb: &str, arguments: Value| {
        let entry = operations::find(noun, verb).expect("it is in the table");
        let arguments = arguments.as_object().expect("an object").clone();
        Asked::new(&entry.about, arguments).expect("nothing is missing")
    };
    let list = asked("task", "list", json!({ "project": "a/b c", "ended": true, "limit": 2 }));
    assert_eq!(list.target, "/v1/tasks?ended=true&limit=2&project=a%2Fb%20c");
    assert_eq!((list.method, list.body), (Method::Get, None));
    let show = asked("task", "show", json!({ "task": "../x?y" }));
    assert_eq!(show.target, "/v1/tasks/..%2Fx%3Fy");
    let note = asked("run", "checkpoint", json!({ "run": "mine", "summary": "s" }));
    assert_eq!(note.target, "/v1/runs/mine/checkpoints");
    assert_eq!(note.body, Some(json!({ "summary": "s" })));
}

#[test]
fn an_address_is_http_a_host_and_a_port() {
    let address =
        |url: &str| Address::of_url(url).map(|address| (address.to_string(), address.is_local()));
    let good = [
        ("http://127.0.0.1:7117", true),
        ("http://[::1]:7117", true),
        ("http://localhost:80", true),
        ("http://baton.example:7117", false),
        ("https://baton.example:443", false),
        ("https://localhost:7117", true),
    ];
    for (url, local) in good {
        assert_eq!(address(url).expect("it is an address"), (url.to_owned(), local));
    }
    for url in ["ftp://a:1", "http://a:1/x", "http://u:p@a:1", "a:1", "", "http://a:1/?k=1"] {
        assert_eq!(address(url).expect_err("it is none").exit, 2, "{url}");
    }
    let exposed = |url: &str| Address::of_url(url).expect("it is an address").is_exposed();
    assert!(exposed("http://baton.example:7117"));
    assert!(!exposed("https://baton.example") && !exposed("http://[::1]:7117"));
}

#[test]
fn a_key_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    std::fs::write(&path, "batonk_1\n").expect("it can be written");
    let mode = |mode| {
        let wanted = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, wanted).expect("it is ours");
    };
    mode(0o644);
    let refused = KeyFrom::File(path.clone()).read().expect_err("it is open");
    assert_eq!(refused.exit, 4);
    assert!(refused.body["next"][0].as_str().expect("a text").starts_with("chmod 600 "));
    mode(0o600);
    let key = KeyFrom::File(path).read().expect("it is ours alone");
    assert_eq!(key, Some(Hidden::new("batonk_1")));
}
