use std::sync::Arc;

use baton_domain::command::{Agent, Command, Person, Proof};
use baton_domain::contract::Submission;
use baton_domain::ids::{PrincipalId, TaskId, TenantId};
use baton_domain::text::Text;
use tokio::sync::oneshot;

use super::{BYTES_MAX, BYTES_RESERVED, Inbox, Job, RESERVED, TENANT_MAX, TURN, WAITING_MAX, Work};
use crate::order::{Actor, Aim, Order};
use crate::{Certainty, Error};

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a plain word")
}

fn job(order: Order) -> Job {
    // Nobody listens: the answers are not what is asked here.
    Job { bytes: order.bytes(), order, reply: oneshot::channel().0 }
}

fn order(name: &str, task: u64, command: Command) -> Order {
    let (tenant, actor) = (tenant(name), Actor::clockwork());
    Order { tenant, actor, aim: Aim::Task(TaskId(task), vec![command]), request: None }
}

fn more_work(name: &str, task: u64) -> Job {
    let reason = Text::new("reason", "again").expect("a short text");
    job(order(name, task, Command::Person(Person::Retry(reason))))
}

fn end_of_work(name: &str, task: u64) -> Job {
    let principal = PrincipalId::new("ada").expect("a plain word");
    let says = Agent::Complete { summary: None, submission: Submission::default() };
    job(order(name, task, Command::Agent(Proof::Caller { attempt: 1, principal }, says)))
}

/// Tenant and task of what was taken; a sweep is task zero of nobody.
fn taken(batch: &[Work]) -> Vec<(String, u64)> {
    let told = |work: &Work| match work {
        Work::Order(job) => match &job.order.aim {
            Aim::Task(task, _) => (job.order.tenant.to_string(), task.0),
            Aim::Birth(..)
            | Aim::Next(_)
            | Aim::Record(..)
            | Aim::Key(_)
            | Aim::Channel(_)
            | Aim::Sweep(_) => (String::new(), 0),
        },
        Work::Seal(..) | Work::Uses(..) => ("seal".into(), 0),
    };
    batch.iter().map(told).collect()
}

#[test]
fn a_tenant_with_much_to_do_does_not_keep_the_others_waiting() {
    let inbox = Inbox::default();
    for task in 0..500 {
        inbox.push(more_work("loud", task)).expect("there is room");
    }
    inbox.push(more_work("quiet", 1)).expect("there is room");
    inbox.push(more_work("shy", 1)).expect("there is room");
    let batch = taken(&inbox.take(2 * TURN));
    let place = |name: &str| batch.iter().position(|(tenant, _)| tenant == name);
    assert_eq!(place("quiet"), Some(TURN), "after one turn of the other");
    assert_eq!(place("shy"), Some(TURN + 1));
    let mut all = batch.len();
    while inbox.waiting() > 0 {
        all += inbox.take(512).len();
    }
    assert_eq!(all, 502, "everything is handed out once");
}

#[test]
fn orders_of_a_tenant_come_out_as_they_came_in_with_ends_first() {
    let inbox = Inbox::default();
    for task in [1, 2] {
        inbox.push(more_work("one", task)).expect("there is room");
    }
    for task in [3, 4] {
        inbox.push(end_of_work("one", task)).expect("there is room");
    }
    inbox.push(job(Order::sweep(1))).expect("there is room");
    let one = |task| ("one".to_owned(), task);
    let nobody = (String::new(), 0);
    assert_eq!(taken(&inbox.take(9)), [nobody, one(3), one(4), one(1), one(2)]);
}

#[test]
fn one_tenant_does_not_fill_the_place_of_all() {
    let inbox = Inbox::default();
    for task in 0..TENANT_MAX as u64 {
        inbox.push(more_work("one", task)).expect("there is room");
    }
    let refused = inbox.push(more_work("one", 1)).expect_err("that is its share");
    assert!(matches!(refused, Error::Overloaded), "{refused:?}");
    inbox.push(more_work("two", 1)).expect("others have theirs");
}

