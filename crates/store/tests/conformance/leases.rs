//! A holder proves itself on every call; whoever comes late changes nothing.

use baton_domain::Refusal;
use baton_domain::command::{
    Agent, Claim, Command, NewTask, Person, Proof, Report, Supervisor, Verdict,
};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::limits::AMNESTY;
use baton_domain::policy::Policy;
use baton_domain::run::{Cap, Death, Mark, Outcome, RunState, Why};
use baton_domain::time::Millis;
use baton_store::order::Swept;
use baton_store::read::About;
use baton_store::{Aim, Error};

use crate::dump::assert_same;
use crate::words::{
    block, checkpoint, complete, ready, retitle, snapshot, solo, stage, text, worker,
};
use crate::world::{Grip, World, as_caller};

const LEASE: Millis = Millis::minutes(5);

/// Everything that a holder could say.
fn everything(proof: &Proof) -> Vec<Command> {
    let agent = [
        Agent::Begin,
        Agent::Progress(Report { summary: Some(text("far")), ..Report::default() }),
        checkpoint("far"),
        Agent::Ask(text("how?")),
        Agent::Receive(Mark::Applied),
        block(Why::NeedsInput),
        Agent::Fail { code: text("oops"), reason: text("it broke") },
        complete(),
    ];
    let supervisor = [
        Supervisor::Renew { lease: None },
        Supervisor::Report(Sight::Streaming),
        Supervisor::TimedOut(Deadline::WallClock),
        Supervisor::Exceeded(Cap::Turns),
        Supervisor::Exited,
        Supervisor::Stopped { death: Death::None, survivor: false },
        Supervisor::Stopped { death: Death::Cgroup, survivor: true },
        Supervisor::Release { reason: text("enough"), until: None },
        Supervisor::Probed { met: true },
    ];
    let mut all: Vec<_> = agent.into_iter().map(|it| Command::Agent(proof.clone(), it)).collect();
    all.extend(supervisor.into_iter().map(|it| Command::Supervisor(proof.clone(), it)));
    all.push(Command::Verifier(proof.clone(), Verdict::default()));
    all
}

impl World {
    async fn is_refused_everything(&self, grip: &Grip, proof: &Proof) {
        let before = self.dump().await;
        for command in everything(proof) {
            let shown = format!("{command:?}");
            let answer = self.ask(Aim::Task(grip.task, vec![command])).await;
            assert_eq!(answer.err(), Some(Refusal::LeaseLost), "{shown}");
        }
        assert_same(&before, &self.dump().await, "a stale holder");
    }

    /// The words of the run's state.
    pub async fn state(&self, grip: &Grip) -> &'static str {
        self.row(grip.task).await.flow.run.as_ref().map_or("none", |run| run.word())
    }
}

pub async fn parking_clears_holder_lease_and_nonce(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    let parked = world.agent(&grip, block(Why::NeedsInput)).await.expect("bob holds it");
    assert_eq!(parked.lease, None, "the answer shows none");
    let row = world.row(task).await;
    assert_eq!(row.lease, None, "the row has none");
    let state = &row.flow.run.as_ref().expect("the run is parked, not finished").state;
    assert!(matches!(state, RunState::Idle(_)), "nobody holds it: {state:?}");
    world.is_refused_everything(&grip, &grip.proof()).await;
    world.is_refused_everything(&grip, &as_caller(grip.attempt, "bob")).await;
}

pub async fn an_expired_lease_frees_the_run(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.wait(Millis(LEASE.0 - 1)).await;
    assert_eq!(world.state(&grip).await, "leased");
    world.silence(Millis(1));
    assert_eq!(world.sweep().await, Swept { due: 1, reactions: 0, more: false });
    let row = world.row(task).await;
    assert_eq!((world.state(&grip).await, row.lease), ("queued", None));
    let next = world.claim(&solo("eve")).await.expect("it is free");
    assert_eq!((next.task, next.attempt), (task, 2), "an attempt's number is never used again");
}

pub async fn an_expired_holder_is_refused_even_before_the_sweep(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.wait(Millis(LEASE.0 - 1)).await;
    world.silence(Millis(1));
    world.is_refused_everything(&grip, &grip.proof()).await;
    let held = world.take(task, &solo("eve")).await.err();
    assert!(matches!(held, Some(Refusal::Held { .. })), "only a sweep frees the run: {held:?}");
}

pub async fn a_stale_holder_is_refused_everywhere(world: &World) {
    world.queued().await;
    let stale = world.claim(&solo("bob")).await.expect("there is work");
    world.wait(LEASE).await;
    let fresh = world.claim(&solo("eve")).await.expect("the lease expired");
    assert_eq!(stale.task, fresh.task);
    world.is_refused_everything(&stale, &stale.proof()).await;
    world.is_refused_everything(&stale, &as_caller(stale.attempt, "bob")).await;
    let guess = Proof::Token { attempt: fresh.attempt, nonce: stale.nonce };
    world.is_refused_everything(&stale, &guess).await;
    world.is_refused_everything(&stale, &as_caller(fresh.attempt, "bob")).await;
    world.agent(&fresh, complete()).await.expect("eve holds it, untouched");
}

