//! Holders of runs as small state machines: diligent, forgetful, hung, late.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use baton::engine::{Claimed, Target, Tokens, Wish};
use baton::tokens::{Pass, Token};
use baton_domain::command::{Agent, Command, FailedItem, Note, Report, Supervisor, Verdict};
use baton_domain::contract::{Artifact, Submission};
use baton_domain::deadline::Sight as Seen;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::limits::LEASE_MIN;
use baton_domain::pool::Pool;
use baton_domain::run::{Death, Held, Mark, Mode, Phase, Purpose, Why};
use baton_domain::task::{Flow, Priority};
use baton_domain::time::{Millis, Timestamp};
use baton_store::{Actor, Error, Kind};

use crate::sightings::Sight;
use crate::vocabulary::{actor, digest, gpu, name, one_of, receipts, tenant, text};
use crate::world::World;

type Claiming = Pin<Box<dyn Future<Output = Result<Claimed, Error>>>>;

/// Old proofs that a holder remembers.
const STALE_MAX: usize = 6;

pub struct Holder {
    pub actor: Actor,
    claimant: Claimant,
    wants: &'static [Wants],
    state: State,
    stale: Vec<Hand>,
}

enum State {
    Idle,
    /// It waits for work since then.
    Waiting {
        wish: Wish,
        claiming: Claiming,
        since: Timestamp,
        beside: Option<Timestamp>,
    },
    /// It does not know whether it got something, and asks again.
    Unsure(Wish),
    Holding(Hand),
}

/// An attempt in somebody's hands, as far as that one knows.
#[derive(Clone)]
struct Hand {
    task: TaskId,
    attempt: u32,
    agent: Pass,
    supervisor: Pass,
    flow: Arc<Flow>,
    /// Its agent shows no life any more, but its supervisor does.
    hung: bool,
}

impl Hand {
    /// The attempt as it was when last heard of.
    fn held(&self) -> Option<&Held> {
        let held = self.flow.run.as_ref()?.held()?;
        (held.attempt == self.attempt).then_some(held)
    }
}

impl Holder {
    /// A whole crew: solo and watched agents, one with a rare gift, a verifier, a person.
    pub fn crew() -> Vec<Self> {
        let ready: &[Wants] = &[Wants::Ready];
        let either: &[Wants] = &[Wants::Ready, Wants::ReadyOrBlocked];
        let checks: &[Wants] = &[Wants::Submitted, Wants::Probe, Wants::Submitted, Wants::Ready];
        let helps: &[Wants] = &[Wants::Blocked, Wants::ReadyOrBlocked];
        vec![
            Self::new("solo-a", Kind::Agent, Mode::Solo, ready),
            Self::new("solo-b", Kind::Agent, Mode::Solo, either),
            Self::new("worker-a", Kind::Worker, Mode::Supervised, ready),
            Self::new("worker-b", Kind::Worker, Mode::Supervised, either),
            Self::new("checker", Kind::Worker, Mode::Supervised, checks),
            Self::new("pat", Kind::Person, Mode::Solo, helps),
        ]
    }

    fn new(word: &str, kind: Kind, mode: Mode, wants: &'static [Wants]) -> Self {
        let gifted = word.ends_with('b');
        let claimant = Claimant {
            principal: name(word),
            person: kind == Kind::Person,
            mode,
            capabilities: gifted.then(gpu).into_iter().collect(),
            account: None,
            agents: vec![],
            project: None,
            stage: None,
            priority_min: Priority::Low,
            wants: Wants::Ready,
        };
        Self { actor: actor(word, kind), claimant, wants, state: State::Idle, stale: vec![] }
    }

    fn word(&self) -> &str {
        self.actor.principal.as_str()
    }

