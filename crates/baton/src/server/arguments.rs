//! One object of arguments from path, query and body.

use baton_domain::text::Text;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::call::{Envelope, trace_id};
use crate::operation::Entry;
use crate::problem::Problem;
use crate::shape::Violation;

use super::connection::Connection;
use super::guard::once;
use super::limits::{BODY_BYTES_MAX, Limits, REQUEST_KEY_MAX};
use super::{json, url};

/// Where a claim token is shown.
pub const CLAIM_TOKEN: HeaderName = HeaderName::from_static("baton-claim-token");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The body of a request that may have one, as it came.
pub async fn bytes(
    headers: &HeaderMap,
    body: Incoming,
    limits: &Limits,
    connection: &Connection,
) -> Result<Bytes, Problem> {
    json_only(headers)?;
    let too_large = || {
        let detail = format!("a body has at most {BODY_BYTES_MAX} bytes");
        Problem::new("too_large", detail)
    };
    let at_least = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if at_least > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let too_short = || Problem::new("malformed", "the body broke off");
    let collected = Limited::new(body, BODY_BYTES_MAX).collect();
    let whole = tokio::select! {
        biased;
        whole = timeout(limits.body, collected) => whole,
        // Whatever came before the end was taken in above: no more will come.
        () = connection.ended() => return Err(too_short()),
    };
    let whole = whole.map_err(|_| {
        let detail = format!("the body did not come in within {} s", limits.body.as_secs());
        Problem::new("too_slow", detail)
    })?;
    match whole {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_) => Err(too_short()),
    }
}

/// The arguments in the body of a request that may have one.
pub async fn body(
    headers: &HeaderMap,
    body: Incoming,
    limits: &Limits,
    connection: &Connection,
) -> Result<Map<String, Value>, Problem> {
    let bytes = bytes(headers, body, limits, connection).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match json::read(&bytes)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Problem::new("malformed", "the body must be a JSON object"))
        }
    }
}

/// A request that only reads has no body.
pub fn no_body(body: &Incoming) -> Result<(), Problem> {
    if body.is_end_stream() {
        return Ok(());
    }
    Err(Problem::new("malformed", "a GET has no body: put its arguments into the query"))
}

/// What a browser sends without asking is never this type.
fn json_only(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new("unsupported", "a body is sent as it is, without an encoding"));
    }
    let given = once(headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    let (kind, rest) = given.split_once(';').unwrap_or((given, ""));
    let rest = rest.trim();
    let plain = rest.is_empty() || rest.eq_ignore_ascii_case("charset=utf-8");
    if plain && kind.trim().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new("unsupported", "send `Content-Type: application/json`"))
}

/// Puts path, query and body together. What stands twice must be the same twice.
pub fn merge(
    entry: &Entry,
    path: Vec<(&'static str, String)>,
    query: Option<&str>,
    mut body: Map<String, Value>,
) -> Result<Value, Problem> {
    for (name, value) in typed(entry, url::query(query.unwrap_or_default())?)? {
        put(&mut body, name, value)?;
    }
    let path: Vec<_> = path.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
    for (name, value) in typed(entry, path)? {
        put(&mut body, name, value)?;
    }
    Ok(Value::Object(body))
}

/// Values from texts, typed by what the operation takes. An unknown name stays a text: the check
/// of the arguments refuses it with everything else that is wrong.
fn typed(entry: &Entry, pairs: Vec<(String, String)>) -> Result<Vec<(String, Value)>, Problem> {
    let mut grouped: Vec<(String, Vec<String>)> = vec![];
    for (name, text) in pairs {
        match grouped.iter_mut().find(|(own, _)| *own == name) {
            Some((_, texts)) => texts.push(text),
            None => grouped.push((name, vec![text])),
        }
    }
    let read = |(name, texts): (String, Vec<String>)| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let value = match entry.arguments.field(&name) {
            Some(field) => field.shape.read(&name, &texts),
            None => Ok(Value::from(texts.join(","))),
        };
        value.map(|value| (name, value))
    };
    let values: Result<Vec<_>, Violation> = grouped.into_iter().map(read).collect();
    values.map_err(|violation| Problem::invalid(vec![violation]))
}

fn put(object: &mut Map<String, Value>, name: String, value: Value) -> Result<(), Problem> {
    if object.get(&name).is_some_and(|there| *there != value) {
        let rule = "stands in the request twice, with different values".to_owned();
        return Err(Problem::invalid(vec![Violation { field: name, rule }]));
    }
    object.insert(name, value);
    Ok(())
}

/// What comes with a request besides its arguments; the claim token is checked elsewhere.
pub fn envelope(headers: &HeaderMap) -> Result<Envelope, Problem> {
    Ok(Envelope {
        request_key: once(headers, &IDEMPOTENCY_KEY)?.map(request_key).transpose()?,
        if_match: once(headers, &header::IF_MATCH)?.map(version).transpose()?,
        trace: once(headers, &TRACEPARENT)?.and_then(trace_id),
        pass: None,
    })
}

fn request_key(text: &str) -> Result<Text<REQUEST_KEY_MAX>, Problem> {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let key = Text::new("Idempotency-Key", text).ok().filter(|_| visible);
    key.ok_or_else(|| {
        let rule = format!("must have 1 to {REQUEST_KEY_MAX} visible characters");
        Problem::invalid(vec![Violation { field: "Idempotency-Key".into(), rule }])
    })
}

fn version(text: &str) -> Result<u64, Problem> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let number = inner.and_then(|inner| inner.parse().ok());
    number.ok_or_else(|| {
        let rule = "must be a version in quotes, as it stands in ETag: \"7\"".to_owned();
        Problem::invalid(vec![Violation { field: "If-Match".into(), rule }])
    })
}
