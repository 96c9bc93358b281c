//! A desk at which callers ask for operations by name, over a real engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_domain::ids::TenantId;
use baton_store::order::Kind;
use baton_store::{Cursor, Filter};
use serde_json::Value;

use crate::call::{Call, Envelope};
use crate::chance::SeededChance;
use crate::engine::tests::world::{World, name, tenant, text};
use crate::identity::{Caller, Identity};
use crate::operation::Reply;
use crate::operations;
use crate::problem::Problem;

/// A world with a desk in it.
pub(super) struct Desk {
    pub(super) world: World,
    identity: Arc<Identity>,
    keys: AtomicUsize,
}

/// Somebody at the desk.
#[derive(Clone, Debug)]
pub(super) struct Who {
    name: &'static str,
    kind: Kind,
    tenant: TenantId,
    token: Option<String>,
}

/// A person.
pub(super) fn ann() -> Who {
    Who { name: "ann", kind: Kind::Person, tenant: tenant(), token: None }
}

/// Whoever runs the server.
pub(super) fn owner() -> Who {
    Who { name: "owner", ..ann() }
}

/// An agent on its own.
pub(super) fn bot(name: &'static str) -> Who {
    Who { name, kind: Kind::Agent, ..ann() }
}

/// A worker, whose attempts are supervised.
pub(super) fn worker() -> Who {
    Who { name: "wes", kind: Kind::Worker, ..ann() }
}

impl Who {
    /// The same, showing a token.
    pub(super) fn showing(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same in another tenant.
    pub(super) fn elsewhere(&self) -> Self {
        let tenant = TenantId::new("other").expect("a plain word is a name");
        Self { tenant, ..self.clone() }
    }
}

impl Desk {
    pub(super) async fn new() -> Self {
        let world = World::new().await;
        let chance = Arc::new(SeededChance::new(2));
        let identity = Identity::new(Arc::clone(&world.engine), chance, operations::scopes());
        Self { world, identity: Arc::new(identity), keys: AtomicUsize::new(0) }
    }

    /// Asks for `noun verb` under a fresh key.
    pub(super) async fn ask(
        &self,
        who: &Who,
        what: &str,
        arguments: Value,
    ) -> Result<Reply, Problem> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        self.ask_as(who, what, arguments, &format!("key-{number}")).await
    }

    /// Asks under this key.
    pub(super) async fn ask_as(
        &self,
        who: &Who,
        what: &str,
        arguments: Value,
        key: &str,
    ) -> Result<Reply, Problem> {
        let (noun, verb) = what.split_once(' ').expect("a noun and a verb");
        let entry = operations::find(noun, verb).expect("there is such an operation");
        let engine = &self.world.engine;
        let verify = |token: &String| engine.keyring().verify(token, &who.tenant);
        let pass = who.token.as_ref().map(verify).transpose();
        let pass = pass.map_err(|_| Problem::new("unauthenticated", "forged"))?;
        let envelope = Envelope { request_key: Some(text(key)), pass, ..Envelope::default() };
        let scopes = operations::scopes().iter().cloned().collect();
        let caller = Caller::keyless(who.tenant.clone(), name(who.name), who.kind, scopes);
        let identity = Arc::clone(&self.identity);
        let call = Call::new(identity, caller, envelope, text("rest"), (&entry.about, &arguments));
        entry.perform(arguments, Arc::new(call)).await
    }

    /// Asks for something that is granted.
    pub(super) async fn granted(&self, who: &Who, what: &str, arguments: Value) -> Value {
        let asked = format!("{what} {arguments}");
        let reply = self.ask(who, what, arguments).await;
        reply.unwrap_or_else(|problem| panic!("{asked}: {}", problem.body())).body
    }

    /// Asks for something that is refused, and changes nothing.
    pub(super) async fn refused(&self, who: &Who, what: &str, arguments: Value) -> Value {
        let (before, asked) = (self.dump().await, format!("{what} {arguments}"));
        let problem = match self.ask(who, what, arguments).await {
            Ok(reply) => panic!("{asked}: granted with {}", reply.body),
            Err(problem) => problem.body(),
        };
        assert_eq!(self.dump().await, before, "{asked} was refused and left a trace: {problem}");
        problem
    }

    /// Makes a task and has it claimed; the holder shows its token from now on.
    pub(super) async fn claimed(&self, who: &Who) -> Who {
        self.world.create("paint the fence").await;
        let reply = self.ask(who, "run claim", serde_json::json!({})).await;
        who.showing(&secret(&reply.expect("there is one"), "claim_token"))
    }

    /// Everything that a store keeps of the tenant.
    pub(super) async fn dump(&self) -> String {
        let (engine, tenant) = (&self.world.engine, tenant());
        let all = Filter { ended: true, count_max: 500, ..Filter::default() };
        let tasks = engine.tasks(&tenant, all).await.expect("it can be read");
        let entries = engine.entries(&tenant, Cursor::start(), 500).await.expect("it can be read");
        let pools = engine.pools(&tenant, None, 500).await.expect("it can be read");
        format!("{tasks:#?}{entries:#?}{pools:#?}")
    }
}

/// A secret of an answer.
pub(super) fn secret(reply: &Reply, name: &str) -> String {
    let found = reply.secrets.iter().find(|(own, _)| *own == name);
    found.map(|(_, secret)| secret.clone()).expect("the answer has it")
}