    /// Takes one step. Whoever is diligent only does what brings work to its end.
    pub async fn step(&mut self, world: &mut World<'_>, diligent: bool) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {
                if !diligent && !self.stale.is_empty() && world.chance.chance(0.25) {
                    self.come_back_late(world).await;
                } else {
                    self.claim(world, diligent).await;
                }
            }
            State::Waiting { .. } if !diligent && world.chance.chance(0.1) => {
                world.say(format!("{} waits no longer", self.word()));
                world.laws.saw(Sight::WaiterGaveUp);
            }
            waiting @ State::Waiting { .. } => self.state = waiting,
            State::Unsure(wish) => self.ask(world, wish).await,
            State::Holding(hand) => self.hold(world, hand, diligent).await,
        }
    }

    /// The process that it waited in is gone.
    pub fn crashed(&mut self) {
        if let State::Waiting { .. } = self.state {
            self.state = State::Idle;
        }
    }

    /// Looks whether what it waits for has come; tells whether it has.
    pub fn poll(&mut self, world: &mut World<'_>) -> bool {
        let State::Waiting { wish, claiming, .. } = &mut self.state else { return false };
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = claiming.as_mut().poll(&mut context) else { return false };
        let wish = wish.clone();
        if answer.is_ok() {
            world.laws.saw(Sight::WaiterServed);
        }
        self.answered(world, wish, answer);
        true
    }

    /// Nobody waits beside work that it could have: the bell tells at once, the poll soon.
    pub fn check(&mut self, world: &World<'_>) {
        let State::Waiting { wish, since, beside, .. } = &mut self.state else { return };
        let now = world.now();
        let Some(task) = world.laws.could_have(&wish.claimant, now) else {
            return *beside = None;
        };
        // What opens by itself is noticed by the next sweep, or by the poll.
        let opened = |pool: &Pool| {
            let until = pool.shut.as_ref().and_then(|shut| shut.until);
            until.is_some_and(|until| *since < until && until <= now)
        };
        let told = world.bell_sure_since < *since && !world.laws.pools.values().any(opened);
        let began = *beside.get_or_insert(now);
        let late = now.since(began) > Millis(2_000);
        assert!(!late && !told, "{} sleeps beside {task}", wish.claimant.principal);
    }

    async fn claim(&mut self, world: &mut World<'_>, diligent: bool) {
        let wait = world.chance.chance(0.6).then(|| Millis(500 + world.chance.below(30_000)));
        let lease = world.chance.chance(0.3).then(|| Millis(1_000 + world.chance.below(9_000)));
        let mut claimant = self.claimant.clone();
        claimant.wants = *world.chance.pick(self.wants);
        let known: Vec<TaskId> = world.laws.rows.keys().copied().collect();
        let target = match one_of(&mut world.chance, &known) {
            Some(task) if !diligent && world.chance.chance(0.1) => Target::Task(task),
            Some(_) | None => Target::Next { wait: wait.filter(|_| !diligent) },
        };
        let request = Some(world.request());
        let actor = self.actor.clone();
        let wish = Wish { tenant: tenant(), actor, claimant, target, lease, request };
        self.ask(world, wish).await;
    }

    async fn ask(&mut self, world: &mut World<'_>, wish: Wish) {
        let (engine, wished) = (Arc::clone(&world.engine), wish.clone());
        let claiming: Claiming = Box::pin(async move { engine.claim(wished).await });
        let since = world.now();
        self.state = State::Waiting { wish, claiming, since, beside: None };
        self.poll(world);
        world.laws.check(&world.engine).await;
    }

    fn answered(&mut self, world: &mut World<'_>, wish: Wish, answer: Result<Claimed, Error>) {
        let said = match &answer {
            Ok(claimed) => format!("{}", claimed.attempt),
            Err(error) => format!("{error}"),
        };
        world.say(format!("{} claims {:?}: {said}", self.word(), wish.claimant.wants));
        self.state = match answer {
            Ok(claimed) => {
                if claimed.replayed {
                    world.laws.saw(Sight::Replay);
                } else {
                    world.laws.acknowledge(claimed.position, Some(&claimed.flow));
                    let fence = claimed.expires_at - Millis(claimed.lease.0 / 3);
                    world.laws.fenced((claimed.attempt.task, claimed.attempt.number), fence);
                }
                let hand = hand(world, &claimed);
                world.laws.note(&format!("{:?}", hand.agent.proof()));
                State::Holding(hand)
            }
            Err(Error::Unknown(_) | Error::Overloaded) => State::Unsure(wish),
            Err(Error::Refused(refusal)) => {
                world.look_at(&refusal);
                State::Idle
            }
            Err(error) => panic!("the store {error}"),
        };
    }

    /// A hand that was given up tries whether it still counts.
    async fn come_back_late(&mut self, world: &mut World<'_>) {
        let hand = world.chance.pick(&self.stale).clone();
        let says = match world.chance.below(5) {
            0 => hand.agent.agent(Agent::Complete { summary: None, submission: submission(true) }),
            1 => hand.agent.agent(Agent::Progress(report())),
            2 => hand.supervisor.supervisor(Supervisor::Renew { lease: None }),
            3 => hand
                .supervisor
                .supervisor(Supervisor::Stopped { death: Death::SubreaperEchild, survivor: false }),
            _ => {
                let total_micros = 1 + world.chance.below(6);
                hand.supervisor.supervisor(Supervisor::Spend { total_micros })
            }
        };
        let command = says.expect("each has its own words");
        if self.speak(world, hand, command, "late").await {
            self.stale.retain(|hand| match &self.state {
                State::Holding(own) => (own.task, own.attempt) != (hand.task, hand.attempt),
                State::Idle | State::Waiting { .. } | State::Unsure(_) => true,
            });
        }
    }

    async fn hold(&mut self, world: &mut World<'_>, hand: Hand, diligent: bool) {
        let Some(held) = hand.held().cloned() else { return self.give_up(hand) };
        if !diligent && world.chance.chance(0.1) {
            world.say(format!("{} goes silent on {}", self.word(), hand.task));
            return self.give_up(hand);
        }
        let mut hand = hand;
        hand.hung |= !diligent && held.mode == Mode::Supervised && world.chance.chance(0.08);
        let command = if hand.hung || world.chance.chance(0.2) {
            hand.hung &= !world.chance.chance(0.02);
            hand.supervisor.supervisor(Supervisor::Renew { lease: None })
        } else {
            match (held.purpose, &held.phase) {
                (Purpose::Probe, _) => {
                    let met = diligent || world.chance.chance(0.5);
                    hand.supervisor.supervisor(Supervisor::Probed { met })
                }
                (_, Phase::Verifying { .. }) => self.verify(world, &hand, diligent),
                (_, Phase::Stopping { .. }) => self.bury(world, &hand, diligent),
                (_, Phase::WaitingInput(_)) if world.chance.chance(0.9) => {
                    hand.supervisor.supervisor(Supervisor::Renew { lease: None })
                }
                (_, Phase::Leased | Phase::Working | Phase::WaitingInput(_)) => {
                    work(world, &hand, &held, diligent)
                }
            }
        };
        self.speak(world, hand, command.expect("each has its own words"), "").await;
    }

    fn verify(
        &self,
        world: &mut World<'_>,
        hand: &Hand,
        diligent: bool,
    ) -> Result<Command, baton_domain::Refusal> {
        if !diligent && world.chance.chance(0.1) {
            return hand.supervisor.supervisor(Supervisor::Exited);
        }
        let passes = diligent || world.chance.chance(0.4);
        hand.supervisor
            .verdict(Verdict { receipts: receipts(passes, world.now()), ..Verdict::default() })
    }

    fn bury(
        &self,
        world: &mut World<'_>,
        hand: &Hand,
        diligent: bool,
    ) -> Result<Command, baton_domain::Refusal> {
        let survivor = !diligent && world.chance.chance(0.2);
        let proved = diligent || world.chance.chance(0.7);
        let death = if proved && !survivor { Death::Cgroup } else { Death::None };
        hand.supervisor.supervisor(Supervisor::Stopped { death, survivor })
    }

    /// Says something as an attempt; tells whether it holds the run now.
    async fn speak(
        &mut self,
        world: &mut World<'_>,
        mut hand: Hand,
        command: Command,
        how: &str,
    ) -> bool {
        let (said, at) = (short(&command), (hand.task, hand.attempt));
        let renews = matches!(command, Command::Supervisor(_, Supervisor::Renew { .. }));
        let answer = world.speak(&self.actor, at, command).await;
        if let (true, Ok(committed)) = (renews, &answer) {
            let lease = committed.lease.as_ref().expect("what was renewed is there");
            let stops =
                hand.held().is_some_and(|held| matches!(held.phase, Phase::Stopping { .. }));
            let lasts = lease.expires_at >= world.now() + LEASE_MIN;
            assert!(lasts || stops, "a renewed lease lasts, unless its end was awaited for long");
            world.laws.fenced(at, lease.fenced_at());
        }
        let outcome = match &answer {
            Ok(committed) if committed.replayed => "replayed".into(),
            Ok(_) => "done".into(),
            Err(error) => format!("{error}"),
        };
        let (task, attempt) = at;
        world.say(format!("{} {how} {said} as {task}/{attempt}: {outcome}", self.word()));
        let flow = world.laws.rows.get(&task).map(|row| Arc::clone(&row.flow));
        hand.flow = flow.expect("tasks are never forgotten");
        let lost = matches!(answer, Err(Error::Refused(baton_domain::Refusal::LeaseLost)));
        let holds = hand.held().is_some() && !lost;
        if holds {
            self.state = State::Holding(hand);
        } else {
            self.give_up(hand);
        }
        holds
    }

    fn give_up(&mut self, hand: Hand) {
        if self.stale.len() == STALE_MAX {
            self.stale.remove(0);
        }
        self.stale.push(hand);
    }
}

