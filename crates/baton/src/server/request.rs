//! One request, from its head to its answer.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::key::Kind;
use baton_domain::scope::{Level, Scope};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use baton_store::blobs::Urgency;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::call::{Call, Envelope};
use crate::changes::Listener;
use crate::dashboard::{self, Onlooker, Screen};
use crate::identity::{self, Caller, Identity};
use crate::mcp::http::Guest;
use crate::operation::{Declaration, Entry, Reply};
use crate::operations::{BLOB_READ, BLOB_WRITE};
use crate::points::{self, Point};
use crate::problem::Problem;
use crate::shape::{Position, Shape};
use crate::surface;
use crate::tokens::Pass;

use super::answer::{self, Sent};
use super::blobs::{self, Visitor};
use super::connection::{Busy, Connection, Taker};
use super::crowd::Seat;
use super::door::Session;
use super::guard::{self, once};
use super::live::Watcher;
use super::route::{self, Found, Page};
use super::web::{self, Web};
use super::worker::{self, Visit};
use super::{Peer, Server, arguments, json, stream, url};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const CLIENT: HeaderName = HeaderName::from_static("baton-client");
const PLAIN: &str = "text/plain; charset=utf-8";
const EVENT_STREAM: &str = "text/event-stream";
/// What a key must allow to read figures: the same as to read how the server is.
const FIGURES: Scope = Scope::of("health", Level::Read);

/// Answers one request.
pub async fn answer(
    server: &Arc<Server>,
    peer: Peer,
    (connection, busy): (&Arc<Connection>, Busy),
    request: Request<Incoming>,
) -> Response<Sent> {
    let (head, body) = request.into_parts();
    let answered = Answering { server, peer, connection, head: &head }.answer(body).await;
    let (response, seat) = answered.unwrap_or_else(|problem| {
        server.look_into(&problem);
        (answer::problem(&problem), None)
    });
    response.map(|body| body.holding(busy, seat))
}

struct Answering<'a> {
    server: &'a Arc<Server>,
    peer: Peer,
    connection: &'a Arc<Connection>,
    head: &'a Parts,
}

type Answered = (Response<Sent>, Option<Seat>);

