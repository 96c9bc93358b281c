//! The ways in which an operation is asked for.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use baton::operation::{Entry, Method};
use baton::server::socket;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use crate::caller::{Answer, Ask, Caller};
use crate::scene::{Scene, Under, Who};
use crate::serving::folder;

/// What was said to a request: granted or not, and the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub granted: bool,
    pub body: Value,
}

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The table itself, which is what tool lists read.
    Table,
    /// REST over TCP.
    Tcp,
    /// REST over the socket.
    Socket,
    /// The command line with its arguments as JSON.
    Cli,
    /// A tool over MCP.
    Mcp,
}

/// Every way.
pub const WAYS: [Way; 5] = [Way::Table, Way::Tcp, Way::Socket, Way::Cli, Way::Mcp];

impl Way {
    /// Whether it has this operation: some are no tools, and are asked for by REST there.
    pub fn offers(self, entry: &Entry) -> bool {
        let name = entry.about.name();
        self != Self::Mcp || baton::mcp::listing().iter().any(|(own, ..)| *own == name)
    }

    /// What it says where the table says this: over MCP no secret is shown, and the next step is a
    /// tool where there is one.
    pub fn told(self, entry: &Entry, said: &Said) -> Said {
        let mut said = said.clone();
        if self == Self::Mcp
            && self.offers(entry)
            && let Some(body) = said.body.as_object_mut()
        {
            body.retain(|name, _| !["claim_token", "agent_token", "next"].contains(&name.as_str()));
        }
        said
    }
}

/// The scene with a socket beside its port.
pub struct Stand {
    pub scene: Scene,
    folder: TempDir,
    _bound: socket::Bound,
}

impl Stand {
    pub fn of(scene: Scene) -> Self {
        let folder = folder();
        let (listener, bound) = socket::bind(&folder.path().join("s")).expect("it is ours");
        tokio::spawn(Arc::clone(&scene.world.server).accept_unix(listener));
        Self { scene, folder, _bound: bound }
    }

    /// Asks under this request key.
    pub async fn ask(
        &self,
        way: Way,
        who: &Who,
        entry: &'static Entry,
        arguments: &Value,
        under: impl Into<Under<'_>>,
    ) -> Said {
        let under = under.into();
        match way {
            Way::Table => self.at_the_table(who, entry, arguments, under).await,
            Way::Tcp => {
                let ask = self.scene.signed(who, plain_under(entry, arguments, under));
                said(&self.scene.world.ask(&ask).await)
            }
            Way::Socket => {
                let ask = self.scene.signed(who, plain_under(entry, arguments, under));
                let ask = ask.without("host").with("host", "localhost");
                let path = self.folder.path().join("s");
                let mut caller = Caller::new(UnixStream::connect(path).await.expect("it listens"));
                said(&caller.ask(&ask).await)
            }
            Way::Cli => self.typed(who, entry, arguments, under).await,
            Way::Mcp if !way.offers(entry) => {
                let ask = self.scene.signed(who, plain_under(entry, arguments, under));
                said(&self.scene.world.ask(&ask).await)
            }
            Way::Mcp => {
                let ask = self.scene.signed(who, tool(entry, arguments, under.request));
                way.told(entry, &as_told(&self.scene.world.ask(&ask).await))
            }
        }
    }

    async fn at_the_table(
        &self,
        who: &Who,
        entry: &'static Entry,
        arguments: &Value,
        under: Under<'_>,
    ) -> Said {
        match self.scene.perform(who, entry, arguments.clone(), under).await {
            Ok(mut reply) => {
                for (name, secret) in reply.secrets {
                    reply.body[name] = secret.into();
                }
                Said { granted: true, body: reply.body }
            }
            Err(problem) => Said { granted: false, body: problem.body() },
        }
    }

