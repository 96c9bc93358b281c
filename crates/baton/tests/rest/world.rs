//! A server on loopback over the model, and somebody with a key.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::chance::SeededChance;
use baton::clock::StoppedWatch;
use baton::engine::{Engine, Parts};
use baton::identity::{How, Identity, KeyWish};
use baton::operations;
use baton::server::{Hosts, Limits, Server};
use baton::tokens::Secrets;
use baton::waiters::Waiters;
use baton_domain::ids::{KeyName, PrincipalId, TenantId};
use baton_domain::key::{KeyId, Kind};
use baton_domain::text::{Reason, Text};
use baton_domain::time::Timestamp;
use baton_store::clock::ManualClock;
use baton_store::memory::MemoryStore;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use crate::caller::{Answer, Ask, Caller};

/// How often a test looks for something that is about to happen.
const LOOKS_MAX: usize = 2_000_000;

pub struct World {
    pub engine: Arc<Engine>,
    pub identity: Arc<Identity>,
    pub server: Arc<Server>,
    pub clock: Arc<ManualClock>,
    pub address: SocketAddr,
    pub key: String,
    requests: AtomicU64,
}

impl World {
    pub async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000)));
        let waiters = Waiters::new();
        let store = MemoryStore::new(baton_domain::decide, clock.clone(), waiters.bell());
        let engine = Arc::new(Engine::new(Parts {
            store: Arc::new(store),
            waiters,
            clock: clock.clone(),
            stopwatch: Arc::new(StoppedWatch),
            chance: Arc::new(SeededChance::new(1)),
            secrets: Secrets::new([7; 32]),
            incarnation: 1,
        }));
        let chance = Arc::new(SeededChance::new(2));
        let identity = Identity::new(Arc::clone(&engine), chance, operations::scopes());
        let identity = Arc::new(identity);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let hosts = Hosts::of(Some(address), &["baton.example".to_owned()]);
        let server = Server::new(Arc::clone(&engine), Arc::clone(&identity), hosts, limits);
        tokio::spawn(Arc::clone(&server).accept_tcp(listener));
        let requests = AtomicU64::new(0);
        let key = String::new();
        let mut world = Self { engine, identity, server, clock, address, key, requests };
        world.key = world.make_key("ada", Kind::Person, "all").await.1;
        world
    }

    pub async fn make_key(&self, name: &str, kind: Kind, scopes: &str) -> (KeyId, String) {
        let wish = KeyWish {
            name: KeyName::new(name).expect("a name"),
            principal: PrincipalId::new(name).expect("a name"),
            kind,
            scopes: vec![scopes.to_owned()],
            lifetime: None,
        };
        let made = self.identity.create(&self.identity.local_owner(), how(), wish).await;
        let made = made.expect("the owner may make keys");
        (made.row.key.id, made.token.expect("it is new").reveal().to_owned())
    }

    pub async fn other_key(&self) -> String {
        self.make_key("bob", Kind::Person, "all").await.1
    }

    /// The key of the owner of another tenant.
    pub async fn foreign_key(&self) -> String {
        let tenant = TenantId::new("other").expect("a name");
        let made = self.identity.found(&self.identity.local_owner(), &tenant, how()).await;
        made.expect("the operator lets it in").token.expect("it is new").reveal().to_owned()
    }

    pub async fn revoke(&self, key: &KeyId) {
        let reason = Reason::new("reason", "it leaked").expect("a reason");
        let owner = self.identity.local_owner();
        self.identity.revoke(&owner, how(), key, reason).await.expect("it is there");
    }

    pub async fn connect(&self) -> Caller {
        Caller::new(TcpStream::connect(self.address).await.expect("it listens"))
    }

    /// Asks over a connection of its own.
    pub async fn ask(&self, ask: &Ask) -> Answer {
        self.connect().await.ask(ask).await
    }

    /// The same request with a host and nothing else.
    pub fn plain(&self, mut ask: Ask) -> Ask {
        ask.headers.insert(0, ("host".to_owned(), self.address.to_string()));
        ask
    }

    /// The same request with host and key.
    pub fn signed(&self, ask: Ask) -> Ask {
        self.plain(ask).with("authorization", &format!("Bearer {}", self.key))
    }

    pub fn get(&self, target: &str) -> Ask {
        self.signed(Ask::get(target))
    }

    /// A POST under a request key of its own.
    pub fn post(&self, target: &str) -> Ask {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
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

fn how() -> How {
    let origin = Text::new("origin", "test").expect("a text");
    How { origin, trace: None, request: None }
}
