//! What the writer keeps in memory is what the database holds: a store that was opened again
//! answers like one that never stopped.

use std::sync::Arc;

use baton_domain::command::{Command, Person};
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::project::{Project, RecordCommand};
use baton_domain::time::{Millis, Timestamp};
use baton_store::Store;
use baton_store::clock::{Clock as _, ManualClock};
use baton_store::order::{Aim, Order};
use baton_store::read::{Cursor, Entry, Filter};
use baton_store::sqlite::SqliteStore;
use baton_testkit::disk::Disk;
use baton_testkit::rounds;

use crate::cast::{
    abandon, ann, birth, claim, done as completes, keyed, local, new_task, order, project, put,
    says, short_project, tenant, web,
};
use crate::oracle;
use crate::promise::{Acks, work};
use crate::script::{Script, Tally};
use crate::site::{START, ask, clock, done, open_on, options, wait};

fn open(disk: &Disk, clock: &Arc<ManualClock>) -> SqliteStore {
    open_on(disk, options(clock, 5)).expect("a sound disk")
}

fn entries(store: &SqliteStore, tenant: &TenantId) -> Vec<Entry> {
    let mut all: Vec<Entry> = vec![];
    loop {
        let position = all.last().map_or(0, |entry| entry.position);
        let after = Cursor { incarnation: store.incarnation(), position };
        let page = wait(store.entries(tenant, after, 500)).expect("it reads");
        all.extend(page.rows);
        if !page.more {
            return all;
        }
    }
}

/// Everything that can be read of a tenant, as one text.
fn told(store: &SqliteStore, tenant: &TenantId) -> String {
    let filter = |after| Filter { ended: true, count_max: 500, after, ..Filter::default() };
    let mut tasks = vec![];
    loop {
        let after = tasks.last().map(|row: &baton_store::TaskRow| row.flow.id);
        let page = wait(store.tasks(tenant, filter(after))).expect("it reads");
        tasks.extend(page.rows);
        if page.next.is_none() {
            break;
        }
    }
    let history: Vec<_> = tasks
        .iter()
        .map(|row| wait(store.history(tenant, row.flow.id, None, 500)).expect("it reads"))
        .collect();
    let projects = wait(store.projects(tenant, None, 500)).expect("it reads");
    let pools = wait(store.pools(tenant, None, 500)).expect("it reads");
    format!("{tasks:#?}\n{history:#?}\n{:#?}\n{projects:#?}\n{pools:#?}", entries(store, tenant))
}

/// Asks both stores for the same, one order at a time, and compares every answer.
fn ask_both(old: &SqliteStore, new: &SqliteStore, script: &mut Script, clock: &ManualClock) {
    let mut tally = Tally::default();
    for _ in 0..12 {
        clock.advance(Millis(*script.chance.pick(&[0, 500, 2_500, 4_000])));
        let order = script.next(clock.now());
        let (from_old, from_new) = (ask(old, order.clone()), ask(new, order.clone()));
        assert_eq!(format!("{from_new:?}"), format!("{from_old:?}"), "to {order:?}");
        script.heard(&order, &from_old, &mut tally);
        if matches!(order.aim, Aim::Sweep(_)) {
            script.look(old);
        }
    }
}

#[test]
fn a_store_that_was_opened_again_answers_like_one_that_never_stopped() {
    let (disk, clock) = (Disk::new(3), clock());
    let tenants = [local(), tenant("other")];
    let mut script = Script::new(11, &tenants);
    let (mut acks, mut tally) = (Acks::on(&disk), Tally::default());
    let store = open(&disk, &clock);
    for tenant in &tenants {
        done(&store, put(tenant, project()));
    }
    for _ in 0..rounds(12) {
        work(&store, &clock, &mut script, 20, (&mut acks, &mut tally));
        // A made-up disk remembers no watch, so that the silence must be long for both.
        clock.advance(Millis::seconds(6));
        let copy = disk.image().mount(4);
        let again = open(&copy, &clock);
        for tenant in &tenants {
            assert_eq!(told(&again, tenant), told(&store, tenant));
        }
        script.look(&store);
        ask_both(&store, &again, &mut script, &clock);
        for tenant in &tenants {
            assert_eq!(told(&again, tenant), told(&store, tenant));
        }
        drop(again);
        oracle::check(&copy.image().open().expect("it opens")).expect("it is whole");
    }
    println!("{tally:?}");
    assert!(tally.is_full_day(), "not enough happened: {tally:?}");
    for tenant in &tenants {
        let positions: Vec<_> = entries(&store, tenant).iter().map(|it| it.position).collect();
        assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>(), "without gaps");
    }
}

#[test]
fn what_is_due_still_happens_after_a_restart_and_at_the_same_time() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("one")));
    done(&store, claim(&local(), TaskId(1), "ada", 1));
    drop(store);
    clock.advance(Millis::seconds(3));
    let store = open(&disk, &clock);
    let mut seconds = 3;
    while done(&store, Order::sweep(8)).swept.due == 0 {
        assert!(seconds < 400, "the lease of five minutes never ends");
        clock.advance(Millis::seconds(1));
        seconds += 1;
    }
    assert_eq!(seconds, 300);
    let row = wait(store.task(&local(), TaskId(1))).expect("it reads").what.expect("it is there");
    assert!(row.lease.is_none());
}

