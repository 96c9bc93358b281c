//! What happened, in the order in which it was committed, without gaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_domain::command::{Command, Person};
use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_domain::time::Millis;
use baton_store::read::{About, Happened};
use baton_store::{Aim, Cursor, Entry, Error, Kind};
use baton_testkit::rounds;
use tokio::sync::Notify;

use crate::dump::assert_same;
use crate::words::{caller, complete, ready, retitle, solo, story, text};
use crate::world::World;

pub async fn a_reader_with_a_cursor_misses_nothing(world: &World) {
    let each = rounds(4);
    let (wrote, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..40)
        .map(|_| {
            let (world, wrote, ended) = (world.clone(), Arc::clone(&wrote), Arc::clone(&ended));
            tokio::spawn(async move {
                let mut positions = vec![];
                for _ in 0..each {
                    let create = Command::Create(Box::new(story("one of many")));
                    let aim = Aim::Birth(crate::words::project("web"), vec![create]);
                    let birth = world.ask(aim).await.expect("nothing is wrong with it");
                    let task = birth.task.expect("a birth is about a task").id;
                    let edit = world.tell(task, retitle("changed")).await.expect("an edit");
                    positions.extend([birth.position, edit.position].map(|at| (at, task)));
                    wrote.notify_one();
                }
                ended.fetch_add(1, Ordering::SeqCst);
                wrote.notify_one();
                positions
            })
        })
        .collect();
    let mut seen: Vec<Entry> = vec![];
    let mut after = Cursor { incarnation: 0, position: 1 };
    loop {
        let all_ended = ended.load(Ordering::SeqCst) == writers.len();
        let page = world.store().entries(&world.tenant, after, 7).await.expect("reading works");
        after.position = page.as_of;
        match (page.rows.is_empty(), all_ended) {
            (true, true) => break,
            (true, false) => wrote.notified().await,
            (false, _) => seen.extend(page.rows),
        }
    }
    assert_eq!(seen.len(), usize::try_from(each).expect("a soak is not that long") * 80);
    for (expected, entry) in (2..).zip(&seen) {
        assert_eq!(entry.position, expected, "no position is skipped or told twice");
    }
    for writer in writers {
        for (position, task) in writer.await.expect("no writer panics") {
            let position = position.expect("every order left an entry");
            let index = usize::try_from(position - 2).expect("positions are small");
            let About::Task(told, _) = seen[index].about else { panic!("{:?}", seen[index]) };
            assert_eq!(told, task, "the answer names the entry of its order");
        }
    }
}

pub async fn entries_come_in_pages(world: &World) {
    for _ in 0..4 {
        world.queued().await;
    }
    let page = async |position, count_max| {
        let after = Cursor { incarnation: 0, position };
        let page = world.store().entries(&world.tenant, after, count_max).await;
        let page = page.expect("reading works");
        let positions: Vec<_> = page.rows.iter().map(|entry| entry.position).collect();
        (positions, page.more, page.as_of)
    };
    assert_eq!(page(0, 2).await, (vec![1, 2], true, 2));
    assert_eq!(page(2, 2).await, (vec![3, 4], true, 4));
    assert_eq!(page(4, 2).await, (vec![5], false, 5));
    assert_eq!(page(5, 2).await, (vec![], false, 5));
    assert_eq!(page(0, usize::MAX).await, (vec![1, 2, 3, 4, 5], false, 5));
}

pub async fn a_cursor_of_another_life_has_expired(world: &World) {
    world.queued().await;
    let foreign = Cursor { incarnation: 0x0dd_c0ffee, position: 1 };
    let answer = world.store().entries(&world.tenant, foreign, 10).await;
    assert!(matches!(answer, Err(Error::CursorExpired { .. })), "{answer:?}");
    let start = world.store().entries(&world.tenant, Cursor::start(), 10).await;
    assert_eq!(start.expect("the start is always there").rows.len(), 2);
}

pub async fn a_tenant_without_anything_reads_as_empty(world: &World) {
    let nobody = world.stranger("nobody");
    let page = nobody.store().entries(&nobody.tenant, Cursor::start(), 10).await;
    let page = page.expect("reading works");
    assert_eq!((page.rows, page.more, page.as_of), (vec![], false, 0));
    assert_eq!(nobody.dump().await, "");
}

pub async fn positions_are_counted_per_tenant(world: &World) {
    let acme = world.tenant("acme").await;
    world.queued().await;
    acme.queued().await;
    world.queued().await;
    let positions = |entries: Vec<Entry>| entries.iter().map(|it| it.position).collect::<Vec<_>>();
    assert_eq!(positions(world.entries().await), [1, 2, 3]);
    assert_eq!(positions(acme.entries().await), [1, 2]);
    acme.check_laws().await;
}

