//! The few names and texts that the simulation needs.

use baton_domain::command::NewTask;
use baton_domain::contract::{Contract, Finding, Receipt, Term};
use baton_domain::ids::{
    Capability, Digest, LineId, PrincipalId, ProjectId, StageName, TaskId, TenantId,
};
use baton_domain::policy::Policy;
use baton_domain::project::{Landing, PassedBy, Project, StageSpec, WorkedBy};
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use baton_store::{Actor, Kind as Caller};
use baton_testkit::chance::Chance;

pub fn tenant() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

pub fn name(word: &str) -> PrincipalId {
    PrincipalId::new(word).expect("a plain word is a name")
}

pub fn stage(word: &str) -> StageName {
    StageName::new(word).expect("a plain word is a name")
}

pub fn gpu() -> Capability {
    Capability::new("gpu").expect("a plain word is a name")
}

pub fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    Text::new("text", words).expect("plain words are a text")
}

pub fn actor(word: &str, kind: Caller) -> Actor {
    Actor { principal: name(word), kind, origin: text("simulation"), trace: None }
}

pub fn project_id() -> ProjectId {
    ProjectId::new("demo").expect("a plain word is a name")
}

/// Two stages: a person lets tasks pass the second one.
pub fn project() -> Project {
    let spec =
        |word, passed_by| StageSpec { name: stage(word), worked_by: WorkedBy::Agent, passed_by };
    Project {
        id: project_id(),
        root: None,
        pipeline: vec![spec("coding", PassedBy::Server), spec("qa", PassedBy::Person)],
        archive_after: Some(Millis::minutes(5)),
        promote: true,
        landing: Landing::default(),
    }
}

/// Small numbers, so that every cap is met.
pub fn policy(chance: &mut Chance) -> Policy {
    let continuations_max = if chance.chance(0.5) { 1 } else { 8 };
    let losses_max = if chance.chance(0.5) { 2 } else { 10 };
    Policy {
        attempts_max: if chance.chance(0.5) { 2 } else { 3 },
        continuations_max,
        losses_max,
        tries_max: if chance.chance(0.3) { 4 } else { 50 },
        stalls_max: if chance.chance(0.3) { 2 } else { 20 },
        setbacks_max: 3,
        turns_max: 200,
        tool_calls_max: 2_000,
        tokens_max: 10_000_000,
        backoff: Millis(1_000),
        backoff_max: Millis(8_000),
        lease: Millis(3_000 + chance.below(60_000)),
        wall: Millis(20_000 + chance.below(100_000)),
        input: Millis(5_000 + chance.below(20_000)),
        starved: Millis(20_000),
        budget_micros: if chance.chance(0.2) { 10 } else { 0 },
    }
}

/// A contract of an artifact and a gate.
pub fn contract() -> (Contract, Digest) {
    let line = |word| LineId::new(word).expect("a plain word is a name");
    let lines = [
        (line("made"), Term::Artifact { path: text("out.txt"), bytes_min: 1, schema: None }),
        (line("tests"), Term::Gate { command: text("true"), timeout: Millis::minutes(1) }),
    ];
    (Contract { lines: lines.into() }, digest())
}

pub fn digest() -> Digest {
    Digest::new(&"ab".repeat(32)).expect("it is hex")
}

/// One receipt for each line of the contract.
pub fn receipts(passes: bool, at: Timestamp) -> Vec<Receipt> {
    let finding = |holds: bool| match holds {
        true => Finding::Holds { evidence: None },
        false => Finding::Fails { reason: text("it is red"), evidence: None },
    };
    let of =
        |(line, holds): (LineId, bool)| Receipt { line, finding: finding(holds), at, signed: None };
    let lines = contract().0.lines.into_keys().enumerate();
    lines.map(|(number, line)| of((line, passes || number == 0))).collect()
}

/// A plain task; the person changes what it likes.
pub fn new_task(policy: Policy) -> NewTask {
    NewTask { policy, ..NewTask::new(project_id(), name("ann"), text("something to do")) }
}

/// One of these, if there are any.
pub fn one_of(chance: &mut Chance, tasks: &[TaskId]) -> Option<TaskId> {
    (!tasks.is_empty()).then(|| *chance.pick(tasks))
}
