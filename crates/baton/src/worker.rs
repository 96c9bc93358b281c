//! The worker's side: what runs agents on this machine and tells a server what becomes of them.
//!
//! One loop hears the server, gives it room, and hands what it says to the drivers, one per attempt. It
//! may be killed at any moment: agents live on under their shims, and the next worker takes them over
//! before it says hello.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::{AttemptId, TenantId};
use baton_domain::project::WorkedBy;
use baton_domain::run::{Death, Purpose};
use baton_domain::text::{Reason, Text};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::client::{KeyFrom, Trust};
use crate::clock::boot_ms;
use crate::points::{self, Point};
use crate::protocol::{Dispatch, Down, Released, Stopped, Up, Welcome};

use crate::shim::{Found, Status};

use adopt::{Left, Lock};
use attempt::{Driver, Start, WORDS_MAX, Word};
use card::Card;
use course::Told;
use link::{Link, News};
use prepare::{Premises, Whose};
use stock::Stock;

pub mod adopt;
mod attempt;
mod card;
pub mod course;
mod ground;
pub mod link;
pub mod outbox;
pub mod prepare;
pub mod settings;
mod stock;

/// How often it is looked whether there is room, and whether the server has all reports.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A shorter time between two signs of life helps nobody.
const HEARTBEAT_MIN: Duration = Duration::from_millis(250);
/// The time between two signs of life until a server says otherwise.
const HEARTBEAT_USUAL: Duration = Duration::from_secs(20);
/// How often it is looked whether the server has all reports before a worker goes that was told to: for half
/// a minute. What is left then, the next worker reports.
const REPORTING_LOOKS_MAX: u32 = 60;
/// What a reason may say.
const REASON_BYTES_MAX: usize = 1_000;
/// How long a good-bye may take.
const BYE_MAX: Duration = Duration::from_secs(2);
/// Tenants of servers that do not say whose worker it is.
const TENANT_USUAL: &str = "local";

/// What a worker is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To take nothing more, and to end with its last agent.
    Drain,
    /// To stop its agents, prove it, and end.
    Stop,
    /// To end at once. Agents live on until their fences fall, for the next worker to take over.
    Leave,
}

