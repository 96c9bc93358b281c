//! An agent's word is never a gate: what was submitted is checked by somebody else.

use std::collections::BTreeMap;

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, NewTask, Person, Supervisor, Verdict};
use baton_domain::contract::{Artifact, Contract, Finding, Receipt, Submission, Term};
use baton_domain::ids::{Digest, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::refusal::Missing;
use baton_domain::run::{Block, Death, Idle, Purpose, RunState, Why};
use baton_domain::task::Ending;
use baton_domain::time::Millis;
use baton_store::read::About;
use baton_store::{Aim, Committed};

use crate::dump::assert_same;
use crate::laws::held;
use crate::words::{checkpoint, line, ready, solo, text, worker};
use crate::world::{Grip, World};

fn digest(digit: &str) -> Digest {
    Digest::new(&digit.repeat(64)).expect("hex digits make a digest")
}

/// A task that is done once two reports are there and somebody agreed.
fn with_contract() -> NewTask {
    let report = |path| Term::Artifact { path: text(path), bytes_min: 10, schema: None };
    let lines = BTreeMap::from([
        (line("report"), report("out/report.md")),
        (line("review"), Term::Gate { command: text("make sure"), timeout: Millis::minutes(1) }),
        (line("summary"), report("out/summary.md")),
    ]);
    NewTask { contract: Some((Contract { lines }, digest("a"))), ..ready("proven") }
}

fn submit(bytes: &[(&str, u64)]) -> Agent {
    let artifact = |(path, bytes): &(&str, u64)| Artifact {
        path: text(path),
        digest: digest("d"),
        bytes: *bytes,
    };
    let artifacts = bytes.iter().map(artifact).collect();
    let submission = Submission { tree: Some(text("4b825dc6")), artifacts, contract: None };
    Agent::Complete { summary: Some(text("done")), submission }
}

fn everything() -> Agent {
    submit(&[("out/report.md", 10), ("out/summary.md", 99)])
}

fn wanting(wants: Wants) -> Claimant {
    Claimant { wants, ..worker("checker") }
}

impl World {
    async fn idle(&self, task: TaskId) -> Option<Idle> {
        match &self.row(task).await.flow.run.as_ref()?.state {
            RunState::Idle(idle) => Some(idle.clone()),
            RunState::Held(_) => None,
        }
    }

    async fn verdict(&self, grip: &Grip, holds: bool) -> Result<Committed, Refusal> {
        self.verdict_on(grip, &["report", "review", "summary"], holds).await
    }

    async fn verdict_on(
        &self,
        grip: &Grip,
        lines: &[&str],
        holds: bool,
    ) -> Result<Committed, Refusal> {
        let finding = if holds {
            Finding::Holds { evidence: Some(digest("e")) }
        } else {
            Finding::Fails { reason: text("it does not"), evidence: None }
        };
        let receipt = |name: &&str| Receipt {
            line: line(name),
            finding: finding.clone(),
            at: self.now(),
            signed: None,
        };
        let receipts = lines.iter().map(receipt).collect();
        let verdict = Command::Verifier(grip.proof(), Verdict { receipts, ..Verdict::default() });
        self.ask(Aim::Task(grip.task, vec![verdict])).await
    }

    /// The version of the last entry that tells of a line.
    async fn receipt(&self, task: TaskId, name: &str) -> Option<u64> {
        let told = self.store().receipt(&self.tenant, task, &line(name)).await;
        let told = told.expect("reading works");
        assert_eq!(told.as_of, self.head().await);
        let About::Task(own, version) = told.what?.about else { panic!("it is about a task") };
        assert_eq!(own, task);
        Some(version)
    }

    /// A submission that waits for somebody to check it.
    async fn submitted(&self) -> TaskId {
        let task = self.make(with_contract()).await;
        let grip = self.take(task, &solo("bob")).await.expect("it is queued");
        self.agent(&grip, everything()).await.expect("nothing is missing");
        task
    }
}

pub async fn a_refused_completion_lists_all_that_is_missing_and_changes_nothing(world: &World) {
    let task = world.make(with_contract()).await;
    let grip = world.take(task, &solo("bob")).await.expect("it is queued");
    let before = world.dump().await;
    let refused = world.agent(&grip, submit(&[("out/report.md", 9)])).await.err();
    let missing = |name, code, path: &str| Missing { line: line(name), code, path: path.into() };
    let all = vec![
        missing("report", "artifact_too_small", "out/report.md"),
        missing("summary", "artifact_missing", "out/summary.md"),
    ];
    assert_eq!(refused, Some(Refusal::Incomplete { missing: all }));
    assert_same(&before, &world.dump().await, "a refused completion");
    world.agent(&grip, everything()).await.expect("the lease is as it was");
}

pub async fn a_submission_is_done_once_somebody_else_has_checked_it(world: &World) {
    let task = world.submitted().await;
    assert!(matches!(world.idle(task).await, Some(Idle::Submitted(_))));
    assert_eq!(world.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
    let checker = world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    let row = world.row(task).await;
    assert_eq!(held(&row.flow).map(|held| held.purpose), Some(Purpose::Verify));
    world.verdict(&checker, true).await.expect("the checker holds it");
    let ending = world.row(task).await.flow.ending().cloned();
    assert_eq!(ending, Some(Ending::Done { verified: true }));
}

pub async fn a_rejected_submission_is_queued_again(world: &World) {
    let task = world.submitted().await;
    let checker = world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    world.verdict(&checker, false).await.expect("the checker holds it");
    let row = world.row(task).await;
    let run = row.flow.run.as_ref().expect("it is tried again");
    assert_eq!((run.word(), run.tally.faults), ("queued", 1));
    assert_eq!(world.claim(&solo("bob")).await.map(|grip| grip.attempt), Ok(3));
}

pub async fn the_last_receipt_of_a_line_is_found_however_old_it_is(world: &World) {
    let other = world.submitted().await;
    let checker = world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    world.verdict(&checker, true).await.expect("the checker holds it");
    let task = world.make(with_contract()).await;
    let grip = world.take(task, &worker("bob")).await.expect("it is queued");
    assert_eq!(world.receipt(task, "review").await, None, "the contract names it, nobody checked");
    let checked = async |lines: &[&str]| {
        world.agent(&grip, everything()).await.expect("nothing is missing");
        world.verdict_on(&grip, lines, false).await.expect("bob's worker holds it");
        world.row(task).await.flow.version
    };
    let first = checked(&["report", "review", "summary"]).await;
    let second = checked(&["report"]).await;
    for step in 0..20 {
        // What is said about a line is no receipt of it.
        let note = checkpoint(&format!("{step}: \"line\":\"review\" and review"));
        world.agent(&grip, note).await.expect("bob holds it");
    }
    world.reopen();
    assert_eq!(world.receipt(task, "review").await, Some(first));
    assert_eq!(world.receipt(task, "report").await, Some(second));
    assert_eq!(world.receipt(task, "nothing").await, None);
    assert_eq!(world.receipt(TaskId(99), "report").await, None);
    assert_eq!(world.receipt(TaskId(0), "report").await, None, "records are no task");
    assert!(world.receipt(other, "review").await.is_some());
    let acme = world.tenant("acme").await;
    assert_eq!(acme.receipt(task, "report").await, None, "it is somebody else's");
}

pub async fn a_submission_that_was_parked_at_a_cap_is_the_same_when_it_is_unblocked(world: &World) {
    let policy = Policy { losses_max: 1, ..Policy::default() };
    let task = world.make(NewTask { policy, ..with_contract() }).await;
    let grip = world.take(task, &solo("bob")).await.expect("it is queued");
    world.agent(&grip, everything()).await.expect("nothing is missing");
    let before = world.idle(task).await;
    world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    world.wait(Millis::minutes(5)).await;
    assert!(matches!(world.idle(task).await, Some(Idle::Blocked(_))), "the cap is reached");
    world.reopen();
    world.tell(task, Person::Unblock(text("try it"))).await.expect("a person may");
    assert_eq!(world.idle(task).await, before);
    let checker = world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    world.verdict(&checker, true).await.expect("the checker holds it");
    assert!(world.row(task).await.flow.ending().is_some());
}

pub async fn a_checker_that_dies_leaves_the_submission_as_it_was(world: &World) {
    let task = world.submitted().await;
    let before = world.idle(task).await;
    world.claim(&wanting(Wants::Submitted)).await.expect("it waits for that");
    world.wait(Millis::minutes(5)).await;
    assert_eq!(world.idle(task).await, before);
    world.claim(&wanting(Wants::Submitted)).await.expect("it waits for the next one");
}

pub async fn a_supervised_completion_is_checked_under_its_own_lease(world: &World) {
    let task = world.make(with_contract()).await;
    let grip = world.take(task, &worker("bob")).await.expect("it is queued");
    world.agent(&grip, everything()).await.expect("nothing is missing");
    assert_eq!(world.state(&grip).await, "verifying");
    world.verdict(&grip, false).await.expect("bob's worker holds it");
    assert_eq!(world.state(&grip).await, "working", "the agent goes on with the evidence");
    world.agent(&grip, everything()).await.expect("nothing is missing");
    world.verdict(&grip, true).await.expect("bob's worker holds it");
    assert_eq!(world.state(&grip).await, "stopping");
    let dead = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    world.supervisor(&grip, dead).await.expect("bob's worker holds it");
    let ending = world.row(task).await.flow.ending().cloned();
    assert_eq!(ending, Some(Ending::Done { verified: true }));
}

pub async fn a_probe_returns_to_the_same_block_or_frees_the_run(world: &World) {
    let task = world.queued().await;
    let grip = world.take(task, &solo("bob")).await.expect("it is queued");
    let why = Why::NeedsInput;
    let condition = Some(text("test -f ready"));
    let parked = Agent::Block { why, reason: text("not there"), condition };
    world.agent(&grip, parked).await.expect("bob holds it");
    let before = world.idle(task).await;
    assert!(matches!(before, Some(Idle::Blocked(Block { condition: true, .. }))), "{before:?}");
    for met in [false, false, true] {
        assert_eq!(world.idle(task).await, before, "it is the same block, uncounted");
        let probe = world.claim(&wanting(Wants::Probe)).await.expect("there is a condition");
        let other = world.claim(&wanting(Wants::Probe)).await;
        assert_eq!(other, Err(Refusal::NothingClaimable), "one tries it at a time");
        let probed = Supervisor::Probed { met };
        world.supervisor(&probe, probed).await.expect("the prober holds it");
    }
    assert_eq!(world.idle(task).await, Some(Idle::Queued));
    let row = world.row(task).await;
    assert_eq!(row.flow.run.as_ref().map(|run| run.tally.tries), Some(1), "bob's try alone");
}
