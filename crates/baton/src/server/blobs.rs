//! Bytes by digest, over HTTP: taken in and handed out piece by piece, never whole in memory.
//!
//! Disks block, so threads that may block write and read; this module carries the bytes to them and
//! keeps the bounds: so many at once, so large, and whoever sends or takes must get on.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_domain::ids::TenantId;
use baton_domain::scope::Scope;
use baton_domain::time::Timestamp;
use baton_store::blobs::{Blobs, Digest, DirectoryBlobs, Error, Put, Settings, Stored, Urgency};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::identity::Caller;
use crate::pieces::{Given, Giver, PIECE_BYTES, intake, pour};
use crate::problem::Problem;
use crate::shape::Violation;

use super::answer::{self, Sent};
use super::connection::Connection;
use super::door::Session;
use super::guard::once;
use super::limits::Limits;

/// What blobs are.
pub const OCTETS: &str = "application/octet-stream";

/// What a browser may do with a blob: nothing.
const ALONE: &str = "default-src 'none'; sandbox";

/// The blobs of a server, and who is sending or taking some.
pub struct Depot {
    blobs: Arc<dyn Blobs>,
    under_way: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// The right to send or to take a blob; given back when it is dropped.
struct Ticket {
    under_way: Arc<Mutex<HashMap<TenantId, usize>>>,
    tenant: TenantId,
}

/// Whoever asks for a blob, and what ends its asking.
pub struct Visitor {
    /// Who.
    pub session: Session,
    /// Resolves once connections are to end.
    pub closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Bounds.
    pub limits: Limits,
    /// Now.
    pub now: Timestamp,
}

/// Opens the blobs of a server: in a place that it shares with others, or alone.
pub fn open(place: &Path, settings: Settings, shared: bool) -> Result<Arc<dyn Blobs>, Error> {
    let free = DirectoryBlobs::free_space_of(place);
    let (blobs, opened) = match shared {
        true => DirectoryBlobs::open_shared(place, settings, free)?,
        false => DirectoryBlobs::open(place, settings, free)?,
    };
    let (count, bytes) = (opened.usage.blobs, opened.usage.bytes);
    tracing::info!(place = %place.display(), count, bytes, shared, "blobs are open");
    if !opened.complete || opened.strangers > 0 {
        let (complete, strangers) = (opened.complete, opened.strangers);
        tracing::warn!(complete, strangers, "not everything among the blobs was counted");
    }
    Ok(Arc::new(blobs))
}

/// Whether a key allows it.
pub fn admit(caller: &Caller, scope: &Scope) -> Result<(), Problem> {
    if caller.may(scope) {
        return Ok(());
    }
    let detail = format!("the key does not have the scope {scope}");
    Err(Problem::new("forbidden", detail).with("scope", scope.to_string()))
}

/// Reads the name of a blob.
pub fn digest(name: &str, query: Option<&str>) -> Result<Digest, Problem> {
    if query.is_some() {
        return Err(Problem::new(
            "malformed",
            "a blob is named by its path alone, without a query",
        ));
    }
    name.parse().map_err(|_| {
        let rule = "must be the 64 lower-case hexadecimal digits of the SHA-256 of the bytes";
        Problem::invalid(vec![Violation { field: "sha256".into(), rule: rule.into() }])
    })
}

impl Depot {
    /// What keeps blobs, and nobody who asks for any.
    #[must_use]
    pub fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { blobs, under_way: Arc::default() }
    }

    /// Takes in a blob, whole or not at all.
    pub async fn take_in(
        &self,
        visitor: Visitor,
        (digest, urgency): (Digest, Urgency),
        (headers, mut body): (&HeaderMap, Incoming),
        connection: &Connection,
    ) -> Result<Response<Sent>, Problem> {
        let patience = visitor.limits.farewell;
        let taken = self.receive(visitor, digest, urgency, (headers, &mut body), connection).await;
        match taken {
            Ok(stored) => {
                let digest = stored.digest.to_string();
                let told = json!({ "digest": digest, "size": stored.size, "new": stored.new });
                Ok(answer::json(StatusCode::OK, &told))
            }
            Err(problem) => {
                tokio::spawn(linger(body, patience));
                Err(problem)
            }
        }
    }

