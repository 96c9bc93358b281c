//! What only these tests ask of the world and its callers.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::server::Limits;
use baton_domain::key::{KeyId, Kind};
use baton_domain::text::Reason;
use baton_store::clock::ManualClock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::caller::{Ask, Caller, PATIENCE};
use crate::serving::Serving;
use crate::world::{NOON, World, how, memory};

/// How often a test looks for something that is about to happen.
const LOOKS_MAX: usize = 2_000_000;

/// Request keys that no two requests of these tests share.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

impl Caller {
    /// Whether the other end still takes bytes.
    pub async fn still_takes(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).await.is_ok() && self.socket.flush().await.is_ok()
    }

    /// Waits for the end of the connection.
    pub async fn is_ended(&mut self) -> bool {
        let mut rest = vec![];
        let read = timeout(PATIENCE, self.socket.read_to_end(&mut rest)).await;
        // Whether it was closed or reset is the same to whoever was cut.
        read.is_ok() && rest.is_empty()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Self {
        Self::at(Arc::new(ManualClock::at(NOON)), limits, memory).await
    }

    pub async fn other_key(&self) -> String {
        self.make_key("bob", Kind::Person, "all").await.1
    }

    pub async fn revoke(&self, key: &KeyId) {
        let reason = Reason::new("reason", "it leaked").expect("a reason");
        let owner = self.identity.local_owner();
        self.identity.revoke(&owner, how(), key, reason).await.expect("it is there");
    }

    pub fn get(&self, target: &str) -> Ask {
        self.signed(Ask::get(target))
    }

    /// A POST under a request key of its own.
    pub fn post(&self, target: &str) -> Ask {
        let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
        self.signed(Ask::new("POST", target)).with("idempotency-key", &format!("request-{number}"))
    }

    pub fn claim(&self, key: &str, wish: &Value) -> Ask {
        self.signed(Ask::change("POST", "/v1/runs/claim", key, wish))
    }

    /// A project to put tasks into.
    pub async fn project(&self) {
        let put = Ask::change("PUT", "/v1/projects/shop", "put-shop", &json!({}));
        let answer = self.ask(&self.signed(put)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A task to be worked on; its id.
    pub async fn task(&self, title: &str) -> String {
        let body = json!({ "project": "shop", "title": title, "stage": "coding" });
        let answer = self.ask(&self.post("/v1/tasks").json(&body)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().expect("a task has an id").to_owned()
    }

    /// Waits until so many claimers wait.
    pub async fn until_waiting(&self, count: usize) {
        until(|| self.engine.waiters().len() >= count).await;
    }

    /// Waits until so many listen for changes.
    pub async fn until_listening(&self, count: usize) {
        until(|| self.engine.changes().len() == count).await;
    }
}

impl Serving {
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("it has an id"), signal).expect("it is alive");
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

/// Looks again and again, letting everybody else go on in between.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        yield_now().await;
    }
    panic!("it never came to be");
}
