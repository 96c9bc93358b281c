//! Nothing loops for ever: however attempts end, without a person a run comes to rest within its
//! caps.

use baton_domain::command::{Agent, NewTask, Patch, Person, Supervisor};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::TaskId;
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::{Choice, Policy};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Cap, Death, Finish, Idle, Mode, Phase, RunState, Why};
use baton_domain::time::Millis;
use proptest::collection::vec;

use crate::cast::{
    Decided, block, capability, capable, complete, contracted, fail, holder, lost, message, note,
    pass, proved, reason, release, started, stopped, wanting, worker, world,
};
use crate::history::runner;
use crate::world::World;

/// A way for an attempt to end that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fail,
    Exit,
    /// The same, after the work was seen to move.
    ExitMoved,
    Exceed,
    Expire,
    Break,
    Release,
    RateLimit,
    StreamIdle,
    ProcessStart,
    WallClock,
    Unanswered,
    Transient,
    Capability,
    Reject,
}

const ENDS: [End; 15] = [
    End::Fail,
    End::Exit,
    End::ExitMoved,
    End::Exceed,
    End::Expire,
    End::Break,
    End::Release,
    End::RateLimit,
    End::StreamIdle,
    End::ProcessStart,
    End::WallClock,
    End::Unanswered,
    End::Transient,
    End::Capability,
    End::Reject,
];

/// Where a run rests that nobody but a person can bring on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rest {
    Failed,
    At(Cap),
    Parked,
}

/// Lets attempts end like this until no automatism takes the run up again.
fn wear_out(
    world: &mut World,
    id: TaskId,
    mode: Mode,
    mut next: impl FnMut() -> End,
) -> (Rest, u32) {
    loop {
        if let Some(rest) = rest(world, id) {
            return (rest, world.flow(id).attempts);
        }
        take(world, id, mode);
        end(world, id, mode, next());
        assert!(world.flow(id).attempts < 1_000, "{id} is tried for ever");
    }
}

fn rest(world: &mut World, id: TaskId) -> Option<Rest> {
    // Whatever time can bring, it has brought.
    world.wait(Millis::hours(24 * 31));
    world.pass(id);
    let Some(run) = &world.flow(id).run else {
        let last = world.flow(id).last.as_ref().expect("it had a run");
        assert!(matches!(last.finish, Finish::Failed { .. }));
        return Some(Rest::Failed);
    };
    let RunState::Idle(Idle::Blocked(block)) = &run.state else { return None };
    match &block.why {
        Why::Limit { cap } => Some(Rest::At(*cap)),
        Why::NeedsInput => Some(Rest::Parked),
        Why::Capability { .. } if block.sticky => Some(Rest::Parked),
        Why::Transient { .. } if block.sticky => Some(Rest::Parked),
        Why::Capability { .. } | Why::Transient { .. } | Why::Dependency { .. } => None,
    }
}

fn take(world: &mut World, id: TaskId, mode: Mode) {
    let wants = match &world.run(id).state {
        RunState::Idle(Idle::Blocked(_)) => Wants::Blocked,
        RunState::Idle(Idle::Submitted(_)) => Wants::Submitted,
        RunState::Idle(Idle::Queued | Idle::Delayed { .. }) | RunState::Held(_) => Wants::Ready,
    };
    let claimant = match wants {
        Wants::Submitted => worker(),
        Wants::Blocked => Claimant { mode, ..capable() },
        Wants::Ready | Wants::ReadyOrBlocked | Wants::Probe | Wants::Merges => holder(mode),
    };
    world.claim(id, wanting(wants, claimant)).expect("no person is needed yet");
}

