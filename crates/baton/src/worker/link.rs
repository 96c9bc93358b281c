//! The worker's end of the link: connects, says hello, and keeps at it.
//!
//! Whatever is told of an attempt goes to its outbox first, and from there to the server as often as it
//! takes. What the server says comes out of a bounded channel. A cut is nothing that whoever uses the
//! link must handle: it hears of it, and of the welcome after it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::{Account, AttemptId, Capability, DeploymentId, Label};
use baton_domain::text::Text;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::chance::Chance;
use crate::client::{Address, Client, KeyFrom, Origin, Trust, Wire};
use crate::points::{self, Point};
use crate::protocol::{
    Bye, Credit, Down, Heartbeat, Hello, Log, LogLine, Offered, Up, VERSION, Welcome,
};
use crate::websocket::{Refused, WebSocket};

use super::course::Told;
use super::outbox::Outboxes;
use conversation::{Conversation, Ended};

mod conversation;

/// Where workers come in.
const PATH: &str = "/v1/worker";
/// News that wait to be taken; then nothing more is read.
const NEWS_MAX: usize = 256;
/// Words that wait to be said and concern no attempt.
const ASIDE_MAX: usize = 64;
/// The first wait before connecting again; the next ones double.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
/// The longest.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// After so long with a server the waits begin anew.
const HEALTHY: Duration = Duration::from_secs(120);
/// How long a server may take to shake hands.
const SHAKE_MAX: Duration = Duration::from_secs(15);

/// Who a worker is, and where its server is.
#[derive(Clone)]
pub struct Settings {
    /// Where the server is.
    pub address: Address,
    /// Whom it is believed that it is.
    pub trust: Trust,
    /// Where the key comes from; read again for each connection, so that a new one is found.
    pub key: KeyFrom,
    /// A name of the machine that stays the same.
    pub machine: Label,
    /// A name of this process alone.
    pub process: Text<64>,
    /// What its agents can do.
    pub capabilities: std::collections::BTreeSet<Capability>,
    /// Runs that it may hold at once.
    pub slots: u16,
    /// Accounts that its agents use.
    pub accounts: Vec<Account>,
    /// Its agents, the usual one first.
    pub agents: Vec<Offered>,
    /// The installation that its attempts belong to, if that is known.
    pub deployment: Option<DeploymentId>,
}

/// What comes out of the link.
#[derive(Clone, Debug)]
pub enum News {
    /// The server is there, for the first time or again, and was said hello to then, in milliseconds since
    /// boot. Credits begin at nothing.
    Welcome(Box<Welcome>, u64),
    /// The server says something.
    Said(Down),
    /// The server is not there, and why; the link tries again by itself.
    Cut(String),
}

/// A link to a server. It ends when the last handle is gone.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
    aside: mpsc::Sender<Up>,
    _open: Arc<watch::Sender<()>>,
}

struct Shared {
    outboxes: Mutex<Outboxes>,
    told: Notify,
    /// The installation that the attempts belong to, once it is known.
    deployment: Mutex<Option<DeploymentId>>,
}

impl Link {
    /// Opens the outboxes in this folder and begins to connect.
    pub fn open(
        settings: Settings,
        root: &Path,
        chance: Arc<dyn Chance>,
    ) -> io::Result<(Self, mpsc::Receiver<News>)> {
        let shared = Arc::new(Shared {
            outboxes: Mutex::new(Outboxes::open(root)?),
            told: Notify::new(),
            deployment: Mutex::new(settings.deployment.clone()),
        });
        let (news, inbox) = mpsc::channel(NEWS_MAX);
        let (aside, asides) = mpsc::channel(ASIDE_MAX);
        let (open, closed) = watch::channel(());
        let keeper = Keeper { settings, shared: Arc::clone(&shared), news, chance };
        tokio::spawn(keeper.keep(asides, closed));
        Ok((Self { shared, aside, _open: Arc::new(open) }, inbox))
    }

    /// Tells something of an attempt. It is kept until the server has it; what ends something is on the
    /// disk when this answers with its number. What the disk does not take has none yet.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn tell(&self, frame: impl Into<Up>) -> io::Result<Option<u64>> {
        let seq = self.shared.lock().tell(frame.into())?;
        points::pass(Point::ReportKept);
        self.shared.told.notify_one();
        Ok(seq)
    }

    /// Tries again to keep what the disk did not take; whether that is all of it.
    #[must_use]
    pub fn keep_again(&self) -> bool {
        let mut outboxes = self.shared.lock();
        if !outboxes.is_held_up() {
            return true;
        }
        let all = outboxes.keep_again();
        self.shared.told.notify_one();
        all
    }

    /// What was told of an attempt, by this process or by one before it.
    #[must_use]
    pub fn told(&self, attempt: AttemptId) -> Told {
        self.shared.lock().told(attempt)
    }

    /// There is room for so many more runs. Told anew after each welcome.
    pub fn credit(&self, n: u16) {
        self.say(Credit { n, checks: None, merges: None });
    }

    /// There is room for so many more cars of the train.
    pub fn credit_merges(&self, n: u16) {
        self.say(Credit { n: 0, checks: None, merges: Some(n) });
    }

    /// There is room for so many more submissions to be verified.
    pub fn credit_checks(&self, n: u16) {
        self.say(Credit { n: 0, checks: Some(n), merges: None });
    }

    /// These attempts live. Whether that is on its way: then it is answered, unless the link is cut.
    #[must_use]
    pub fn heartbeat(&self, attempts: Vec<AttemptId>) -> bool {
        self.aside.try_send(Heartbeat { attempts }.into()).is_ok()
    }

    /// What an agent said, for whoever follows it now.
    pub fn overheard(&self, attempt: AttemptId, lines: Vec<LogLine>) {
        self.say(Log { attempt, lines });
    }

    /// The worker goes.
    pub fn bye(&self) {
        self.say(Bye { reason: None });
    }

    /// What is not kept is worth nothing later: without a server it is dropped.
    fn say(&self, frame: impl Into<Up>) {
        drop(self.aside.try_send(frame.into()));
    }

    /// How many frames of an attempt the server has not acknowledged.
    #[must_use]
    pub fn waiting(&self, attempt: AttemptId) -> usize {
        self.shared.lock().waiting(attempt)
    }

    /// Forgets an attempt that is over and settled; false if something of it still waits.
    pub fn forget(&self, attempt: AttemptId) -> io::Result<bool> {
        self.shared.lock().forget(attempt)
    }
}

