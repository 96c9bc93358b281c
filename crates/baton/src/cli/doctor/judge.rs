//! What follows from what is so: an opinion on every fact, and a command where it is a bad one.

use serde_json::{Value, json};

use super::elsewhere;
use super::facts::{Database, Facts, Pepper, Server, State, Thing, Trouble, quoted};
use super::isolation;
use crate::shape::When;

/// A clock before this is not set: 2026-01-01.
const CLOCK_MIN_MS: i64 = 1_767_225_600_000;
/// How far a clock may be behind what it has already shown.
pub(super) const BEHIND_MAX_MS: i64 = 60_000;

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

pub(super) fn good(about: &'static str, what: impl Into<String>) -> Finding {
    Finding { level: Level::Good, about, what: what.into(), fix: None }
}

pub(super) fn odd(about: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level: Level::Odd, about, what: what.into(), fix: Some(fix.into()) }
}

pub(super) fn wrong(
    about: &'static str,
    what: impl Into<String>,
    fix: impl Into<String>,
) -> Finding {
    Finding { level: Level::Wrong, ..odd(about, what, fix) }
}

/// An opinion on everything.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![];
    let folder = facts.folder.path.display();
    findings.push(match facts.folder.state {
        State::Absent => odd("folder", format!("{folder} is not there yet"), &facts.serve),
        State::Unreadable => {
            let fix = "export BATON_HOME=$HOME/.local/state/baton";
            wrong("folder", format!("{folder} cannot be looked at"), fix)
        }
        State::Present { .. } => private("folder", &facts.folder, true),
    });
    if facts.folder.state != State::Absent {
        findings.extend(of_folder(facts));
    }
    for secret in facts.secrets.iter().filter(|secret| secret.state != State::Absent) {
        findings.push(private("secret", secret, false));
    }
    findings.extend(of_blobs(facts));
    findings.extend(of_pepper(facts));
    findings.extend(elsewhere::judge(facts));
    if facts.socket_folder.state != State::Absent {
        findings.push(private("socket", &facts.socket_folder, true));
    }
    if let Some(path) = &facts.stale_socket {
        let what = format!("{} is left over from a server that was killed", path.display());
        findings.push(odd("socket", what, &facts.serve));
    }
    findings.extend(of_server(facts));
    findings.push(of_clock(facts));
    findings.extend(of_environment(facts));
    findings.extend(facts.isolation.as_ref().map(isolation::judge));
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
    let (path, typed) = (thing.path.display(), quoted(&thing.path));
    let mode_wanted = if folder { "700" } else { "600" };
    match thing.state {
        State::Absent | State::Unreadable => wrong(
            about,
            format!("{path} cannot be looked at"),
            format!("sudo chmod 700 {typed}/.."),
        ),
        State::Present { ours: false, .. } => wrong(
            about,
            format!("{path} belongs to another user"),
            format!("sudo chown $USER {typed}"),
        ),
        State::Present { folder: is_folder, .. } if is_folder != folder => {
            let what = if folder { "is no folder" } else { "is no file" };
            wrong(about, format!("{path} {what}"), format!("mv {typed} {typed}.aside"))
        }
        State::Present { mode, .. } if mode & 0o077 != 0 => {
            let what = format!("{path} is open to others (mode {mode:o})");
            wrong(about, what, format!("chmod {mode_wanted} {typed}"))
        }
        State::Present { .. } => good(about, format!("{path} is yours alone")),
    }
}

