//! The server: sockets in, operations out. It reads the operation table and knows no operation by
//! name.
//!
//! A request passes four gates, in this order: is it for us and from nowhere else (`guard`), what
//! does it mean (`route`), who asks (`door`), what exactly (`arguments`). Only then is anything
//! looked up. Every wait on the way has a bound (`limits`), kept by the connection itself.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::key::KeyId;
use baton_domain::text::Text;
use baton_store::blobs::Blobs;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::chance::SystemChance;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::mcp::http::Endpoint;
use crate::operation::Entry;
use crate::operations;
use crate::problem::Problem;
use crate::relay::Relay;

use blobs::Depot;
use connection::{Connection, Paced, Taker};
use crowd::{Crowd, Seat};
use limits::{HEAD_BUFFER_BYTES, HEADERS_PARSED_MAX};
use rates::Gauge;
use tickets::Tickets;

pub use guard::Hosts;
pub use limits::{BODY_BYTES_MAX, Limits};
pub use rates::Rates;

mod accept;
mod answer;
mod arguments;
mod blobs;
pub mod command;
mod connection;
mod crowd;
mod door;
mod guard;
pub(crate) mod json;
pub mod limits;
mod live;
mod local;
mod misread;
mod notify;
mod rates;
mod request;
mod route;
mod signals;
pub mod socket;
mod start;
mod stream;
mod tickets;
pub mod tls;
mod url;
mod web;
mod worker;

/// How often the store is asked whether it has stopped, should nobody run into it.
const LOOK_AFTER_STORE: Duration = Duration::from_secs(1);

/// Serves the operations of one engine.
pub struct Server {
    engine: Arc<Engine>,
    identity: Arc<Identity>,
    hosts: Hosts,
    socket_hosts: Hosts,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// Those of the unix socket: strangers who fill the port must not lock the operator out.
    socket_slots: Arc<Semaphore>,
    crowd: Arc<Crowd>,
    gauge: Gauge,
    stage: watch::Sender<Stage>,
    trouble: Notify,
    endpoint: Endpoint,
    relay: Arc<Relay>,
    depot: Depot,
    tickets: Tickets,
}

/// How far the server is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It serves.
    Open,
    /// It serves what comes, but no new work, and says that it is not ready.
    Draining,
    /// It takes no more connections, and ends those that it has.
    Closing,
}

/// What our own command line, `baton mcp` and the dashboard call themselves in the header
/// `Baton-Client`.
const OWN_CLIENTS: [&str; 3] = ["cli", "mcp", "web"];

/// By which way somebody came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP, from this address: it must show a key.
    Tcp(IpAddr),
    /// Over the socket, as the user that the server runs as.
    Owner,
    /// Over the socket, from the tree of a supervised agent: it is that agent, and shows its claim token.
    Inside,
    /// Over the socket, as somebody else: it must show a key.
    Stranger,
}

impl Peer {
    /// The way, as history keeps it. Our own command line and `baton mcp` say that they ask; whatever
    /// else a caller says of itself counts for nothing.
    fn origin(self, client: Option<&str>) -> Text<64> {
        let own = OWN_CLIENTS.into_iter().find(|word| client == Some(word));
        let word = match (self, own) {
            (_, Some(word)) => word,
            (Self::Tcp(_), None) => "rest",
            (Self::Owner | Self::Inside | Self::Stranger, None) => "socket",
        };
        Text::new("origin", word).expect("a plain word is a text")
    }
}