#[test]
fn when_too_much_waits_new_work_is_refused_and_ends_are_still_accepted() {
    let inbox = Inbox::default();
    for task in 0..(WAITING_MAX - RESERVED) as u64 {
        let name = ["one", "two", "three"][usize::try_from(task % 3).expect("a small number")];
        inbox.push(more_work(name, task)).expect("there is room");
    }
    for name in ["one", "two"] {
        let refused = inbox.push(more_work(name, 1)).expect_err("too much waits");
        assert!(matches!(refused, Error::Overloaded), "{refused:?}");
        assert_eq!(refused.certainty(), Certainty::DidNotHappen);
    }
    for task in 0..RESERVED as u64 {
        inbox.push(end_of_work("one", task)).expect("places are kept for ends of work");
    }
    let refused = inbox.push(end_of_work("one", 1)).expect_err("even ends have a bound");
    assert!(matches!(refused, Error::Overloaded), "{refused:?}");
    inbox.push(job(Order::sweep(1))).expect("time always passes");
    assert_eq!(inbox.waiting(), WAITING_MAX);
    let batch = taken(&inbox.take(10));
    assert_eq!(batch[0].1, 0, "the sweep");
    inbox.push(more_work("one", 1)).expect_err("not below the bound for new work yet");
    inbox.push(end_of_work("one", 1)).expect("there is room for ends again");
}

#[test]
fn a_closed_inbox_hands_out_what_waits_and_takes_nothing_more() {
    let inbox = Inbox::default();
    inbox.push(more_work("one", 1)).expect("there is room");
    inbox.close();
    let refused = inbox.push(more_work("one", 2)).expect_err("it is closed");
    assert!(matches!(refused, Error::Stopped(_)), "{refused:?}");
    assert_eq!(taken(&inbox.take(9)), [("one".to_owned(), 1)]);
    assert!(inbox.take(9).is_empty(), "and does not wait");
    let (reply, mut answer) = oneshot::channel();
    inbox.push_seals(vec![], reply);
    assert!(answer.try_recv().is_err(), "nobody will answer");
}

#[test]
fn few_orders_that_are_large_are_too_much_as_well() {
    let inbox = Inbox::default();
    let large = |name: &str, bytes: usize| Job { bytes, ..more_work(name, 1) };
    inbox.push(large("one", BYTES_MAX / 2)).expect("a tenant may have half of the room");
    let refused = inbox.push(large("one", 1)).expect_err("and no more");
    assert!(matches!(refused, Error::Overloaded), "{refused:?}");
    assert_eq!(refused.certainty(), Certainty::DidNotHappen);
    inbox.push(large("two", BYTES_MAX / 2 - BYTES_RESERVED)).expect("there is room for another");
    inbox.push(large("three", 1)).expect_err("what is left is for ends of work");
    let end = Job { bytes: BYTES_RESERVED, ..end_of_work("three", 1) };
    inbox.push(end).expect("an end of work finds room");
    assert_eq!(inbox.take(10).len(), 3);
    inbox.push(large("one", BYTES_MAX / 2)).expect("what is taken makes room");
}

#[test]
fn an_order_is_as_large_as_its_texts() {
    let reason = |words: &str| Text::new("reason", words).expect("a text");
    let bytes =
        |words: &str| order("one", 1, Command::Person(Person::Retry(reason(words)))).bytes();
    assert!(bytes(&"x".repeat(2_000)) >= bytes("x") + 1_999);
}

#[test]
fn whoever_can_ask_does_so_before_a_batch_is_taken() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime of one thread").block_on(async {
        let inbox = Arc::new(Inbox::default());
        let own = Arc::clone(&inbox);
        let writer = tokio::spawn(async move { own.next(TURN).await });
        tokio::task::yield_now().await;
        inbox.push(more_work("first", 0)).expect("there is room");
        for task in 1..16 {
            let inbox = Arc::clone(&inbox);
            // The writer was woken before any of these had its first turn.
            tokio::spawn(async move { inbox.push(more_work("first", task)) });
        }
        let batch = taken(&writer.await.expect("it takes what there is"));
        assert_eq!(batch.len(), 16, "{batch:?}");
    });
}