fn of_folder(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![];
    let folder = quoted(&facts.folder.path);
    if let Some(name) = facts.network {
        let what = format!("the folder is on {name}: locks do not hold there; choose a local disk");
        findings.push(wrong("disk", what, "baton serve --data /var/tmp/baton-$USER"));
    }
    if facts.read_only {
        let fix =
            format!("sudo mount -o remount,rw \"$(df --output=target {folder} | tail -n 1)\"");
        findings.push(wrong("disk", "the file system of the folder is read-only", fix));
    }
    findings.push(match facts.free {
        None => odd("disk", "how much room is left cannot be told", format!("df -h {folder}")),
        Some(free) if free < facts.free_min => {
            let what = format!(
                "{} MiB are left, new work needs {}: make room, and it goes on by itself",
                free >> 20,
                facts.free_min >> 20
            );
            wrong("disk", what, format!("df -h {folder}"))
        }
        Some(free) => good("disk", format!("{} MiB are left", free >> 20)),
    });
    if facts.unfinished {
        let what = "a restore was interrupted: the next start finishes it";
        findings.push(odd("restore", what, &facts.serve));
    }
    for left in &facts.leftovers {
        let what = format!("{} is half of a copy that was interrupted", left.display());
        findings.push(odd("copies", what, format!("rm {}", quoted(left))));
    }
    findings.push(match &facts.database {
        Database::Absent => odd("database", "there is none yet", &facts.serve),
        Database::Sound { version, incarnation } => {
            good("database", format!("schema version {version}, life {incarnation:x}"))
        }
        Database::Newer(why) => {
            wrong("database", format!("{why}; is there another baton?"), "which -a baton")
        }
        Database::Broken(why) if facts.read_only => odd("database", why, &facts.serve),
        Database::Elsewhere { why, fix } => wrong("database", why, *fix),
        Database::Broken(why) => {
            let what = format!("{why}; bring a copy back by `baton restore`, or begin anew");
            wrong("database", what, format!("mv {folder} {folder}.broken; {}", facts.serve))
        }
    });
    let elsewhere = matches!(facts.server, Server::Silent(_) | Server::Nowhere(_));
    findings.push(match (facts.in_use, elsewhere) {
        (true, true) => {
            let what = "a baton works in the folder, but not where you ask";
            wrong("lock", what, "unset BATON_URL BATON_SOCKET")
        }
        (true, false) => good("lock", "one baton works in the folder"),
        (false, _) => good("lock", "nobody works in the folder"),
    });
    findings
}

/// Where blobs are; before the first server there is no such place.
fn of_blobs(facts: &Facts) -> Option<Finding> {
    if facts.blobs.state == State::Absent {
        return None;
    }
    let finding = private("blobs", &facts.blobs, true);
    let alone = facts.around.database_url.is_some() && facts.around.blobs.is_none();
    if finding.level != Level::Good || !alone {
        return Some(finding);
    }
    let what = format!(
        "{} is for one server alone; several servers of a database share the place that \
         BATON_BLOBS_DIR names",
        facts.blobs.path.display()
    );
    Some(good("blobs", what))
}

/// The pepper must be the one of the database: without it no key and no token is known again.
fn of_pepper(facts: &Facts) -> Option<Finding> {
    let path = quoted(&facts.folder.path.join("pepper"));
    // What was put aside is found by whoever looks for the right one.
    let renew = format!("mv {path} {path}.wrong; find / -name pepper -size -2k 2>/dev/null");
    match &facts.pepper {
        Pepper::Unneeded | Pepper::Fits => None,
        Pepper::Missing => {
            let what = "the pepper of this database is missing: put its copy back";
            Some(wrong("pepper", what, "find / -name pepper -size -2k 2>/dev/null"))
        }
        Pepper::Wrong => {
            let what = "the pepper is that of another database: put the copy of its own back";
            Some(wrong("pepper", what, renew))
        }
        Pepper::Unusable(why) => Some(wrong("pepper", why, renew)),
    }
}

