//! Flags that every command takes, and what follows from them and the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::chance::SystemChance;
use crate::client::{Address, Client, Failure, KeyFrom, Origin, Trust};
use crate::problem::Problem;
use crate::shape::Span;
use crate::surroundings::{Surroundings, key_file_in, socket_in};

/// The flags, by the names that people type. An argument of an operation that has one of these
/// names is served by the flag (`project`) or gets another name (everything else).
pub(super) const LONG: [&str; 16] = [
    "json",
    "jsonl",
    "all",
    "quiet",
    "color",
    "no-input",
    "timeout",
    "url",
    "socket",
    "key-file",
    "ca-file",
    "project",
    "if-match",
    "idempotency-key",
    "input",
    "help",
];

/// In what form answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// For people.
    Text,
    /// The body as it is.
    Json,
    /// One line per item.
    JsonLines,
}

/// What every command was told.
#[derive(Clone, Debug)]
pub(super) struct Globals {
    pub(super) output: Output,
    pub(super) all: bool,
    pub(super) quiet: bool,
    pub(super) color: bool,
    pub(super) no_input: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) url: Option<String>,
    pub(super) socket: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) project: Option<String>,
    pub(super) if_match: Option<u64>,
    pub(super) request_key: Option<String>,
}

/// The flags as clap sees them. Their ids begin with `@`, which no argument of an operation does.
pub(super) fn arguments() -> Vec<Arg> {
    let one = |name: &'static str, help: &'static str| {
        Arg::new(format!("@{name}")).long(name).global(true).help(help).help_heading("Everywhere")
    };
    let switch = |name, help| one(name, help).action(ArgAction::SetTrue);
    let value = |name, hint: &'static str, help| one(name, help).value_name(hint);
    vec![
        switch("json", "Print the answer as the server gave it"),
        switch("jsonl", "Print one line of JSON per item of a list").conflicts_with("@json"),
        switch("all", "Show everything, also what is as usual"),
        switch("quiet", "Print nothing but errors").short('q'),
        value("color", "WHEN", "Colours: auto, always or never")
            .hide_possible_values(true)
            .value_parser(["auto", "always", "never"]),
        switch("no-input", "Never wait for somebody to type"),
        value("timeout", "LENGTH", "Give up after this long, like 30s; exits 124"),
        value("url", "URL", "Where the server is (BATON_URL)").conflicts_with("@socket"),
        value("socket", "PATH", "Where the server is on this machine (BATON_SOCKET)")
            .value_parser(value_parser!(PathBuf)),
        value("key-file", "PATH", "A file with your key (BATON_KEY_FILE)")
            .value_parser(value_parser!(PathBuf)),
        value("ca-file", "PATH", "Certificate of the authority that signed the server's, as PEM")
            .value_parser(value_parser!(PathBuf)),
        value("project", "PROJECT", "Which project is meant (BATON_PROJECT)").short('P'),
        value("if-match", "VERSION", "Only if the task is still at this version")
            .value_parser(value_parser!(u64)),
        value("idempotency-key", "KEY", "Ask again under the key of an earlier request"),
    ]
}

impl Globals {
    /// What was said, filled up from the environment.
    pub(super) fn read(matches: &ArgMatches, around: &Surroundings) -> Result<Self, Failure> {
        let on = |name: &str| matches.get_flag(name);
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let output = match (on("@json"), on("@jsonl"), around.output.as_deref()) {
            (true, _, _) | (false, false, Some("json")) => Output::Json,
            (_, true, _) | (_, _, Some("jsonl")) => Output::JsonLines,
            (false, false, None | Some("text")) => Output::Text,
            (false, false, Some(_)) => {
                let detail = "BATON_OUTPUT must be text, json or jsonl";
                return Err(Problem::new("malformed", detail).next("unset BATON_OUTPUT").into());
            }
        };
        let color = match text("@color").as_deref() {
            Some("always") => true,
            Some("never") => false,
            Some(_) | None => around.terminal && !around.no_color,
        };
        let timeout = text("@timeout").map(|length| {
            let span: Result<Span, _> = length.parse();
            let rule = "`--timeout` must be a length of time like 30s or 5m";
            span.map(|span| Duration::from_millis(span.0.0))
                .map_err(|_| Failure::from(Problem::new("malformed", rule)))
        });
        Ok(Self {
            output,
            all: on("@all"),
            quiet: on("@quiet"),
            color,
            no_input: on("@no-input"),
            timeout: timeout.transpose()?,
            url: text("@url"),
            socket: path("@socket"),
            key_file: path("@key-file"),
            ca_file: path("@ca-file"),
            project: text("@project"),
            if_match: matches.get_one("@if-match").copied(),
            request_key: text("@idempotency-key"),
        })
    }

    /// Where the server is: a flag wins over the environment, both over the usual place.
    pub(super) fn address(&self, around: &Surroundings) -> Result<Address, Failure> {
        if let Some(url) = &self.url {
            return Address::of_url(url);
        }
        if let Some(path) = &self.socket {
            return Ok(Address::Socket(path.clone()));
        }
        if let Some(url) = &around.url {
            return Address::of_url(url);
        }
        let usual = || around.folder().map(|folder| socket_in(&folder));
        let found = around.socket.clone().or_else(usual);
        found.map(Address::Socket).ok_or_else(|| {
            let detail = "neither BATON_HOME nor HOME says where the data folder is";
            Problem::new("unreachable", detail).next("export BATON_HOME=~/.baton").into()
        })
    }

    /// Which key to show. The key of this machine goes to this machine only, and the socket needs
    /// none: it tells who we are.
    pub(super) fn key(&self, around: &Surroundings, address: &Address) -> KeyFrom {
        let folder = around.folder();
        let usual = folder.as_deref().map(key_file_in).filter(|path| usable(path));
        match (&self.key_file, &around.key, &around.key_file, address) {
            (Some(path), ..) | (None, None, Some(path), _) => KeyFrom::File(path.clone()),
            (None, Some(key), ..) => KeyFrom::Text(key.clone()),
            (None, None, None, Address::Tcp { .. }) if address.is_local() => {
                usual.map_or(KeyFrom::Nowhere, KeyFrom::File)
            }
            (None, None, None, Address::Tcp { .. } | Address::Socket(_)) => KeyFrom::Nowhere,
        }
    }

    /// Somebody to ask with.
    pub(super) fn client(&self, around: &Surroundings) -> Result<Client, Failure> {
        let address = self.address(around)?;
        let key = self.key(around, &address).read()?;
        let claim_token = around.claim_token.clone();
        if claim_token.as_ref().is_some_and(|token| !is_word(token.reveal())) {
            let detail = "BATON_CLAIM_TOKEN is no claim token: it has spaces or line breaks in it";
            let next = "export BATON_CLAIM_TOKEN=… as `claim` printed it";
            return Err(Problem::new("malformed", detail).next(next).into());
        }
        if key.as_ref().is_some_and(|key| !is_word(key.reveal())) {
            let detail = "the key has spaces or line breaks in it";
            return Err(Problem::new("malformed", detail).next("baton doctor").into());
        }
        let trust = self.ca_file.clone().map_or(Trust::Machine, Trust::File);
        let (origin, chance) = (Origin::Cli, Arc::new(SystemChance));
        Ok(Client { address, trust, key, claim_token, origin, chance })
    }
}

/// Whether a text can be shown in a header as it is.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn usable(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|about| about.is_file())
}
