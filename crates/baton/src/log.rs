//! What the program says while it runs, to stderr, as text or as JSON. Never texts of tasks, never
//! secrets: spans and events name tenants, tasks, aims and outcomes. Should one say more than it
//! meant to, whatever is a secret is masked all the same.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;
use tracing_subscriber::util::TryInitError;

use crate::redaction::Redactor;

/// What keeps secrets out of the log. The log is of the whole process, and so is this.
static REDACTOR: LazyLock<RwLock<Arc<Redactor>>> = LazyLock::new(RwLock::default);

/// Bytes of a log that `up` keeps; then it is put aside, once, and begun anew.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// How much is written before its length is looked at.
const LOOK_AFTER_BYTES: u64 = 256 << 10;
/// What was written since then.
static SINCE_LOOKED: AtomicU64 = AtomicU64::new(0);
/// The folder of logs that are bounded; what somebody else sends elsewhere is theirs.
const FOLDER: &str = "log";

/// What is said if nothing else is asked for.
const FILTER: &str = "info";

/// What holds whatever else is asked for: the MCP library tells whole messages, and with them the
/// texts of tasks.
const ALWAYS: &str = "rmcp=off";

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be read.
    #[error("BATON_LOG must be `plain` or `json`, and may go on with `,` and a filter")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Somebody has set it up before.
    #[error("the log is set up already")]
    Twice(#[from] TryInitError),
}

/// How to log: in which form, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form<'a> {
    json: bool,
    filter: &'a str,
}

impl<'a> Form<'a> {
    /// Reads the value of `BATON_LOG`: `plain` or `json`, then a filter, like
    /// `json,baton=debug`; each part may be absent.
    #[must_use]
    pub fn read(value: Option<&'a str>) -> Self {
        let value = value.unwrap_or_default();
        let (word, rest) = value.split_once(',').unwrap_or((value, ""));
        let (json, filter) = match word {
            "json" => (true, rest),
            "plain" | "" => (false, rest),
            _ => (false, value),
        };
        Self { json, filter: if filter.is_empty() { FILTER } else { filter } }
    }
}

/// Masks what this one knows, too, from now on.
pub fn hide(redactor: &Arc<Redactor>) {
    *REDACTOR.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(redactor);
}

/// Stderr, one event at a time, each without its secrets.
struct Masked;

impl io::Write for Masked {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let redactor = Arc::clone(&REDACTOR.read().unwrap_or_else(PoisonError::into_inner));
        io::stderr().write_all(&redactor.bytes(event))?;
        let bytes = u64::try_from(event.len()).unwrap_or(u64::MAX);
        let since = SINCE_LOOKED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if since >= LOOK_AFTER_BYTES {
            SINCE_LOOKED.store(0, Ordering::Relaxed);
            // A log that cannot be bounded is better than none.
            drop(turn_over());
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Puts the log aside if it has become too long and is one of ours: a file `log/NAME.log` in the data folder.
fn turn_over() -> io::Result<()> {
    let path = fs::read_link("/proc/self/fd/2")?;
    let ours = path.extension().is_some_and(|end| end == "log")
        && path.parent().and_then(Path::file_name).is_some_and(|folder| folder == FOLDER);
    if !ours || fs::metadata(&path)?.len() < LOG_BYTES_MAX {
        return Ok(());
    }
    fs::copy(&path, path.with_extension("log.1"))?;
    // It is written at its end, wherever that is.
    fs::OpenOptions::new().write(true).open(&path)?.set_len(0)
}

/// Sends spans and events to stderr from now on.
pub fn start(form: &Form<'_>) -> Result<(), Error> {
    let filter = EnvFilter::try_new(format!("{},{ALWAYS}", form.filter))?;
    let subscriber = Subscriber::builder().with_env_filter(filter).with_writer(|| Masked);
    if form.json { init(subscriber.json().finish()) } else { init(subscriber.finish()) }
}

fn init(subscriber: impl tracing_subscriber::util::SubscriberInitExt) -> Result<(), Error> {
    Ok(subscriber.try_init()?)
}

#[cfg(test)]
mod tests;