fn of_server(facts: &Facts) -> Vec<Finding> {
    let mut findings = match &facts.server {
        Server::Green => vec![good("server", format!("{} answers, and is well", facts.place))],
        Server::Nowhere(why) => vec![wrong("server", why, "unset BATON_URL")],
        Server::Silent(why) => vec![wrong("server", why, start(facts))],
        Server::Refused { why, next } => {
            let fix = admit(facts, next.as_deref());
            vec![wrong("server", format!("it refuses us: {why}"), fix)]
        }
        Server::Troubled(troubles) => {
            let one = |trouble: &Trouble| wrong("server", &trouble.detail, help(facts, trouble));
            troubles.iter().map(one).collect()
        }
    };
    let own = env!("CARGO_PKG_VERSION");
    if let Some(version) = facts.told.version.as_deref().filter(|version| *version != own) {
        let what = format!("the server is baton {version}, this is {own}");
        findings.push(odd("version", what, "which -a baton"));
    }
    for (name, why) in &facts.told.broken_channels {
        let what = format!("nobody is told by {name}: {why}");
        findings.push(wrong("channel", what, format!("baton channel test {name}")));
    }
    if facts.told.stop_unverified > 0 {
        let count = facts.told.stop_unverified;
        let what = format!("{count} agents may still be running: nobody has proved their end");
        findings.push(odd("agents", what, "baton inbox"));
    }
    if let Some(what) = &facts.told.exhausted {
        findings.push(odd("accounts", what, "baton pool list"));
    }
    findings
}

/// How to get a server that answers.
fn start(facts: &Facts) -> String {
    match &facts.host {
        Some(host) => format!("ssh {host} baton doctor"),
        None => facts.serve.clone(),
    }
}

/// How to stop the server and start it anew.
pub(super) fn restart(facts: &Facts) -> String {
    match facts.told.pid {
        Some(pid) => format!("kill -TERM {pid}; sleep 3; {}", facts.serve),
        None => start(facts),
    }
}

/// What helps against something that a server says is wrong with it. To ask the doctor is what
/// whoever reads this does.
fn help(facts: &Facts, trouble: &Trouble) -> String {
    match trouble.next.as_str() {
        "" | "baton doctor" => restart(facts),
        next => next.to_owned(),
    }
}

/// How to be let in.
fn admit(facts: &Facts, next: Option<&str>) -> String {
    let around = &facts.around;
    if let Some(next) = next.filter(|next| next.starts_with("chmod ")) {
        return next.to_owned();
    }
    // A token that is over is refused before anything else is looked at.
    if around.claim_token.is_some() && next == Some("unset BATON_CLAIM_TOKEN") {
        return "unset BATON_CLAIM_TOKEN".to_owned();
    }
    if around.key.is_some() {
        return "unset BATON_KEY".to_owned();
    }
    if around.key_file.is_some() {
        return "unset BATON_KEY_FILE".to_owned();
    }
    match &facts.host {
        None => "unset BATON_URL".to_owned(),
        Some(host) => {
            format!("ssh {host} baton key create --name $USER --principal $USER --scopes all")
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
    let apart = facts.told.now.map_or(0, |there| (there.0 - facts.now.0).abs());
    if apart > BEHIND_MAX_MS {
        let what = format!("it says {now}, the server {} s apart from it", apart / 1_000);
        let fix = facts.host.as_ref().map(|_| "sudo timedatectl set-ntp true".to_owned());
        return odd("clock", what, fix.unwrap_or_else(|| restart(facts)));
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
    if around.not_for_this_server().is_some() {
        add(
            "BATON_PEPPER_FILE is set, but the pepper is read from the data folder",
            "unset BATON_PEPPER_FILE",
        );
    }
    if let Some(home) = around.home.as_ref().filter(|home| home.is_relative()) {
        add(
            "BATON_HOME is relative: it means another folder in every folder",
            &format!("export BATON_HOME=$PWD/{}", quoted(home)),
        );
    }
    if around.output.as_deref().is_some_and(|form| !["text", "json", "jsonl"].contains(&form)) {
        add("BATON_OUTPUT must be text, json or jsonl", "unset BATON_OUTPUT");
    }
    if facts.plain_beyond {
        let host = facts.host.as_deref().unwrap_or_default();
        add(
            "the key goes to another machine without encryption: ask by https://, or by a tunnel",
            &format!("ssh -fNL 7117:localhost:7117 {host}; export BATON_URL=http://localhost:7117"),
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
