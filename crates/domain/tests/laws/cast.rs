//! Who appears in the tests and what they say, in the fewest words.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{
    Agent, Claim, Command, NewTask, Note, Person, Proof, Report, Review, Supervisor, Time, Verdict,
};
use baton_domain::contract::{Binding, Contract, Finding, Receipt, Submission, Term};
use baton_domain::ids::{
    Capability, Digest, LineId, Nonce, PrincipalId, ProjectId, StageName, TaskId,
};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::project::{Landing, PassedBy, Project, StageSpec, WorkedBy};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Death, Mode, Why};
use baton_domain::scene::Decision;
use baton_domain::task::{Ending, Hold, Priority};
use baton_domain::text::{Code, Line, Message, Reason, Summary, Text};
use baton_domain::time::{Millis, Timestamp};

use crate::world::World;

pub type Decided = Result<Decision, Refusal>;

/// A checked text that a test wrote itself.
pub fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    Text::new("text", words).expect("the tests write proper texts")
}

pub fn reason() -> Reason {
    text("because")
}

pub fn message() -> Message {
    text("a message")
}

pub fn code() -> Code {
    text("broken")
}

pub fn stage(name: &str) -> StageName {
    StageName::new(name).expect("the tests write proper names")
}

pub fn principal(name: &str) -> PrincipalId {
    PrincipalId::new(name).expect("the tests write proper names")
}

pub fn capability(name: &str) -> Capability {
    Capability::new(name).expect("the tests write proper names")
}

pub fn digest() -> Digest {
    Digest::new(&"ab".repeat(32)).expect("64 hex digits")
}

/// Two stages that agents work and that pass by themselves.
pub fn project() -> Project {
    let spec = |name| StageSpec {
        name: stage(name),
        worked_by: WorkedBy::Agent,
        passed_by: PassedBy::Server,
    };
    Project {
        id: ProjectId::new("demo").expect("the tests write proper names"),
        root: None,
        pipeline: vec![spec("coding"), spec("qa")],
        archive_after: Some(Millis::hours(24 * 7)),
        promote: true,
        landing: Landing::default(),
    }
}

/// A world with that project and nothing else.
pub fn world() -> World {
    World::new(project())
}

/// A task that waits in the backlog.
pub fn story() -> NewTask {
    NewTask::new(project().id, principal("ada"), text("a story"))
}

/// A task that is queued in the first stage.
pub fn started() -> NewTask {
    NewTask { start_in: Some(stage("coding")), ..story() }
}

/// A queued task with one gate to pass.
pub fn contracted() -> NewTask {
    NewTask { contract: Some((one_gate(), digest())), ..started() }
}

pub fn gate() -> LineId {
    LineId::new("tests").expect("the tests write proper names")
}

pub fn one_gate() -> Contract {
    let term = Term::Gate { command: text("make test"), timeout: Millis::minutes(10) };
    Contract { lines: BTreeMap::from([(gate(), term)]) }
}