pub async fn a_late_proof_of_death_lifts_the_quarantine(world: &World) {
    let policy = Policy { lease: Millis::seconds(20), ..Policy::default() };
    let task = world.make(NewTask { policy, ..ready("short") }).await;
    let stale = world.claim(&worker("bob")).await.expect("there is work");
    world.wait(Millis::seconds(20)).await;
    let fresh = world.claim(&worker("eve")).await.expect("the lease expired");
    let row = world.row(task).await;
    assert!(row.flow.unproven.contains(&1), "nobody saw it die");
    assert_eq!(row.flow.generation, 1, "the next attempt gets another worktree");
    let dead = Supervisor::Stopped { death: Death::PidNamespace, survivor: false };
    let late = world.supervisor(&stale, dead.clone()).await.expect("proof is welcome late");
    assert!(late.position.is_some());
    let row = world.row(task).await;
    assert!(row.flow.unproven.is_empty());
    assert_eq!(row.lease.map(|lease| lease.attempt), Some(fresh.attempt), "eve holds it still");
    let again = world.supervisor(&stale, dead).await.expect("repeating is no refusal");
    assert_eq!(again.position, None);
}

pub async fn renewals_leave_no_entry_and_no_version(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    let (before, entries) = (world.row(task).await, world.entries().await.len());
    world.silence(Millis::seconds(100));
    let renewed = world.supervisor(&grip, Supervisor::Renew { lease: None }).await;
    let renewed = renewed.expect("bob holds it");
    assert_eq!((renewed.position, renewed.task.as_deref()), (None, Some(&*before.flow)));
    let after = world.row(task).await;
    assert_eq!((after.flow, world.entries().await.len()), (before.flow, entries));
    let expiry = |lease: Option<baton_store::read::LeaseRow>| lease.map(|it| it.expires_at);
    assert_eq!(expiry(after.lease), expiry(before.lease).map(|at| at + Millis::seconds(100)));
    let longer = Supervisor::Renew { lease: Some(Millis::hours(1)) };
    world.supervisor(&grip, longer).await.expect("bob may ask for more");
    assert_eq!(expiry(world.row(task).await.lease), Some(world.now() + Millis::hours(1)));
}

pub async fn what_was_heard_is_not_heard_again(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&worker("bob")).await.expect("there is work");
    let says = |seq| {
        let word = |says| Command::Supervisor(grip.proof(), says);
        let commands =
            vec![word(Supervisor::Heard { seq }), word(Supervisor::Report(Sight::Streaming))];
        world.ask(Aim::Task(task, commands))
    };
    let heard = says(3).await.expect("it is new");
    assert_eq!(heard.lease.map(|lease| lease.heard), Some(3));
    let before = world.dump().await;
    for old in [1, 2, 3] {
        assert_eq!(says(old).await.err(), Some(Refusal::HeardBefore { heard: 3 }), "{old}");
    }
    assert_same(&before, &world.dump().await, "what was heard before");
    let renewed = world.supervisor(&grip, Supervisor::Renew { lease: None }).await;
    let lease = renewed.expect("bob holds it").lease.expect("it is held");
    assert_eq!(lease.heard, 3, "a renewal forgets nothing");
    says(4).await.expect("it is new");
    let refused = [
        Command::Supervisor(grip.proof(), Supervisor::Heard { seq: 9 }),
        Command::Agent(as_caller(grip.attempt, "eve"), complete()),
    ];
    let refused = world.ask(Aim::Task(task, refused.into())).await.err();
    assert_eq!(refused, Some(Refusal::LeaseLost), "eve does not hold it");
    says(5).await.expect("what was refused was not heard");
}

pub async fn a_late_snapshot_joins_history_and_changes_nothing_else(world: &World) {
    let policy = Policy { lease: Millis::seconds(20), ..Policy::default() };
    let task = world.make(NewTask { policy, ..ready("short") }).await;
    let stale = world.claim(&worker("bob")).await.expect("there is work");
    world.wait(Millis::seconds(20)).await;
    let fresh = world.claim(&worker("eve")).await.expect("the lease expired");
    let before = world.row(task).await;
    let kept = snapshot("what there was");
    world.supervisor(&stale, kept.clone()).await.expect("a snapshot is welcome late");
    let row = world.row(task).await;
    assert_eq!((&row.flow.run, row.lease), (&before.flow.run, before.lease), "eve goes on");
    let history = world.history(task).await;
    let late = history.iter().find_map(|past| match past {
        Past::Checkpoint(kept) => Some((kept.number, kept.attempt)),
        Past::Attempt(_) | Past::Run(_) => None,
    });
    assert_eq!(late, Some((1, stale.attempt)));
    let by_name = Command::Supervisor(as_caller(stale.attempt, "bob"), kept);
    let refused = world.ask(Aim::Task(task, vec![by_name])).await.err();
    assert_eq!(refused, Some(Refusal::LeaseLost), "only a token tells who that was");
    world.agent(&fresh, complete()).await.expect("eve holds it");
}

