//! `/mcp`: the protocol over HTTP, for requests that the server has let in. Sessions, which only the
//! legacy era has, belong to the key that opened them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use crate::call::Patience;
use crate::chance::Chance;
use crate::identity::{Caller, Identity};
use crate::problem::Problem;
use crate::shape::Violation;

pub use super::desk::Guest;
use super::desk::{Desk, Inside};
use super::fixtures::Dressed;
use super::{Handler, Toolset};

/// Sessions in all; each costs a task and a few buffers.
const SESSIONS_MAX: usize = 1_024;
/// Sessions of one key: many agents, but no more than it may have requests at once.
const SESSIONS_PER_KEY_MAX: usize = 64;
/// Where the legacy era names its session.
const SESSION_ID: &str = "mcp-session-id";
/// Since when a stream may begin with an event that only says where to go on after a cut. Versions
/// are dates, so they can be compared as they are.
const FIRST_EVENT_SINCE: &str = "2025-11-25";

/// What an answer is made of: a document, or messages as they come.
pub type Body = BoxBody<Bytes, Infallible>;

/// The endpoint of one server.
pub struct Endpoint {
    /// For all versions of the protocol in which a stream begins with an event that says nothing.
    hall: Hall,
    /// For those before: their clients take such an event for a broken message.
    old_hall: Hall,
    sessions: Mutex<BTreeMap<String, Session>>,
}

/// A place where sessions are.
struct Hall {
    service: Service,
    manager: Arc<LocalSessionManager>,
    stop: Box<dyn Fn() + Send + Sync>,
}

/// What answers: the handler, or the handler with the fixtures of the conformance suite beside it.
enum Service {
    Plain(StreamableHttpService<Handler, LocalSessionManager>),
    Dressed(StreamableHttpService<Dressed, LocalSessionManager>),
}

/// Whose session it is, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    owner: Owner,
    old: bool,
}

/// Who has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner(String);

impl Owner {
    fn of(caller: &Caller) -> Self {
        let key = caller.key.as_ref().map_or("", |key| key.as_str());
        Self(format!("{}\n{}\n{key}", caller.tenant, caller.principal))
    }
}

impl Hall {
    fn new(desk: &Desk, fixtures: bool, first_event: bool) -> Self {
        let mut manager = LocalSessionManager::default();
        // Host and Origin were asked about before, by stricter rules.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true);
        if !first_event {
            manager.session_config.sse_retry = None;
            config = config.with_sse_retry(None);
        }
        let token = config.cancellation_token.clone();
        let (manager, desk) = (Arc::new(manager), desk.clone());
        let make = move || Handler::new(desk.clone(), Toolset::Run, Arc::default());
        let sessions = Arc::clone(&manager);
        let service = if fixtures {
            let shared = Arc::default();
            let make = move || Ok(Dressed::new(make(), Arc::clone(&shared)));
            Service::Dressed(StreamableHttpService::new(make, sessions, config))
        } else {
            Service::Plain(StreamableHttpService::new(move || Ok(make()), sessions, config))
        };
        Self { service, manager, stop: Box::new(move || token.cancel()) }
    }
}

impl Endpoint {
    /// An endpoint that performs operations for whoever is let in.
    #[must_use]
    pub fn new(
        identity: Arc<Identity>,
        patience: Patience,
        chance: Arc<dyn Chance>,
        fixtures: bool,
    ) -> Self {
        let desk = Desk::Inside(Arc::new(Inside::new(identity, patience, chance)));
        let hall = Hall::new(&desk, fixtures, true);
        let old_hall = Hall::new(&desk, fixtures, false);
        Self { hall, old_hall, sessions: Mutex::default() }
    }

    /// Ends every stream.
    pub fn stop(&self) {
        (self.hall.stop)();
        (self.old_hall.stop)();
    }

    fn hall(&self, old: bool) -> &Hall {
        if old { &self.old_hall } else { &self.hall }
    }

    /// Answers a request of this caller, whose body was read and found to be this message.
    pub async fn answer(
        &self,
        guest: Guest,
        head: &Parts,
        body: Bytes,
        message: &Value,
    ) -> Result<Response<Body>, Problem> {
        let toolset = toolset(head.uri.query())?;
        let owner = Owner::of(&guest.caller);
        let named = head.headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let old = match named {
            Some(id) => match self.lock().get(id).filter(|session| session.owner == owner) {
                Some(session) => session.old,
                None => return Ok(typed(no_session())),
            },
            None if message["method"] == "initialize" => {
                self.make_room(&owner).await?;
                let version = message["params"]["protocolVersion"].as_str();
                version.is_some_and(|version| version < FIRST_EVENT_SINCE)
            }
            None => false,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        // Secrets are for the door; nothing behind it needs to see them.
        request.headers_mut().remove(hyper::header::AUTHORIZATION);
        request.headers_mut().remove("baton-claim-token");
        request.extensions_mut().insert(guest);
        request.extensions_mut().insert(toolset);
        let response = match &self.hall(old).service {
            Service::Plain(service) => service.handle(request).await,
            Service::Dressed(service) => service.handle(request).await,
        };
        if let Some(id) = named.filter(|_| head.method == Method::DELETE) {
            self.lock().remove(id);
        }
        let opened = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(id) = opened.filter(|_| named.is_none()) {
            self.lock().insert(id.to_owned(), Session { owner, old });
        }
        Ok(typed(response))
    }

    /// Sees to it that there is room for one more session. Those that ended by themselves are
    /// forgotten first.
    async fn make_room(&self, owner: &Owner) -> Result<(), Problem> {
        if self.has_room(owner) {
            return Ok(());
        }
        let all: Vec<_> =
            self.lock().iter().map(|(id, session)| (id.clone(), session.old)).collect();
        for (id, old) in all {
            let live = self.hall(old).manager.has_session(&id.as_str().into()).await;
            if !live.unwrap_or(false) {
                self.lock().remove(&id);
            }
        }
        if self.has_room(owner) {
            return Ok(());
        }
        Err(Problem::new("overloaded", "too many MCP sessions are open: end some, or wait"))
    }

    fn has_room(&self, owner: &Owner) -> bool {
        let sessions = self.lock();
        let own = sessions.values().filter(|one| one.owner == *owner).count();
        sessions.len() < SESSIONS_MAX && own < SESSIONS_PER_KEY_MAX
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request wants to be offered: `/mcp`, or `/mcp?toolset=all`.
fn toolset(query: Option<&str>) -> Result<Toolset, Problem> {
    let Some(query) = query else { return Ok(Toolset::Run) };
    query.strip_prefix("toolset=").and_then(Toolset::of).ok_or_else(|| {
        let rule = "must be run or all, and nothing else may stand in the query".to_owned();
        Problem::invalid(vec![Violation { field: "toolset".into(), rule }])
    })
}

/// With a type, as every answer of ours has: one without is taken for the parser's own words.
fn typed(mut response: Response<Body>) -> Response<Body> {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().entry(CONTENT_TYPE).or_insert(plain);
    response
}

/// A session of somebody else looks like one that never was.
fn no_session() -> Response<Body> {
    let text = Full::new(Bytes::from_static(b"Not Found: Session not found"));
    let mut response = Response::new(BoxBody::new(text));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
