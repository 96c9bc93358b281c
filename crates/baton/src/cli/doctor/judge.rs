//! What follows from what is so: an opinion on every fact, and a command where it is a bad one.

use serde_json::{Value, json};

use super::facts::{Database, Facts, Server, State, Thing};
use crate::shape::When;

/// A clock before this is not set: 2026-01-01.
const CLOCK_MIN_MS: i64 = 1_767_225_600_000;
/// How far a clock may be behind what it has already shown.
const BEHIND_MAX_MS: i64 = 60_000;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) about: &'static str,
    pub(super) what: String,
    pub(super) fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Good,
    /// Worth knowing.
    Odd,
    Wrong,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Odd => "odd",
            Self::Wrong => "wrong",
        }
    }
}

impl Finding {
    pub(super) fn body(&self) -> Value {
        json!({
            "level": self.level.word(), "about": self.about, "what": self.what, "fix": self.fix,
        })
    }
}

fn good(about: &'static str, what: impl Into<String>) -> Finding {
    Finding { level: Level::Good, about, what: what.into(), fix: None }
}

fn odd(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level: Level::Odd, about, what: what.into(), fix: Some(fix.into()) }
}

fn wrong(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level: Level::Wrong, ..odd(about, what, fix) }
}

/// An opinion on everything.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![];
    let folder = facts.folder.path.display();
    findings.push(match facts.folder.state {
        State::Absent => odd("folder", format!("{folder} is not there yet"), "baton serve"),
        State::Unreadable | State::Present { .. } => private("folder", &facts.folder, true),
    });
    if facts.folder.state != State::Absent {
        findings.extend(of_folder(facts));
    }
    for secret in facts.secrets.iter().filter(|secret| secret.state != State::Absent) {
        findings.push(private("secret", secret, false));
    }
    if facts.socket_folder.state != State::Absent {
        findings.push(private("socket", &facts.socket_folder, true));
    }
    findings.push(of_server(facts));
    findings.push(of_clock(facts));
    findings.extend(of_environment(facts));
    findings.extend(of_repository(facts));
    findings
}

fn of_repository(facts: &Facts) -> Vec<Finding> {
    match facts.repository.as_deref() {
        None => vec![],
        Some([]) => vec![good("repository", "everything is as `baton init` wrote it")],
        Some(wrong) => {
            let one = |(path, why): &(String, String)| {
                odd("repository", format!("{path}: {why}"), "baton init")
            };
            wrong.iter().map(one).collect()
        }
    }
}

/// What must be ours alone.
fn private(about: &'static str, thing: &Thing, folder: bool) -> Finding {
    let path = thing.path.display();
    let mode_wanted = if folder { "700" } else { "600" };
    match thing.state {
        State::Absent => odd(about, format!("{path} is not there"), "baton serve"),
        State::Unreadable => {
            wrong(about, format!("{path} cannot be looked at"), format!("ls -ld {path}"))
        }
        State::Present { ours: false, .. } => wrong(
            about,
            format!("{path} belongs to another user"),
            format!("sudo chown $USER {path}"),
        ),
        State::Present { folder: is_folder, .. } if is_folder != folder => {
            let what = if folder { "is no folder" } else { "is no file" };
            wrong(about, format!("{path} {what}"), format!("mv {path} {path}.aside"))
        }
        State::Present { mode, .. } if mode & 0o077 != 0 => {
            let what = format!("{path} is open to others (mode {mode:o})");
            wrong(about, what, format!("chmod {mode_wanted} {path}"))
        }
        State::Present { .. } => good(about, format!("{path} is yours alone")),
    }
}