/// What an agent at work says.
fn work(
    world: &mut World<'_>,
    hand: &Hand,
    held: &Held,
    diligent: bool,
) -> Result<Command, baton_domain::Refusal> {
    let (agent, supervisor) = (&hand.agent, &hand.supervisor);
    let whole = diligent || world.chance.chance(0.8);
    let complete = || Agent::Complete { summary: None, submission: submission(whole) };
    if diligent {
        return agent.agent(complete());
    }
    // Some tasks are unclear to everybody, again and again.
    if hand.task.0.is_multiple_of(4) && world.chance.chance(0.5) {
        let (why, reason) = (Why::NeedsInput, text("it is unclear"));
        return agent.agent(Agent::Block { why, reason, condition: None });
    }
    match world.chance.below(23) {
        0 | 1 => agent.agent(Agent::Begin),
        2 | 3 => agent.agent(Agent::Progress(report())),
        4 | 5 => {
            let summary = text("half done");
            let note = Note { summary, cursor: None, evidence: vec![], git: [].into() };
            agent.agent(Agent::Checkpoint(Box::new(note)))
        }
        6 | 7 => agent.agent(Agent::Ask(text("which one?"))),
        8 if world.chance.chance(0.3) => agent.agent(Agent::Withdraw),
        8 => agent.agent(Agent::Receive(Mark::Applied)),
        9..=12 => agent.agent(block(world)),
        13 => agent.agent(Agent::Fail { code: text("gave_up"), reason: text("it is too hard") }),
        14..=17 => agent.agent(complete()),
        18 => {
            let total_micros = 1 + world.chance.below(4);
            supervisor.supervisor(Supervisor::Spend { total_micros })
        }
        19 => {
            let until = world.chance.chance(0.5).then(|| world.now() + Millis::seconds(5));
            supervisor.supervisor(Supervisor::Release { reason: text("not now"), until })
        }
        20 if held.mode == Mode::Supervised => supervisor.supervisor(Supervisor::Exited),
        _ if held.mode == Mode::Supervised => {
            let seen = [Seen::ProcessStarted, Seen::PromptWritten, Seen::FirstVisibleEvent];
            supervisor.supervisor(Supervisor::Report(*world.chance.pick(&seen)))
        }
        _ => supervisor.supervisor(Supervisor::Renew { lease: None }),
    }
}

