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

/// What an answer is made of: a document, or messages as they come.
pub type Body = BoxBody<Bytes, Infallible>;

/// The endpoint of one server.
pub struct Endpoint {
    service: Service,
    manager: Arc<LocalSessionManager>,
    owners: Mutex<BTreeMap<String, Owner>>,
    stop: Box<dyn Fn() + Send + Sync>,
}

/// What answers: the handler, or the handler with the fixtures of the conformance suite beside it.
enum Service {
    Plain(StreamableHttpService<Handler, LocalSessionManager>),
    Dressed(StreamableHttpService<Dressed, LocalSessionManager>),
}

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner(String);

impl Owner {
    fn of(caller: &Caller) -> Self {
        let key = caller.key.as_ref().map_or("", |key| key.as_str());
        Self(format!("{}\n{}\n{key}", caller.tenant, caller.principal))
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
        let manager = Arc::new(LocalSessionManager::default());
        // Host and Origin were asked about before, by stricter rules.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true);
        let token = config.cancellation_token.clone();
        let make = move || Handler::new(desk.clone(), Toolset::Run, Arc::default());
        let sessions = Arc::clone(&manager);
        let service = if fixtures {
            let shared = Arc::default();
            let make = move || Ok(Dressed::new(make(), Arc::clone(&shared)));
            Service::Dressed(StreamableHttpService::new(make, sessions, config))
        } else {
            Service::Plain(StreamableHttpService::new(move || Ok(make()), sessions, config))
        };
        let stop = Box::new(move || token.cancel());
        Self { service, manager, owners: Mutex::default(), stop }
    }

    /// Ends every stream.
    pub fn stop(&self) {
        (self.stop)();
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
        match named {
            Some(id) if self.lock().get(id) != Some(&owner) => return Ok(typed(no_session())),
            None if message["method"] == "initialize" => self.make_room(&owner).await?,
            Some(_) | None => {}
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        // Secrets are for the door; nothing behind it needs to see them.
        request.headers_mut().remove(hyper::header::AUTHORIZATION);
        request.headers_mut().remove("baton-claim-token");
        request.extensions_mut().insert(guest);
        request.extensions_mut().insert(toolset);
        let response = match &self.service {
            Service::Plain(service) => service.handle(request).await,
            Service::Dressed(service) => service.handle(request).await,
        };
        if let Some(id) = named.filter(|_| head.method == Method::DELETE) {
            self.lock().remove(id);
        }
        let opened = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        if let Some(id) = opened.filter(|_| named.is_none()) {
            self.lock().insert(id.to_owned(), owner);
        }
        Ok(typed(response))
    }

    /// Sees to it that there is room for one more session. Those that ended by themselves are
    /// forgotten first.
    async fn make_room(&self, owner: &Owner) -> Result<(), Problem> {
        if self.has_room(owner) {
            return Ok(());
        }
        let ids: Vec<String> = self.lock().keys().cloned().collect();
        for id in ids {
            let live = self.manager.has_session(&id.as_str().into()).await;
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
        let owners = self.lock();
        let own = owners.values().filter(|one| *one == owner).count();
        owners.len() < SESSIONS_MAX && own < SESSIONS_PER_KEY_MAX
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Owner>> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
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