/// What a worker tells whoever started it.
#[derive(Clone, Debug)]
pub enum Sign {
    /// The server is there; so many agents run.
    Ready { agents: usize },
    /// The server is not there, and why.
    Away(String),
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is one.
    #[error("a worker of this data folder runs already")]
    Taken,
    /// Its folder is not to be used.
    #[error("the worker's folder cannot be used: {0}")]
    Folder(#[from] io::Error),
}

/// How a worker is run.
pub struct Wish {
    pub premises: Premises,
    pub trust: Trust,
    pub key: KeyFrom,
    /// Whether to end after one run.
    pub once: bool,
}

/// Runs agents until it is told to end.
///
/// # Errors
/// If it cannot begin.
pub async fn run(
    wish: Wish,
    orders: mpsc::Receiver<Order>,
    tell: impl FnMut(Sign) + Send,
) -> Result<(), Error> {
    let folder = wish.premises.folder();
    let Some(lock) = Lock::take(&folder)? else { return Err(Error::Taken) };
    let left = adopt::survey(&wish.premises.attempts()).await?;
    points::pass(Point::LeftSurveyed);
    let slots = if wish.once { 1 } else { wish.premises.settings.slots };
    let link = link::Settings {
        address: wish.premises.address.clone(),
        trust: wish.trust,
        key: wish.key,
        machine: adopt::machine(&folder, wish.premises.chance.as_ref())?,
        capabilities: wish.premises.settings.capabilities(),
        slots,
        accounts: wish.premises.settings.accounts(),
        deployment: adopt::deployment(&folder)?,
    };
    let chance = Arc::clone(&wish.premises.chance);
    let (link, news) = Link::open(link, &wish.premises.attempts(), chance)?;
    let mut worker = Worker {
        premises: Arc::new(wish.premises),
        link,
        stock: Stock::new(slots),
        drivers: JoinSet::new(),
        driven: HashMap::new(),
        live: BTreeMap::new(),
        settling: BTreeSet::new(),
        whose: None,
        heartbeat: HEARTBEAT_USUAL,
        asked: None,
        draining: false,
        once: wish.once,
        tell,
    };
    for left in left {
        worker.take_over(left);
    }
    worker.tidy().await;
    worker.attend(news, orders).await;
    drop(lock);
    Ok(())
}

struct Worker<T> {
    premises: Arc<Premises>,
    link: Link,
    stock: Stock,
    drivers: JoinSet<Card>,
    /// Whom each of them drives.
    driven: HashMap<Id, AttemptId>,
    live: BTreeMap<AttemptId, Live>,
    /// Attempts that are over, of which the server does not have everything.
    settling: BTreeSet<AttemptId>,
    whose: Option<Whose>,
    heartbeat: Duration,
    /// When the oldest heartbeat was sent that was not answered, since boot.
    asked: Option<u64>,
    draining: bool,
    once: bool,
    tell: T,
}

/// An attempt that is driven.
struct Live {
    words: mpsc::Sender<Word>,
    lease_ms: u64,
    /// Whether it holds its run no longer.
    fenced: bool,
}

impl<T: FnMut(Sign) + Send> Worker<T> {
    /// Hears and does until it is told to end.
    async fn attend(&mut self, mut news: mpsc::Receiver<News>, mut orders: mpsc::Receiver<Order>) {
        let mut pace = self.pace();
        let mut beat = pin!(sleep(pace));
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks_left = REPORTING_LOOKS_MAX;
        while !(self.draining && self.drivers.is_empty())
            || (!self.settling.is_empty() && looks_left > 0)
        {
            // Somebody with a shorter lease has come, or the last one of them has gone.
            if self.pace() != pace {
                pace = self.pace();
                beat.set(sleep(pace));
            }
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Drain) => self.draining = true,
                    Some(Order::Stop) => self.stop_all(),
                    Some(Order::Leave) | None => break,
                },
                heard = news.recv() => match heard {
                    Some(heard) => {
                        self.hear(heard);
                        // A lease that has just come may be a short one.
                        let soon = sleep(self.pace());
                        if soon.deadline() < beat.deadline() {
                            beat.set(soon);
                        }
                    }
                    None => break,
                },
                Some(ended) = self.drivers.join_next_with_id() => self.ended(ended).await,
                () = &mut beat => {
                    self.beat();
                    beat.set(sleep(pace));
                }
                _ = look.tick() => {
                    let idle = self.draining && self.drivers.is_empty();
                    looks_left = if idle { looks_left - 1 } else { REPORTING_LOOKS_MAX };
                    self.settle().await;
                    self.give_room();
                }
            }
        }
        self.link.bye();
        let gone = async { while !matches!(news.recv().await, Some(News::Cut(_)) | None) {} };
        // A server that is not there need not be told.
        drop(timeout(BYE_MAX, gone).await);
    }

    fn hear(&mut self, heard: News) {
        match heard {
            News::Welcome(welcome) => self.welcomed(&welcome),
            News::Cut(why) => {
                self.asked = None;
                self.each(|_| vec![Word::Cut]);
                (self.tell)(Sign::Away(why));
            }
            News::Said(Down::Dispatch(dispatch)) => self.dispatched(*dispatch),
            News::Said(Down::Renewed(renewed)) => {
                // A lease counts from when it was asked for: the answer may have lain here for long.
                let asked = self.asked.take();
                let late = asked.map_or(0, |asked| boot_ms().saturating_sub(asked));
                for lease in renewed.leases {
                    if let Some(live) = self.live.get_mut(&lease.attempt) {
                        live.lease_ms = lease.lease_ms;
                        let lease_ms = lease.lease_ms.saturating_sub(late);
                        live.say(lease.attempt, Word::Renewed { lease_ms });
                    }
                }
            }
            News::Said(Down::Drain(_)) => tracing::info!("the server drains"),
            News::Said(Down::Trouble(trouble)) => {
                let (code, detail) = (trouble.code.as_str(), trouble.detail.as_str());
                tracing::warn!(code, detail, "the server did not carry something out");
            }
            News::Said(down) => self.said(&down),
        }
    }

    /// The server is there, for the first time or again: it is told of everybody, and promised room anew.
    fn welcomed(&mut self, welcome: &Welcome) {
        let usual = || TenantId::new(TENANT_USUAL).expect("a plain word is a name");
        let tenant = welcome.tenant.clone().unwrap_or_else(usual);
        self.whose = Some(Whose { deployment: welcome.deployment.clone(), tenant });
        if let Err(error) = adopt::keep_deployment(&self.premises.folder(), &welcome.deployment) {
            tracing::warn!(%error, "whose attempts these are was not written down");
        }
        self.heartbeat = Duration::from_millis(welcome.heartbeat_ms);
        for resume in &welcome.resume {
            if let Some(live) = self.live.get_mut(&resume.attempt) {
                live.fenced |= resume.fenced.is_some();
                live.lease_ms = resume.lease_ms.unwrap_or(live.lease_ms);
                for word in attempt::words_of(resume) {
                    live.say(resume.attempt, word);
                }
            }
        }
        points::pass(Point::Welcomed);
        (self.tell)(Sign::Ready { agents: self.live.len() });
        self.stock.forget_promises();
        self.give_room();
    }

    fn said(&mut self, down: &Down) {
        let Some((attempt, word)) = attempt::word_of(down) else { return };
        if let Some(live) = self.live.get_mut(&attempt) {
            live.fenced |= matches!(down, Down::Fenced(_));
            live.say(attempt, word);
        }
    }

    /// A run has come.
    fn dispatched(&mut self, dispatch: Dispatch) {
        let attempt = dispatch.attempt;
        if self.live.contains_key(&attempt) {
            return;
        }
        let place = self.stock.take(attempt);
        let Some(whose) = self.whose.clone().filter(|_| !self.draining) else {
            return self.give_back(attempt, "the worker is about to end");
        };
        if dispatch.purpose != Purpose::Work || dispatch.worked_by != WorkedBy::Agent {
            return self.give_back(attempt, "this worker runs agents, and nothing else");
        }
        self.draining |= self.once;
        let lease_ms = dispatch.lease_ms;
        match self.premises.card(&whose, dispatch, place) {
            Ok(card) => self.drive(card, lease_ms, None, Start::Fresh),
            Err(error) => self.give_back(attempt, &error.to_string()),
        }
    }

    /// Goes on with an attempt that a worker before this one had.
    fn take_over(&mut self, left: Left) {
        let Left { attempt, card, found } = left;
        let told = self.link.told(attempt);
        let card = match (card, &found) {
            (Ok(Some(card)), _) => card,
            (Ok(None), Ok(Found::Over(Status::NotStarted { .. }))) => {
                return self.give_back(attempt, "its worker ended before its agent began");
            }
            // Nothing is told of an agent of which nothing is known. Nobody renews its lease, so its shim
            // stops it, and the server counts it as lost.
            (card, _) => {
                let error = card.err();
                tracing::error!(%attempt, ?error, "what it was started with cannot be read");
                return;
            }
        };
        self.stock.keep(attempt, card.place);
        let lease_ms = card.dispatch.lease_ms;
        tracing::info!(%attempt, "an attempt of a worker before this one is taken over");
        self.drive(card, lease_ms, Some(told), Start::Back(Box::new(found)));
    }

    fn drive(&mut self, card: Card, lease_ms: u64, told: Option<Told>, start: Start) {
        let attempt = card.dispatch.attempt;
        let (words, heard) = mpsc::channel(WORDS_MAX);
        self.live.insert(attempt, Live { words, lease_ms, fenced: false });
        let (premises, link) = (Arc::clone(&self.premises), self.link.clone());
        let driver = Driver::new(premises, link, card, heard, told);
        let driver = self.drivers.spawn(driver.drive(start)).id();
        self.driven.insert(driver, attempt);
    }

    /// Gives a run back of which nothing was started.
    fn give_back(&mut self, attempt: AttemptId, why: &str) {
        let until = None;
        let (death, survivor) = (Death::NotStarted, false);
        let frames: [Up; 2] = [
            Released { attempt, seq: 0, reason: reason(why), until }.into(),
            Stopped { attempt, seq: 0, death, survivor }.into(),
        ];
        for frame in frames {
            if let Err(error) = self.link.tell(frame) {
                tracing::error!(%attempt, %error, "a run could not be given back");
            }
        }
        self.stock.free(attempt);
        self.settling.insert(attempt);
    }

    /// A driver has come to its end.
    async fn ended(&mut self, ended: Result<(Id, Card), JoinError>) {
        match ended {
            Ok((driver, card)) => {
                self.driven.remove(&driver);
                points::pass(Point::AttemptOver);
                let attempt = card.dispatch.attempt;
                self.live.remove(&attempt);
                self.stock.free(attempt);
                self.settling.insert(attempt);
                tracing::info!(%attempt, "an attempt is over");
                self.settle().await;
                self.give_room();
            }
            // Whoever is not driven is not kept alive either: its shim stops the agent when its fence falls,
            // and the next worker tells it.
            Err(error) => {
                tracing::error!(%error, "a driver broke: its attempt is left to its fence");
                if let Some(attempt) = self.driven.remove(&error.id()) {
                    self.live.remove(&attempt);
                }
            }
        }
    }

    /// Forgets what the server has all reports of.
    async fn settle(&mut self) {
        let before = self.settling.len();
        let link = self.link.clone();
        self.settling.retain(|attempt| {
            !link.forget(*attempt).unwrap_or_else(|error| {
                tracing::warn!(%attempt, %error, "an attempt cannot be forgotten");
                false
            })
        });
        if self.settling.len() < before {
            points::pass(Point::AttemptForgotten);
            self.tidy().await;
        }
    }

    async fn tidy(&self) {
        let attempts = self.premises.attempts();
        let live: BTreeSet<_> = self.live.keys().copied().collect();
        match spawn_blocking(move || adopt::tidy(&attempts, &live)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "settled attempts cannot be cleared away"),
            Err(error) => tracing::warn!(%error, "settled attempts cannot be cleared away"),
        }
    }

    /// Lets the server send as much as there is room for; nothing while memory is short.
    fn give_room(&mut self) {
        let floor = self.premises.settings.memory_floor;
        let short = stock::memory_left().is_some_and(|left| left < floor);
        if self.whose.is_none() || self.draining || short {
            return;
        }
        let more = self.stock.promise();
        if more > 0 {
            self.link.credit(more);
        }
    }

    fn beat(&mut self) {
        let live = self.live.iter().filter(|(_, live)| !live.fenced);
        let attempts: Vec<_> = live.map(|(attempt, _)| *attempt).collect();
        if !attempts.is_empty() {
            self.asked.get_or_insert(boot_ms());
            self.link.heartbeat(attempts);
        }
    }

    /// How long until the next sign of life: a third of the shortest lease, or what the server asks for.
    fn pace(&self) -> Duration {
        let leases = self.live.values().filter(|live| !live.fenced).map(|live| live.lease_ms / 3);
        let shortest = leases.min().map_or(self.heartbeat, Duration::from_millis);
        shortest.min(self.heartbeat).max(HEARTBEAT_MIN)
    }

    fn stop_all(&mut self) {
        self.draining = true;
        self.each(|_| vec![Word::Drain]);
    }

    fn each(&mut self, words: impl Fn(AttemptId) -> Vec<Word>) {
        for (attempt, live) in &mut self.live {
            for word in words(*attempt) {
                live.say(*attempt, word);
            }
        }
    }
}

impl Live {
    /// A driver that has left so much unheard hangs; whatever matters is said again by the server.
    fn say(&self, attempt: AttemptId, word: Word) {
        if self.words.try_send(word).is_err() {
            tracing::warn!(%attempt, "its driver does not listen");
        }
    }
}

fn reason(why: &str) -> Reason {
    let cut = &why[..why.floor_char_boundary(REASON_BYTES_MAX)];
    let usual = || Text::new("reason", "it cannot be begun").expect("a plain sentence");
    Text::new("reason", cut).unwrap_or_else(|_| usual())
}
