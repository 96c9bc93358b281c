//! What the program was started with. Read once, at the start, and passed on: nothing else looks
//! at the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the program was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `BATON_HOME`: the data folder.
    pub home: Option<PathBuf>,
    /// `BATON_URL`: where the server is.
    pub url: Option<String>,
    /// `BATON_SOCKET`: where the server is on this machine.
    pub socket: Option<PathBuf>,
    /// `BATON_KEY`: who calls.
    pub key: Option<Hidden>,
    /// `BATON_KEY_FILE`: where that stands.
    pub key_file: Option<PathBuf>,
    /// `BATON_CLAIM_TOKEN`: which attempt calls.
    pub claim_token: Option<Hidden>,
    /// `BATON_PROJECT`: which project is meant where none is named.
    pub project: Option<String>,
    /// `BATON_OUTPUT`: `json`, `jsonl` or `text`.
    pub output: Option<String>,
    /// `BATON_DATABASE_URL`: a database elsewhere.
    pub database_url: Option<Hidden>,
    /// `BATON_PEPPER_FILE`: the pepper, if it is not in the data folder.
    pub pepper_file: Option<PathBuf>,
    /// `BATON_BLOBS_DIR`: where blobs are, if not in the data folder.
    pub blobs: Option<PathBuf>,
    /// `NO_COLOR`, if it is not empty.
    pub no_color: bool,
    /// Whether somebody looks at stdout.
    pub terminal: bool,
    /// `XDG_STATE_HOME`, or what stands for it.
    pub state: Option<PathBuf>,
    /// `PATH`: where programs are looked for.
    pub programs: Vec<PathBuf>,
    /// `NOTIFY_SOCKET`: where whoever started a server wants to be told how it is.
    pub notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC`: how often it wants a sign of life, in microseconds.
    pub watchdog_usec: Option<String>,
    /// `WATCHDOG_PID`: of which process.
    pub watchdog_pid: Option<String>,
    /// Everything that is set, for whoever passes some of it on to agents.
    pub variables: Variables,
    /// Names that are set but are not text.
    pub unreadable: Vec<&'static str>,
}

/// Variables with their values, of which some are secrets: none is shown by accident.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variables({} …)", self.0.len())
    }
}

/// A database elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where it is; may hold a password.
    pub url: Hidden,
    /// The pepper that its servers share, if it is not in the data folder.
    pub pepper_file: Option<PathBuf>,
}

/// A secret: it shows itself to nobody by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Shows it to whoever must send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

impl Surroundings {
    /// A database elsewhere, if one is named, and where its pepper is.
    #[must_use]
    pub fn database(&self) -> Option<Database> {
        let url = self.database_url.clone()?;
        Some(Database { url, pepper_file: self.pepper_file.clone() })
    }

    /// A variable that means nothing to the database in the data folder: better no server than one
    /// that keeps its secrets elsewhere than its user believes.
    #[must_use]
    pub fn not_for_this_server(&self) -> Option<&'static str> {
        let own = self.database_url.is_none();
        self.pepper_file.as_ref().filter(|_| own).map(|_| "BATON_PEPPER_FILE")
    }

    /// Reads everything through `get`. What is set to nothing counts as not set.
    #[must_use]
    pub fn read(get: impl Fn(&str) -> Option<OsString>, terminal: bool) -> Self {
        let mut unreadable = vec![];
        let raw = |name: &str| get(name).filter(|value| !value.is_empty());
        let mut text = |name: &'static str| match raw(name)?.into_string() {
            Ok(text) => Some(text),
            Err(_) => {
                unreadable.push(name);
                None
            }
        };
        let (url, project, output) =
            (text("BATON_URL"), text("BATON_PROJECT"), text("BATON_OUTPUT"));
        let key = text("BATON_KEY").map(Hidden);
        let claim_token = text("BATON_CLAIM_TOKEN").map(Hidden);
        let database_url = text("BATON_DATABASE_URL").map(Hidden);
        let (watchdog_usec, watchdog_pid) = (text("WATCHDOG_USEC"), text("WATCHDOG_PID"));
        let path = |name: &str| raw(name).map(PathBuf::from);
        // A relative path there is to be ignored, by the standard that names it.
        let state = path("XDG_STATE_HOME").filter(|path| path.is_absolute());
        Self {
            home: path("BATON_HOME"),
            url,
            socket: path("BATON_SOCKET"),
            key,
            key_file: path("BATON_KEY_FILE"),
            claim_token,
            project,
            output,
            database_url,
            pepper_file: path("BATON_PEPPER_FILE"),
            blobs: path("BATON_BLOBS_DIR"),
            no_color: raw("NO_COLOR").is_some(),
            terminal,
            programs: raw("PATH")
                .map_or_else(Vec::new, |path| std::env::split_paths(&path).collect()),
            state: state.or_else(|| path("HOME").map(|home| home.join(".local/state"))),
            notify_socket: raw("NOTIFY_SOCKET"),
            watchdog_usec,
            watchdog_pid,
            variables: Variables::default(),
            unreadable,
        }
    }

    /// How long whoever started this process waits for a sign of life of it.
    #[must_use]
    pub fn watchdog(&self, own: u32) -> Option<Duration> {
        let meant = self.watchdog_pid.as_ref().is_none_or(|pid| pid.parse() == Ok(own));
        let micros = self.watchdog_usec.as_ref().filter(|_| meant)?.parse().ok()?;
        Some(Duration::from_micros(micros)).filter(|wait| !wait.is_zero())
    }

    /// The data folder: the one that was named, or the usual one.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        self.home.clone().or_else(|| self.state.as_deref().map(|state| state.join("baton")))
    }
}

/// Where the server of a data folder listens.
#[must_use]
pub fn socket_in(folder: &Path) -> PathBuf {
    folder.join("run/baton.sock")
}

/// Where the server of a data folder writes the key of its own user.
#[must_use]
pub fn key_file_in(folder: &Path) -> PathBuf {
    folder.join("local.key")
}

/// Where the server of a data folder keeps blobs, unless it is told otherwise.
#[must_use]
pub fn blobs_in(folder: &Path) -> PathBuf {
    folder.join("blobs")
}

#[cfg(test)]
mod tests;
