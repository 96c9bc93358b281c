use baton_domain::ids::{AttemptId, TaskId};

use crate::worktree::Work;

use super::super::{BATCH_MAX, Car};
use super::Queue;

fn cars(count: u64) -> Vec<Car> {
    let oid = || "a".repeat(40).parse().expect("an object's name");
    let car = |number| Car {
        attempt: AttemptId { task: TaskId(number), number: 1 },
        run: format!("R-{number}.1"),
        subject: "feat: something".to_owned(),
        work: Work { head: oid(), base: oid() },
    };
    (1..=count).map(car).collect()
}

fn numbers(group: &[Car]) -> Vec<u64> {
    group.iter().map(|car| car.attempt.task.0).collect()
}

#[test]
fn cars_ride_in_batches_in_the_order_in_which_they_came() {
    let mut queue = Queue::new(cars(10));
    let first = queue.next().expect("there are some");
    assert_eq!(first.len(), BATCH_MAX);
    assert_eq!(numbers(&queue.next().expect("there are more")), [9, 10]);
    assert!(queue.next().is_none());
}

#[test]
fn a_batch_that_fails_is_parted_until_one_is_alone() {
    let mut queue = Queue::new(cars(5));
    let mut tried = vec![];
    // The third one is to blame.
    while let Some(group) = queue.next() {
        tried.push(numbers(&group));
        if numbers(&group).contains(&3) && group.len() > 1 {
            queue.part(group);
        }
    }
    let parts: [&[u64]; 7] = [&[1, 2, 3, 4, 5], &[1, 2, 3], &[1, 2], &[3], &[4, 5], &[], &[]];
    assert_eq!(tried, parts[..5].to_vec());
}
