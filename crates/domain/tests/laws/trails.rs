//! What a run leaves behind for whoever goes on: keys to the words, counts of everything.

use baton_domain::command::{Agent, FailedItem, NewTask, Person, Report};
use baton_domain::event::Event;
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_domain::limits::TRAIL_MAX;
use baton_domain::reaction::Cause;
use baton_domain::run::{Mark, Mode, Why};
use baton_domain::trail::{Ended, Trail};

use crate::cast::{
    block, code, complete, fail, message, principal, proved, reason, release, solo, started, text,
    world,
};
use crate::history::after_every_history;
use crate::world::World;

fn report(done: &[&str], failed_items: &[&str]) -> Agent {
    let failed = |item: &&str| FailedItem { item: text(item), reason: reason() };
    Agent::Progress(Report {
        done: done.iter().map(|item| text(item)).collect(),
        failed: failed_items.iter().map(failed).collect(),
        ..Report::default()
    })
}

fn trail(world: &World, id: TaskId) -> &Trail {
    &world.run(id).trail
}

fn mark(world: &World, id: TaskId) -> Option<Mark> {
    world.run(id).answer.map(|answer| answer.mark)
}

/// Every key names an entry in which what it stands for happened.
#[test]
fn a_trail_leads_to_the_words() {
    after_every_history(|world| {
        for (id, task) in &world.tasks {
            let live = task.flow.run.iter().map(|run| &run.trail);
            let past = world.records.get(id).into_iter().flatten().filter_map(|row| match row {
                Past::Run(run) => Some(&run.trail),
                Past::Attempt(_) | Past::Checkpoint(_) => None,
            });
            let happened = |version: u64, is: &dyn Fn(&Event) -> bool| {
                let entry = &world.entries[id][usize::try_from(version).expect("few") - 1];
                assert!(entry.events.iter().any(is), "{id} at {version}: {:?}", entry.events);
            };
            for trail in live.chain(past) {
                for keys in [&trail.talk, &trail.reports] {
                    assert!(keys.last.len() <= TRAIL_MAX && keys.last.is_sorted());
                    assert!(keys.count as usize >= keys.last.len());
                }
                for version in &trail.talk.last {
                    happened(*version, &|event| {
                        matches!(
                            event,
                            Event::Asked { .. }
                                | Event::Answered { .. }
                                | Event::Requeued { reason: Some(_), .. }
                        )
                    });
                }
                for version in &trail.reports.last {
                    happened(*version, &|event| matches!(event, Event::Progressed { .. }));
                }
                if let Some(version) = trail.submitted {
                    happened(version, &|event| matches!(event, Event::Submitted { .. }));
                }
                if let Some(version) = trail.verified {
                    happened(version, &|event| {
                        matches!(event, Event::Verified { .. } | Event::Reviewed { .. })
                    });
                }
            }
            let ended = |row: &&Past| matches!(row, Past::Attempt(_));
            for row in world.records.get(id).into_iter().flatten().filter(ended) {
                let Past::Attempt(attempt) = row else { continue };
                if let Some(version) = attempt.told {
                    happened(version, &|event| {
                        matches!(event, Event::Stopping { .. } | Event::AttemptEnded { .. })
                    });
                }
            }
        }
    });
}

/// However a history went, a run that finished has counted every attempt that it had.
#[test]
fn a_trail_counts_every_attempt() {
    after_every_history(|world| {
        for rows in world.records.values() {
            for row in rows {
                let Past::Run(run) = row else { continue };
                let of_run = |row: &&Past| matches!(row, Past::Attempt(it) if it.run == run.number);
                let attempts = rows.iter().filter(of_run).count();
                assert_eq!(run.trail.ended.values().sum::<u32>() as usize, attempts);
            }
        }
    });
}

#[test]
fn what_was_said_is_kept_by_key_and_the_rest_is_counted() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    for _ in 0..TRAIL_MAX {
        world.agent(id, Agent::Ask(message())).expect("it is at work");
        world.person(id, Person::Answer(message())).expect("it asked");
    }
    let talk = &trail(&world, id).talk;
    assert_eq!((talk.last.len(), talk.count as usize), (TRAIL_MAX, 2 * TRAIL_MAX));
    assert_eq!(talk.last.last(), Some(&world.flow(id).version));
    assert_eq!(trail(&world, id).ended.len(), 0);
}

