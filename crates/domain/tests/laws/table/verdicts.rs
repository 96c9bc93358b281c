//! What each verdict on an attempt becomes once it counts, and which cap it counts towards.

use baton_domain::command::{Agent, NewTask, Person, Supervisor};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::event::{Event, Then};
use baton_domain::ids::TaskId;
use baton_domain::lane::Wants;
use baton_domain::policy::Policy;
use baton_domain::run::{Cap, Counts, Death, Finish, Mode, Why};
use baton_domain::time::Millis;

use crate::cast::{
    block, capability, capable, code, complete, contracted, fail, holder, lost, message, proved,
    reason, release, started, stopped, wanting, world,
};
use crate::world::World;

use super::aligned;

/// A way for an attempt to come to its end.
struct Way {
    label: &'static str,
    /// Whether it is only heard of agents that somebody watches.
    watched: bool,
    happens: fn(&mut World, TaskId),
}

fn way(label: &'static str, happens: fn(&mut World, TaskId)) -> Way {
    Way { label, watched: false, happens }
}

fn watched(label: &'static str, happens: fn(&mut World, TaskId)) -> Way {
    Way { label, watched: true, happens }
}

fn agent(world: &mut World, id: TaskId, says: Agent) {
    world.agent(id, says).expect("it is held");
}

fn supervisor(world: &mut World, id: TaskId, says: Supervisor) {
    world.supervisor(id, says).expect("it is held");
}

fn late(world: &mut World, id: TaskId, deadline: Deadline) {
    supervisor(world, id, Supervisor::TimedOut(deadline));
}

fn person(world: &mut World, id: TaskId, says: Person) {
    world.person(id, says).expect("a person may");
}

fn ways() -> Vec<Way> {
    vec![
        way("complete, no lines", |w, id| agent(w, id, complete())),
        watched("complete, lines hold", |w, id| {
            agent(w, id, complete());
            w.verifier(id, true).expect("it is verifying");
        }),
        watched("complete, lines fail", |w, id| {
            for _ in 0..3 {
                agent(w, id, complete());
                w.verifier(id, false).expect("it is verifying");
            }
        }),
        watched("exited, lines fail", |w, id| {
            agent(w, id, complete());
            supervisor(w, id, Supervisor::Exited);
            w.verifier(id, false).expect("it is verifying");
        }),
        watched("verifying, released", |w, id| {
            agent(w, id, complete());
            supervisor(w, id, release());
        }),
        watched("verifying, wall clock", |w, id| {
            agent(w, id, complete());
            supervisor(w, id, Supervisor::TimedOut(Deadline::WallClock));
        }),
        way("agent fails", |w, id| agent(w, id, fail())),
        way("person fails it", |w, id| {
            person(w, id, Person::Fail { code: code(), reason: reason() });
        }),
        way("person cancels", |w, id| person(w, id, Person::Cancel(reason()))),
        way("person releases", |w, id| person(w, id, Person::Release(reason()))),
        way("blocks", |w, id| agent(w, id, block(Why::NeedsInput))),
        watched("blocks, is answered", |w, id| {
            agent(w, id, block(Why::NeedsInput));
            person(w, id, Person::Answer(message()));
        }),
        way("asks in vain", |w, id| {
            agent(w, id, Agent::Ask(message()));
            w.wait(Millis::minutes(4));
            supervisor(w, id, Supervisor::Renew { lease: Some(Millis::hours(1)) });
            w.wait(Millis::minutes(7));
            w.pass(id);
        }),
        way("infrastructure lost", |w, id| supervisor(w, id, lost())),
        watched("verifying, lost", |w, id| {
            agent(w, id, complete());
            supervisor(w, id, lost());
        }),
        way("released", |w, id| supervisor(w, id, release())),
        way("rate-limited", |w, id| {
            let until = Some(w.now + Millis::hours(1));
            supervisor(w, id, Supervisor::Release { reason: reason(), until });
        }),
        way("exited", |w, id| supervisor(w, id, Supervisor::Exited)),
        watched("exited, work moved", |w, id| {
            supervisor(w, id, Supervisor::Report(Sight::Progressed));
            supervisor(w, id, Supervisor::Exited);
        }),
        watched("turns used up", |w, id| supervisor(w, id, Supervisor::Exceeded(Cap::Turns))),
        watched("process start timeout", |w, id| late(w, id, Deadline::ProcessStart)),
        watched("stream idle timeout", |w, id| late(w, id, Deadline::StreamIdle)),
        way("wall clock", |w, id| {
            supervisor(w, id, Supervisor::Renew { lease: Some(Millis::hours(24)) });
            w.wait(Millis::hours(5));
            w.pass(id);
        }),
        way("lease runs out", |_, _| {}),
    ]
}

