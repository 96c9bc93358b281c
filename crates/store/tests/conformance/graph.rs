//! What tasks owe one another: told once, in the order in which it arose.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::command::{Agent, NewTask, Person};
use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_domain::limits::{CHILDREN_MAX, DEPENDANTS_MAX, DEPTH_MAX};
use baton_domain::project::Project;
use baton_domain::run::Why;
use baton_domain::task::{Ending, Hold, Impediment, Kind, Stage, Wait};
use baton_domain::time::Millis;
use baton_domain::view::Need;
use baton_store::order::Swept;
use baton_store::read::{About, Happened};

use crate::dump::assert_same;
use crate::words::{abandon, block, complete, pipeline, project, ready, solo, stage, story, text};
use crate::world::World;

fn after(tasks: &[TaskId]) -> NewTask {
    NewTask { depends_on: tasks.iter().copied().collect(), ..story("afterwards") }
}

fn owed(reactions: usize) -> Swept {
    Swept { due: 0, reactions, more: false }
}

impl World {
    /// Does a task whose run is queued.
    async fn finish(&self, task: TaskId) {
        let grip = self.take(task, &solo("bob")).await.expect("it is queued");
        self.agent(&grip, complete()).await.expect("bob holds it");
    }

    /// Tasks in the backlog start by themselves once everything they wait for is done.
    async fn promote(&self) {
        self.put(Project { promote: true, ..pipeline("web", &["coding"]) }).await;
    }

    async fn waits_for(&self, task: TaskId) -> Vec<(TaskId, Wait)> {
        self.row(task).await.flow.waits_for.clone().into_iter().collect()
    }

    /// How often something happened to a task.
    async fn times(&self, task: TaskId, what: impl Fn(&Event) -> bool) -> usize {
        let entries = self.entries().await;
        let of_task = entries.iter().filter(|entry| match entry.about {
            About::Task(id, _) => id == task,
            About::Records(_) => false,
        });
        let events = of_task.flat_map(|entry| match &entry.happened {
            Happened::ToTask(events) => events.clone(),
            Happened::ToRecord(_) | Happened::Unknown(_) | Happened::Erased => vec![],
        });
        events.filter(what).count()
    }
}

pub async fn a_dependant_runs_once_what_it_waits_for_is_done(world: &World) {
    let first = world.queued().await;
    let second = NewTask { start_in: Some(stage("coding")), ..after(&[first]) };
    let second = world.make(second).await;
    let refused = world.take(second, &solo("eve")).await.err();
    assert_eq!(refused, Some(Refusal::DependencyOpen { on: first }));
    world.finish(first).await;
    assert_eq!(world.claim(&solo("eve")).await, Err(Refusal::NothingClaimable), "not told yet");
    assert_eq!(world.sweep().await, owed(1));
    assert_eq!(world.sweep().await, owed(0), "it is told once");
    assert_eq!(world.claim(&solo("eve")).await.map(|grip| grip.task), Ok(second));
}

pub async fn two_blockers_at_once_give_one_run(world: &World) {
    world.promote().await;
    let (one, two) = (world.queued().await, world.queued().await);
    let task = world.make(after(&[one, two])).await;
    let (left, right) = (world.clone(), world.clone());
    let ends = [
        tokio::spawn(async move { left.finish(one).await }),
        tokio::spawn(async move { right.finish(two).await }),
    ];
    for end in ends {
        end.await.expect("both are done");
    }
    assert_eq!(world.sweep().await, owed(2));
    let row = world.row(task).await;
    assert_eq!((row.flow.runs, row.flow.stage.clone()), (1, Stage::Working(stage("coding"))));
    assert_eq!(world.sweep().await, owed(0));
}

pub async fn sweeps_at_once_tell_everything_once(world: &World) {
    world.promote().await;
    let first = world.queued().await;
    let mut waiting = vec![];
    for _ in 0..30 {
        waiting.push(world.make(after(&[first])).await);
    }
    world.finish(first).await;
    let sweeps: Vec<_> = (0..8)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                let mut told = 0;
                loop {
                    let swept = world.sweep_some(3).await;
                    told += swept.reactions;
                    if !swept.more {
                        return told;
                    }
                }
            })
        })
        .collect();
    let mut told = 0;
    for sweep in sweeps {
        told += sweep.await.expect("no sweep panics");
    }
    assert_eq!(told, 30);
    for task in waiting {
        assert_eq!(world.row(task).await.flow.runs, 1, "{task} has one run");
    }
}