fn of_folder(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![];
    if let Some(name) = facts.network {
        let what = format!("the folder is on {name}: locks do not hold there");
        findings.push(wrong("disk", what, "export BATON_HOME=a folder on a local disk"));
    }
    findings.push(match facts.free {
        None => odd("disk", "how much room is left cannot be told", "df -h"),
        Some(free) if free < facts.free_min => {
            let what =
                format!("{} MiB are left, new work needs {}", free >> 20, facts.free_min >> 20);
            wrong("disk", what, "df -h; make room, work goes on by itself")
        }
        Some(free) => good("disk", format!("{} MiB are left", free >> 20)),
    });
    if facts.unfinished {
        findings.push(odd("restore", "a restore was interrupted", "baton serve finishes it"));
    }
    findings.push(match &facts.database {
        Database::Absent => odd("database", "there is none yet", "baton serve"),
        Database::Sound { version, incarnation } => {
            good("database", format!("schema version {version}, life {incarnation:x}"))
        }
        Database::Newer(why) => wrong("database", why, "install the newer baton"),
        Database::Broken(why) => wrong("database", why, "baton restore FILE"),
    });
    let silent = matches!(facts.server, Server::Silent(_));
    findings.push(match (facts.in_use, silent) {
        (true, true) => {
            let what = "a baton works in the folder, but not where you ask";
            wrong("lock", what, "unset BATON_URL BATON_SOCKET, or stop that baton")
        }
        (true, false) => good("lock", "one baton works in the folder"),
        (false, _) => good("lock", "nobody works in the folder"),
    });
    findings
}

fn of_server(facts: &Facts) -> Finding {
    match &facts.server {
        Server::Green => good("server", format!("{} answers, and is well", facts.place)),
        Server::Silent(why) => wrong("server", why, "baton serve"),
        Server::Refused(why) => wrong("server", format!("it refuses us: {why}"), "baton key list"),
        Server::Troubled(troubles) => {
            let all = troubles.join("; ");
            wrong("server", format!("it is not well: {all}"), "baton health show --json")
        }
    }
}

fn of_clock(facts: &Facts) -> Finding {
    let now = When(facts.now);
    if facts.now.0 < CLOCK_MIN_MS {
        let fix = "sudo timedatectl set-ntp true";
        return wrong("clock", format!("it says {now}: it is not set"), fix);
    }
    let shown = facts.database_changed_at.map_or(0, |at| at.0);
    if facts.now.0 + BEHIND_MAX_MS < shown {
        let what = format!("it says {now}, but the database is newer: it was set back");
        return odd("clock", what, "sudo timedatectl set-ntp true");
    }
    good("clock", now.to_string())
}

fn of_environment(facts: &Facts) -> Vec<Finding> {
    let around = &facts.around;
    let mut findings = vec![];
    let mut add = |what: &str, fix: &str| findings.push(odd("environment", what, fix));
    if around.url.is_some() && around.socket.is_some() {
        add("BATON_URL and BATON_SOCKET are both set; the URL wins", "unset BATON_SOCKET");
    }
    if around.key.is_some() && around.key_file.is_some() {
        add("BATON_KEY and BATON_KEY_FILE are both set; the key wins", "unset BATON_KEY_FILE");
    }
    if around.database_url.is_some() {
        add(
            "BATON_DATABASE_URL is set, but this baton keeps its own database",
            "unset BATON_DATABASE_URL",
        );
    }
    if around.pepper_file.is_some() {
        add(
            "BATON_PEPPER_FILE is set, but the pepper is read from the data folder",
            "unset BATON_PEPPER_FILE",
        );
    }
    if around.home.as_ref().is_some_and(|home| home.is_relative()) {
        add(
            "BATON_HOME is relative: it means another folder in every folder",
            "export BATON_HOME=$PWD/…",
        );
    }
    if around.output.as_deref().is_some_and(|form| !["text", "json", "jsonl"].contains(&form)) {
        add("BATON_OUTPUT must be text, json or jsonl", "unset BATON_OUTPUT");
    }
    if facts.plain_beyond {
        add(
            "the key goes to another machine without encryption",
            "ssh -L 7117:localhost:7117 HOST",
        );
    }
    for name in &around.unreadable {
        add(&format!("{name} is no text"), &format!("unset {name}"));
    }
    match &facts.key_file {
        Some(thing) if thing.state == State::Absent => {
            let what = format!("BATON_KEY_FILE names {}, which is not there", thing.path.display());
            findings.push(wrong("environment", what, "unset BATON_KEY_FILE"));
        }
        Some(thing) => findings.push(private("key file", thing, false)),
        None => {}
    }
    findings
}