struct Case {
    head: &'static str,
    mode: Mode,
    /// Whether every cap is as low as it can be.
    capped: bool,
    /// Whether the attempt picked up a block.
    picked: bool,
    end: fn(&mut World, TaskId),
}

fn expire(world: &mut World, id: TaskId) {
    world.wait(Millis::hours(25));
    world.pass(id);
}

fn prove(world: &mut World, id: TaskId) {
    if world.word(id) == "stopping" {
        supervisor(world, id, proved());
    } else if world.leases.contains_key(&id) {
        expire(world, id);
    }
}

fn cases() -> Vec<Case> {
    use Mode::{Solo, Supervised};
    let case = |head, mode, capped, picked, end| Case { head, mode, capped, picked, end };
    vec![
        case("proof", Supervised, false, false, prove as fn(&mut World, TaskId)),
        case("no proof", Supervised, false, false, |w, id| {
            if w.word(id) == "stopping" {
                supervisor(w, id, stopped(Death::None, false));
            } else {
                prove(w, id);
            }
        }),
        case("survivor", Supervised, false, false, |w, id| {
            if w.word(id) == "stopping" {
                supervisor(w, id, stopped(Death::None, true));
            } else {
                prove(w, id);
            }
        }),
        case("expires", Supervised, false, false, expire),
        case("at its cap", Supervised, true, false, prove),
        case("picked up", Supervised, false, true, prove),
        case("solo", Solo, false, false, prove),
        case("solo, picked up", Solo, false, true, prove),
    ]
}

fn play(way: &Way, case: &Case) -> String {
    if way.watched && case.mode == Mode::Solo {
        return ".".into();
    }
    let base = if way.label.contains("lines ") || way.label.contains("verifying") {
        contracted()
    } else {
        started()
    };
    let lowest = Policy {
        attempts_max: 1,
        continuations_max: 0,
        losses_max: 1,
        tries_max: 1,
        ..Policy::default()
    };
    let policy = if case.capped { lowest } else { Policy::default() };
    let mut world = world();
    let id = world.made(NewTask { policy, ..base });
    if case.picked {
        world.at_once_blocked(id);
        let claimant = wanting(Wants::Blocked, capable());
        let claimant = baton_domain::lane::Claimant { mode: case.mode, ..claimant };
        world.claim(id, claimant).expect("it can");
    } else {
        world.claim(id, holder(case.mode)).expect("it is queued");
    }
    agent(&mut world, id, Agent::Begin);
    let seen = world.entries.get(&id).map_or(0, Vec::len);
    (way.happens)(&mut world, id);
    if world.leases.contains_key(&id) {
        (case.end)(&mut world, id);
    }
    let ended = world.entries[&id][seen..].iter().flat_map(|entry| &entry.events);
    ended.filter_map(told).next_back().unwrap_or_else(|| world.word(id).into())
}

fn told(event: &Event) -> Option<String> {
    let Event::AttemptEnded { counts, then, .. } = event else { return None };
    let then = match then {
        Then::Queued => "queued",
        Then::Delayed { .. } => "delayed",
        Then::Blocked { again: true, .. } => "as before",
        Then::Blocked { block, .. } => match block.why {
            Why::Limit { .. } => "limit",
            Why::NeedsInput
            | Why::Capability { .. }
            | Why::Transient { .. }
            | Why::Dependency { .. } => "blocked",
        },
        Then::Submitted => "submitted",
        Then::Finished { finish: Finish::Completed, .. } => "completed",
        Then::Finished { finish: Finish::Failed { .. }, .. } => "failed",
        Then::Finished { finish: Finish::Cancelled, .. } => "cancelled",
    };
    let counts = match counts {
        Counts::Nothing => "-",
        Counts::Try => "try",
        Counts::Fault => "fault",
        Counts::Continuation => "cont",
        Counts::Stall => "stall",
        Counts::Loss => "loss",
    };
    Some(format!("{then}/{counts}"))
}

/// Every way against every circumstance.
pub fn table() -> String {
    let cases = cases();
    let heads: Vec<String> = cases.iter().map(|case| case.head.to_owned()).collect();
    let line = |way: &Way| {
        (format!("  {}", way.label), cases.iter().map(|case| play(way, case)).collect())
    };
    let lines: Vec<_> = ways().iter().map(line).collect();
    let mut text = "\n## What a verdict becomes, and what it counts as\n\n".to_owned();
    aligned(&mut text, &heads, &lines, 14);
    text
}

impl World {
    /// Parks a queued task until somebody with a GPU comes.
    fn at_once_blocked(&mut self, id: TaskId) {
        self.take_up(id, Mode::Solo);
        self.conclude(id, block(Why::Capability { needs: capability("gpu") }));
    }
}