fn block(world: &mut World<'_>) -> Agent {
    let known: Vec<TaskId> = world.laws.rows.keys().copied().collect();
    let why = match world.chance.below(5) {
        0 => Why::Capability { needs: gpu() },
        1 => Why::Transient { until: world.now() + Millis(1 + world.chance.below(20_000)) },
        2 => match one_of(&mut world.chance, &known) {
            Some(on) => Why::Dependency { on },
            None => Why::NeedsInput,
        },
        _ => Why::NeedsInput,
    };
    let condition = world.chance.chance(0.4).then(|| text("test -e ready"));
    Agent::Block { why, reason: text("it cannot go on"), condition }
}

/// What is handed in; a half one leaves a line of the contract open.
fn submission(whole: bool) -> Submission {
    let artifact = Artifact { path: text("out.txt"), digest: digest(), bytes: 12 };
    Submission {
        tree: Some(text("4b825dc6")),
        artifacts: whole.then_some(artifact).into_iter().collect(),
        contract: None,
    }
}

fn report() -> Report {
    let failed = FailedItem { item: text("two"), reason: text("it is missing") };
    Report { done: vec![text("one")], failed: vec![failed], ..Report::default() }
}

/// What a claimer has in hand. Its tokens mean nothing to anybody else.
fn hand(world: &World<'_>, claimed: &Claimed) -> Hand {
    let keyring = world.engine.keyring();
    let pass = |token: &Token| {
        let foreign = TenantId::new("elsewhere").expect("a plain word is a name");
        assert!(keyring.verify(token.reveal(), &foreign).is_err(), "tokens are for one tenant");
        keyring.verify(token.reveal(), &tenant()).expect("our own token is valid")
    };
    let (supervisor, agent) = match &claimed.tokens {
        Tokens::Solo(token) => (pass(token), pass(token)),
        Tokens::Supervised { supervisor, agent } => (pass(supervisor), pass(agent)),
    };
    let (task, attempt) = (claimed.attempt.task, claimed.attempt.number);
    Hand { task, attempt, agent, supervisor, flow: Arc::clone(&claimed.flow), hung: false }
}

/// What a command says, for the trace.
fn short(command: &Command) -> String {
    let told = match command {
        Command::Agent(_, says) => format!("{says:?}"),
        Command::Supervisor(_, says) => format!("{says:?}"),
        Command::Verifier(_, verdict) => format!("{verdict:?}"),
        Command::Create(_)
        | Command::Claim(_)
        | Command::Expect(_)
        | Command::Person(_)
        | Command::Time(_) => "says nothing of its own".into(),
    };
    told.chars().take(60).collect()
}