impl Answering<'_> {
    async fn answer(&self, body: Incoming) -> Result<Answered, Problem> {
        guard::pass(self.head, self.server.hosts(self.peer))?;
        self.server.gauge().address(self.address(), self.server.engine().now())?;
        match route::find(self.server.table(), &self.head.method, self.head.uri.path()) {
            Found::Operation(entry, path) => self.operation(entry, path, body).await,
            Found::Page(page) => Ok((self.page(page).await?, None)),
            Found::Mcp => self.mcp(body).await,
            Found::Worker => self.worker(&body).await,
            Found::Blob(name) => self.blob(&name, body).await,
            Found::Web(web) => self.web(web, body).await,
            Found::WrongMethod(allowed) => Ok((answer::wrong_method(&allowed), None)),
            Found::Nothing => {
                let detail = "there is no such path: see /v1/openapi.json";
                Err(Problem::new("not_found", detail))
            }
        }
    }

    async fn page(&self, page: Page) -> Result<Response<Sent>, Problem> {
        match page {
            Page::Health => {
                let green = self.server.is_open() && self.server.engine().health().await.green;
                let (status, word) = if green {
                    (StatusCode::OK, "green")
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, "red")
                };
                Ok(answer::text(status, PLAIN, word))
            }
            Page::OpenApi => {
                self.session().await?;
                Ok(answer::json(StatusCode::OK, surface::openapi()))
            }
            Page::Metrics => {
                let session = self.session().await?;
                if !session.caller.may(&FIGURES) {
                    let detail = format!("the key does not have the scope {FIGURES}");
                    return Err(
                        Problem::new("forbidden", detail).with("scope", FIGURES.to_string())
                    );
                }
                // The figures are of all tenants together.
                if session.caller.tenant != identity::local() {
                    let detail = "figures are for whoever runs the server";
                    return Err(Problem::new("not_for_you", detail));
                }
                let figures = self.server.engine().metrics().render();
                Ok(answer::text(StatusCode::OK, PLAIN, figures))
            }
        }
    }

    /// The agents' protocol, behind the same door and under the same bounds as everything else.
    async fn mcp(&self, body: Incoming) -> Result<Answered, Problem> {
        let session = self.session().await?;
        let key = session.caller.key.as_ref();
        let seat = key.map(|key| self.server.seat(key)).transpose()?;
        let (bytes, message) = if self.head.method == Method::POST {
            let bytes =
                arguments::bytes(&self.head.headers, body, self.server.limits(), self.connection)
                    .await?;
            match json::read(&bytes) {
                Ok(message) => (bytes, message),
                Err(problem) if problem.code() == "malformed" => {
                    return Ok((answer::not_json(problem.detail()), seat));
                }
                Err(problem) => return Err(problem),
            }
        } else {
            arguments::no_body(&body)?;
            (Bytes::new(), Value::Null)
        };
        let guest = Guest { caller: session.caller.clone(), pass: self.pass(&session.caller)? };
        let response = self.server.endpoint().answer(guest, self.head, bytes, &message).await?;
        let over = async move {
            session.over().await;
        };
        Ok((answer::flowing(response, over), seat))
    }

    /// The workers' protocol: after the head the socket is theirs.
    async fn worker(&self, body: &Incoming) -> Result<Answered, Problem> {
        arguments::no_body(body)?;
        let accept = worker::shake_hands(&self.head.headers)?;
        let session = self.session().await?;
        let key = session.caller.key.as_ref();
        let seat = key.map(|key| self.server.seat(key)).transpose()?;
        let guest = self.server.relay().admit(&session.caller)?;
        let visit = Visit::new(self.server, session, seat, guest, accept);
        self.connection.hand_over(Taker::Worker(Box::new(visit)));
        Ok((answer::handed_over(), None))
    }

    /// The dashboard.
    async fn web(&self, web: Web, body: Incoming) -> Result<Answered, Problem> {
        let headers = &self.head.headers;
        let answer = match web {
            Web::Asset(asset) => web::asset(asset),
            Web::SignIn => {
                let page = dashboard::sign_in(web::theme(headers)).into_string();
                web::html(StatusCode::OK, page, web::takes_gzip(headers))
            }
            Web::Enter => self.enter(body).await?,
            Web::Leave => web::leave(self.server),
            Web::Ticket => {
                let session = self.session().await?;
                if self.pass(&session.caller)?.is_some() {
                    let detail = "whoever shows a claim token is an agent";
                    return Err(Problem::new("not_for_you", detail));
                }
                web::ticket(self.server, &session.caller)?
            }
            Web::Page => match self.visit(self.head.uri.path()).await {
                Ok((onlooker, screen, _session, seat)) => {
                    return Ok((web::page(&onlooker, &screen, headers).await, seat));
                }
                Err(problem) if problem.code() == "unauthenticated" => web::see("/sign-in"),
                Err(problem) => web::trouble(&problem, headers),
            },
            Web::Live => {
                let path = self.head.uri.path().strip_prefix("/live").unwrap_or_default();
                let (onlooker, screen, session, seat) = self.visit(path).await?;
                let listener = self.server.engine().changes().listen(&session.caller.tenant)?;
                let (looks, held) = ((onlooker, screen), (session, seat));
                let limits = *self.server.limits();
                let watcher = Watcher::begin(looks, held, listener, limits).await?;
                self.connection.hand_over(Taker::Watcher(Box::new(watcher)));
                answer::handed_over()
            }
        };
        Ok((answer, None))
    }

    /// Whoever looks with a browser, and at what.
    async fn visit(
        &self,
        path: &str,
    ) -> Result<(Onlooker, Screen, Session, Option<Seat>), Problem> {
        let Some(key) = web::shown(self.server, &self.head.headers)? else {
            return Err(Problem::new("unauthenticated", "sign in first"));
        };
        let session = self.let_in(key).await?;
        let key = session.caller.key.as_ref();
        let seat = key.map(|key| self.server.seat(key)).transpose()?;
        let query = url::query(self.head.uri.query().unwrap_or_default())?;
        let screen = Screen::of(path, &query).ok_or_else(Problem::not_found)?;
        let identity = Arc::clone(self.server.identity());
        Ok((Onlooker::new(identity, session.caller.clone()), screen, session, seat))
    }

    /// Somebody comes in with a browser, by a ticket or a key.
    async fn enter(&self, body: Incoming) -> Result<Response<Sent>, Problem> {
        let (headers, limits) = (&self.head.headers, self.server.limits());
        let body = arguments::body(headers, body, limits, self.connection).await?;
        let secret = web::secret(&body)?;
        if web::is_key(secret) {
            let session = self.let_in(secret).await?;
            return web::enter(self.server, &session.caller).await;
        }
        let (gauge, now) = (self.server.gauge(), self.server.engine().now());
        gauge.may_try(self.address(), now)?;
        let Some(caller) = self.server.tickets().redeem(secret, now) else {
            gauge.failed(self.address(), now);
            let detail = "the ticket was used, or is older than half a minute";
            return Err(Problem::new("unauthenticated", detail).next("baton open"));
        };
        web::enter(self.server, &caller).await
    }

    /// Bytes by digest.
    async fn blob(&self, name: &str, body: Incoming) -> Result<Answered, Problem> {
        let session = self.session().await?;
        let key = session.caller.key.as_ref();
        let seat = key.map(|key| self.server.seat(key)).transpose()?;
        let pass = self.pass(&session.caller)?;
        let puts = self.head.method == Method::PUT;
        let scope = if puts { BLOB_WRITE } else { BLOB_READ };
        blobs::admit(&session.caller, &scope)?;
        let digest = blobs::digest(name, self.head.uri.query())?;
        // What attempts and workers hand in ends work that was accepted: it may use the last room.
        let ending = pass.is_some() || session.caller.kind == Kind::Worker;
        let urgency = if ending { Urgency::Ending } else { Urgency::Ordinary };
        let (closing, now) = (Box::pin(self.server.closing()), self.server.engine().now());
        let visitor = Visitor { session, closing, limits: *self.server.limits(), now };
        let depot = self.server.depot();
        let answer = if puts {
            let sent = (&self.head.headers, body);
            depot.take_in(visitor, (digest, urgency), sent, self.connection).await?
        } else {
            arguments::no_body(&body)?;
            depot.hand_out(visitor, digest).await?
        };
        Ok((answer, seat))
    }

    async fn operation(
        &self,
        entry: &'static Entry,
        path: Vec<(&'static str, String)>,
        body: Incoming,
    ) -> Result<Answered, Problem> {
        let session = self.session().await?;
        let key = session.caller.key.as_ref();
        let seat = key.map(|key| self.server.seat(key)).transpose()?;
        let headers = &self.head.headers;
        let given = if entry.about.changes() {
            arguments::body(headers, body, self.server.limits(), self.connection).await?
        } else {
            arguments::no_body(&body)?;
            Map::new()
        };
        let arguments = arguments::merge(entry, path, self.head.uri.query(), given)?;
        let mut asking = Asking {
            identity: Arc::clone(self.server.identity()),
            entry,
            envelope: self.envelope(&entry.about)?,
            caller: session.caller.clone(),
            origin: self.peer.origin(once(headers, &CLIENT)?),
        };
        match self.pass(&session.caller) {
            Ok(pass) => asking.envelope.pass = pass,
            Err(lost) => return Err(asking.call(&arguments).certain(lost).await?),
        }
        if !entry.about.changes() && wants_stream(headers)? && entry.is_followed() {
            let last_seen = once(headers, &LAST_EVENT_ID)?;
            let limits = *self.server.limits();
            let held = (session, seat);
            let reader = stream::follow(asking, arguments, last_seen, held, limits).await?;
            self.connection.hand_over(Taker::Reader(Box::new(reader)));
            return Ok((answer::handed_over(), None));
        }
        let patience = self.server.limits().patience();
        let ends = (session.over(), self.hung_up(waits(entry, &arguments)));
        let reply = patience.within(entry.patience(), ends, asking.perform(arguments)).await?;
        Ok((answer::reply(&entry.about, reply), seat))
    }

    /// Waits until an answer is of no use any more. An end that is all the caller had to say is
    /// none; but whoever is to wait, and hears nothing more of its caller, waits for nobody.
    async fn hung_up(&self, waits: bool) {
        if !waits {
            return pending().await;
        }
        self.connection.ended().await;
        sleep(self.server.limits().hung_up).await;
    }

    /// Where the caller is, as far as anybody knows: a proxy puts that last.
    fn address(&self) -> Option<IpAddr> {
        let Peer::Tcp(address) = self.peer else { return None };
        if !self.server.limits().behind_proxy {
            return Some(address);
        }
        let told = self.head.headers.get_all(FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
        told.rsplit(',').next()?.trim().parse().ok()
    }

    /// Who asks.
    async fn session(&self) -> Result<Session, Problem> {
        let Some(given) = once(&self.head.headers, &header::AUTHORIZATION)? else {
            if self.peer == Peer::Owner {
                return Ok(Session::owner(self.server.identity()));
            }
            if let Some(token) = once(&self.head.headers, &arguments::CLAIM_TOKEN)? {
                return self.agent(token).await;
            }
            let detail = match self.peer {
                Peer::Inside => "an agent shows its claim token: BATON_CLAIM_TOKEN",
                Peer::Tcp(_) | Peer::Owner | Peer::Stranger => {
                    "send `Authorization: Bearer` with a key"
                }
            };
            return Err(Problem::new("unauthenticated", detail));
        };
        let bearer = match given.split_once(' ') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
            Some(_) | None => {
                let detail = "a key is sent as `Authorization: Bearer KEY`";
                return Err(Problem::new("unauthenticated", detail));
            }
        };
        self.let_in(bearer).await
    }

    /// Whoever shows this key.
    async fn let_in(&self, bearer: &str) -> Result<Session, Problem> {
        let (identity, gauge) = (self.server.identity(), self.server.gauge());
        let (from, now) = (self.address(), self.server.engine().now());
        // Neighbours of whoever fails are let in by the keys that they were let in by before.
        if let Err(problem) = gauge.may_try(from, now)
            && !identity.is_known(bearer)
        {
            return Err(problem);
        }
        let opened = Session::open(identity, bearer).await;
        if opened.as_ref().is_err_and(|problem| problem.code() == "unauthenticated") {
            gauge.failed(from, now);
        }
        opened
    }

    /// Whoever shows nothing but a claim token is the agent of that attempt.
    async fn agent(&self, token: &str) -> Result<Session, Problem> {
        let (gauge, now) = (self.server.gauge(), self.server.engine().now());
        let from = self.address();
        gauge.may_try(from, now)?;
        let opened = Session::agent(self.server.identity(), token).await;
        if opened.as_ref().is_err_and(|problem| problem.code() == "unauthenticated") {
            gauge.failed(from, now);
        }
        opened
    }

    /// What comes with the request, but for what proves the attempt: what is missing is told before
    /// what is proved.
    fn envelope(&self, about: &Declaration) -> Result<Envelope, Problem> {
        let envelope = arguments::envelope(&self.head.headers)?;
        envelope.check_key(about)?;
        Ok(envelope)
    }

    /// The attempt that the caller is, if it shows a claim token.
    fn pass(&self, caller: &Caller) -> Result<Option<Pass>, Problem> {
        let Some(token) = once(&self.head.headers, &arguments::CLAIM_TOKEN)? else {
            return Ok(None);
        };
        let pass = self.server.engine().keyring().verify(token, &caller.tenant);
        // One answer for a forged token and for one that is over. Whoever shows it is refused
        // everything, a new claim, too: it must be put away first.
        let lost = |_| Problem::from(Refusal::LeaseLost).next("unset BATON_CLAIM_TOKEN");
        pass.map(Some).map_err(lost)
    }
}

