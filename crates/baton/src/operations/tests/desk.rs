//! Somebody who asks for operations, as a surface would, over an engine in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::ids::{ProjectId, TenantId};
use baton_store::order::Kind;
use baton_store::{Cursor, Filter};
use serde_json::{Value, json};

use crate::call::{Call, Envelope};
use crate::engine::tests::world::{World, name, tenant, text};
use crate::identity::Caller;
use crate::operations::{all, find};
use crate::problem::Problem;

/// Where requests are made.
pub(super) struct Desk {
    pub(super) world: World,
    requests: AtomicU64,
}

/// Who asks, and under which conditions.
pub(super) struct Asker {
    tenant: TenantId,
    kind: Kind,
    if_match: Option<u64>,
    key: Option<String>,
}

impl Asker {
    /// A person with every scope.
    pub(super) fn person() -> Self {
        Self { tenant: tenant(), kind: Kind::Person, if_match: None, key: None }
    }

    pub(super) fn agent() -> Self {
        Self { kind: Kind::Agent, ..Self::person() }
    }

    /// Somebody whose data are others.
    pub(super) fn stranger() -> Self {
        let tenant = TenantId::new("elsewhere").expect("a plain word is a name");
        Self { tenant, ..Self::person() }
    }

    pub(super) fn if_match(version: u64) -> Self {
        Self { if_match: Some(version), ..Self::person() }
    }

    pub(super) fn key(key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::person() }
    }
}

impl Desk {
    pub(super) async fn open() -> Self {
        Self { world: World::new().await, requests: AtomicU64::new(0) }
    }

    /// Asks as a person for an operation such as `task show`.
    pub(super) async fn ask(&self, what: &str, arguments: Value) -> Result<Value, Problem> {
        self.ask_as(&Asker::person(), what, arguments).await
    }

    pub(super) async fn ask_as(
        &self,
        asker: &Asker,
        what: &str,
        arguments: Value,
    ) -> Result<Value, Problem> {
        let (noun, verb) = what.split_once(' ').expect("an operation has a noun and a verb");
        let entry = find(noun, verb).expect("it is in the table");
        let scopes = all().iter().map(|entry| entry.about.scope()).collect();
        let caller = Caller::keyless(asker.tenant.clone(), name("ann"), asker.kind, scopes);
        let minted = format!("request-{}", self.requests.fetch_add(1, Ordering::Relaxed));
        let envelope = Envelope {
            request_key: Some(text(asker.key.as_ref().unwrap_or(&minted))),
            if_match: asker.if_match,
            ..Envelope::default()
        };
        let engine = Arc::clone(&self.world.engine);
        let call = Call::new(engine, caller, envelope, text("test"), (&entry.about, &arguments));
        entry.perform(arguments, Arc::new(call)).await.map(|reply| reply.body)
    }

    /// What must be granted.
    pub(super) async fn done(&self, what: &str, arguments: Value) -> Value {
        match self.ask(what, arguments).await {
            Ok(body) => body,
            Err(problem) => panic!("`{what}` was refused: {}", problem.body()),
        }
    }

    /// What must be refused, and leave everything as it was; the code and the whole problem.
    pub(super) async fn refused(&self, what: &str, arguments: Value) -> (&'static str, Value) {
        self.refused_to(&Asker::person(), what, arguments).await
    }

    pub(super) async fn refused_to(
        &self,
        asker: &Asker,
        what: &str,
        arguments: Value,
    ) -> (&'static str, Value) {
        let before = self.dump().await;
        let asked = arguments.to_string();
        let Err(problem) = self.ask_as(asker, what, arguments).await else {
            panic!("`{what}` was granted: {asked}");
        };
        assert_eq!(before, self.dump().await, "a refused `{what}` left a trace: {asked}");
        (problem.code(), problem.body())
    }

    /// Makes a task of the project `demo`; further fields are added to it.
    pub(super) async fn task(&self, title: &str, more: Value) -> String {
        let mut arguments = json!({ "project": "demo", "title": title });
        let more = more.as_object().expect("fields are an object").clone();
        arguments.as_object_mut().expect("it is one").extend(more);
        let made = self.done("task create", arguments).await;
        made["id"].as_str().expect("an id is a text").to_owned()
    }

    /// Everything that the store keeps, as text.
    pub(super) async fn dump(&self) -> String {
        let engine = &self.world.engine;
        let mut dump = String::new();
        for tenant in [tenant(), Asker::stranger().tenant] {
            let filter = Filter { ended: true, count_max: 500, ..Filter::default() };
            let tasks = engine.tasks(&tenant, filter).await.expect("it can be read");
            let none = None::<ProjectId>;
            let projects = engine.projects(&tenant, none, 500).await.expect("it can be read");
            let pools = engine.pools(&tenant, None, 500).await.expect("it can be read");
            let entries = engine.entries(&tenant, Cursor::start(), 500).await;
            dump +=
                &format!("{tasks:?}{projects:?}{pools:?}{:?}", entries.expect("it can be read"));
        }
        dump
    }
}

/// The ids of a list, by the field that holds them.
pub(super) fn ids(page: &Value, field: &str) -> Vec<String> {
    let items = page["items"].as_array().expect("a page has items");
    items.iter().map(|item| item[field].as_str().expect("it is a text").to_owned()).collect()
}
