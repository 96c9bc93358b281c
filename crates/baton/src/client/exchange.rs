//! One request and its answer over one connection.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::{Asked, Client, WAIT_MAX, dial};

/// How long it may take to answer: a claim may wait for a minute.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(90);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a server answered.
pub(super) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    /// Always an object.
    pub(super) body: Value,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing listens there, so nothing was sent.
    Nobody,
    /// Nothing was sent.
    Before(String),
    /// The request may have been read.
    After(String),
    /// There is one, but nothing that a server of ours would say.
    NotUnderstood(String),
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// Whether the server itself does not know what became of it.
    pub(super) fn is_unknown(&self) -> bool {
        self.body["certainty"] == "unknown"
    }

    /// Whether a refusal was decided after it was looked up what became of the same request before:
    /// who may come in, where and how often is decided first, and a broken server decides nothing.
    pub(super) fn is_of_the_order(&self) -> bool {
        !matches!(self.status.as_u16(), 401 | 403 | 408 | 421 | 429 | 500..)
    }

    /// How long to wait before the same is asked again, if that may tell more: the outcome is
    /// unknown, or the server has too much to do and says for how long.
    pub(super) fn ask_again_after(&self) -> Option<Duration> {
        let busy = self.status == StatusCode::SERVICE_UNAVAILABLE && self.retry_after.is_some();
        // A pause that is as short as ours is worth taking; a longer one is for the caller to know.
        let too_often = self.status == StatusCode::TOO_MANY_REQUESTS
            && self.retry_after.is_some_and(|wait| wait <= WAIT_MAX);
        (self.is_unknown() || busy || too_often).then(|| self.retry_after.unwrap_or_default())
    }
}

impl Client {
    /// Sends a request once.
    pub(super) async fn exchange(&self, asked: &Asked) -> Result<Answer, Lost> {
        let request = self.request(asked)?;
        answered(dial::dial(&self.address, &self.trust).await?, request).await
    }

    /// The header lines of every request: for whom, and who asks.
    pub(super) fn headers(&self) -> Result<HeaderMap, Lost> {
        let mut headers = HeaderMap::new();
        put(&mut headers, "host", &self.address.host(), false)?;
        if let Some(key) = &self.key {
            put(&mut headers, "authorization", &format!("Bearer {}", key.reveal()), true)?;
        }
        if let Some(token) = &self.claim_token {
            put(&mut headers, "baton-claim-token", token.reveal(), true)?;
        }
        put(&mut headers, "baton-client", self.origin.word(), false)?;
        Ok(headers)
    }

    fn request(&self, asked: &Asked) -> Result<Request<Full<Bytes>>, Lost> {
        let mut headers = self.headers()?;
        let mut put = |name, text: &str| put(&mut headers, name, text, false);
        if let Some(key) = &asked.request_key {
            put("idempotency-key", key)?;
        }
        if let Some(version) = asked.if_match {
            put("if-match", &format!("\"{version}\""))?;
        }
        put("accept", "application/json")?;
        let body = match &asked.body {
            None => Bytes::new(),
            Some(body) => {
                put("content-type", "application/json")?;
                Bytes::from(body.to_string())
            }
        };
        let built = Request::builder().method(asked.method.word()).uri(&asked.target);
        let mut request = built
            .body(Full::new(body))
            .map_err(|_| Lost::Before("the request cannot be written as a URL".to_owned()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Adds a header line, which may be a secret.
pub(super) fn put(
    headers: &mut HeaderMap,
    name: &'static str,
    text: &str,
    secret: bool,
) -> Result<(), Lost> {
    let unsendable = |_| Lost::Before("a header of the request cannot be sent".to_owned());
    let mut value = HeaderValue::from_str(text).map_err(unsendable)?;
    value.set_sensitive(secret);
    headers.insert(name, value);
    Ok(())
}

async fn answered<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, Lost>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaking = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) =
        shaking.await.map_err(|error| Lost::Before(error.to_string()))?;
    let connection = tokio::spawn(connection);
    let answer = timeout(ANSWER_MAX, async {
        let response = sender.send_request(request).await.map_err(broken)?;
        read(response).await
    })
    .await;
    connection.abort();
    answer.unwrap_or_else(|_| Err(silent()))
}

pub(super) fn silent() -> Lost {
    Lost::After("it did not answer in time".to_owned())
}

pub(super) fn broken(error: hyper::Error) -> Lost {
    if error.is_parse() {
        return Lost::NotUnderstood("it does not speak HTTP/1.1".to_owned());
    }
    Lost::After(format!("the connection was lost ({error})"))
}

/// Reads what a server says: an object of JSON.
pub(super) async fn read(response: hyper::Response<hyper::body::Incoming>) -> Result<Answer, Lost> {
    let status = response.status();
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
        kind.to_str().is_ok_and(|kind| {
            kind.starts_with("application/json") || kind.starts_with("application/problem+json")
        })
    });
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let collected = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let bytes = collected.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => broken(*error),
        Err(_) => Lost::NotUnderstood("its answer is too long".to_owned()),
    })?;
    let bytes = bytes.to_bytes();
    if status == StatusCode::NO_CONTENT && bytes.is_empty() {
        return Ok(Answer { status, retry_after, body: Value::Object(serde_json::Map::new()) });
    }
    let body: Option<Value> = serde_json::from_slice(&bytes).ok();
    match body.filter(|body| json && body.is_object()) {
        Some(body) => Ok(Answer { status, retry_after, body }),
        None => Err(Lost::NotUnderstood(format!("status {status} without an object of JSON"))),
    }
}
