//! A random day: tasks are born, claimed, worked on, blocked, answered, finished and given up by
//! several hands at once. The same seed asks for the same things as long as the answers agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_domain::command::{
    Agent, Claim, Command, Patch, Person, Proof, Report, Supervisor, Verdict,
};
use baton_domain::contract::{Finding, Receipt};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::{Capability, ConcurrencyKey, LineId, Nonce, TaskId, TenantId};
use baton_domain::lane::Wants;
use baton_domain::pool::{PoolName, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::run::{Death, Held, Idle, Mark, Mode, Phase, RunState, Why};
use baton_domain::scene::Lease;
use baton_domain::task::{Ending, Flow, Hold, Priority};
use baton_domain::time::{Millis, Timestamp};
use baton_store::order::{Aim, Committed, Order};
use baton_store::read::Filter;
use baton_store::sqlite::SqliteStore;
use baton_store::{Error, Store};
use baton_testkit::chance::Chance;

use crate::cast::{
    agent, ann, birth, claimant, contract, done, keyed, needs_input, new_task, note, order, person,
    principal, stage, text, web,
};
use crate::site::wait;

/// Live tasks beyond which none are born.
const LIVE_MAX: usize = 16;

/// Who asks for what next.
pub struct Script {
    pub chance: Chance,
    tenants: Vec<TenantId>,
    known: BTreeMap<(usize, TaskId), (Arc<Flow>, Option<Lease>)>,
    asked: u64,
}

/// What kinds of answers came; a day on which nothing happens proves nothing.
#[derive(Debug, Default)]
pub struct Tally {
    pub accepted: BTreeMap<&'static str, u32>,
    pub refused: BTreeMap<&'static str, u32>,
    pub swept: usize,
    pub reactions: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        for (word, times) in &other.accepted {
            *self.accepted.entry(word).or_default() += times;
        }
        for (word, times) in &other.refused {
            *self.refused.entry(word).or_default() += times;
        }
        self.swept += other.swept;
        self.reactions += other.reactions;
    }

    /// Whether everything that a day can hold was in it.
    pub fn is_full_day(&self) -> bool {
        let all = [
            "agent",
            "birth",
            "block",
            "checkpoint",
            "claim",
            "complete",
            "person",
            "record",
            "renew",
            "supervisor",
            "sweep",
        ];
        all.iter().all(|word| self.accepted.contains_key(word))
            && self.refused.contains_key("lease_lost")
            && self.swept > 0
            && self.reactions > 0
    }
}

impl Script {
    pub fn new(seed: u64, tenants: &[TenantId]) -> Self {
        let chance = Chance::new(seed);
        Self { chance, tenants: tenants.to_vec(), known: BTreeMap::new(), asked: 0 }
    }

    /// The next order. Most have a request key, and heartbeats never.
    pub fn next(&mut self, now: Timestamp) -> Order {
        self.asked += 1;
        let tenant = self.chance.index(self.tenants.len());
        let order = match self.chance.below(100) {
            0..20 => self.birth(tenant),
            20..40 => self.claim(tenant),
            40..72 => self.word(tenant, now),
            72..86 => self.person(tenant, now),
            86..91 => self.record(tenant, now),
            _ => return Order::sweep(64),
        };
        let renews = matches!(&order.aim, Aim::Task(_, commands)
            if matches!(commands[..], [Command::Supervisor(_, Supervisor::Renew { .. })]));
        if renews || self.chance.chance(0.1) {
            return order;
        }
        keyed(order, &format!("key-{}", self.asked))
    }

