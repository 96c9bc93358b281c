//! A world in which every operation has something to be done to: the same one every time, to the
//! last secret, for its clock stands still and its chance is seeded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::call::{Call, Envelope};
use baton::operation::{Entry, Reply};
use baton::operations;
use baton::problem::Problem;
use baton::server::Limits;
use baton_domain::Refusal;
use baton_domain::key::Kind;
use baton_domain::text::Text;
use baton_store::clock::ManualClock;
use serde_json::{Value, json};

use crate::world::{NOON, World};

/// Who asks: the name of a key, and of a token that is shown with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub key: &'static str,
    pub token: Option<&'static str>,
}

/// A person with every scope.
pub const ADA: Who = Who { key: "ada", token: None };
/// An agent with every scope.
pub const BEA: Who = Who { key: "bea", token: None };
/// A worker with every scope.
pub const WES: Who = Who { key: "wes", token: None };

/// The same agent as the holder of a run.
pub const fn holding(token: &'static str) -> Who {
    Who { token: Some(token), ..BEA }
}

/// The world.
pub struct Scene {
    pub world: World,
    pub keys: BTreeMap<&'static str, String>,
    pub tokens: BTreeMap<&'static str, String>,
    /// The public id of a key that nobody needs.
    pub spare: String,
    requests: AtomicU64,
}

/// The row of an operation such as `task show`.
pub fn entry(what: &str) -> &'static Entry {
    let (noun, verb) = what.split_once(' ').expect("a noun and a verb");
    operations::find(noun, verb).expect("it is in the table")
}

/// What people call a row.
pub fn title(entry: &Entry) -> String {
    format!("{} {}", entry.about.noun, entry.about.verb)
}

impl Scene {
    /// A world with callers and nothing else.
    pub async fn bare() -> Self {
        let clock = Arc::new(ManualClock::at(NOON));
        let world = World::at(clock, Limits::default()).await;
        let mut keys = BTreeMap::from([("ada", world.key.clone())]);
        for (name, kind) in [("bea", Kind::Agent), ("wes", Kind::Worker)] {
            keys.insert(name, world.make_key(name, kind, "all").await.1);
        }
        keys.insert("reader", world.make_key("reader", Kind::Person, "read").await.1);
        keys.insert("eve", world.foreign_key().await);
        let spare = world.make_key("spare", Kind::Bot, "read").await.0.to_string();
        let (tokens, requests) = (BTreeMap::new(), AtomicU64::new(0));
        Self { world, keys, tokens, spare, requests }
    }

    /// The whole of it.
    pub async fn new() -> Self {
        let mut scene = Self::bare().await;
        scene.do_all(PROJECTS).await;
        for (title, more) in TASKS {
            let mut task = json!({ "project": "shop", "title": title, "stage": "coding" });
            let more: Value = serde_json::from_str(more).expect("it is JSON");
            let fields = task.as_object_mut().expect("fields");
            fields.extend(more.as_object().expect("fields").clone());
            fields.retain(|_, value| !value.is_null());
            scene.done(&ADA, "task create", task).await;
        }
        for (name, task) in HELD {
            scene.claim(name, task).await;
        }
        scene.do_all(STEPS).await;
        scene
    }

    async fn claim(&mut self, name: &'static str, task: &str) {
        let request = self.mint();
        let wish = json!({ "task": task });
        let reply = self.perform(&BEA, entry("run claim"), wish, &request).await;
        let reply = reply.unwrap_or_else(|problem| panic!("{task}: {}", problem.body()));
        let token = reply.secrets.iter().find(|(own, _)| *own == "claim_token");
        self.tokens.insert(name, token.expect("it is shown once").1.clone());
    }

    async fn do_all(&self, steps: &[(Who, &str, &str)]) {
        for (who, what, arguments) in steps {
            let arguments = serde_json::from_str(arguments).expect("it is JSON");
            self.done(who, what, arguments).await;
        }
    }

    /// Asks for something that is granted.
    pub async fn done(&self, who: &Who, what: &str, arguments: Value) -> Value {
        let asked = format!("{what} {arguments}");
        let reply = self.perform(who, entry(what), arguments, &self.mint()).await;
        reply.unwrap_or_else(|problem| panic!("{asked}: {}", problem.body())).body
    }

