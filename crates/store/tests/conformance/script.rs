//! Random orders that mean something: a script knows what it was told, and mostly asks for what
//! might be possible, but also for what is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_domain::command::{Claim, Command, NewTask, Patch, Proof};
use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Digest, Nonce, TaskId, TenantId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::pool::PoolName;
use baton_domain::project::{PassedBy, Project, RecordCommand};
use baton_domain::run::Mode;
use baton_domain::task::{Flow, Kind, Priority};
use baton_domain::time::{Millis, Timestamp};
use baton_store::{Actor, Aim, Committed, Order, Request};
use baton_testkit::chance::Chance;

use crate::words::{
    account, caller, capability, key, label, line, pipeline, principal, project, shut, solo, stage,
    story, tenant, text,
};

pub const TENANTS: [&str; 3] = ["local", "acme", "zeta"];
const NAMES: [&str; 3] = ["ann", "bob", "eve"];
const KEYS: [&str; 2] = ["db", "net"];
const PROJECTS: [&str; 2] = ["web", "app"];
/// Tasks that a tenant may have: few enough for commands to meet one another.
const TASKS_MAX: u64 = 60;
/// Requests that are remembered, to be repeated.
const REQUESTS_MAX: usize = 40;

/// What happens next.
pub enum Step {
    /// Somebody orders something.
    Order(Box<Order>),
    /// A server lets time pass, so many at once.
    Sweep(usize),
    /// Time passes.
    Pass(Millis),
}

/// A source of orders.
pub struct Script {
    pub(super) chance: Chance,
    pub(super) now: Timestamp,
    tenant: TenantId,
    /// Every task as it was last seen.
    tasks: BTreeMap<TenantId, BTreeMap<TaskId, Arc<Flow>>>,
    /// Leases that were once granted, living or not.
    leases: Vec<(TenantId, TaskId, u32, Nonce)>,
    requests: Vec<Order>,
    nonces: u64,
}

