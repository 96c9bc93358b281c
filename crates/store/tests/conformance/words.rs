//! Short words for the values that cases are made of.

use baton_domain::Refusal;
use baton_domain::command::{Agent, NewTask, Note, Patch, Person, Supervisor};
use baton_domain::contract::Submission;
use baton_domain::ids::{
    Account, Capability, ConcurrencyKey, Label, LineId, PrincipalId, ProjectId, StageName, TenantId,
};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::pool::Shut;
use baton_domain::project::{Landing, PassedBy, Project, StageSpec, WorkedBy};
use baton_domain::run::{Mode, Why};
use baton_domain::task::{Ending, Priority};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use baton_store::{Actor, Kind};

fn well<T>(named: Result<T, Refusal>) -> T {
    named.expect("the names and texts of the cases are well-formed")
}

macro_rules! words {
    ($($word:ident: $name:ident;)*) => {$(
        pub fn $word(text: &str) -> $name {
            well($name::new(text))
        }
    )*};
}

words! {
    tenant: TenantId;
    principal: PrincipalId;
    project: ProjectId;
    stage: StageName;
    capability: Capability;
    key: ConcurrencyKey;
    account: Account;
    label: Label;
    line: LineId;
}

pub fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    well(Text::new("text", words))
}

/// A caller by this name.
pub fn caller(name: &str) -> Actor {
    Actor { principal: principal(name), kind: Kind::Person, origin: text("cli"), trace: None }
}

/// A project with these stages, all worked by agents and passed by themselves.
pub fn pipeline(name: &str, stages: &[&str]) -> Project {
    let spec = |name: &&str| StageSpec {
        name: stage(name),
        worked_by: WorkedBy::Agent,
        passed_by: PassedBy::Server,
    };
    Project {
        id: project(name),
        root: None,
        pipeline: stages.iter().map(spec).collect(),
        archive_after: None,
        promote: false,
        landing: Landing::default(),
    }
}

/// A story in the backlog of project `web`.
pub fn story(title: &str) -> NewTask {
    NewTask::new(project("web"), principal("ann"), text(title))
}

/// A story whose run waits for a holder at once.
pub fn ready(title: &str) -> NewTask {
    NewTask { start_in: Some(stage("coding")), ..story(title) }
}

/// An agent without a worker, after queued work.
pub fn solo(name: &str) -> Claimant {
    Claimant {
        principal: principal(name),
        person: false,
        mode: Mode::Solo,
        capabilities: Default::default(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Ready,
    }
}

/// A worker that supervises, after queued work.
pub fn worker(name: &str) -> Claimant {
    Claimant { mode: Mode::Supervised, ..solo(name) }
}

/// A person, after anything that is parked.
pub fn helper(name: &str) -> Claimant {
    Claimant { person: true, wants: Wants::Blocked, ..solo(name) }
}

pub fn complete() -> Agent {
    let submission = Submission { tree: Some(text("4b825dc6")), ..Submission::default() };
    Agent::Complete { summary: None, submission }
}

pub fn block(why: Why) -> Agent {
    Agent::Block { why, reason: text("cannot go on"), condition: None }
}

pub fn checkpoint(summary: &str) -> Agent {
    Agent::Checkpoint(Box::new(note(summary)))
}

/// The same, kept by a supervisor.
pub fn snapshot(summary: &str) -> Supervisor {
    Supervisor::Snapshot(Box::new(note(summary)))
}

fn note(summary: &str) -> Note {
    Note { summary: text(summary), cursor: None, evidence: vec![], git: Default::default() }
}

pub fn retitle(title: &str) -> Person {
    Person::Edit(Box::new(Patch { title: Some(text(title)), ..Patch::default() }))
}

pub fn abandon() -> Person {
    Person::Close(Ending::Abandoned { reason: text("nobody wants it") })
}

pub fn shut(since: Timestamp, until: Option<Timestamp>) -> Shut {
    Shut { reason: text("wait a moment"), since, until }
}
