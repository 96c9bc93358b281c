//! A server in a process of its own, with a tenant for each operation: what is done to one leaves
//! the others as they were.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use aho_corasick::AhoCorasick;
use baton::operation::Entry;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::caller::{Answer, Ask, Caller};
use crate::scene::{ADA, BEA, HELD, PROJECTS, STEPS, TASKS, Who, entry};
use crate::serving::{Serving, command, folder, ready};
use crate::surfaces::plain;

/// The digest of `x`.
pub const HANDED_IN: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/// The server with everything that it writes.
pub struct Cage {
    folder: TempDir,
    serving: Option<Serving>,
    requests: AtomicU64,
}

/// A tenant in which every operation has something to be done to.
pub struct Scene {
    keys: BTreeMap<&'static str, String>,
    tokens: BTreeMap<&'static str, String>,
    pub spare: String,
}

impl Cage {
    pub fn new() -> Self {
        let folder = folder();
        let log = File::create(folder.path().join("log")).expect("there is room");
        let mut command = command(&folder.path().join("data"), &["--listen", "127.0.0.1:0"]);
        command.env("BATON_LOG", "json,trace").stderr(log);
        let serving = Some(ready(command));
        Self { folder, serving, requests: AtomicU64::new(0) }
    }

    pub fn place(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn copy(&self) -> PathBuf {
        self.folder.path().join("copy.db")
    }

    fn serving(&self) -> &Serving {
        self.serving.as_ref().expect("it runs")
    }

    /// Copies the database while it is served.
    pub fn backup(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.env_clear().env("BATON_HOME", self.folder.path().join("data"));
        let output = command.arg("backup").arg(self.copy()).output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Ends it as a power cut would, so that the log of the database stays; answers what it said.
    pub fn stop(&mut self) -> String {
        drop(self.serving.take());
        fs::read_to_string(self.folder.path().join("log")).expect("it is a text")
    }

    async fn send(&self, ask: Ask, key: &str) -> Answer {
        let host = self.serving().text("url").replace("http://", "");
        let ask = ask.with("host", &host).with("authorization", &format!("Bearer {key}"));
        self.serving().connect().await.ask(&ask).await
    }

    fn mint(&self) -> String {
        format!("request-{}", self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// A tenant with the scene of the matrix. The first one is the operator's own.
    pub async fn scene(&self, number: usize) -> Scene {
        let file = self.serving().text("key_file");
        let operator = fs::read_to_string(file).expect("it is written").trim().to_owned();
        let owner = match number {
            // Tenants are let in by the operator alone.
            _ if self.is_first() => operator,
            _ => {
                let wish = json!({ "tenant": format!("tenant-{number}") });
                let ask = Ask::change("POST", "/v1/tenants", &self.mint(), &wish);
                let made = self.send(ask, &operator).await.json();
                made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
            }
        };
        let mut scene = Scene {
            keys: BTreeMap::from([("ada", owner)]),
            tokens: BTreeMap::new(),
            spare: String::new(),
        };
        scene.furnish(self).await;
        scene
    }

    fn is_first(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

impl Scene {
    async fn furnish(&mut self, cage: &Cage) {
        let bea = json!({ "name": "bea", "principal": "bea", "kind": "agent", "scopes": ["all"] });
        let bea = self.done(cage, &ADA, "key create", bea).await;
        self.keys.insert("bea", text(&bea, "key"));
        let spare = json!({ "name": "spare", "principal": "spare", "scopes": ["read"] });
        self.spare = text(&self.done(cage, &ADA, "key create", spare).await, "id");
        // The bytes of whatever is handed in: an artifact is looked for by them.
        let bytes = Ask::new("PUT", &format!("/v1/blobs/{HANDED_IN}")).bytes("x");
        let bytes = bytes.with("content-type", "application/octet-stream");
        assert_eq!(cage.send(bytes, &self.keys["bea"]).await.status, 200);
        for (who, what, arguments) in PROJECTS {
            self.done(cage, who, what, read(arguments)).await;
        }
        for (title, more) in TASKS {
            let mut task = json!({ "project": "shop", "title": title, "stage": "coding" });
            let fields = task.as_object_mut().expect("fields");
            fields.extend(read(more).as_object().expect("fields").clone());
            fields.retain(|_, value| !value.is_null());
            self.done(cage, &ADA, "task create", task).await;
        }
        for (name, task) in HELD {
            let claimed = self.done(cage, &BEA, "run claim", json!({ "task": task })).await;
            self.tokens.insert(name, text(&claimed, "claim_token"));
        }
        for (who, what, arguments) in STEPS {
            self.done(cage, who, what, read(arguments)).await;
        }
    }

    pub fn token(&self, name: &str) -> String {
        self.tokens[name].clone()
    }

    pub fn key(&self, name: &str) -> String {
        self.keys[name].clone()
    }

    async fn done(&self, cage: &Cage, who: &Who, what: &str, arguments: Value) -> Value {
        let answer = self.ask(cage, who, entry(what), &arguments).await;
        assert!(answer.status < 300, "{what} {arguments}: {}", answer.json());
        answer.json()
    }

    pub async fn ask(&self, cage: &Cage, who: &Who, entry: &Entry, arguments: &Value) -> Answer {
        let ask = plain(entry, arguments, &cage.mint());
        let ask = match who.token {
            Some(token) => ask.with("baton-claim-token", &self.tokens[token]),
            None => ask,
        };
        cage.send(ask, &self.keys[who.key]).await
    }

    /// Somebody who hears everything that happens from now on.
    pub async fn listen(&self, cage: &Cage) -> Caller {
        let host = cage.serving().text("url").replace("http://", "");
        let ask = Ask::get("/v1/events").with("host", &host).with("accept", "text/event-stream");
        let ask = ask.with("authorization", &format!("Bearer {}", self.keys["ada"]));
        let mut caller = cage.serving().connect().await;
        caller.send(&ask).await;
        let (status, _) = caller.head().await.expect("there is an answer");
        assert_eq!(status, 200);
        caller
    }

    /// Listens until everything that happened so far was heard, and no secret among it.
    pub async fn hear_to_the_end(&self, cage: &Cage, heard: &mut Caller, needles: &AhoCorasick) {
        let last = json!({ "project": "shop", "title": "the last one" });
        let last = self.done(cage, &ADA, "task create", last).await;
        loop {
            let event = heard.event().await.expect("the stream goes on");
            let said = event.data.to_string();
            assert!(!needles.is_match(&said), "{said}");
            if event.data["task"] == last["id"] {
                return;
            }
        }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

fn read(arguments: &str) -> Value {
    serde_json::from_str(arguments).expect("it is JSON")
}
