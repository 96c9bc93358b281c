//! The worker's side: what runs agents on this machine and tells a server what becomes of them.
//!
//! One loop hears the server, gives it room, and hands what it says to the drivers, one per attempt. It
//! may be killed at any moment: agents live on under their shims, and the next worker takes them over
//! before it says hello.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::{AttemptId, TenantId};
use baton_domain::project::WorkedBy;
use baton_domain::run::{Death, Purpose};
use baton_domain::time::Millis;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::clock::boot_ms;
use crate::gates;
use crate::points::{self, Point};
use crate::protocol::{Dispatch, Down, Released, Stopped, Up, Welcome};
use crate::shape::When;
use crate::shim::{Found, Status};

use adopt::{Left, Lock};
use attempt::{Driver, Start, WORDS_MAX, Word};
use card::Card;
use checks::Checks;
use courier::Courier;
use course::Told;
use link::{Link, News};
use prepare::{Premises, Whose};
use stock::Stock;
use yard::Yard;

pub use stock::Short;
pub use wish::{Error, Order, Sign, Wish};

pub mod adopt;
mod attempt;
mod bind;
mod card;
mod check;
mod checks;
mod courier;
pub mod course;
pub mod errand;
mod ground;
mod lift;
pub mod link;
mod log;
pub mod outbox;
mod parcel;
pub mod prepare;
mod room;
pub mod settings;
mod stock;
mod wish;
mod yard;

