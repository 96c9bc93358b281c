//! Who goes first when more is due than one sweep may do: the same for every store.

use baton_domain::ids::{TaskId, TenantId};
use baton_domain::time::Timestamp;

/// Time that is to pass for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Whether its lease has ended: that a run is free in time is a promise, the rest can wait.
    pub(crate) lease: bool,
    pub(crate) at: Timestamp,
    pub(crate) tenant: TenantId,
    pub(crate) id: TaskId,
}

/// Ended leases first; then tenants take turns, and of those whose turn it is the oldest goes first.
pub(crate) fn in_turns(mut due: Vec<Due>, count_max: usize) -> Vec<Due> {
    due.sort_by(|a, b| (!a.lease, &a.tenant, a.at, a.id).cmp(&(!b.lease, &b.tenant, b.at, b.id)));
    let mut turns: Vec<(usize, Due)> = vec![];
    for due in due {
        let turn = match turns.last() {
            Some((turn, last)) if (last.lease, &last.tenant) == (due.lease, &due.tenant) => {
                turn + 1
            }
            Some(_) | None => 0,
        };
        turns.push((turn, due));
    }
    let place =
        |(turn, due): &(usize, Due)| (!due.lease, *turn, due.at, due.tenant.clone(), due.id);
    turns.sort_by_key(place);
    turns.truncate(count_max);
    turns.into_iter().map(|(_, due)| due).collect()
}

/// How much of a sweep is for what is due, if so much is owed: a flood of one sort must not keep
/// the other from happening at all.
pub(crate) fn share_of_due(count_max: usize, owed: usize) -> usize {
    count_max - owed.min(count_max / 4)
}