pub async fn a_task_is_promoted_once(world: &World) {
    world.promote().await;
    let first = world.queued().await;
    let task = world.make(after(&[first])).await;
    world.finish(first).await;
    world.sweep().await;
    world.tell(task, Person::Move { to: None, start_at: None }).await.expect("a person may");
    for _ in 0..3 {
        world.wait(Millis::seconds(5)).await;
    }
    let row = world.row(task).await;
    assert_eq!((row.flow.stage.clone(), row.flow.runs), (Stage::Backlog, 1));
    let moved = |event: &Event| matches!(event, Event::Moved { to: Some(_), .. });
    assert_eq!(world.times(task, moved).await, 1);
}

pub async fn a_promotion_under_a_hold_happens_at_the_unhold(world: &World) {
    world.promote().await;
    let first = world.queued().await;
    let task = world.make(after(&[first])).await;
    let hold = |on| Person::Hold { hold: Hold::Frozen, on, reason: text("not yet") };
    world.tell(task, hold(true)).await.expect("a person may hold");
    world.finish(first).await;
    world.sweep().await;
    assert_eq!(world.row(task).await.flow.stage, Stage::Backlog);
    world.tell(task, hold(false)).await.expect("a person may unhold");
    assert_eq!(world.row(task).await.flow.stage, Stage::Working(stage("coding")));
}

pub async fn only_what_was_done_satisfies(world: &World) {
    world.promote().await;
    let successor = world.make(story("successor")).await;
    let endings = [
        Ending::Abandoned { reason: text("no") },
        Ending::Superseded { by: successor, reason: text("better") },
        Ending::Rejected { reason: text("never") },
    ];
    for ending in endings {
        let first = world.queued().await;
        let task = world.make(after(&[first])).await;
        world.tell(first, Person::Close(ending)).await.expect("a person may close");
        assert_eq!(world.sweep().await, owed(1));
        assert_eq!(world.waits_for(task).await, [(first, Wait::Failed)]);
        let row = world.row(task).await;
        assert_eq!((row.flow.stage.clone(), row.flow.runs), (Stage::Backlog, 0));
        let late = world.birth(after(&[first])).await;
        assert!(matches!(late, Err(Refusal::Invalid { .. })), "it can never be met: {late:?}");
    }
    let failed = world.queued().await;
    let task = world.make(after(&[failed])).await;
    let force = Person::Fail { code: text("no_use"), reason: text("it cannot be done") };
    world.tell(failed, force).await.expect("a person may fail it");
    world.sweep().await;
    assert_eq!(world.waits_for(task).await, [(failed, Wait::Open)], "it may be tried again");
    let withdraw = Person::Depend { on: failed, wait: false };
    world.tell(task, withdraw).await.expect("only a person can go on from here");
    assert_eq!(world.waits_for(task).await, []);
}

pub async fn what_is_done_already_is_met_at_once(world: &World) {
    let first = world.queued().await;
    world.finish(first).await;
    let archived = world.queued().await;
    world.finish(archived).await;
    world.tell(archived, Person::Archive).await.expect("it has ended");
    let task = NewTask { start_in: Some(stage("coding")), ..after(&[first, archived]) };
    let task = world.make(task).await;
    assert_eq!(world.row(task).await.flow.impediment(), None);
    assert_eq!(world.sweep().await, owed(0), "nobody is owed anything");
    assert_eq!(world.claim(&solo("eve")).await.map(|grip| grip.task), Ok(task));
}

pub async fn a_circle_is_refused(world: &World) {
    let one = world.make(story("one")).await;
    let two = world.make(after(&[one])).await;
    let three = world.make(after(&[two])).await;
    let before = world.dump().await;
    for (from, on) in [(one, one), (one, two), (one, three), (two, three)] {
        let refused = world.tell(from, Person::Depend { on, wait: true }).await.err();
        assert_eq!(refused, Some(Refusal::Cycle { on }), "{from} on {on}");
    }
    assert_same(&before, &world.dump().await, "refused circles");
    let withdraw = Person::Depend { on: one, wait: false };
    world.tell(two, withdraw).await.expect("a person may withdraw it");
    let turned = Person::Depend { on: three, wait: true };
    world.tell(one, turned).await.expect("there is no circle any more");
}

pub async fn a_circle_through_the_children_of_an_epic_is_refused(world: &World) {
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let inner = NewTask { kind: Kind::Epic, parent: Some(epic), ..story("inner") };
    let inner = world.make(inner).await;
    let child = world.make(NewTask { parent: Some(inner), ..story("child") }).await;
    let (near, far) = (world.make(story("near")).await, world.make(story("far")).await);
    let depend = |task, on| world.tell(task, Person::Depend { on, wait: true });
    depend(child, near).await.expect("there is no circle yet");
    depend(near, far).await.expect("there is no circle yet");
    for on in [epic, inner, child] {
        assert_eq!(depend(far, on).await.err(), Some(Refusal::Cycle { on }), "{on}");
    }
    world.reopen();
    assert_eq!(depend(far, epic).await.err(), Some(Refusal::Cycle { on: epic }));
    world.tell(child, abandon()).await.expect("a person may abandon");
    depend(far, epic).await.expect("the child waits for nothing any more");
}