    async fn receive(
        &self,
        visitor: Visitor,
        digest: Digest,
        urgency: Urgency,
        (headers, body): (&HeaderMap, &mut Incoming),
        connection: &Connection,
    ) -> Result<Stored, Problem> {
        octets_only(headers)?;
        let size_max = visitor.limits.blob_bytes_max;
        if body.size_hint().lower() > size_max {
            return Err(too_large(size_max));
        }
        let ticket = self.enter(&visitor)?;
        let put = Put { expected: Some(digest), size_max, urgency, now: moment(visitor.now) };
        let (giver, mut taken) = intake();
        let blobs = Arc::clone(&self.blobs);
        let storing = spawn_blocking(move || {
            let stored = blobs.put(ticket.tenant.as_str(), &mut taken, &put);
            drop(ticket);
            stored
        });
        let fed = feed(giver, body, visitor, connection).await;
        let stored = storing.await.map_err(|_| broken("a thread that took in a blob ended"))?;
        match (fed, stored) {
            // Nobody was left to be fed, because it was refused: that says why.
            (Ok(()), stored) => stored.map_err(refused),
            (Err(problem), _) => Err(problem),
        }
    }

    /// Hands out a blob that was found to be what was put, and goes on looking while it is read.
    pub async fn hand_out(
        &self,
        visitor: Visitor,
        digest: Digest,
    ) -> Result<Response<Sent>, Problem> {
        let ticket = self.enter(&visitor)?;
        let blobs = Arc::clone(&self.blobs);
        let opening = spawn_blocking(move || {
            let blob = blobs.get_verified(ticket.tenant.as_str(), &digest);
            (blob, ticket)
        });
        let (blob, ticket) = opening.await.map_err(|_| broken("a thread that read ended"))?;
        let blob = blob.map_err(refused)?;
        let Visitor { session, closing, limits, .. } = visitor;
        let (pieces, pouring) = pour(blob.bytes, blob.size, limits.slow);
        tokio::spawn(async move {
            let poured = tokio::select! {
                poured = pouring => poured,
                _ = session.over() => Ok(()),
                () = closing => Ok(()),
            };
            if let Err(error) = poured {
                let damaged = error.kind() == ErrorKind::InvalidData;
                tracing::warn!(%digest, %error, damaged, "a blob was not handed out whole");
            }
            drop(ticket);
        });
        let mut response = answer::pieces(OCTETS, pieces);
        let headers = response.headers_mut();
        // Whatever an agent handed in, a browser keeps it as a file and never shows it as a page of ours.
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(ALONE));
        Ok(response)
    }

    fn enter(&self, visitor: &Visitor) -> Result<Ticket, Problem> {
        let (tenant, limits) = (&visitor.session.caller.tenant, visitor.limits);
        let mut under_way = lock(&self.under_way);
        let own = under_way.get(tenant).copied().unwrap_or(0);
        let all: usize = under_way.values().sum();
        // The last places are for tenants that have none: however slowly others send, somebody new gets in.
        let spare = if own > 0 { limits.blobs_spare } else { 0 };
        let room = limits.blobs_max.saturating_sub(spare);
        if own >= limits.blobs_per_tenant_max || all >= room {
            let detail = "as many blobs are on their way as may be at once";
            return Err(Problem::new("overloaded", detail));
        }
        under_way.insert(tenant.clone(), own + 1);
        Ok(Ticket { under_way: Arc::clone(&self.under_way), tenant: tenant.clone() })
    }
}

/// Whoever panicked while it held the lock left the counts whole: every change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        if let Some(count) = under_way.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.tenant);
            }
        }
    }
}

