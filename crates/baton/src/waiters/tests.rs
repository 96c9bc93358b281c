use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::command::NewTask;
use baton_domain::event::{Event, Opened};
use baton_domain::ids::{PrincipalId, ProjectId, StageName, TaskId, TenantId};
use baton_domain::lane::{Claimant, Lane, Wants};
use baton_domain::pool::PoolName;
use baton_domain::project::WorkedBy;
use baton_domain::run::{Mode, Purpose};
use baton_domain::task::{Flow, Priority, Task};
use baton_domain::text::Title;
use baton_domain::time::Timestamp;
use baton_store::{Error, Freed};

use super::{Ticket, Waiters};
use crate::metrics::Wake;

mod concurrent;
mod random;

fn tenant() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

fn claimant(name: &str, stage: Option<&str>) -> Claimant {
    Claimant {
        principal: PrincipalId::new(name).expect("a plain word is a name"),
        person: false,
        mode: Mode::Solo,
        capabilities: [].into(),
        account: None,
        agents: vec![],
        project: None,
        stage: stage.map(|stage| StageName::new(stage).expect("a plain word is a name")),
        priority_min: Priority::Low,
        wants: Wants::Ready,
    }
}

/// A task that is queued in this stage.
fn queued(stage: &str) -> Task {
    let task = NewTask::new(
        ProjectId::new("demo").expect("a plain word is a name"),
        PrincipalId::new("ann").expect("a plain word is a name"),
        Title::new("title", "something").expect("it is a title"),
    );
    let created =
        Event::Created { id: TaskId(1), ancestors: vec![], met: vec![], task: Box::new(task) };
    let mut task = Task::born(&created, Timestamp(0)).expect("it is a birth");
    let stage = StageName::new(stage).expect("a plain word is a name");
    let run = Opened {
        number: 1,
        stage: stage.clone(),
        previous: None,
        depth: 0,
        due_at: None,
        worked_by: WorkedBy::Agent,
    };
    let moved = Event::Moved { to: Some(stage), run: Some(run), doubted: false };
    task.apply(&moved, Timestamp(0));
    task
}

fn lane(stage: &str) -> Lane {
    queued(stage).flow.lanes().pop().expect("a queued task has a lane")
}

/// The same task after somebody claimed it.
fn held(stage: &str) -> Flow {
    let mut task = queued(stage);
    let holder = PrincipalId::new("ann").expect("a plain word is a name");
    let purpose = Purpose::Work;
    let claimed = Event::Claimed { attempt: 1, holder, mode: Mode::Solo, purpose, takes: vec![] };
    task.apply(&claimed, Timestamp(0));
    task.flow
}

fn ring(waiters: &Arc<Waiters>, stage: &str) {
    waiters.bell()(&[Freed::Lane(tenant(), lane(stage))]);
}

fn join(waiters: &Arc<Waiters>, name: &str, stage: Option<&str>) -> Ticket {
    waiters.join(&tenant(), &claimant(name, stage)).expect("there is room")
}

fn full(name: &str) -> Refusal {
    let own = PoolName::Holder(PrincipalId::new(name).expect("a plain word is a name"));
    Refusal::HolderFull { pool: own.to_string(), held: None }
}

fn woken(tickets: &[&Ticket]) -> Vec<bool> {
    tickets.iter().map(|ticket| ticket.is_woken()).collect()
}

#[test]
fn each_freed_item_wakes_the_first_who_may_take_it_and_nobody_else() {
    let waiters = Waiters::new();
    let qa = join(&waiters, "qa", Some("qa"));
    let first = join(&waiters, "first", None);
    let second = join(&waiters, "second", Some("coding"));
    ring(&waiters, "coding");
    assert_eq!(woken(&[&qa, &first, &second]), [false, true, false]);
    ring(&waiters, "coding");
    assert_eq!(woken(&[&qa, &first, &second]), [false, true, true]);
    ring(&waiters, "coding");
    assert_eq!(woken(&[&qa, &first, &second]), [false, true, true]);
    assert_eq!(waiters.wakes().count(Wake::Lane), 2);
}

#[test]
fn whoever_is_looking_is_woken_by_what_is_freed_meanwhile() {
    let waiters = Waiters::new();
    let mut ticket = join(&waiters, "ann", None);
    ticket.look();
    ring(&waiters, "coding");
    ticket.found_nothing(&claimant("ann", None), &Refusal::NothingClaimable);
    assert!(ticket.is_woken());
}

#[test]
fn whoever_leaves_hands_its_wake_up_to_the_next() {
    let waiters = Waiters::new();
    let first = join(&waiters, "first", None);
    let other = join(&waiters, "other", Some("qa"));
    let second = join(&waiters, "second", None);
    ring(&waiters, "coding");
    drop(first);
    assert_eq!(woken(&[&other, &second]), [false, true]);
    assert_eq!(waiters.wakes().count(Wake::HandedOn), 1);
}

