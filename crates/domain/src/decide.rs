//! The rules: what a command does to a task, or why it does nothing.

mod agent;
mod birth;
mod certainty;
mod claim;
mod edit;
mod ending;
mod graph;
mod landing;
mod person;
mod review;
mod spend;
mod supervisor;
mod time;
mod verifier;
mod wake;

use crate::command::{Command, Expect, Proof};
use crate::ids::{AttemptId, RunId};
use crate::refusal::Refusal;
use crate::run::{Held, Run, RunState};
use crate::scene::{Decision, Lease, Scene};
use crate::task::Flow;
use crate::time::Timestamp;

pub use time::due_at;

/// Decides a command: the same scene, command and time always give the same answer.
pub fn decide(scene: &Scene<'_>, command: &Command, now: Timestamp) -> Result<Decision, Refusal> {
    match command {
        Command::Create(task) => birth::create(scene, task, now),
        Command::Claim(wish) => claim::claim(scene, known(scene)?, wish, now),
        Command::Expect(expected) => expect(known(scene)?, expected),
        Command::Person(says) => person::decide(scene, known(scene)?, says, now),
        Command::Agent(proof, says) => agent::decide(scene, &grip(scene, proof, now)?, says, now),
        Command::Supervisor(proof, says) => supervisor::decide(scene, proof, says, now),
        Command::Verifier(proof, verdict) => {
            verifier::decide(scene, &grip(scene, proof, now)?, verdict, now)
        }
        Command::Time(says) => time::decide(scene, known(scene)?, says, now),
    }
}

/// What else an order asks for was asked of the task as it was.
fn expect(flow: &Flow, expected: &Expect) -> Result<Decision, Refusal> {
    if expected.version.is_some_and(|version| version != flow.version) {
        return Err(Refusal::VersionChanged { version: flow.version });
    }
    let live = flow.run.as_ref().map(|run| run.number);
    if expected.run.is_some() && expected.run != live {
        let live = live.map(|number| RunId { task: flow.id, number });
        return Err(Refusal::RunChanged { live });
    }
    Ok(Decision::default())
}

/// The task that a command is about.
fn known<'a>(scene: &Scene<'a>) -> Result<&'a Flow, Refusal> {
    scene.task.map(|task| &task.flow).ok_or(Refusal::NotFound)
}

/// A run in the hands of its attempt.
struct Grip<'a> {
    flow: &'a Flow,
    run: &'a Run,
    held: &'a Held,
    lease: &'a Lease,
}

/// The one fence: whoever is not the present attempt, or came too late, changes nothing.
fn grip<'a>(scene: &Scene<'a>, proof: &Proof, now: Timestamp) -> Result<Grip<'a>, Refusal> {
    let grip = present(scene).ok_or(Refusal::LeaseLost)?;
    let proved = match proof {
        Proof::Token { attempt, nonce } => {
            *attempt == grip.held.attempt && *nonce == grip.lease.nonce
        }
        Proof::Caller { attempt, principal } => {
            *attempt == grip.held.attempt && *principal == grip.lease.holder
        }
    };
    if proved && now < grip.lease.ends_at(scene.amnesty) {
        return Ok(grip);
    }
    Err(Refusal::LeaseLost)
}

/// The attempt that holds the run now, whoever asks.
fn present<'a>(scene: &Scene<'a>) -> Option<Grip<'a>> {
    let flow = &scene.task?.flow;
    let run = flow.run.as_ref()?;
    let RunState::Held(held) = &run.state else { return None };
    Some(Grip { flow, run, held, lease: scene.lease? })
}

fn attempt_id(flow: &Flow, held: &Held) -> AttemptId {
    AttemptId { task: flow.id, number: held.attempt }
}