#[test]
fn only_reports_that_can_tell_of_open_items_are_kept() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    world.agent(id, report(&["a"], &[])).expect("it is at work");
    assert_eq!(trail(&world, id).reports.count, 0, "nothing has failed");
    world.agent(id, report(&[], &["b"])).expect("it is at work");
    world.agent(id, report(&["b"], &[])).expect("it is at work");
    assert_eq!(trail(&world, id).reports.count, 2);
}

#[test]
fn leave_to_go_on_is_marked_like_an_answer() {
    for mode in [Mode::Solo, Mode::Supervised] {
        let mut world = world();
        let id = world.at_work(started(), mode);
        world.conclude(id, block(Why::NeedsInput));
        world.person(id, Person::Unblock(reason())).expect("it is parked");
        assert_eq!(mark(&world, id), Some(Mark::Sent));
        let told = world.claim(id, crate::cast::holder(mode)).expect("it is queued");
        assert!(told.events.contains(&Event::AnswerMarked { mark: Mark::Delivered }));
        assert_eq!(mark(&world, id), Some(Mark::Delivered), "it came with the hand-off");
        world.agent(id, Agent::Receive(Mark::Applied)).expect("it is held");
        world.conclude(id, fail());
        world.wait(baton_domain::time::Millis::hours(1));
        world.pass(id);
        let told = world.claim(id, crate::cast::holder(mode)).expect("it is queued");
        assert_eq!(told.events.len(), 1, "what was applied is not delivered again");
        assert_eq!(mark(&world, id), Some(Mark::Applied));
    }
}

#[test]
fn an_attempt_that_was_stopped_first_knows_where_its_reason_is() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    world.agent(id, fail()).expect("it is at work");
    let said = world.flow(id).version;
    world.supervisor(id, proved()).expect("it is stopping");
    let attempt = world.records[&id].iter().find_map(|row| match row {
        Past::Attempt(attempt) => Some(attempt.clone()),
        Past::Run(_) | Past::Checkpoint(_) => None,
    });
    assert_eq!(attempt.expect("it ended").told, Some(said));
    assert!(said < world.flow(id).version, "the proof came later");
    assert_eq!(trail(&world, id).ended[&Ended::Failed], 1);
}

/// The maker's own agent did it: it need not be told.
#[test]
fn nobody_is_woken_by_itself() {
    let mut world = world();
    let maker = world.at_work(started(), Mode::Solo);
    let own = |world: &World| world.entries[&maker].last().expect("it was made").events.clone();
    let made = || NewTask { creator_task: Some(maker), ..started() };
    let before = own(&world);
    for says in [complete(), fail(), block(Why::NeedsInput)] {
        let id = world.at_work(made(), Mode::Solo);
        world.agent(id, says).expect("it is at work");
        world.settle();
    }
    assert_eq!(own(&world), before, "the same agent holds both");
    let id = world.made(made());
    world
        .claim(id, baton_domain::lane::Claimant { principal: principal("eve"), ..solo() })
        .expect("free");
    world.agent(id, block(Why::NeedsInput)).expect("it is at work");
    let wakes = |world: &World| {
        let to_maker = |cause: &Cause| matches!(cause, Cause::Wake { .. });
        world.reactions.iter().filter(|it| it.to == maker && to_maker(&it.cause)).count()
    };
    assert_eq!(wakes(&world), 1, "one cause, one word");
    world.settle();
    assert_eq!(own(&world), [Event::Woken { by: id, ended: false }], "somebody else did it");
    world.person(id, Person::Fail { code: code(), reason: reason() }).expect("a person may");
    world.settle();
    assert_eq!(own(&world), [Event::Woken { by: id, ended: false }]);
    let id = world.at_work(made(), Mode::Solo);
    world.supervisor(id, release()).expect("it is held");
    world.settle();
    world.take_up(id, Mode::Solo);
    world.person(id, crate::cast::abandon()).expect("a person may");
    world.settle();
    assert_eq!(own(&world), [Event::Woken { by: id, ended: true }], "a person ended it");
}
