//! Answers and problems as HTTP writes them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use baton_domain::time::Timestamp;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::mcp::http as mcp;
use crate::operation::{Declaration, Reply};
use crate::pieces::Pieces;
use crate::problem::Problem;
use crate::shape::Span;

use super::connection::Busy;
use super::crowd::Seat;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
/// Seconds after which a request that may succeed later is worth repeating, if nobody says.
const RETRY_AFTER: u64 = 1;

/// The body of an answer. As long as it is there, its request counts.
pub struct Sent {
    content: Content,
    _busy: Option<Busy>,
    _seat: Option<Seat>,
}

enum Content {
    /// All of it at once.
    Whole(Option<Bytes>),
    /// Bytes of a known number.
    Pieces(Pieces),
    /// As it comes, until whoever asked may no longer hear it.
    Flowing { body: Pin<Box<mcp::Body>>, over: Pin<Box<dyn Future<Output = ()> + Send>> },
}

impl Sent {
    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(Some(bytes.into())), _busy: None, _seat: None }
    }

    /// Ties the end of the request to the end of its answer.
    #[must_use]
    pub fn holding(self, busy: Busy, seat: Option<Seat>) -> Self {
        Self { _busy: Some(busy), _seat: seat, ..self }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.content {
            Content::Whole(content) => {
                Poll::Ready(content.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Content::Pieces(pieces) => Pin::new(pieces).poll_frame(cx),
            Content::Flowing { body, over } => match over.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => {
                    let frame = body.as_mut().poll_frame(cx);
                    frame.map_err(|never| match never {})
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(content) => content.is_none(),
            Content::Pieces(pieces) => pieces.is_end_stream(),
            Content::Flowing { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(content) => {
                let length = content.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Content::Pieces(pieces) => pieces.size_hint(),
            Content::Flowing { body, .. } => body.size_hint(),
        }
    }
}

/// What the agents' protocol answers, until whoever asked may no longer hear it.
#[must_use]
pub fn flowing(
    response: Response<mcp::Body>,
    over: impl Future<Output = ()> + Send + 'static,
) -> Response<Sent> {
    let mut response = response.map(|body| {
        let content = Content::Flowing { body: Box::pin(body), over: Box::pin(over) };
        Sent { content, _busy: None, _seat: None }
    });
    guarded(response.headers_mut());
    response
}

/// Bytes of some type, as they come.
#[must_use]
pub fn pieces(kind: &'static str, pieces: Pieces) -> Response<Sent> {
    let content = Content::Pieces(pieces);
    sent(StatusCode::OK, kind, Sent { content, _busy: None, _seat: None })
}

/// What the agents' protocol says of a body that is not JSON.
#[must_use]
pub fn not_json(detail: &str) -> Response<Sent> {
    let error = serde_json::json!({ "code": -32_700, "message": detail });
    json(
        StatusCode::BAD_REQUEST,
        &serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error }),
    )
}

/// A text of some type.
#[must_use]
pub fn text(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Sent> {
    sent(status, kind, Sent::whole(text))
}

/// JSON.
#[must_use]
pub fn json(status: StatusCode, body: &serde_json::Value) -> Response<Sent> {
    text(status, JSON, body.to_string())
}

/// What was carried out or read.
#[must_use]
pub fn reply(about: &Declaration, mut reply: Reply) -> Response<Sent> {
    for (name, secret) in reply.secrets {
        reply.body[name] = secret.into();
    }
    let status = StatusCode::from_u16(about.success()).unwrap_or(StatusCode::OK);
    let mut response = json(status, &reply.body);
    let version = reply.body.get("version").and_then(serde_json::Value::as_u64);
    if let Some(version) = version {
        let tag = HeaderValue::from_str(&format!("\"{version}\"")).expect("digits are plain");
        response.headers_mut().insert(header::ETAG, tag);
    }
    if reply.replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Why it was not carried out.
#[must_use]
pub fn problem(problem: &Problem) -> Response<Sent> {
    let status = StatusCode::from_u16(problem.status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = problem.body();
    let mut response = text(status, PROBLEM, body.to_string());
    let headers = response.headers_mut();
    if body["retryable"] == true {
        let told = body["retry_after"].as_str().and_then(|span| span.parse::<Span>().ok());
        let seconds = told.map_or(RETRY_AFTER, |span| span.0.0.div_ceil(1_000).max(RETRY_AFTER));
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Not by this method; by these.
#[must_use]
pub fn wrong_method(allowed: &[&'static str]) -> Response<Sent> {
    let list = allowed.join(", ");
    let detail = format!("this path is served by {list}");
    let mut response = problem(&Problem::new("wrong_method", detail));
    let list = HeaderValue::from_str(&list).expect("methods are plain words");
    response.headers_mut().insert(header::ALLOW, list);
    response
}

/// What the parser is told of a request whose answer somebody else writes: that it was the last
/// one of its connection.
#[must_use]
pub fn handed_over() -> Response<Sent> {
    let mut response = Response::new(Sent::whole(Bytes::new()));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The head of events as they happen. They end with their connection.
#[must_use]
pub fn stream_head(now: Timestamp) -> String {
    let date = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\n\
         date: {}\r\n\r\n",
        date.strftime("%a, %d %b %Y %H:%M:%S GMT")
    )
}

/// The head after which a worker and the server speak a protocol of their own.
#[must_use]
pub fn switching(accept: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    )
}

/// A problem as the last words on a connection, where no parser writes them.
#[must_use]
pub fn bare(problem: &Problem) -> String {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let body = problem.body();
    let retry = if body["retryable"] == true { "retry-after: 1\r\n" } else { "" };
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {PROBLEM}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\ncontent-length: {}\r\n{retry}connection: close\r\n\
         \r\n{body}",
        body.len()
    )
}

fn sent(status: StatusCode, kind: &'static str, body: Sent) -> Response<Sent> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    guarded(headers);
    response
}

/// Whatever is said is for whoever asked, and is what it says it is.
fn guarded(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}