pub async fn the_entries_of_a_task_begin_where_they_are_asked_to(world: &World) {
    let task = world.queued().await;
    world.queued().await;
    for title in ["two", "three", "four"] {
        world.tell(task, retitle(title)).await.expect("an edit is accepted");
    }
    let versions = async |task, from, count_max| {
        let told = world.store().entries_of(&world.tenant, task, from, count_max).await;
        let about = |entry: &Entry| match entry.about {
            About::Task(_, version) => version,
            About::Records(_) => 0,
        };
        told.expect("reading works").rows.iter().map(about).collect::<Vec<_>>()
    };
    assert_eq!(versions(task, 1, 10).await, [1, 2, 3, 4]);
    assert_eq!(versions(task, 3, 10).await, [3, 4]);
    assert_eq!(versions(task, 2, 2).await, [2, 3]);
    assert_eq!(versions(task, 5, 10).await, Vec::<u64>::new());
    assert_eq!(versions(TaskId(99), 1, 10).await, Vec::<u64>::new());
}

pub async fn an_entry_tells_who_did_what_and_when(world: &World) {
    let mut bob = caller("bob");
    bob.kind = Kind::Bot;
    bob.origin = text("rest");
    bob.trace = Some(text("trace-1"));
    let task = world.queued().await;
    world.silence(Millis(17));
    let aim = Aim::Task(task, vec![Command::Person(Person::Cancel(text("no use")))]);
    let committed = world.order(bob.clone(), aim, None).await.expect("a person may cancel");
    let entry = world.entries().await.pop().expect("there are entries");
    assert_eq!(Some(entry.position), committed.position);
    assert_eq!((entry.actor, entry.at), (bob, world.now()));
    assert_eq!(entry.about, About::Task(task, 2));
    let Happened::ToTask(events) = entry.happened else { panic!("it happened to a task") };
    let [Event::RunFinished { reason, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reason.as_ref().map(|reason| reason.as_str()), Some("no use"));
}

pub async fn state_and_entry_are_there_together_after_a_restart(world: &World) {
    for _ in 0..5 {
        world.make(ready("work")).await;
        let grip = world.claim(&solo("bob")).await.expect("there is work");
        world.agent(&grip, complete()).await.expect("bob holds it");
        let before = world.dump().await;
        world.reopen();
        assert_same(&before, &world.dump().await, "a restart");
        world.check_laws().await;
    }
}

pub async fn two_seals_at_once_leave_the_audit_whole(world: &World) {
    let store = world.store();
    for _ in 0..4 {
        world.queued().await;
        let first = store.seal();
        world.queued().await;
        let second = store.seal();
        first.await.expect("sealing works");
        second.await.expect("sealing works");
    }
    let audit = world.store().audit().await.expect("reading works");
    assert_eq!(audit.fault, None);
}

pub async fn an_untouched_store_passes_its_audit(world: &World) {
    let acme = world.tenant("acme").await;
    for _ in 0..3 {
        world.queued().await;
        acme.queued().await;
    }
    let before = (world.dump().await, acme.dump().await);
    world.store().seal().await.expect("sealing works");
    world.queued().await;
    world.store().seal().await.expect("sealing works");
    let audit = world.store().audit().await.expect("reading works");
    assert_eq!((audit.entries, audit.fault), (9, None));
    assert!(audit.seals >= 2, "everything was sealed: {}", audit.seals);
    let grown = world.dump().await;
    assert!(grown.len() > before.0.len());
    assert_eq!(acme.dump().await, before.1, "a seal is no entry");
}

pub async fn health_counts_and_ages(world: &World) {
    let task = world.queued().await;
    world.claim(&solo("bob")).await.expect("there is work");
    world.sweep().await;
    world.silence(Millis::seconds(3));
    let health = world.store().health().await.expect("reading works");
    assert_eq!((health.live, health.queued, health.overdue), (1, 0, Millis(0)));
    assert_eq!((health.sweep_age, health.stopped), (Some(Millis::seconds(3)), None));
    assert_eq!((health.commit_age, health.full), (Some(Millis::seconds(3)), false));
    world.tell(task, Person::Cancel(text("no"))).await.expect("a person may cancel");
    world.tell(task, crate::words::abandon()).await.expect("a person may abandon");
    let health = world.store().health().await.expect("reading works");
    assert_eq!((health.live, health.commit_age), (0, Some(Millis(0))));
}
