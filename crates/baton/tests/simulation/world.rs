//! The engine under test, and everything around it that a run of the simulation shares.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::chance::SeededChance;
use baton::clock::StoppedWatch;
use baton::clockwork;
use baton::engine::{Engine, Parts};
use baton::metrics::Wake;
use baton::tokens::Secrets;
use baton::waiters::Waiters;
use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::ids::TaskId;
use baton_domain::time::{Millis, Timestamp};
use baton_store::clock::ManualClock;
use baton_store::order::Swept;
use baton_store::{Actor, Aim, Bell, Clock, Committed, Error, Freed, Order, Request, Store};
use baton_testkit::chance::Chance;

use crate::laws::Laws;
use crate::lockstep::{Faults, Lockstep, Watch};
use crate::sightings::{Sight, Sightings};
use crate::vocabulary::{tenant, text};

/// When every run begins: later than any machine's clock, because a store on disk never goes back
/// behind the time of its files.
const START: Timestamp = Timestamp(4_000_000_000_000);

/// How often a caller asks again when it gets no good answer.
const TRIES_MAX: usize = 32;

/// What the simulation stands on: a store that can be opened, and opened again after a crash.
pub trait Ground {
    fn open(&self, clock: Arc<ManualClock>, bell: Bell) -> Arc<dyn Store>;

    /// Opens it again after a crash; a store that cannot do that goes on as it is.
    fn reopen(&self, store: Arc<dyn Store>, clock: Arc<ManualClock>, bell: Bell) -> Arc<dyn Store>;
}

/// The steps of a run, for whoever has to find out what went wrong.
#[derive(Default)]
pub struct Trace {
    /// What happened, and the hash of everything up to there.
    steps: Vec<(String, u64)>,
}

/// Steps that are shown of a run that failed.
const STEPS_SHOWN: usize = 30;

impl Trace {
    pub fn add(&mut self, step: String, hash: u64) {
        self.steps.push((step, hash));
    }

    /// The last steps.
    pub fn told(&self) -> String {
        self.told_up_to(self.steps.len())
    }

    /// The steps up to where the other run went another way, and what that one did then.
    pub fn told_against(&self, other: &Self) -> String {
        let same = self.steps.iter().zip(&other.steps).take_while(|(own, its)| own == its).count();
        let its = other.steps.get(same).map_or("ends", |(step, _)| step);
        format!("{}and the other: {its}\n", self.told_up_to(same + 1))
    }

    fn told_up_to(&self, end: usize) -> String {
        let end = end.min(self.steps.len());
        let first = end.saturating_sub(STEPS_SHOWN);
        (first..end).fold(String::new(), |mut told, number| {
            let (step, _) = &self.steps[number];
            writeln!(told, "{number:5} {step}").expect("a string takes what is written to it");
            told
        })
    }
}

/// The bell of the store rings for whichever waiters there are now.
#[derive(Clone)]
struct Exchange {
    waiters: Arc<Mutex<Arc<Waiters>>>,
    faults: Arc<Mutex<Faults>>,
}

impl Exchange {
    fn bell(&self) -> Bell {
        let exchange = self.clone();
        Arc::new(move |freed: &[Freed]| {
            if !exchange.faults.lock().expect("one thread").mute {
                let waiters = Arc::clone(&exchange.waiters.lock().expect("one thread"));
                waiters.bell()(freed);
            }
        })
    }
}

pub struct World<'a> {
    ground: &'a dyn Ground,
    wire: Arc<Lockstep>,
    exchange: Exchange,
    nonces: Arc<SeededChance>,
    requests: u64,
    pub clock: Arc<ManualClock>,
    pub engine: Arc<Engine>,
    pub faults: Arc<Mutex<Faults>>,
    pub laws: Laws,
    pub chance: Chance,
    pub trace: Arc<Mutex<Trace>>,
    /// Whether time is turned into orders just now.
    pub clockwork: bool,
    /// Since when the bell has surely rung for everything.
    pub bell_sure_since: Timestamp,
}