pub async fn racing_edges_never_close_a_circle(world: &World) {
    for _ in 0..8 {
        let mut ring = vec![];
        for _ in 0..4 {
            ring.push(world.make(story("ring")).await);
        }
        let racing: Vec<_> = (0..4)
            .map(|at| {
                let (world, from, on) = (world.clone(), ring[at], ring[(at + 1) % 4]);
                tokio::spawn(
                    async move { world.tell(from, Person::Depend { on, wait: true }).await },
                )
            })
            .collect();
        let mut accepted = 0;
        for racer in racing {
            accepted += u32::from(racer.await.expect("no order panics").is_ok());
        }
        assert_eq!(accepted, 3, "whoever came last would have closed the circle");
    }
}

pub async fn a_dependency_stays_inside_its_project(world: &World) {
    world.put(pipeline("app", &["coding"])).await;
    let other = world.make(NewTask { project: project("app"), ..story("app") }).await;
    for refused in [after(&[other]), NewTask { parent: Some(other), ..story("child") }] {
        let answer = world.birth(refused).await;
        assert!(matches!(answer, Err(Refusal::Invalid { .. })), "{answer:?}");
    }
    assert_eq!(world.birth(after(&[TaskId(99)])).await, Err(Refusal::NotFound));
}

pub async fn a_run_blocked_by_a_task_goes_on_when_that_is_done(world: &World) {
    let first = world.queued().await;
    let task = world.queued().await;
    let grip = world.take(task, &solo("eve")).await.expect("it is queued");
    world.agent(&grip, block(Why::Dependency { on: first })).await.expect("eve holds it");
    assert_eq!(world.waits_for(task).await, [(first, Wait::Open)]);
    world.finish(first).await;
    world.sweep().await;
    let again = world.claim(&solo("eve")).await.expect("it is queued again");
    assert_eq!((again.task, again.attempt), (task, 2));
    assert_eq!(world.row(task).await.flow.runs, 1, "it is the same run");
}

pub async fn an_epic_is_done_with_its_children(world: &World) {
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let child = || NewTask { parent: Some(epic), ..ready("child") };
    let (one, two) = (world.make(child()).await, world.make(child()).await);
    let waiting = world.make(after(&[epic])).await;
    world.finish(one).await;
    world.sweep().await;
    assert_eq!(world.row(epic).await.flow.ending(), None, "one child is open");
    world.finish(two).await;
    assert_eq!(world.sweep().await, owed(2), "the epic, and who waits for it");
    let done = Ending::Done { verified: false };
    assert_eq!(world.row(epic).await.flow.ending(), Some(&done));
    assert_eq!(world.row(waiting).await.flow.impediment(), None);
    let ended = |event: &Event| matches!(event, Event::Ended { .. });
    assert_eq!(world.times(epic, ended).await, 1);
}

pub async fn an_epic_with_a_child_that_was_not_done_asks_a_person(world: &World) {
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let child = || NewTask { parent: Some(epic), ..ready("child") };
    let (one, gone) = (world.make(child()).await, world.make(child()).await);
    let waiting = world.make(after(&[epic])).await;
    world.finish(one).await;
    world.tell(gone, abandon()).await.expect("a person may abandon");
    assert_eq!(world.sweep().await, owed(2));
    let needs = || async { world.row(epic).await.flow.needs(world.now()) };
    assert_eq!(needs().await, [Need::ChildrenUndone], "and it stays open");
    let another = world.make(child()).await;
    assert_eq!(world.sweep().await, owed(1), "a child was added");
    assert_eq!(needs().await, []);
    world.tell(another, abandon()).await.expect("a person may abandon");
    world.sweep().await;
    assert_eq!(needs().await, [Need::ChildrenUndone]);
    let enough = Ending::Done { verified: false };
    world.tell(epic, Person::Close(enough.clone())).await.expect("a person may say so");
    assert_eq!(world.row(epic).await.flow.ending(), Some(&enough));
    world.sweep().await;
    assert_eq!(world.row(waiting).await.flow.impediment(), None);
}

pub async fn whoever_made_a_task_is_woken_by_its_end(world: &World) {
    let maker = world.queued().await;
    let made = world.make(NewTask { creator_task: Some(maker), ..ready("made") }).await;
    let grip = world.take(made, &solo("bob")).await.expect("it is queued");
    world.agent(&grip, block(Why::NeedsInput)).await.expect("bob holds it");
    world.sweep().await;
    world.tell(made, Person::Answer(text("so"))).await.expect("it waits for that");
    world.finish(made).await;
    world.sweep().await;
    for ended in [false, true] {
        let woken = |event: &Event| matches!(event, Event::Woken { ended: it, .. } if *it == ended);
        assert_eq!(world.times(maker, woken).await, 1, "ended: {ended}");
    }
}