/// How often it is looked whether there is room, and whether the server has all reports.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Signs of life that may wait for their answers; a server that leaves more is not there.
const ASKED_MAX: usize = 64;
/// A shorter time between two signs of life helps nobody.
const HEARTBEAT_MIN: Duration = Duration::from_millis(250);
/// The time between two signs of life until a server says otherwise.
const HEARTBEAT_USUAL: Duration = Duration::from_secs(20);
/// How often it is looked whether the server has all reports before a worker goes that was told to: for half
/// a minute. What is left then, the next worker reports.
const REPORTING_LOOKS_MAX: u32 = 60;
/// How long a good-bye may take.
const BYE_MAX: Duration = Duration::from_secs(2);
/// How long a run rests that came when there was no room for its agent any more.
const NO_ROOM_REST: Millis = Millis(10_000);
/// Tenants of servers that do not say whose worker it is.
const TENANT_USUAL: &str = "local";

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
    lift::lift(&wish.premises, &left).await;
    gates::sweep(&folder.join("rooms")).await;
    let slots = if wish.once { 1 } else { wish.premises.settings.slots };
    let link = link::Settings {
        address: wish.premises.address.clone(),
        trust: wish.premises.trust.clone(),
        key: wish.premises.key.clone(),
        machine: adopt::machine(&folder, wish.premises.chance.as_ref())?,
        process: adopt::process(wish.premises.chance.as_ref()),
        capabilities: wish.premises.settings.capabilities(),
        agents: wish.premises.settings.offered(),
        slots,
        accounts: wish.premises.settings.accounts(),
        deployment: adopt::deployment(&folder)?,
    };
    let chance = Arc::clone(&wish.premises.chance);
    let (link, news) = Link::open(link, &wish.premises.attempts(), chance)?;
    let premises = Arc::new(wish.premises);
    let mut worker = Worker {
        courier: Courier::new(Arc::clone(&premises), link.clone()),
        premises,
        link,
        stock: Stock::new(slots),
        yard: Yard::new(wish.once),
        checks: Checks::new(wish.once),
        drivers: JoinSet::new(),
        driven: HashMap::new(),
        live: BTreeMap::new(),
        behind: vec![],
        settling: BTreeSet::new(),
        whose: None,
        linked: false,
        heartbeat: HEARTBEAT_USUAL,
        asked: VecDeque::new(),
        draining: false,
        full: false,
        is_short: false,
        once: wish.once,
        tell,
    };
    for left in left {
        worker.courier.sweep(left.attempt);
        worker.courier.go_on(left.attempt);
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
    courier: Courier,
    stock: Stock,
    /// Cars of the train, of projects whose home this is.
    yard: Yard,
    checks: Checks,
    drivers: JoinSet<Card>,
    /// Whom each of them drives.
    driven: HashMap<Id, AttemptId>,
    live: BTreeMap<AttemptId, Live>,
    /// Runs of tasks that somebody here still works on; each has its place.
    behind: Vec<(Dispatch, u16)>,
    /// Attempts that are over, of which the server does not have everything.
    settling: BTreeSet<AttemptId>,
    whose: Option<Whose>,
    /// Whether the server is there.
    linked: bool,
    heartbeat: Duration,
    /// When the heartbeats were sent that were not answered, since boot: each gets one answer, in order.
    asked: VecDeque<u64>,
    draining: bool,
    /// Whether the disk took no reports when it was last looked.
    full: bool,
    /// Whether it takes nothing more because there is no room for one more agent.
    is_short: bool,
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
        while !(self.draining && self.drivers.is_empty() && self.is_still())
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
                Some(over) = self.yard.arrived() => self.arrived(over).await,
                Some((attempt, found)) = self.checks.done() => self.looked_into(attempt, found).await,
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
            News::Welcome(welcome, asked) => self.welcomed(&welcome, asked),
            News::Cut(why) => {
                self.linked = false;
                self.asked.clear();
                self.each(|_| vec![Word::Cut]);
                (self.tell)(Sign::Away(why));
            }
            News::Said(Down::Dispatch(dispatch)) => self.dispatched(*dispatch),
            News::Said(Down::Renewed(renewed)) => {
                // A lease counts from when it was asked for: the answer may have lain here for long. One
                // that nobody asked for on this connection is not counted on.
                let Some(asked) = self.asked.pop_front() else { return };
                for lease in renewed.leases {
                    if let Some(live) = self.live.get_mut(&lease.attempt) {
                        live.lease_ms = lease.lease_ms;
                        live.say(lease.attempt, attempt::renewed(asked, lease.lease_ms));
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
    fn welcomed(&mut self, welcome: &Welcome, asked: u64) {
        self.linked = true;
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
                for word in attempt::words_of(resume, asked) {
                    live.say(resume.attempt, word);
                }
            }
        }
        points::pass(Point::Welcomed);
        (self.tell)(Sign::Ready { agents: self.live.len() });
        self.stock.forget_promises();
        self.yard.forget_promises();
        self.checks.forget_promises();
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
        match dispatch.purpose {
            Purpose::Merge => return self.couple(dispatch),
            Purpose::Verify => return self.look_into(dispatch),
            Purpose::Work | Purpose::Probe => {}
        }
        let place = self.stock.take(attempt);
        if self.whose.is_none() || self.draining {
            return self.give_back(attempt, "the worker is about to end", None);
        }
        if dispatch.purpose != Purpose::Work || dispatch.worked_by != WorkedBy::Agent {
            return self.give_back(attempt, "this worker runs agents, and nothing else", None);
        }
        // Room was promised before those came who use it now.
        if !self.has_room() {
            let until = Some(When(attempt::wall() + NO_ROOM_REST));
            return self.give_back(attempt, "its worker has no room for one more agent", until);
        }
        self.draining |= self.once;
        self.begin(dispatch, place);
    }

    /// Begins with a run, once nobody here works on its task any more: what the attempt before did is kept first.
    fn begin(&mut self, dispatch: Dispatch, place: u16) {
        let attempt = dispatch.attempt;
        if self.live.keys().any(|one| one.task == attempt.task) {
            return self.behind.push((dispatch, place));
        }
        let Some(whose) = self.whose.clone() else { return };
        let lease_ms = dispatch.lease_ms;
        match self.premises.card(&whose, dispatch, place) {
            Ok(card) => {
                self.drive(card, lease_ms, None, Start::Fresh);
                // Nothing is started on a lease that may have run out on its way here.
                self.beat();
            }
            Err(error) => self.give_back(attempt, &error.to_string(), None),
        }
    }

    /// Goes on with an attempt that a worker before this one had.
    fn take_over(&mut self, left: Left) {
        let Left { attempt, card, found } = left;
        let told = self.link.told(attempt);
        let card = match (card, &found) {
            (Ok(Some(card)), _) => card,
            (Ok(None), Ok(Found::Over(Status::NotStarted { .. }))) => {
                return self.give_back(attempt, "its worker ended before its agent began", None);
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
        let driver = Driver::new(premises, (link, self.courier.clone()), card, heard, told);
        let driver = self.drivers.spawn(driver.drive(start)).id();
        self.driven.insert(driver, attempt);
    }

    /// Gives a run back of which nothing was started.
    fn give_back(&mut self, attempt: AttemptId, why: &str, until: Option<When>) {
        let (death, survivor) = (Death::NotStarted, false);
        let frames: [Up; 2] = [
            Released { attempt, seq: 0, reason: attempt::reason(why), until }.into(),
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
        for (dispatch, place) in std::mem::take(&mut self.behind) {
            self.begin(dispatch, place);
        }
    }

    fn beat(&mut self) {
        let live = self.live.iter().filter(|(_, live)| !live.fenced);
        let attempts: Vec<_> = live.map(|(attempt, _)| *attempt).collect();
        let at = boot_ms();
        let may = self.linked && !attempts.is_empty() && self.asked.len() < ASKED_MAX;
        if may && self.link.heartbeat(attempts) {
            self.asked.push_back(at);
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
        // Nothing begins any more once somebody here ends.
        for (dispatch, _) in std::mem::take(&mut self.behind) {
            self.give_back(dispatch.attempt, "the worker is about to end", None);
        }
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