fn end(world: &mut World, id: TaskId, mode: Mode, end: End) {
    if let Phase::Verifying { .. } = world.held(id).phase {
        world.verifier(id, false).expect("it is verifying");
        return;
    }
    let supervised = mode == Mode::Supervised;
    let until = world.now + Millis::hours(1);
    let told: Decided = match end {
        End::Fail => world.agent(id, fail()),
        End::Exit => world.supervisor(id, Supervisor::Exited),
        End::ExitMoved if supervised => {
            world.supervisor(id, Supervisor::Report(Sight::Progressed)).expect("it is held");
            world.supervisor(id, Supervisor::Exited)
        }
        End::Exceed if supervised => world.supervisor(id, Supervisor::Exceeded(Cap::Turns)),
        End::ExitMoved | End::Exceed => world.supervisor(id, Supervisor::Exited),
        End::Break => world.supervisor(id, lost()),
        End::Release => world.supervisor(id, release()),
        End::RateLimit => {
            world.supervisor(id, Supervisor::Release { reason: reason(), until: Some(until) })
        }
        End::StreamIdle if supervised => {
            world.supervisor(id, Supervisor::TimedOut(Deadline::StreamIdle))
        }
        End::ProcessStart if supervised => {
            world.supervisor(id, Supervisor::TimedOut(Deadline::ProcessStart))
        }
        End::WallClock => {
            world.agent(id, note()).expect("it is held");
            let lease = Some(Millis::hours(24));
            world.supervisor(id, Supervisor::Renew { lease }).expect("it is held");
            world.wait(Millis::hours(5));
            world.tell(id, &pass())
        }
        End::Unanswered => world.agent(id, block(Why::NeedsInput)),
        End::Transient => world.agent(id, block(Why::Transient { until })),
        End::Capability => world.agent(id, block(Why::Capability { needs: capability("gpu") })),
        End::Reject => reject(world, id),
        End::Expire | End::StreamIdle | End::ProcessStart => world.agent(id, note()),
    };
    told.expect("the holder may say so");
    if world.leases.contains_key(&id) && world.word(id) == "stopping" {
        world.supervisor(id, stopped(Death::Cgroup, false)).expect("it is stopping");
    }
    if world.leases.contains_key(&id) {
        world.wait(Millis::hours(25));
        world.pass(id);
    }
}

/// Submits until the attempt has no round left, or somebody else verifies.
fn reject(world: &mut World, id: TaskId) -> Decided {
    loop {
        let decision = world.agent(id, complete())?;
        if world.word(id) != "verifying" {
            return Ok(decision);
        }
        let decision = world.verifier(id, false)?;
        if world.word(id) != "working" {
            return Ok(decision);
        }
    }
}

fn worn_out(mode: Mode, task: NewTask, how: End) -> (Rest, u32) {
    let mut world = world();
    let id = world.made(task);
    wear_out(&mut world, id, mode, || how)
}

#[test]
fn every_ending_that_repeats_comes_to_rest_at_its_own_cap() {
    let both = |how, rest: &Rest, attempts: u32| {
        for mode in [Mode::Solo, Mode::Supervised] {
            assert_eq!(
                worn_out(mode, started(), how),
                (rest.clone(), attempts),
                "{how:?} {mode:?}"
            );
        }
    };
    let supervised = |how, rest: Rest, attempts: u32| {
        assert_eq!(worn_out(Mode::Supervised, started(), how), (rest, attempts), "{how:?}");
    };
    both(End::Fail, &Rest::Failed, 3);
    both(End::ExitMoved, &Rest::At(Cap::Continuations), 9);
    supervised(End::Exit, Rest::At(Cap::Stalls), 3);
    supervised(End::Exceed, Rest::At(Cap::Turns), 1);
    let unwatched = worn_out(Mode::Solo, started(), End::Exit);
    assert_eq!(unwatched, (Rest::At(Cap::Continuations), 9));
    both(End::Expire, &Rest::At(Cap::Losses), 10);
    both(End::Break, &Rest::At(Cap::Losses), 10);
    both(End::Release, &Rest::At(Cap::Tries), 50);
    both(End::RateLimit, &Rest::At(Cap::Tries), 50);
    both(End::Unanswered, &Rest::Parked, 1);
    both(End::Transient, &Rest::Parked, 3);
    both(End::Capability, &Rest::Parked, 3);
    supervised(End::StreamIdle, Rest::Failed, 3);
    supervised(End::ProcessStart, Rest::At(Cap::Losses), 10);
    supervised(End::WallClock, Rest::Failed, 3);
    let solo_clock = worn_out(Mode::Solo, started(), End::WallClock);
    assert_eq!(solo_clock, (Rest::At(Cap::Continuations), 9));
}

#[test]
fn work_that_moves_in_between_is_not_stalled() {
    let mut world = world();
    let id = world.made(started());
    let mut ends = [End::Exit, End::Exit, End::ExitMoved].into_iter().cycle();
    let (rest, attempts) =
        wear_out(&mut world, id, Mode::Supervised, || ends.next().expect("it goes round"));
    assert_eq!((rest, attempts), (Rest::At(Cap::Continuations), 9));
}

/// A short turn is over before anybody looked at what it did.
#[test]
fn what_moved_counts_also_if_it_is_seen_only_after_the_end() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.supervisor(id, Supervisor::Exited).expect("it is held");
    world.supervisor(id, Supervisor::Report(Sight::Progressed)).expect("it is stopping");
    world.supervisor(id, proved()).expect("it is stopping");
    let tally = world.run(id).tally;
    assert_eq!((tally.continuations, tally.stalls), (1, 0));
}