impl Shared {
    /// Whoever panicked while it held the lock left every outbox whole: each change is one line.
    fn lock(&self) -> MutexGuard<'_, Outboxes> {
        self.outboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the link up.
struct Keeper {
    settings: Settings,
    shared: Arc<Shared>,
    news: mpsc::Sender<News>,
    chance: Arc<dyn Chance>,
}

impl Keeper {
    async fn keep(self, mut asides: mpsc::Receiver<Up>, mut closed: watch::Receiver<()>) {
        let mut tries = 0;
        loop {
            let mut healthy = false;
            let ended = tokio::select! {
                biased;
                _ = closed.changed() => return,
                ended = self.connected(&mut asides, &mut healthy) => ended,
            };
            let why = match ended {
                Ended::Gone(why) => why,
                Ended::Deaf => return,
            };
            tries = if healthy { 1 } else { tries + 1 };
            let pause = pause(tries, self.chance.as_ref());
            tracing::info!(%why, ?pause, "the server is not there");
            tokio::select! {
                biased;
                _ = closed.changed() => return,
                sent = self.news.send(News::Cut(why)) => if sent.is_err() { return },
            }
            tokio::select! {
                biased;
                _ = closed.changed() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// One connection, from the handshake to its end.
    async fn connected(&self, asides: &mut mpsc::Receiver<Up>, healthy: &mut bool) -> Ended {
        let socket = match self.connect().await {
            Ok(socket) => socket,
            Err(why) => return Ended::Gone(why),
        };
        // Nobody hears any more what was said aside before.
        while asides.try_recv().is_ok() {}
        let hello = self.hello();
        let shared = Arc::clone(&self.shared);
        let mut conversation = Conversation::new(socket, shared, self.news.clone());
        let mut well = std::pin::pin!(sleep(HEALTHY));
        let mut speaking = std::pin::pin!(conversation.speak(hello, asides));
        loop {
            tokio::select! {
                ended = &mut speaking => return ended,
                () = &mut well, if !*healthy => *healthy = true,
            }
        }
    }

    async fn connect(&self) -> Result<WebSocket<Box<dyn Wire>>, String> {
        let told = |failure: crate::client::Failure| {
            failure.body["detail"].as_str().unwrap_or("it cannot be reached").to_owned()
        };
        let Settings { address, trust, key, .. } = &self.settings;
        let client = Client {
            address: address.clone(),
            trust: trust.clone(),
            key: key.read().map_err(told)?,
            claim_token: None,
            origin: Origin::Worker,
            chance: Arc::clone(&self.chance),
        };
        let mut headers = HeaderMap::new();
        if let Some(key) = &client.key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
            let mut value = value.map_err(|_| "the key cannot be sent".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let wire = client.dial().await.map_err(told)?;
        let host = address.host();
        let shaking = WebSocket::asking(wire, &host, PATH, headers);
        match timeout(SHAKE_MAX, shaking).await {
            Ok(Ok(socket)) => Ok(socket),
            Ok(Err(Refused::Answered { status, body })) => Err(refusal(status, &body)),
            Ok(Err(Refused::Unreachable(why))) => Err(why),
            Err(_) => Err("it does not shake hands".to_owned()),
        }
    }

    fn hello(&self) -> Hello {
        let Settings { machine, process, capabilities, slots, accounts, agents, .. } =
            self.settings.clone();
        let deployment = self.shared.deployment.lock();
        Hello {
            protocol: VERSION,
            machine,
            process: Some(process),
            version: Text::new("version", env!("CARGO_PKG_VERSION")).expect("a version is a text"),
            deployment: deployment.unwrap_or_else(PoisonError::into_inner).clone(),
            capabilities: Some(capabilities),
            slots,
            accounts: Some(accounts),
            agents: Some(agents),
            attempts: Some(self.shared.lock().alive()),
        }
    }
}

/// What a server said that did not let us in.
fn refusal(status: u16, body: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    match problem["detail"].as_str() {
        Some(detail) => detail.to_owned(),
        None => format!("it answers with status {status}"),
    }
}

/// How long to wait before the next try: twice as long each time, a fifth more or less, so that a fleet
/// does not come back at once.
fn pause(tries: u32, chance: &dyn Chance) -> Duration {
    let plain =
        AGAIN_FIRST.saturating_mul(1 << tries.clamp(1, 16).saturating_sub(1)).min(AGAIN_MAX);
    let mut byte = [0];
    chance.fill(&mut byte);
    plain * (204 + u32::from(byte[0]) * 2 / 5) / 255
}

#[cfg(test)]
mod tests;