impl<'a> World<'a> {
    pub fn new(ground: &'a dyn Ground, seed: u64, trace: Arc<Mutex<Trace>>) -> Self {
        let mut chance = Chance::new(seed);
        let start = START;
        let clock = Arc::new(ManualClock::at(start));
        let faults = Arc::new(Mutex::new(Faults::new(chance.fork())));
        let waiters = Waiters::new();
        let exchange = Exchange {
            waiters: Arc::new(Mutex::new(Arc::clone(&waiters))),
            faults: Arc::clone(&faults),
        };
        let sightings = Arc::new(Mutex::new(Sightings::default()));
        let store = ground.open(Arc::clone(&clock), exchange.bell());
        let nonces = Arc::new(SeededChance::new(chance.next_u64()));
        let watch = Arc::new(Mutex::new(Watch::starting_at(start)));
        let heard = (Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&watch));
        let wire = Lockstep::new(store, heard, Arc::clone(&faults), Arc::clone(&sightings));
        let wire = Arc::new(wire);
        Self {
            ground,
            exchange,
            requests: 0,
            engine: engine(&wire, waiters, &clock, &nonces),
            wire,
            nonces,
            clock,
            faults,
            laws: Laws::new(watch, sightings),
            chance,
            trace,
            clockwork: true,
            bell_sure_since: start,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    pub fn say(&mut self, step: String) {
        self.laws.note(&step);
        let step = format!("{:>8} ms  {step}", self.now().0 - START.0);
        self.trace.lock().expect("one thread").add(step, self.laws.hash());
    }

    /// The process dies and comes back: whoever waited is gone, what was kept is there.
    pub async fn crash(&mut self) {
        self.say("crash".into());
        self.laws.saw(Sight::Crash);
        self.count_wakes();
        let waiters = Waiters::new();
        *self.exchange.waiters.lock().expect("one thread") = Arc::clone(&waiters);
        let (clock, bell) = (Arc::clone(&self.clock), self.exchange.bell());
        self.wire.exchange(|store| self.ground.reopen(store, clock, bell));
        self.engine = engine(&self.wire, waiters, &self.clock, &self.nonces);
        self.laws.check(&self.engine).await;
    }

    /// Adds what only the waiters know to what was seen.
    pub fn count_wakes(&self) {
        let wakes = self.engine.waiters().wakes();
        for (wake, sight) in [(Wake::HandedOn, Sight::HandedOn), (Wake::Poll, Sight::LostBell)] {
            if wakes.count(wake) > 0 {
                self.laws.saw(sight);
            }
        }
    }

    /// Loses the bell, or finds it again.
    pub fn mute(&self, on: bool) {
        self.faults.lock().expect("one thread").mute = on;
    }

    pub fn request(&mut self) -> Request {
        self.requests += 1;
        let mut fingerprint = [0; 32];
        fingerprint[..8].copy_from_slice(&self.requests.to_be_bytes());
        Request { key: text(&format!("request-{}", self.requests)), fingerprint, asked_in: None }
    }

    /// Asks for something, and asks again with the same key until there is an answer.
    pub async fn order(&mut self, actor: &Actor, aim: Aim) -> Result<Committed, Error> {
        let request = self.request();
        let order = Order { tenant: tenant(), actor: actor.clone(), aim, request: Some(request) };
        let mut answer = self.engine.submit(order.clone()).await;
        for _ in 0..TRIES_MAX {
            if !matches!(answer, Err(Error::Unknown(_) | Error::Overloaded)) {
                break;
            }
            answer = self.engine.submit(order.clone()).await;
        }
        match &answer {
            Ok(committed) if committed.replayed => self.laws.saw(Sight::Replay),
            Ok(committed) => self.laws.acknowledge(committed.position, committed.task.as_deref()),
            Err(Error::Refused(refusal)) => self.look_at(refusal),
            Err(_) => {}
        }
        self.laws.check(&self.engine).await;
        answer
    }

    pub fn look_at(&self, refusal: &Refusal) {
        if let Refusal::PoolFull { .. } | Refusal::HolderFull { .. } = refusal {
            self.laws.saw(Sight::PoolFull);
        }
        if let Refusal::Paused { .. } = refusal {
            self.laws.saw(Sight::Paused);
        }
        if let Refusal::Incomplete { .. } = refusal {
            self.laws.saw(Sight::Incomplete);
        }
    }

    /// Speaks as an attempt. Nobody else is heard, and nobody in time is fenced off.
    pub async fn speak(
        &mut self,
        actor: &Actor,
        (task, attempt): (TaskId, u32),
        command: Command,
    ) -> Result<Committed, Error> {
        let now = self.now();
        let of_holder = matches!(command, Command::Agent(..) | Command::Verifier(..));
        let expiry = self.laws.expiry_of(task, attempt);
        let answer = self.order(actor, Aim::Task(task, vec![command])).await;
        // The order itself may have ended a silence.
        let held = expiry.is_some_and(|expiry| now < expiry.max(self.laws.amnesty()));
        match &answer {
            Ok(_) if of_holder => assert!(held, "{task}: only the holder is heard"),
            Err(Error::Refused(Refusal::LeaseLost)) => {
                self.laws.saw(Sight::FenceRefusal);
                assert!(!held, "{task}: a holder in time is never fenced off");
            }
            Ok(_) | Err(_) => {}
        }
        answer
    }

    /// Moves both clocks on.
    pub async fn advance(&mut self, length: Millis) {
        self.clock.advance(length);
        tokio::time::advance(Duration::from_millis(length.0)).await;
    }

    /// Lets happen what is due. A second look finds nothing.
    pub async fn tick(&mut self) {
        let now = self.now();
        let ticked = clockwork::tick(&self.engine).await;
        self.laws.check(&self.engine).await;
        let Ok(swept) = ticked else {
            return self.say("the clockwork failed".into());
        };
        if swept != Swept::default() {
            self.say(format!("time brought {} and {}", swept.due, swept.reactions));
        }
        self.laws.check_nothing_is_due(now);
        if let Ok(again) = clockwork::tick(&self.engine).await {
            assert_eq!(again, Swept::default(), "a second tick finds nothing");
        }
        self.laws.check_nothing_is_new(&self.engine).await;
    }
}

fn engine(
    wire: &Arc<Lockstep>,
    waiters: Arc<Waiters>,
    clock: &Arc<ManualClock>,
    nonces: &Arc<SeededChance>,
) -> Arc<Engine> {
    Arc::new(Engine::new(Parts {
        store: wire.clone(),
        waiters,
        clock: clock.clone(),
        stopwatch: Arc::new(StoppedWatch),
        chance: nonces.clone(),
        secrets: Secrets::new([7; 32]),
        incarnation: 1,
    }))
}