#[test]
fn losses_and_limits_between_do_not_make_a_stall() {
    let mut world = world();
    let id = world.made(started());
    let mut ends = [End::Exit, End::Break, End::RateLimit, End::Exit].into_iter();
    let last = End::Exit;
    let (rest, attempts) =
        wear_out(&mut world, id, Mode::Supervised, || ends.next().unwrap_or(last));
    assert_eq!((rest, attempts), (Rest::At(Cap::Stalls), 5), "they neither count nor forgive");
}

#[test]
fn a_worker_cannot_claim_a_cap_that_the_rules_count() {
    for cap in [Cap::Continuations, Cap::Losses, Cap::Tries, Cap::Stalls, Cap::Budget] {
        let mut world = world();
        let id = world.at_work(started(), Mode::Supervised);
        let told = world.supervisor(id, Supervisor::Exceeded(cap));
        assert!(matches!(told, Err(Refusal::Invalid { .. })), "{cap:?}");
        assert_eq!(world.word(id), "working");
    }
}

#[test]
fn an_attempt_that_used_up_its_turns_waits_until_somebody_allows_more() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.supervisor(id, Supervisor::Exceeded(Cap::Turns)).expect("it is held");
    assert_eq!(world.word(id), "stopping");
    world.supervisor(id, proved()).expect("it is stopping");
    assert_eq!(world.word(id), "blocked");
    let allow = |turns_max| {
        let policy = Some(Choice { turns_max: Some(turns_max), ..Choice::default() });
        Person::Edit(Box::new(Patch { policy, ..Patch::default() }))
    };
    world.person(id, allow(200)).expect("a person may");
    assert_eq!(world.word(id), "blocked", "that is no more than before");
    world.person(id, allow(400)).expect("a person may");
    assert_eq!(world.word(id), "queued");
}

#[test]
fn rejected_work_fails_at_the_cap_for_faults() {
    // Three rounds in each of three attempts, and for solo work a verifier after each.
    assert_eq!(worn_out(Mode::Supervised, contracted(), End::Reject), (Rest::Failed, 3));
    assert_eq!(worn_out(Mode::Solo, contracted(), End::Reject), (Rest::Failed, 6));
}

#[test]
fn a_verifier_that_always_dies_comes_to_rest_at_the_cap_for_losses() {
    let mut world = world();
    let id = world.made(contracted());
    world.take_up(id, Mode::Solo);
    world.agent(id, complete()).expect("it is held");
    for _ in 0..9 {
        world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
        world.wait(Millis::minutes(6));
        world.pass(id);
        assert_eq!(world.word(id), "submitted");
    }
    world.claim(id, wanting(Wants::Submitted, worker())).expect("it is submitted");
    world.wait(Millis::minutes(6));
    world.pass(id);
    assert_eq!(rest(&mut world, id), Some(Rest::At(Cap::Losses)));
}

#[test]
fn any_mixture_of_endings_comes_to_rest_within_the_caps() {
    let policies = (1..=5_u8, 0..=5_u8, 1..=6_u8, 1..=30_u16, proptest::bool::ANY);
    let mixtures = (policies, vec(0..ENDS.len(), 1..40));
    let outcome =
        runner().run(&mixtures, |((faults, continuations, losses, tries, solo), ends)| {
            let policy = Policy {
                attempts_max: faults,
                continuations_max: continuations,
                losses_max: losses,
                tries_max: tries,
                ..Policy::default()
            };
            let mode = if solo { Mode::Solo } else { Mode::Supervised };
            for base in [started(), contracted()] {
                let mut world = world();
                let id = world.made(NewTask { policy, ..base });
                let mut ends = ends.iter().cycle().map(|at| ENDS[*at]);
                // Without lines to check, a completion would be a success.
                let lines = world.flow(id).contract.is_some();
                let mut next = || {
                    let end = ends.next().expect("it goes round");
                    if end == End::Reject && !lines { End::Fail } else { end }
                };
                let (_, attempts) = wear_out(&mut world, id, mode, &mut next);
                // Blocks of two kinds come back twice each before they stick, and solo work is
                // verified by attempts that the total does not count.
                let most = u32::from(tries) + 6 + 2 * u32::from(faults) + u32::from(losses);
                assert!(attempts <= most, "{attempts} attempts");
            }
            Ok(())
        });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_question_that_is_asked_for_ever_parks_the_run() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.agent(id, Agent::Ask(message())).expect("it is held");
        world.supervisor(id, Supervisor::Renew { lease: Some(Millis::hours(1)) }).expect("held");
        world.wait(Millis::minutes(10));
        world.pass(id);
        if mode == Mode::Supervised {
            world.supervisor(id, proved()).expect("it is stopping");
        }
        assert_eq!(rest(&mut world, id), Some(Rest::Parked), "{mode:?}");
    }
}
