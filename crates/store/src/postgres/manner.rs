//! How a batch is carried out: on whose connections, and how long it waits for what others hold.

use std::collections::BTreeSet;

use baton_domain::ids::TaskId;

use super::Shared;
use super::connections::Connections;
use super::wire::{Param, params};
use super::writer::Turn;

/// Tasks, each with its tenant.
pub(super) type Tasks = BTreeSet<(i64, TaskId)>;

/// How a batch is carried out.
#[derive(Clone, Copy)]
pub(super) enum Manner<'a> {
    /// Orders that came together. One whose task somebody holds is left out, so that the others do
    /// not wait for it. Once they are judged, the turn is the next batch's.
    Together(&'a Turn),
    /// One order, which waits for whoever holds what it is about.
    Alone,
    /// Claims that stepped over tasks which somebody held, and that wait for these now.
    Hungry(&'a Tasks),
    /// Time that passes: it waits for no task, and for nothing as long as an outage.
    Sweep,
    /// The same after somebody was met who does not let go.
    Hurried,
}

impl<'a> Manner<'a> {
    /// A sweep has a connection of its own: however slow orders are, leases end in time.
    pub(super) fn connections(self, shared: &Shared) -> &Connections {
        match self {
            Self::Together(_) | Self::Alone | Self::Hungry(_) => &shared.writers,
            Self::Sweep | Self::Hurried => &shared.sweepers,
        }
    }

    /// How long a lock and a statement may take; of claims that wait, until they have what they
    /// wait for.
    pub(super) fn bounds(self) -> Vec<Param> {
        let (lock, statement) = match self {
            Self::Together(_) | Self::Alone => ("5s", "8s"),
            Self::Hungry(_) => ("1s", "8s"),
            Self::Sweep => ("1s", "4s"),
            Self::Hurried => ("250ms", "4s"),
        };
        params![lock.to_owned(), statement.to_owned()]
    }

    /// Everything is judged: what is left is to write it.
    pub(super) fn judged(self) {
        match self {
            Self::Together(turn) => turn.end(),
            Self::Alone | Self::Hungry(_) | Self::Sweep | Self::Hurried => {}
        }
    }

    /// Whether a task that somebody holds is waited for.
    pub(super) fn waits(self) -> bool {
        match self {
            Self::Alone | Self::Hungry(_) => true,
            Self::Together(_) | Self::Sweep | Self::Hurried => false,
        }
    }

    /// What is locked besides what orders name.
    pub(super) fn besides(self) -> Option<&'a Tasks> {
        match self {
            Self::Hungry(tasks) => Some(tasks),
            Self::Together(_) | Self::Alone | Self::Sweep | Self::Hurried => None,
        }
    }
}