pub async fn a_renewed_lease_lives_on(world: &World) {
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    for _ in 0..4 {
        world.wait(Millis(LEASE.0 / 2)).await;
        let renew = Supervisor::Renew { lease: None };
        world.supervisor(&grip, renew).await.expect("the lease lives");
    }
    world.wait(Millis(LEASE.0 - 1)).await;
    assert_eq!(world.state(&grip).await, "leased");
    world.wait(Millis(1)).await;
    assert_eq!(world.state(&grip).await, "queued");
}

pub async fn a_lease_is_as_long_as_it_was_asked_for(world: &World) {
    let policy = Policy { lease: Millis::seconds(20), ..Policy::default() };
    let task = world.make(NewTask { policy, ..ready("short") }).await;
    world.claim(&solo("bob")).await.expect("there is work");
    let ends = world.row(task).await.lease.map(|lease| lease.expires_at);
    assert_eq!(ends, Some(world.now() + Millis::seconds(20)), "the task's own choice");
    let other = world.queued().await;
    let wish = Claim { lease: Some(Millis::seconds(3)), ..world.wish(&solo("bob")) };
    world.grip(Aim::Next(wish)).await.expect("there is work");
    let ends = world.row(other).await.lease.map(|lease| lease.expires_at);
    assert_eq!(ends, Some(world.now() + Millis::seconds(3)), "the claimer's choice");
}

pub async fn nobody_loses_a_lease_to_a_silence_of_all_servers(world: &World) {
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.silence(Millis::hours(2));
    assert_eq!(world.sweep().await, Swept::default(), "nothing expires in the first sweep");
    let renew = || Supervisor::Renew { lease: Some(Millis::seconds(10)) };
    world.supervisor(&grip, renew()).await.expect("the amnesty keeps the lease alive");
    world.wait(Millis(AMNESTY.0 - 1)).await;
    world.supervisor(&grip, renew()).await.expect("the amnesty outlasts a short lease");
    world.wait(Millis::seconds(10)).await;
    assert_eq!(world.state(&grip).await, "queued", "after the amnesty leases end as ever");
}

pub async fn whoever_is_heard_first_after_a_silence_holds_still(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.silence(Millis::hours(2));
    let late = world.take(task, &solo("eve")).await.err();
    assert!(matches!(late, Some(Refusal::Held { .. })), "no server was there to free it: {late:?}");
    world.agent(&grip, checkpoint("here I am")).await.expect("bob holds it still");
    world.agent(&grip, complete()).await.expect("bob holds it still");
    assert!(world.row(task).await.flow.ending().is_some());
}

pub async fn an_amnesty_ends_by_itself(world: &World) {
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.silence(Millis::hours(2));
    world.sweep().await;
    world.wait(Millis(AMNESTY.0 - 1)).await;
    assert_eq!(world.state(&grip).await, "leased");
    world.wait(Millis(1)).await;
    assert_eq!(world.state(&grip).await, "queued");
    world.is_refused_everything(&grip, &grip.proof()).await;
}

pub async fn a_short_pause_between_sweeps_brings_no_amnesty(world: &World) {
    world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.wait(Millis(LEASE.0 - 5_000)).await;
    world.silence(Millis::seconds(5));
    assert_eq!(world.sweep().await.due, 1);
    assert_eq!(world.state(&grip).await, "queued");
}

pub async fn a_stopping_attempt_counts_as_its_verdict_when_its_lease_ends(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&worker("bob")).await.expect("there is work");
    world.agent(&grip, complete()).await.expect("bob holds it");
    assert_eq!(world.state(&grip).await, "stopping");
    world.wait(LEASE).await;
    let row = world.row(task).await;
    assert!(row.flow.ending().is_some(), "the verdict was: completed");
    assert!(row.flow.unproven.contains(&1), "nobody proved its death");
    let history = world.history(task).await;
    let Some(Past::Attempt(attempt)) = history.first() else { panic!("{history:?}") };
    assert!(matches!(attempt.outcome, Outcome::Completed { .. }), "{attempt:?}");
    assert_eq!(attempt.death, Some(Death::None));
}