/// An agent without a worker.
pub fn solo() -> Claimant {
    Claimant {
        principal: principal("solo"),
        person: false,
        mode: Mode::Solo,
        capabilities: BTreeSet::new(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Ready,
    }
}

/// A worker that supervises.
pub fn worker() -> Claimant {
    Claimant { principal: principal("worker"), mode: Mode::Supervised, ..solo() }
}

/// Whoever claims in this mode.
pub fn holder(mode: Mode) -> Claimant {
    match mode {
        Mode::Solo => solo(),
        Mode::Supervised => worker(),
    }
}

/// A worker that can use a GPU.
pub fn capable() -> Claimant {
    Claimant {
        principal: principal("gpu-worker"),
        capabilities: BTreeSet::from([capability("gpu")]),
        ..worker()
    }
}

/// A person who takes work over.
pub fn person() -> Claimant {
    Claimant { principal: principal("ada"), person: true, ..solo() }
}

pub fn wanting(wants: Wants, claimant: Claimant) -> Claimant {
    Claimant { wants, ..claimant }
}

pub fn claim(claimant: Claimant, nonce: u128) -> Command {
    Command::Claim(Claim { claimant, nonce: Nonce(nonce), lease: None })
}

pub fn pass() -> Command {
    Command::Time(Time::Pass)
}

pub fn receipt(holds: bool, at: Timestamp) -> Receipt {
    let finding = if holds {
        Finding::Holds { evidence: None }
    } else {
        Finding::Fails { reason: reason(), evidence: None }
    };
    Receipt { line: gate(), finding, at, signed: None }
}

pub fn waiver() -> Receipt {
    let finding = Finding::Waived { reason: reason() };
    Receipt { line: gate(), finding, at: Timestamp(0), signed: None }
}

pub fn verdict(holds: bool, at: Timestamp) -> Verdict {
    Verdict { receipts: vec![receipt(holds, at)], ..Verdict::default() }
}

pub fn note() -> Agent {
    Agent::Checkpoint(Box::new(half()))
}

pub fn snapshot() -> Supervisor {
    Supervisor::Snapshot(Box::new(half()))
}

fn half() -> Note {
    let summary = Summary::new("summary", "half of it").expect("a summary");
    Note { summary, cursor: None, evidence: vec![], git: BTreeMap::new() }
}

pub fn progress() -> Agent {
    Agent::Progress(Report { done: vec![text("one")], ..Report::default() })
}

pub fn block(why: Why) -> Agent {
    Agent::Block { why, reason: reason(), condition: None }
}

pub fn block_with_condition(why: Why) -> Agent {
    let condition: Line = text("test -e ready");
    Agent::Block { why, reason: reason(), condition: Some(condition) }
}

pub fn fail() -> Agent {
    Agent::Fail { code: code(), reason: reason() }
}

/// Done, with a tree that somebody can check.
pub fn complete() -> Agent {
    let tree = Some(text(&"a".repeat(40)));
    Agent::Complete { summary: None, submission: Submission { tree, ..Submission::default() } }
}

pub fn binding() -> Supervisor {
    let line = LineId::new("lint").expect("the tests write proper names");
    let term = Term::Gate { command: text("make lint"), timeout: Millis::minutes(1) };
    let contract = Contract { lines: BTreeMap::from([(line, term)]) };
    let (protected, base) = ([text("baton.toml")].into(), None);
    Supervisor::Bind(Box::new(Binding { contract, protected, base, hash: digest() }))
}

pub fn review(approved: bool) -> Person {
    Person::Review(Box::new(Review {
        by: principal("reviewer"),
        approved,
        confidence: 90,
        missing: if approved { vec![] } else { vec![text("the guide")] },
        reason: reason(),
        receipts: vec![],
    }))
}

/// What was found, and that somebody must look at something.
pub fn guarded(at: Timestamp) -> Verdict {
    Verdict { guarded: vec![text("baton.toml")], ..verdict(true, at) }
}

pub fn stopped(death: Death, survivor: bool) -> Supervisor {
    Supervisor::Stopped { death, survivor }
}

pub fn proved() -> Supervisor {
    stopped(Death::Cgroup, false)
}

pub fn lost() -> Supervisor {
    Supervisor::Lost { code: code(), reason: reason() }
}

pub fn release() -> Supervisor {
    Supervisor::Release { reason: reason(), until: None }
}

pub fn hold(hold: Hold, on: bool) -> Person {
    Person::Hold { hold, on, reason: reason() }
}

pub fn abandon() -> Person {
    Person::Close(Ending::Abandoned { reason: reason() })
}

pub fn move_to(name: &str) -> Person {
    Person::Move { to: Some(stage(name)), start_at: None }
}

impl World {
    /// The proof of the present holder.
    pub fn proof(&self, id: TaskId) -> Proof {
        let lease = self.lease(id);
        Proof::Token { attempt: lease.attempt, nonce: lease.nonce }
    }

    pub fn claim(&mut self, id: TaskId, claimant: Claimant) -> Decided {
        let nonce = u128::from(self.tasks.get(&id).map_or(0, |task| task.flow.attempts)) + 1_000;
        self.tell(id, &claim(claimant, nonce))
    }

    pub fn agent(&mut self, id: TaskId, says: Agent) -> Decided {
        self.tell(id, &Command::Agent(self.proof(id), says))
    }

    pub fn supervisor(&mut self, id: TaskId, says: Supervisor) -> Decided {
        self.tell(id, &Command::Supervisor(self.proof(id), says))
    }

    pub fn verifier(&mut self, id: TaskId, holds: bool) -> Decided {
        self.tell(id, &Command::Verifier(self.proof(id), verdict(holds, self.now)))
    }

    pub fn person(&mut self, id: TaskId, says: Person) -> Decided {
        self.tell(id, &Command::Person(says))
    }

    /// Makes a task that must come to be.
    pub fn made(&mut self, task: NewTask) -> TaskId {
        self.create(task).expect("the task is well-formed")
    }

    /// A queued task, claimed and begun in this mode.
    pub fn at_work(&mut self, task: NewTask, mode: Mode) -> TaskId {
        let id = self.made(task);
        self.take_up(id, mode);
        id
    }

    /// Claims a queued task and begins.
    pub fn take_up(&mut self, id: TaskId, mode: Mode) {
        self.claim(id, holder(mode)).expect("it is queued");
        self.agent(id, Agent::Begin).expect("it is held");
    }

    /// The agent's verdict, and for a watched one the proof of its death.
    pub fn conclude(&mut self, id: TaskId, says: Agent) {
        self.agent(id, says).expect("the holder speaks");
        if self.leases.contains_key(&id) {
            self.supervisor(id, proved()).expect("the supervisor proves");
        }
    }

    /// The word for where the task stands.
    pub fn word(&self, id: TaskId) -> &'static str {
        self.flow(id).run.as_ref().map_or("none", |run| run.word())
    }
}
