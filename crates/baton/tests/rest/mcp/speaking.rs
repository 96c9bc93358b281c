//! How a test speaks the protocol over HTTP.

use std::sync::Arc;

use baton::server::Limits;
use baton_store::clock::ManualClock;
use serde_json::{Value, json};

use crate::caller::{Answer, Ask, Caller};
use crate::world::{NOON, World, memory};

const MODERN: &str = "2026-07-28";

impl World {
    pub async fn noon() -> Self {
        let world = Self::at(Arc::new(ManualClock::at(NOON)), Limits::default(), memory).await;
        let stages = json!({ "stages": [{ "name": "coding" }] });
        world.rest(("PUT", "/v1/projects/shop"), "project", &stages).await;
        world
    }

    /// A change over REST by the owner of the key of this world.
    pub async fn rest(&self, (method, path): (&str, &str), request: &str, body: &Value) -> Value {
        let ask = self.signed(Ask::change(method, path, request, body));
        let answer = self.ask(&ask).await;
        assert!(answer.status < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// A task with a queued run.
    pub async fn queued(&self) -> String {
        let wish = json!({ "title": "Something to do", "project": "shop", "stage": "coding" });
        let task = self.rest(("POST", "/v1/tasks"), "task", &wish).await;
        task["id"].as_str().expect("it has a number").to_owned()
    }

    /// A request of the modern era, which says itself what its client understands.
    pub fn modern(&self, key: &str, method: &str, mut params: Value, client: &Value) -> Ask {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": client,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        });
        let name = ["name", "uri", "taskId"].iter().find_map(|name| params[*name].as_str());
        let name = name.unwrap_or_default().to_owned();
        let ask = self.posted(key, &message(method, params));
        let ask = ask.with("mcp-protocol-version", MODERN).with("mcp-method", method);
        if name.is_empty() { ask } else { ask.with("mcp-name", &name) }
    }

    /// A message with everything that lets it pass the door.
    pub fn posted(&self, key: &str, message: &Value) -> Ask {
        self.plain(Ask::new("POST", "/mcp"))
            .json(message)
            .with("accept", "application/json, text/event-stream")
            .with("authorization", &format!("Bearer {key}"))
    }

    /// Calls a tool as a client that understands nothing but tools.
    pub async fn call(&self, key: &str, tool: &str, arguments: Value) -> Value {
        self.call_as(key, tool, arguments, &json!({})).await
    }

    pub async fn call_as(&self, key: &str, tool: &str, arguments: Value, client: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.ask(&self.modern(key, "tools/call", params, client)).await;
        answer.json()
    }

    /// Opens a session of the legacy era.
    pub async fn session(&self, key: &str) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let mut caller = self.connect().await;
        caller.send(&self.posted(key, &message("initialize", params))).await;
        let (status, headers) = caller.head().await.expect("it answers");
        assert_eq!(status, 200);
        headers["mcp-session-id"].clone()
    }

    /// Says something in a session.
    pub fn in_session(&self, key: &str, session: &str, ask: Ask) -> Ask {
        self.plain(ask)
            .with("accept", "application/json, text/event-stream")
            .with("authorization", &format!("Bearer {key}"))
            .with("mcp-protocol-version", "2025-11-25")
            .with("mcp-session-id", session)
    }

    /// Calls a tool in a session, and hears the answer.
    pub async fn call_in(&self, key: &str, session: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let ask = Ask::new("POST", "/mcp").json(&message("tools/call", params));
        let mut caller = self.connect().await;
        caller.send(&self.in_session(key, session, ask)).await;
        assert_eq!(caller.head().await.expect("it answers").0, 200);
        answered(&mut caller).await
    }
}

/// The next answer of a stream; what primes it has no data.
async fn answered(caller: &mut Caller) -> Value {
    loop {
        let line = caller.line().await.expect("an answer comes");
        let data = line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok());
        match data {
            Some(Value::Object(message)) if message.contains_key("id") => return message.into(),
            Some(_) | None => {}
        }
    }
}

pub fn message(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// The code of a refusal, as a tool tells it or as the protocol does.
pub fn refusal(answer: &Value) -> String {
    let told = &answer["result"]["structuredContent"]["code"];
    told.as_str().map_or_else(|| answer["error"]["code"].to_string(), str::to_owned)
}

pub fn is_bad_state(answer: &Answer) -> bool {
    answer.json()["error"]["code"] == -32_602
}