impl Server {
    /// A server that answers under these names.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        identity: Arc<Identity>,
        blobs: Arc<dyn Blobs>,
        hosts: Hosts,
        limits: Limits,
    ) -> Arc<Self> {
        engine.keep_blobs(Arc::clone(&blobs));
        let chance = Arc::new(SystemChance);
        let endpoint =
            Endpoint::new(Arc::clone(&identity), limits.patience(), chance, limits.fixtures);
        let relay = Relay::new(Arc::clone(&identity));
        Arc::new(Self {
            depot: Depot::new(blobs),
            tickets: Tickets::default(),
            relay,
            endpoint,
            engine,
            identity,
            hosts,
            socket_hosts: Hosts::of_socket(),
            limits,
            slots: Arc::new(Semaphore::new(limits.connections_max)),
            socket_slots: Arc::new(Semaphore::new(limits.connections_max)),
            crowd: Arc::default(),
            gauge: Gauge::new(limits.rates),
            stage: watch::channel(Stage::Open).0,
            trouble: Notify::new(),
        })
    }

    /// Serves one connection to its end, or until somebody has it for good.
    async fn serve<S>(self: &Arc<Self>, socket: S, peer: Peer) -> Option<(Taker, S, Vec<u8>)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = Arc::new(Connection::default());
        let paced = Paced::new(socket, Arc::clone(&connection), self.limits);
        let service = service_fn(|request| {
            let (server, connection) = (Arc::clone(self), Arc::clone(&connection));
            // At once, not when somebody first looks: until then the parser would take the end of
            // what the caller says for the end of its interest.
            let busy = connection.busy();
            Box::pin(async move {
                let held = (&connection, busy);
                let answer = request::answer(&server, peer, held, request).await;
                Ok::<_, std::convert::Infallible>(answer)
            })
        });
        // The deadlines are those of the paced socket: the parser's own would end an idle
        // connection as early as a head that comes too slowly.
        let serving = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(HEAD_BUFFER_BYTES)
            .max_headers(HEADERS_PARSED_MAX)
            .serve_connection(TokioIo::new(paced), service);
        let mut serving = serving;
        let mut stage = self.stage.subscribe();
        let served = tokio::select! {
            biased;
            served = poll_fn(|cx| serving.poll_without_shutdown(cx)) => Some(served),
            _ = stage.wait_for(|stage| *stage == Stage::Closing) => None,
        };
        let served = match served {
            Some(served) => served,
            None => {
                Pin::new(&mut serving).graceful_shutdown();
                poll_fn(|cx| serving.poll_without_shutdown(cx)).await
            }
        };
        let parts = serving.into_parts();
        let (mut socket, read) = (parts.io.into_inner().into_inner(), parts.read_buf.to_vec());
        if let Err(error) = served {
            tracing::debug!(%error, "a connection broke off");
            return None;
        }
        let taker = connection.take_taker();
        if taker.is_none() {
            drop(socket.shutdown().await);
        }
        Some((taker?, socket, read))
    }

    /// Stops in steps: not ready and no new work at once, no new connections after a while, and
    /// no more than a while for what is in flight. True if everybody was answered.
    pub async fn drain(&self) -> bool {
        self.stage.send_replace(Stage::Draining);
        self.engine.drain();
        sleep(self.limits.linger).await;
        self.stage.send_replace(Stage::Closing);
        self.endpoint.stop();
        let all = u32::try_from(self.limits.connections_max).unwrap_or(u32::MAX);
        let gone = async {
            tokio::join!(self.slots.acquire_many(all), self.socket_slots.acquire_many(all))
        };
        timeout(self.limits.drain, gone).await.is_ok()
    }

    /// Waits until the store has stopped by itself, and says why.
    pub async fn store_stopped(&self) -> String {
        loop {
            if let Some(why) = self.engine.health().await.stopped() {
                return why.to_owned();
            }
            tokio::select! {
                () = self.trouble.notified() => {}
                () = sleep(LOOK_AFTER_STORE) => {}
            }
        }
    }

    /// A store that has met a fault says so in its answers; whoever watches it should look now.
    fn look_into(&self, problem: &Problem) {
        if ["stopped", "unknown"].contains(&problem.code()) {
            self.trouble.notify_one();
        }
    }

    fn is_open(&self) -> bool {
        *self.stage.borrow() == Stage::Open
    }

    /// Counts a request of a key, and takes one of its seats.
    fn seat(&self, key: &KeyId) -> Result<Seat, Problem> {
        self.gauge.key(key, self.engine.now())?;
        self.crowd.enter(key, self.limits.per_key_max)
    }

    fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    fn hosts(&self, peer: Peer) -> &Hosts {
        match peer {
            Peer::Tcp(_) => &self.hosts,
            Peer::Owner | Peer::Inside | Peer::Stranger => &self.socket_hosts,
        }
    }

    fn table(&self) -> &'static [Entry] {
        operations::all()
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn relay(&self) -> &Arc<Relay> {
        &self.relay
    }

    fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    fn depot(&self) -> &Depot {
        &self.depot
    }

    /// Resolves once connections are to end.
    fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut stage = self.stage.subscribe();
        async move { drop(stage.wait_for(|stage| *stage == Stage::Closing).await) }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }
}
