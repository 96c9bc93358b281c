//! Every bound of the server, in one place. Sizes are fixed; times and counts are fields, so that a
//! test need not wait for a minute.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::rates::Rates;
use crate::call::Patience;

/// Bytes of a request body: what is larger goes as a blob.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of path and query: identifiers and filters, never texts.
pub const URL_BYTES_MAX: usize = 8 << 10;
/// Header lines of a request.
pub const HEADERS_MAX: usize = 64;
/// Bytes of all header lines.
pub const HEADER_BYTES_MAX: usize = 16 << 10;
/// What one connection may hold of a head that is not read yet: URL and headers at their bounds,
/// and room to be told by us, not by the parser, that they are beyond.
pub const HEAD_BUFFER_BYTES: usize = 48 << 10;
/// Header lines that the parser takes in before it gives up by itself.
pub const HEADERS_PARSED_MAX: usize = 2 * HEADERS_MAX;
/// Levels of lists and objects in JSON.
pub const JSON_DEPTH_MAX: usize = 64;
/// Keys of all objects of one document together.
pub const JSON_KEYS_MAX: usize = 1_000;
/// Bytes of one text in JSON, keys included.
pub const JSON_TEXT_BYTES_MAX: usize = 256 << 10;
/// Entries of one list in JSON.
pub const JSON_LIST_MAX: usize = 10_000;
/// Characters of an idempotency key.
pub const REQUEST_KEY_MAX: usize = 255;
/// Events that one stream holds for a reader that has not taken them yet.
pub const STREAM_EVENTS_MAX: usize = 256;
/// Bytes of the same.
pub const STREAM_BYTES_MAX: usize = 1 << 20;

/// Bounds in time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// For the whole body to come in; for a piece of it, if it is a blob.
    pub body: Duration,
    /// For the answer to be found.
    pub total: Duration,
    /// The same where the caller asked to wait: the longest wait, and time to say that it is over.
    pub waiting: Duration,
    /// Between two requests of one connection.
    pub idle: Duration,
    /// For the socket to take in something, once it has stopped.
    pub write: Duration,
    /// For an answer that may wait, once its caller has closed its side: it is most likely gone, and
    /// must not be handed anything; if not, what can be said at once is still said.
    pub hung_up: Duration,
    /// Connections at once, over TCP and over the unix socket each.
    pub connections_max: usize,
    /// Requests and streams of one key at once.
    pub per_key_max: usize,
    /// How often somebody may ask. Without limit here: `serve` sets them.
    pub rates: Rates,
    /// Whether callers come through a proxy, which says where from.
    pub behind_proxy: bool,
    /// Between two comments in a stream where nothing happens.
    pub comment: Duration,
    /// At least so long between two looks of one stream, so that a busy store is not read once
    /// per commit and reader.
    pub gather: Duration,
    /// The same for a page that is kept open: people read more slowly.
    pub glance: Duration,
    /// How long a reader may leave what it was sent.
    pub slow: Duration,
    /// How long it then has to read that it must begin again.
    pub farewell: Duration,
    /// How long a worker may take to say who it is.
    pub hello: Duration,
    /// Between two questions whether a worker is still there.
    pub ping: Duration,
    /// How long it may take to say so.
    pub pong: Duration,
    /// How long its connection lives; then it comes again, as it would after a cut.
    pub life: Duration,
    /// How long connections are still taken in after the word to stop.
    pub linger: Duration,
    /// How long requests in flight may take to finish after that.
    pub drain: Duration,
    /// Bytes of a blob.
    pub blob_bytes_max: u64,
    /// Blobs that are on their way at once, in and out.
    pub blobs_max: usize,
    /// Those of them of one tenant.
    pub blobs_per_tenant_max: usize,
    /// Those of all that only a tenant gets which has none.
    pub blobs_spare: usize,
    /// Whether `/mcp` serves what the conformance suite asks for, too.
    pub fixtures: bool,
}

impl Limits {
    /// How long an answer may take.
    #[must_use]
    pub fn patience(&self) -> Patience {
        Patience { total: self.total, waiting: self.waiting }
    }
}

/// Descriptors that a server needs besides its connections: the database, its log and its readers,
/// the listeners, the runtime.
const FILES_RESERVED: u64 = 48;
/// Connections that are tried for however few descriptors there are.
const CONNECTIONS_MIN: u64 = 8;
/// Descriptors that are asked for: enough for both listeners at their bounds.
const FILES_WANTED: u64 = 4_096;

/// Asks for as many descriptors as a busy server needs, and says for how many connections at each
/// listener those that it got suffice: whoever fills the port must leave some for the socket.
#[must_use]
pub fn connections_max() -> usize {
    let had = getrlimit(Resource::Nofile);
    let most = had.maximum.unwrap_or(FILES_WANTED).min(FILES_WANTED);
    let wanted = Rlimit { current: Some(most), maximum: had.maximum };
    let files = match had.current {
        Some(current) if current < most && setrlimit(Resource::Nofile, wanted).is_ok() => most,
        Some(current) => current,
        None => FILES_WANTED,
    };
    let each = files.saturating_sub(FILES_RESERVED) / 2;
    let usual = Limits::default().connections_max;
    usual.min(usize::try_from(each.max(CONNECTIONS_MIN)).unwrap_or(usual))
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(5),
            body: Duration::from_secs(15),
            total: Duration::from_secs(30),
            waiting: Duration::from_secs(65),
            idle: Duration::from_secs(75),
            write: Duration::from_secs(30),
            hung_up: Duration::from_millis(50),
            connections_max: 1_024,
            per_key_max: 64,
            rates: Rates::default(),
            behind_proxy: false,
            comment: Duration::from_secs(15),
            gather: Duration::from_millis(20),
            glance: Duration::from_millis(250),
            slow: Duration::from_secs(30),
            farewell: Duration::from_secs(5),
            hello: Duration::from_secs(10),
            ping: Duration::from_secs(20),
            pong: Duration::from_secs(10),
            life: Duration::from_secs(24 * 3_600),
            linger: Duration::from_secs(1),
            drain: Duration::from_secs(20),
            blob_bytes_max: baton_store::blobs::BYTES_MAX,
            blobs_max: 32,
            blobs_per_tenant_max: 16,
            blobs_spare: 8,
            fixtures: false,
        }
    }
}
