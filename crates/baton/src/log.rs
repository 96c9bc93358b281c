//! What the program says while it runs, to stderr, as text or as JSON. Never texts of tasks, never
//! secrets: spans and events name tenants, tasks, aims and outcomes. Should one say more than it
//! meant to, whatever is a secret is masked all the same.

use std::io;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Subscriber;
use tracing_subscriber::util::TryInitError;

use crate::redaction::Redactor;

/// What keeps secrets out of the log. The log is of the whole process, and so is this.
static REDACTOR: LazyLock<RwLock<Arc<Redactor>>> = LazyLock::new(RwLock::default);

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
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
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