#[test]
fn whoever_leaves_while_it_looks_hands_on_all_that_it_was_told() {
    let waiters = Waiters::new();
    let mut first = join(&waiters, "first", None);
    let second = join(&waiters, "second", Some("qa"));
    let third = join(&waiters, "third", None);
    ring(&waiters, "coding");
    first.look();
    ring(&waiters, "qa");
    drop(first);
    assert_eq!(woken(&[&second, &third]), [true, true]);
}

#[test]
fn whoever_took_what_it_was_woken_for_wakes_nobody() {
    let waiters = Waiters::new();
    let mut first = join(&waiters, "first", None);
    let second = join(&waiters, "second", None);
    ring(&waiters, "coding");
    first.look();
    first.found(&held("coding"));
    drop(first);
    assert!(!second.is_woken());
    assert_eq!(waiters.wakes().count(Wake::HandedOn), 0);
}

#[test]
fn whoever_took_something_else_hands_on_what_it_was_woken_for() {
    let waiters = Waiters::new();
    let mut first = join(&waiters, "first", None);
    let second = join(&waiters, "second", Some("coding"));
    let third = join(&waiters, "third", Some("qa"));
    ring(&waiters, "qa");
    first.look();
    first.found(&held("coding"));
    assert_eq!(woken(&[&second, &third]), [false, true]);
}

#[test]
fn whoever_holds_enough_already_lets_the_next_look() {
    let waiters = Waiters::new();
    let mut busy = join(&waiters, "busy", None);
    let next = join(&waiters, "next", None);
    ring(&waiters, "coding");
    busy.look();
    busy.found_nothing(&claimant("busy", None), &full("busy"));
    assert_eq!(woken(&[&busy, &next]), [false, true]);
}

#[test]
fn a_limit_that_all_share_wakes_nobody_else() {
    let waiters = Waiters::new();
    let mut first = join(&waiters, "first", None);
    let second = join(&waiters, "second", None);
    let shared = lane("coding").takes(&claimant("first", None)).swap_remove(0).pool;
    let full = Refusal::PoolFull { pool: shared.to_string() };
    let paused = Refusal::Paused { pool: PoolName::Scheduler.to_string() };
    for refusal in [full, paused, Refusal::NothingClaimable] {
        ring(&waiters, "coding");
        first.look();
        first.found_nothing(&claimant("first", None), &refusal);
        assert_eq!(woken(&[&first, &second]), [false, false]);
    }
}

#[test]
fn room_in_pools_wakes_everybody_of_the_tenant() {
    let waiters = Waiters::new();
    let first = join(&waiters, "first", None);
    let second = join(&waiters, "second", Some("qa"));
    let elsewhere = TenantId::new("elsewhere").expect("a plain word is a name");
    let foreign = waiters.join(&elsewhere, &claimant("foreign", None)).expect("there is room");
    waiters.bell()(&[Freed::Pools(tenant()), Freed::Pools(tenant())]);
    assert_eq!(woken(&[&first, &second, &foreign]), [true, true, false]);
    assert_eq!(waiters.wakes().count(Wake::Pools), 2);
}

#[test]
fn one_tenant_may_have_only_so_many_waiters() {
    let waiters = Waiters::at_most(2);
    let first = join(&waiters, "first", None);
    let _second = join(&waiters, "second", None);
    let refused = waiters.join(&tenant(), &claimant("third", None)).err();
    assert!(matches!(refused, Some(Error::Overloaded)));
    let elsewhere = TenantId::new("elsewhere").expect("a plain word is a name");
    assert!(waiters.join(&elsewhere, &claimant("foreign", None)).is_ok());
    drop(first);
    assert!(waiters.join(&tenant(), &claimant("third", None)).is_ok());
}

#[test]
fn nobody_is_left_when_all_have_gone() {
    let waiters = Waiters::new();
    drop((join(&waiters, "first", None), join(&waiters, "second", None)));
    assert!(waiters.is_empty());
    assert_eq!(waiters.wakes().waiting.get(), 0);
    assert!(waiters.lock().of.is_empty());
}

#[tokio::test]
async fn closing_sends_everybody_away_and_lets_nobody_in() {
    let waiters = Waiters::new();
    let mut ticket = join(&waiters, "first", None);
    let sent_away = tokio::spawn(async move { ticket.woken().await });
    waiters.close();
    let told = sent_away.await.expect("it does not panic");
    assert!(matches!(told, Err(Error::Stopped(_))));
    assert!(waiters.join(&tenant(), &claimant("late", None)).is_err());
}
