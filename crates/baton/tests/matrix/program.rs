//! The program itself: `baton serve` as a process on a real file, asked over TCP, over its socket
//! and by what a person types. One server serves all cases; each case has a tenant of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use baton::operation::Entry;
use baton_testkit::tables;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use crate::caller::{Ask, Caller};
use crate::desk::Desk;
use crate::scene::{ADA, Stage, Who, entry, furnish};
use crate::serving::{Serving, command, folder, ready};
use crate::surfaces::{Said, Way, as_text, as_told, plain, printed, said, tool};

/// A way to ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    Tcp,
    Socket,
    /// A command with its arguments as a person types them.
    Typed,
    /// A tool over MCP, or REST for what is none.
    Mcp,
}

/// Every way that shows all there is: over MCP no secret is shown.
pub const ROADS: [Road; 3] = [Road::Tcp, Road::Socket, Road::Typed];

/// Names of tenants and requests that no two share.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The server.
pub struct Program {
    pub serving: Serving,
    pub data: PathBuf,
    folder: TempDir,
    /// Where people are told.
    _desk: Desk,
}

/// A tenant with the scene in it.
pub struct House<'a> {
    program: &'a Program,
    pub keys: BTreeMap<&'static str, String>,
    pub tokens: BTreeMap<&'static str, String>,
    pub spare: String,
}

impl Program {
    pub fn start() -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let desk = Desk::new();
        let mut asked = command(&data, &["--listen", "127.0.0.1:0"]);
        asked.env("PATH", desk.path());
        Self { serving: ready(asked), data, folder, _desk: desk }
    }

    /// The same with a log beside its data, of this form.
    pub fn start_logging(form: &str) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let log = File::create(folder.path().join("log")).expect("there is room");
        let mut asked = command(&data, &["--listen", "127.0.0.1:0"]);
        let desk = Desk::new();
        asked.env("BATON_LOG", form).env("PATH", desk.path()).stderr(log);
        Self { serving: ready(asked), data, folder, _desk: desk }
    }

    /// Ends it, and leaves what it has written.
    pub fn close(self) -> TempDir {
        self.folder
    }

    /// Everything that it keeps but when keys were last used, and seals, which come with time.
    pub fn dump(&self) -> String {
        tables::dump(&self.data.join("baton.db"), &["keys.used_at", "seals", "seal_keys"])
    }

    /// Lets a tenant in, with callers and the scene.
    pub async fn house(&self) -> House<'_> {
        let operator = std::fs::read_to_string(self.serving.text("key_file")).expect("its key");
        let mut keys = BTreeMap::from([("ada", operator.trim().to_owned())]);
        let (tokens, spare) = (BTreeMap::new(), String::new());
        let mut house = House { program: self, keys: keys.clone(), tokens, spare };
        let name = format!("tenant-{}", mint());
        let made = house.done(&ADA, "tenant create", json!({ "tenant": name })).await;
        let owner = made["key"].as_str().expect("it is shown once").to_owned();
        house.keys.insert("ada", owner);
        for (name, kind, scopes) in [
            ("ada", "person", "all"),
            ("bea", "agent", "all"),
            ("wes", "worker", "all"),
            ("spare", "bot", "read"),
        ] {
            let wish = json!({ "name": name, "principal": name, "kind": kind, "scopes": [scopes] });
            let made = house.done(&ADA, "key create", wish).await;
            keys.insert(name, made["key"].as_str().expect("it is shown once").to_owned());
            house.spare = made["id"].as_str().expect("it has an id").to_owned();
        }
        house.keys = keys;
        furnish(&mut house).await;
        house
    }
}

fn mint() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl Stage for House<'_> {
    async fn done(&self, who: &Who, what: &str, arguments: Value) -> Value {
        let said = self.ask(Road::Tcp, who, entry(what), &arguments).await;
        assert!(said.granted, "{what} {arguments}: {}", said.body);
        said.body
    }

    fn keep(&mut self, name: &'static str, token: String) {
        self.tokens.insert(name, token);
    }
}

impl House<'_> {
    /// Asks under a request key of its own.
    pub async fn ask(
        &self,
        road: Road,
        who: &Who,
        entry: &'static Entry,
        arguments: &Value,
    ) -> Said {
        let request = format!("request-{}", mint());
        let serving = &self.program.serving;
        match road {
            Road::Tcp => {
                let ask = self.signed(who, plain(entry, arguments, &request));
                let host = serving.text("url").replace("http://", "");
                said(&serving.connect().await.ask(&ask.with("host", &host)).await)
            }
            Road::Socket => {
                let ask = self.signed(who, plain(entry, arguments, &request));
                let socket = UnixStream::connect(serving.text("socket")).await;
                let mut caller = Caller::new(socket.expect("it listens"));
                said(&caller.ask(&ask.with("host", "localhost")).await)
            }
            Road::Mcp if !Way::Mcp.offers(entry) => {
                Box::pin(self.ask(Road::Tcp, who, entry, arguments)).await
            }
            Road::Mcp => {
                let host = serving.text("url").replace("http://", "");
                let ask = self.signed(who, tool(entry, arguments, &request)).with("host", &host);
                as_told(&serving.connect().await.ask(&ask).await)
            }
            Road::Typed => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
                command.args(argv(entry, arguments)).arg("--json");
                if entry.about.changes() {
                    command.args(["--idempotency-key", &request]);
                }
                command.env_clear().env("BATON_HOME", self.program.folder.path().join("home"));
                command.env("BATON_URL", serving.text("url"));
                command.env("BATON_KEY", &self.keys[who.key]);
                command.envs(who.token.map(|token| ("BATON_CLAIM_TOKEN", &self.tokens[token])));
                command.stdin(Stdio::null());
                let run = move || command.output().expect("it ends");
                printed(&spawn_blocking(run).await.expect("it ran"))
            }
        }
    }

    fn signed(&self, who: &Who, ask: Ask) -> Ask {
        let ask = ask.with("authorization", &format!("Bearer {}", self.keys[who.key]));
        match who.token {
            Some(token) => ask.with("baton-claim-token", &self.tokens[token]),
            None => ask,
        }
    }
}

/// The command as a person types it: what stands in the path by its place, the rest as flags.
fn argv(entry: &Entry, arguments: &Value) -> Vec<String> {
    let mut words = vec![entry.about.noun.to_owned(), entry.about.verb.to_owned()];
    let places: Vec<_> = entry.about.placeholders().collect();
    words.extend(places.iter().map(|name| as_text(&arguments[*name])));
    for field in entry.arguments.fields().iter().filter(|field| !places.contains(&field.name)) {
        let flag = match field.name {
            "project" => "-P".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        };
        match &arguments[field.name] {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(flag),
            Value::Array(items) => {
                for item in items {
                    words.extend([flag.clone(), as_text(item)]);
                }
            }
            value @ (Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                words.extend([flag, as_text(value)]);
            }
        }
    }
    words
}