impl Script {
    pub fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed),
            now: Timestamp::default(),
            tenant: tenant(TENANTS[0]),
            tasks: BTreeMap::new(),
            leases: vec![],
            requests: vec![],
            nonces: 0,
        }
    }

    /// What everybody begins with.
    pub fn opening() -> Vec<Order> {
        let projects = [
            Project { promote: true, ..pipeline("web", &["coding", "qa"]) },
            Project { archive_after: Some(Millis::seconds(40)), ..pipeline("app", &["coding"]) },
        ];
        let put = |name: &str, project: &Project| Order {
            tenant: tenant(name),
            actor: caller("ann"),
            aim: Aim::Record(RecordCommand::PutProject(project.clone()), None),
            request: None,
        };
        TENANTS.iter().flat_map(|name| projects.iter().map(|it| put(name, it))).collect()
    }

    pub fn next(&mut self, now: Timestamp) -> Step {
        self.now = now;
        match self.chance.below(100) {
            0..9 => Step::Pass(Millis(self.chance.below(4_000))),
            9 => Step::Pass(Millis::seconds(self.chance.below(600))),
            10..20 => Step::Sweep(*self.chance.pick(&[1, 3, 1_000])),
            _ => Step::Order(Box::new(self.order())),
        }
    }

    /// Remembers what an order gave.
    pub fn learn(&mut self, order: &Order, committed: &Committed) {
        if let Some(flow) = &committed.task {
            self.see(&order.tenant, flow);
            if let Some(lease) = &committed.lease {
                let known = (order.tenant.clone(), flow.id, lease.attempt, lease.nonce);
                if !self.leases.contains(&known) {
                    self.leases.push(known);
                }
            }
        }
        if order.request.is_some() && !committed.replayed && self.requests.len() < REQUESTS_MAX {
            self.requests.push(order.clone());
        }
    }

    /// Remembers how a task stands.
    pub fn see(&mut self, tenant: &TenantId, flow: &Arc<Flow>) {
        self.tasks.entry(tenant.clone()).or_default().insert(flow.id, Arc::clone(flow));
    }

    /// A task of the tenant as it was last seen.
    pub(super) fn known(&self, id: TaskId) -> Option<&Flow> {
        self.tasks.get(&self.tenant)?.get(&id).map(|flow| &**flow)
    }

    fn order(&mut self) -> Order {
        if !self.requests.is_empty() && self.chance.chance(0.04) {
            return self.repeat();
        }
        let busy = self.chance.below(10);
        self.tenant = tenant(TENANTS[if busy < 6 { 0 } else { usize::from(busy < 9) + 1 }]);
        let aim = self.aim();
        let actor = self.actor();
        let request = self.chance.chance(0.15).then(|| self.request());
        Order { tenant: self.tenant.clone(), actor, aim, request }
    }

    /// Repeats an earlier request, or uses its key for something else or as somebody else.
    fn repeat(&mut self) -> Order {
        let mut order = self.chance.pick(&self.requests.clone()).clone();
        match self.chance.below(6) {
            0 => order.actor = self.actor(),
            1 => order.tenant = tenant(self.chance.pick::<&str>(&TENANTS)),
            2 => {
                order.aim = self.aim();
                if let Some(request) = &mut order.request {
                    request.fingerprint[0] ^= 1;
                }
            }
            _ => {}
        }
        order
    }

    fn actor(&mut self) -> Actor {
        let mut actor = caller(self.chance.pick::<&str>(&NAMES));
        actor.trace = self.chance.chance(0.2).then(|| text("a-trace"));
        actor
    }

    fn request(&mut self) -> Request {
        let key = format!("request-{}", self.chance.below(200));
        let mut fingerprint = [0; 32];
        fingerprint[..8].copy_from_slice(&self.chance.next_u64().to_be_bytes());
        Request { key: text(&key), fingerprint, asked_in: None }
    }

    fn aim(&mut self) -> Aim {
        match self.chance.below(100) {
            0..18 if self.born() < TASKS_MAX => {
                let new = self.new_task();
                let mut commands = vec![Command::Create(Box::new(new.clone()))];
                if self.chance.chance(0.1) {
                    commands.push(Command::Claim(self.claim()));
                }
                Aim::Birth(new.project, commands)
            }
            0..34 => Aim::Next(self.claim()),
            34..37 => Aim::Task(self.task(), vec![Command::Claim(self.claim())]),
            37..75 => self.of_holder(),
            75..95 => {
                let task = self.task();
                Aim::Task(task, vec![Command::Person(self.person(task))])
            }
            95..98 => self.record(),
            _ => self.key(),
        }
    }

    fn of_holder(&mut self) -> Aim {
        let Some((task, proof)) = self.proof() else { return Aim::Next(self.claim()) };
        let mut commands = vec![self.of_attempt(task, &proof)];
        if self.chance.chance(0.1) {
            commands.push(self.of_attempt(task, &proof));
        }
        Aim::Task(task, commands)
    }

    /// A lease of the tenant, mostly a living one, by token or by name.
    fn proof(&mut self) -> Option<(TaskId, Proof)> {
        let alive = self.chance.chance(0.85);
        let lives = |(_, task, attempt, _): &&(_, TaskId, u32, _)| {
            let flow = self.known(*task);
            let held = flow.and_then(|flow| flow.run.as_ref()?.held());
            held.is_some_and(|held| held.attempt == *attempt)
        };
        let own = self.leases.iter().filter(|it| it.0 == self.tenant);
        let own: Vec<_> = own.filter(|it| !alive || lives(it)).cloned().collect();
        if own.is_empty() {
            return None;
        }
        let (_, task, attempt, nonce) = self.chance.pick(&own).clone();
        if self.chance.chance(0.2) {
            let principal = principal(self.chance.pick::<&str>(&NAMES));
            return Some((task, Proof::Caller { attempt, principal }));
        }
        Some((task, Proof::Token { attempt, nonce }))
    }

    fn born(&self) -> u64 {
        let tasks = self.tasks.get(&self.tenant);
        tasks.and_then(|tasks| tasks.last_key_value()).map_or(0, |(last, _)| last.0)
    }

    /// A task, rather a new one than an old one; now and then one that does not exist.
    pub(super) fn task(&mut self) -> TaskId {
        let born = self.born();
        let low = if self.chance.chance(0.7) { born.saturating_sub(12) } else { 0 };
        let ghost = u64::from(born == low || self.chance.chance(0.03));
        TaskId(low + 1 + self.chance.below(born - low + ghost))
    }

    fn new_task(&mut self) -> NewTask {
        let chance = |script: &mut Self, p| script.chance.chance(p);
        let draft = chance(self, 0.05);
        let start_in = (!draft && chance(self, 0.8)).then(|| self.stage());
        let soon = self.now + Millis::seconds(self.chance.below(20));
        NewTask {
            project: project(if chance(self, 0.85) { PROJECTS[0] } else { PROJECTS[1] }),
            creator_task: chance(self, 0.2).then(|| self.task()),
            body: chance(self, 0.2).then(|| text("A body\nof two lines.")),
            kind: if chance(self, 0.2) { Kind::Epic } else { Kind::Bug },
            priority: *self.chance.pick(&[Priority::Low, Priority::Normal, Priority::High]),
            labels: if chance(self, 0.2) { [label("x")].into() } else { BTreeSet::new() },
            parent: chance(self, 0.25).then(|| self.task()),
            depends_on: (0..self.chance.below(6).saturating_sub(3)).map(|_| self.task()).collect(),
            assignee: chance(self, 0.1).then(|| principal("bob")),
            capabilities: if chance(self, 0.1) { [capability("gpu")].into() } else { [].into() },
            key: chance(self, 0.4).then(|| key(self.chance.pick::<&str>(&KEYS))),
            policy: self.policy(),
            contract: chance(self, 0.35).then(|| self.contract()),
            draft,
            needs_approval: chance(self, 0.06),
            start_in,
            start_at: chance(self, 0.15).then_some(soon),
            ..story("a random task")
        }
    }

    pub(super) fn stage(&mut self) -> baton_domain::ids::StageName {
        let stages = ["coding", "coding", "coding", "coding", "coding", "qa", "qa", "nowhere"];
        stage(self.chance.pick::<&str>(&stages))
    }

    pub(super) fn policy(&mut self) -> Policy {
        let mut few = |least, more| least + self.chance.below(more);
        let small = |number: u64| u8::try_from(number).expect("a few are few");
        Policy {
            attempts_max: small(few(1, 3)),
            continuations_max: small(few(0, 3)),
            losses_max: small(few(1, 4)),
            tries_max: u16::from(small(few(4, 8))),
            stalls_max: small(few(1, 4)),
            setbacks_max: 3,
            turns_max: u32::from(small(few(1, 200))),
            tool_calls_max: u32::from(small(few(1, 200))),
            tokens_max: few(1, 1_000_000),
            backoff: Millis::seconds(few(1, 5)),
            backoff_max: Millis::seconds(few(1, 20)),
            lease: Millis::seconds(few(1, 60)),
            wall: Millis::seconds(few(10, 100)),
            input: Millis::seconds(few(1, 30)),
            starved: Millis::seconds(few(5, 60)),
            budget_micros: few(0, 2) * 40,
        }
    }

    pub(super) fn contract(&mut self) -> (Contract, Digest) {
        let mut lines = BTreeMap::from([(
            line("review"),
            Term::Gate { command: text("make sure"), timeout: Millis::minutes(1) },
        )]);
        if self.chance.chance(0.4) {
            let path = text("out/report.md");
            lines.insert(line("report"), Term::Artifact { path, bytes_min: 10, schema: None });
        }
        let digit = if lines.len() > 1 { "a" } else { "b" };
        let hash = Digest::new(&digit.repeat(64)).expect("hex digits make a digest");
        (Contract { lines }, hash)
    }

    pub(super) fn patch(&mut self) -> Patch {
        let mut patch = Patch { title: Some(text("edited")), ..Patch::default() };
        match self.chance.below(6) {
            0 => patch.labels = Some(BTreeSet::new()),
            1 => patch.policy = Some(self.policy().into()),
            2 => patch.priority = Some(Priority::Urgent),
            3 => patch.contract = Some(self.contract()),
            4 => patch.assignee = Some(principal(self.chance.pick::<&str>(&NAMES))),
            _ => patch.clear = BTreeSet::from([baton_domain::command::Clear::Assignee]),
        }
        patch
    }

    fn claim(&mut self) -> Claim {
        self.nonces += 1;
        let wants = [Wants::Ready, Wants::ReadyOrBlocked, Wants::Blocked, Wants::Probe];
        let wants = if self.chance.chance(0.6) {
            Wants::ReadyOrBlocked
        } else {
            *self.chance.pick(&[&wants[..], &[Wants::Submitted; 3]].concat())
        };
        let supervised = self.chance.chance(0.5);
        let capable = self.chance.chance(0.5);
        let claimant = Claimant {
            person: self.chance.chance(0.3),
            mode: if supervised { Mode::Supervised } else { Mode::Solo },
            capabilities: if capable { [capability("gpu")].into() } else { [].into() },
            account: self.chance.chance(0.3).then(|| account("acme")),
            agents: vec![],
            stage: self.chance.chance(0.1).then(|| self.stage()),
            wants,
            ..solo(self.chance.pick::<&str>(&NAMES))
        };
        let lease = self.chance.chance(0.3).then(|| Millis::seconds(1 + self.chance.below(30)));
        Claim { claimant, nonce: Nonce(u128::MAX / 3 + u128::from(self.nonces)), lease }
    }

    fn record(&mut self) -> Aim {
        let pools = [
            PoolName::Scheduler,
            PoolName::Project(project("web")),
            PoolName::Stage(project("web"), stage("coding")),
            PoolName::Tree(self.task()),
            PoolName::Holder(principal(self.chance.pick::<&str>(&NAMES))),
            PoolName::Key(project("web"), key(self.chance.pick::<&str>(&KEYS))),
            PoolName::Account(account("acme")),
            PoolName::Budget(self.task()),
            PoolName::ProjectBudget(project("web")),
            PoolName::ProjectDayBudget(project("web")),
            PoolName::DayBudget,
        ];
        let pool = self.chance.pick(&pools).clone();
        let most = if pool.is_money() { 200 } else { 4 };
        let command = match self.chance.below(12) {
            0..5 => RecordCommand::LimitPool { pool, limit: Some(1 + self.chance.below(most)) },
            5 => RecordCommand::LimitPool { pool, limit: None },
            6..8 => {
                let until = self.now + Millis::seconds(self.chance.below(20));
                RecordCommand::ShutPool { pool, shut: Some(shut(self.now, Some(until))) }
            }
            8..10 => RecordCommand::ShutPool { pool, shut: None },
            10 => return Aim::Record(RecordCommand::RemoveProject, Some(project("app"))),
            _ => self.project(),
        };
        Aim::Record(command, None)
    }

    fn project(&mut self) -> RecordCommand {
        let stages: &[&str] =
            if self.chance.chance(0.5) { &["coding", "qa"] } else { &["coding", "merge"] };
        let mut put = pipeline(self.chance.pick::<&str>(&PROJECTS), stages);
        put.promote = self.chance.chance(0.7);
        put.archive_after = self.chance.chance(0.5).then(|| Millis::seconds(self.chance.below(60)));
        if self.chance.chance(0.3) {
            put.pipeline[0].passed_by = PassedBy::Person;
        }
        RecordCommand::PutProject(put)
    }
}