pub async fn an_ended_task_is_told_nothing(world: &World) {
    let first = world.queued().await;
    let task = world.make(after(&[first])).await;
    world.tell(task, abandon()).await.expect("a person may abandon");
    let before = world.row(task).await;
    world.finish(first).await;
    assert_eq!(world.sweep().await, owed(0));
    assert_eq!(world.row(task).await, before);
}

pub async fn an_ended_task_waits_for_nothing(world: &World) {
    let (first, task) = (world.queued().await, world.queued().await);
    let grip = world.take(task, &solo("eve")).await.expect("it is queued");
    let wait = |on| Person::Depend { on, wait: true };
    world.tell(task, wait(first)).await.expect("a person may");
    world.agent(&grip, complete()).await.expect("eve was at work already");
    world.tell(first, wait(task)).await.expect("there is no circle with what is done");
    assert_eq!(world.row(first).await.flow.impediment(), None);
}

pub async fn what_arose_first_is_told_first(world: &World) {
    let (one, two) = (world.queued().await, world.queued().await);
    let (of_two, of_one) = (world.make(after(&[two])).await, world.make(after(&[one])).await);
    world.finish(two).await;
    world.finish(one).await;
    let before = world.entries().await.len();
    assert_eq!(world.sweep().await, owed(2));
    let told: Vec<_> = world.entries().await[before..].iter().map(|entry| entry.about).collect();
    assert_eq!(told, [About::Task(of_two, 2), About::Task(of_one, 2)]);
}

pub async fn a_task_has_only_so_many_dependants(world: &World) {
    let (busy, free) = (world.make(story("busy")).await, world.make(story("free")).await);
    for _ in 0..DEPENDANTS_MAX {
        world.make(after(&[busy])).await;
    }
    let task = world.make(after(&[free])).await;
    for refused in [
        world.birth(after(&[busy])).await.err(),
        world.birth(after(&[busy, free])).await.err(),
        world.tell(task, Person::Depend { on: busy, wait: true }).await.err(),
    ] {
        assert!(matches!(refused, Some(Refusal::Invalid { .. })), "{refused:?}");
    }
    world.tell(TaskId(3), abandon()).await.expect("a person may abandon");
    world.make(after(&[busy, free])).await;
}

pub async fn every_dependant_is_told_however_small_the_sweeps(world: &World) {
    world.promote().await;
    let first = world.queued().await;
    let mut waiting = BTreeSet::new();
    for _ in 0..60 {
        waiting.insert(world.make(after(&[first])).await);
    }
    world.finish(first).await;
    let mut told = 0;
    for round in 1.. {
        let swept = world.sweep_some(7).await;
        told += swept.reactions;
        assert!(swept.reactions <= 7, "a sweep has a bound");
        if round == 3 {
            world.reopen();
        }
        if !swept.more {
            break;
        }
    }
    assert_eq!(told, 60);
    for task in waiting {
        let settled = |event: &Event| matches!(event, Event::DependencySettled { .. });
        assert_eq!(world.times(task, settled).await, 1, "{task} was told once");
    }
}

pub async fn a_tree_has_bounds(world: &World) {
    let epic = || NewTask { kind: Kind::Epic, ..story("epic") };
    let mut parent = world.make(epic()).await;
    let root = parent;
    for _ in 0..DEPTH_MAX {
        parent = world.make(NewTask { parent: Some(parent), ..epic() }).await;
    }
    let deeper = world.birth(NewTask { parent: Some(parent), ..epic() }).await;
    assert!(matches!(deeper, Err(Refusal::Invalid { .. })), "{deeper:?}");
    for _ in 1..CHILDREN_MAX {
        world.make(NewTask { parent: Some(root), ..story("child") }).await;
    }
    let wider = world.birth(NewTask { parent: Some(root), ..story("child") }).await;
    assert!(matches!(wider, Err(Refusal::Invalid { .. })), "{wider:?}");
}

pub async fn a_held_dependant_is_not_disturbed(world: &World) {
    let first = world.queued().await;
    let task = world.queued().await;
    let grip = world.take(task, &solo("eve")).await.expect("it is queued");
    let wait = Person::Depend { on: first, wait: true };
    world.tell(task, wait).await.expect("a person may");
    assert_eq!(
        world.row(task).await.flow.impediment(),
        Some(Impediment::Dependency(first)),
        "nobody else could claim it"
    );
    world.agent(&grip, Agent::Begin).await.expect("eve goes on");
    world.finish(first).await;
    world.sweep().await;
    world.agent(&grip, complete()).await.expect("eve goes on");
}