    /// Takes note of an answer.
    pub fn heard(&mut self, order: &Order, answer: &Result<Committed, Error>, tally: &mut Tally) {
        let word = word(order);
        match answer {
            Ok(committed) => {
                *tally.accepted.entry(word).or_default() += 1;
                tally.swept += committed.swept.due;
                tally.reactions += committed.swept.reactions;
                let tenant = self.tenants.iter().position(|tenant| *tenant == order.tenant);
                if let (Some(tenant), Some(flow)) = (tenant, &committed.task) {
                    let known = (Arc::clone(flow), committed.lease.clone());
                    self.known.insert((tenant, flow.id), known);
                }
            }
            Err(Error::Refused(refusal)) => *tally.refused.entry(refusal.code()).or_default() += 1,
            Err(error) => panic!("{error:?} for {order:?}"),
        }
    }

    /// Looks at all tasks again, as after a sweep or a restart.
    pub fn look(&mut self, store: &SqliteStore) {
        for (at, tenant) in self.tenants.iter().enumerate() {
            let filter = Filter { ended: true, count_max: 500, ..Filter::default() };
            let page = wait(store.tasks(tenant, filter)).expect("a sound disk reads");
            for row in page.rows {
                let lease = self.known.remove(&(at, row.flow.id)).and_then(|(_, lease)| lease);
                self.known.insert((at, row.flow.id), (row.flow, lease));
            }
        }
    }

    /// One of the tasks that `which` picks.
    fn pick(&mut self, tenant: usize, which: impl Fn(&Flow) -> bool) -> Option<Arc<Flow>> {
        let of_tenant = self.known.range((tenant, TaskId(0))..(tenant + 1, TaskId(0)));
        let found: Vec<_> =
            of_tenant.map(|(_, (flow, _))| flow).filter(|flow| which(flow)).collect();
        (!found.is_empty()).then(|| Arc::clone(*self.chance.pick(&found)))
    }

    fn live(&self, tenant: usize) -> usize {
        let of_tenant = self.known.range((tenant, TaskId(0))..(tenant + 1, TaskId(0)));
        of_tenant.filter(|(_, (flow, _))| flow.ending().is_none()).count()
    }

    fn birth(&mut self, tenant: usize) -> Order {
        if self.live(tenant) > LIVE_MAX {
            return self.claim(tenant);
        }
        let mut task = new_task(&format!("task {}", self.asked));
        let other = self.pick(tenant, |flow| flow.ending().is_none()).map(|flow| flow.id);
        match self.chance.below(12) {
            0..3 => task.depends_on.extend(other),
            3..6 => task.creator_task = other,
            6 => task.parent = other,
            7 => task.contract = Some(contract()),
            8 => task.key = Some(ConcurrencyKey::new("one").expect("a plain word")),
            9 => task.body = Some(text(&"long ".repeat(400))),
            10 => task.policy.budget_micros = 5,
            _ => task.priority = *self.chance.pick(&[Priority::Low, Priority::High]),
        }
        if !task.depends_on.is_empty() && self.chance.chance(0.5) {
            task.start_in = None;
        }
        birth(&self.tenants[tenant], task)
    }

    fn claim(&mut self, tenant: usize) -> Order {
        let name = format!("agent-{}", self.chance.below(4));
        let mode = *self.chance.pick(&[Mode::Solo, Mode::Supervised]);
        let mut claimant = claimant(&name, mode);
        claimant.wants = match self.chance.below(8) {
            0 => Wants::ReadyOrBlocked,
            1 => Wants::Probe,
            2 | 3 if mode == Mode::Supervised => Wants::Submitted,
            _ => Wants::Ready,
        };
        if self.chance.chance(0.3) {
            claimant.capabilities.insert(Capability::new("gpu").expect("a plain word"));
        }
        let nonce = (u128::from(self.chance.next_u64()) << 64) | u128::from(self.asked);
        let lease = Some(Millis::seconds(*self.chance.pick(&[2, 8, 60, 300])));
        let claim = Claim { claimant, nonce: Nonce(nonce), lease };
        let queued = self.pick(tenant, Flow::is_ready).map(|flow| flow.id);
        let aim = match queued {
            Some(id) if self.chance.chance(0.2) => Aim::Task(id, vec![Command::Claim(claim)]),
            Some(_) | None => Aim::Next(claim),
        };
        order(&self.tenants[tenant], agent(&name), aim)
    }

