//! In which order groups of cars are tried. Pure: what came of each is told by whoever tried it.

use std::collections::VecDeque;

use super::{BATCH_MAX, Car};

/// Groups that are still to be tried, the next one first.
#[derive(Debug)]
pub(super) struct Queue {
    groups: VecDeque<Vec<Car>>,
}

impl Queue {
    /// All of them, in batches, in the order in which they came.
    pub(super) fn new(cars: Vec<Car>) -> Self {
        Self { groups: cars.chunks(BATCH_MAX).map(<[Car]>::to_vec).collect() }
    }

    pub(super) fn next(&mut self) -> Option<Vec<Car>> {
        self.groups.pop_front()
    }

    /// The same group once more: the branch was moved by somebody else.
    pub(super) fn again(&mut self, group: Vec<Car>) {
        self.first(group);
    }

    /// These next.
    pub(super) fn first(&mut self, group: Vec<Car>) {
        if !group.is_empty() {
            self.groups.push_front(group);
        }
    }

    /// These after all others.
    pub(super) fn after(&mut self, group: Vec<Car>) {
        if !group.is_empty() {
            self.groups.push_back(group);
        }
    }

    /// One of them is to blame, or two do not go together: each half is tried by itself, the first one first.
    pub(super) fn part(&mut self, mut group: Vec<Car>) {
        let second = group.split_off(group.len().div_ceil(2));
        self.first(second);
        self.first(group);
    }
}

#[cfg(test)]
mod tests;