#[test]
fn a_reaction_left_over_is_carried_out_once() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("first")));
    let mut second = new_task("second");
    second.depends_on.insert(TaskId(1));
    done(&store, birth(&local(), second));
    done(&store, claim(&local(), TaskId(1), "ada", 1));
    done(&store, says(&local(), TaskId(1), "ada", 1, completes()));
    drop(store);
    let store = open(&disk, &clock);
    let before = entries(&store, &local()).len();
    assert_eq!(done(&store, Order::sweep(8)).swept.reactions, 1);
    assert_eq!(entries(&store, &local()).len(), before + 1);
    done(&store, claim(&local(), TaskId(2), "bob", 2));
    drop(store);
    let store = open(&disk, &clock);
    let swept = done(&store, Order::sweep(8)).swept;
    assert_eq!((swept.due, swept.reactions, swept.more), (0, 0, false), "nothing is left");
}

#[test]
fn time_never_goes_back_even_if_the_clock_does() {
    let (disk, later) = (Disk::new(1), clock());
    let store = open(&disk, &later);
    done(&store, put(&local(), short_project()));
    later.advance(Millis::hours(1));
    let last = done(&store, birth(&local(), new_task("one"))).at;
    drop(store);
    let earlier = Arc::new(ManualClock::at(Timestamp(START.0 - 3_600_000)));
    let store = open(&disk, &earlier);
    assert_eq!(done(&store, birth(&local(), new_task("two"))).at, last);
    earlier.advance(Millis::minutes(5));
    assert_eq!(done(&store, birth(&local(), new_task("three"))).at, last);
    drop(store);
    // The machine's own clock is decades behind the last entry.
    let mut own = options(&earlier, 6);
    own.clock = None;
    let store = open_on(&disk, own).expect("a sound disk");
    assert!(store.clock().now() >= last);
    assert!(done(&store, birth(&local(), new_task("four"))).at >= last);
    let times: Vec<_> = entries(&store, &local()).iter().map(|entry| entry.at).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_request_is_known_again_after_a_restart() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    let first = done(&store, keyed(birth(&local(), new_task("one")), "key"));
    drop(store);
    let store = open(&disk, &clock);
    let again = done(&store, keyed(birth(&local(), new_task("one")), "key"));
    assert!(again.replayed && again.position == first.position);
    let other = ask(&store, keyed(birth(&local(), new_task("two")), "key"));
    assert!(matches!(other, Err(baton_store::Error::KeyReused)), "{other:?}");
}

/// A store with an ended task that is due to be put away in ten seconds.
fn with_an_ended_task(disk: &Disk, clock: &Arc<ManualClock>) -> SqliteStore {
    let store = open(disk, clock);
    done(&store, put(&local(), project()));
    done(&store, birth(&local(), new_task("one")));
    done(&store, abandon(&local(), TaskId(1)));
    store
}

#[test]
fn an_ended_task_of_a_removed_project_does_not_stop_time() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = with_an_ended_task(&disk, &clock);
    let remove = Aim::Record(RecordCommand::RemoveProject, Some(web()));
    done(&store, order(&local(), ann(), remove));
    done(&store, put(&tenant("other"), project()));
    let mut waits = new_task("waits");
    waits.start_at = Some(clock.now() + Millis::seconds(12));
    done(&store, birth(&tenant("other"), waits));
    clock.advance(Millis::seconds(20));
    let due = [1, 2, 3].map(|_| done(&store, Order::sweep(1)).swept.due);
    assert_eq!(due, [1, 0, 0], "nothing is due for ever");
    let row = wait(store.task(&tenant("other"), TaskId(1))).expect("it reads").what.expect("there");
    assert_eq!(row.flow.run.as_ref().map(|run| run.word()), Some("queued"), "others go on");
}

#[test]
fn a_task_that_is_to_be_put_away_later_is_put_away_later() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = with_an_ended_task(&disk, &clock);
    let patient = Project { archive_after: Some(Millis::seconds(60)), ..project() };
    done(&store, put(&local(), patient));
    let mut archived_after = None;
    for seconds in 1..=70 {
        clock.advance(Millis::seconds(1));
        let before = entries(&store, &local()).len();
        done(&store, Order::sweep(8));
        if entries(&store, &local()).len() > before {
            assert_eq!(archived_after.replace(seconds), None, "once");
        }
    }
    assert_eq!(archived_after, Some(60));
}

#[test]
fn an_order_that_says_the_same_twice_does_not_stop_the_store() {
    let (disk, clock) = (Disk::new(1), clock());
    let store = open(&disk, &clock);
    done(&store, put(&local(), short_project()));
    done(&store, birth(&local(), new_task("one")));
    done(&store, birth(&local(), new_task("two")));
    let depend = Command::Person(Person::Depend { on: TaskId(1), wait: true });
    let twice = Aim::Task(TaskId(2), vec![depend.clone(), depend.clone()]);
    drop(ask(&store, order(&local(), ann(), twice)));
    assert_eq!(store.fault(), None);
    let mut third = new_task("three");
    third.depends_on.insert(TaskId(1));
    let born = Aim::Birth(web(), vec![Command::Create(Box::new(third)), depend]);
    drop(ask(&store, order(&local(), ann(), born)));
    assert_eq!(store.fault(), None);
    done(&store, birth(&local(), new_task("four")));
}