    /// What the holder of a run says, or whoever watches it.
    fn word(&mut self, tenant: usize, now: Timestamp) -> Order {
        let is_held = |flow: &Flow| flow.run.as_ref().is_some_and(|run| run.held().is_some());
        let Some(flow) = self.pick(tenant, is_held) else { return self.claim(tenant) };
        let held = flow.run.as_ref().and_then(|run| run.held()).expect("it was picked for that");
        let lease = self.known.get(&(tenant, flow.id)).and_then(|(_, lease)| lease.clone());
        let proof = match lease.filter(|_| self.chance.chance(0.3)) {
            Some(lease) => Proof::Token { attempt: lease.attempt, nonce: lease.nonce },
            None => Proof::Caller { attempt: held.attempt, principal: held.holder.clone() },
        };
        let command = match (&held.phase, self.chance.below(10)) {
            (_, 0 | 1) => Command::Supervisor(proof, Supervisor::Renew { lease: None }),
            (Phase::Stopping { .. }, _) => {
                let death = *self.chance.pick(&[Death::Cgroup, Death::None]);
                Command::Supervisor(proof, Supervisor::Stopped { death, survivor: false })
            }
            (Phase::Verifying { .. }, _) => self.verdict(proof, now),
            (_, 2..=4) if held.mode == Mode::Supervised => {
                Command::Supervisor(proof, self.watched())
            }
            (_, 5) => {
                let release = Supervisor::Release { reason: text("no room"), until: None };
                Command::Supervisor(proof, release)
            }
            (_, _) => Command::Agent(proof, self.spoken(&flow, held, tenant, now)),
        };
        order(&self.tenants[tenant], agent(held.holder.as_str()), Aim::Task(flow.id, vec![command]))
    }

    fn verdict(&mut self, proof: Proof, at: Timestamp) -> Command {
        let finding = if self.chance.chance(0.6) {
            Finding::Holds { evidence: None }
        } else {
            Finding::Fails { reason: text("red"), evidence: None }
        };
        let line = LineId::new("gate").expect("a plain word");
        Command::Verifier(
            proof,
            Verdict {
                receipts: vec![Receipt { line, finding, at, signed: None }],
                ..Verdict::default()
            },
        )
    }

    fn watched(&mut self) -> Supervisor {
        match self.chance.below(8) {
            0 => Supervisor::Spend { total_micros: 3 },
            1 => Supervisor::Exited,
            2 => Supervisor::TimedOut(Deadline::StreamIdle),
            3 => Supervisor::Stopped { death: Death::Cgroup, survivor: false },
            4 => Supervisor::Report(Sight::ToolStarted),
            5 => Supervisor::Report(Sight::PromptWritten),
            _ => Supervisor::Report(Sight::FirstVisibleEvent),
        }
    }

    fn spoken(&mut self, flow: &Flow, held: &Held, tenant: usize, now: Timestamp) -> Agent {
        let block = |why| Agent::Block { why, reason: text("stuck"), condition: None };
        match self.chance.below(18) {
            0 => Agent::Begin,
            1 | 2 => Agent::Progress(Report {
                done: vec![text("one"), text("two")],
                ..Report::default()
            }),
            3 | 4 => note(&format!("note {}", self.asked)),
            5 => Agent::Ask(text("which colour?")),
            6 => Agent::Receive(Mark::Applied),
            7 => needs_input(),
            8 => block(Why::Capability { needs: Capability::new("gpu").expect("a plain word") }),
            9 => block(Why::Transient { until: now + Millis::seconds(3) }),
            10 => {
                let other =
                    self.pick(tenant, |other| other.id != flow.id && other.ending().is_none());
                other.map_or(Agent::Begin, |other| block(Why::Dependency { on: other.id }))
            }
            11 => Agent::Fail { code: text("broken"), reason: text("it broke") },
            _ if held.phase == Phase::Leased => Agent::Begin,
            _ => done(),
        }
    }

