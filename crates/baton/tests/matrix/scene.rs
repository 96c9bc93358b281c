//! A world in which every operation has something to be done to: the same one every time, to the
//! last secret, for its clock stands still and its chance is seeded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::call::{Call, Envelope};
use baton::engine::{Target, Tokens, Wish};
use baton::messenger::Messenger;
use baton::notices::Notices;
use baton::operation::{Entry, Reply};
use baton::operations;
use baton::problem::Problem;
use baton::server::Limits;
use baton_domain::Refusal;
use baton_domain::command::Verdict;
use baton_domain::contract::{Finding, Receipt};
use baton_domain::ids::{LineId, PrincipalId, TenantId};
use baton_domain::key::Kind;
use baton_domain::lane::{Claimant, Wants};
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::text::Text;
use baton_store::clock::ManualClock;
use baton_store::{Actor, Aim, Order};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::ground::{Fresh, Ground};
use crate::world::{NOON, World};

/// Who asks: the name of a key, and of a token that is shown with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub key: &'static str,
    pub token: Option<&'static str>,
}

/// Under what a request is made: the key by which it is known again, and the version of the task that
/// it is for, if it names one.
#[derive(Clone, Copy, Debug)]
pub struct Under<'a> {
    pub request: &'a str,
    pub version: Option<u64>,
}

impl<'a> From<&'a str> for Under<'a> {
    fn from(request: &'a str) -> Self {
        Self { request, version: None }
    }
}

