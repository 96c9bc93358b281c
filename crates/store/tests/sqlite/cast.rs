//! Who takes part: tenants, people, agents, and what they ask for.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{Agent, Claim, Command, NewTask, Note, Person, Proof, Supervisor};
use baton_domain::contract::{Contract, Submission, Term};
use baton_domain::ids::{
    Digest, LineId, Nonce, PrincipalId, ProjectId, StageName, TaskId, TenantId,
};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::project::{Landing, PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::run::{Mode, Why};
use baton_domain::task::{Ending, Priority};
use baton_domain::text::Text;
use baton_domain::time::Millis;
use baton_store::order::{Actor, Aim, Kind as Caller, Order, Request};
use sha2::{Digest as _, Sha256};

pub const CODING: &str = "coding";

pub fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    Text::new("text", words).expect("the tests write short plain texts")
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a plain word")
}

pub fn local() -> TenantId {
    tenant("local")
}

pub fn principal(name: &str) -> PrincipalId {
    PrincipalId::new(name).expect("a plain word")
}

pub fn stage(name: &str) -> StageName {
    StageName::new(name).expect("a plain word")
}

pub fn web() -> ProjectId {
    ProjectId::new("web").expect("a plain word")
}

/// Two stages; ended tasks are put away after ten seconds.
pub fn project() -> Project {
    let spec = |name| StageSpec {
        name: stage(name),
        worked_by: WorkedBy::Agent,
        passed_by: PassedBy::Server,
    };
    Project {
        id: web(),
        root: None,
        pipeline: vec![spec(CODING), spec("qa")],
        archive_after: Some(Millis::seconds(10)),
        promote: true,
        landing: Landing::default(),
    }
}

/// One stage, and nothing is ever put away.
pub fn short_project() -> Project {
    let mut project = project();
    project.pipeline.truncate(1);
    Project { archive_after: None, ..project }
}

pub fn ann() -> Actor {
    Actor { principal: principal("ann"), kind: Caller::Person, origin: text("cli"), trace: None }
}

pub fn agent(name: &str) -> Actor {
    Actor { principal: principal(name), kind: Caller::Agent, origin: text("mcp"), trace: None }
}

pub fn order(tenant: &TenantId, actor: Actor, aim: Aim) -> Order {
    Order { tenant: tenant.clone(), actor, aim, request: None }
}

/// The same order with a request key; what was asked is told apart by its text form.
pub fn keyed(order: Order, key: &str) -> Order {
    let fingerprint = Sha256::digest(format!("{:?}", order.aim)).into();
    Order { request: Some(Request { key: text(key), fingerprint, asked_in: None }), ..order }
}

pub fn put(tenant: &TenantId, project: Project) -> Order {
    order(tenant, ann(), Aim::Record(RecordCommand::PutProject(project), None))
}

/// A task that starts in the first stage.
pub fn new_task(title: &str) -> NewTask {
    NewTask { start_in: Some(stage(CODING)), ..NewTask::new(web(), principal("ann"), text(title)) }
}

pub fn contract() -> (Contract, Digest) {
    let gate = Term::Gate { command: text("make test"), timeout: Millis::minutes(1) };
    let line = LineId::new("gate").expect("a plain word");
    let lines = BTreeMap::from([(line, gate)]);
    (Contract { lines }, Digest::new(&"ab".repeat(32)).expect("64 hex digits"))
}

pub fn birth(tenant: &TenantId, task: NewTask) -> Order {
    order(tenant, ann(), Aim::Birth(web(), vec![Command::Create(Box::new(task))]))
}

pub fn claimant(name: &str, mode: Mode) -> Claimant {
    Claimant {
        principal: principal(name),
        person: false,
        mode,
        capabilities: BTreeSet::new(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Ready,
    }
}

pub fn wish(name: &str, nonce: u128) -> Claim {
    Claim { claimant: claimant(name, Mode::Solo), nonce: Nonce(nonce), lease: None }
}

pub fn claim(tenant: &TenantId, task: TaskId, name: &str, nonce: u128) -> Order {
    let commands = vec![Command::Claim(wish(name, nonce))];
    order(tenant, agent(name), Aim::Task(task, commands))
}

pub fn by(name: &str, attempt: u32) -> Proof {
    Proof::Caller { attempt, principal: principal(name) }
}

/// What the agent of the first attempt says.
pub fn says(tenant: &TenantId, task: TaskId, name: &str, attempt: u32, says: Agent) -> Order {
    let commands = vec![Command::Agent(by(name, attempt), says)];
    order(tenant, agent(name), Aim::Task(task, commands))
}

pub fn renew(tenant: &TenantId, task: TaskId, name: &str, attempt: u32) -> Order {
    let commands = vec![Command::Supervisor(by(name, attempt), Supervisor::Renew { lease: None })];
    order(tenant, agent(name), Aim::Task(task, commands))
}

pub fn person(tenant: &TenantId, task: TaskId, says: Person) -> Order {
    order(tenant, ann(), Aim::Task(task, vec![Command::Person(says)]))
}

pub fn abandon(tenant: &TenantId, task: TaskId) -> Order {
    person(tenant, task, Person::Close(Ending::Abandoned { reason: text("not wanted") }))
}

pub fn note(words: &str) -> Agent {
    Agent::Checkpoint(Box::new(Note {
        summary: text(words),
        cursor: None,
        evidence: vec![],
        git: BTreeMap::new(),
    }))
}

pub fn done() -> Agent {
    let submission = Submission { tree: Some(text("4b825dc6")), ..Submission::default() };
    Agent::Complete { summary: None, submission }
}

pub fn needs_input() -> Agent {
    Agent::Block { why: Why::NeedsInput, reason: text("which colour?"), condition: None }
}