    fn person(&mut self, tenant: usize, now: Timestamp) -> Order {
        let Some(flow) = self.pick(tenant, |_| true) else { return self.birth(tenant) };
        let blocked = flow
            .run
            .as_ref()
            .is_some_and(|run| matches!(run.state, RunState::Idle(Idle::Blocked(_))));
        let says = match self.chance.below(19) {
            0..6 if blocked => Person::Unblock(text("try again")),
            0..3 => Person::Answer(text("blue")),
            3 => Person::Cancel(text("enough")),
            4 | 5 => Person::Retry(text("once more")),
            6 => Person::Release(text("mine")),
            7 => Person::Hold { hold: Hold::Frozen, on: true, reason: text("wait") },
            8..10 => Person::Hold { hold: Hold::Frozen, on: false, reason: text("go on") },
            10 | 16 | 17 => Person::Close(Ending::Abandoned { reason: text("not wanted") }),
            11 => Person::Archive,
            12 => {
                let patch = Patch { title: Some(text("renamed")), ..Patch::default() };
                Person::Edit(Box::new(patch))
            }
            13 => {
                let start_at = Some(now + Millis::seconds(2));
                Person::Move { to: Some(stage("qa")), start_at }
            }
            14 => Person::Fail { code: text("wrong"), reason: text("it is wrong") },
            _ => {
                let on = self.pick(tenant, |_| true).map_or(flow.id, |other| other.id);
                Person::Depend { on, wait: self.chance.chance(0.7) }
            }
        };
        person(&self.tenants[tenant], flow.id, says)
    }

    fn record(&mut self, tenant: usize, now: Timestamp) -> Order {
        let first = self.pick(tenant, |_| true).map_or(TaskId(1), |flow| flow.id);
        let pools = [
            PoolName::Stage(web(), stage("coding")),
            PoolName::Holder(principal("agent-1")),
            PoolName::Key(web(), ConcurrencyKey::new("one").expect("a plain word")),
            PoolName::Budget(first),
            PoolName::Scheduler,
        ];
        let pool = self.chance.pick(&pools).clone();
        let command = if self.chance.chance(0.8) {
            let limit = *self.chance.pick(&[Some(1), Some(2), Some(5), None]);
            RecordCommand::LimitPool { pool, limit }
        } else {
            let until = Some(now + Millis::seconds(1));
            let shut = Some(Shut { reason: text("lunch"), since: now, until });
            RecordCommand::ShutPool { pool, shut: shut.filter(|_| self.chance.chance(0.5)) }
        };
        order(&self.tenants[tenant], ann(), Aim::Record(command, None))
    }
}

/// What an order is, in one word.
fn word(order: &Order) -> &'static str {
    match &order.aim {
        Aim::Birth(..) => "birth",
        Aim::Next(_) => "claim",
        Aim::Record(..) => "record",
        Aim::Key(_) => "key",
        Aim::Channel(_) => "channel",
        Aim::Sweep(_) => "sweep",
        Aim::Task(_, commands) => match commands.first() {
            Some(Command::Supervisor(_, Supervisor::Renew { .. })) => "renew",
            Some(Command::Supervisor(..)) => "supervisor",
            Some(Command::Agent(_, Agent::Checkpoint(_))) => "checkpoint",
            Some(Command::Agent(_, Agent::Block { .. })) => "block",
            Some(Command::Agent(_, Agent::Complete { .. })) => "complete",
            Some(Command::Agent(..)) => "agent",
            Some(Command::Claim(_)) => "claim",
            Some(Command::Person(_)) => "person",
            Some(Command::Verifier(..)) => "verdict",
            Some(Command::Create(_) | Command::Expect(_) | Command::Time(_)) | None => "other",
        },
    }
}
