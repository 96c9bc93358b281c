//! The states that a task can be in, each reached by commands alone.

use std::collections::BTreeSet;

use baton_domain::command::{Agent, NewTask, Person, Proof, Supervisor};
use baton_domain::ids::{Nonce, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::policy::Policy;
use baton_domain::run::{Death, Mode, Why};
use baton_domain::task::{Hold, Kind};
use baton_domain::time::Millis;

use crate::cast::{
    abandon, block, block_with_condition, capability, capable, complete, contracted, fail, hold,
    lost, message, move_to, person, proved, reason, release, started, stopped, story, wanting,
    worker, world,
};
use crate::world::World;

/// A state to try commands in.
pub struct Column {
    pub world: World,
    pub id: TaskId,
    /// Another task, for whoever must name one.
    pub other: TaskId,
}

/// How a state is reached from a fresh task, given whether its contract has lines.
pub struct Path {
    pub head: &'static str,
    task: fn() -> NewTask,
    walk: fn(&mut World, TaskId),
}

impl Path {
    /// Walks to the state.
    pub fn reach(&self, lines: bool) -> Column {
        let mut world = world();
        let other = world.made(story());
        let mut task = (self.task)();
        if lines {
            task.contract = contracted().contract;
        }
        let id = world.made(task);
        (self.walk)(&mut world, id);
        Column { world, id, other }
    }
}

impl Column {
    /// The proof of the last holder, present or not.
    pub fn proof(&self) -> Proof {
        let attempt = self.world.flow(self.id).attempts.max(1);
        Proof::Token { attempt, nonce: Nonce(u128::from(attempt) + 999) }
    }
}

fn path(head: &'static str, task: fn() -> NewTask, walk: fn(&mut World, TaskId)) -> Path {
    Path { head, task, walk }
}

fn as_is(_: &mut World, _: TaskId) {}

fn impatient() -> NewTask {
    let policy = Policy { attempts_max: 1, continuations_max: 0, ..Policy::default() };
    NewTask { policy, ..started() }
}

fn unlucky() -> NewTask {
    let policy = Policy { losses_max: 1, ..Policy::default() };
    NewTask { policy, ..contracted() }
}

fn needing_other() -> Why {
    Why::Dependency { on: TaskId(1) }
}

fn on_gpu() -> Why {
    Why::Capability { needs: capability("gpu") }
}

fn for_an_hour(world: &World) -> Why {
    Why::Transient { until: world.now + Millis::hours(1) }
}

fn holds(world: &mut World, id: TaskId, claimant: Claimant) {
    world.claim(id, claimant).expect("it may be claimed");
}

fn works(world: &mut World, id: TaskId, claimant: Claimant) {
    holds(world, id, claimant);
    world.agent(id, Agent::Begin).expect("it is held");
}

fn worked(world: &mut World, id: TaskId, mode: Mode, says: Agent) {
    world.take_up(id, mode);
    world.conclude(id, says);
}

/// Completes the run that is held, with whatever proof it takes.
fn passes(world: &mut World, id: TaskId) {
    world.agent(id, complete()).expect("it is held");
    if world.word(id) == "verifying" {
        world.verifier(id, true).expect("it is verifying");
    }
    world.supervisor(id, proved()).expect("it is held");
}

fn says(world: &mut World, id: TaskId, says: Person) {
    world.person(id, says).expect("a person may");
}

fn stop_now(world: &mut World, id: TaskId) {
    world.take_up(id, Mode::Supervised);
    world.agent(id, block(Why::NeedsInput)).expect("it is held");
}

/// Blocked, cleared and blocked again, until only a person may unpark it.
fn recur(world: &mut World, id: TaskId) {
    for _ in 0..2 {
        worked(world, id, Mode::Supervised, block(on_gpu()));
        says(world, id, Person::Unblock(reason()));
    }
    worked(world, id, Mode::Supervised, block(on_gpu()));
}

/// Nobody holds the run, or there is none.
pub fn idle() -> Vec<Path> {
    vec![
        path("backlog", story, as_is),
        path("queued", started, as_is),
        path("delayed", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            let until = Some(w.now + Millis::hours(1));
            let released = Supervisor::Release { reason: reason(), until };
            w.supervisor(id, released).expect("it is held");
            w.supervisor(id, proved()).expect("it is held");
        }),
        path("b.input", started, |w, id| worked(w, id, Mode::Supervised, block(Why::NeedsInput))),
        path("b.capab", started, |w, id| {
            worked(w, id, Mode::Supervised, block_with_condition(on_gpu()));
        }),
        path("b.trans", started, |w, id| {
            let why = for_an_hour(w);
            worked(w, id, Mode::Supervised, block(why));
        }),
        path("b.depend", started, |w, id| {
            worked(w, id, Mode::Supervised, block(needing_other()));
        }),
        path("b.limit", impatient, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.supervisor(id, Supervisor::Exited).expect("it is held");
            w.supervisor(id, proved()).expect("it is held");
        }),
        path("b.submit", unlucky, |w, id| {
            worked(w, id, Mode::Solo, complete());
            w.claim(id, wanting(Wants::Submitted, worker())).expect("it waits for a verifier");
            w.supervisor(id, lost()).expect("it is held");
            w.supervisor(id, proved()).expect("it is held");
        }),
        path("b.sticky", started, recur),
        path("submitted", contracted, |w, id| worked(w, id, Mode::Solo, complete())),
    ]
}