pub async fn a_second_sweep_finds_nothing(world: &World) {
    world.queued().await;
    let policy = Policy { starved: Millis::seconds(30), ..Policy::default() };
    let starving =
        NewTask { policy, assignee: Some(crate::words::principal("eve")), ..ready("hungry") };
    world.make(starving).await;
    let later = Some(world.now() + Millis::seconds(3));
    world
        .make(NewTask { start_at: later, start_in: Some(stage("coding")), ..ready("later") })
        .await;
    world.claim(&solo("bob")).await.expect("there is work");
    world.wait(Millis(LEASE.0)).await;
    let before = (world.dump().await, world.rung().await);
    for _ in 0..2 {
        assert_eq!(world.sweep().await, Swept::default(), "nothing is due");
        world.silence(Millis::seconds(1));
    }
    assert_same(&before.0, &world.dump().await, "a converged system");
    assert_eq!(world.rung().await, vec![], "nothing became claimable");
}

pub async fn a_bounded_sweep_tells_what_it_left(world: &World) {
    for _ in 0..5 {
        world.queued().await;
        let wish = Claim { lease: Some(Millis::seconds(2)), ..world.wish(&solo("bob")) };
        world.grip(Aim::Next(wish)).await.expect("there is work");
    }
    world.silence(Millis::seconds(2));
    assert_eq!(world.sweep_some(2).await, Swept { due: 2, reactions: 0, more: true });
    assert_eq!(world.sweep_some(2).await, Swept { due: 2, reactions: 0, more: true });
    assert_eq!(world.sweep_some(2).await, Swept { due: 1, reactions: 0, more: false });
}

pub async fn what_was_due_first_happens_first_and_then_what_is_owed(world: &World) {
    let waits = NewTask { depends_on: [TaskId(4)].into(), ..ready("waits") };
    for (seconds, holder) in
        [(3, worker("bob")), (2, worker("bob")), (4, worker("bob")), (3, solo("bob"))]
    {
        world.queued().await;
        let lease = Some(Millis::seconds(seconds));
        let wish = Claim { lease, ..world.wish(&holder) };
        world.grip(Aim::Next(wish)).await.expect("there is work");
    }
    let task = world.make(waits).await;
    let proof = as_caller(1, "bob");
    let done = Command::Agent(proof, complete());
    world.ask(Aim::Task(TaskId(4), vec![done])).await.expect("bob holds it");
    let before = world.entries().await.len();
    world.silence(Millis::seconds(4));
    assert_eq!(world.sweep().await, Swept { due: 3, reactions: 1, more: false });
    let order: Vec<_> = world.entries().await[before..].iter().map(|it| it.about).collect();
    let about = |(id, version): (u64, u64)| About::Task(TaskId(id), version);
    let expected = [(2, 3), (1, 3), (3, 3), (task.0, 2)].map(about);
    assert_eq!(order, expected);
}

/// Far more sweeps than there is time for while somebody who was in the way is left alone.
const SWEEPS_MAX: u32 = 100_000;

pub async fn of_a_completion_and_an_expiry_one_counts(world: &World) {
    for _ in 0..8 {
        let task = world.queued().await;
        let wish = Claim { lease: Some(Millis::seconds(2)), ..world.wish(&solo("bob")) };
        let grip = world.grip(Aim::Next(wish)).await.expect("there is work");
        world.silence(Millis(1_999));
        let (sweeper, clock, holder) = (world.clone(), world.clone(), world.clone());
        let swept = tokio::spawn(async move {
            clock.silence(Millis(1));
            sweeper.sweep().await
        });
        let done = tokio::spawn(async move { holder.agent(&grip, complete()).await });
        let swept = swept.await.expect("no sweep panics");
        let done = done.await.expect("no agent panics");
        let flow = world.row(task).await.flow;
        match done {
            Ok(_) => assert!(flow.ending().is_some() && swept.due == 0, "{swept:?}"),
            Err(refusal) => {
                // A sweep may step over what somebody holds at that moment, and comes back to it.
                let (mut due, mut sweeps) = (swept.due, 1);
                while due == 0 && sweeps < SWEEPS_MAX {
                    due = world.sweep().await.due;
                    sweeps += 1;
                }
                assert_eq!((refusal, due), (Refusal::LeaseLost, 1));
            }
        }
        world.tell(task, retitle("next")).await.ok();
        world.tell(task, Person::Cancel(text("next"))).await.ok();
    }
}

pub async fn a_sweep_is_by_the_clock_itself(world: &World) {
    world.queued().await;
    world.claim(&solo("bob")).await.expect("there is work");
    world.wait(LEASE).await;
    let last = world.entries().await.pop().expect("there are entries");
    let actor = baton_store::Actor::clockwork();
    assert_eq!((last.actor, last.at), (actor, world.now()));
    let order = baton_store::Order::sweep(0);
    let nothing: Result<_, Error> = world.store().submit(order).await;
    assert_eq!(nothing.expect("a sweep is never refused").swept, Swept::default());
}