    /// Asks the table itself, as a surface does once it knows who asks.
    pub async fn perform(
        &self,
        who: &Who,
        entry: &Entry,
        arguments: Value,
        request: &str,
    ) -> Result<Reply, Problem> {
        let identity = Arc::clone(&self.world.identity);
        let caller = identity.authenticate(&self.keys[who.key]).await.expect("the key is good");
        let keyring = self.world.engine.keyring();
        let verify = |name| keyring.verify(&self.tokens[name], &caller.tenant);
        let pass = who.token.map(verify).transpose();
        let pass = pass.map_err(|_| Problem::from(Refusal::LeaseLost))?;
        let request_key = Some(Text::new("key", request).expect("a text"));
        let envelope = Envelope { request_key, pass, ..Envelope::default() };
        let origin = Text::new("origin", "test").expect("a text");
        let call = Call::new(identity, caller, envelope, origin, (&entry.about, &arguments));
        entry.perform(arguments, Arc::new(call)).await
    }

    /// A request key that no other request has.
    pub fn mint(&self) -> String {
        format!("request-{}", self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

pub const PROJECTS: &[(Who, &str, &str)] = &[
    (ADA, "project add", r#"{ "project": "shop" }"#),
    (ADA, "project add", r#"{ "project": "spare" }"#),
    (ADA, "project pause", r#"{ "project": "spare", "reason": "it is not needed" }"#),
];

/// Tasks in the order of their numbers, and what they have besides a title.
pub const TASKS: &[(&str, &str)] = &[
    ("queued", "{}"),
    ("a draft", r#"{ "draft": true, "stage": null }"#),
    ("to be approved", r#"{ "needs_approval": true }"#),
    ("held", "{}"),
    ("frozen", "{}"),
    ("to be looked at", "{}"),
    ("closed", "{}"),
    ("waiting", r#"{ "depends_on": ["T-1"] }"#),
    ("a parent", "{}"),
    ("a child", r#"{ "parent": "T-9" }"#),
    ("asked", "{}"),
    ("blocked", "{}"),
    ("failed", r#"{ "policy": { "attempts_max": 1 } }"#),
    ("answered", "{}"),
    ("just claimed", "{}"),
];

/// Who holds what, by the name of its token.
pub const HELD: &[(&str, &str)] = &[
    ("held", "T-4"),
    ("asked", "T-11"),
    ("blocked", "T-12"),
    ("failed", "T-13"),
    ("answered", "T-14"),
    ("claimed", "T-15"),
];

pub const STEPS: &[(Who, &str, &str)] = &[
    (holding("held"), "run begin", r#"{ "run": "mine" }"#),
    (holding("held"), "run checkpoint", r#"{ "run": "mine", "summary": "half of it" }"#),
    (ADA, "task freeze", r#"{ "task": "T-5", "reason": "later" }"#),
    (ADA, "task hold", r#"{ "task": "T-6", "reason": "look at it" }"#),
    (ADA, "task close", r#"{ "task": "T-7", "reason": "no longer" }"#),
    (holding("asked"), "run begin", r#"{ "run": "mine" }"#),
    (holding("asked"), "run ask", r#"{ "run": "mine", "question": "which colour?" }"#),
    (holding("blocked"), "run begin", r#"{ "run": "mine" }"#),
    (
        holding("blocked"),
        "run block",
        r#"{ "run": "mine", "kind": "needs_input", "reason": "which size?" }"#,
    ),
    (holding("failed"), "run begin", r#"{ "run": "mine" }"#),
    (holding("failed"), "run fail", r#"{ "run": "mine", "code": "stuck", "reason": "no way" }"#),
    (holding("answered"), "run begin", r#"{ "run": "mine" }"#),
    (holding("answered"), "run ask", r#"{ "run": "mine", "question": "which day?" }"#),
    (ADA, "run answer", r#"{ "run": "T-14", "answer": "today" }"#),
    (ADA, "scheduler pause", r#"{ "task": "T-9", "reason": "not yet" }"#),
    (ADA, "pool set", r#"{ "pool": "stage shop coding", "limit": 50 }"#),
];