/// The run finished; what it left.
pub fn finished() -> Vec<Path> {
    vec![
        path("completed", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            passes(w, id);
        }),
        path("owed", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            says(w, id, hold(Hold::Frozen, true));
            passes(w, id);
        }),
        path("failed", impatient, |w, id| worked(w, id, Mode::Supervised, fail())),
        path("cancelled", started, |w, id| says(w, id, Person::Cancel(reason()))),
        path("unproven", impatient, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.agent(id, fail()).expect("it is held");
            w.supervisor(id, stopped(Death::None, false)).expect("it is held");
        }),
    ]
}

/// A worker holds the run.
pub fn supervised() -> Vec<Path> {
    vec![
        path("leased", started, |w, id| holds(w, id, worker())),
        path("working", started, |w, id| w.take_up(id, Mode::Supervised)),
        path("waiting", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.agent(id, Agent::Ask(message())).expect("it is held");
        }),
        path("verifying", contracted, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.agent(id, complete()).expect("it is held");
        }),
        path("v.exited", contracted, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.agent(id, complete()).expect("it is held");
            w.supervisor(id, Supervisor::Exited).expect("it is held");
        }),
        path("stopping", started, stop_now),
        path("s.surviv", started, |w, id| {
            stop_now(w, id);
            w.supervisor(id, stopped(Death::None, true)).expect("it is held");
        }),
        path("s.release", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            w.supervisor(id, release()).expect("it is held");
        }),
        path("s.closing", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            says(w, id, abandon());
        }),
        path("verifier", contracted, |w, id| {
            worked(w, id, Mode::Solo, complete());
            holds(w, id, wanting(Wants::Submitted, worker()));
        }),
        path("probe", started, |w, id| {
            worked(w, id, Mode::Supervised, block_with_condition(on_gpu()));
            holds(w, id, wanting(Wants::Probe, worker()));
        }),
        path("picked", started, |w, id| {
            worked(w, id, Mode::Supervised, block(on_gpu()));
            works(w, id, wanting(Wants::Blocked, capable()));
        }),
    ]
}

/// An agent without a worker holds the run.
pub fn solo() -> Vec<Path> {
    vec![
        path("leased", started, |w, id| holds(w, id, crate::cast::solo())),
        path("working", started, |w, id| w.take_up(id, Mode::Solo)),
        path("waiting", started, |w, id| {
            w.take_up(id, Mode::Solo);
            w.agent(id, Agent::Ask(message())).expect("it is held");
        }),
        path("picked", started, |w, id| {
            worked(w, id, Mode::Solo, block(Why::NeedsInput));
            works(w, id, wanting(Wants::Blocked, person()));
        }),
    ]
}

/// Something stops the task.
pub fn held_up() -> Vec<Path> {
    fn freeze(w: &mut World, id: TaskId) {
        says(w, id, hold(Hold::Frozen, true));
    }
    fn review(w: &mut World, id: TaskId) {
        says(w, id, hold(Hold::Review, true));
    }
    fn owe(w: &mut World, id: TaskId) {
        w.take_up(id, Mode::Supervised);
        freeze(w, id);
        passes(w, id);
    }
    vec![
        path("frozen", started, freeze),
        path("review", started, review),
        path("both", started, |w, id| {
            freeze(w, id);
            review(w, id);
        }),
        path("f.working", started, |w, id| {
            w.take_up(id, Mode::Supervised);
            freeze(w, id);
        }),
        path("f.blocked", started, |w, id| {
            worked(w, id, Mode::Solo, block(Why::NeedsInput));
            freeze(w, id);
        }),
        path("f.owed", started, owe),
        path("r.owed", started, |w, id| {
            owe(w, id);
            review(w, id);
            says(w, id, hold(Hold::Frozen, false));
        }),
        path("both.owed", started, |w, id| {
            owe(w, id);
            review(w, id);
        }),
    ]
}

/// Where a task can stand on the board and off it.
pub fn stages() -> Vec<Path> {
    fn draft() -> NewTask {
        NewTask { draft: true, ..story() }
    }
    fn approval() -> NewTask {
        NewTask { needs_approval: true, ..started() }
    }
    fn waiting() -> NewTask {
        NewTask { depends_on: BTreeSet::from([TaskId(1)]), ..story() }
    }
    fn draft_waiting() -> NewTask {
        NewTask { draft: true, ..waiting() }
    }
    fn epic() -> NewTask {
        NewTask { kind: Kind::Epic, ..story() }
    }
    fn done(w: &mut World, id: TaskId) {
        for _ in 0..2 {
            w.take_up(id, Mode::Supervised);
            passes(w, id);
        }
    }
    vec![
        path("backlog", story, as_is),
        path("coding", started, as_is),
        path("qa", started, |w, id| says(w, id, move_to("qa"))),
        path("draft", draft, as_is),
        path("approval", approval, as_is),
        path("waits", waiting, as_is),
        path("d.waits", draft_waiting, as_is),
        path("epic", epic, as_is),
        path("e.undone", epic, |w, id| {
            let child = w.made(NewTask { parent: Some(id), ..story() });
            says(w, child, abandon());
            w.settle();
        }),
        path("done", started, done),
        path("closed", started, |w, id| says(w, id, abandon())),
        path("archived", started, |w, id| {
            done(w, id);
            says(w, id, Person::Archive);
        }),
    ]
}
