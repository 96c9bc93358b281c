//! A server on loopback, and somebody with a key.

use std::net::SocketAddr;
use std::path::Path;
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
use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use baton_store::blobs::{Blobs, DirectoryBlobs, Settings};
use baton_store::clock::ManualClock;
use baton_store::memory::MemoryStore;
use baton_store::{Bell, Clock, Store};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::caller::{Answer, Ask, Caller};

/// When everything begins.
pub const NOON: Timestamp = Timestamp(1_700_000_000_000);

pub struct World {
    pub engine: Arc<Engine>,
    pub identity: Arc<Identity>,
    pub server: Arc<Server>,
    pub clock: Arc<ManualClock>,
    pub address: SocketAddr,
    pub key: String,
    /// Where blobs are, if nobody else has the place; it goes with the world.
    _place: Option<TempDir>,
}

impl World {
    /// A server whose clock is the test's, on a store that `open` makes.
    pub async fn at(
        clock: Arc<ManualClock>,
        limits: Limits,
        open: impl FnOnce(Arc<dyn Clock>, Bell) -> Arc<dyn Store>,
    ) -> Self {
        let place = tempfile::tempdir().expect("there is room");
        let (blobs, _) = blobs_in(place.path(), Settings::default(), u64::MAX);
        Self { _place: Some(place), ..Self::keeping(clock, limits, blobs, open).await }
    }

    /// The same with these blobs.
    pub async fn keeping(
        clock: Arc<ManualClock>,
        limits: Limits,
        blobs: Arc<dyn Blobs>,
        open: impl FnOnce(Arc<dyn Clock>, Bell) -> Arc<dyn Store>,
    ) -> Self {
        let waiters = Waiters::new();
        let store = open(clock.clone(), waiters.bell());
        let incarnation = store.incarnation();
        let engine = Arc::new(Engine::new(Parts {
            store,
            waiters,
            clock: clock.clone(),
            stopwatch: Arc::new(StoppedWatch),
            chance: Arc::new(SeededChance::new(1)),
            secrets: Secrets::new([7; 32]),
            incarnation,
        }));
        let chance = Arc::new(SeededChance::new(2));
        let identity = Identity::new(Arc::clone(&engine), chance, operations::scopes());
        let identity = Arc::new(identity);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let hosts = Hosts::of(Some(address), &["baton.example".to_owned()]);
        let server = Server::new(Arc::clone(&engine), Arc::clone(&identity), blobs, hosts, limits);
        tokio::spawn(Arc::clone(&server).accept_tcp(listener));
        let key = String::new();
        let mut world = Self { engine, identity, server, clock, address, key, _place: None };
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

    /// The key of the owner of another tenant.
    pub async fn foreign_key(&self) -> String {
        let tenant = TenantId::new("other").expect("a name");
        let made = self.identity.found(&self.identity.local_owner(), &tenant, how()).await;
        made.expect("the operator lets it in").token.expect("it is new").reveal().to_owned()
    }

    pub async fn connect(&self) -> Caller {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        // Head and body are two packets, and the second must not wait for the first.
        stream.set_nodelay(true).expect("it is a socket");
        Caller::new(stream)
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
}

/// Blobs in a folder, on a disk that is as full as the test likes.
pub fn blobs_in(folder: &Path, settings: Settings, free: u64) -> (Arc<dyn Blobs>, Arc<AtomicU64>) {
    let free = Arc::new(AtomicU64::new(free));
    let told = Arc::clone(&free);
    let told = Box::new(move || Ok(told.load(Ordering::SeqCst)));
    let opened = DirectoryBlobs::open(&folder.join("blobs"), settings, told);
    (Arc::new(opened.expect("it is new").0), free)
}

/// The model.
pub fn memory(clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(baton_domain::decide, clock, bell))
}

/// By the way of a test.
pub fn how() -> How {
    let origin = Text::new("origin", "test").expect("a text");
    How { origin, trace: None, request: None }
}
