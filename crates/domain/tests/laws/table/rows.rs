//! Everything that can be said, one row each.

use baton_domain::command::{Agent, Command, Expect, Patch, Person, Proof, Supervisor, Time};
use baton_domain::contract::Submission;
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::{Digest, Nonce, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::reaction::{Cause, Reaction};
use baton_domain::run::{Cap, Death, Mark, Why};
use baton_domain::task::{Ending, Hold};
use baton_domain::time::Millis;

use crate::cast::{
    abandon, binding, block, capability, capable, claim, code, complete, fail, guarded, hold, lost,
    message, move_to, note, one_gate, pass, person, principal, progress, proved, reason, release,
    snapshot, solo, stopped, text, verdict, waiver, wanting, worker,
};

use super::columns::Column;

/// Something that can be said.
pub struct Row {
    pub label: &'static str,
    /// Whether the contract of the task has lines.
    pub lines: bool,
    /// How much later it is said.
    pub later: Millis,
    pub command: fn(&Column) -> Command,
}

fn row(label: &'static str, command: fn(&Column) -> Command) -> Row {
    Row { label, lines: false, later: Millis(0), command }
}

fn lines(label: &'static str, command: fn(&Column) -> Command) -> Row {
    Row { lines: true, ..row(label, command) }
}

fn later(label: &'static str, later: Millis, command: fn(&Column) -> Command) -> Row {
    Row { later, ..row(label, command) }
}

fn says(says: Person) -> Command {
    Command::Person(says)
}

fn edit(patch: Patch) -> Command {
    says(Person::Edit(Box::new(patch)))
}

fn takes(wants: Wants, claimant: Claimant) -> Command {
    claim(wanting(wants, claimant), 7)
}

fn agent(column: &Column, says: Agent) -> Command {
    Command::Agent(column.proof(), says)
}

fn supervisor(column: &Column, says: Supervisor) -> Command {
    Command::Supervisor(column.proof(), says)
}

fn expect(version: Option<u64>, run: Option<u32>) -> Command {
    Command::Expect(Expect { version, run })
}

fn reacts(column: &Column, cause: Cause) -> Command {
    Command::Time(Time::React(Reaction { to: column.id, from: column.other, cause }))
}

/// What a person may say.
pub fn people() -> Vec<Row> {
    vec![
        row("edit title", |_| edit(Patch { title: Some(text("new")), ..Patch::default() })),
        row("edit higher caps", |_| {
            let policy = Policy { continuations_max: 50, attempts_max: 10, ..Policy::default() };
            edit(Patch { policy: Some(policy.into()), ..Patch::default() })
        }),
        row("edit contract", |_| {
            // The same words in another text: a contract that is another one everywhere.
            let other = Digest::new(&"cd".repeat(32)).expect("64 hex digits");
            let contract = Some((one_gate(), other));
            edit(Patch { contract, ..Patch::default() })
        }),
        row("expect another run", |_| expect(None, Some(99))),
        row("expect another version", |_| expect(Some(0), None)),
        row("publish", |_| says(Person::Publish)),
        row("approve", |_| says(Person::Approve)),
        row("move to coding", |_| says(move_to("coding"))),
        row("move to qa", |_| says(move_to("qa"))),
        row("move to backlog", |_| says(Person::Move { to: None, start_at: None })),
        row("move to nowhere", |_| says(move_to("nowhere"))),
        row("freeze", |_| says(hold(Hold::Frozen, true))),
        row("unfreeze", |_| says(hold(Hold::Frozen, false))),
        row("review", |_| says(hold(Hold::Review, true))),
        row("unreview", |_| says(hold(Hold::Review, false))),
        row("close", |_| says(abandon())),
        row("close as done", |_| says(Person::Close(Ending::Done { verified: false }))),
        row("archive", |_| says(Person::Archive)),
        row("depend", |c| says(Person::Depend { on: c.other, wait: true })),
        row("depend no more", |c| says(Person::Depend { on: c.other, wait: false })),
        row("depend on itself", |c| says(Person::Depend { on: c.id, wait: true })),
        row("depend on nothing", |_| says(Person::Depend { on: TaskId(99), wait: true })),
        row("answer", |_| says(Person::Answer(message()))),
        row("unblock", |_| says(Person::Unblock(reason()))),
        row("cancel", |_| says(Person::Cancel(reason()))),
        row("retry", |_| says(Person::Retry(reason()))),
        lines("waive", |_| says(Person::Waive(vec![waiver()]))),
        lines("waive nothing", |_| says(Person::Waive(vec![]))),
        row("release", |_| says(Person::Release(reason()))),
        row("fail", |_| says(Person::Fail { code: code(), reason: reason() })),
    ]
}

/// What a claimer may want.
pub fn claims() -> Vec<Row> {
    vec![
        row("ready, solo", |_| takes(Wants::Ready, solo())),
        row("ready, worker", |_| takes(Wants::Ready, worker())),
        row("any, worker", |_| takes(Wants::ReadyOrBlocked, worker())),
        row("any, person", |_| takes(Wants::ReadyOrBlocked, person())),
        row("blocked, worker", |_| takes(Wants::Blocked, worker())),
        row("blocked, capable", |_| takes(Wants::Blocked, capable())),
        row("blocked, person", |_| takes(Wants::Blocked, person())),
        row("probe, worker", |_| takes(Wants::Probe, worker())),
        row("probe, solo", |_| takes(Wants::Probe, solo())),
        row("submitted, worker", |_| takes(Wants::Submitted, worker())),
        row("submitted, solo", |_| takes(Wants::Submitted, solo())),
    ]
}

/// What the agent of an attempt may say.
pub fn agents() -> Vec<Row> {
    vec![
        row("begin", |c| agent(c, Agent::Begin)),
        row("progress", |c| agent(c, progress())),
        row("checkpoint", |c| agent(c, note())),
        row("ask", |c| agent(c, Agent::Ask(message()))),
        row("receive", |c| agent(c, Agent::Receive(Mark::Applied))),
        row("withdraw", |c| agent(c, Agent::Withdraw)),
        row("block input", |c| agent(c, block(Why::NeedsInput))),
        row("block capability", |c| agent(c, block(Why::Capability { needs: capability("gpu") }))),
        row("block transient", |c| {
            let until = c.world.now + Millis::hours(1);
            agent(c, block(Why::Transient { until }))
        }),
        row("block dependency", |c| agent(c, block(Why::Dependency { on: c.other }))),
        row("fail", |c| agent(c, fail())),
        row("complete, no lines", |c| agent(c, complete())),
        lines("complete, lines", |c| agent(c, complete())),
        lines("complete, other hash", |c| {
            let contract = Digest::new(&"00".repeat(32)).ok();
            let submission = Submission { contract, ..Submission::default() };
            agent(c, Agent::Complete { summary: None, submission })
        }),
        row("late: complete", |c| {
            let attempt = c.proof().attempt().saturating_sub(1);
            let nonce = Nonce(u128::from(attempt) + 999);
            Command::Agent(Proof::Token { attempt, nonce }, complete())
        }),
        later("expired: complete", Millis::hours(25), |c| agent(c, complete())),
        row("forged: complete", |c| {
            let attempt = c.proof().attempt();
            Command::Agent(Proof::Token { attempt, nonce: Nonce(1) }, complete())
        }),
        row("other caller", |c| {
            let attempt = c.proof().attempt();
            let principal = principal("somebody-else");
            Command::Agent(Proof::Caller { attempt, principal }, complete())
        }),
    ]
}

/// What the supervisor of an attempt may say.
pub fn supervisors() -> Vec<Row> {
    vec![
        row("renew", |c| supervisor(c, Supervisor::Renew { lease: None })),
        row("heard", |c| supervisor(c, Supervisor::Heard { seq: 1 })),
        row("heard before", |c| supervisor(c, Supervisor::Heard { seq: 0 })),
        row("report", |c| supervisor(c, Supervisor::Report(Sight::Streaming))),
        row("spend", |c| supervisor(c, Supervisor::Spend { total_micros: 5 })),
        row("timed out, stream", |c| supervisor(c, Supervisor::TimedOut(Deadline::StreamIdle))),
        row("timed out, input", |c| supervisor(c, Supervisor::TimedOut(Deadline::UserInput))),
        row("exceeded, turns", |c| supervisor(c, Supervisor::Exceeded(Cap::Turns))),
        row("exited", |c| supervisor(c, Supervisor::Exited)),
        row("lost", |c| supervisor(c, lost())),
        row("stopped, proof", |c| supervisor(c, proved())),
        row("stopped, none", |c| supervisor(c, stopped(Death::None, false))),
        row("stopped, survivor", |c| supervisor(c, stopped(Death::None, true))),
        row("release", |c| supervisor(c, release())),
        row("release until", |c| {
            let until = Some(c.world.now + Millis::hours(1));
            supervisor(c, Supervisor::Release { reason: reason(), until })
        }),
        row("probed, met", |c| supervisor(c, Supervisor::Probed { met: true })),
        row("probed, not met", |c| supervisor(c, Supervisor::Probed { met: false })),
        row("snapshot", |c| supervisor(c, snapshot())),
        row("bind", |c| supervisor(c, binding())),
        row("unbound", |c| supervisor(c, Supervisor::Unbound(reason()))),
        row("late: renew", |c| {
            let attempt = c.proof().attempt().saturating_sub(1);
            let nonce = Nonce(u128::from(attempt) + 999);
            let proof = Proof::Token { attempt, nonce };
            Command::Supervisor(proof, Supervisor::Renew { lease: None })
        }),
        row("late: snapshot", |c| {
            let attempt = c.proof().attempt().saturating_sub(1);
            let proof = Proof::Token { attempt, nonce: Nonce(u128::from(attempt) + 999) };
            Command::Supervisor(proof, snapshot())
        }),
        later("expired: proof", Millis::hours(25), |c| supervisor(c, proved())),
        row("nobody: spend", |_| {
            let nobody = Proof::Token { attempt: 0, nonce: Nonce(0) };
            Command::Supervisor(nobody, Supervisor::Spend { total_micros: 5 })
        }),
        lines("verdict, holds", |c| Command::Verifier(c.proof(), verdict(true, c.world.now))),
        lines("verdict, to be reviewed", |c| Command::Verifier(c.proof(), guarded(c.world.now))),
        lines("verdict, fails", |c| Command::Verifier(c.proof(), verdict(false, c.world.now))),
    ]
}

/// What time and other tasks may say.
pub fn times() -> Vec<Row> {
    vec![
        row("pass, now", |_| pass()),
        later("pass, 2 min later", Millis::minutes(2), |_| pass()),
        later("pass, 4 min later", Millis::minutes(4), |_| pass()),
        later("pass, 40 d later", Millis::hours(24 * 40), |_| pass()),
        row("dependency met", |c| reacts(c, Cause::DependencySettled { met: true })),
        row("dependency failed", |c| reacts(c, Cause::DependencySettled { met: false })),
        row("child ended", |c| reacts(c, Cause::ChildSettled)),
        row("woken", |c| reacts(c, Cause::Wake { ended: true, by: None })),
    ]
}