impl<'a> From<&'a String> for Under<'a> {
    fn from(request: &'a String) -> Self {
        request.as_str().into()
    }
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
    pub ground: Box<dyn Ground>,
    pub keys: BTreeMap<&'static str, String>,
    pub tokens: BTreeMap<&'static str, String>,
    /// The public id of a key that nobody needs.
    pub spare: String,
    /// Where people are told.
    pub desk: Desk,
    /// Who tells them; it does so only while somebody has it.
    _messenger: Arc<dyn Messenger>,
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
    pub async fn bare(fresh: Fresh) -> Self {
        let (clock, ground) = (Arc::new(ManualClock::at(NOON)), fresh());
        let open = |clock, bell| ground.open(clock, bell);
        let world = World::at(clock, Limits::default(), open).await;
        let mut keys = BTreeMap::from([("ada", world.key.clone())]);
        for (name, kind) in [("bea", Kind::Agent), ("wes", Kind::Worker)] {
            keys.insert(name, world.make_key(name, kind, "all").await.1);
        }
        keys.insert("reader", world.make_key("reader", Kind::Person, "read").await.1);
        keys.insert("eve", world.foreign_key().await);
        let spare = world.make_key("spare", Kind::Bot, "read").await.0.to_string();
        let desk = Desk::new();
        // Nobody carries channels on here; they can be tried out, and lead to nowhere inside.
        let messenger: Arc<dyn Messenger> =
            Notices::new(Arc::clone(&world.engine), true, vec![], desk.programs());
        world.engine.keep_messenger(&messenger);
        let (tokens, requests) = (BTreeMap::new(), AtomicU64::new(0));
        Self { world, ground, keys, tokens, spare, desk, _messenger: messenger, requests }
    }

    /// The whole of it.
    pub async fn new(fresh: Fresh) -> Self {
        let mut scene = Self::bare(fresh).await;
        furnish(&mut scene).await;
        verify(&scene, "T-16", &["tests"]).await;
        verify(&scene, "T-18", &[]).await;
        scene
    }

    /// Asks for something that is granted.
    pub async fn done(&self, who: &Who, what: &str, arguments: Value) -> Value {
        let asked = format!("{what} {arguments}");
        let reply = self.perform(who, entry(what), arguments, &self.mint()).await;
        let reply = reply.unwrap_or_else(|problem| panic!("{asked}: {}", problem.body()));
        let mut body = reply.body;
        body.as_object_mut().expect("fields").extend(
            reply.secrets.into_iter().map(|(name, secret)| (name.to_owned(), secret.into())),
        );
        body
    }

    /// Asks the table itself, as a surface does once it knows who asks.
    pub async fn perform(
        &self,
        who: &Who,
        entry: &Entry,
        arguments: Value,
        under: impl Into<Under<'_>>,
    ) -> Result<Reply, Problem> {
        let Under { request, version: if_match } = under.into();
        let identity = Arc::clone(&self.world.identity);
        let caller = identity.authenticate(&self.keys[who.key]).await.expect("the key is good");
        let keyring = self.world.engine.keyring();
        let verify = |name| keyring.verify(&self.tokens[name], &caller.tenant);
        let pass = who.token.map(verify).transpose();
        let pass = pass.map_err(|_| Problem::from(Refusal::LeaseLost))?;
        let request_key = Some(Text::new("key", request).expect("a text"));
        let envelope = Envelope { request_key, if_match, pass, ..Envelope::default() };
        let origin = Text::new("origin", "test").expect("a text");
        let call = Call::new(identity, caller, envelope, origin, (&entry.about, &arguments));
        entry.perform(arguments, Arc::new(call)).await
    }

    /// A request key that no other request has.
    pub fn mint(&self) -> String {
        format!("request-{}", self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// A place to put the scene into.
pub trait Stage {
    /// Asks for something that is granted; the answer with what is shown once.
    async fn done(&self, who: &Who, what: &str, arguments: Value) -> Value;

    /// Keeps a token under its name.
    fn keep(&mut self, name: &'static str, token: String);
}

impl Stage for Scene {
    async fn done(&self, who: &Who, what: &str, arguments: Value) -> Value {
        Self::done(self, who, what, arguments).await
    }

    fn keep(&mut self, name: &'static str, token: String) {
        self.tokens.insert(name, token);
    }
}

/// Puts the scene into a place that has callers and nothing else.
pub async fn furnish(place: &mut impl Stage) {
    carry_out(place, PROJECTS).await;
    for (title, more) in TASKS {
        let mut task = json!({ "project": "shop", "title": title, "stage": "coding" });
        let more: Value = serde_json::from_str(more).expect("it is JSON");
        let fields = task.as_object_mut().expect("fields");
        fields.extend(more.as_object().expect("fields").clone());
        fields.retain(|_, value| !value.is_null());
        place.done(&ADA, "task create", task).await;
    }
    for (name, task) in HELD {
        let claimed = place.done(&BEA, "run claim", json!({ "task": task })).await;
        place.keep(name, claimed["claim_token"].as_str().expect("it is shown once").to_owned());
    }
    carry_out(place, STEPS).await;
}

/// Does one after another, each of which is granted.
pub async fn carry_out(place: &impl Stage, steps: &[(Who, &str, &str)]) {
    for (who, what, arguments) in steps {
        let arguments = serde_json::from_str(arguments).expect("it is JSON");
        place.done(who, what, arguments).await;
    }
}

/// A worker finds that these lines of what was submitted hold. No surface has words for that yet, so
/// the engine is asked itself.
async fn verify(scene: &Scene, task: &str, lines: &[&str]) {
    let engine = &scene.world.engine;
    let tenant = TenantId::new("local").expect("a name");
    let principal = PrincipalId::new("checker").expect("a name");
    let origin = Text::new("origin", "test").expect("a text");
    let actor = Actor { principal: principal.clone(), kind: Kind::Worker, origin, trace: None };
    let claimant = Claimant {
        principal,
        person: false,
        mode: Mode::Supervised,
        capabilities: [].into(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Submitted,
    };
    let target = Target::Next { wait: None };
    let wish = Wish {
        tenant: tenant.clone(),
        actor: actor.clone(),
        claimant,
        target,
        lease: None,
        request: None,
    };
    let claimed = engine.claim(wish).await.expect("something was submitted");
    let Tokens::Supervised { supervisor, .. } = &claimed.tokens else { panic!("it has a worker") };
    let pass = engine.keyring().verify(supervisor.reveal(), &tenant).expect("it is ours");
    assert_eq!(pass.task.to_string(), task, "the first one that waits");
    let receipt = |line: &&str| Receipt {
        line: LineId::new(line).expect("a name"),
        finding: Finding::Holds { evidence: None },
        at: engine.now(),
        signed: None,
    };
    let receipts = lines.iter().map(receipt).collect();
    let verdict = pass.verdict(Verdict { receipts, ..Verdict::default() }).expect("a worker may");
    let aim = Aim::Task(pass.task, vec![verdict]);
    engine.submit(Order { tenant, actor, aim, request: None }).await.expect("it is verified");
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
    (
        "to be proved",
        r#"{ "contract": [{ "id": "tests", "kind": "gate", "command": "make test" }] }"#,
    ),
    (
        "to be vouched for",
        r#"{ "contract": [{ "id": "tests", "kind": "gate", "command": "make test" }] }"#,
    ),
    (
        "to be reviewed",
        r#"{ "contract": [{ "id": "looks", "kind": "criterion", "text": "it looks good" }] }"#,
    ),
];

/// Who holds what, by the name of its token.
pub const HELD: &[(&str, &str)] = &[
    ("held", "T-4"),
    ("asked", "T-11"),
    ("blocked", "T-12"),
    ("failed", "T-13"),
    ("answered", "T-14"),
    ("claimed", "T-15"),
    ("submitted", "T-16"),
    ("unproved", "T-17"),
    ("unseen", "T-18"),
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
    (holding("submitted"), "run begin", r#"{ "run": "mine" }"#),
    (
        holding("submitted"),
        "run complete",
        r#"{ "run": "mine", "summary": "all of it", "tree": "4b825dc6" }"#,
    ),
    (holding("unproved"), "run begin", r#"{ "run": "mine" }"#),
    (holding("unproved"), "run complete", r#"{ "run": "mine", "summary": "all of it" }"#),
    (holding("unseen"), "run begin", r#"{ "run": "mine" }"#),
    (
        holding("unseen"),
        "run complete",
        r#"{ "run": "mine", "summary": "all of it", "tree": "4b825dc6" }"#,
    ),
    (holding("answered"), "run begin", r#"{ "run": "mine" }"#),
    (holding("answered"), "run ask", r#"{ "run": "mine", "question": "which day?" }"#),
    (ADA, "run answer", r#"{ "run": "T-14", "answer": "today" }"#),
    (ADA, "scheduler pause", r#"{ "task": "T-9", "reason": "not yet" }"#),
    (ADA, "worker drain", r#"{ "worker": "rex", "reason": "it is old" }"#),
    (ADA, "pool set", r#"{ "pool": "stage shop coding", "limit": 50 }"#),
    // Of something that never happens here, so that whoever carries it on has nothing to note.
    (ADA, "channel add", r#"{ "channel": "desk", "need": ["stop_unverified"] }"#),
];