/// Carries what comes to whoever stores it. Whoever sends must get on by a piece each time the clock
/// of bodies runs out; how long the disk takes is not held against it.
async fn feed(
    giver: Giver,
    body: &mut Incoming,
    visitor: Visitor,
    connection: &Connection,
) -> Result<(), Problem> {
    let Visitor { session, mut closing, limits, .. } = visitor;
    let mut over = pin!(session.over());
    let mut patience = pin!(sleep(limits.body));
    let mut since = 0;
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            // Whatever came before the end was taken in above: no more will come.
            () = connection.ended() => return Err(broke_off()),
            () = &mut patience => return Err(too_slow(limits.body)),
            problem = &mut over => return Err(problem),
            () = &mut closing => {
                return Err(Problem::new("stopped", "the server is closing: come again"));
            }
        };
        let data = match frame {
            None => {
                giver.end().await;
                return Ok(());
            }
            Some(Err(_)) => return Err(broke_off()),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        since += data.len();
        let given = giver.give(data).await;
        if given == Given::Refused {
            return Ok(());
        }
        if since >= PIECE_BYTES || given == Given::Later {
            patience.set(sleep(limits.body));
            since = 0;
        }
    }
}

/// Takes in for a while what a caller still sends that was refused: a connection that is closed under
/// what it sends may lose the refusal, too.
async fn linger(mut body: Incoming, patience: Duration) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // Whoever still sends after that has been told.
    drop(timeout(patience, rest).await);
}

/// What a form of a page sends is never this type.
fn octets_only(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new("unsupported", "a blob is sent as it is, without an encoding"));
    }
    let given = once(headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    if given.trim().eq_ignore_ascii_case(OCTETS) {
        return Ok(());
    }
    Err(Problem::new("unsupported", format!("send `Content-Type: {OCTETS}`")))
}

fn moment(now: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(now.0).unwrap_or(0))
}

fn broke_off() -> Problem {
    Problem::new("malformed", "the body broke off")
}

fn too_slow(patience: Duration) -> Problem {
    let detail = format!(
        "a blob gets on by {} KiB in {} s at least, or is not taken in",
        PIECE_BYTES >> 10,
        patience.as_secs_f32()
    );
    Problem::new("too_slow", detail)
}

fn too_large(size_max: u64) -> Problem {
    Problem::new("too_large", format!("a blob has at most {size_max} bytes: send it in parts"))
}

fn broken(why: &str) -> Problem {
    tracing::error!(%why, "a request broke");
    Problem::new("internal", "something broke on our side; the log says what")
}

/// Why a blob was not taken in or not handed out. Nothing of it was kept.
fn refused(error: Error) -> Problem {
    let told = error.to_string();
    match error {
        Error::Invalid { field, rule } => {
            Problem::invalid(vec![Violation { field: field.into(), rule: rule.into() }])
        }
        Error::TooLarge { size_max } => too_large(size_max),
        Error::DigestMismatch { found, .. } => {
            let rule = format!("must be the SHA-256 of the bytes, and theirs is {found}");
            Problem::invalid(vec![Violation { field: "sha256".into(), rule }])
        }
        // Another tenant's blob looks the same, to the last byte.
        Error::NotFound { .. } => Problem::not_found(),
        Error::Corrupt { .. } => Problem::new("damaged", told)
            .next("PUT the same bytes again: they replace what is there"),
        Error::QuotaExceeded { .. } => {
            Problem::new("limit_reached", told).next("baton serve --blobs-max GIB")
        }
        Error::DiskFull { .. } => {
            let detail = "the disk of the server is full: no blob is taken in until there is room";
            Problem::new("disk_full", detail)
        }
        Error::SourceFailed(_) => broke_off(),
        Error::Untrusted { .. } | Error::InUse { .. } => broken(&told),
        Error::Io { source, .. } => broken(&format!("{told}: {source}")),
    }
}