    async fn typed(
        &self,
        who: &Who,
        entry: &'static Entry,
        arguments: &Value,
        under: Under<'_>,
    ) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args([entry.about.noun, entry.about.verb, "--json"]);
        if !entry.arguments.fields().is_empty() {
            command.args(["--input", "-"]);
        }
        if entry.about.changes() {
            command.args(["--idempotency-key", under.request]);
        }
        if let Some(version) = under.version {
            command.args(["--if-match", &version.to_string()]);
        }
        command.env_clear().env("BATON_HOME", self.folder.path().join("home"));
        command.env("BATON_URL", format!("http://{}", self.scene.world.address));
        command.env("BATON_KEY", &self.scene.keys[who.key]);
        if let Some(token) = who.token {
            command.env("BATON_CLAIM_TOKEN", &self.scene.tokens[token]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = arguments.to_string();
        let run = move || {
            let mut child = command.spawn().expect("it starts");
            let mut stdin = child.stdin.take().expect("it is piped");
            // What takes no arguments does not read them either.
            drop(stdin.write_all(input.as_bytes()));
            drop(stdin);
            child.wait_with_output().expect("it ends")
        };
        printed(&spawn_blocking(run).await.expect("it ran"))
    }
}

/// What a command printed, and whether it exits as it must.
pub fn printed(output: &Output) -> Said {
    let granted = output.status.success();
    let text = if granted { &output.stdout } else { &output.stderr };
    let body: Value = serde_json::from_slice(text)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(text)));
    if granted {
        return Said { granted, body };
    }
    let problem = body["error"].clone();
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    let word = problem["code"].as_str().expect("a problem has a code");
    let row = baton::problem::CODES.iter().find(|row| row.word == word);
    assert_eq!(code, row.map(|row| row.exit), "the exit code of {word}");
    Said { granted, body: problem }
}

/// What a tool said.
pub fn as_told(answer: &Answer) -> Said {
    let result = answer.json()["result"].take();
    Said { granted: result["isError"] == false, body: result["structuredContent"].clone() }
}

pub fn said(answer: &Answer) -> Said {
    Said { granted: answer.status < 300, body: answer.json() }
}

impl Scene {
    /// The request with who asks for it, and for our own host.
    pub fn signed(&self, who: &Who, ask: Ask) -> Ask {
        let bearer = format!("Bearer {}", self.keys[who.key]);
        let ask = self.world.plain(ask).with("authorization", &bearer);
        match who.token {
            Some(token) => ask.with("baton-claim-token", &self.tokens[token]),
            None => ask,
        }
    }
}

/// The same for the version that is named, if one is.
fn plain_under(entry: &Entry, arguments: &Value, under: Under<'_>) -> Ask {
    let ask = plain(entry, arguments, under.request);
    match under.version {
        Some(version) => ask.with("if-match", &format!("\"{version}\"")),
        None => ask,
    }
}

/// The request as REST has it, of nobody and for no host.
pub fn plain(entry: &Entry, arguments: &Value, request: &str) -> Ask {
    let mut rest: Map<String, Value> = arguments.as_object().expect("an object").clone();
    let mut path = entry.about.path.to_owned();
    for name in entry.about.placeholders() {
        let value = rest.remove(name).expect("a path needs all of its parts");
        path = path.replace(&format!("{{{name}}}"), &encoded(&as_text(&value)));
    }
    if entry.about.method == Method::Get {
        let query: Vec<_> = rest
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(&as_text(value))))
            .collect();
        let mark = if query.is_empty() { "" } else { "?" };
        return Ask::get(&format!("{path}{mark}{}", query.join("&")));
    }
    Ask::change(entry.about.method.word(), &path, request, &json!(rest))
}

/// The request as a call of a tool, of nobody and for no host.
pub fn tool(entry: &Entry, arguments: &Value, request: &str) -> Ask {
    let (version, name) = ("2026-07-28", entry.about.name());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "baton/idempotency-key": request,
    });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    Ask::new("POST", "/mcp?toolset=all")
        .json(&message)
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", version)
        .with("mcp-method", "tools/call")
        .with("mcp-name", &name)
}

pub fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Everything but what never means anything else.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let one =
        |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}