/// Whether the answer waits for something to happen.
fn waits(entry: &Entry, arguments: &Value) -> bool {
    let may_wait = entry.arguments.field("wait").is_some();
    // `run wait` waits also if nobody says how long.
    let always = !entry.about.changes() || entry.about.verb == "wait";
    may_wait && (always || arguments.get("wait").is_some())
}

fn wants_stream(headers: &HeaderMap) -> Result<bool, Problem> {
    let accept = once(headers, &header::ACCEPT)?.unwrap_or_default();
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default());
    Ok(kinds.any(|kind| kind.trim().eq_ignore_ascii_case(EVENT_STREAM)))
}

/// An operation that somebody asks for, perhaps again and again.
pub struct Asking {
    identity: Arc<Identity>,
    entry: &'static Entry,
    caller: Caller,
    envelope: Envelope,
    origin: Text<64>,
}

impl Asking {
    /// Performs it once.
    pub async fn perform(&self, arguments: Value) -> Result<Reply, Problem> {
        let call = self.call(&arguments);
        if !self.entry.about.changes() {
            return self.entry.perform(arguments, Arc::new(call)).await;
        }
        points::pass(Point::RequestHeard);
        let performed = self.entry.perform(arguments, Arc::new(call)).await;
        points::pass(Point::RequestCommitted);
        performed
    }

    fn call(&self, arguments: &Value) -> Call {
        let asked = (&self.entry.about, arguments);
        let (caller, envelope) = (self.caller.clone(), self.envelope.clone());
        Call::new(Arc::clone(&self.identity), caller, envelope, self.origin.clone(), asked)
    }

    /// Begins to listen for changes of what it would answer.
    pub fn listen(&self) -> Result<Listener, Problem> {
        Ok(self.identity.engine().changes().listen(&self.caller.tenant)?)
    }

    /// Whether there may be something after this place.
    pub async fn has_moved(&self, after: &Value) -> Result<bool, Problem> {
        let Some(Ok(place)) = after.as_str().map(str::parse::<Position>) else { return Ok(true) };
        let engine = self.identity.engine();
        let head = engine.head_lately(&self.caller.tenant).await?;
        Ok(place.0.incarnation != engine.incarnation() || place.0.position < head)
    }

    /// Now, on the clock of the server.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.identity.engine().now()
    }

    /// What one of its arguments looks like.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&'static Shape> {
        self.entry.arguments.field(name).map(|field| &field.shape)
    }
}
